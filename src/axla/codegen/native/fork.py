"""What a fork of the process does to the glue, emitted.

The C library calls these functions inside fork(). Nothing of Python can run in between: a handler of
`os.register_at_fork` that held the lock of the allocator could lose the interpreter lock to a thread that
waits for the lock of the allocator, and both would wait for ever.
"""

from __future__ import annotations

from axla.codegen.native.assembly import Function, Module
from axla.codegen.native.structs import RUN


def emit(m: Module) -> None:
    """Adds the functions that the C library calls before a fork, and after it in parent and child."""
    f = m.function("axla_fork_before", "void", exported=True)
    f.call("void", "memory_acquire")  # whoever has it waits for nothing
    f.ret()
    f = m.function("axla_fork_parent", "void", exported=True)
    f.call("void", "memory_release")
    f.ret()
    f = m.function("axla_fork_child", "void", exported=True)
    f.call("void", "memory_release")
    f.call("void", "pool_reset")
    f.glob("main_thread").store(f.call("i64", "pthread_self"))
    _forget_runs(f)
    f.ret()


def _forget_runs(f: Function) -> None:
    """Only the forking thread lives in the child, perhaps inside runs: those of the others are gone."""
    this = f.glob("main_thread").load("i64")
    run, last = f.slot(f.glob("runs").load("ptr")), f.slot(f.null)
    f.glob("runs").store(f.null)
    f.glob("main_flag").store(f.null)
    with f.loop() as loop:
        node = run.load("ptr")
        with f.when(node.eq(0)):
            loop.leave()
        run.store(node.get(RUN, "next"))
        with f.when(node.get(RUN, "thread").ne(this)):
            loop.again()
        before = last.load("ptr")
        node.set(RUN, "previous", before)
        node.set(RUN, "next", 0)
        with f.when(before.ne(0)):
            before.set(RUN, "next", node)
        with f.when(before.eq(0)):
            f.glob("runs").store(node)
        last.store(node)
