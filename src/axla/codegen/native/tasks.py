"""Emits the code for tasks that native handlers schedule: a list, and threads that end when it is empty.

A task is a function of one pointer that runs once, in any of these threads; there are at most `pool_threads`.
They are separate from the pools of parallel loops, since a task may wait for another one.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import fields
from axla.codegen.straight import Ssa
from axla.program.abi import Struct

_TASK = Struct("axla_handed_task", "A task in the list.", *fields("next:ptr, function:ptr, data:ptr"))
_LIST = Struct(
    "axla_handed_tasks", "The list, first in, first out.", *fields("first:ptr, last:ptr, threads:i64")
)

_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the list of tasks and its functions to the module."""
    m.variable("tasks", f"[{_LIST.size} x i8]")
    _FUNCTIONS.emit(m)


@_FUNCTIONS("tasks_run", "ptr", "tasks:ptr")
def _run(f: GlueFunction, tasks: Ssa) -> None:
    """The main function of a thread: runs tasks until the list is empty."""
    with f.while_loop() as loop:
        f.call("void", "tasks_acquire")
        task = tasks.get(_LIST, "first")
        with f.if_(task.eq(0)):
            tasks.set(_LIST, "threads", tasks.get(_LIST, "threads") - 1)
            loop.leave()
        tasks.set(_LIST, "first", task.get(_TASK, "next"))
        f.call("void", "tasks_release")
        f.call_pointer("void", task.get(_TASK, "function"), task.get(_TASK, "data"))
        f.call("void", "free", task)
    f.call("void", "tasks_release")
    f.ret(f.null())


@_FUNCTIONS("axla_hand_over", "void", "function:ptr, data:ptr", exported=True)
def _hand_over(f: GlueFunction, function: Ssa, data: Ssa) -> None:
    tasks = f.glob("tasks")
    task = f.call("ptr", "malloc", f.i64(_TASK.size))
    with f.if_(task.eq(0), likely=False):
        f.call_pointer("void", function, data)
        f.ret()
    task.set(_TASK, "next", 0)
    task.set(_TASK, "function", function)
    task.set(_TASK, "data", data)
    f.call("void", "tasks_acquire")
    place = f.select(tasks.get(_LIST, "first").eq(0), tasks, tasks.get(_LIST, "last"))
    place.store(task)  # `first` and `next` are the first fields
    tasks.set(_LIST, "last", task)
    threads = tasks.get(_LIST, "threads")
    more = threads.lt(f.glob("pool_threads").load("i64", "monotonic"))
    tasks.set(_LIST, "threads", threads + more.cast("i64"))
    f.call("void", "tasks_release")
    f.guard(more ^ 1)
    with f.if_(f.call("i32", "thread_start", f.glob("tasks_run"), tasks).ne(0), likely=False):
        f.call("ptr", "tasks_run", tasks)  # no thread could be started: the caller runs the tasks
    f.ret()


@_FUNCTIONS("axla_task_threads", "i64", "", exported=True)
def _threads(f: GlueFunction) -> None:
    """The number of threads that may run tasks."""
    f.ret(f.glob("pool_threads").load("i64", "monotonic"))


@_FUNCTIONS("tasks_reset", "void")
def _reset(f: GlueFunction) -> None:
    """Resets the list of tasks in a forked child, which has no other threads."""
    f.call("ptr", "memset", f.glob("tasks"), f.i32(0), f.i64(_LIST.size))
