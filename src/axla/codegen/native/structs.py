"""The structs shared by emitted glue and the Python runtime. They never leave the process, so they have no
version.
"""

from __future__ import annotations

from axla.program.abi import CField, Struct

# Record.flags
EXTERNAL = 1  # axla does not own the memory: it is never written in place
# Program.flags
LONG_RUNNING = 1  # its runs release the interpreter lock
SINGLE_RESULT = 2  # the result is an array, not a tuple
DONATES = 4  # a result takes over the memory of a parameter
EFFECTS = 8  # calls functions that may see in which order runs are started
# Record.ready
PENDING, READY, FAILED = 0, 1, 2
AWAITED = -1  # pending, and a thread sleeps on the field
# The number that each event of a record adds to Record.refs; it is above the counts of arrays, runs and
# exports.
WATCHED = 1 << 20
# Record.flags: the bits from this one on are the number of the record's memory within its device.
MEMORY_SHIFT = 8
# Offset in bytes from a run's cancel flag to a flag that asks the main thread to check for signals.
LOOK = 4


def fields(text: str) -> list[CField]:
    """Fields without documentation, from text: `"refcount:i64, type:ptr"`."""
    pairs = (pair.split(":") for pair in text.split(", "))
    return [CField(name, kind, "") for name, kind in pairs]


RECORD = Struct(
    "axla_record",
    "The memory of an array. `refs` counts the Array, running calls and exports; 1: only one of these.",
    CField("refs", "i32", "changed atomically; at zero the memory is freed; WATCHED for each event"),
    CField("ready", "i32", "READY: the bytes are valid; every reader tests it first"),
    CField("address", "ptr", "never changes, even while the record is not ready"),
    CField("bytes", "i64", "requested size"),
    CField("flags", "i32", "EXTERNAL"),
    CField("device", "i32", "ordinal of the device"),
    CField("release", "ptr", "frees external memory: void (*)(record *)"),
    CField("context", "ptr", "for release; pending: the run's cancel flag; failed: the function that raises"),
    CField("failure", "ptr", "failed: FAILURE, kept by context, for who cannot take the interpreter lock"),
)

FAILURE = Struct(
    "axla_failure",
    "The error of a run, as data.",
    CField("code", "i32", "status code of absl"),
    CField("read", "i32", "1: the error was read"),
    CField("size", "i64", "bytes of the text"),
    CField("text", "ptr", "UTF-8"),
)

SHAPE_INFO = Struct(
    "axla_shape_info",
    "An array shape for native code. There is one for each shape: equal shapes have equal addresses.",
    CField("rank", "i32", "number of dimensions"),
    CField("item_bytes", "i32", "bytes of an element"),
    CField("bytes", "i64", "bytes of the whole array"),
    CField("format", "ptr", "format of the buffer protocol; null: the protocol has none"),
    CField("descr", "ptr", "the NumPy dtype object"),
    CField("dims", "ptr", "sizes, i64"),
    CField("strides", "ptr", "row-major strides in bytes, i64"),
    CField("element", "i32", "number of the element type in the PJRT C API"),
)

# The head of a Python object is two words on the builds that we support (checked in python_abi.py).
ARRAY = Struct(
    "axla_array",
    "The Python object of an array.",
    *fields("refcount:i64, type:ptr"),
    CField("record", "ptr", "null: deleted or donated"),
    CField("info", "ptr", "SHAPE_INFO"),
    CField("info_object", "ptr", "the Python object that owns it"),
    CField(
        "retained", "ptr", "a record whose address was told to somebody: freed with the object, not before"
    ),
    CField("weakrefs", "ptr", "list of weak references"),
    CField("memory", "i64", "1 + number of the memory that it is in, if that was asked for; else 0"),
)

PARAMETER = Struct(
    "axla_parameter",
    "A parameter leaf.",
    CField("info", "ptr", "SHAPE_INFO"),
    CField("alias", "i64", "the result leaf that uses its memory, or -1"),
)

RESULT = Struct(
    "axla_result",
    "A result leaf.",
    CField("info", "ptr", "SHAPE_INFO"),
    CField("info_object", "ptr", "the Python object that owns it"),
    CField("alias", "i64", "the parameter leaf whose memory it uses, or -1"),
)

