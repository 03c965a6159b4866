"""Plans of Fourier transforms: the stages of each axis, the lines of each piece, and tables and buffers in
scratch memory.

A line of n = r1 * r2 * ... values is transformed in stages (Stockham's form, which needs no reordering). A
stage of radix r at stride s reads x[q + s * (p + m * k)] for k < r, with r * m * s = n * width and q < s, p <
m, and writes y[q + s * (r * p + j)] for j < r. Along an axis that is not the minor one, a line consists of
`width` adjacent columns: the first stride is the width.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.hlo import Fft
from axla.ir.attributes import FftType
from axla.ir.typed import op_of, shape_of
from axla.kernels.kind import HeroKind
from axla.kernels.plan import KernelTask, Phase, Plan, lines_per_piece
from axla.target.machine import Limits, Target, aligned

RADICES = (4, 2, 3, 5, 7, 11, 13)
"""The prime factors that lengths may have, and 4, in the order in which stages use them."""


def factors(length: int) -> list[int] | None:
    """The radices whose product is `length`, in the order of RADICES; None if another prime factor is
    left.
    """
    found: list[int] = []
    for radix in RADICES:
        while length and length % radix == 0:
            found.append(radix)
            length //= radix
    return found if length == 1 else None


def transformed_lengths(kind: str, lengths: tuple[int, ...]) -> list[int]:
    """The lengths of the complex transforms that are computed: a real line of even length is transformed as a
    complex one of half the length.
    """
    last = lengths[-1] // 2 if kind in ("RFFT", "IRFFT") and lengths[-1] % 2 == 0 else lengths[-1]
    return [*lengths[:-1], last]


COLUMNS = 32
"""The highest number of columns that are transformed together."""
STAGE_COST = 4
"""The estimated operations of a stage for each of its values."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a Fourier transform: its radix, its stride, and the byte offset `table`, in the memory for
    tables, of its factors exp(-2 pi i j p / (radix * count)).
    """

    radix: int
    stride: int
    count: int  # the m of the module's description: the number of values of p
    table: int  # byte offset of the real parts for j = 1, p = 0; each j has `count` factors


@dataclass(frozen=True, slots=True)
class FftAxis:
    """The transform of one axis of an array [outer, length, inner]."""

    kind: str  # complex, real (to complex), half (complex to real)
    length: int  # of the real or complex transform
    outer: int
    inner: int
    width: int  # columns of a step
    stages: tuple[Stage, ...]  # of the complex transform that is computed
    ends: Stage | None  # the factors of a real transform of even length
    per_piece: int

    @property
    def points(self) -> int:
        """The length of the complex transform that is computed."""
        return self.length // 2 if self.ends is not None else self.length

    @property
    def strips(self) -> int:
        """The number of steps for one outer index; each transforms up to `width` inner columns."""
        return -(-self.inner // self.width)

    @property
    def steps(self) -> int:
        """The number of steps for the whole array, each of which transforms up to `width` columns."""
        return self.outer * self.strips

    @property
    def pieces(self) -> int:
        """The number of pieces that threads take: `per_piece` steps each."""
        return -(-self.steps // self.per_piece)


@dataclass(frozen=True, slots=True)
class FftPlan(Plan):
    """The plan of a whole transform: its axes in order, and its tables. Offsets are in bytes of scratch
    memory.
    """

    dtype: DType  # of real and imaginary parts
    inverse: bool
    axes: tuple[FftAxis, ...]
    middle: int  # offset of the array between the axes of a complex-to-real transform
    buffers: int  # offset of the first buffer of the pieces
    scale: float

    def plane_bytes(self, axis: FftAxis) -> int:
        """The bytes of one part (real or imaginary) of the values that a step of an axis transforms: a line
        or a strip of lines.
        """
        return aligned(axis.points * axis.width * self.dtype.itemsize)

    def piece_bytes(self, axis: FftAxis) -> int:
        """The bytes of scratch memory of a piece: two buffers, each with a plane for the real and one for the
        imaginary parts of a step.
        """
        return 4 * self.plane_bytes(axis)


class FftKind(HeroKind):
    """A Fourier transform of a parameter whose lengths have only factors in RADICES."""

    name = "fft"
    heroes = (Fft,)
    planned = FftPlan
    emission = "axla.codegen.emit.fft:emit"

    def __str__(self) -> str:
        return f"fft of {self.hero.operands[0].shape}"

    def plan(self, task: KernelTask, target: Target) -> FftPlan:
        """Plans the axes of a transform, one after the other: the last axis first, or last if the result is
        real.
        """
        op, operand, result = op_of(self.hero, Fft), shape_of(self.hero.operands[0]), shape_of(self.hero)
        lengths, rank = op.fft_length, len(op.fft_length)
        # The array that the axes before the last one transform, which is complex.
        whole = operand if operand.dtype.is_complex else result
        dtype, dims = whole.dtype.real, whole.dims
        tables = _Tables(dtype.itemsize)
        axes: list[FftAxis] = []
        for number in range(rank):
            d = len(dims) - rank + number
            last = number == rank - 1
            kind = {FftType.RFFT: "real", FftType.IRFFT: "half"}.get(op.fft_type) if last else None
            inner = 1 if last else prod(dims[d + 1 :])
            if not last and lengths[number] == 1:
                continue
            outer = prod(dims[:d])
            axes.append(_axis(tables, kind or "complex", lengths[number], outer, inner, target.limits))
        if op.fft_type is not FftType.IRFFT:
            axes.reverse()  # the last axis comes first, as it alone reads the operand
        return _placed(task.name, axes, tables, dtype, op, prod(dims))


class _Tables:
    """Assigns each stage its offset in the table; equal stages share one offset."""

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


def _axis(tables: _Tables, kind: str, length: int, outer: int, inner: int, limits: Limits) -> FftAxis:
    width = min(inner, COLUMNS)
    halves = kind != "complex" and length % 2 == 0
    points = length // 2 if halves else length
    stages = tables.stages(points, width)
    # exp(-2 pi i k / length) for k < points: the factors of a stage of radix 2.
    ends = tables.stage(2, 1, points) if halves else None
    steps = outer * -(-inner // width)
    cost = points * width * (len(stages) + 2) * STAGE_COST
    per_piece = lines_per_piece(steps, cost, limits)
    return FftAxis(kind, length, outer, inner, width, stages, ends, per_piece)


def _placed(name: str, axes: list[FftAxis], tables: _Tables, dtype: DType, op: Fft, size: int) -> FftPlan:
    """The plan with offsets in scratch memory for tables, the array between axes, and buffers. `size` is the
    number of complex values in the array between axes.
    """
    inverse = op.fft_type in (FftType.IFFT, FftType.IRFFT)
    middle = buffers = aligned(tables.size)
    if op.fft_type is FftType.IRFFT and len(axes) > 1:
        buffers += aligned(2 * size * dtype.itemsize)
    phases = [Phase(f"{name}_tables", 1, 1, False)] if tables.size else []
    phases += [Phase(f"{name}_axis{n}", axis.pieces, 1, axis.pieces > 1) for n, axis in enumerate(axes)]
    scale = 1.0 / prod(op.fft_length) if inverse else 1.0
    found = FftPlan(dtype, inverse, tuple(axes), middle, buffers, scale, phases=tuple(phases))
    most = max((axis.pieces * found.piece_bytes(axis) for axis in axes), default=0)
    return replace(found, scratch_bytes=buffers + most)
