"""Tuning: chooses the fastest plans of kernels on this machine, with the flag `autotune`.

A kernel's kind offers plans that give the same bits (`Kind.variants`). They are compiled, run in turn on one
thread and timed. The fastest is kept in the cache, under a key of everything that the times depend on. No
kernel is tried any more once the budget is used up. Ctrl-C ends the compilation between two runs; results up
to then stay in the cache.
"""

from __future__ import annotations

import ctypes as c
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from axla.codegen import llvm
from axla.codegen.host import host_target
from axla.codegen.native.image import Image
from axla.core import cache, flags, progress, trace
from axla.core.dataclass import dataclass
from axla.core.literal import aligned_memory
from axla.core.shape import Shape
from axla.cpu.compiler import KERNEL_LEVEL, checked_text, llvm_module, publish_kernel
from axla.ir.graph import Module
from axla.ir.typed import shape_of
from axla.program import abi
from axla.program.kernels import Kernel, output_shapes, variants_of
from axla.target.identity import identity
from axla.target.machine import Target

GAIN = 0.97
"""Another plan is preferred if its time is at most this share of the planned kernel's time."""
MOST_BYTES = 1 << 30
"""The highest total size, in bytes, of the arrays of a kernel that is tried."""
LONG, ROUNDS, SHORT = 0.5, 7, 2e-4
"""Seconds after which measuring a kernel ends, the most rounds, and the seconds of a variant in a round."""

TimedCall = Callable[[], object]
Measure = Callable[[Sequence[TimedCall]], list[float]]
TimeSource = Callable[[], float]


def seconds_of(calls: Sequence[TimedCall]) -> list[float]:
    """The seconds of CPU time of this thread that each call takes: the least of several rounds, in each of
    which all calls are made in turn.
    """
    now = time.thread_time
    best, counts, begin = [float("inf")] * len(calls), [1] * len(calls), now()
    for number, call in enumerate(calls):
        call()  # the first call fills pages and caches
        start = now()
        call()
        counts[number] = max(1, min(1000, int(SHORT / max(now() - start, 1e-7))))
    for turn in range(ROUNDS):
        for number, call in enumerate(calls):
            start = now()
            for _ in range(counts[number]):
                call()
            best[number] = min(best[number], (now() - start) / counts[number])
        if turn and now() - begin > LONG:
            break
    return best


_means: ContextVar[tuple[Measure, TimeSource]] = ContextVar("means", default=(seconds_of, time.monotonic))


@contextmanager
def measured_by(measure: Measure, clock: TimeSource = time.monotonic) -> Iterator[None]:
    """A context in which kernels are timed by `measure`, and `clock` determines when the budget is used
    up.
    """
    before = _means.set((measure, clock))
    try:
        yield
    finally:
        _means.reset(before)


def tuner(module: Module, target: Target) -> Tuner | None:
    """The function that chooses among plans of a module's kernels; None without the flag, or if the target is
    not this machine.
    """
    if not flags.current().autotune or identity(target) != identity(host_target()):
        return None
    kernels = sum(inst.op.opcode in _KERNELS for c in module.computations for inst in c.instructions)
    return Tuner(target, kernels)


_KERNELS = frozenset({"fusion", "dot", "convolution", "reduce"})


@dataclass(frozen=True, slots=True)
class _Found:
    """A cache entry: the text of the fastest plan, the seconds of the planned kernel, and the seconds of the
    fastest one.
    """

    plan: str
    planned: float
    seconds: float

    def encode(self) -> bytes:
        return json.dumps([self.plan, self.planned, self.seconds]).encode()

    @staticmethod
    def decode(data: bytes) -> _Found:
        """Reads what `encode` wrote; ValueError for other bytes."""
        match json.loads(data):
            case [str(plan), float(planned), float(seconds)]:
                return _Found(plan, planned, seconds)
        raise ValueError("the entry of the cache is not a result of tuning")


