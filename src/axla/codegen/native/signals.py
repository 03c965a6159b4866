"""Emits the code that handles signals during a long run of the main thread.

Python's own handler only records a signal; the function set by `signal.signal` is called when the main thread
next interprets bytecode: never, while that thread runs compiled code. So a thread of the glue, the monitor,
interrupts a long run of the main thread 20 times a second: at its next poll the run takes the interpreter
lock and lets Python call pending handlers. If one raises, the run ends; otherwise it continues.

Which signals exist and who handles them is left to Python. The monitor ends after a second without a long
run, and the next long run starts another one.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import LOOK, RUN
from axla.codegen.straight import Ssa
from axla.program.abi import CANCELLED, FRAME, INTERRUPTED

_PERIOD = 50_000  # microseconds
_IDLE = 20  # periods without a run until the monitor ends


_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the function of the monitor thread, and the functions that runs and polls call."""
    m.variable("main_thread", "i64")  # thread_id() of Python's main thread
    m.variable("main_run", "ptr", "null")  # the innermost long run of the main thread; under the memory lock
    m.variable("monitor_state", "i32")  # 1: it runs
    m.variable("forks", "i32")  # the number of forks from the first process to this one
    _FUNCTIONS.emit(m)


@_FUNCTIONS("monitor", "ptr", "unused:ptr")
def _monitor(f: GlueFunction, unused: Ssa) -> None:
    state, idle = f.glob("monitor_state"), f.slot(f.i64(0))
    with f.while_loop() as loop:
        f.call("void", "sleep", f.i32(_PERIOD))
        f.call("void", "memory_acquire")
        run = f.glob("main_run").load("ptr")
        with f.if_(run.ne(0)):
            run.get(RUN, "flags").at(LOOK).store(f.i32(1), "monotonic")
            idle.store(f.i64(0))
        f.call("void", "memory_release")
        idle.store(idle.load("i64") + 1)
        with f.if_(idle.load("i64").le(_IDLE), likely=True):
            loop.again()
        # A run sets main_run before it reads the state. The monitor clears the state before it reads
        # main_run. So at least one of the two sees what the other wrote.
        state.atomic("xchg", f.i32(0))
        with (
            f.if_(f.glob("main_run").load("ptr", "seq_cst").ne(0)),
            f.if_(state.exchange(f.i32(0), f.i32(1))),
        ):
            loop.again()
        loop.leave()
    f.ret(f.null())


@_FUNCTIONS("main_run_begin", "void", "run:ptr")
def _begin(f: GlueFunction, run: Ssa) -> None:
    f.guard(f.call("i64", "thread_id").ne(f.glob("main_thread").load("i64")))
    run.set(RUN, "outer", f.glob("main_run").load("ptr"))
    f.glob("main_run").atomic("xchg", run.cast("i64"))
    with f.if_(f.glob("monitor_state").exchange(f.i32(0), f.i32(1)), likely=False):
        failed = f.call("i32", "thread_start", f.glob("monitor"), f.null()).ne(0)
        with f.if_(failed, likely=False):
            f.glob("monitor_state").store(f.i32(0))


@_FUNCTIONS("main_run_end", "void", "run:ptr")
def _end(f: GlueFunction, run: Ssa) -> None:
    with f.if_(f.glob("main_run").load("ptr").eq(run)):
        f.call("void", "memory_acquire")  # the monitor must not write to a run that has ended
        f.glob("main_run").store(run.get(RUN, "outer"))
        f.call("void", "memory_release")


@_FUNCTIONS("poll", "i32", "frame:ptr", exported=True)
def _poll(f: GlueFunction, frame: Ssa) -> None:
    """Returns the code with which a run must stop, or 0 if it continues. Called when the flags of the run are
    not 0.
    """
    flags = frame.get(FRAME, "cancel")
    code = flags.load("i32", "monotonic")
    f.guard(code.ne(0), code)
    worker = f.call("i64", "thread_id").ne(f.glob("main_thread").load("i64"))
    f.guard(worker, f.i32(0))  # the main thread will check
    look = flags.at(LOOK)
    f.guard(look.load("i32", "monotonic").eq(0), f.i32(0))
    look.store(f.i32(0), "monotonic")
    run, forks = f.glob("main_run").load("ptr"), f.glob("forks").load("i32")
    f.call("void", "PyEval_RestoreThread", run.get(RUN, "state"))
    raised = f.call("i32", "PyErr_CheckSignals")
    f.call("ptr", "PyEval_SaveThread")
    with f.if_(raised.ne(0), likely=False):
        flags.store(f.i32(INTERRUPTED), "monotonic")  # for workers that are in the middle of a range
        f.ret(f.i32(INTERRUPTED))
    # In the child of a fork that a handler made, ranges of a parallel loop are lost with their workers.
    same = f.glob("forks").load("i32").eq(forks)
    f.ret(f.select(same, f.i32(0), f.i32(CANCELLED)))
