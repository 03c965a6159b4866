"""Plans of sorts along a dimension and of topk. Lines are sorted by merging; by digits, if the comparator
compares keys; or by a network, if they are short. topk finds the k largest (or smallest) elements of every
line, for small k.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, DType
from axla.core.shape import Shape
from axla.hlo import Compare, Constant, Parameter, Select, Sort, TopK
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import op_of, shape_of
from axla.kernels.kind import HeroKind
from axla.kernels.plan import KernelTask, Phase, Plan, fitting, lines_per_piece
from axla.target.machine import Limits, Target, aligned

DIGIT = 8
"""The bits of a digit of a radix sort: the counts of its 256 values stay in L1."""
LOCAL_BYTES = 16 << 10
"""The bytes of local memory that a thread block may use, so that several blocks can run at the same time."""
SLOTS = 8
"""The highest number of elements per thread of a block."""
LONGEST_BY_LANES = 512
"""The longest line, in elements per lane of a vector, that a network sorts; beyond it, digits are faster."""
LEAST_LANES = 4
"""The least number of lanes of the vectors of a network."""
LONGEST = 1 << 30
"""The longest line, in elements, that thread blocks sort: twice the length must be below 2**32."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """The key of a sort: the function of an element that the comparator compares. Without total order the
    comparator does not order NaN; then NaN is ordered by its bits: with the sign bit set before all numbers,
    else after them (for an ascending sort).

    `side`: the parameters that the first operand of the comparison reads: the even ones (0) or the odd ones
    (1).
    """

    side: int
    descending: bool
    total_order: bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Network:
    """The sizes of a sorting network for a line: its keys, of 32 bits, are `rows` vectors of `lanes` lanes.
    Elements beyond the end of the line are greater than all keys. `held` vectors are in registers at once.
    """

    key: SortKey
    rows: int
    lanes: int
    held: int

    @property
    def key_bytes(self) -> int:
        """The bytes of all keys."""
        return 4 * self.rows * self.lanes


@dataclass(frozen=True, slots=True)
class SortPlan(Plan):
    """The plan of a sort: its lines, their pieces, and the scratch memory of a piece.

    `key`: the key by whose digits lines are sorted; without a key, they are merged. With a `network`, lines
    are sorted by digits or merged only if the network cannot sort them.
    """

    hero: str
    length: int
    lines: int
    stride: int  # between elements of a line
    per_piece: int
    key: SortKey | None
    dtypes: tuple[DType, ...]
    network: Network | None = None

    tile: int = 0  # elements that a thread block sorts or merges in local memory; 0: threads do not cooperate

    @property
    def pieces(self) -> int:
        """The number of pieces that threads take, `per_piece` lines each."""
        return -(-self.lines // self.per_piece) if self.lines and self.length else 0

    @property
    def row(self) -> int:
        """The number of elements of one line in a tile, a power of two: all elements of a short line."""
        return min(self.tile, 1 << (self.length - 1).bit_length())

    @property
    def tiles(self) -> int:
        """The number of tiles of a long line."""
        return -(-self.length // self.tile)

    @property
    def passes(self) -> int:
        """The number of passes that merge pairs of runs, which begin as tiles."""
        return (self.tiles - 1).bit_length()

    def array_offsets(self) -> list[int]:
        """The offsets in scratch memory of the arrays that passes write in turn with the outputs, one per
        operand; the last number is the total size.
        """
        found = [0]
        for dtype in self.dtypes:
            found.append(found[-1] + aligned(self.lines * self.length * dtype.itemsize))
        return found

    @property
    def digits(self) -> int:
        """The number of passes of a radix sort: the digits of a key; 0 if lines are merged."""
        return -(-self.key.dtype.bits // DIGIT) if self.key else 0

    def buffer_offsets(self) -> list[list[int]]:
        """The offsets of each operand's buffers in a piece's scratch memory: [buffer][operand].

        There is one buffer if lines are contiguous, since the output is the other one. The counts of digits
        come first.
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
    def network_offset(self) -> int:
        """The offset, in a piece's scratch memory, of the keys of a network; the sorted line follows them."""
        return self.buffer_offsets()[-1][-1] + aligned(self.length * self.dtypes[-1].itemsize)

    @property
    def piece_bytes(self) -> int:
        """The scratch memory of a piece, in bytes."""
        return self.network_offset + (2 * aligned(self.network.key_bytes) if self.network else 0)