class Tuner:
    """Replaces a kernel by the variant with the fastest plan. `complete`: all kernels so far were tried, or
    their results were cached.
    """

    def __init__(self, target: Target, kernels: int) -> None:
        self.target, self.complete = target, True
        self._measure, self._clock = _means.get()
        self._end = self._clock() + flags.current().autotune_budget
        self._done, self._kernels = 0, kernels

    def __call__(self, kernel: Kernel) -> Kernel:
        """Returns the kernel with its fastest plan. Results of measurements are read from the cache, or made
        and cached. When the budget is used up, it returns the kernel unchanged, and `complete` becomes False.
        """
        start = time.perf_counter_ns()
        self._done += 1
        progress.report("tuning", self._done, max(self._done, self._kernels))
        variants = variants_of(kernel, self.target) if _is_tried(kernel) else []
        if not variants:
            return kernel
        known = {repr(v.plan): v for v in (kernel, *variants)}
        level = flags.current().optimization_level
        key = cache.key_of(
            cache.compiler(), cache.machine(), identity(self.target), level, kernel.name, *known
        )
        found = cache.get("tuning", key, _Found.decode)
        remembered = found is not None and found.plan in known
        if found is None or not remembered:
            if self._clock() >= self._end:
                self.complete = False
                return kernel
            found = self._try([*known.values()])
            cache.put("tuning", key, found, _Found.encode, lambda found: len(found.plan))
        best = known[found.plan]
        trace.add(
            kernel.name, start, time.perf_counter_ns(), "tuning", kernel=kernel.kind, variants=len(known),
            changes=", ".join(_changes(kernel.plan, best.plan)), planned_us=1e6 * found.planned,
            us=1e6 * found.seconds, remembered=remembered,
        )  # fmt: skip
        return best

    def _try(self, kernels: Sequence[Kernel]) -> _Found:
        """Measures these kernels, the first of which is the planned one, and returns the fastest."""
        memory = _memory(kernels)
        images = []
        for kernel in kernels:
            code = llvm_module(self.target)
            publish_kernel(code, kernel, self.target)
            text = checked_text(code, self.target)
            level = min(KERNEL_LEVEL, flags.current().optimization_level)
            object_ = llvm.emit_object(text, self.target, level=level)
            images.append(Image([(kernel.name, object_)], kernel.symbols))
        calls = [_call(k, i, memory) for k, i in zip(kernels, images, strict=True)]
        times = self._measure(calls)
        best = min(range(len(times)), key=times.__getitem__)
        if best:  # measured again, as its time may have been an outlier
            planned, again = self._measure([calls[0], calls[best]])
            best = best if max(times[best] / times[0], again / planned) <= GAIN else 0
        return _Found(repr(kernels[best].plan), float(times[0]), float(times[best]))


def _shapes(kernel: Kernel) -> list[Shape]:
    """The shapes of the kernel's inputs, then of its outputs."""
    return [*map(shape_of, kernel.computation.parameters), *output_shapes(kernel.computation)]


def _is_tried(kernel: Kernel) -> bool:
    shapes = _shapes(kernel)
    plain = all(not s.is_dynamic and s.dtype.bits >= 8 or s.dtype.is_pred for s in shapes)
    return plain and sum(s.byte_size for s in shapes) <= MOST_BYTES


def _memory(kernels: Sequence[Kernel]) -> list[memoryview]:
    """Memory for trial runs of variants of one kernel: a buffer for each input, filled with random numbers in
    [0.5, 2), one for each output, and one for scratch memory, large enough for each variant. An output that
    is written in place shares the buffer of its input.
    """
    kernel, rng = kernels[0], np.random.default_rng(0)
    shapes = _shapes(kernel)
    found = [aligned_memory(max(1, shape.byte_size)) for shape in shapes]
    for view, parameter in zip(found, kernel.computation.parameters, strict=False):
        shape = shape_of(parameter)
        numbers = rng.uniform(0.5, 2, shape.size).astype(shape.dtype.numpy)
        np.frombuffer(view, np.uint8)[: numbers.nbytes] = numbers.view(np.uint8)
    first = len(kernel.computation.parameters)
    for output, given in kernel.in_place:
        found[first + output] = found[given]
    return [*found, aligned_memory(max(1, *(k.plan.scratch_bytes for k in kernels)))]


def _call(kernel: Kernel, image: Image, memory: Sequence[memoryview]) -> TimedCall:
    """A function that runs `kernel`, whose code is in `image`, on the buffers `memory`: in ranges, as a
    program would, but on this thread only.
    """
    cancel, frame = c.c_int64(0), abi.FRAME.ctypes()()
    frame.version, frame.cancel = abi.FRAME_VERSION, c.addressof(cancel)
    places = [np.frombuffer(view, np.uint8).ctypes.data for view in memory]
    arguments = (c.c_void_p * len(places))(*places)
    kind = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64)
    pieces = []
    for phase in kernel.plan.phases:
        run = kind(image.addresses[phase.symbol])
        grain = max(phase.grain, -(-phase.count // MOST_PIECES)) if phase.parallel else phase.count
        ranges = range(0, phase.count, max(1, grain))
        pieces += [(run, low, min(low + grain, phase.count)) for low in ranges]

    def call() -> None:
        _ = image, memory, cancel
        for run, low, high in pieces:
            run(c.byref(frame), arguments, low, high)

    return call


MOST_PIECES = 64
"""The highest number of calls for a phase, as each costs a microsecond in Python."""


def _changes(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """Yields the fields in which two plans differ, as texts; `name` is the path of a plan inside another one.
    Phases and numbers of bytes are left out, since they follow from the other fields.
    """
    if type(old) is type(new) and is_dataclass(old):
        for field in fields(old):
            if field.name != "phases" and not field.name.endswith("_bytes"):
                inner = f"{name}.{field.name}" if name else field.name
                yield from _changes(getattr(old, field.name), getattr(new, field.name), inner)
    elif old != new:
        yield f"{name} {old} -> {new}"
