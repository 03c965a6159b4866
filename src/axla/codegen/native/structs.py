"""The structs shared by emitted glue and the Python runtime. They never leave the process, so they have no
version.
"""

from __future__ import annotations

from axla.program.abi import Field, Struct

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
# Record.flags: the first bit of the number of the device's memory that the record is in.
MEMORY_SHIFT = 8
# Offset in bytes from a run's cancel flag to a flag that asks the main thread to check for signals.
LOOK = 4


def fields(text: str) -> list[Field]:
    """Fields without documentation, from text: `"refcount:i64, type:ptr"`."""
    pairs = (pair.split(":") for pair in text.split(", "))
    return [Field(name, kind, "") for name, kind in pairs]


RECORD = Struct(
    "axla_record",
    "The memory of an array. `refs` counts the Array, running calls and exports; one: nobody else looks.",
    Field("refs", "i32", "changed atomically; at zero the memory goes back; WATCHED for each event"),
    Field("ready", "i32", "READY: the bytes are there; every reader looks here first"),
    Field("address", "ptr", "final from the start, even while not ready"),
    Field("bytes", "i64", "size asked for"),
    Field("flags", "i32", "EXTERNAL"),
    Field("device", "i32", "ordinal of the device"),
    Field("release", "ptr", "gives external memory back: void (*)(record *)"),
    Field("context", "ptr", "for release; pending: the cancel flag of its run, failed: what raises"),
    Field("failure", "ptr", "failed: FAILURE, which context keeps, for who cannot take the interpreter lock"),
)

FAILURE = Struct(
    "axla_failure",
    "The error of a run, as data.",
    Field("code", "i32", "of absl"),
    Field("read", "i32", "1: somebody knows"),
    Field("size", "i64", "bytes of the text"),
    Field("text", "ptr", "UTF-8"),
)

SHAPE_INFO = Struct(
    "axla_shape_info",
    "What native code must know of an array shape. One for each shape: equal shapes have equal addresses.",
    Field("rank", "i32", "number of dimensions"),
    Field("item_bytes", "i32", "bytes of an element"),
    Field("bytes", "i64", "of the whole array"),
    Field("format", "ptr", "format of the buffer protocol; null: the protocol has none"),
    Field("descr", "ptr", "the NumPy dtype object"),
    Field("dims", "ptr", "sizes, i64"),
    Field("strides", "ptr", "row-major strides in bytes, i64"),
    Field("element", "i32", "number of the element type in the PJRT C API"),
)

# The head of a Python object is two words on the builds that we support (checked in python_abi.py).
ARRAY = Struct(
    "axla_array",
    "The Python object of an array.",
    *fields("refcount:i64, type:ptr"),
    Field("record", "ptr", "null: deleted or donated"),
    Field("info", "ptr", "SHAPE_INFO"),
    Field("info_object", "ptr", "the Python object that owns it"),
    Field(
        "retained", "ptr", "a record whose address was told to somebody: freed with the object, not before"
    ),
    Field("weakrefs", "ptr", "list of weak references"),
    Field("memory", "i64", "1 + number of the memory that it is in, where somebody asked; else 0"),
)

PARAMETER = Struct(
    "axla_parameter",
    "A parameter leaf.",
    Field("info", "ptr", "SHAPE_INFO"),
    Field("alias", "i64", "the result leaf that takes its place, or -1"),
)

RESULT = Struct(
    "axla_result",
    "A result leaf.",
    Field("info", "ptr", "SHAPE_INFO"),
    Field("info_object", "ptr", "the Python object that owns it"),
    Field("alias", "i64", "the parameter leaf whose place it takes, or -1"),
)

