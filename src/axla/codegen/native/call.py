"""Emits the call of programs from Python: one function for all programs, which reads a PROGRAM struct.

    bind             finds the addresses of the arguments; for anything unusual (a list, a strided array,
                     a wrong shape, keywords), the Python function in `slow_call` is called, which converts
                     the arguments and calls again, or raises
    take_results     takes memory for the results: an aliased result takes over its parameter's memory if
                     nothing else holds it, else it gets a copy
    execute          prepares workspace and frame, calls the entry; a long run releases the interpreter lock
    make_result      makes the result objects; after an error, `fail` passes the code to `failed_call`

Donated arrays lose their memory when bound, and get it back only if the run does not begin.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.python_abi import NDARRAY
from axla.codegen.native.structs import (
    ARRAY,
    CALLABLE,
    DONATES,
    EFFECTS,
    EXTERNAL,
    GRID,
    LONG_RUNNING,
    PARAMETER,
    PEERS,
    PROGRAM,
    READY,
    RECORD,
    RESULT,
    RUN,
    RUNS,
    SHAPE_INFO,
    SINGLE_RESULT,
    WATCHED,
)
from axla.codegen.straight import Ssa
from axla.program.abi import FRAME, FRAME_VERSION, OUT_OF_MEMORY

# NumPy's flags of an array that is C-contiguous and aligned to its elements.
_PLAIN = 0x0001 | 0x0100
_SMALL_CALL = 4096  # longer lists, in bytes, are not on the stack


_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the functions and variables for calls of programs to a module of the glue."""
    m.variable("ndarray_type", "ptr", "null")  # null: NumPy arrays are passed to slow_call
    m.variable("slow_call", "ptr", "null")  # Python: f(callable, owner, flag address, names, *arguments)
    m.variable("failed_call", "ptr", "null")  # Python: f(owner, code, step, detail, cancel flag), raises
    m.variable("none", "ptr", "null")  # Py_None
    m.variable("run_counter", "i64")
    m.variable("runs", "ptr", "null")  # the first RUN; guarded by the interpreter lock
    _FUNCTIONS.emit(m)
    m.variable("callable_type", "ptr", "null")


@_FUNCTIONS("bind_array", "ptr", "argument:ptr, info:ptr")
def _bind_array(f: GlueFunction, argument: Ssa, info: Ssa) -> None:
    """Returns the record of an Array argument, or null, perhaps with an exception set, if the argument does
    not fit its parameter, which `info` describes.
    """
    f.guard(argument.get(ARRAY, "info").ne(info), f.null())
    record = argument.get(ARRAY, "record")
    with f.if_(record.ne(0), likely=True):
        f.guard(record.get(RECORD, "ready", "acquire").eq(READY), record)
        # The wait lets other threads run, which may delete the array.
        with f.if_(f.call("i32", "axla_record_wait", record, f.i64(0)).eq(0)):
            f.ret(argument.get(ARRAY, "record"))
    f.ret(f.null())


@_FUNCTIONS("bind_numpy", "ptr", "argument:ptr, info:ptr")
def _bind_numpy(f: GlueFunction, argument: Ssa, info: Ssa) -> None:
    """The address of a NumPy argument's data if it can be used without conversion for the parameter that
    `info` describes, else null.
    """
    descr = info.get(SHAPE_INFO, "descr")
    flags = argument.get(NDARRAY, "flags") & _PLAIN
    rank = info.get(SHAPE_INFO, "rank")
    same = argument.get(NDARRAY, "descr").eq(descr)
    same = same & flags.eq(_PLAIN)
    same = same & argument.get(NDARRAY, "nd").eq(rank)
    f.guard(same ^ 1, f.null())
    have, want = argument.get(NDARRAY, "dims"), info.get(SHAPE_INFO, "dims")
    with (
        f.loop(0, rank.cast("i64")) as loop,
        f.if_(have.item(loop.index).load("i64").ne(want.item(loop.index).load("i64")), likely=False),
    ):
        f.ret(f.null())
    f.ret(argument.get(NDARRAY, "data"))


