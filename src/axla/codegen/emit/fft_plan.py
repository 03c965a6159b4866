"""How a Fourier transform is cut: axes into stages, lines into pieces, scratch memory into tables and
buffers.

A line of n = r1 * r2 * ... values is transformed in stages (Stockham's form, which needs no reordering). A
stage of radix r at stride s reads x[q + s * (p + m * k)] for k < r, with r * m * s = n * width and q < s, p <
m, and writes y[q + s * (r * p + j)] for j < r. Along an axis that is not the minor one a line is `width`
neighbouring columns: the first stride is the width.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from axla.analysis.fourier import factors
from axla.analysis.kernel_kinds import FftKind
from axla.codegen.kernel import KernelTask, lines_per_piece
from axla.core.dtypes import DType
from axla.hlo.linear_algebra import Fft
from axla.ir.attributes import FftType
from axla.ir.typed import op_of
from axla.program.memory import aligned
from axla.program.plans import Axis, FftPlan, Phase, Stage
from axla.target.machine import Limits, Target

COLUMNS = 32
"""Columns that are transformed together."""
STAGE_COST = 4
"""Element operations of a stage for each of its values."""


class _Tables:
    """Gives every stage its place in the table; equal stages share one."""

    def __init__(self, itemsize: int):
        self.itemsize = itemsize
        self.size = 0
        self.places: dict[tuple[int, int], int] = {}

    def stage(self, radix: int, stride: int, count: int) -> Stage:
        key = (radix, count)
        if key not in self.places and count > 1:
            self.places[key] = self.size
            self.size += aligned(2 * (radix - 1) * count * self.itemsize)
        return Stage(radix, stride, count, self.places.get(key, 0))

    def stages(self, points: int, width: int) -> tuple[Stage, ...]:
        radices = factors(points)
        assert radices is not None
        found, stride, left = [], width, points
        for radix in radices:
            left //= radix
            found.append(self.stage(radix, stride, left))
            stride *= radix
        return tuple(found)


def plan(task: KernelTask, kind: FftKind, target: Target) -> FftPlan:
    """The plan of a transform all of whose lengths have factors that there are butterflies for."""
    op, operand, result = op_of(kind.hero, Fft), kind.hero.operands[0].shape, kind.hero.shape
    lengths, rank = op.fft_length, len(op.fft_length)
    dtype = (operand if operand.dtype.is_complex else result).dtype.real
    tables = _Tables(dtype.itemsize)
    # The array that the axes before the last one see: the complex one.
    dims = (operand if operand.dtype.is_complex else result).dims
    axes: list[Axis] = []
    for number in range(rank):
        d = len(dims) - rank + number
        last = number == rank - 1
        kind_of = (
            {FftType.RFFT: "real", FftType.IRFFT: "half"}.get(op.fft_type, "complex") if last else "complex"
        )
        inner = 1 if last else prod(dims[d + 1 :])
        if not last and lengths[number] == 1:
            continue
        axes.append(_axis(tables, kind_of, lengths[number], prod(dims[:d]), inner, target.limits))
    if op.fft_type is not FftType.IRFFT:
        axes.reverse()  # the last axis first: it alone reads the operand
    return _placed(task.name, axes, tables, dtype, op, prod(dims))


def _axis(tables: _Tables, kind: str, length: int, outer: int, inner: int, limits: Limits) -> Axis:
    width = min(inner, COLUMNS)
    halves = kind != "complex" and length % 2 == 0
    points = length // 2 if halves else length
    stages = tables.stages(points, width)
    # exp(-2 pi i k / length) for k < points: what a stage of radix 2 has.
    ends = tables.stage(2, 1, points) if halves else None
    steps = outer * -(-inner // width)
    cost = points * width * (len(stages) + 2) * STAGE_COST
    per_piece = lines_per_piece(steps, cost, limits)
    return Axis(kind, length, outer, inner, width, stages, ends, per_piece)


def _placed(name: str, axes: list[Axis], tables: _Tables, dtype: DType, op: Fft, size: int) -> FftPlan:
    """Phases, and where everything is in scratch memory: tables, the array between axes, buffers."""
    inverse = op.fft_type in (FftType.IFFT, FftType.IRFFT)
    middle = buffers = aligned(tables.size)
    if op.fft_type is FftType.IRFFT and len(axes) > 1:
        buffers += aligned(2 * size * dtype.itemsize)
    phases = [Phase(f"{name}.tables", 1, 1, False)] if tables.size else []
    phases += [Phase(f"{name}.axis{n}", axis.pieces, 1, axis.pieces > 1) for n, axis in enumerate(axes)]
    scale = 1.0 / prod(op.fft_length) if inverse else 1.0
    found = FftPlan(dtype, inverse, tuple(axes), tables.size, middle, buffers, scale, phases=tuple(phases))
    most = max((axis.pieces * found.piece_bytes(axis) for axis in axes), default=0)
    return replace(found, scratch_bytes=buffers + most)
