"""Rules of algsimp for dot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from axla.core.shape import Shape
from axla.hlo import Broadcast, Dot, Multiply, Reshape, Slice, Transpose
from axla.ir.attributes import SliceDims
from axla.ir.graph import Instruction
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.algebra_reduce import renumbered, without
from axla.passes.simplify.match import dtype_of, full

FREE = "order: that of a sum is free"
_FINITE = "finite: sums of products of complex infinities depend on their order"


def is_dense(root: Instruction) -> bool:
    """Whether a dot has no sparsity."""
    return len(root.operands) == 2


@rule(Dot, where=is_dense)
def dot_of_no_products(root: Instruction[Dot], lhs: Instruction, rhs: Instruction) -> Rewritten:
    """dot(x, y) => 0, if a contracting dimension has no elements"""
    nothing = any(shape_of(lhs).dims[d] == 0 for d in root.op.lhs_contracting_dims)
    return full(root, 0) if nothing else None


@rule(Dot, of=Transpose, where=is_dense, allows=FREE)
def dot_of_transpose_left(root: Instruction[Dot], lhs: Instruction[Transpose], rhs: Instruction) -> Rewritten:
    """dot(transpose(x), y) => dot(x, y), with other dimension numbers"""
    op = root.op
    numbers = through(lhs.op, op.lhs_batch_dims, op.lhs_contracting_dims)
    if numbers is None:
        return None
    return replace(op, lhs_batch_dims=numbers[0], lhs_contracting_dims=numbers[1])(lhs.operands[0], rhs)


@rule(Dot, where=is_dense, allows=FREE)
def dot_of_transpose_right(root: Instruction[Dot], lhs: Instruction, rhs: Instruction) -> Rewritten:
    """dot(x, transpose(y)) => dot(x, y), with other dimension numbers"""
    op, transposed = root.op, rhs.op
    if not isinstance(transposed, Transpose):
        return None
    numbers = through(transposed, op.rhs_batch_dims, op.rhs_contracting_dims)
    if numbers is None:
        return None
    return replace(op, rhs_batch_dims=numbers[0], rhs_contracting_dims=numbers[1])(lhs, rhs.operands[0])


def through(
    transpose: Transpose, batch: Sequence[int], contracting: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The dimension numbers `batch` and `contracting` of a dot's operand that is a transpose, renumbered for
    the transpose's operand. None if the free dimensions would change their order.
    """
    permutation = transpose.dimensions
    free = [permutation[d] for d in range(len(permutation)) if d not in batch and d not in contracting]
    if free != sorted(free):
        return None
    return tuple(permutation[d] for d in batch), tuple(permutation[d] for d in contracting)


@rule(Dot, where=is_dense, allows="zero: a sum of one product may begin with 0, which -0 is added to")
def dot_outer_product(root: Instruction[Dot], lhs: Instruction, rhs: Instruction) -> Rewritten:
    """dot(x, y) => x * y, broadcast, if there is one product per element"""
    op = root.op
    if not shape_of(root).size or prod(shape_of(lhs).dims[d] for d in op.lhs_contracting_dims) != 1:
        return None
    if not dtype_of(lhs) is dtype_of(rhs) is dtype_of(root):
        return None
    result = shape_of(root).logical
    batch = tuple(range(len(op.lhs_batch_dims)))
    left, right = op.lhs_free(shape_of(lhs).rank), op.rhs_free(shape_of(rhs).rank)
    places = range(len(batch), result.rank)
    a = flattened(lhs, op.lhs_batch_dims, left, op.lhs_contracting_dims)
    b = flattened(rhs, op.rhs_batch_dims, right, op.rhs_contracting_dims)
    a = Broadcast(result, (*batch, *places[: len(left)]))(a)
    b = Broadcast(result, (*batch, *places[len(left) :]))(b)
    return Multiply()(a, b)


def flattened(
    x: Instruction, batch: Sequence[int], free: Sequence[int], contracting: Sequence[int]
) -> Instruction:
    """`x` with the batch dimensions first, then the free ones. The contracting dimensions, of size 1, are
    dropped.
    """
    order = (*batch, *free, *contracting)
    moved = x if order == tuple(range(len(order))) else Transpose(order)(x)
    return reshaped(moved, [shape_of(x).dims[d] for d in (*batch, *free)])


@rule(Dot, where=is_dense, allows=FREE)
def dot_drops_unit_dims(root: Instruction[Dot], lhs: Instruction, rhs: Instruction) -> Rewritten:
    """dot(x, y) => dot(reshape(x), reshape(y)), without batch and contracting dimensions of size 1"""
    op = root.op
    units = [(a, b) for a, b in op.pairs if shape_of(lhs).dims[a] == 1]
    left, right = [a for a, _ in units], [b for _, b in units]
    kept = [d for d in op.lhs_contracting_dims if d not in left]
    if not shape_of(root).size or not units or (op.lhs_contracting_dims and not kept):
        return None
    whole = shape_of(root).logical
    smaller = fewer(op, whole, gone(op.lhs_batch_dims, left), left, right)
    x = reshaped(lhs, without(shape_of(lhs).dims, left))
    y = reshaped(rhs, without(shape_of(rhs).dims, right))
    product = smaller(x, y)
    return product if product.shape is whole else Reshape(shape_of(root))(product)


