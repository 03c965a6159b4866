"""Emits asynchronous runs: the thread of a device's queue runs them in order, and publishes their results.

`runtime/queue.py` makes tasks and links them, under the interpreter lock. The thread takes them one by one.
It takes the interpreter lock only to let Python create the exception of a failed run, which all records of
that run share. `RECORD.context` of a pending record is the cancel flag of its run, valid while the
interpreter lock is held and the record is pending: tasks are freed by Python, after their end.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import (
    AWAITED,
    EFFECTS,
    ENDED,
    FAILED,
    GRID,
    PEERS,
    PENDING,
    PROGRAM,
    QUEUE,
    READY,
    RECORD,
    TASK,
)
from axla.codegen.straight import Ssa
from axla.program.abi import CANCELLED, FRAME

_EVERYBODY = (1 << 31) - 1


_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the functions of queues to the module."""
    m.variable("failed_task", "ptr", "null")  # Python function like failed_call; the owner is the task
    m.variable("tasks_ended", "ptr", "null")  # int (*)(void *), called with the interpreter lock: frees tasks
    _FUNCTIONS.emit(m)


@_FUNCTIONS("record_publish", "void", "record:ptr, status:i32, failure:ptr", exported=True)
def _record_publish(f: GlueFunction, record: Ssa, status: Ssa, failure: Ssa) -> None:
    """Makes a record READY or FAILED and wakes the threads that wait for it. `failure` is the function that
    raises the error of a failed run, else null.
    """
    with f.if_(failure.ne(0)):
        f.call("void", "Py_IncRef", failure)
        record.set(RECORD, "context", failure)
        record.set(RECORD, "release", f.glob("record_forget"))
    ready_at = record.at(RECORD.offset("ready"))
    with f.if_(ready_at.atomic("xchg", status).eq(AWAITED)):
        f.call("void", "futex_wake", ready_at, f.i64(_EVERYBODY))


@_FUNCTIONS("record_forget", "void", "record:ptr")
def _record_forget(f: GlueFunction, record: Ssa) -> None:
    with f.if_(f.call("i32", "Py_IsInitialized").ne(0), likely=True):
        state = f.call("i32", "PyGILState_Ensure")
        f.call("void", "Py_DecRef", record.get(RECORD, "context"))
        f.call("void", "PyGILState_Release", state)


@_FUNCTIONS("task_claim", "i32", "task:ptr", exported=True)
def _claim(f: GlueFunction, task: Ssa) -> None:
    """Claims a task. Returns 0 if it was not claimed before: then the caller may run or stop it."""
    f.ret(task.at(TASK.offset("claimed")).atomic("xchg", f.i32(1)))


@_FUNCTIONS("leave_grid", "void", "task:ptr, code:i32")
def _leave_grid(f: GlueFunction, task: Ssa, code: Ssa) -> None:
    """Marks the participant that runs `task` as ended. If its error code `code` is not 0, the other
    participants fail too, and it waits until the error of the first one that failed is known.
    """
    peers = task.get(TASK, "peers")
    f.guard(peers.eq(0))
    grid = peers.get(PEERS, "grid")
    number, culprit = peers.get(PEERS, "number"), grid.at(GRID.offset("culprit"))
    grid.get(GRID, "states").item(number).store(f.i64(ENDED), "seq_cst")
    f.guard(code.eq(0))
    f.call("void", "grid_leave", peers, code)
    with f.while_loop() as loop:
        found = culprit.load("i32", "seq_cst")
        with f.if_(found.lt(0) | found.eq(number.cast("i32") + 1)):
            loop.leave()
        f.call("void", "futex_wait_briefly", culprit, found)


@_FUNCTIONS("await_input", "i32", "record:ptr, task:ptr")
def _await_input(f: GlueFunction, record: Ssa, task: Ssa) -> None:
    """Waits while the queue of another device computes an input; returns 0, or the code with which the run
    must stop.
    """
    ready_at, flags = record.at(RECORD.offset("ready")), task.get(TASK, "cancel")
    with f.while_loop():
        ready = ready_at.load("i32", "acquire")
        f.guard(ready.eq(READY), f.i32(0))
        f.guard(ready.eq(FAILED), f.i32(CANCELLED))  # failed_task will find the input that failed
        flag = flags.load("i32", "monotonic")
        f.guard(flag.ne(0), flag)
        ready_at.exchange(f.i32(PENDING), f.i32(AWAITED))
        f.call("void", "futex_wait_briefly", ready_at, f.i32(AWAITED))
    f.ret(f.i32(0))


