"""All structs and signatures at the boundaries between Python, generated code and C, declared once.

A `Struct` is a table of fields: `ctypes()` and `c()` return it as a ctypes class and as a C declaration,
`index` and `offset` locate a field. Offsets and sizes depend on `pointer_bytes`, the size of the machine's
pointers; C compilers compute their own. Tests compare both with the output of compilers. The return codes of
programs are those of `axla.core.status`.

The entry of a program is `i32 axla_entry(ptr frame)`; it returns 0 on success. A kernel is `i32 kernel(ptr
frame, ptr args, i64 begin, i64 end)`: only the kernel and its caller interpret `args`, and `[begin, end)` is
a range of its outer index space. `frame->parallel_for(frame, kernel, args, count, grain)` runs the kernel on
[0, grain), [grain, 2*grain), ... below count. The ranges never depend on the number of threads. It polls the
cancel flag before each range, and returns the code of the first range, in index order, that failed.
"""

from __future__ import annotations

import ctypes as c
from functools import lru_cache
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.status import CANCELLED as CANCELLED
from axla.core.status import COLLECTIVE as COLLECTIVE
from axla.core.status import CUSTOM_CALL as CUSTOM_CALL
from axla.core.status import DEADLINE as DEADLINE
from axla.core.status import DEVICE as DEVICE
from axla.core.status import FIRST_MESSAGE, FRAME_ERRORS
from axla.core.status import INTERRUPTED as INTERRUPTED
from axla.core.status import OK as OK
from axla.core.status import OUT_OF_MEMORY as OUT_OF_MEMORY
from axla.core.status import WRONG_FRAME as WRONG_FRAME
from axla.core.templates import fill

FRAME_VERSION = 1

RNG_SEED = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
"""The state of the random number ops at the start of a program."""

POINTER = 8
"""The bytes of a pointer in this process; 4 for targets of 32 bits."""

# Type name: (ctypes class, LLVM type, C type, bytes on a 64-bit machine). i64 is aligned to 8 bytes
# everywhere.
_TYPES: dict[str, tuple[type, str, str, int]] = {
    "i8": (c.c_int8, "i8", "int8_t", 1),
    "i32": (c.c_int32, "i32", "int32_t", 4),
    "i64": (c.c_int64, "i64", "int64_t", 8),
    "u64": (c.c_uint64, "i64", "uint64_t", 8),
    "ptr": (c.c_void_p, "ptr", "void *", 8),
}


@dataclass(frozen=True, slots=True)
class CField:
    """A field of a struct at a boundary: an integer, a pointer, or an array of `count` of these."""

    name: str
    type: str
    doc: str
    c_type: str = ""  # a more specific C type of the same size
    count: int = 1

    @property
    def llvm(self) -> str:
        """The LLVM type of the field; for an array, that of its elements."""
        return _TYPES[self.type][1]

    def align(self, pointer_bytes: int = POINTER) -> int:
        """The alignment in bytes, which is the size of the integer or pointer."""
        return pointer_bytes if self.type == "ptr" else _TYPES[self.type][3]

    def size(self, pointer_bytes: int = POINTER) -> int:
        """The size in bytes of all `count` values."""
        return self.align(pointer_bytes) * self.count


class Struct:
    """A struct at a boundary, laid out by the rules of C: each field is at the next multiple of its
    alignment.
    """

    def __init__(self, name: str, doc: str, *fields: CField) -> None:
        self.name, self.doc, self.fields = name, doc, fields

    def index(self, name: str) -> int:
        """The position of a field, as `getelementptr` counts; KeyError if the struct does not have it."""
        for i, field in enumerate(self.fields):
            if field.name == name:
                return i
        raise KeyError(f"struct {self.name} has no field {name!r}")

    def offset(self, name: str, pointer_bytes: int = POINTER) -> int:
        """The offset of a field in bytes."""
        return _offsets(self, pointer_bytes)[self.index(name)]

    @property
    def size(self) -> int:
        """The size of the struct on a 64-bit machine, in bytes."""
        return self.size_on(POINTER)

    def size_on(self, pointer_bytes: int) -> int:
        """The size of the struct, in bytes, on a machine with pointers of `pointer_bytes`."""
        return _offsets(self, pointer_bytes)[-1]

    def ctypes(self) -> type[c.Structure]:
        """The ctypes class of the struct; every call returns the same one."""
        return _ctypes(self)

    def c(self, *, named: bool = True) -> str:
        """The C declaration with the documentation as comments: `typedef struct {...} NAME`; with `named`
        False, a struct whose typedef is elsewhere.
        """
        lines = [f"/* {self.doc} */", f"{'typedef ' if named else ''}struct {self.name} {{"]
        for f in self.fields:
            kind = f.c_type or _TYPES[f.type][2]
            gap = "" if kind.endswith("*") else " "
            array = "" if f.count == 1 else f"[{f.count}]"
            lines.append(f"  {kind}{gap}{f.name}{array}; /* {f.doc} */")
        return "\n".join([*lines, f"}} {self.name};" if named else "};"])