@_FUNCTIONS("unbind", "void", "arguments:ptr, count:i64, claimed:ptr, held:ptr")
def _unbind(f: GlueFunction, arguments: Ssa, count: Ssa, claimed: Ssa, held: Ssa) -> None:
    """Undoes `bind`: donated arrays get their memory back, held records are released."""
    with f.loop(0, count) as loop:
        record = claimed.item(loop.index).load("ptr")
        with f.if_(record.ne(0)):
            arguments.item(loop.index).load("ptr").set(ARRAY, "record", record)
        f.call("void", "axla_record_release", held.item(loop.index).load("ptr"))


@_FUNCTIONS("bind", "i32", "program:ptr, arguments:ptr, addresses:ptr, claimed:ptr, held:ptr, released:i1")
def _bind(
    f: GlueFunction, program: Ssa, arguments: Ssa, addresses: Ssa, claimed: Ssa, held: Ssa, holds: Ssa
) -> None:
    """Fills `addresses` with those of the arguments and `claimed` with the records of donated arrays. If
    `holds` is set, as for a run without the interpreter lock, also fills `held`, with records that must be
    kept during the run. Returns 1, or 0 if an argument does not fit.
    """
    count, specs = program.get(PROGRAM, "parameter_count"), program.get(PROGRAM, "parameters")
    array_type = f.glob("array_type").load("ptr")
    flags = program.get(PROGRAM, "flags")
    with f.loop(0, count) as loop:
        claimed.item(loop.index).store(f.null())
        held.item(loop.index).store(f.null())

    def refuse() -> None:
        f.call("void", "unbind", arguments, count, claimed, held)
        f.ret(f.i32(0))

    # Donated arrays come first: an array that is passed twice is then found to be deleted, in either order.
    with f.if_((flags & DONATES).ne(0)), f.loop(0, count) as loop:
        spec, argument = specs.item(loop.index, PARAMETER.size), arguments.item(loop.index).load("ptr")
        with f.if_(spec.get(PARAMETER, "alias").lt(0)):
            loop.again()
        with f.if_(argument.get(ARRAY, "type").ne(array_type)):
            loop.again()
        record = f.call("ptr", "bind_array", argument, spec.get(PARAMETER, "info"))
        with f.if_(record.eq(0), likely=False):
            refuse()
        argument.set(ARRAY, "record", 0)
        claimed.item(loop.index).store(record)
        addresses.item(loop.index).store(record.get(RECORD, "address"))
    ndarray_type = f.glob("ndarray_type").load("ptr")
    with f.loop(0, count) as loop:
        with f.if_(claimed.item(loop.index).load("ptr").ne(0)):
            loop.again()
        info = specs.item(loop.index, PARAMETER.size).get(PARAMETER, "info")
        argument = arguments.item(loop.index).load("ptr")
        kind = argument.get(ARRAY, "type")
        with f.if_(kind.eq(array_type)):
            record = f.call("ptr", "bind_array", argument, info)
            with f.if_(record.eq(0), likely=False):
                refuse()
            addresses.item(loop.index).store(record.get(RECORD, "address"))
            with f.if_(holds):  # another thread may delete it during the run
                f.call("void", "axla_record_hold", record)
                held.item(loop.index).store(record)
            loop.again()
        with f.if_(kind.ne(ndarray_type), likely=False):
            refuse()
        data = f.call("ptr", "bind_numpy", argument, info)
        with f.if_(data.eq(0), likely=False):
            refuse()
        addresses.item(loop.index).store(data)
    f.ret(f.i32(1))


