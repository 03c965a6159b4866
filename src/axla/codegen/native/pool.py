"""Emits the thread pools and `parallel_for`.

A parallel loop takes the first free pool. The caller takes part: caller and workers claim ranges by an atomic
add, so the caller finishes alone when the other cores are busy elsewhere. Threads are shared fairly: while n
runs are active (`pool_runs`), a loop gets 1/n of them, its caller included. With a share of one, and where
all pools are taken, a caller runs its ranges in order itself: nothing ever waits for a free pool.

`POOL.state` is one word: generation (high half), workers inside (from bit 1), open (bit 0). A worker enters
by compare and swap, only while the pool is open and not full; the caller closes it when no range is left and
waits for the workers inside. So the job's fields are stable as long as a worker reads them, and a worker that
comes late never sees them. Idle workers spin for a moment and then sleep on the generation.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.structs import fields
from axla.codegen.straight import Ssa
from axla.program.abi import FRAME, CField, Struct

POOL = Struct(
    "axla_pool",
    "Threads and their parallel loop. Fields that many threads write have their own cache lines.",
    CField("state", "i64", "see above"),
    CField("apart", "u64", "", count=7),
    CField("next", "i64", "the next range to claim"),
    CField("owner", "i32", "1: a loop is running"),
    CField("sleepers", "i32", "number of workers that sleep"),
    CField("waiting", "i32", "1: the caller sleeps until the workers have left"),
    CField("started", "i32", "number of workers that exist"),
    CField("apart_too", "u64", "", count=5),
    *fields("frame:ptr, kernel:ptr, args:ptr, count:i64, grain:i64, ranges:i64"),
    CField("threads", "i64", "number of threads that may work on the loop, the caller included"),
    CField("error", "i64", "(range << 32 | code) of the lowest range that failed"),
)
_JOB = ("frame", "kernel", "args", "count", "grain", "ranges", "threads")
_POOLS = 32

# About 20 us on current cores: a wake-up through the kernel costs twice that, and longer spinning takes a
# core from other programs on a busy machine.
_SPINS = 1000
_PAUSE = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.hint", (1,))}
_NO_ERROR = -1


_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the pools and their functions to the module."""
    m.variable("pools", f"[{_POOLS * POOL.size} x i8]")
    m.variable("pool_threads", "i64", "1")  # threads of all pools together, callers included
    m.variable("pool_runs", "i64")  # runs without the interpreter lock that are under way
    _FUNCTIONS.emit(m)


@_FUNCTIONS("pause", "void", exported=True)
def _pause(f: GlueFunction) -> None:
    intrinsic, operands = _PAUSE[f.module.machine]
    f.call("void", intrinsic, *map(f.i32, operands))


def _range(f: GlueFunction, frame: Ssa, kernel: Ssa, args: Ssa, index: Ssa, grain: Ssa, count: Ssa) -> Ssa:
    """Runs one range, unless the run must stop; returns the kernel's code, or the code with which the run
    must stop.
    """
    begin = index * grain
    end = begin + grain
    end = f.select(end.lt(count), end, count)
    code = f.slot(f.i32(0))
    with f.if_(frame.get(FRAME, "cancel").load("i64", "monotonic").ne(0), likely=False):
        code.store(f.call("i32", "poll", frame))
    with f.if_(code.load("i32").eq(0), likely=True):
        code.store(f.call_pointer("i32", kernel, frame, args, begin, end))
    return code.load("i32")


@_FUNCTIONS("pool_work", "void", "pool:ptr")
def _work(f: GlueFunction, pool: Ssa) -> None:
    """Claims and runs ranges until none is left or one has failed."""
    frame, kernel, args, count, grain, ranges, _ = (pool.get(POOL, name) for name in _JOB)
    error_at = pool.at(POOL.offset("error"))
    with f.while_loop() as loop:
        with f.if_(error_at.load("i64", "monotonic").ne(_NO_ERROR), likely=False):
            loop.leave()
        index = pool.at(POOL.offset("next")).atomic("add", f.i64(1), "monotonic")
        with f.if_(index.ge(ranges)):
            loop.leave()
        code = _range(f, frame, kernel, args, index, grain, count)
        with f.if_(code.ne(0), likely=False):
            # Ranges are claimed in order, so all below a failed one run to their end: the lowest is always
            # found.
            error_at.atomic("umin", (index << 32) | code.cast("i64"))


@_FUNCTIONS("pool_worker", "ptr", "pool:ptr")
def _worker(f: GlueFunction, pool: Ssa) -> None:
    """The main function of a worker thread: works on the loops of its pool; between them, it first spins,
    then sleeps.
    """
    state_at, sleepers_at = pool, pool.at(POOL.offset("sleepers"))
    generation_at = state_at.at(4)  # both supported machines are little endian
    seen = f.slot(f.i64(0))
    spins = f.slot(f.i64(0))
    with f.while_loop() as loop:
        state = state_at.load("i64", "acquire")
        generation = state >> 32
        fresh = generation.ne(seen.load("i64"))
        with f.if_(fresh):
            spins.store(f.i64(0))
            inside = (state & 0xFFFFFFFF) >> 1
            with f.if_((state & 1).ne(0) & (inside + 1).lt(pool.get(POOL, "threads"))):
                with f.if_(state_at.exchange(state, state + 2)):
                    seen.store(generation)
                    f.call("void", "pool_work", pool)
                    before = state_at.atomic("sub", f.i64(2))
                    last = before.cast("i32").eq(2)  # closed, and no other worker inside
                    sleeping = pool.at(POOL.offset("waiting")).load("i32", "seq_cst").ne(0)
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
        # Whoever opens the pool raises the generation before it reads `sleepers`. A worker counts itself in
        # `sleepers` before the kernel compares the generation. So at least one of the two sees what the other
        # wrote.
        sleepers_at.atomic("add", f.i32(1))
        f.call("void", "futex_wait", generation_at, generation.cast("i32"))
        sleepers_at.atomic("sub", f.i32(1))
        spins.store(f.i64(0))
    f.ret(f.null())


