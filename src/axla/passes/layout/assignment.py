"""Layout assignment: removes transposes by permuting the dimensions of the ops between them.

Convolutions have features last, with transposes around them where a program has features first. Elementwise
ops, windows, pads and concatenations work in any order of dimensions: a region of them takes the order of the
arrays that it reads and produces, if fewer bytes are then transposed at its boundary.

    transpose(f(transpose(x), broadcast(c)))  =>  f'(x, broadcast'(c))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import axla.hlo as hlo
from axla.core.shape import Shape
from axla.core.shape_util import inverse
from axla.ir.attributes import PaddingConfig, SliceDims, Window
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.kernels.geometry import collapsed_transpose
from axla.passes import rewrite
from axla.passes.layout.normalize import location

Item = TypeVar("Item")
Permutation = tuple[int, ...]
"""A permutation: dimension k of an array in the region's order is dimension order[k] of the original array.
"""

LEAST_RANK = 3


def layout_assignment(module: Module) -> None:
    """Moves transposes to the boundaries of regions of ops that work in any order of dimensions."""
    session = rewrite.current_session()
    for computation in module.computations:
        if not any(_is_transpose(inst) for inst in computation.instructions):
            continue
        for region in _regions(computation):
            order = _best_order(region)
            if order is not None and session.may_fire("layout-assignment", region[0]):
                _Transposed(region, order).replace()


def _is_transpose(inst: Instruction) -> bool:
    """Whether an instruction is a transpose of rank LEAST_RANK or more that moves elements."""
    if not isinstance(inst.op, hlo.Transpose) or inst.shape.rank < LEAST_RANK:
        return False
    return len(collapsed_transpose(inst)[0]) > 1


def _regions(computation: Computation) -> list[list[Instruction]]:
    """Groups of connected ops that work in any order of dimensions; within a group operands come first."""
    bound = rewrite.control_bound(computation)
    order = [i for i in post_order(computation) if i not in bound and _is_free(i)]
    number = {inst: n for n, inst in enumerate(order)}
    first = list(range(len(order)))

    def root(n: int) -> int:
        while first[n] != n:
            first[n] = n = first[first[n]]
        return n

    for n, inst in enumerate(order):
        for operand in inst.operands:
            if operand in number:
                first[root(n)] = root(number[operand])
    found: dict[int, list[Instruction]] = {}
    for n, inst in enumerate(order):
        found.setdefault(root(n), []).append(inst)
    return [*found.values()]


def _is_free(inst: Instruction) -> bool:
    """Whether an op has the same result in any order of the dimensions of its arrays."""
    op, shape = inst.op, inst.shape
    if not isinstance(shape, Shape) or shape.rank < LEAST_RANK or shape.is_dynamic or op.side_effect:
        return False
    if op.elementwise:
        return all(o.shape.is_array and shape_of(o).dims in (shape.dims, ()) for o in inst.operands)
    if isinstance(op, hlo.ReduceWindow):
        return len(inst.operands) == 2 and sum(n > 1 for n in op.window.size) <= 2
    return isinstance(op, hlo.Pad | hlo.Slice | hlo.Concatenate | hlo.Reverse)


def _arrays(inst: Instruction) -> Sequence[Instruction]:
    """The operands that have the rank of the result."""
    return [o for o in inst.operands if o.shape.rank == inst.shape.rank]


def _best_order(region: Sequence[Instruction]) -> Permutation | None:
    """The order for which the fewest bytes are transposed at the boundary of a region; None if no order is
    better than the present one.
    """
    members = set(region)
    read = dict.fromkeys(o for inst in region for o in _arrays(inst) if o not in members)
    users = {inst: [u for u in inst.users if u not in members] for inst in region}
    wanted: Counter[Permutation] = Counter()
    whole = 0
    for inst in read:
        if _is_transpose(inst):
            wanted[op_of(inst, hlo.Transpose).dimensions] += shape_of(inst).byte_size
        if not isinstance(inst.op, hlo.Broadcast | hlo.Constant):
            whole += shape_of(inst).byte_size
    for inst, outside in users.items():
        for order in {inverse(op_of(u, hlo.Transpose).dimensions) for u in outside if _is_transpose(u)}:
            wanted[order] += shape_of(inst).byte_size
        # A reduce of a result needs no transpose: `algsimp` lets it reduce other dimensions.
        if inst is inst.computation.root or any(not isinstance(u.op, hlo.Reduce) for u in outside):
            whole += shape_of(inst).byte_size
    if not wanted:
        return None
    ((order, saved),) = wanted.most_common(1)
    rank = len(order)
    fits = all(inst.shape.rank == rank and _keeps_windows(inst, order) for inst in region)
    return order if fits and 2 * saved > whole else None


def _keeps_windows(inst: Instruction, order: Permutation) -> bool:
    """Whether the dimensions in which the window of `inst` has several elements stay in the same order if
    `order` permutes the dimensions.
    """
    if not isinstance(inst.op, hlo.ReduceWindow):
        return True
    long = [order[d] for d, n in enumerate(inst.op.window.size) if n > 1]
    return long == sorted(long)


class _Transposed:
    """Rewrites a region into another order of dimensions."""

    def __init__(self, region: Sequence[Instruction], order: Permutation):
        self.region, self.order, self.inverse = region, order, inverse(order)
        self.computation = region[0].computation
        self.bound = rewrite.control_bound(self.computation)
        self.made: dict[Instruction, Instruction] = {}

    def replace(self) -> None:
        members = set(self.region)
        for inst in self.region:
            operands = [self.operand(o) if o.shape.rank == inst.shape.rank else o for o in inst.operands]
            self.made[inst] = self.add(self.op(inst), operands, inst)
        for inst in self.region:
            outside = [u for u in dict.fromkeys(inst.users) if u not in members]
            if outside or inst is self.computation.root:
                self.leave(inst, outside)
        for inst in reversed(self.region):
            self.computation.remove(inst)

    def leave(self, inst: Instruction, users: Iterable[Instruction]) -> None:
        """Gives the users of `inst` outside the region its new value, transposed back to the original order.
        A user that is itself a transpose to the region's order is replaced by the new value.
        """
        new, computation, rest = self.made[inst], self.computation, []
        for user in users:
            back = isinstance(user.op, hlo.Transpose) and user.op.dimensions == self.inverse
            if back and user not in self.bound:
                computation.replace(user, new)
                computation.remove(user)
            else:
                rest.append(user)
        if rest or inst is computation.root:
            computation.replace(inst, self.add(hlo.Transpose(self.order), [new], inst))

    def operand(self, inst: Instruction) -> Instruction:
        """The value of `inst`, which the region reads, in the region's order of dimensions."""
        if inst not in self.made:
            if isinstance(inst.op, hlo.Transpose) and inst.op.dimensions == self.order:
                self.made[inst] = inst.operands[0]
            elif isinstance(inst.op, hlo.Broadcast):
                dims = tuple(self.order[d] for d in inst.op.dimensions)
                op = hlo.Broadcast(self.shape(shape_of(inst)), dims)
                self.made[inst] = self.add(op, inst.operands, inst)
            else:
                self.made[inst] = self.add(hlo.Transpose(self.inverse), [inst], inst)
        return self.made[inst]

    def add(self, op: Op, operands: Sequence[Instruction], of: Instruction) -> Instruction:
        return self.computation.add(op, operands, extra=location(of))

    def shape(self, shape: Shape) -> Shape:
        return shape.with_dims(self.moved(shape.dims)).logical

    def moved(self, values: Sequence[Item]) -> tuple[Item, ...]:
        """The values, one per dimension, permuted into the region's order."""
        return tuple(values[d] for d in self.inverse)

    def op(self, inst: Instruction) -> Op:
        """The op with its dimension numbers in the region's order."""
        op, moved = inst.op, self.moved
        if isinstance(op, hlo.ReduceWindow):
            return replace(op, window=Window(*(moved(getattr(op.window, f.name)) for f in fields(Window))))
        if isinstance(op, hlo.Pad):
            config = op.padding
            return hlo.Pad(PaddingConfig(moved(config.low), moved(config.high), moved(config.interior)))
        if isinstance(op, hlo.Slice):
            cut = op.slice
            return hlo.Slice(SliceDims(moved(cut.starts), moved(cut.limits), moved(cut.strides)))
        if isinstance(op, hlo.Concatenate | hlo.Reverse):
            return replace(op, dimensions=tuple(self.order[d] for d in op.dimensions))
        return replace(op, shape=self.shape(shape_of(inst))) if op.holds_shape else op  # type: ignore[call-arg]
