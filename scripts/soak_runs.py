"""The work of scripts/soak. Each function returns a line about its measurements, or raises Failed."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

import axla
from axla.core import cache


class Failed(Exception):
    """Raised if a soak finds a failure."""


def program_text(number: int) -> str:
    """The text of a program; the number determines sizes, a chain of ops and constants."""
    n, m = number % 13 + 2, number % 7 + 3
    lines = [
        "add_ { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }",
        f"ENTRY main {{ x0 = f32[{n},{m}] parameter(0)",
        f"  k = f32[] constant({number}.5e-4)  ks = f32[{n},{m}] broadcast(k), dimensions={{}}",
    ]
    for step in range(number % 3 + 1):
        op = ("add", "multiply", "maximum", "subtract")[(number + step) % 4]
        lines.append(f"  x{step + 1} = f32[{n},{m}] {op}(x{step}, ks)")
    lines.append("  zero = f32[] constant(0)")
    last = f"x{number % 3 + 1}"
    lines.append(f"  sums = f32[{n}] reduce({last}, zero), dimensions={{1}}, to_apply=add_")
    lines.append(f"  ROOT out = (f32[{n},{m}], f32[{n}]) tuple({last}, sums) }}")
    return "\n".join(lines)


def expected(number: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = np.float32(f"{number}.5e-4")
    for step in range(number % 3 + 1):
        x = (np.add, np.multiply, np.maximum, np.subtract)[(number + step) % 4](x, k)
    return x, x.sum(axis=1)


def compile_and_check(number: int) -> None:
    """Compiles the program of a number, runs it once and checks the results."""
    program = axla.compile(axla.parse(program_text(number)))
    n, m = number % 13 + 2, number % 7 + 3
    x = np.linspace(-1, 1, n * m, dtype=np.float32).reshape(n, m)
    found = program(x)
    for a, e in zip(found, expected(number, x), strict=True):
        if not np.allclose(np.asarray(a), e, rtol=1e-4, atol=1e-3):
            raise Failed(f"program {number} gives {np.asarray(a)}, wanted {e}")


def memory() -> tuple[float, int]:
    """(resident memory in MiB, number of memory mappings)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), Path("/proc/self/maps").read_text().count("\n")