@_FUNCTIONS("take_results", "i64", "program:ptr, addresses:ptr, claimed:ptr, results:ptr, records:ptr")
def _take_results(
    f: GlueFunction, program: Ssa, addresses: Ssa, claimed: Ssa, results: Ssa, records: Ssa
) -> None:
    """Makes records for the results, each with one reference, and stores them in `records` and their
    addresses in `results`. An aliased result takes over the record that `claimed` has for its parameter, or
    gets a copy. Returns 0, or the number of bytes that could not be allocated.
    """
    count, specs = program.get(PROGRAM, "result_count"), program.get(PROGRAM, "results")
    with f.loop(0, count) as loop:
        spec = specs.item(loop.index, RESULT.size)
        size = spec.get(RESULT, "info").get(SHAPE_INFO, "bytes")
        alias = spec.get(RESULT, "alias")
        aliased = alias.ge(0)
        with f.if_(aliased):
            donated = claimed.item(alias).load("ptr")
            with f.if_(donated.ne(0)):
                refs = donated.at(RECORD.offset("refs")).load("i32", "acquire")
                shared = (refs & (WATCHED - 1)).ne(1)
                foreign = (donated.get(RECORD, "flags") & EXTERNAL).ne(0)
                with f.unless(shared | foreign):
                    records.item(loop.index).store(donated)
                    results.item(loop.index).store(donated.get(RECORD, "address"))
                    loop.again()
        record = f.call("ptr", "axla_record_new", size)
        with f.if_(record.eq(0), likely=False):
            f.call("void", "drop_results", program, claimed, records, loop.index)
            f.ret(f.select(size.eq(0), f.i64(1), size))
        address = record.get(RECORD, "address")
        records.item(loop.index).store(record)
        results.item(loop.index).store(address)
        with f.if_(aliased):
            f.call("ptr", "memcpy", address, addresses.item(alias).load("ptr"), size)
            addresses.item(alias).store(address)
    f.ret(f.i64(0))


@_FUNCTIONS("drop_results", "void", "program:ptr, claimed:ptr, records:ptr, count:i64")
def _drop_results(f: GlueFunction, program: Ssa, claimed: Ssa, records: Ssa, count: Ssa) -> None:
    """Releases the first `count` result records, except those taken over from donated parameters."""
    specs = program.get(PROGRAM, "results")
    with f.loop(0, count) as loop:
        record = records.item(loop.index).load("ptr")
        alias = specs.item(loop.index, RESULT.size).get(RESULT, "alias")
        with f.if_(alias.ge(0)), f.if_(claimed.item(alias).load("ptr").eq(record)):
            loop.again()
        f.call("void", "axla_record_release", record)


@_FUNCTIONS("run_released", "i32", "program:ptr, frame:ptr, flags:ptr")
def _run_entry(f: GlueFunction, program: Ssa, frame: Ssa, flags: Ssa) -> None:
    """Calls the entry function without the interpreter lock; during the call, the list of runs contains the
    run. `flags` is the address of its cancel flag.
    """
    run = f.space(f"[{RUN.size} x i8]")
    first_at = f.glob("runs")
    first = first_at.load("ptr")
    run.set(RUN, "program", program)
    run.set(RUN, "forks", f.glob("forks").load("i32"))
    run.set(RUN, "flags", flags)
    run.set(RUN, "next", first)
    run.set(RUN, "previous", 0)
    with f.if_(first.ne(0)):
        first.set(RUN, "previous", run)
    first_at.store(run)
    state = f.call("ptr", "PyEval_SaveThread")
    run.set(RUN, "state", state)
    f.glob("pool_runs").atomic("add", f.i64(1))
    f.call("void", "main_run_begin", run)
    code = f.call_pointer("i32", program.get(PROGRAM, "entry"), frame)
    f.call("void", "main_run_end", run)
    f.call("void", "PyEval_RestoreThread", state)
    f.guard(run.get(RUN, "forks").ne(f.glob("forks").load("i32")), code)
    f.glob("pool_runs").atomic("sub", f.i64(1))
    after, before = run.get(RUN, "next"), run.get(RUN, "previous")
    with f.if_(after.ne(0)):
        after.set(RUN, "previous", before)
    with f.if_(before.ne(0)):
        before.set(RUN, "next", after)
    with f.if_(before.eq(0)):
        first_at.store(after)
    f.ret(code)


@_FUNCTIONS("grid_leave", "void", "peers:ptr, code:i32")
def _grid_leave(f: GlueFunction, peers: Ssa, code: Ssa) -> None:
    """Stops the run of all participants with the error code `code`, and waits until none of them uses another
    one's memory. The wait is short, since participants do not wait while they use memory. `peers` is the
    PEERS struct of the participant that leaves.
    """
    grid, number = peers.get(PEERS, "grid"), peers.get(PEERS, "number").cast("i32")
    grid.at(GRID.offset("culprit")).exchange(f.i32(0), number + 1)
    grid.at(GRID.offset("stop")).exchange(f.i32(0), code)
    with f.while_loop() as loop:
        with f.if_(grid.at(GRID.offset("busy")).load("i32", "seq_cst").eq(0)):
            loop.leave()
        f.call("void", "pause")