class SortKind(HeroKind):
    """A sort of parameters, line by line."""

    name = "sort"
    heroes = (Sort,)
    planned = SortPlan
    emission = "axla.codegen.emit.sort:emit"

    def __str__(self) -> str:
        return f"sort of {len(self.hero.operands)}"

    @classmethod
    def overwritten(cls, hero: Instruction, limits: Limits) -> tuple[Instruction, ...]:
        """The operands that may share memory with the results: all on targets where one thread sorts a line,
        since it reads elements before it overwrites them; else none.
        """
        return hero.operands if limits.sorts_in_place else ()

    def plan(self, task: KernelTask, target: Target) -> SortPlan:
        """Plans pieces of lines, or tiles for thread blocks."""
        hero, op = self.hero, op_of(self.hero, Sort)
        shapes = tuple(map(shape_of, hero.operands))
        dims = shapes[0].dims or (1,)
        dimension = op.dimension
        length = dims[dimension]
        lines = prod(dims) // length if length else 0
        compared = sort_key(op.to_apply)
        alone = target.threads == 1 or length > LONGEST
        key = compared if compared is None or not alone or _digits_pay(compared, length) else None
        dtypes, stride = tuple(s.dtype for s in shapes), prod(dims[dimension + 1 :])
        network = None
        if compared is not None and alone and stride == 1 and dtypes == (compared.dtype,):
            network = _network(compared, op.to_apply, length, target)
        cost = length * max(1, length.bit_length()) * (1 if network else 4)
        per_piece = lines_per_piece(lines, cost, target.limits)
        found = SortPlan(hero.name, length, lines, stride, per_piece, key, dtypes, network, phases=())
        if not alone and found.pieces:
            return _by_blocks(found, task.name, target)
        phase = Phase(task.name, found.pieces, 1, found.pieces > 1)
        return replace(found, phases=(phase,), scratch_bytes=found.pieces * found.piece_bytes)


