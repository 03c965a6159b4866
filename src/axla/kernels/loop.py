"""Loops: every root is computed element by element over one index space. Copies are loops too, and so is each
operand of a concatenation, over the elements that it contributes.

The index space is collapsed as far as the kernel's broadcasts allow, so that lanes run along the longest
contiguous stretch.
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
"""Vectors of a whole array up to which they have at most so many bytes: the next kernel reads sooner what was
just stored, where the machine stores longer ones in halves.
"""


@dataclass(frozen=True, slots=True)
class LoopPlan(Plan):
    """Every root is computed element by element; `dims` are the sizes of the space before it was cut.
    `by_rows`: the minor dimension is short; the space is that of rows, which lanes compute whole.
    """

    dims: tuple[int, ...]
    space: Space
    by_rows: bool = field(default=False, kw_only=True)

    @property
    def blocks(self) -> tuple[int, int] | None:
        """The number of blocks and the elements of each; None where the space is cut by
        rows or dimensions.
        """
        return None if self.space.outer or self.by_rows else (self.space.blocks, self.space.block)


@dataclass(frozen=True, slots=True)
class LoopKind(Kind):
    """All roots have `dims` elements (up to reshapes) and are computed element by element.

    `inner`: the reduces and dots inside, which every element computes by a loop of its own (short ones, and
    those that no other kind takes).
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
        """The kernel, which any is whose roots are of one size; InternalError for others."""
        if not body.uniform:
            found = ", ".join(r.shape.to_string(layout=False) for r in body.roots)
            raise InternalError(f"no kernel has the roots {found}: their sizes differ")
        inner = tuple(i for i in body.order if isinstance(i.op, hlo.Reduce | hlo.ReduceWindow | hlo.Dot))
        return cls(root_shape(body.roots[0]).dims, inner)

    @classmethod
    def why_not_operand(cls, user: Instruction, numbers: Sequence[int], inst: Instruction) -> str | None:
        """The reason why an operand may not be computed inside a loop: every element would compute it
        again.
        """
        if isinstance(user.op, hlo.ReduceWindow) and 0 in numbers and _overlaps(user.op.window):
            return "elements are in several places of a window"
        if isinstance(user.op, hlo.Gather) and 1 in numbers and is_costly(inst):
            return "indices of a gather are read for every element"
        return None

    def plan(self, task: KernelTask, target: Target) -> LoopPlan:
        """Cuts the space of elements, or that of rows where a lane computes short rows whole."""
        columns = self._columns(task, target.limits)
        if not columns:
            space, phase = loop_space(task, self.dims, target, self.inner)
            return LoopPlan(self.dims, space, phases=(phase,))
        rows, cost = prod(self.dims) // columns, task.cost(target) * columns
        space = cut([rows], target.lanes(widest(task.computation)), cost, [], target)
        phase = task.phase(space.count, cost * space.block, target.limits)
        return LoopPlan((rows, columns), space, by_rows=True, phases=(phase,))

    def variants(self, task: KernelTask, target: Target) -> Iterator[LoopPlan]:
        """More or fewer lanes; twice those of a register give two chains of operations."""
        plan = self.plan(task, target)
        space = plan.space
        for lanes in (space.lanes // 2, 2 * space.lanes):
            whole = space.block % lanes == 0 if lanes > 1 else False
            if whole and not plan.by_rows and target.threads == 1 and lanes <= target.max_lanes:
                yield replace(plan, space=replace(space, lanes=lanes))

    def _columns(self, task: KernelTask, limits: Limits) -> int:
        """The length of rows that are short enough for a lane to compute them whole, if all columns read a
        value per row; else 0.
        """
        size, body = prod(self.dims), task.computation.instructions
        for inst in body:
            rows, columns = row_space(inst)
            if 1 < columns <= limits.row_in_lane and rows * columns == size > columns:
                return columns if len(body) * columns <= limits.emitted else 0
        return 0


LOOP: Form = (LoopKind,)
"""The form of a kernel in the making that has no hero yet."""


def _overlaps(window: Window) -> bool:
    """Whether adjacent positions of a window cover common elements."""
    reaches = zip(window.dilated_size, window.stride, window.base_dilation, strict=True)
    return any(reach > stride or base > 1 for reach, stride, base in reaches)


def loop_space(
    task: KernelTask, dims: Sequence[int], target: Target, inner: Sequence[Instruction] = ()
) -> tuple[Space, Phase]:
    """The space of a loop over `dims`, and the phase that runs it; elements have the loops `inner` inside."""
    merge, cost = mergeable(task.computation, dims), task.cost(target)
    together = in_a_row(task.computation, target)
    if prod(dims) <= FEW_VECTORS * together and not any(map(is_costly, task.computation.instructions)):
        together = max(1, together * SMALL_VECTOR // max(SMALL_VECTOR, target.vector_bytes))
    space = cut(dims, together, cost, merge, target)
    work = cost * space.block * prod(map(_inner_cost, inner))
    return space, task.phase(space.count, work, target.limits, space.threads)


def in_a_row(computation: Computation, target: Target, reduces: int = 0, single: int = 0) -> int:
    """The number of adjacent elements that a thread computes at once: more than the lanes only if the
    elements that it reads are adjacent too. `reduces`: the number of reductions in the kernel; `single`: up
    to this number of elements, they are computed one by one.
    """
    plain = all(_keeps_rows(inst) for inst in computation.instructions)
    apart = sum(isinstance(inst.op, hlo.Reduce) for inst in computation.instructions)
    kind = widest(computation, single)
    return target.access_lanes(kind) if plain and apart == reduces else target.lanes(kind)


def _keeps_rows(inst: Instruction) -> bool:
    """Whether adjacent elements are computed from adjacent elements, or from a single one."""
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
    dimension of size 1 behaves like the one before it.
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


# Each of these: whether dimensions a and b of the result, between which all have size 1, merge.


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
    """A copy of operand 0."""

    name = "copy"
    heroes = (hlo.Copy,)
    alone = False  # fused with others it is an op like them

    def __str__(self) -> str:
        return f"copy {list(root_shape(self.hero).dims)}"

    def served(self, computation: Computation, target: Target) -> LoopKind:
        """The kind of a loop over the elements, which the copy is planned as."""
        return LoopKind(root_shape(self.hero).dims)


@dataclass(frozen=True, slots=True)
class ConcatenatePiece:
    """Operand `operand` of a concatenation: its start in the result, and how its elements are cut."""

    operand: int
    start: int
    space: Space


@dataclass(frozen=True, slots=True)
class ConcatPlan(Plan):
    """A concatenation along `dimension` to `dims`: a phase for each operand that has elements."""

    dims: tuple[int, ...]
    dimension: int
    hero: str
    pieces: tuple[ConcatenatePiece, ...]


@dataclass(frozen=True, slots=True)
class ConcatKind(Kind):
    """A concatenation, operand by operand; operands may be computed, and elementwise ops may follow."""

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
        """The form of a concatenation whose operands are all large and whose rows are long."""
        large = all(elements(o.shape) >= limits.hero_piece for o in inst.operands)
        by_rows = 0 < row_space(inst)[1] <= limits.row_in_lane
        plain = by_rows or cls._chooses(inst, limits)
        return (cls, inst.id) if large and inst.operands and not plain else None

    @staticmethod
    def _chooses(inst: Instruction, limits: Limits) -> bool:
        """Whether its only user had better select among the operands: they are few, and views, and all lanes
        read the same one.
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
        """The kernel, if it has one such concatenation, at the linear index of the roots."""
        heroes = [i for i in body.order if isinstance(i.op, hlo.Concatenate) and cls.form(i, limits)]
        if len(heroes) != 1 or not body.uniform or not accesses(body, heroes).heroes:
            return None
        return cls(heroes[0])

    def plan(self, task: KernelTask, target: Target) -> ConcatPlan:
        """A phase for each operand that has elements."""
        lanes, cost = target.lanes(widest(task.computation)), task.cost(target)
        dims, dimension = shape_of(self.hero).dims, op_of(self.hero, hlo.Concatenate).dimensions[0]
        merge = mergeable(task.computation, dims)
        # Along the dimension of the concatenation a piece is one stretch of the result.
        joined = [d == dimension or m and d != dimension - 1 for d, m in enumerate(merge)]
        # Lanes in rows that are not neighbours are filled one by one; only a function is worth that.
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
