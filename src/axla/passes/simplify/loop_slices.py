"""Finds values of a loop body that are slices of arrays known before the loop.

In each trip, a scan takes x[i] out of an array x. A value that is computed from x[i] and from invariant
values, as `tanh(x[i] * 2)`, is a slice at i of an array, too: of `tanh(x * 2)`, which may be computed before
the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

import axla.hlo as hlo
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.ir.attributes import SliceDims
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op
from axla.ir.typed import op_of, shape_of
from axla.passes.simplify.match import constant

MOST_BYTES = 1 << 26
"""The most bytes of an array that is computed before a loop although it is larger than all that it is
computed from.
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """A value that is a slice of a whole array. The array has one more dimension than the value: dimension
    `along`, of size `size`. The value is the slice at index `start` of that dimension.
    """

    start: Instruction
    size: int
    along: int

    def dims(self, shape: Shape) -> tuple[int, ...]:
        """The sizes of the whole array from which a value of this shape is taken."""
        return _with(shape.dims, self.along, self.size)


@dataclass(slots=True)
class Slices:
    """The values of a loop body that are slices of whole arrays. `invariant`: values that are the same in
    every trip; `longest`: the largest allowed size of the sliced dimension.
    """

    computation: Computation
    invariant: Container[Instruction]
    longest: int
    taken: dict[Instruction, Taken] = field(default_factory=dict)
    _ops: dict[Instruction, Op] = field(default_factory=dict)  # the op that computes the whole array
    _wholes: dict[Instruction, Instruction] = field(default_factory=dict)

    def learn(self, inst: Instruction) -> None:
        """Records a value if it is a slice. Its operands must have been handled before."""
        if type(inst.op) is hlo.DynamicSlice:
            self._learn_slice(inst)
            return
        known = {self.taken[o] for o in inst.operands if o in self.taken}
        if len(known) != 1 or not isinstance(inst.shape, Shape) or inst.shape.is_dynamic:
            return
        if any(o not in self.taken and o not in self.invariant for o in inst.operands):
            return
        (taken,) = known
        found = _of_whole(inst, taken, [o in self.taken for o in inst.operands])
        if found is None:
            return
        along, op = found
        whole = Shape(inst.shape.dtype, _with(inst.shape.dims, along, taken.size))
        if whole.byte_size <= MOST_BYTES or type(op) is hlo.Reshape:
            self.taken[inst] = Taken(taken.start, taken.size, along)
            self._ops[inst] = replace(op, shape=whole) if op.holds_shape else op

    def _learn_slice(self, inst: Instruction) -> None:
        source, sizes = inst.operands[0], op_of(inst, hlo.DynamicSlice).dynamic_slice_sizes
        dims = shape_of(source).dims
        along = [d for d, size in enumerate(dims) if size != sizes[d]]
        if source not in self.invariant or len(along) != 1 or sizes[along[0]] != 1:
            return
        if inst.operands[1].shape.rank:
            return  # indices given as one vector
        (d,) = along
        if dims[d] <= self.longest:
            self.taken[inst] = Taken(inst.operands[1 + d], dims[d], d)
            self._ops[inst] = hlo.Reshape(Shape(shape_of(source).dtype, _with(sizes, d, dims[d])))

    def like(self) -> Slices:
        """A new object for the same body, without any known slices."""
        return Slices(self.computation, self.invariant, self.longest)

    def seed(self, value: Instruction, taken: Taken, whole: Instruction) -> None:
        """Records that a value is the slice `taken` of the array `whole`."""
        self.taken[value], self._wholes[value] = taken, whole

    def put(self, whole: Instruction, taken: Taken, dims: tuple[int, ...]) -> Instruction:
        """Adds the slice `taken` of the array `whole` to the body, reshaped to `dims`, the dimensions of the
        value that it replaces.
        """
        shape = shape_of(whole)
        starts = [taken.start if d == taken.along else self._zero(taken.start) for d in range(shape.rank)]
        sizes = _with(shape.dims[: taken.along] + shape.dims[taken.along + 1 :], taken.along, 1)
        value = hlo.Reshape(Shape(shape.dtype, dims))(hlo.DynamicSlice(sizes)(whole, *starts))
        self.seed(value, taken, whole)
        return value

    def _zero(self, start: Instruction) -> Instruction:
        return constant(self.computation, Literal(start.shape, np.zeros((), shape_of(start).dtype.numpy)))

    def whole(self, inst: Instruction) -> Instruction:
        """The array of which a value is a slice; adds the instructions that compute it."""
        stack = [inst]
        while stack:
            top = stack[-1]
            missing = [o for o in top.operands if o in self.taken and o not in self._wholes]
            if top in self._wholes:
                stack.pop()
            elif missing and type(top.op) is not hlo.DynamicSlice:
                stack += missing
            else:
                self._wholes[top] = self._made(top)
        return self._wholes[inst]

    def placed(self, inst: Instruction, along: int) -> Instruction:
        """The whole array of a value, with the dimension of the trips at position `along`."""
        whole, at = self.whole(inst), self.taken[inst].along
        order = _with([d for d in range(shape_of(whole).rank) if d != at], along, at)
        return whole if at == along else hlo.Transpose(order)(whole)

    def _made(self, inst: Instruction) -> Instruction:
        taken, op = self.taken[inst], self._ops[inst]
        if type(inst.op) is hlo.DynamicSlice:
            operands = [inst.operands[0]]
        elif inst.op.elementwise or type(inst.op) is hlo.Concatenate:
            operands = [self._repeated(o, inst, taken) for o in inst.operands]
        else:
            operands = [self._wholes.get(o, o) for o in inst.operands]
        shape = Shape(shape_of(inst).dtype, taken.dims(shape_of(inst)))
        return self.computation.add(op, operands, shape, extra=inst.extra)

    def _repeated(self, operand: Instruction, user: Instruction, taken: Taken) -> Instruction:
        """The whole array of an operand of `user`. An invariant operand is repeated for each trip, unless it
        is a scalar.
        """
        shape = shape_of(operand)
        if operand in self._wholes or shape.rank != shape_of(user).rank:
            return self._wholes.get(operand, operand)
        whole = Shape(shape.dtype, taken.dims(shape))
        kept = tuple(d for d in range(whole.rank) if d != taken.along)
        return self.computation.add(hlo.Broadcast(whole, kept), [operand])