def _by_blocks(plan: SortPlan, name: str, target: Target) -> SortPlan:
    """The plan for thread blocks: the first phase sorts tiles, each later phase merges pairs of runs."""
    held = plan.key.dtype.itemsize if plan.key else sum(dtype.itemsize for dtype in plan.dtypes)
    slots = 1 << (plan.length - 1).bit_length() + (plan.lines - 1).bit_length()
    most_slots = fitting(SLOTS * target.threads, LOCAL_BYTES // (held + 4))
    found = replace(plan, tile=max(2, min(most_slots, slots)))
    count = -(-plan.lines // (found.tile // found.row)) * found.tiles
    threads = min(target.threads, found.tile // 2)
    phases = tuple(Phase(f"{name}_{number}", count, 1, True, threads) for number in range(found.passes + 1))
    scratch = found.array_offsets()[-1] if found.passes else 0
    return replace(found, phases=phases, scratch_bytes=scratch)


def _digits_pay(key: SortKey, length: int) -> bool:
    """Whether passes over digits cost less than merges. Elements are counted in 32 bits, so longer lines are
    merged.
    """
    return (64 << (key.dtype.bits // DIGIT).bit_length()) <= length < 1 << 31


def _network(key: SortKey, comparator: Computation, length: int, target: Target) -> Network | None:
    """The network for lines of numbers whose comparator compares the numbers themselves, except for zeros and
    NaN; None for other lines.
    """
    kept = (Parameter, Constant, Compare, Select)
    bits, widest = (length - 1).bit_length(), target.lanes(key.dtype)
    lanes = min(widest, 1 << bits // 2)  # at most as many lanes as rows: transposes exchange them
    if key.dtype.bits != 32 or lanes < LEAST_LANES or length > LONGEST_BY_LANES * widest:
        return None
    if not all(isinstance(inst.op, kept) for inst in comparator.instructions):
        return None
    rows = (1 << bits) // lanes
    return Network(key, rows, lanes, min(rows, 16 if target.registers >= 32 else 8))


def sort_key(computation: Computation) -> SortKey | None:
    """The key of a comparator that compares the same function of both elements; None if it does not."""
    root = computation.root
    if not isinstance(root.op, Compare) or root.op.direction not in ("LT", "GT", "LE", "GE"):
        return None
    a, b = root.operands
    shape = a.shape
    if not isinstance(shape, Shape) or shape.dtype.is_complex or shape.dtype.bits > 64:
        return None
    side = _same_function(a, b)
    if side is None:
        return None
    # Ascending: the first element comes before the second if its key is less.
    descending = (root.op.direction in ("GT", "GE")) != (side == 1)
    return SortKey(side, descending, root.op.is_total_order, key_dtype(shape.dtype))


def key_dtype(dtype: DType) -> DType:
    """The type to which values are converted before their bits are compared: f32 for floats with a single
    NaN, and for those of a width that no integer type has.
    """
    return F32 if dtype.name.endswith(("fnu", "fnuz")) or dtype.bits == 6 else dtype


def _same_function(a: Instruction, b: Instruction) -> int | None:
    """Which elements `a` reads (0: the left ones, 1: the right ones) if `b` is the same function of the
    elements on the other side; None if it is not.
    """
    side: int | None = None
    stack, seen = [(a, b)], set()
    while stack:
        x, y = stack.pop()
        if (x, y) in seen:
            continue
        seen.add((x, y))
        if isinstance(x.op, Parameter) and isinstance(y.op, Parameter):
            n, m = x.op.parameter_number, y.op.parameter_number
            if n // 2 != m // 2 or n == m or side not in (None, n % 2):
                return None
            side = n % 2
        elif isinstance(x.op, Constant):
            if x is not y and not (isinstance(y.op, Constant) and x.op.literal == y.op.literal):
                return None
        elif x.op != y.op or len(x.operands) != len(y.operands) or x.op.computation_fields:
            return None
        else:
            stack.extend(zip(x.operands, y.operands, strict=True))
    return side


@dataclass(frozen=True, slots=True)
class TopKPlan(Plan):
    """The plan of a topk: the `k` largest (or smallest) elements of each of `lines` lines of `length`
    elements.

    If single threads select, `tile` is 0, and each step handles `per_piece` whole lines with one heap. If
    thread blocks select, each has local memory for `tile` candidates, and a line is divided into `pieces`
    pieces: the first phase selects from each piece, the second one from the results of the first.
    """

    lines: int
    length: int
    k: int
    largest: bool
    per_piece: int
    tile: int = 0
    pieces: int = 1

    @property
    def best(self) -> int:
        """The number of slots for the best candidates: the smallest power of two that is at least k."""
        return 1 << (self.k - 1).bit_length()

    @property
    def piece(self) -> int:
        """The number of elements in a piece of a line; the last piece may have fewer."""
        return -(-self.length // self.pieces)


class TopKKind(HeroKind):
    """A topk of a parameter, with a small k and elements of at most 32 bits."""

    name = "topk"
    heroes = (TopK,)
    planned = TopKPlan
    emission = "axla.codegen.emit.topk:emit"

    def __str__(self) -> str:
        return f"{op_of(self.hero, TopK).k} of {self.hero.operands[0].shape}"

    def plan(self, task: KernelTask, target: Target) -> TopKPlan:
        """Plans a heap for a number of lines, or a selection by thread blocks, if their candidates fit in
        local memory.
        """
        op, shape = op_of(self.hero, TopK), shape_of(self.hero.operands[0])
        lines, length = prod(shape.dims[:-1]), shape.dims[-1]
        tile = min(LOCAL_BYTES // 8, 2 << (length - 1).bit_length()) if length else 0
        if target.threads > 1 and lines and 0 < 2 * op.k <= tile:
            # After the best candidates there are slots for what all threads add at once.
            threads = fitting(target.threads, min(tile // 4, length))
            pieces = max(1, min(target.limits.parts // lines, length // (32 * threads), length // (8 * op.k)))
            first = (Phase(f"{task.name}_pieces", lines * pieces, 1, True, threads),) * (pieces > 1)
            phases = (*first, Phase(task.name, lines, 1, lines > 1, threads))
            scratch = lines * pieces * op.k * 8 * (pieces > 1)
            return TopKPlan(
                lines, length, op.k, op.largest, 1, tile, pieces, phases=phases, scratch_bytes=scratch
            )
        per = lines_per_piece(lines, length // 2 + 60 * op.k, target.limits)
        pieces = -(-lines // per) if op.k else 0
        phases = (Phase(task.name, pieces, 1, pieces > 1),)
        return TopKPlan(lines, length, op.k, op.largest, per, phases=phases, scratch_bytes=pieces * 8 * op.k)
