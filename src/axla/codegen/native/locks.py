"""Emits the locks of the glue: spin locks, held for a few instructions.

`ORDER` names them, outermost first; docs/design/0002-runtime.md has the whole table, with the interpreter's
and Python's locks. A thread that holds one may take only later ones, must not wait, and must not call
anything outside of the glue: no compiled program, no Python function. No thread waits while it holds the
interpreter lock. In a build with checks (`glue.load(checks=True)`) each thread records what it holds, and a
violation ends the process.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueModule

ORDER = ("tasks", "memory")

_FAULTS = {
    "order": b"axla: a lock of the glue is taken out of order\n",
    "held": b"axla: a thread that holds a lock of the glue waits or runs code outside of the glue\n",
    "python": b"axla: a thread that holds the interpreter lock waits\n",
}


def emit(m: GlueModule) -> None:
    """Adds `NAME_acquire` and `NAME_release` for each lock, with checks if the module has them."""
    if m.checks:
        m.variable("lock_key", "i32")  # key of pthread_getspecific: a bit for each lock that is held
        _check(m)
    for rank, name in enumerate(ORDER):
        m.variable(f"{name}_lock", "i32")
        f = m.function(f"{name}_acquire", "void", exported=True)
        if m.checks:
            _refuse(f, (_held(f) >> rank).ne(0), "order")
            _note(f, "or", 1 << rank)
        with f.while_loop() as loop:
            with f.if_(f.glob(f"{name}_lock").atomic("xchg", f.i32(1), "acquire").eq(0), likely=True):
                loop.leave()
            # The holder may have lost its core: let it run.
            f.call("void", "yield")
        f.ret()
        f = m.function(f"{name}_release", "void", exported=True)
        f.glob(f"{name}_lock").store(f.i32(0), "release")
        if m.checks:
            _note(f, "and", ~(1 << rank))
        f.ret()


def _held(f: GlueFunction):
    return f.call("ptr", "pthread_getspecific", f.glob("lock_key").load("i32")).cast("i64")


def _note(f: GlueFunction, op: str, bits: int) -> None:
    held = f.binary(op, _held(f), f.i64(bits)).cast("ptr")
    f.call("i32", "pthread_setspecific", f.glob("lock_key").load("i32"), held)


def _refuse(f: GlueFunction, wrong, fault: str) -> None:
    with f.if_(wrong, likely=False):
        f.call("i64", "write", f.i32(2), f.data(_FAULTS[fault]), f.i64(len(_FAULTS[fault])))
        f.call("void", "abort")


def _check(m: GlueModule) -> None:
    """Emits `lock_check`, which checks that a thread holds no lock of the glue before it waits or calls code
    outside of the glue.
    """
    f = m.function("lock_check", "void", "waits:i32", exported=True)
    _refuse(f, _held(f).ne(0), "held")
    with f.if_(f.params["waits"].ne(0)):
        _refuse(f, f.call("i32", "PyGILState_Check").ne(0), "python")
    f.ret()
