"""Programs that several threads call at once, and programs that run while another process keeps a CPU
busy.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

from bench_lib import peers, programs
from bench_lib.row import Effort, Row, timed
from bench_lib.timing import Times

_CALLERS = (1, 2, 4, 8)
_SPIN = "while True: pass"


def callers(effort: Effort) -> Iterator[Row]:
    """Rows whose seconds are the time of all calls, divided by their number."""
    for program in (programs.add(64), programs.add(1 << 16), programs.product(256, 256, 256)):
        inputs = program.inputs()
        function = peers.xla_function(program.text)
        sides = {
            "axla": peers.axla_call(peers.axla_function(program.text), inputs),
            "XLA": peers.xla_call(function, inputs),
        }
        peers.check(program.name, sides["axla"](), sides["XLA"](), program.tolerance)
        what = f"{program.name} of {inputs[0].shape}"
        for count in _CALLERS:
            name = f"{what}, {count} caller{'s' * (count > 1)}"
            if effort.only in name:
                yield timed(effort, "callers", name, _together(sides, count, effort), "XLA", goal=1.2)
        name = f"{what}, beside a busy process"
        if effort.only in name:
            with _busy():
                times = _together(sides, 1, effort)
            yield timed(effort, "callers", name, times, "XLA", goal=1.2)


def _together(sides: dict[str, Callable[[], object]], count: int, effort: Effort) -> Times:
    found: dict[str, list[float]] = {side: [] for side in sides}
    order = list(sides)
    for _ in range(effort.rounds):
        for side in order:
            found[side].append(_round(sides[side], count, effort.seconds))
        order.reverse()
    return Times(found)


def _round(call: Callable[[], object], count: int, seconds: float) -> float:
    """The seconds per call while `count` threads call for `seconds`."""
    calls = [0] * count
    gate = threading.Barrier(count + 1)
    end = 0.0

    def work(number: int) -> None:
        gate.wait()
        while time.perf_counter() < end:
            call()
            calls[number] += 1

    call()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    begin = time.perf_counter()
    end = begin + seconds
    gate.wait()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - begin) / max(1, sum(calls))


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    """While the context is active, another process keeps the CPUs of this process busy."""
    process = subprocess.Popen([sys.executable, "-c", _SPIN])
    try:
        yield
    finally:
        process.kill()
        process.wait()
