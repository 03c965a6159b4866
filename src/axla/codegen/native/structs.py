"""The structs shared by emitted glue and the Python runtime. They never leave the process: no versions."""

from __future__ import annotations

from axla.program.abi import Field, Struct

# Record.flags
EXTERNAL = 1  # the memory is somebody else's: never written in place
# Program.flags
LONG_RUNNING = 1  # releases the interpreter lock
SINGLE_RESULT = 2  # the result is an array, not a tuple
DONATES = 4  # some result takes the place of a parameter
# Behind the cancel flag of a run in this process: whether its thread, the main one, is to look for signals.
LOOK = 4

RECORD = Struct(
    "axla_record",
    "The memory of an array. `refs` counts the Array, running calls and exports; one: nobody else looks.",
    (
        Field("refs", "i32", "changed atomically; at zero the memory goes back"),
        Field("ready", "i32", "1: the bytes are there; every reader looks here first"),
        Field("address", "ptr", "final from the start, even while not ready"),
        Field("bytes", "i64", "size asked for"),
        Field("flags", "i32", "EXTERNAL"),
        Field("device", "i32", "ordinal of the device"),
        Field("release", "ptr", "gives external memory back: void (*)(record *)"),
        Field("context", "ptr", "for release"),
    ),
)

SHAPE_INFO = Struct(
    "axla_shape_info",
    "What native code must know of an array shape. One for each shape: equal shapes have equal addresses.",
    (
        Field("rank", "i32", "number of dimensions"),
        Field("item_bytes", "i32", "bytes of an element"),
        Field("bytes", "i64", "of the whole array"),
        Field("format", "ptr", "format of the buffer protocol; null: the protocol has none"),
        Field("descr", "ptr", "the NumPy dtype object"),
        Field("dims", "ptr", "sizes, i64"),
        Field("strides", "ptr", "row-major strides in bytes, i64"),
    ),
)

# The head of a Python object is two words on the builds that we support (checked in python_abi.py).
ARRAY = Struct(
    "axla_array",
    "The Python object of an array.",
    (
        Field("refcount", "i64", ""),
        Field("type", "ptr", ""),
        Field("record", "ptr", "null: deleted or donated"),
        Field("info", "ptr", "SHAPE_INFO"),
        Field("info_object", "ptr", "the Python object that owns it"),
        Field(
            "retained",
            "ptr",
            "a record whose address was told to somebody: freed with the object, not before",
        ),
        Field("weakrefs", "ptr", "list of weak references"),
    ),
)

PARAMETER = Struct(
    "axla_parameter",
    "A parameter leaf.",
    (
        Field("info", "ptr", "SHAPE_INFO"),
        Field("alias", "i64", "the result leaf that takes its place, or -1"),
    ),
)

RESULT = Struct(
    "axla_result",
    "A result leaf.",
    (
        Field("info", "ptr", "SHAPE_INFO"),
        Field("info_object", "ptr", "the Python object that owns it"),
        Field("alias", "i64", "the parameter leaf whose place it takes, or -1"),
    ),
)

PROGRAM = Struct(
    "axla_program",
    "What a call needs of a loaded program.",
    (
        Field("entry", "ptr", "i32 (*)(frame *)"),
        Field("parameter_count", "i64", ""),
        Field("result_count", "i64", ""),
        Field("parameters", "ptr", "PARAMETER array"),
        Field("results", "ptr", "RESULT array"),
        Field("constants", "ptr", "the constants segment"),
        Field("functions", "ptr", "the function table"),
        Field("workspace_bytes", "i64", "taken anew by each run, so runs do not meet"),
        Field("flags", "i64", "LONG_RUNNING | SINGLE_RESULT | DONATES"),
        Field("rng_state", "u64", "carried from run to run", count=2),
    ),
)

RUN = Struct(
    "axla_run",
    "A run that released the interpreter lock; on its stack, in the list of all such runs.",
    (
        Field("next", "ptr", ""),
        Field("previous", "ptr", ""),
        Field("program", "ptr", "PROGRAM"),
        Field("forks", "i32", "a forked child forgets the runs of its parent"),
        Field("flags", "ptr", "what frame->cancel points to; see LOOK"),
        Field("outer", "ptr", "of the main thread: the run around this one"),
        Field("state", "ptr", "the state of its Python thread"),
    ),
)

CALLABLE = Struct(
    "axla_callable",
    "The Python object that calls a program.",
    (
        Field("refcount", "i64", ""),
        Field("type", "ptr", ""),
        Field("vectorcall", "ptr", ""),
        Field("program", "ptr", "PROGRAM"),
        Field("owner", "ptr", "the Python object that keeps the code and the PROGRAM alive"),
    ),
)
