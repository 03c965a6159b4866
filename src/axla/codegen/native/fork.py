"""Emits fork handlers, which repair the glue's state in the child.

The C library calls these functions inside fork(). No Python code can run in between: a handler of
`os.register_at_fork` that held the allocator's lock could lose the interpreter lock to a thread that waits
for the allocator's lock, and both would wait for ever.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.locks import ORDER

_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the functions that the C library calls before a fork, and after it in parent and child."""
    _FUNCTIONS.emit(m)


@_FUNCTIONS("axla_fork_before", "void", exported=True)
def _before(f: GlueFunction) -> None:
    for name in ORDER:
        f.call("void", f"{name}_acquire")  # the thread that holds it does not wait for anything


@_FUNCTIONS("axla_fork_parent", "void", exported=True)
def _release(f: GlueFunction) -> None:
    for name in reversed(ORDER):
        f.call("void", f"{name}_release")


@_FUNCTIONS("axla_fork_child", "void", exported=True)
def _child(f: GlueFunction) -> None:
    _release(f)
    f.call("void", "pool_reset")
    f.call("void", "tasks_reset")
    f.glob("main_thread").store(f.call("i64", "thread_id"))
    f.glob("monitor_state").store(f.i32(0))
    f.glob("forks").atomic("add", f.i32(1))
    # The runs of other threads lie on their stacks, whose memory may soon be reused.
    for name in ("runs", "main_run"):
        f.glob(name).store(f.null())
