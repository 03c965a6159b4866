"""The thread pool, emitted: `parallel_for` for Linux (futex).

One pool a process, one parallel loop at a time. Its caller takes part: caller and workers claim ranges by an
atomic add, so the caller finishes alone when the other cores are busy elsewhere. A loop inside a loop, or
beside one of another thread, finds the pool taken and runs its ranges in order itself: nothing ever waits for
a free pool.

`pool_state` is one word: generation (high half), workers inside (from bit 1), open (bit 0). A worker enters
only while it is open, by compare and swap; the caller closes it when no range is left and waits for those
inside. So the job's fields, on the pool, are stable as long as somebody reads them, and a worker that comes
late never sees them. Idle workers spin for a moment and then sleep on the generation.
"""

from __future__ import annotations

from axla.codegen.native.assembly import Function, Functions, Module
from axla.codegen.native.structs import fields
from axla.codegen.straight import Ssa
from axla.program.abi import FRAME, Struct

JOB = Struct(
    "axla_job",
    "The parallel loop that the pool works on.",
    *fields("frame:ptr, kernel:ptr, args:ptr, count:i64, grain:i64, ranges:i64"),
)

# About 20 us on current cores: a wake-up through the kernel costs twice that, and spinning longer takes a
# core from somebody else on a busy machine.
_SPINS = 1000
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 128, 129  # private futexes
_PAUSE = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.hint", (1,))}
_NO_ERROR = -1
_SIG_SETMASK = 2


_WAITING, _FUNCTIONS = Functions(), Functions()


def emit_waiting(m: Module) -> None:
    """Adds what waits for other threads and wakes them."""
    _WAITING.emit(m)


def emit(m: Module) -> None:
    """Adds the pool to the module."""
    m.variable("pool_state", "i64")  # see above
    m.variable("pool_owner", "i32")  # 1: a parallel loop is running
    m.variable("pool_sleepers", "i32")
    m.variable("pool_waiting", "i32")  # 1: the caller sleeps until the workers have left
    m.variable("pool_next", "i64")  # the next range to claim
    m.variable("pool_error", "i64")  # (range << 32 | code) of the lowest range that failed
    m.variable("pool_job", f"[{JOB.size} x i8]")
    m.variable("pool_threads", "i64", "1")  # the caller included
    m.variable("pool_started", "i64")  # workers that exist
    emit_waiting(m)
    _FUNCTIONS.emit(m)


def _futex(f: Function, *arguments: Ssa) -> None:
    number = f.i64(_FUTEX[f.module.machine])
    f.module.declare("syscall", "declare i64 @syscall(i64, ...)")
    f.line(f"call i64 (i64, ...) @syscall({', '.join(map(repr, (number, *arguments)))})")


@_WAITING("futex_wait", "void", "address:ptr, value:i32")
def _futex_wait(f: Function, address: Ssa, value: Ssa) -> None:
    _futex(f, address, f.i64(_WAIT), value.cast("i64"), f.null())


@_WAITING("futex_wait_briefly", "void", "address:ptr, value:i32", exported=True)
def _futex_wait_briefly(f: Function, address: Ssa, value: Ssa) -> None:
    """10 ms at most."""
    time = f.space("[2 x i64]")
    time.store(f.i64(0))
    time.at(8).store(f.i64(10_000_000))
    _futex(f, address, f.i64(_WAIT), value.cast("i64"), time)


@_WAITING("futex_wake", "void", "address:ptr, count:i64")
def _futex_wake(f: Function, address: Ssa, count: Ssa) -> None:
    _futex(f, address, f.i64(_WAKE), count)


@_WAITING("pause", "void")
def _pause(f: Function) -> None:
    intrinsic, operands = _PAUSE[f.module.machine]
    f.call("void", intrinsic, *map(f.i32, operands))


def _range(f: Function, frame: Ssa, kernel: Ssa, args: Ssa, index: Ssa, grain: Ssa, count: Ssa) -> Ssa:
    """Runs one range, unless the run is to stop; gives its code or why it stops."""
    begin = index * grain
    end = begin + grain
    end = f.select(end.lt(count), end, count)
    code = f.slot(f.i32(0))
    with f.if_(frame.get(FRAME, "cancel").load("i64", "monotonic").ne(0), likely=False):
        code.store(f.call("i32", "poll", frame))
    with f.if_(code.load("i32").eq(0), likely=True):
        code.store(f.call_pointer("i32", kernel, frame, args, begin, end))
    return code.load("i32")