@_FUNCTIONS(
    "execute", "i32",
    "program:ptr, frame:ptr, addresses:ptr, results:ptr, flags:ptr, released:i1, peers:ptr",
)  # fmt: skip
def _execute(
    f: GlueFunction,
    program: Ssa,
    frame: Ssa,
    addresses: Ssa,
    results: Ssa,
    flags: Ssa,
    released: Ssa,
    peers: Ssa,
) -> None:
    """Runs the entry function once, with a new workspace and with the fields of `frame` set. The frame stays
    readable for its error fields. `flags` is the address of the cancel flag; `released`: whether the
    interpreter lock is released during the run. If `peers` is not null, runs the program as one of several
    participants.
    """
    size = program.get(PROGRAM, "workspace_bytes")
    workspace = f.slot(f.null())
    with f.if_(size.gt(0)):
        block = f.call("ptr", "axla_allocate", size)
        with f.if_(block.eq(0), likely=False):
            frame.set(FRAME, "error_step", 0)
            frame.set(FRAME, "error_detail", size)
            f.ret(f.i32(OUT_OF_MEMORY))
        workspace.store(block)
    values: dict[str, Ssa | int] = {
        "version": FRAME_VERSION,
        "arguments": addresses,
        "results": results,
        "constants": program.get(PROGRAM, "constants"),
        "workspace": workspace.load("ptr"),
        "functions": program.get(PROGRAM, "functions"),
        "parallel_for": f.glob("axla_parallel_for"),
        "cancel": flags,
        "run_id": f.glob("run_counter").atomic("add", f.i64(1), "monotonic"),
        "replica": program.get(PROGRAM, "replica"),
        "partition": program.get(PROGRAM, "partition"),
        "peers": peers,
    }
    for field in FRAME.fields:
        if field.name != "rng_state":
            frame.set(FRAME, field.name, values.get(field.name, 0))
    with f.if_(peers.ne(0), likely=False):
        grid = peers.get(PEERS, "grid")
        frame.set(FRAME, "run_id", grid.get(GRID, "run_id"))
        grid.get(GRID, "states").item(peers.get(PEERS, "number")).store(f.i64(RUNS), "seq_cst")
    _copy_rng(f, program.at(PROGRAM.offset("rng_state")), frame.at(FRAME.offset("rng_state")))
    code = f.slot(f.i32(0))
    with f.if_(released):
        code.store(f.call("i32", "run_released", program, frame, flags))
    with f.if_(released ^ 1):
        code.store(f.call_pointer("i32", program.get(PROGRAM, "entry"), frame))
    with f.if_(peers.ne(0) & code.load("i32").ne(0), likely=False):  # before memory that others use is freed
        f.call("void", "grid_leave", peers, code.load("i32"))
    _copy_rng(f, frame.at(FRAME.offset("rng_state")), program.at(PROGRAM.offset("rng_state")))
    kept = frame.get(FRAME, "workspace")  # null: others still use it
    with f.if_(kept.ne(0)):
        f.call("void", "axla_free", kept, size)
    f.ret(code.load("i32"))


@_FUNCTIONS("axla_run", "i32", "program:ptr, frame:ptr, addresses:ptr, results:ptr", exported=True)
def _run(f: GlueFunction, program: Ssa, frame: Ssa, addresses: Ssa, results: Ssa) -> None:
    """Runs a program in a thread that does not hold the interpreter lock, with memory provided by the
    caller.
    """
    flags, forks = f.slot(f.i64(0)), f.glob("forks").load("i32")
    f.glob("pool_runs").atomic("add", f.i64(1))
    given = program, frame, addresses, results, flags, f.const("i1", 0), f.null()
    code = f.call("i32", "execute", *given)
    f.guard(forks.ne(f.glob("forks").load("i32")), code)
    f.glob("pool_runs").atomic("sub", f.i64(1))
    f.ret(code)


def _copy_rng(f: GlueFunction, source: Ssa, target: Ssa) -> None:
    for offset in (0, 8):
        target.at(offset).store(source.at(offset).load("i64"))


