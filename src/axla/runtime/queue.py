"""The queue of a device: its asynchronous runs and their errors.

    (y,) = executable.execute([x], asynchronous=True)    # the run is under way, or waits for its turn
    y.is_ready()
    y.block_until_ready()                                # raises the error of the run

`codegen/native/queue.py` starts the runs, each after all earlier runs in the queue have ended. A synchronous
call waits for the queued runs of its program; if the program has side effects, it waits until all queued runs
have begun. A fork waits for all runs. Runs that have not ended when the interpreter exits are cancelled.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import ctypes as c
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn
from weakref import WeakSet

from axla.codegen.native.structs import (
    EFFECTS,
    EXTERNAL,
    FAILED,
    FAILURE,
    GRID,
    PENDING,
    QUEUE,
    READY,
    RECORD,
    TASK,
    WATCHED,
)
from axla.core import locks
from axla.core.errors import Cancelled, InvalidArgument, OutOfMemory
from axla.core.status import status_of
from axla.program import abi
from axla.runtime.arguments import converted, failed_call
from axla.runtime.array import Array, device_put, give_back, maker_of
from axla.runtime.native import native

_SHORT = 2_000_000
"""Runs that take less than this number of nanoseconds stay on the caller's thread: handing a run over takes
40 us, 2 % of it.
"""

_FORK_WAIT, _EXIT_WAIT = 5.0, 0.45
"""The seconds that a fork waits for runs to end, and the seconds that the exit of the interpreter waits
before it cancels runs, and again after that.
"""

_MOST_RUNS = 32
"""The limit of runs in a queue: each has already allocated its results."""

_log = logging.getLogger("axla")
_Record: Any = RECORD.ctypes()
_I32 = c.c_int32


class Failure:
    """The error of an asynchronous run, shared by all its results. Calling the object raises the error. If
    that never happens, the error is logged when the object is freed.
    """

    __slots__ = ("error", "struct", "_text", "_unread", "__weakref__")

    def __init__(self, error: BaseException, run: str) -> None:
        self.error = error
        error.add_note(f"in {run}")
        self._text = c.create_string_buffer(str(error).encode("utf-8", "replace"))
        at = c.addressof(self._text)
        self.struct: Any = FAILURE.ctypes()(code=status_of(error), size=len(self._text) - 1, text=at)
        # Whoever interrupted the run knows that it failed: this is not logged.
        self._unread = not (isinstance(error, Cancelled) and error.code == abi.INTERRUPTED)
        _failures.add(self)

    def __call__(self) -> NoReturn:
        """Raises the error. From then on it counts as read, so it is not logged when the object is freed."""
        self._unread = False
        raise raised_again(self.error)

    def publish(self, record: int) -> None:
        """Makes a pending record fail with this error. `record` is its address."""
        _Record.from_address(record).failure = c.addressof(self.struct)
        native().record_publish(record, FAILED, self)

    def report(self) -> None:
        """Logs the error if it was never raised."""
        unread, self._unread = self._unread and not self.struct.read, False
        if unread:
            _log.error("a run failed, and nobody read its results: %r", self.error)

    __del__ = report


def raised_again(error: BaseException) -> BaseException:
    """A copy of an error, to be raised for one reader of a result. Raising the error itself would add the
    frames of every reader to it, which refer to arrays that refer to the error: a cycle that the garbage
    collector cannot find.
    """
    with contextlib.suppress(Exception):  # an exception class may not support copying
        found = copy.copy(error)
        found.__cause__ = error.__cause__
        return found.with_traceback(error.__traceback__)
    return error


class Task:
    """An asynchronous run. Until the run has ended, the object keeps its inputs, results and code in
    memory.

    Raises InvalidArgument for a deleted array, or OutOfMemory; donated arguments are returned then.
    """

    def __init__(self, loaded: Any, arguments: Sequence[Array], grid: Any = None) -> None:
        self.loaded: Any = loaded
        self.queue: Queue = loaded.queue
        self.grid = grid
        self.inputs: list[int] = []
        self.records: list[int] = []
        self.timer: threading.Timer | None = None
        self.over = False
        """Whether the run was stopped before it began."""
        number, device = loaded.block.handed + 1, loaded.queue.device
        self.name = f"run {number} of {loaded.interface.name} on device {device}"
        self.aliases = aliases = {alias.parameter: alias.result for alias in loaded.interface.aliases}
        try:
            for index, array in enumerate(arguments):
                self.inputs.append(loaded.native.array_hold(array, index in aliases))
            if not all(self.inputs):
                raise InvalidArgument(f"{loaded.interface.name}: an argument was deleted during the call")
            self._make_results({result: self.inputs[index] for index, result in aliases.items()})
        except BaseException:
            self.undo(arguments)
            raise
        held, count = [*self.inputs, *self.records], len(self.inputs)
        places = [_Record.from_address(record).address for record in held]
        for index, result in aliases.items():
            places[index] = places[count + result]
        self._lists = (c.c_void_p * (2 * len(held) + 1))(*places, *held)
        at = c.addressof(self._lists)
        self.struct: Any = TASK.ctypes()(program=loaded.address, lists=at, owner=id(self))
        self.struct.peers = grid.peers(loaded) if grid is not None else None
        flags = (self.struct, TASK.offset("flags")) if grid is None else (grid.struct, GRID.offset("stop"))
        self.flag = c.c_int32.from_buffer(*flags)
        self.struct.cancel = c.addressof(self.flag)
        for record in map(_Record.from_address, self.records):
            record.ready, record.context = PENDING, c.addressof(self.flag)
            record.device = loaded.queue.device

    def undo(self, arguments: Sequence[Array]) -> None:
        """Returns donated arguments to their arrays, if the run cannot be started."""
        for index in self.aliases.keys() & range(len(self.inputs)):
            give_back(arguments[index], self.inputs[index])
            self.inputs[index] = 0

    def results(self) -> list[Array]:
        """Makes the arrays of the results, which from now on own the memory of donated arguments."""
        for index, result in self.aliases.items():
            given, record = map(_Record.from_address, (self.inputs[index], self.records[result]))
            if given.address == record.address:
                given.flags, record.flags = EXTERNAL, 0
        found = []
        for info, record in zip(
            self.loaded.infos[len(self.loaded.interface.parameters) :], self.records, strict=True
        ):
            self.loaded.native.record_hold(record)
            found.append(self.loaded.native.array_new(info.address, info, record))
        return found

    def _make_results(self, donated: Mapping[int, int]) -> None:
        """Makes the records of the results. `donated` has, by a result's number, the address of the record of
        the donated argument whose memory the result takes over. If something else refers to this memory, the
        result uses a copy.
        """
        runtime, interface = self.loaded.native, self.loaded.interface
        for result, spec in enumerate(interface.results):
            given = _Record.from_address(donated[result]) if result in donated else None
            record = 0
            # References are held by this task, and by the run that computes the array if it has not ended.
            holders = given.refs % WATCHED if given is not None else 0
            if given is not None and not given.flags and holders == (2 if given.ready <= PENDING else 1):
                record = runtime.record_over(given.address, spec.bytes)
                if record:  # `results` takes the memory over
                    _Record.from_address(record).flags = EXTERNAL
            source = given if not record else None
            self.records.append(record := record or runtime.record_new(spec.bytes))
            if not record:
                message = f"{interface.name}: out of memory: {spec.bytes} bytes are not available"
                raise OutOfMemory(message, abi.OUT_OF_MEMORY)
            if source is not None:
                with contextlib.suppress(Exception):  # the input's run failed: so will this one
                    runtime.record_wait(donated[result], 0)
                c.memmove(_Record.from_address(record).address, source.address, spec.bytes)

    def fail(self, error: BaseException) -> None:
        """Makes the results fail: with the error of a failed input, if there is one, else with `error`."""
        with _failing:  # against another thread that stops or runs the task
            inputs = [record for record in map(_Record.from_address, self.inputs) if record.ready == FAILED]
            pending = [record for record in self.records if _Record.from_address(record).ready <= PENDING]
            known = [c.cast(record.context, c.py_object).value for record in inputs]
            error = known[0].error if known else error
            told = self.grid.told if self.grid is not None else []  # all participants share one failure
            if self.grid is not None:
                error = self.grid.failed(error)
            if not pending:  # it was stopped before it began, or has no results
                return
            failure = next((one for one in [*known, *told] if one.error is error), None) or Failure(
                error, self.name
            )
            told[:] = [failure]
            for record in pending:
                failure.publish(record)

    def is_left(self) -> bool:
        """Whether the run has neither ended nor been stopped before it began."""
        ended = self.struct.ended or self.over
        return not ended and all(_Record.from_address(r).ready <= PENDING for r in self.records)

    def stop(self, code: int) -> None:
        """Sets the cancel flag to `code`. A run that has not begun fails at once."""
        grid = self.grid
        if grid is not None and code == abi.DEADLINE:
            grid.expire(self.name)
        self.flag.value = self.flag.value or code
        if self.loaded is not None and not native().task_claim(c.addressof(self.struct)):
            _failed_task(self, code, 0, 0, code, 0)
            self.over = True

    def release(self) -> None:
        """Releases everything except the struct, which links to the next task in the queue."""
        if self.timer is not None:
            self.timer.cancel()
        held, self.inputs, self.records = [*self.inputs, *self.records], [], []
        self.loaded = self.timer = self.grid = None
        for record in held:
            native().record_release(record)

    __del__ = release


class Queue:
    """The queue of a device. All methods can be called from any thread."""

    ends = False
    """Whether the interpreter is exiting; then runs use their callers' threads."""

    def __init__(self, device: int) -> None:
        self.device = device
        self._runtime = native()
        self._lock = locks.new_lock()
        self._kept: list[Any] = []  # what threads of before a fork may still read
        self.struct: Any = QUEUE.ctypes()()
        self.address = c.addressof(self.struct)
        self._reset()

    def _reset(self) -> None:
        """Empties the queue; a new thread is started when needed."""
        self._tasks: list[Task] = []
        self._before: Any = TASK.ctypes()()  # the last ended task; links to the next one
        c.memset(self.address, 0, QUEUE.size)
        self.struct.first = self.struct.last = c.addressof(self._before)
        self._kept += self._tasks, self._before

    def __len__(self) -> int:
        """The number of runs that have not ended."""
        return (self.struct.handed - self.struct.done) & 0xFFFFFFFF

    def dispatch(
        self, call: Any, loaded: Any, arguments: Sequence[Any], deadline: float | None
    ) -> list[Array]:
        """Puts a run into the queue and returns its results. `call` is the native call of the program
        `loaded`; `deadline` limits the run, in seconds. A short run whose inputs are ready is executed at
        once, on this thread.

        Raises InvalidArgument for arguments that do not fit, OutOfMemory, and the errors of a run executed at
        once. Errors of other runs are raised when their results are read.
        """
        self.collect()
        own = self.struct.thread == threading.get_ident()  # called by a function of a run
        if own or self.ends or (deadline is None and self._is_short(loaded, arguments)):
            begin = time.monotonic_ns()
            found = call(*arguments)
            loaded.block.nanoseconds = time.monotonic_ns() - begin
            return [found] if isinstance(found, Array) else list(found)
        given = converted(loaded.interface, arguments)
        task = Task(loaded, [a if isinstance(a, Array) else device_put(a) for a in given])
        results = task.results()
        self.hand_over(task, deadline)
        return results

    def hand_over(self, task: Task, deadline: float | None) -> None:
        """Puts a task into the queue, after waiting while the queue is full. The task stops `deadline`
        seconds from now. OutOfMemory if the queue's thread cannot be started.
        """
        self._wait(lambda: len(self) < _MOST_RUNS)
        if self.ends:
            raise Cancelled(f"{task.loaded.interface.name}: the interpreter is exiting", abi.INTERRUPTED)
        if deadline is not None:
            task.timer = threading.Timer(min(deadline, threading.TIMEOUT_MAX), task.stop, [abi.DEADLINE])
            task.timer.daemon = True
            task.timer.start()
        if self._runtime.queue_hand_over(self.address, c.addressof(task.struct), self._tasks):
            name = task.loaded.interface.name
            raise OutOfMemory(f"{name}: the thread of the device's queue cannot be started")

    def _is_short(self, loaded: Any, arguments: Sequence[Any]) -> bool:
        block = loaded.block
        short = not loaded.interface.long_running or 0 < block.nanoseconds < _SHORT
        records = [_Record.from_address(a._record) for a in arguments if isinstance(a, Array) and a._record]
        ready = block.handed == block.ended and all(record.ready == READY for record in records)
        return short and ready and not loaded.effects

    def cancel(self, loaded: Any, code: int = abi.CANCELLED) -> int:
        """Stops the runs of a program, or, if `loaded` is None, all runs. Returns their number."""
        found = [t for t in list(self._tasks) if t.is_left() and (loaded is None or t.loaded is loaded)]
        for task in found:
            task.stop(code)
        return len(found)

    def collect(self) -> None:
        """Releases what the ended runs hold. Does nothing if this is already in progress, in any thread."""
        ended: list[Task] = []
        if not self._lock.acquire(blocking=False):
            return
        try:
            while self._tasks and self._tasks[0].struct.ended:
                ended.append(self._tasks.pop(0))
                self._before = ended[-1]
        finally:
            self._lock.release()
        for task in ended:
            task.release()

    def await_turn(self, loaded: Any, flag: int) -> bool:
        """Waits until the program may run on this thread; returns whether it had to wait. `flag` is the
        address of its cancel flag, or 0. If the flag is set, raises the error for it.
        """
        if self._runtime.may_run(loaded.address):
            return bool(loaded.block.handed or loaded.block.flags & EFFECTS)
        code = _I32.from_address(flag) if flag else _I32(0)
        try:
            self._wait(lambda: self._runtime.may_run(loaded.address) or code.value)
        except BaseException:  # from a signal handler
            self.cancel(loaded, abi.INTERRUPTED)
            raise
        if code.value:
            failed_call(loaded, code.value, 0, 0, code.value, 0)
        return True

    def drain(self, seconds: float = math.inf) -> bool:
        """Waits until all runs have ended, at most `seconds`; returns whether they have."""
        limit = time.monotonic() + seconds
        if self.struct.thread != threading.get_ident():
            self._wait(lambda: not len(self) or time.monotonic() > limit)
        return not len(self)

    def _wait(self, until: Callable[[], object]) -> None:
        """Waits until `until()` is true. It is tested when a run begins or ends, and from time to time."""
        while True:
            steps = self.struct.steps
            if until():
                return
            self._runtime.sleep_briefly(self.address + QUEUE.offset("steps"), steps)

    def lose(self) -> None:
        """Makes all runs fail in a forked child. In the parent they continue."""
        for task in self._tasks:
            task.loaded.block.ended = task.loaded.block.handed
            if not task.struct.ended:
                task.fail(Cancelled("the process was forked before the run ended", abi.INTERRUPTED))
        self._reset()