@lru_cache
def _offsets(struct: Struct, pointer_bytes: int) -> tuple[int, ...]:
    """The offset of every field, then the size of the struct, padded to its alignment."""
    offsets, at, widest = [], 0, 1
    for f in struct.fields:
        align = f.align(pointer_bytes)
        at = -(-at // align) * align
        offsets.append(at)
        at += f.size(pointer_bytes)
        widest = max(widest, align)
    return (*offsets, -(-at // widest) * widest)


@lru_cache
def _ctypes(struct: Struct) -> type[c.Structure]:
    kinds: list[tuple[CField, Any]] = [(f, _TYPES[f.type][0]) for f in struct.fields]
    return structure(struct.doc, **{f.name: k if f.count == 1 else k * f.count for f, k in kinds})


def structure(doc: str, /, **fields: Any) -> Any:
    """Makes the ctypes class of a struct. `fields` maps names to ctypes in the order of the struct; `doc` is
    the docstring of the class.
    """
    return type("Structure", (c.Structure,), {"_fields_": list(fields.items()), "__doc__": doc})


FRAME = Struct(
    "axla_frame",
    "The data of one run of a program. The caller makes it; no other run uses it at the same time.",
    CField("version", "i32", "FRAME_VERSION; the entry refuses another one"),
    CField("reserved", "i32", "0"),
    CField("arguments", "ptr", "addresses of the parameter leaves", "void *const *"),
    CField("results", "ptr", "addresses of the results, as in S_results (no variables)", "void *const *"),
    CField("constants", "ptr", "start of the constants segment, 64-byte aligned", "const void *"),
    CField("workspace", "ptr", "scratch memory of this run, 64-byte aligned"),
    CField("functions", "ptr", "the function table, in the order of the interface", "void *const *"),
    CField("parallel_for", "ptr", "runs a kernel over ranges of its index space", "axla_parallel_for *"),
    CField("pool", "ptr", "context of parallel_for"),
    CField("cancel", "ptr", "the run stops when it is not 0; polled", "const volatile int32_t *"),
    CField("run_id", "i64", "unique in the process; all replicas of a run have the same"),
    CField("replica", "i32", "replica id"),
    CField("partition", "i32", "partition id"),
    CField("rng_state", "u64", "state of the stateful random number ops", count=2),
    CField("error_code", "i32", "set together with a non-zero return value"),
    CField("error_step", "i32", "the step of the program that failed"),
    CField("error_detail", "i64", "a number for the message of error_code"),
    CField("peers", "ptr", "context of collectives; null for a single participant"),
)

STATUS_TEXT = 1000

STATUS = Struct(
    "axla_status",
    "The outcome of a custom call with a status-returning convention of XLA; zero before the call.",
    CField("failed", "i32", "not 0 if the call failed"),
    CField("length", "i32", "bytes of the message"),
    CField("message", "i8", "what went wrong, UTF-8", "char", count=STATUS_TEXT),
)


def status_message(address: int) -> str:
    """The message of a failed call, from the STATUS struct at an address."""
    status = STATUS.ctypes().from_address(address)
    length = min(max(status.length, 0), STATUS_TEXT)
    return c.string_at(address + STATUS.offset("message"), length).decode("utf-8", "replace")


STRUCTS = (FRAME, STATUS)


def c_frame() -> str:
    """The C99 and C++ header for callers: error codes, signatures, the frame. It may be included twice."""
    codes = [f"  AXLA_{row.name.upper()} = {code}, /* {row.about} */" for code, row in FRAME_ERRORS.items()]
    codes.append(f"  AXLA_FIRST_MESSAGE = {FIRST_MESSAGE} /* this and above: the program's own messages */")
    frame = FRAME.c(named=False)
    return fill("program/frame.h", VERSION=str(FRAME_VERSION), CODES=codes, FRAME=frame)


def c_header() -> str:
    """The C header with all structs, signatures and error codes."""
    return fill("program/abi.h", FRAME=c_frame(), STATUS=STATUS.c()) + "\n"
