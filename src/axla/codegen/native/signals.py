"""Ctrl-C during a long run, emitted.

Python's own handler only notes the signal, and acts when the main thread next interprets bytecode: never,
while that thread runs compiled code. So a long run of the main thread puts a handler before Python's that
sets the run's cancel flag and calls Python's; the run then stops at its next poll. Where SIGINT is ignored or
left to the system, so is it here.
"""

from __future__ import annotations

from axla.codegen.native.assembly import Module
from axla.codegen.native.structs import RUN
from axla.program.abi import INTERRUPTED

_SIGINT = 2
# struct sigaction of Linux with glibc or musl: handler, mask (128 bytes), flags, restorer.
_ACTION = "[152 x i8]"


def emit(m: Module) -> None:
    """Adds the handler to the module."""
    m.variable("main_thread", "i64")  # pthread_self() of Python's main thread
    m.variable("main_flag", "ptr", "null")  # cancel flag of the innermost long run of the main thread
    m.variable("outer_action", _ACTION)  # the handler that was there before
    f = m.function("on_interrupt", "void", "signal:i32, info:ptr, context:ptr")
    flag = f.glob("main_flag").load("ptr")
    with f.when(flag.ne(0)):
        flag.store(f.i32(INTERRUPTED), "seq_cst")
    # With or without SA_SIGINFO: a handler of one parameter ignores the others.
    f.call_pointer("void", f.glob("outer_action").load("ptr"), *f.parameters)
    f.ret()
    _begin(m)
    _end(m)


def _begin(m: Module) -> None:
    f = m.function("interruptible_begin", "void", "run:ptr")
    (run,) = f.parameters
    run.set(RUN, "installed", -1)
    with f.when(f.call("i64", "pthread_self").ne(f.glob("main_thread").load("i64"))):
        f.ret()
    run.set(RUN, "installed", 0)
    run.set(RUN, "outer_flag", f.glob("main_flag").load("ptr"))
    f.glob("main_flag").store(run.get(RUN, "flag"))
    action = f.space(_ACTION)
    f.call("i32", "sigaction", f.i32(_SIGINT), f.null, action)
    handler = action.load("ptr")
    with f.when(handler.cast("i64").le(1)):  # SIG_DFL, SIG_IGN
        f.ret()
    with f.when(handler.eq(f.glob("on_interrupt"))):
        f.ret()
    f.line(f"call void @llvm.memcpy.p0.p0.i64({f.glob('outer_action')}, {action}, i64 152, i1 false)")
    m.externals["llvm.memcpy.p0.p0.i64"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    action.store(f.glob("on_interrupt"))
    f.call("i32", "sigaction", f.i32(_SIGINT), action, f.null)
    run.set(RUN, "installed", 1)
    f.ret()


def _end(m: Module) -> None:
    f = m.function("interruptible_end", "void", "run:ptr")
    (run,) = f.parameters
    installed = run.get(RUN, "installed")
    with f.when(installed.eq(-1)):
        f.ret()
    f.glob("main_flag").store(run.get(RUN, "outer_flag"))
    with f.when(installed.eq(0)):
        f.ret()
    action = f.space(_ACTION)
    f.call("i32", "sigaction", f.i32(_SIGINT), f.null, action)
    with f.when(action.load("ptr").eq(f.glob("on_interrupt"))):  # else somebody replaced it: theirs stays
        f.call("i32", "sigaction", f.i32(_SIGINT), f.glob("outer_action"), f.null)
    f.ret()
