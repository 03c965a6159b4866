"""Rules of algsimp for gather and scatter."""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np

from axla.core.dtypes import PRED
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.hlo import (
    And,
    Broadcast,
    Compare,
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
    Reshape,
    Scatter,
    Select,
    Slice,
)
from axla.hlo.indexing import Places
from axla.ir.attributes import Direction, SliceDims
from axla.ir.graph import Instruction
from axla.ir.structure import Parameter
from axla.ir.typed import op_of, shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.match import combiner, constant, dtype_of, full, limits


def _has_one_vector(root: Instruction) -> bool:
    """Whether a gather, or a scatter of one array, has a single index vector and no empty window."""
    op = root.op
    if isinstance(op, Gather):
        indices, vector_dim, sizes = root.operands[1], op.index_vector_dim, op.slice_sizes
    else:
        if len(root.operands) != 3:
            return False
        indices, vector_dim, sizes = root.operands[1], op_of(root, Scatter).index_vector_dim, (1,)
    dims = shape_of(indices).dims
    vectors = prod(size for d, size in enumerate(dims) if d != vector_dim)
    return vectors == 1 and 0 not in sizes and shape_of(root).size > 0


def _starts(indices: Instruction, places: Places, rank: int) -> list[Instruction]:
    """The start indices of the single window, as scalars; 0 for dimensions without an index. `places` has the
    operand dimensions of the index vector's components.
    """
    shape = shape_of(indices)
    zero = constant(indices.computation, Literal(Shape(shape.dtype), np.zeros((), shape.dtype.numpy)))
    starts = [zero] * rank
    flat = reshaped(indices, (shape.size,))
    for component, d in enumerate(places[0]):
        one = Slice(SliceDims((component,), (component + 1,), (1,)))(flat)
        starts[d] = Reshape(Shape(shape.dtype))(one)
    return starts


def _tests(start: Instruction, last: int) -> list[Instruction]:
    """The comparisons that hold if a start index is between 0 and `last`. Comparisons that hold for every
    value of the type are left out.
    """
    low, high = limits(shape_of(start).dtype)
    bounds = [(Direction.GE, 0)] * (low < 0) + [(Direction.LE, last)] * (last < high)
    return [Compare(direction)(start, full(start, number)) for direction, number in bounds]


@rule(Gather, where=_has_one_vector)
def gather_of_one_window(root: Instruction[Gather], x: Instruction, indices: Instruction) -> Rewritten:
    """gather(x, i) => reshape(dynamic-slice(x, i)), for a single index vector"""
    op, rank = root.op, len(shape_of(x).dims)
    part = DynamicSlice(op.slice_sizes)(x, *_starts(indices, op.places, rank))
    return reshaped(part, shape_of(root).dims)


@rule(Scatter, where=_has_one_vector)
def scatter_of_one_window(
    root: Instruction[Scatter], x: Instruction, indices: Instruction, u: Instruction
) -> Rewritten:
    """scatter(x, i, u) => dynamic-update-slice(x, f(dynamic-slice(x, i), u), i), for a single index vector

    A window that is not inside of x changes nothing: the old elements are written again.
    """
    op, dims = root.op, shape_of(x).dims
    body = op.to_apply
    overwrites = type(body.root.op) is Parameter and body.root.op.parameter_number == 1
    if not overwrites and combiner(body) is None:
        return None
    if any(dtype_of(i) is not dtype_of(root) for i in (x, u, *body.parameters)):
        return None  # combining in another type would round differently
    sizes = op.window_sizes(len(dims), shape_of(u).dims)
    starts = _starts(indices, op.places, len(dims))
    before = DynamicSlice(sizes)(x, *starts)
    after = reshaped(u, sizes)
    if not overwrites:
        after = body.root.op(before, after)
    tests = [test for d in op.scatter_dims_to_operand_dims for test in _tests(starts[d], dims[d] - sizes[d])]
    if tests:
        inside = reduce(lambda a, b: And()(a, b), tests)
        after = Select()(Broadcast(Shape(PRED, sizes), ())(inside) if sizes else inside, after, before)
    return DynamicUpdateSlice()(x, after, *starts)