def _with(values: Iterable[int], at: int, value: int) -> tuple[int, ...]:
    found = list(values)
    found.insert(at, value)
    return tuple(found)


_Found = tuple[int, Op] | None
"""The position of the dimension of the trips in the whole result, and the op that computes it. If the op has
a field for its result shape, that is still the shape of a single trip.
"""


def _of_whole(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    """Returns (position, op): `op` computes `inst` for all trips at once, and dimension `position` of its
    result counts the trips. Returns None if there is no such op. `sliced` has True for each operand that is a
    slice of a whole array; `taken` describes this slice, which is the same for all of them.
    """
    op, shape = inst.op, shape_of(inst)
    if op.elementwise:
        pairs = zip(inst.operands, sliced, strict=True)
        fits = all(o.shape.rank == shape.rank or not (is_slice or o.shape.rank) for o, is_slice in pairs)
        return (taken.along, op) if fits and not op.computation_fields else None
    rule = _RULES.get(type(op))
    return rule(inst, taken, sliced) if rule is not None else None


def _reshape(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    before, dims = prod(shape_of(inst.operands[0]).dims[: taken.along]), shape_of(inst).dims
    at = next((k for k in range(len(dims) + 1) if prod(dims[:k]) == before), None)
    return None if at is None else (at, hlo.Reshape(shape_of(inst)))


def _broadcast(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    dims = op_of(inst, hlo.Broadcast).dimensions
    at = dims[taken.along - 1] + 1 if taken.along else 0
    moved = tuple(d + (d >= at) for d in dims)
    whole = replace(op_of(inst, hlo.Broadcast), dimensions=_with(moved, taken.along, at))
    return (at, whole) if list(dims) == sorted(dims) else None


def _transpose(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    at = taken.along
    moved = tuple(d + (d >= at) for d in op_of(inst, hlo.Transpose).dimensions)
    return at, hlo.Transpose(_with(moved, at, at))


def _slice(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    at, own = taken.along, op_of(inst, hlo.Slice).slice
    starts, limits = _with(own.starts, at, 0), _with(own.limits, at, taken.size)
    return at, hlo.Slice(SliceDims(starts, limits, _with(own.strides, at, 1)))


def _concatenate(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    (d,) = op_of(inst, hlo.Concatenate).dimensions
    return taken.along, hlo.Concatenate((d + (d >= taken.along),))


def _reduce(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    op, at = op_of(inst, hlo.Reduce), taken.along
    whole = replace(op, dimensions=tuple(d + (d >= at) for d in op.dimensions))
    return (at - sum(d < at for d in op.dimensions), whole) if sliced == [True, False] else None


def _gather(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    """Handles a gather whose indices are slices. In the whole result, the dimension of the trips comes
    first.
    """
    op = op_of(inst, hlo.Gather)
    whole = replace(
        op, offset_dims=tuple(d + 1 for d in op.offset_dims), index_vector_dim=op.index_vector_dim + 1,
        start_indices_batching_dims=tuple(d + 1 for d in op.start_indices_batching_dims),
        indices_are_sorted=False,
    )  # fmt: skip
    return (0, whole) if sliced == [False, True] and not taken.along else None


def _dot(inst: Instruction, taken: Taken, sliced: list[bool]) -> _Found:
    """Handles a dot with one operand that is the same in each trip."""
    op, side, along = op_of(inst, hlo.Dot), sliced.index(True), taken.along
    own = ("lhs", "rhs")[side]
    changed = {
        name: tuple(k + (k >= along) for k in getattr(op, name))
        for name in (f"{own}_contracting_dims", f"{own}_batch_dims")
    }
    used = {k for dims in changed.values() for k in dims}
    free = [k for k in range(inst.operands[side].shape.rank + 1) if k not in used]
    at = free.index(along) + (inst.shape.rank + 1 - len(free) if side else len(op.lhs_batch_dims))
    return (at, replace(op, **changed)) if sorted(sliced) == [False, True] else None


_RULES: dict[type[Op], Callable[[Instruction, Taken, list[bool]], _Found]] = {
    hlo.Reshape: _reshape, hlo.Broadcast: _broadcast, hlo.Transpose: _transpose, hlo.Slice: _slice,
    hlo.Concatenate: _concatenate, hlo.Reduce: _reduce, hlo.Gather: _gather, hlo.Dot: _dot,
}  # fmt: skip
