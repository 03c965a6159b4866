"""Plans of kernels: what the planner of each kind decided for a computation and a Target, once.

Phases, scratch memory, how the index space is cut, which instructions of the kernel's own computation (by
name) are treated specially. Plans are values: planning the same computation for an equal Target again gives
an equal plan. Emitters (`axla.codegen.emit`) read computation, plan and Target and decide none of this again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from axla.core.dtypes import F32, S16, U16, DType
from axla.program.memory import aligned

DIGIT = 8
"""Bits of a digit of a sort: the counts of its 256 values stay in the nearest cache."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One call of a kernel function: `count` steps of its outer index space, handed out in pieces of `grain`.

    `parallel`: worth several threads. All of a phase is done before the next begins. `threads` run each step
    together.
    """

    symbol: str
    count: int
    grain: int
    parallel: bool
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Space:
    """A row-major index space cut for a kernel: `outer` sizes, then `inner` elements that lanes run along, in
    `block`s.

    The kernel's outer index counts blocks: (outer..., block number). `threads` share the elements of a step.
    """

    outer: tuple[int, ...]
    inner: int
    block: int
    lanes: int
    threads: int = 1

    @property
    def blocks(self) -> int:
        return -(-self.inner // self.block)

    @property
    def count(self) -> int:
        return prod(self.outer) * self.blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a kernel is called. Each kind of plan adds what its emitter reads."""

    phases: tuple[Phase, ...]
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LoopPlan(Plan):
    """Every root is computed element by element; `dims` are the sizes of the space before it was cut."""

    dims: tuple[int, ...]
    space: Space


@dataclass(frozen=True, slots=True)
class UpdatePlan(Plan):
    """A dynamic-update-slice (`hero`) in place: a loop over the elements of the update, of `dims`."""

    dims: tuple[int, ...]
    space: Space
    hero: str


@dataclass(frozen=True, slots=True)
class ScatterPlan(Plan):
    """A scatter in place. A window is taken in rows of `row` elements, `lanes` at a time."""

    hero: str
    row: int
    lanes: int