@_FUNCTIONS("make_result", "ptr", "program:ptr, records:ptr")
def _result(f: GlueFunction, program: Ssa, records: Ssa) -> None:
    """Makes the result objects: an Array or a tuple of them. Takes over the references of the records."""
    count, specs = program.get(PROGRAM, "result_count"), program.get(PROGRAM, "results")
    with f.if_((program.get(PROGRAM, "flags") & SINGLE_RESULT).ne(0), likely=True):
        info, owner = specs.get(RESULT, "info"), specs.get(RESULT, "info_object")
        f.ret(f.call("ptr", "axla_array_new", info, owner, records.load("ptr")))
    result = f.call("ptr", "PyTuple_New", count)
    with f.loop(0, count) as loop:
        record = records.item(loop.index).load("ptr")
        spec = specs.item(loop.index, RESULT.size)
        with f.if_(result.eq(0), likely=False):
            f.call("void", "axla_record_release", record)
            loop.again()
        array = f.call(
            "ptr", "axla_array_new", spec.get(RESULT, "info"), spec.get(RESULT, "info_object"), record
        )
        f.call("i32", "PyTuple_SetItem", result, loop.index, array)
    # An array that could not be made left a null in the tuple, and an exception.
    with f.if_(result.ne(0)), f.if_(f.call("ptr", "PyErr_Occurred").ne(0), likely=False):
        f.call("void", "Py_DecRef", result)
        f.ret(f.null())
    f.ret(result)


@_FUNCTIONS("fail", "ptr", "owner:ptr, code:i32, frame:ptr, flag:ptr")
def _fail(f: GlueFunction, owner: Ssa, code: Ssa, frame: Ssa, flag: Ssa) -> None:
    """Calls the Python function in `failed_call`, which raises the exception for an error code; returns null.
    An exception that is already set, by a signal handler, is kept.
    """
    f.guard(f.call("ptr", "PyErr_Occurred").ne(0), f.null())  # a signal's handler raised
    made = f.call("ptr", "report", f.glob("failed_call").load("ptr"), *f.params.values())
    f.call("void", "Py_DecRef", made)  # it raises: this is null, which Py_DecRef accepts
    f.ret(f.null())


@_FUNCTIONS("report", "ptr", "function:ptr, owner:ptr, code:i32, frame:ptr, flag:ptr")
def _report(f: GlueFunction, function: Ssa, owner: Ssa, code: Ssa, frame: Ssa, flag: Ssa) -> None:
    signed = f.cast("sext", code, "i64")
    numbers = [signed, frame.get(FRAME, "error_step").cast("i64"), frame.get(FRAME, "error_detail")]
    numbers += [flag.load("i32").cast("i64"), frame.cast("i64")]
    arguments = f.space("[6 x ptr]")
    arguments.store(owner)
    for i, number in enumerate(numbers):
        arguments.at(8 * (i + 1)).store(f.call("ptr", "PyLong_FromLongLong", number))
    made = f.call("ptr", "PyObject_Vectorcall", function, arguments, f.i64(6), f.null())
    for i in range(len(numbers)):
        f.call("void", "Py_DecRef", arguments.at(8 * (i + 1)).load("ptr"))
    f.ret(made)


@_FUNCTIONS("call_slowly", "ptr", "self:ptr, arguments:ptr, count:i64, names:ptr, flag:ptr")
def _slow(f: GlueFunction, this: Ssa, arguments: Ssa, count: Ssa, names: Ssa, flag: Ssa) -> None:
    """Calls `slow_call`, the Python function for calls whose arguments do not fit. `flag` is the address of
    the cancel flag of the call, or null.
    """
    keywords = f.slot(f.i64(0))
    with f.if_(names.ne(0)):
        keywords.store(f.call("i64", "PyTuple_Size", names))
    total = count + keywords.load("i64")
    f.guard(f.call("ptr", "PyErr_Occurred").ne(0), f.null())  # the run that computes an argument failed
    # Not on the stack: a caller may pass a million arguments by mistake.
    size = (total + 4) << 3
    given = f.call("ptr", "axla_allocate", size)
    with f.if_(given.eq(0), likely=False):
        f.ret(f.call("ptr", "PyErr_NoMemory"))
    address = f.call("ptr", "PyLong_FromLongLong", flag.cast("i64"))
    for i, value in enumerate((this, this.get(CALLABLE, "owner"), address, f.glob("none").load("ptr"))):
        given.at(8 * i).store(value)
    with f.if_(names.ne(0)):
        given.at(24).store(names)
    with f.loop(0, total) as loop:
        given.item(loop.index + 4).store(arguments.item(loop.index).load("ptr"))
    result = f.call("ptr", "PyObject_Vectorcall", f.glob("slow_call").load("ptr"), given, total + 4, f.null())
    f.call("void", "Py_DecRef", address)
    f.call("void", "axla_free", given, size)
    f.ret(result)