PROGRAM = Struct(
    "axla_program",
    "The data of a loaded program that a call needs.",
    CField("entry", "ptr", "i32 (*)(frame *)"),
    CField("parameter_count", "i64", ""),
    CField("result_count", "i64", ""),
    CField("parameters", "ptr", "PARAMETER array"),
    CField("results", "ptr", "RESULT array"),
    CField("constants", "ptr", "the constants segment"),
    CField("functions", "ptr", "the function table"),
    CField("workspace_bytes", "i64", "allocated by each run, so runs share none"),
    CField("flags", "i64", "LONG_RUNNING | SINGLE_RESULT | DONATES | EFFECTS"),
    CField("rng_state", "u64", "carried from run to run", count=2),
    CField("queue", "ptr", "QUEUE of its device"),
    CField("handed", "i32", "number of its runs that were handed over"),
    CField("ended", "i32", "number of these that have ended"),
    CField("nanoseconds", "i64", "time of the last of these without an error; 0: none"),
    CField("replica", "i32", "replica of its device"),
    CField("partition", "i32", ""),
)

RUN = Struct(
    "axla_run",
    "A run that released the interpreter lock; on its stack, in the list of all such runs.",
    CField("next", "ptr", ""),
    CField("previous", "ptr", ""),
    CField("program", "ptr", "PROGRAM"),
    CField("forks", "i32", "a forked child forgets the runs of its parent"),
    CField("flags", "ptr", "what frame->cancel points to; see LOOK"),
    CField("outer", "ptr", "in the main thread: the run that this one is nested in"),
    CField("state", "ptr", "the state of its Python thread"),
)

TASK = Struct(
    "axla_task",
    "A run that was handed over. Python makes it, and frees it after its end.",
    CField("next", "ptr", "the task to start after it"),
    CField("program", "ptr", "PROGRAM"),
    CField("lists", "ptr", "addresses of arguments and results, then their RECORDs"),
    CField("owner", "ptr", "the Python object of the task"),
    CField("flags", "i64", "see RUN.flags"),
    CField("ended", "i32", "1: its results are published"),
    CField("claimed", "i32", "1: it has begun, or was stopped before"),
    CField("peers", "ptr", "PEERS, or null"),
    CField("cancel", "ptr", "frame->cancel: its flags, or with peers GRID.stop"),
)

GRID = Struct(
    "axla_grid",
    "The participants of one run in this process.",
    CField("stop", "i32", "frame->cancel of all; not 0: the run has failed, with this code"),
    CField("run_id", "i64", "run id in the frames of all"),
    CField("states", "ptr", "i64 for each participant: see below"),
    CField("busy", "i32", "number of parts of collectives that access the memory of others now"),
    CField("culprit", "i32", "1 + the participant whose failure ends the run; -1: Python has its error"),
    CField("clash", "i64", "1 + the rendezvous to which members came for different collectives"),
)

# States of participants. A positive n means that it waits in rendezvous n - 1 of the grid.
NOT_BEGUN, ENDED, WAITS, RUNS = 0, -1, -2, -3

PEERS = Struct(
    "axla_peers",
    "The other participants, for the code of one program; frame->peers.",
    CField("grid", "ptr", "GRID"),
    CField("rendezvous_keys", "ptr", "addresses of RENDEZVOUS structs, by their numbers in the program"),
    CField("number", "i64", "number of the participant"),
)

QUEUE = Struct(
    "axla_queue",
    "The queue of a device.",
    CField("first", "ptr", "the TASK before the first one to start"),
    CField("last", "ptr", "the TASK to start last"),
    CField("thread", "u64", "thread_id() of its thread"),
    CField("started", "i32", "1: it has a thread"),
    CField("handed", "i32", "number of runs that were handed over"),
    CField("begun", "i32", "number of these that have begun"),
    CField("done", "i32", "number of these that have ended"),
    CField("steps", "i32", "changes when a run begins or ends"),
    CField("closed", "i32", "1: the interpreter ends; the thread ends after its run"),
)

CALLABLE = Struct(
    "axla_callable",
    "The Python object that calls a program.",
    *fields("refcount:i64, type:ptr, vectorcall:ptr"),
    CField("program", "ptr", "PROGRAM"),
    CField("owner", "ptr", "the Python object that keeps the code and the PROGRAM alive"),
)