@dataclass(frozen=True, slots=True)
class RowPlan(Plan):
    """Reductions over the trailing dimensions: `rows` x `columns`, stage by stage (names of reduces).

    `full_roots` and `row_roots`: numbers of the roots with a value per element, and per row. Rows are reduced
    in `pieces` of `piece` columns each (the last has what is left); one piece: a step is a whole row.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    stages: tuple[tuple[str, ...], ...]
    full_roots: tuple[int, ...]
    row_roots: tuple[int, ...]
    lanes: int
    pieces: int
    piece: int

    @property
    def row_count(self) -> int:
        return prod(self.rows)

    @property
    def row_size(self) -> int:
        return prod(self.columns)


@dataclass(frozen=True, slots=True)
class ColumnPlan(Plan):
    """Reductions of [outer, reduced, inner] over the middle: `space` is that of [outer, inner].

    `kept_in`: for each reduce the root whose outputs hold its partial results, -1 for scratch memory.
    """

    outer: int
    reduced: int
    inner: int
    reduces: tuple[str, ...]
    space: Space
    kept_in: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransposePlan(Plan):
    """Transposes of `input_dims` (collapsed) by `permutation`, in blocks of `block` x `block` elements, in
    registers of `lanes` x `lanes`.

    The output space is (outer..., p, q): q is the minor dimension of the output, p that of the input.
    """

    input_dims: tuple[int, ...]
    permutation: tuple[int, ...]
    heroes: tuple[str, ...]
    lanes: int
    block: int

    @property
    def output_dims(self) -> tuple[int, ...]:
        return tuple(self.input_dims[d] for d in self.permutation)

    @property
    def q(self) -> int:
        return len(self.input_dims) - 1

    @property
    def p(self) -> int:
        return self.permutation.index(self.q)

    @property
    def outer(self) -> tuple[int, ...]:
        """The other output dimensions."""
        return tuple(d for d in range(self.q) if d != self.p)

    @property
    def steps(self) -> tuple[int, ...]:
        """The kernel's outer index space: the outer dimensions, then blocks of rows."""
        dims = self.output_dims
        return (*(dims[d] for d in self.outer), -(-dims[self.p] // self.block))


@dataclass(frozen=True, slots=True)
class Piece:
    """Operand `operand` of a concatenation: where it begins in the result, and how its elements are cut."""

    operand: int
    start: int
    space: Space


@dataclass(frozen=True, slots=True)
class ConcatPlan(Plan):
    """A concatenation along `dimension` to `dims`: a phase for each piece that has elements."""

    dims: tuple[int, ...]
    dimension: int
    hero: str
    pieces: tuple[Piece, ...]


# -- matrix products -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GemmSpec:
    """out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n].

    A transposed lhs is stored [b, k, m], a transposed rhs [b, n, k]. Strides are in elements, None for dense;
    a batch stride of 0 repeats one matrix. Sums of small floats are f32; those of bytes have 16 bits, which
    wrap to the same low bits.
    """

    dtype: DType
    accumulator: DType
    result: DType
    batch: int
    m: int
    n: int
    k: int
    lhs_transposed: bool = False
    rhs_transposed: bool = False
    lhs_row: int | None = None
    rhs_row: int | None = None
    out_row: int | None = None
    lhs_batch: int | None = None
    rhs_batch: int | None = None
    out_batch: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "accumulator", _widened(self.accumulator))
        rows = {
            "lhs": (self.k, self.m) if self.lhs_transposed else (self.m, self.k),
            "rhs": (self.n, self.k) if self.rhs_transposed else (self.k, self.n),
            "out": (self.m, self.n),
        }
        for side, (count, width) in rows.items():
            if getattr(self, f"{side}_row") is None:
                object.__setattr__(self, f"{side}_row", width)
            if getattr(self, f"{side}_batch") is None:
                object.__setattr__(self, f"{side}_batch", count * getattr(self, f"{side}_row"))

    def stride(self, name: str) -> int:
        """`lhs_row`, `rhs_batch`... as a number."""
        return int(getattr(self, name))


def _widened(dtype: DType) -> DType:
    if dtype.is_float and dtype.bits < 32:
        return F32
    if dtype.is_integer and dtype.bits < 16:
        # No vector unit multiplies bytes in one instruction.
        return S16 if dtype.is_signed else U16
    return dtype


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of a micro-kernel: rows, vectors per row, lanes per vector, k-steps per iteration."""

    rows: int
    vectors: int
    lanes: int
    unroll: int = 1

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How a multiplication is done. Sizes of blocks are in elements.

    `method`: tile (blocks of micro-kernel tiles), narrow (all of rhs in registers), columns and rows (matrix
    times vector, along a contiguous result or a contiguous k), fill (k is 0). A call takes `group` units.
    """

    method: str
    tile: Tile
    depth: int
    unit_rows: int
    unit_columns: int
    pack_lhs: bool
    pack_rhs: bool
    units: int
    group: int
    prefetch: bool = False
    lhs_bytes: int = 0
    rhs_bytes: int = 0
    partial_bytes: int = 0

    @property
    def calls(self) -> int:
        return -(-self.units // self.group)

    @property
    def lhs_stride(self) -> int:
        """Row stride of a packed tile of lhs: longer than a row, lest all fall on the same cache sets."""
        return self.depth + 16

    @property
    def region_bytes(self) -> int:
        """Scratch of one call: a call over [begin, end) uses region `begin`, so no two calls share one."""
        return self.lhs_bytes + self.rhs_bytes + self.partial_bytes

    @property
    def scratch_bytes(self) -> int:
        return self.region_bytes * self.calls


@dataclass(frozen=True, slots=True)
class DotPlan(Plan):
    """A dot by the multiplication generator, with elementwise work where its results are stored."""

    hero: str
    product: GemmSpec
    cut: GemmPlan


@dataclass(frozen=True, slots=True)
class ConvolutionPlan(Plan):
    """The sizes of a convolution and of its tiles. `mode`: features, pixels or channels (see the emitter)."""

    mode: str
    batch: int
    groups: int
    inputs: int  # per group
    outputs: int
    places: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    accumulator: DType
    lanes: int
    vectors: int
    singles: int

    @property
    def vector_axis(self) -> int:
        return {"features": self.outputs, "pixels": self.places[-1], "channels": self.groups}[self.mode]

    @property
    def single_axis(self) -> int:
        return self.outputs if self.mode == "pixels" else self.places[-1]

    @property
    def outer(self) -> tuple[int, ...]:
        """The kernel's outer index space."""
        tiles = -(-self.vector_axis // (self.vectors * self.lanes))
        return (self.batch, *self.places[:-1], 1 if self.mode == "channels" else self.groups, tiles)


# -- sorts and transforms ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SortKey:
    """Elements stand in the order of what the comparator compares, a function of one element's parameters.

    `side`: which parameters the first operand of the comparison reads, the even (0) or the odd ones.
    """

    side: int
    descending: bool
    total_order: bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class SortPlan(Plan):
    """The lines of a sort, how they are cut into pieces, and what scratch memory a piece has."""

    hero: str
    length: int
    lines: int
    stride: int  # between elements of a line
    per_piece: int
    key: SortKey | None  # None: lines are merged
    dtypes: tuple[DType, ...]

    @property
    def pieces(self) -> int:
        return -(-self.lines // self.per_piece) if self.lines and self.length else 0

    @property
    def digits(self) -> int:
        return -(-self.key.dtype.bits // DIGIT) if self.key else 0

    def buffer_offsets(self) -> list[list[int]]:
        """Where in a piece's scratch memory the buffers of each operand lie: [buffer][operand].

        The output is one of two buffers where lines are contiguous. The counts of digits come first.
        """
        at, found = self.digits * 4 << DIGIT, []
        for _ in range(1 if self.stride == 1 else 2):
            here = []
            for dtype in self.dtypes:
                here.append(at)
                at += aligned(self.length * dtype.itemsize)
            found.append(here)
        return found

    @property
    def piece_bytes(self) -> int:
        return self.buffer_offsets()[-1][-1] + aligned(self.length * self.dtypes[-1].itemsize)


@dataclass(frozen=True, slots=True)
class TopKPlan(Plan):
    """The `k` first of each of `lines` lines of `length` elements, `per_piece` lines for each heap."""

    lines: int
    length: int
    k: int
    largest: bool
    per_piece: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a Fourier transform: radix, stride, and where its factors exp(-2 pi i j p / (radix * count))
    are in the table.
    """

    radix: int
    stride: int
    count: int  # m: values of p
    table: int  # of j = 1, p = 0; each j has `count`; bytes, of the real parts


@dataclass(frozen=True, slots=True)
class Axis:
    """The transform of one axis of an array [outer, length, inner]."""

    kind: str  # complex, real (to complex), half (complex to real)
    length: int  # of the transform as it is seen
    outer: int
    inner: int
    width: int  # columns of a step
    stages: tuple[Stage, ...]  # of the complex transform that is done
    ends: Stage | None  # the factors of a real transform of even length
    per_piece: int

    @property
    def points(self) -> int:
        """The length of the complex transform that is done."""
        return self.length // 2 if self.ends is not None else self.length

    @property
    def strips(self) -> int:
        return -(-self.inner // self.width)

    @property
    def steps(self) -> int:
        return self.outer * self.strips

    @property
    def pieces(self) -> int:
        return -(-self.steps // self.per_piece)


@dataclass(frozen=True, slots=True)
class FftPlan(Plan):
    """All of a transform: its axes in order and its tables. Places are bytes of scratch memory."""

    dtype: DType  # of the parts
    inverse: bool
    axes: tuple[Axis, ...]
    table_bytes: int
    middle: int  # where the array between the axes of a complex-to-real transform is
    buffers: int  # where the buffers of the pieces begin
    scale: float

    def plane_bytes(self, axis: Axis) -> int:
        """One part of all values of a line."""
        return aligned(axis.points * axis.width * self.dtype.itemsize)

    def piece_bytes(self, axis: Axis) -> int:
        """Two buffers of two planes."""
        return 4 * self.plane_bytes(axis)


AnyPlan = (
    LoopPlan | UpdatePlan | ScatterPlan | RowPlan | ColumnPlan | TransposePlan | ConcatPlan | DotPlan
    | ConvolutionPlan | SortPlan | TopKPlan | FftPlan
)  # fmt: skip