PROGRAM = Struct(
    "axla_program",
    "What a call needs of a loaded program.",
    Field("entry", "ptr", "i32 (*)(frame *)"),
    Field("parameter_count", "i64", ""),
    Field("result_count", "i64", ""),
    Field("parameters", "ptr", "PARAMETER array"),
    Field("results", "ptr", "RESULT array"),
    Field("constants", "ptr", "the constants segment"),
    Field("functions", "ptr", "the function table"),
    Field("workspace_bytes", "i64", "taken anew by each run, so runs do not meet"),
    Field("flags", "i64", "LONG_RUNNING | SINGLE_RESULT | DONATES | EFFECTS"),
    Field("rng_state", "u64", "carried from run to run", count=2),
    Field("queue", "ptr", "QUEUE of its device"),
    Field("handed", "i32", "its runs that were handed over"),
    Field("ended", "i32", "and those of them that have ended"),
    Field("nanoseconds", "i64", "that the last of them without an error took; 0: there was none"),
    Field("replica", "i32", "of its device"),
    Field("partition", "i32", ""),
)

RUN = Struct(
    "axla_run",
    "A run that released the interpreter lock; on its stack, in the list of all such runs.",
    Field("next", "ptr", ""),
    Field("previous", "ptr", ""),
    Field("program", "ptr", "PROGRAM"),
    Field("forks", "i32", "a forked child forgets the runs of its parent"),
    Field("flags", "ptr", "what frame->cancel points to; see LOOK"),
    Field("outer", "ptr", "of the main thread: the run around this one"),
    Field("state", "ptr", "the state of its Python thread"),
)

TASK = Struct(
    "axla_task",
    "A run that was handed over. Python makes it, and frees it after its end.",
    Field("next", "ptr", "the task to start after it"),
    Field("program", "ptr", "PROGRAM"),
    Field("lists", "ptr", "addresses of arguments and results, then their RECORDs"),
    Field("owner", "ptr", "the Python object of the task"),
    Field("flags", "i64", "see RUN.flags"),
    Field("ended", "i32", "1: its results are published"),
    Field("claimed", "i32", "1: it has begun, or was stopped before"),
    Field("peers", "ptr", "PEERS, or null"),
    Field("cancel", "ptr", "frame->cancel: its flags, or with peers GRID.stop"),
)

GRID = Struct(
    "axla_grid",
    "The participants of one run in this process.",
    Field("stop", "i32", "frame->cancel of all; not 0: the run has failed, with this code"),
    Field("run_id", "i64", "of the frames of all"),
    Field("states", "ptr", "i64 for each participant: see below"),
    Field("busy", "i32", "parts of collectives that are being done, in the memory of others"),
    Field("culprit", "i32", "1 + the participant whose failure ends the run; -1: Python knows it"),
    Field("clash", "i64", "1 + the rendezvous to which members came for different collectives"),
)

# States of participants. A positive n means that it waits in rendezvous n - 1 of the grid.
NOT_BEGUN, ENDED, WAITS, RUNS = 0, -1, -2, -3

PEERS = Struct(
    "axla_peers",
    "The others, as the code of one program knows them; frame->peers.",
    Field("grid", "ptr", "GRID"),
    Field("rendezvous_keys", "ptr", "addresses of RENDEZVOUS structs, by their numbers in the program"),
    Field("number", "i64", "of the participant"),
)

QUEUE = Struct(
    "axla_queue",
    "The queue of a device.",
    Field("first", "ptr", "a TASK before the first to start"),
    Field("last", "ptr", "the TASK to start last"),
    Field("thread", "u64", "thread_id() of its thread"),
    Field("started", "i32", "1: it has a thread"),
    Field("handed", "i32", "runs that were handed over"),
    Field("begun", "i32", "of these, runs that have begun"),
    Field("done", "i32", "and runs that have ended"),
    Field("steps", "i32", "changes when a run begins or ends"),
    Field("closed", "i32", "1: the interpreter ends, and the thread with its run"),
)

CALLABLE = Struct(
    "axla_callable",
    "The Python object that calls a program.",
    *fields("refcount:i64, type:ptr, vectorcall:ptr"),
    Field("program", "ptr", "PROGRAM"),
    Field("owner", "ptr", "the Python object that keeps the code and the PROGRAM alive"),
)