@_FUNCTIONS("thread_start", "i32", "routine:ptr, argument:ptr")
def _thread_start(f: Function, routine: Ssa, argument: Ssa) -> None:
    """Makes a thread that takes no signals: those belong to the threads of Python. Not 0: there is none."""
    all_signals, old = f.space("[128 x i8]"), f.space("[128 x i8]")
    thread = f.space("i64")
    f.call("i32", "sigfillset", all_signals)
    f.call("i32", "pthread_sigmask", f.i32(_SIG_SETMASK), all_signals, old)
    status = f.call("i32", "pthread_create", thread, f.null(), *f.params.values())
    with f.if_(status.eq(0), likely=True):
        f.call("i32", "pthread_detach", thread.load("i64"))
    f.call("i32", "pthread_sigmask", f.i32(_SIG_SETMASK), old, f.null())
    f.ret(status)


@_FUNCTIONS("pool_work", "void")
def _work(f: Function) -> None:
    """Claims and runs ranges until none is left or one has failed."""
    job = f.glob("pool_job")
    frame, kernel, args, count, grain, ranges = (job.get(JOB, field.name) for field in JOB.fields)
    with f.while_loop() as loop:
        with f.if_(f.glob("pool_error").load("i64", "monotonic").ne(_NO_ERROR), likely=False):
            loop.leave()
        index = f.glob("pool_next").atomic("add", f.i64(1), "monotonic")
        with f.if_(index.ge(ranges)):
            loop.leave()
        code = _range(f, frame, kernel, args, index, grain, count)
        with f.if_(code.ne(0), likely=False):
            # Ranges are claimed in order, so all below a failed one run to their end: the lowest is always
            # found.
            f.glob("pool_error").atomic("umin", (index << 32) | code.cast("i64"))


@_FUNCTIONS("pool_worker", "ptr", "index:ptr")
def _worker(f: Function, number: Ssa) -> None:
    """The life of a worker thread; `index` counts from 0."""
    index = number.cast("i64")
    state_at = f.glob("pool_state")
    generation_at = state_at.at(4)  # both supported machines are little endian
    seen = f.slot(f.i64(0))
    spins = f.slot(f.i64(0))
    with f.while_loop() as loop:
        state = state_at.load("i64", "acquire")
        generation = state >> 32
        fresh = generation.ne(seen.load("i64"))
        with f.if_(fresh):
            spins.store(f.i64(0))
            wanted = (index + 1).lt(f.glob("pool_threads").load("i64", "monotonic"))
            enter = (state & 1).ne(0) & wanted
            with f.if_(enter):
                with f.if_(state_at.exchange(state, state + 2)):
                    seen.store(generation)
                    f.call("void", "pool_work")
                    before = state_at.atomic("sub", f.i64(2))
                    last = before.cast("i32").eq(2)  # closed, and no other worker inside
                    sleeping = f.glob("pool_waiting").load("i32", "seq_cst").ne(0)
                    with f.if_(last & sleeping):
                        f.call("void", "futex_wake", state_at, f.i64(1))
                loop.again()
            seen.store(generation)
            loop.again()
        tries = spins.load("i64")
        with f.if_(tries.lt(_SPINS)):
            f.call("void", "pause")
            spins.store(tries + 1)
            loop.again()
        # The opener raises the generation before it looks at `sleepers`, a sleeper does it the other way
        # round: one of the two sees the other.
        f.glob("pool_sleepers").atomic("add", f.i32(1))
        f.call("void", "futex_wait", generation_at, generation.cast("i32"))
        f.glob("pool_sleepers").atomic("sub", f.i32(1))
        spins.store(f.i64(0))
    f.ret(f.null())


@_FUNCTIONS("pool_start", "void")
def _start(f: Function) -> None:
    """Makes the workers that are missing."""
    started_at = f.glob("pool_started")
    with f.while_loop() as loop:
        started = started_at.load("i64")
        with f.if_((started + 1).ge(f.glob("pool_threads").load("i64"))):
            loop.leave()
        status = f.call("i32", "thread_start", f.glob("pool_worker"), started.cast("ptr"))
        with f.if_(status.ne(0), likely=False):
            # No more threads to be had: go on with those there are, and do not ask again at every loop.
            f.glob("pool_threads").store(started + 1)
            loop.leave()
        started_at.store(started + 1)