@_FUNCTIONS("release_arguments", "void", "program:ptr, records:ptr, claimed:ptr, held:ptr")
def _release_arguments(f: GlueFunction, program: Ssa, records: Ssa, claimed: Ssa, held: Ssa) -> None:
    """Releases, after a run, held records, and donated ones whose memory no result took over."""
    specs = program.get(PROGRAM, "parameters")
    with f.loop(0, program.get(PROGRAM, "parameter_count")) as loop:
        f.call("void", "axla_record_release", held.item(loop.index).load("ptr"))
        record = claimed.item(loop.index).load("ptr")
        with f.if_(record.eq(0)):
            loop.again()
        taken = records.item(specs.item(loop.index, PARAMETER.size).get(PARAMETER, "alias")).load("ptr")
        with f.if_(taken.ne(record)):
            f.call("void", "axla_record_release", record)


@_FUNCTIONS("call_bound", "ptr", "self:ptr, arguments:ptr, given_flag:ptr, lists:ptr")
def _call_bound(f: GlueFunction, this: Ssa, arguments: Ssa, given_flag: Ssa, lists: Ssa) -> None:
    """Calls a program with the right number of arguments; `given_flag` is the address of a cancel flag, or
    null. `lists` has space for all lists of addresses and records.
    """
    program, owner = this.get(CALLABLE, "program"), this.get(CALLABLE, "owner")
    count, result_count = program.get(PROGRAM, "parameter_count"), program.get(PROGRAM, "result_count")
    addresses, claimed, held = lists, lists.item(count), lists.item(count * 2)
    results = lists.item(count * 3)
    records = results.item(result_count)
    # A call with a flag may have a deadline, which can expire only while the interpreter lock is free.
    flags = program.get(PROGRAM, "flags")
    released = (flags & LONG_RUNNING).ne(0) | given_flag.ne(0)
    bound = f.call("i32", "bind", program, arguments, addresses, claimed, held, released)
    with f.if_(bound.eq(0), likely=False):
        f.ret(f.call("ptr", "call_slowly", this, arguments, count, f.null(), given_flag))
    frame = f.space(f"[{FRAME.size} x i8]", 16)
    flag = f.select(given_flag.eq(0), f.slot(f.i64(0)), given_flag)
    missing = f.call("i64", "take_results", program, addresses, claimed, results, records)
    with f.if_(missing.ne(0), likely=False):
        f.call("void", "unbind", arguments, count, claimed, held)
        frame.set(FRAME, "error_step", 0)
        frame.set(FRAME, "error_detail", missing)
        f.ret(f.call("ptr", "fail", owner, f.i32(OUT_OF_MEMORY), frame, flag))
    code = f.call("i32", "execute", program, frame, addresses, results, flag, released, f.null())
    with f.if_(released | (flags & DONATES).ne(0)):
        f.call("void", "release_arguments", program, records, claimed, held)
    with f.if_(code.ne(0), likely=False):
        with f.loop(0, result_count) as loop:
            f.call("void", "axla_record_release", records.item(loop.index).load("ptr"))
        f.ret(f.call("ptr", "fail", owner, code, frame, flag))
    f.ret(f.call("ptr", "make_result", program, records))


