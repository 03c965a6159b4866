"""The table of errors: it relates classes of AxlaError, status codes, and return codes of compiled programs.

The members of `Status` are the codes of XLA (absl), PJRT and gRPC, which have the same numbers. `STATUS` has
the code of each class, `CLASSES` the class raised for a code, `FRAME_ERRORS` the meaning of return codes of
compiled programs. C headers, C++ and Rust libraries, the runtime, and interfaces to other processes use these
tables.
"""

from __future__ import annotations

from enum import IntEnum

from axla.core import errors
from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError

Status = IntEnum(
    "Status",
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE "
    "DATA_LOSS UNAUTHENTICATED",
    start=0,
)
"""Status codes of absl, tsl, PJRT_Error_Code and gRPC."""

# An error that is only known by its status is raised as the first class with that status.
STATUS: dict[type[AxlaError], Status] = {
    errors.AxlaError: Status.UNKNOWN,
    errors.InvalidArgument: Status.INVALID_ARGUMENT,
    errors.ParseError: Status.INVALID_ARGUMENT,
    errors.ShapeError: Status.INVALID_ARGUMENT,
    errors.VerifyError: Status.INVALID_ARGUMENT,
    errors.UnsupportedError: Status.UNIMPLEMENTED,
    errors.RuntimeFailure: Status.FAILED_PRECONDITION,
    errors.CompileError: Status.FAILED_PRECONDITION,
    errors.OutOfMemory: Status.RESOURCE_EXHAUSTED,
    errors.DeadlineExceeded: Status.DEADLINE_EXCEEDED,
    errors.Cancelled: Status.CANCELLED,
    errors.CollectiveFailure: Status.ABORTED,
    errors.Mismatch: Status.DATA_LOSS,
    errors.InternalError: Status.INTERNAL,
    errors.CustomCallFailure: Status.INTERNAL,
}
CLASSES: dict[Status, type[AxlaError]] = {
    **dict.fromkeys(Status, errors.InvalidArgument),  # NOT_FOUND, OUT_OF_RANGE...
    Status.UNAVAILABLE: errors.RuntimeFailure,
    **{status: kind for kind, status in reversed(STATUS.items())},
}
del CLASSES[Status.OK]

# Return codes of compiled programs. Codes from FIRST_MESSAGE on are indices into the program's own messages.
OK, CANCELLED, DEADLINE, INTERRUPTED, OUT_OF_MEMORY, CUSTOM_CALL, COLLECTIVE = range(7)
WRONG_FRAME, INTERNAL, NO_BATCH, DEVICE = 7, 8, 9, 10
NO_FILE, DAMAGED_FILE, OTHER_FILE = 64, 65, 66
FIRST_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class FrameError:
    """A return code of a compiled program: its C name without AXLA_, its message, the class raised for it,
    and its status.
    """

    name: str
    about: str
    raises: type[errors.RuntimeFailure]
    status: Status


_row, _FAILURE = FrameError, errors.RuntimeFailure
FRAME_ERRORS: dict[int, FrameError] = {
    CANCELLED: _row("cancelled", "the run was cancelled", errors.Cancelled, Status.CANCELLED),
    DEADLINE: _row("deadline", "the deadline passed before the program ended",
        errors.DeadlineExceeded, Status.DEADLINE_EXCEEDED),
    INTERRUPTED: _row("interrupted", "the run was stopped by a signal", errors.Cancelled, Status.CANCELLED),
    OUT_OF_MEMORY: _row("out_of_memory", "out of memory", errors.OutOfMemory, Status.RESOURCE_EXHAUSTED),
    CUSTOM_CALL: _row("custom_call", "a custom call reported an error",
        errors.CustomCallFailure, Status.INTERNAL),
    COLLECTIVE: _row("collective", "a collective did not meet its peers",
        errors.CollectiveFailure, Status.ABORTED),
    WRONG_FRAME: _row("wrong_frame", "the call frame has another version than the program",
        _FAILURE, Status.FAILED_PRECONDITION),
    INTERNAL: _row("internal", "the generated code met a state that cannot be", _FAILURE, Status.INTERNAL),
    NO_BATCH: _row("no_batch", "no function was compiled for this number of rows",
        _FAILURE, Status.UNIMPLEMENTED),
    DEVICE: _row("device", "a device, or its driver, reported an error",
        _FAILURE, Status.UNAVAILABLE),
    NO_FILE: _row("no_file", "the file cannot be opened or read, or there is no memory for it",
        _FAILURE, Status.NOT_FOUND),
    DAMAGED_FILE: _row("damaged_file", "the file is not a safetensors file, or its contents have changed",
        _FAILURE, Status.DATA_LOSS),
    OTHER_FILE: _row("other_file", "the file is right, but of another library, or lacks what is wanted",
        _FAILURE, Status.INVALID_ARGUMENT),
}  # fmt: skip


def status_of(error: BaseException) -> Status:
    """The status for an exception: the one that it carries, or that of its return code, or that of its class
    or nearest base class.
    """
    if isinstance(error, errors.CustomCallFailure) and error.status:
        return Status(error.status)
    row = FRAME_ERRORS.get(getattr(error, "code", 0))
    if row is not None and isinstance(error, row.raises):
        return row.status
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    if isinstance(error, KeyboardInterrupt):
        return Status.CANCELLED
    return Status.RESOURCE_EXHAUSTED if isinstance(error, MemoryError) else Status.UNKNOWN


def class_of_frame(code: int) -> type[errors.RuntimeFailure]:
    """The exception class for a return code of a compiled program; RuntimeFailure for the program's own
    messages.
    """
    return FRAME_ERRORS[code].raises if code in FRAME_ERRORS else _FAILURE


def frame_message(code: int, own: tuple[str, ...] = ()) -> str:
    """The message for a return code: one of `own`, the messages of the program, or that of FRAME_ERRORS; ""
    for an unknown code.
    """
    if 0 <= code - FIRST_MESSAGE < len(own):
        return own[code - FIRST_MESSAGE]
    return FRAME_ERRORS[code].about if code in FRAME_ERRORS else ""


def error_named(name: str, status: int, message: str) -> AxlaError:
    """Makes the exception that another process raised: of the class `name`, or, if it is unknown, of the
    class for the status.
    """
    named = {kind.__name__: kind for kind in STATUS}
    known = status in CLASSES
    return named.get(name, CLASSES[Status(status)] if known else AxlaError)(message)