@_FUNCTIONS("pool_serial", "i32", "frame:ptr, kernel:ptr, args:ptr, count:i64, grain:i64, ranges:i64")
def _serial(f: Function, frame: Ssa, kernel: Ssa, args: Ssa, count: Ssa, grain: Ssa, ranges: Ssa) -> None:
    with f.loop(0, ranges) as loop:
        code = _range(f, frame, kernel, args, loop.index, grain, count)
        f.guard(code.ne(0), code)
    f.ret(f.i32(0))


@_FUNCTIONS(
    "axla_parallel_for", "i32", "frame:ptr, kernel:ptr, args:ptr, count:i64, asked:i64", exported=True
)
def _parallel_for(f: Function, frame: Ssa, kernel: Ssa, args: Ssa, count: Ssa, asked: Ssa) -> None:
    with f.if_(count.le(0), likely=False):  # the code of a program polls so
        f.ret(f.call("i32", "poll", frame))
    whole = asked.le(0) | asked.ge(count)
    grain = f.select(whole, count, asked)
    ranges = (count - 1).udiv(grain) + 1
    serial = [frame, kernel, args, count, grain, ranges]
    alone = ranges.le(1) | f.glob("pool_threads").load("i64", "monotonic").le(1)
    with f.if_(alone):
        f.ret(f.call("i32", "pool_serial", *serial))
    with f.unless(f.glob("pool_owner").exchange(f.i32(0), f.i32(1))):
        f.ret(f.call("i32", "pool_serial", *serial))
    threads = f.glob("pool_threads").load("i64")
    with f.if_((f.glob("pool_started").load("i64") + 1).lt(threads), likely=False):
        f.call("void", "pool_start")
    for field, value in zip(JOB.fields, serial, strict=True):
        f.glob("pool_job").set(JOB, field.name, value)
    f.glob("pool_next").store(f.i64(0), "monotonic")
    f.glob("pool_error").store(f.i64(_NO_ERROR), "monotonic")
    _open(f, ranges, threads)
    f.call("void", "pool_work")
    _close(f)
    error = f.glob("pool_error").load("i64", "monotonic")
    f.glob("pool_owner").store(f.i32(0), "release")
    f.ret(f.select(error.eq(_NO_ERROR), f.i32(0), error.cast("i32")))


def _open(f: Function, ranges: Ssa, threads: Ssa) -> None:
    """Lets workers in, and wakes as many sleepers as there is work for."""
    state_at = f.glob("pool_state")
    generation = (state_at.load("i64") >> 32) + 1
    state_at.store((generation << 32) | 1, "seq_cst")
    with f.if_(f.glob("pool_sleepers").load("i32", "seq_cst").gt(0)):
        wake = f.select(ranges.lt(threads), ranges, threads) - 1
        f.call("void", "futex_wake", state_at.at(4), wake)


def _close(f: Function) -> None:
    """Lets nobody in any more and waits for those inside: a moment by spinning, then asleep."""
    state_at = f.glob("pool_state")
    state_at.atomic("and", f.i64(-2))
    spins = f.slot(f.i64(0))
    with f.while_loop() as loop:
        inside = state_at.load("i64", "seq_cst").cast("i32")
        with f.if_(inside.eq(0), likely=True):
            loop.leave()
        tries = spins.load("i64")
        with f.if_(tries.lt(_SPINS)):
            f.call("void", "pause")
            spins.store(tries + 1)
            loop.again()
        f.glob("pool_waiting").store(f.i32(1), "seq_cst")
        f.call("void", "futex_wait", state_at, inside)
        f.glob("pool_waiting").store(f.i32(0), "seq_cst")


@_FUNCTIONS("pool_reset", "void")
def _reset(f: Function) -> None:
    """In a forked child, where only the forking thread lives: no workers, nothing running."""
    for name in ("pool_state", "pool_started"):
        f.glob(name).store(f.i64(0))
    for name in ("pool_owner", "pool_sleepers", "pool_waiting"):
        f.glob(name).store(f.i32(0))