@_FUNCTIONS("pool_start", "void", "pool:ptr, threads:i64")
def _start(f: GlueFunction, pool: Ssa, threads: Ssa) -> None:
    """Starts the workers that are missing for `threads` threads, the caller included."""
    with f.while_loop() as loop:
        started = pool.get(POOL, "started")
        with f.if_((started + 1).cast("i64").ge(threads)):
            loop.leave()
        status = f.call("i32", "thread_start", f.glob("pool_worker"), pool)
        with f.if_(status.ne(0), likely=False):
            # No more threads can be started: continue with those that exist, and do not try again in every
            # loop.
            f.glob("pool_threads").store((started + 1).cast("i64"))
            loop.leave()
        pool.set(POOL, "started", started + 1)


_SERIAL = "frame:ptr, kernel:ptr, args:ptr, count:i64, grain:i64, ranges:i64"


@_FUNCTIONS("pool_serial", "i32", _SERIAL)
def _serial(f: GlueFunction, frame: Ssa, kernel: Ssa, args: Ssa, count: Ssa, grain: Ssa, ranges: Ssa) -> None:
    with f.loop(0, ranges) as loop:
        code = _range(f, frame, kernel, args, loop.index, grain, count)
        f.guard(code.ne(0), code)
    f.ret(f.i32(0))


@_FUNCTIONS(
    "axla_parallel_for", "i32", "frame:ptr, kernel:ptr, args:ptr, count:i64, asked:i64", exported=True
)
def _parallel_for(f: GlueFunction, frame: Ssa, kernel: Ssa, args: Ssa, count: Ssa, asked: Ssa) -> None:
    with f.if_(count.le(0), likely=False):  # code of a program calls this to poll
        f.ret(f.call("i32", "poll", frame))
    whole = asked.le(0) | asked.ge(count)
    grain = f.select(whole, count, asked)
    ranges = (count - 1).udiv(grain) + 1
    serial = [frame, kernel, args, count, grain, ranges]
    runs = f.smax(f.glob("pool_runs").load("i64", "monotonic"), f.i64(1))
    threads = f.glob("pool_threads").load("i64", "monotonic").udiv(runs)
    with f.if_(ranges.gt(1) & threads.gt(1)), f.loop(0, _POOLS) as loop:
        pool = f.glob("pools").item(loop.index, POOL.size)
        with f.if_(pool.at(POOL.offset("owner")).exchange(f.i32(0), f.i32(1))):
            f.ret(f.call("i32", "pool_run", pool, *serial, threads))
    f.ret(f.call("i32", "pool_serial", *serial))


@_FUNCTIONS("pool_run", "i32", f"pool:ptr, {_SERIAL}, threads:i64")
def _run(f: GlueFunction, pool: Ssa, *job: Ssa) -> None:
    """Runs a parallel loop on a pool that the caller owns; returns 0, or the code of the lowest range that
    failed.
    """
    *_, ranges, threads = job
    f.call("void", "pool_start", pool, threads)
    for name, value in zip(_JOB, job, strict=True):
        pool.set(POOL, name, value)
    pool.set(POOL, "error", _NO_ERROR)
    pool.at(POOL.offset("next")).store(f.i64(0), "monotonic")
    _open(f, pool, ranges, threads)
    f.call("void", "pool_work", pool)
    _close(f, pool)
    error = pool.at(POOL.offset("error")).load("i64", "monotonic")
    pool.at(POOL.offset("owner")).store(f.i32(0), "release")
    f.ret(f.select(error.eq(_NO_ERROR), f.i32(0), error.cast("i32")))


def _open(f: GlueFunction, state_at: Ssa, ranges: Ssa, threads: Ssa) -> None:
    """Opens a pool for workers, and wakes sleeping ones: as many as `threads` allows, the caller included,
    but not more than there are `ranges`.
    """
    generation = (state_at.load("i64") >> 32) + 1
    state_at.store((generation << 32) | 1, "seq_cst")
    with f.if_(state_at.at(POOL.offset("sleepers")).load("i32", "seq_cst").gt(0)):
        wake = f.select(ranges.lt(threads), ranges, threads) - 1
        f.call("void", "futex_wake", state_at.at(4), wake)


def _close(f: GlueFunction, state_at: Ssa) -> None:
    """Closes a pool for further workers and waits for those inside: first spinning, then asleep."""
    waiting_at = state_at.at(POOL.offset("waiting"))
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
        waiting_at.store(f.i32(1), "seq_cst")
        f.call("void", "futex_wait", state_at, inside)
        waiting_at.store(f.i32(0), "seq_cst")


@_FUNCTIONS("pool_reset", "void")
def _reset(f: GlueFunction) -> None:
    """Resets the pools in a forked child, which has only the forking thread: no workers, nothing running."""
    f.call("ptr", "memset", f.glob("pools"), f.i32(0), f.i64(_POOLS * POOL.size))
    f.glob("pool_runs").store(f.i64(0))
