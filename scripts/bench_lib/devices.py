"""Programs on two devices, compared with the same work on one device."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import axla
from axla import XlaBuilder, ops
from axla.core.dtypes import F32
from axla.core.shape import Shape
from bench_lib.row import Effort, Row, timed
from bench_lib.timing import Times, compare

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LAYERS, BATCH = (64, 256, 256, 10), 1500


def devices(effort: Effort) -> Iterator[Row]:
    """Rows for training on two devices, and for two programs at once. With one thread there are none."""
    if effort.threads < 2:
        return
    before = axla.num_threads()
    for name, section in {f"digits, batch {BATCH}, a step": training, "two programs": two_programs}.items():
        if effort.only in name:
            yield from section(effort, name)
            axla.set_num_threads(before)


def training(effort: Effort, name: str) -> Iterator[Row]:
    """Rows for a step of examples/data_parallel.py, on two devices and on one device with one or two
    threads.
    """
    sys.path.insert(0, str(EXAMPLES))
    from data_parallel import Training, load

    data = load()
    sides = {"axla": (2, 2), "1 device, 1 thread": (1, 1), "1 device, 2 threads": (1, 2)}
    trainings = {side: Training(LAYERS, data, BATCH, count) for side, (count, _) in sides.items()}

    def seconds(side: str) -> float:
        one = trainings[side]
        axla.set_num_threads(sides[side][1])
        one.feed()
        start = time.perf_counter()
        one.run()
        return (time.perf_counter() - start) / one.steps

    found: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(effort.rounds + 1):
        for side in sides if number % 2 else reversed(sides):
            took = seconds(side)
            if number:  # the first step is not timed
                found[side].append(took)
    for peer, goal in ("1 device, 1 thread", 0.65), ("1 device, 2 threads", 1.15):
        yield timed(effort, "devices", name, Times(found), peer, goal=goal)


def two_programs(effort: Effort, name: str) -> Iterator[Row]:
    """The row for two programs of matrix products on two devices, started by two threads, compared with both
    programs one after the other on one thread.
    """
    client = axla.Client("cpu", devices=2)
    programs = [client.compile(_products(n), device_assignment=[[n]]) for n in range(2)]
    x = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32) / 30
    calls = [_call(program, client.device_put(x, n)) for n, program in enumerate(programs)]

    def together() -> None:
        threads = [threading.Thread(target=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def in_turn() -> None:
        for call in calls:
            call()

    for count in (1, 2):
        axla.set_num_threads(count)
        peer = f"in turn, {count} thread{'s'[: count - 1]}"
        times = compare({"axla": together, peer: in_turn}, effort.rounds, effort.seconds)
        yield timed(effort, "devices", name, times, peer)


def _products(number: int) -> axla.Module:
    b = XlaBuilder(f"products{number}")
    x = y = ops.Parameter(b, 0, Shape(F32, (512, 512)))
    for _ in range(4):
        y = ops.Tanh(ops.Dot(y, x))
    return b.build(y).module


def _call(program: axla.Executable, argument: axla.Array) -> Callable[[], object]:
    def call() -> object:
        return program.execute([argument])

    return call
