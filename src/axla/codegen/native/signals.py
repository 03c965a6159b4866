"""Ctrl-C during a long run, emitted.

Python's own handler only notes the signal, and acts when the main thread next interprets bytecode: never,
while that thread runs compiled code. So a long run of the main thread puts a handler before the one that is
there: it sets the run's cancel flag and calls the other; the run then stops at its next poll. It stays
until somebody sets another, which is found at the next run. Where SIGINT is ignored or left to the system,
so is it here.
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
    m.variable("outer_handler", "ptr", "null")  # that was there when ours was set last
    m.variable("first_handler", "ptr", "null")  # that was there when ours was set first
    m.variable("handling", "i32")
    _handler(m)
    _begin(m)
    _end(m)


def _handler(m: Module) -> None:
    f = m.function("on_interrupt", "void", "signal:i32, info:ptr, context:ptr")
    flag = f.glob("main_flag").load("ptr")
    with f.when(flag.ne(0)):
        flag.store(f.i32(INTERRUPTED), "seq_cst")
    # A handler set over ours may call ours, which was there before: it then wants what came before that.
    nested = f.glob("handling").atomic("xchg", f.i32(1)).ne(0)
    outer, first = (f.glob(name).load("ptr") for name in ("outer_handler", "first_handler"))
    # With or without SA_SIGINFO: a handler of one parameter ignores the others.
    f.call_pointer("void", f.select(nested, first, outer), *f.parameters)
    f.glob("handling").store(f.i32(0), "seq_cst")
    f.ret()


def _begin(m: Module) -> None:
    f = m.function("interruptible_begin", "void", "run:ptr")
    (run,) = f.parameters
    run.set(RUN, "interruptible", 0)
    with f.when(f.call("i64", "pthread_self").ne(f.glob("main_thread").load("i64"))):
        f.ret()
    run.set(RUN, "interruptible", 1)
    run.set(RUN, "outer_flag", f.glob("main_flag").load("ptr"))
    f.glob("main_flag").store(run.get(RUN, "flag"))
    action = f.space(_ACTION)
    f.call("i32", "sigaction", f.i32(_SIGINT), f.null, action)
    handler = action.load("ptr")
    ours = f.glob("on_interrupt")
    with f.when(handler.eq(ours), likely=True):
        f.ret()
    with f.when(handler.cast("i64").le(1)):  # SIG_DFL, SIG_IGN
        f.ret()
    f.glob("outer_handler").store(handler)
    with f.when(f.glob("first_handler").load("ptr").eq(0)):
        f.glob("first_handler").store(handler)
    action.store(ours)
    f.call("i32", "sigaction", f.i32(_SIGINT), action, f.null)
    f.ret()


def _end(m: Module) -> None:
    f = m.function("interruptible_end", "void", "run:ptr")
    (run,) = f.parameters
    with f.when(run.get(RUN, "interruptible").ne(0)):
        f.glob("main_flag").store(run.get(RUN, "outer_flag"))
    f.ret()