_failures: WeakSet[Failure] = WeakSet()
_queues: dict[int, Queue] = {}
_lock, _failing = locks.new_lock(), locks.new_lock(threading.RLock)


def queue_of(device: int) -> Queue:
    """The queue of a device, given by its ordinal."""
    with _lock:
        if not _queues:
            runtime = native()
            runtime.keep(failed_task=_failed_task)
            runtime.glue.variable("tasks_ended").value = c.cast(_collect, c.c_void_p).value
            maker_of[:] = [_maker_of]
            atexit.register(_leave)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
        if device not in _queues:
            _queues[device] = Queue(device)
        return _queues[device]


def own_queue() -> Queue | None:
    """The queue whose run called the code of the current thread; None for other threads."""
    here = threading.get_ident()
    return next((queue for queue in list(_queues.values()) if queue.struct.thread == here), None)


def _maker_of(record: int) -> str:
    tasks = [task for queue in list(_queues.values()) for task in list(queue._tasks)]
    return next((task.name for task in tasks if record in task.records), "a run")


def _failed_task(task: Task, *facts: int) -> None:
    try:
        failed_call(task.loaded, *facts)
    except BaseException as error:  # noqa: BLE001  (whatever it is, who reads the results gets it)
        task.fail(error)


@c.PYFUNCTYPE(c.c_int, c.c_void_p)
def _collect(unused: int) -> int:
    for queue in list(_queues.values()):
        queue.collect()
    return 0


def _before_fork() -> None:
    for queue in list(_queues.values()):
        queue.drain(_FORK_WAIT)


def _after_fork() -> None:
    for queue in _queues.values():
        queue.lose()


def _leave() -> None:
    """Waits for runs at exit, or stops them. Errors not read by then are logged."""
    native().glue.variable("tasks_ended").value = None
    Queue.ends = True
    for queue in list(_queues.values()):
        queue.drain(_EXIT_WAIT)
    for failure in list(_failures):
        failure.report()
    for queue in list(_queues.values()):
        if queue.cancel(None, abi.INTERRUPTED):
            queue.drain(_EXIT_WAIT)
        queue.struct.closed = 1