@_FUNCTIONS("run_task", "i1", "queue:ptr, task:ptr")
def _run_task(f: GlueFunction, queue: Ssa, task: Ssa) -> None:
    """Runs a task and publishes its results. Returns false after a fork, or when the interpreter ends."""
    program, flags = task.get(TASK, "program"), task.get(TASK, "cancel")
    frame = f.space(f"[{FRAME.size} x i8]", 16)
    for name in ("error_step", "error_detail"):
        frame.set(FRAME, name, 0)
    code = f.slot(flags.load("i32", "monotonic"))
    count, arguments = program.get(PROGRAM, "parameter_count"), task.get(TASK, "lists")
    results = arguments.item(count)
    inputs = results.item(program.get(PROGRAM, "result_count"))
    with f.loop(0, count) as loop:
        record = inputs.item(loop.index).load("ptr")
        found = f.call("i32", "await_input", record, task)
        with f.if_(found.ne(0), likely=False):
            code.store(found)
    with f.if_(f.call("i32", "task_claim", task).ne(0), likely=False):
        code.store(flags.load("i32", "monotonic"))  # the code from the caller that stopped it
    forks, begin = f.glob("forks").load("i32"), f.call("i64", "now")
    f.glob("pool_runs").atomic("add", f.i64(1))
    with f.if_(code.load("i32").eq(0), likely=True):
        given = program, frame, arguments, results, flags, f.const("i1", 0), task.get(TASK, "peers")
        code.store(f.call("i32", "execute", *given))
        with f.if_(code.load("i32").eq(0)):  # the time of a stopped run says nothing about the next run
            program.set(PROGRAM, "nanoseconds", f.call("i64", "now") - begin)
    same = forks.eq(f.glob("forks").load("i32"))
    f.guard((same & queue.get(QUEUE, "closed").eq(0)) ^ 1, f.const("i1", 0))
    f.glob("pool_runs").atomic("sub", f.i64(1))
    f.call("void", "leave_grid", task, code.load("i32"))
    program.set(PROGRAM, "ended", program.get(PROGRAM, "ended") + 1, "release")
    good = code.load("i32").eq(0)
    with f.if_(good), f.loop(0, program.get(PROGRAM, "result_count")) as loop:
        record = inputs.item(count + loop.index).load("ptr")
        f.call("void", "record_publish", record, f.i32(READY), f.null())
    with f.unless(good):
        state = f.call("i32", "PyGILState_Ensure")
        owner, failed = task.get(TASK, "owner"), f.glob("failed_task").load("ptr")
        f.call("void", "Py_DecRef", f.call("ptr", "report", failed, owner, code.load("i32"), frame, flags))
        f.call("void", "PyGILState_Release", state)
    task.at(TASK.offset("ended")).store(f.i32(1), "release")
    f.ret(f.const("i1", 1))


@_FUNCTIONS("collect_tasks", "i32", "unused:ptr")
def _collect_tasks(f: GlueFunction, unused: Ssa) -> None:
    """The pending call that lets Python free ended tasks. It may come so late that the Python function no
    longer exists.
    """
    collect = f.glob("tasks_ended").load("ptr")
    f.guard(collect.eq(0), f.i32(0))
    f.ret(f.call_pointer("i32", collect, unused))


@_FUNCTIONS("queue_worker", "ptr", "queue:ptr")
def _queue_worker(f: GlueFunction, queue: Ssa) -> None:
    """The main function of a queue's thread: runs its tasks in order, and sleeps while there are none."""

    def count(field: str) -> None:
        for name in (field, "steps"):
            queue.at(QUEUE.offset(name)).atomic("add", f.i32(1))
        f.call("void", "futex_wake", queue.at(QUEUE.offset("steps")), f.i64(_EVERYBODY))

    queue.set(QUEUE, "thread", f.call("i64", "thread_id"))
    task_at = f.slot(queue.get(QUEUE, "first"))
    with f.while_loop() as loop:
        task = task_at.load("ptr").at(TASK.offset("next")).load("ptr", "acquire")
        with f.if_(task.eq(0)):
            f.call("void", "futex_wait", queue.at(QUEUE.offset("handed")), queue.get(QUEUE, "begun"))
            loop.again()
        task_at.store(task)
        count("begun")
        f.guard(f.call("i1", "run_task", queue, task) ^ 1, f.null())
        count("done")
        f.call("i32", "Py_AddPendingCall", f.glob("collect_tasks"), f.null())
    f.ret(f.null())


@_FUNCTIONS("queue_hand_over", "i32", "queue:ptr, task:ptr, owners:ptr", exported=True)
def _queue_hand_over(f: GlueFunction, queue: Ssa, task: Ssa, owners: Ssa) -> None:
    """Appends a task to the queue and its owner to the list `owners`, without Python code in between. Returns
    0, or 1 if the queue has no thread or the list cannot grow.
    """
    with f.if_(queue.get(QUEUE, "started").eq(0), likely=False):
        f.guard(f.call("i32", "thread_start", f.glob("queue_worker"), queue).ne(0), f.i32(1))
        queue.set(QUEUE, "started", 1)
    f.guard(f.call("i32", "PyList_Append", owners, task.get(TASK, "owner")).ne(0), f.i32(1))
    program = task.get(TASK, "program")
    program.set(PROGRAM, "handed", program.get(PROGRAM, "handed") + 1)
    queue.get(QUEUE, "last").at(TASK.offset("next")).store(task, "release")
    queue.set(QUEUE, "last", task)
    handed = queue.at(QUEUE.offset("handed"))
    handed.atomic("add", f.i32(1))
    f.call("void", "futex_wake", handed, f.i64(1))
    f.ret(f.i32(0))


@_FUNCTIONS("may_run", "i32", "program:ptr", exported=True)
def _may_run(f: GlueFunction, program: Ssa) -> None:
    """Whether a program may run on its caller's thread: it has no pending run and, if it has effects, all
    runs queued earlier have begun.
    """
    queue = program.get(PROGRAM, "queue")
    own = queue.get(QUEUE, "thread").eq(f.call("i64", "thread_id"))
    f.guard(own, f.i32(1))  # called by a function that a run of the queue calls
    f.guard(program.get(PROGRAM, "handed").ne(program.get(PROGRAM, "ended", "acquire")), f.i32(0))
    begun = queue.get(QUEUE, "handed").eq(queue.get(QUEUE, "begun", "acquire"))
    quiet = (program.get(PROGRAM, "flags") & EFFECTS).eq(0)
    f.ret((quiet | begun).cast("i32"))