def compile_and_drop(count: int = 2000, settle: int = 200, kib: float = 1.5) -> str:
    """Compiles, runs and discards programs: memory and mappings must not grow after the first `settle`
    programs.
    """
    os.environ["AXLA_CACHE_DIR"] = ""  # no compilation uses the cache
    kept, cache.MEMORY_BYTES = cache.MEMORY_BYTES, 128 << 10  # a small cache, which is full at once
    samples = []
    begin = time.monotonic()
    for number in range(count):
        compile_and_check(number)
        if (number + 1) % settle == 0:
            gc.collect()
            samples.append(memory())
            print(f"  {number + 1:6} programs: {samples[-1][0]:7.1f} MiB, {samples[-1][1]} mappings")
    cache.MEMORY_BYTES = kept
    seconds = time.monotonic() - begin
    # Freed memory comes and goes with the generations of the linker. Memory that is never freed shows in the
    # least of the last samples, compared with the least of the first ones.
    early, late = samples[: len(samples) // 2 or 1], samples[len(samples) // 2 :]
    grown = min(s[0] for s in late) - min(s[0] for s in early)
    mapped = min(s[1] for s in late) - min(s[1] for s in early)
    per_program = grown * 1024 / max(1, count - settle)
    line = (
        f"{count} programs, {seconds / count * 1e3:.1f} ms each: "
        f"{grown:+.1f} MiB ({per_program:.2f} KiB each), "
        f"{mapped:+} mappings between the halves"
    )
    # 1.5 KiB per program is less than one object file that is not freed.
    if per_program > kib or mapped > 8:
        raise Failed(line)
    return line


def call_and_compile(seconds: float = 60.0, threads: int = 8) -> str:
    """Threads call one program and compile others at the same time: all results must be right, without a
    deadlock. On a busy machine they take longer than `seconds`, as each compiles at least once.
    """
    faulthandler.dump_traceback_later(seconds + 60, exit=True)  # ends a deadlock, with all stacks
    n = 1000  # large enough for several threads
    shared = axla.compile(
        axla.parse(
            f"ENTRY e {{ x = f32[{n},{n}] parameter(0)  y = f32[{n},{n}] parameter(1)\n"
            f"  z = f32[{n},{n}] multiply(x, y)  ROOT r = f32[{n},{n}] exponential(z) }}"
        )
    )
    stop_at = time.monotonic() + seconds
    calls, compiled = [0] * threads, [0] * threads
    errors: list[str] = []

    def work(k: int) -> None:
        rng = np.random.default_rng(k)
        x, y = (rng.uniform(-1, 1, (n, n)).astype(np.float32) for _ in range(2))
        wanted = np.exp(x * y)
        first = None
        try:
            while (time.monotonic() < stop_at or not compiled[k]) and not errors:
                found = np.asarray(shared(x, y))
                first = found.copy() if first is None else first
                if not np.array_equal(found, first) or not np.allclose(found, wanted, rtol=1e-5):
                    errors.append(f"thread {k}, call {calls[k]}: a wrong result")
                calls[k] += 1
                if calls[k] % 4 == 0:
                    compile_and_check(k * 100_003 + compiled[k])
                    compiled[k] += 1
        except BaseException as error:
            errors.append(f"thread {k}: {error!r}")

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    faulthandler.cancel_dump_traceback_later()
    if errors:
        raise Failed("; ".join(errors[:3]))
    return (
        f"{threads} threads, {seconds:.0f} s: {sum(calls)} calls and {sum(compiled)} compilations, all right"
    )


def fork_under_load(count: int = 1000, threads: int = 4, seconds: float = 20.0) -> str:
    """Forks while threads call a parallel program and compile others; each child does both, and must end."""
    text = "ENTRY e {{ x = f32[{0}] parameter(0)  y = f32[{0}] sine(x)  ROOT r = f32[{0}] add(x, y) }}"
    shared = axla.compile(axla.parse(text.format(300_000)))
    x = np.ones(300_000, np.float32)
    wanted = np.asarray(shared(x)).copy()
    before = axla.num_threads()
    axla.set_num_threads(max(2, before))
    stop, numbers = threading.Event(), itertools.count()

    def work(k: int) -> None:
        while not stop.is_set():
            for _ in range(20):
                shared(x)
            compile_and_check(k * 100_003 + next(numbers))

    def child(number: int) -> None:
        faulthandler.register(signal.SIGALRM, chain=True)  # ends a child that hangs, with its stack
        signal.alarm(int(seconds) + 1)
        compile_and_check(10_000_019 + number)
        os._exit(0 if np.array_equal(np.asarray(shared(x)), wanted) else 1)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    begin = time.monotonic()
    faulthandler.dump_traceback_later(count * 2 + seconds, exit=True)  # ends this process if it hangs
    try:
        for number in range(count):
            process = multiprocessing.get_context("fork").Process(target=child, args=(number,))
            process.start()
            process.join(seconds + 5)
            if process.exitcode:
                raise Failed(f"child {number} ended with {process.exitcode}")
            if process.exitcode is None:
                process.kill()
                raise Failed(f"child {number} hangs")
    finally:
        stop.set()
        for worker in workers:
            worker.join()
        axla.set_num_threads(before)
        faulthandler.cancel_dump_traceback_later()
    each = (time.monotonic() - begin) / count
    return f"{count} forks beside {threads} busy threads, {each * 1e3:.1f} ms each: no child hangs"


LONG_LOOP = """
HloModule forever
body { t = (s64[], f32[]) parameter(0)
  i = s64[] get-tuple-element(t), index=0
  x = f32[] get-tuple-element(t), index=1
  one = s64[] constant(1)
  next = s64[] add(i, one)
  y = f32[] sine(x)
  ROOT r = (s64[], f32[]) tuple(next, y) }
condition { t = (s64[], f32[]) parameter(0)
  i = s64[] get-tuple-element(t), index=0
  n = s64[] constant(4611686018427387904)
  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY main { x = f32[] parameter(0)
  zero = s64[] constant(0)
  t = (s64[], f32[]) tuple(zero, x)
  w = (s64[], f32[]) while(t), condition=condition, body=body
  ROOT r = f32[] get-tuple-element(w), index=1 }
"""


def interrupt(after: float = 1.0) -> str:
    """Ctrl-C must stop a loop that would take years; afterwards the program can be called again."""
    program = axla.compile(axla.parse(LONG_LOOP))
    for _ in range(2):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore SIGINT
        sender = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
        sender.start()
        begin = time.monotonic()
        try:
            program(np.float32(1))
        except KeyboardInterrupt:
            seconds = time.monotonic() - begin
        else:
            raise Failed("the loop ended by itself")
        finally:
            sender.join()
        if seconds > after + 1:
            raise Failed(f"the signal came after {after} s, the loop stopped after {seconds:.2f} s")
    begin = time.monotonic()
    try:
        program.execute([np.float32(1)], deadline=0.2)
    except axla.DeadlineExceeded:
        late = time.monotonic() - begin - 0.2
    else:
        raise Failed("the deadline did not stop the loop")
    stopped = (seconds - after) * 1e3
    return f"Ctrl-C stops a loop {stopped:.1f} ms after it is sent, a deadline is {late * 1e3:.1f} ms late"