@_FUNCTIONS("call_program", "ptr", "self:ptr, arguments:ptr, count:i64, names:ptr, flag:ptr")
def _call(f: GlueFunction, this: Ssa, arguments: Ssa, count: Ssa, names: Ssa, flag: Ssa) -> None:
    program = this.get(CALLABLE, "program")
    parameters = program.get(PROGRAM, "parameter_count")
    plain = count.eq(parameters) & names.eq(0)
    with f.unless(plain):
        f.ret(f.call("ptr", "call_slowly", this, arguments, count, names, flag))
    left = program.get(PROGRAM, "handed") - program.get(PROGRAM, "ended", "acquire")
    with (
        f.if_((left | (program.get(PROGRAM, "flags") & EFFECTS).cast("i32")).ne(0), likely=False),
        f.if_(f.call("i32", "may_run", program).eq(0)),
    ):
        f.ret(f.call("ptr", "call_slowly", this, arguments, count, names, flag))
    size = (parameters * 3 + program.get(PROGRAM, "result_count") * 2) << 3
    result = f.slot(f.null())
    small = size.le(_SMALL_CALL)
    with f.if_(small, likely=True):
        lists = f.space(f"[{_SMALL_CALL} x i8]")
        result.store(f.call("ptr", "call_bound", this, arguments, flag, lists))
    with f.unless(small):
        lists = f.call("ptr", "axla_allocate", size)
        with f.if_(lists.eq(0), likely=False):
            f.ret(f.call("ptr", "PyErr_NoMemory"))
        result.store(f.call("ptr", "call_bound", this, arguments, flag, lists))
        f.call("void", "axla_free", lists, size)
    f.ret(result.load("ptr"))


@_FUNCTIONS("callable_vectorcall", "ptr", "self:ptr, arguments:ptr, nargsf:i64, names:ptr", exported=True)
def _callable_vectorcall(f: GlueFunction, this: Ssa, arguments: Ssa, nargsf: Ssa, names: Ssa) -> None:
    """The vectorcall slot of a callable. (`callable_with_flag` is a method whose first argument is the
    address of a cancel flag.)
    """
    f.ret(f.call("ptr", "call_program", this, arguments, nargsf & ((1 << 63) - 1), names, f.null()))


@_FUNCTIONS("callable_with_flag", "ptr", "self:ptr, arguments:ptr, count:i64", exported=True)
def _callable_with_flag(f: GlueFunction, this: Ssa, arguments: Ssa, count: Ssa) -> None:
    with f.if_(count.lt(1)):
        f.ret(f.call("ptr", "call_slowly", this, arguments, count, f.null(), f.null()))
    flag = f.call("ptr", "PyLong_AsVoidPtr", arguments.load("ptr"))
    f.guard(f.call("ptr", "PyErr_Occurred").ne(0), f.null())
    f.ret(f.call("ptr", "call_program", this, arguments.at(8), count - 1, f.null(), flag))


@_FUNCTIONS("callable_dealloc", "void", "self:ptr", exported=True)
def _callable_dealloc(f: GlueFunction, this: Ssa) -> None:
    owner, kind = this.get(CALLABLE, "owner"), this.get(CALLABLE, "type")
    f.call("void", "PyObject_Free", this)
    f.call("void", "Py_DecRef", owner)
    f.call("void", "Py_DecRef", kind)


@_FUNCTIONS("axla_cancel", "i64", "program:ptr, value:i32", exported=True)
def _cancel(f: GlueFunction, program: Ssa, value: Ssa) -> None:
    """Sets the cancel flag of every run of a program to `value`; returns the number of these runs."""
    count = f.slot(f.i64(0))
    run = f.slot(f.glob("runs").load("ptr"))
    with f.while_loop() as loop:
        node = run.load("ptr")
        with f.if_(node.eq(0)):
            loop.leave()
        run.store(node.get(RUN, "next"))
        with f.if_(node.get(RUN, "program").ne(program)):
            loop.again()
        node.get(RUN, "flags").store(value, "seq_cst")
        count.store(count.load("i64") + 1)
    f.ret(count.load("i64"))


@_FUNCTIONS("axla_callable_new", "ptr", "program:ptr, owner:ptr", exported=True)
def _callable_new(f: GlueFunction, program: Ssa, owner: Ssa) -> None:
    made = f.call("ptr", "_PyObject_New", f.glob("callable_type").load("ptr"))
    with f.if_(made.ne(0), likely=True):
        f.call("void", "Py_IncRef", owner)
        made.set(CALLABLE, "vectorcall", f.glob("callable_vectorcall"))
        made.set(CALLABLE, "program", program)
        made.set(CALLABLE, "owner", owner)
    f.ret(made)