def fewer(op: Dot, shape: Shape, gone: Sequence[int], left: Sequence[int], right: Sequence[int]) -> Dot:
    """The dot `op` without some dimensions: without `gone` of its result, `left` of lhs and `right` of rhs.
    `shape` is the result shape of `op`.
    """
    return replace(
        op, shape=shape.with_dims(without(shape.dims, gone)),
        lhs_batch_dims=renumbered(op.lhs_batch_dims, left),
        rhs_batch_dims=renumbered(op.rhs_batch_dims, right),
        lhs_contracting_dims=renumbered(op.lhs_contracting_dims, left),
        rhs_contracting_dims=renumbered(op.rhs_contracting_dims, right),
    )  # fmt: skip


def gone(batch: Sequence[int], units: Sequence[int]) -> list[int]:
    """The dimensions of a dot's result that disappear if the batch dimensions `units` of an operand
    disappear. `batch` has all batch dimensions of the operand; they come first in the result.
    """
    return [place for place, d in enumerate(batch) if d in units]


@rule(Dot, where=is_dense, allows=_FINITE)
def dot_of_broadcast(root: Instruction[Dot], lhs: Instruction, rhs: Instruction) -> Rewritten:
    """dot(broadcast(x), y) => broadcast(dot(x, y)), along free dimensions that repeat x; likewise for y"""
    op, batch = root.op, len(root.op.lhs_batch_dims)
    frees = (op.lhs_free(shape_of(lhs).rank), op.rhs_free(shape_of(rhs).rank))
    firsts = (batch, batch + len(frees[0]))  # the first free dimension of each operand in the result
    dropped = [_repeated(side, free) for side, free in zip((lhs, rhs), frees, strict=True)]
    if not any(dropped) or not shape_of(root).size:
        return None
    left, right = dropped
    lost = [first + free.index(d) for first, free, ds in zip(firsts, frees, dropped, strict=True) for d in ds]
    whole = shape_of(root).logical
    small = fewer(op, whole, lost, left, right)(_without_repeats(lhs, left), _without_repeats(rhs, right))
    return Broadcast(shape_of(root), tuple(d for d in range(whole.rank) if d not in lost))(small)


def _repeated(x: Instruction, free: Sequence[int]) -> list[int]:
    """The free dimensions along which a broadcast repeats its operand; [] for other instructions."""
    op = x.op
    if not isinstance(op, Broadcast):
        return []
    return [d for d in free if d not in op.dimensions and op.shape.dims[d] > 1]


def _without_repeats(x: Instruction, dropped: Sequence[int]) -> Instruction:
    """A broadcast without the repeated dimensions `dropped`; any other instruction as it is."""
    op, shape = x.op, shape_of(x)
    if not isinstance(op, Broadcast) or not dropped:
        return x
    return Broadcast(shape.with_dims(without(shape.dims, dropped)), renumbered(op.dimensions, dropped))(
        x.operands[0]
    )


@rule(Slice, of=Dot, where=lambda root: is_dense(root.operands[0]), allows=_FINITE)
def slice_of_dot(root: Instruction[Slice], inner: Instruction[Dot]) -> Rewritten:
    """slice(dot(x, y)) => dot(slice(x), slice(y)): fewer products"""
    op, (lhs, rhs) = inner.op, inner.operands
    if len(inner.users) != 1 or not shape_of(root).size:
        return None
    batch, left = len(op.lhs_batch_dims), op.lhs_free(shape_of(lhs).rank)
    right = op.rhs_free(shape_of(rhs).rank)
    ranges = root.op.slice
    x = _sliced(lhs, ranges, (*op.lhs_batch_dims, *left), range(batch + len(left)))
    behind = range(batch + len(left), batch + len(left) + len(right))
    y = _sliced(rhs, ranges, (*op.rhs_batch_dims, *right), (*range(batch), *behind))
    return replace(op, shape=shape_of(root).logical)(x, y)


def _sliced(x: Instruction, ranges: SliceDims, dims: Sequence[int], places: Sequence[int]) -> Instruction:
    """Slices `x`: dimension dims[k] gets the range number places[k] of `ranges`."""
    sizes = shape_of(x).dims
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    for d, place in zip(dims, places, strict=True):
        starts[d], limits[d], strides[d] = ranges.starts[place], ranges.limits[place], ranges.strides[place]
    if (starts, limits) == ([0] * len(sizes), list(sizes)) and {*strides} == {1}:
        return x
    return Slice(SliceDims(tuple(starts), tuple(limits), tuple(strides)))(x)
