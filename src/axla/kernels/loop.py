"""Plans of loops: every root is computed element by element over one index space. Copies are loops too, and
so is each operand of a concatenation, over its own elements.

Dimensions of the index space are merged as far as the kernel's broadcasts allow, so that lanes run along the
longest contiguous range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.core.errors import InternalError
from axla.core.shape import Shape
from axla.ir.attributes import Window
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import op_of, shape_of
from axla.kernels.access import KernelBody, accesses, elements, root_shape
from axla.kernels.geometry import row_space
from axla.kernels.kind import Form, HeroKind, Kind, is_costly
from axla.kernels.plan import SHORT_ROW, KernelTask, Phase, Plan, Space, cut, widest
from axla.target.machine import Limits, Target

FEW_VECTORS, SMALL_VECTOR = 4, 32
"""Arrays of at most FEW_VECTORS vectors use vectors of at most SMALL_VECTOR bytes: on machines that store
longer ones in halves, the next kernel can then read sooner what was just stored.
"""


@dataclass(frozen=True, slots=True)
class LoopPlan(Plan):
    """The plan of a loop that computes every root element by element. `dims` are the sizes of the index space
    before it was divided. `by_rows`: the minor dimension is short; steps are rows, which a lane computes as a
    whole.
    """

    dims: tuple[int, ...]
    space: Space
    by_rows: bool = field(default=False, kw_only=True)

    @property
    def blocks(self) -> tuple[int, int] | None:
        """The number of blocks, and of elements in each; None if the space is divided by rows or
        dimensions.
        """
        return None if self.space.outer or self.by_rows else (self.space.blocks, self.space.block)


@dataclass(frozen=True, slots=True)
class LoopKind(Kind):
    """A kernel whose roots all have `dims` elements (up to reshapes) and are computed element by element.

    `inner`: its reduces and dots, each of which is a loop within every element: short ones, and those that no
    other kind takes.
    """

    dims: tuple[int, ...]
    inner: tuple[Instruction, ...] = ()

    name = "loop"
    planned = LoopPlan
    emission = "axla.codegen.emit.loop:emit"
    side_by_side = True
    takes_epilogues = True
    overwrites = True

    def __str__(self) -> str:
        return f"loop {list(self.dims)}" + (f", {len(self.inner)} inner" if self.inner else "")

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> LoopKind:
        """The kernel, for any body with roots of the same size; InternalError for other bodies."""
        if not body.uniform:
            found = ", ".join(r.shape.to_string(layout=False) for r in body.roots)
            raise InternalError(f"no kernel has the roots {found}: their sizes differ")
        inner = tuple(i for i in body.order if isinstance(i.op, hlo.Reduce | hlo.ReduceWindow | hlo.Dot))
        return cls(root_shape(body.roots[0]).dims, inner)

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str | None:
        """The reason why an operand is not computed within a loop, where every element would compute it
        again; None if it is.
        """
        if isinstance(user.op, hlo.ReduceWindow) and 0 in numbers and _overlaps(user.op.window):
            return "an element is read at several window positions"
        if isinstance(user.op, hlo.Gather) and 1 in numbers and is_costly(inst):
            return "indices of a gather are read for every element"
        return None

    def plan(self, task: KernelTask, target: Target) -> LoopPlan:
        """Divides the space of elements, or the space of rows if a lane computes short rows as a whole."""
        columns = self._columns(task, target.limits)
        if not columns:
            space, phase = loop_space(task, self.dims, target, self.inner)
            return LoopPlan(self.dims, space, phases=(phase,))
        rows, cost = prod(self.dims) // columns, task.cost(target) * columns
        space = cut([rows], target.lanes(widest(task.computation)), cost, [], target)
        phase = task.phase(space.count, cost * space.block, target.limits)
        return LoopPlan((rows, columns), space, by_rows=True, phases=(phase,))

    def variants(self, task: KernelTask, target: Target) -> Iterator[LoopPlan]:
        """Plans with half and with twice the lanes; twice the lanes of a register give two chains of
        operations.
        """
        plan = self.plan(task, target)
        space = plan.space
        for lanes in (space.lanes // 2, 2 * space.lanes):
            whole = space.block % lanes == 0 if lanes > 1 else False
            if whole and not plan.by_rows and target.threads == 1 and lanes <= target.max_lanes:
                yield replace(plan, space=replace(space, lanes=lanes))

    def _columns(self, task: KernelTask, limits: Limits) -> int:
        """The length of rows that are short enough for a lane to compute them as a whole, if a value per row
        is read by all its columns; else 0.
        """
        size, body = prod(self.dims), task.computation.instructions
        for inst in body:
            rows, columns = row_space(inst)
            if 1 < columns <= limits.row_in_lane and rows * columns == size > columns:
                return columns if len(body) * columns <= limits.emitted else 0
        return 0


LOOP: Form = (LoopKind,)
"""The form of a kernel that has no hero so far."""


def _overlaps(window: Window) -> bool:
    """Whether adjacent positions of a window read common elements."""
    reaches = zip(window.dilated_size, window.stride, window.base_dilation, strict=True)
    return any(reach > stride or base > 1 for reach, stride, base in reaches)


def loop_space(
    task: KernelTask, dims: Sequence[int], target: Target, inner: Sequence[Instruction] = ()
) -> tuple[Space, Phase]:
    """The space of a loop over `dims`, and the phase that runs it. `inner` are the loops within each
    element.
    """
    merge, cost = mergeable(task.computation, dims), task.cost(target)
    together = in_a_row(task.computation, target)
    if prod(dims) <= FEW_VECTORS * together and not any(map(is_costly, task.computation.instructions)):
        together = max(1, together * SMALL_VECTOR // max(SMALL_VECTOR, target.vector_bytes))
    space = cut(dims, together, cost, merge, target)
    work = cost * space.block * prod(map(_inner_cost, inner))
    return space, task.phase(space.count, work, target.limits, space.threads)


def in_a_row(computation: Computation, target: Target, reduces: int = 0, single: int = 0) -> int:
    """The number of adjacent elements that a thread computes at once: more than the lanes only if all
    elements that it reads are adjacent too. `reduces`: the number of reductions that the kernel computes by
    rows; `single`: arrays of at most this size are ignored.
    """
    plain = all(_keeps_rows(inst) for inst in computation.instructions)
    apart = sum(isinstance(inst.op, hlo.Reduce) for inst in computation.instructions)
    kind = widest(computation, single)
    return target.access_lanes(kind) if plain and apart == reduces else target.lanes(kind)


def _keeps_rows(inst: Instruction) -> bool:
    """Whether adjacent elements are computed from adjacent elements, or from a single element."""
    op = inst.op
    if isinstance(op, hlo.Broadcast):
        return list(op.dimensions) == sorted(op.dimensions)
    return op.elementwise or op.keeps_order or isinstance(op, _IN_PLACE)


_IN_PLACE = (hlo.Parameter, hlo.Constant, hlo.Iota, hlo.Tuple, hlo.GetTupleElement, hlo.Reduce)


def _inner_cost(inst: Instruction) -> int:
    if isinstance(inst.op, hlo.ReduceWindow):
        return prod(inst.op.window.size) + 1
    result = max(1, sum(s.size for s in inst.shape.arrays()))
    return max(1, inst.operands[0].shape.size // result) + 1


def mergeable(computation: Computation, dims: Sequence[int]) -> list[bool]:
    """For each pair of adjacent dimensions of `dims`: whether accesses stay simple if both are merged. A
    dimension of size 1 counts as the one before it.
    """
    dims = tuple(dims)
    first = [max((k for k in range(d + 1) if dims[k] != 1), default=0) for d in range(len(dims))]
    found = [True] * max(0, len(dims) - 1)
    for inst in computation.instructions:
        shape = inst.shape
        if not isinstance(shape, Shape) or shape.dims != dims or inst.op.elementwise:
            continue
        test = _MERGE.get(inst.op.opcode)
        if test is not None:
            found = [merges and test(inst, first[d], d + 1) for d, merges in enumerate(found)]
    return found


# Each of these functions returns whether dimensions a and b of the result can be merged; those between them
# have size 1.


def _broadcast_merges(inst: Instruction[hlo.Broadcast], a: int, b: int) -> bool:
    dimensions = inst.op.dimensions
    if (a in dimensions) != (b in dimensions):
        return inst.shape.dims[b if a in dimensions else a] == 1
    if a not in dimensions:
        return True
    first, second = dimensions.index(a), dimensions.index(b)
    return first < second and all(inst.shape.dims[d] == 1 for d in dimensions[first + 1 : second])


def _iota_merges(inst: Instruction[hlo.Iota], a: int, b: int) -> bool:
    return inst.op.iota_dimension not in (a, b)


def _transpose_merges(inst: Instruction[hlo.Transpose], a: int, b: int) -> bool:
    first, second = inst.op.dimensions[a], inst.op.dimensions[b]
    return first < second and all(n == 1 for n in inst.operands[0].shape.dims[first + 1 : second])


def _same_sizes(inst: Instruction, a: int, b: int) -> bool:
    return inst.operands[0].shape.dims[a : b + 1] == inst.shape.dims[a : b + 1]


def _others_merge(inst: Instruction[hlo.Reverse | hlo.Concatenate], a: int, b: int) -> bool:
    dimensions = inst.op.dimensions
    return a not in dimensions and b not in dimensions


def _window_merges(inst: Instruction[hlo.ReduceWindow], a: int, b: int) -> bool:
    window = inst.op.window
    steps = zip(window.size, window.stride, window.base_dilation, strict=True)
    still = [size == stride == dilation == 1 for size, stride, dilation in steps]
    return all(still[k] and not window.low[k] and not window.high[k] for k in range(a, b + 1))


_MERGE: dict[str, Callable[[Instruction[Any], int, int], bool]] = {
    "broadcast": _broadcast_merges,
    "iota": _iota_merges,
    "transpose": _transpose_merges,
    **dict.fromkeys(("slice", "dynamic-slice", "pad"), _same_sizes),
    **dict.fromkeys(("reverse", "concatenate"), _others_merge),
    **dict.fromkeys(("gather", "reduce", "dot"), lambda inst, a, b: False),
    "reduce-window": _window_merges,
}


class CopyKind(HeroKind):
    """A kernel that copies its operand; it is planned as a loop."""

    name = "copy"
    heroes = (hlo.Copy,)
    alone = False  # in a fusion it is an ordinary op

    def __str__(self) -> str:
        return f"copy {list(root_shape(self.hero).dims)}"

    def served(self, computation: Computation, target: Target) -> LoopKind:
        """The kind LoopKind, which plans a copy as a loop over its elements."""
        return LoopKind(root_shape(self.hero).dims)


@dataclass(frozen=True, slots=True)
class ConcatenatePiece:
    """The part of a concatenation's result that comes from operand `operand`: its start, and the space of its
    elements.
    """

    operand: int
    start: int
    space: Space


@dataclass(frozen=True, slots=True)
class ConcatPlan(Plan):
    """The plan of a concatenation along `dimension` to `dims`: one phase for each operand that has
    elements.
    """

    dims: tuple[int, ...]
    dimension: int
    hero: str
    pieces: tuple[ConcatenatePiece, ...]


@dataclass(frozen=True, slots=True)
class ConcatKind(Kind):
    """A concatenation that is computed operand by operand. Operands may be computed in the kernel, and
    elementwise ops may follow.
    """

    hero: Instruction

    name = "concatenate"
    heroes = (hlo.Concatenate,)
    planned = ConcatPlan
    emission = "axla.codegen.emit.loop:emit_concat"
    one_result = True

    def __str__(self) -> str:
        pieces, dims = len(self.hero.operands), list(shape_of(self.hero).dims)
        return (
            f"concatenate {pieces} pieces to {dims} along {op_of(self.hero, hlo.Concatenate).dimensions[0]}"
        )

    @classmethod
    def form(cls, inst: Instruction, limits: Limits) -> Form | None:
        """The form of a kernel with this concatenation as its hero, if its operands are all large and its
        rows are long; else None.
        """
        large = all(elements(o.shape) >= limits.hero_piece for o in inst.operands)
        by_rows = 0 < row_space(inst)[1] <= limits.row_in_lane
        plain = by_rows or cls._chooses(inst, limits)
        return (cls, inst.id) if large and inst.operands and not plain else None

    @staticmethod
    def _chooses(inst: Instruction, limits: Limits) -> bool:
        """Whether the only user of a concatenation should select among its operands instead: there are few,
        they are views, and all lanes read the same one.
        """
        sliced = all(isinstance(user.op, hlo.Slice) for user in inst.users)
        if not inst.users or len(inst.users) > 1 and not sliced or len(inst.operands) > limits.chosen_pieces:
            return False
        minor = op_of(inst, hlo.Concatenate).dimensions[0] == shape_of(inst).rank - 1
        return not minor and all(
            o.op.free or isinstance(o.op, hlo.Parameter | hlo.Slice) for o in inst.operands
        )

    @classmethod
    def match(cls, body: KernelBody, limits: Limits) -> ConcatKind | None:
        """The kernel, if it has one concatenation that can be a hero (see `form`), at the linear index of the
        roots; else None.
        """
        heroes = [i for i in body.order if isinstance(i.op, hlo.Concatenate) and cls.form(i, limits)]
        if len(heroes) != 1 or not body.uniform or not accesses(body, heroes).heroes:
            return None
        return cls(heroes[0])

    def plan(self, task: KernelTask, target: Target) -> ConcatPlan:
        """Plans one phase for each operand that has elements."""
        lanes, cost = target.lanes(widest(task.computation)), task.cost(target)
        dims, dimension = shape_of(self.hero).dims, op_of(self.hero, hlo.Concatenate).dimensions[0]
        merge = mergeable(task.computation, dims)
        # Along the dimension of concatenation, the elements of an operand are one contiguous range of the
        # result.
        joined = [d == dimension or m and d != dimension - 1 for d, m in enumerate(merge)]
        # Lanes in rows that are not adjacent are filled one by one, which pays only before an expensive
        # function.
        costly = any(inst.op.expensive for inst in task.computation.instructions)

        def one_by_one(piece: Sequence[int]) -> bool:
            return not costly and target.threads == 1 and piece[-1] < min(SHORT_ROW, dims[-1])

        pieces, phases, start = [], [], 0
        for number, shape in enumerate(map(shape_of, self.hero.operands)):
            if shape.size:
                space = cut(shape.dims, 1 if one_by_one(shape.dims) else lanes, cost, joined, target)
                work, symbol = cost * space.block, f"{task.name}_{len(phases)}"
                phases.append(task.phase(space.count, work, target.limits, space.threads, symbol))
                pieces.append(ConcatenatePiece(number, start, space))
            start += shape.dims[dimension]
        return ConcatPlan(dims, dimension, self.hero.name, tuple(pieces), phases=tuple(phases))
