"""Arrays with dynamic dimensions: operands and results have their actual sizes.

If sizes of several operands must be equal, the operands are cut to the smallest of these sizes. The start of
a slice is clamped by the bounds, as in compiled code and XLA. A result whose shape has a static size gets
that size; its elements beyond the actual sizes are undefined, and 0 here. An op that is not possible with the
actual sizes is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.core.dtypes import from_numpy
from axla.core.errors import ShapeError, UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.movement import carried_sizes, refilled
from axla.hlo.slicing import clamped_starts
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.typed import shape_of

HostValue = Any
"""numpy.ndarray | tuple[HostValue, ...] | None"""
Groups = Iterable[Sequence[tuple[int, int]]]
"""Groups of (operand, dimension) that get the smallest of their sizes; a group of one must have its bound."""


def by_bounds(inst: Instruction, function: Callable[..., HostValue]) -> Callable[..., HostValue]:
    """The function that evaluates an instruction. `function` works for operands with static sizes; if an
    operand has dynamic dimensions, it is extended to the operand's sizes at run time.
    """
    dynamic = any(isinstance(x.shape, Shape) and x.shape.is_dynamic for x in inst.operands)
    if not dynamic or inst.op.control or isinstance(inst.op, hlo.Fusion):
        return function
    return partial(_sized, inst, function)


def _sized(inst: Instruction, function: Callable[..., HostValue], *operands: HostValue) -> HostValue:
    op = inst.op
    groups = _GROUPS.get(type(op))
    if op.elementwise or op.reads_alike:
        groups = _elementwise
    elif op.reads_whole:
        groups = _everything
    if groups is not None:
        operands = tuple(_cut(inst, operands, groups(op, operands)))
    rule = _RULES.get(type(op))
    if rule is not None:
        return rule(inst, function, *operands)
    if not (op.elementwise or op.holds_shape or isinstance(op, hlo.Pad)):
        _check(inst, operands)
    return _fitted(function(*operands), inst.shape)


def _check(inst: Instruction, operands: Sequence[HostValue]) -> None:
    """Refuses operands that the op does not accept with their actual sizes."""
    given = zip((o.shape for o in inst.operands), operands, strict=True)
    try:
        inst.op.infer(*[Shape(from_numpy(v.dtype), v.shape) if isinstance(s, Shape) else s for s, v in given])
    except ShapeError as error:
        raise _refusal(inst) from error


def _refusal(inst: Instruction) -> UnsupportedError:
    return UnsupportedError(f"{inst!r}: {inst.opcode} of arrays of dynamic size is not supported")


def _fitted(value: HostValue, shape: AnyShape) -> HostValue:
    """Pads a value with zeros, so that it has the static sizes of its shape."""
    if isinstance(shape, TupleShape):
        return tuple(_fitted(v, s) for v, s in zip(value, shape.elements, strict=True))
    if not isinstance(shape, Shape) or shape.admits(value.shape):
        return value
    return _in([n if d else bound for n, bound, d in zip(value.shape, shape.dims, shape.dynamic)], value)  # noqa: B905


def _in(dims: Sequence[int], value: np.ndarray, fill: Any = 0) -> np.ndarray:
    """Returns an array of the sizes `dims` that begins with `value` and has `fill` in its other elements."""
    found = np.full(dims, fill, value.dtype)
    found[_first(value.shape)] = value
    return found


def _whole(inst: Instruction, number: int, value: np.ndarray, fill: Any = 0) -> np.ndarray:
    """Returns operand `number`, padded with `fill` to the sizes of its bounds."""
    shape = inst.operands[number].shape
    return value if value.shape == shape.dims else _in(shape.dims, value, fill)


def _first(sizes: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(n) for n in sizes)


def _cut(inst: Instruction, operands: Sequence[np.ndarray], groups: Groups) -> list[np.ndarray]:
    sizes = [list(x.shape) for x in operands]
    for group in groups:
        least = min(sizes[n][d] for n, d in group)
        shape = inst.operands[group[0][0]].shape
        if len(group) == 1 and isinstance(shape, Shape) and least < shape.dims[group[0][1]]:
            raise _refusal(inst)
        for n, d in group:
            sizes[n][d] = least
    return [x[_first(dims)] if x.ndim else x for x, dims in zip(operands, sizes, strict=True)]


def _elementwise(op: Op, operands: Sequence[np.ndarray]) -> Groups:
    arrays = [n for n, x in enumerate(operands) if x.ndim]
    return [[(n, d) for n in arrays] for d in range(operands[arrays[0]].ndim) if len(arrays) > 1]


def _concatenate(op: hlo.Concatenate, operands: Sequence[np.ndarray]) -> Groups:
    return [group for d, group in enumerate(_elementwise(op, operands)) if d != op.dimensions[0]]


def _batches(op: Op, operands: Sequence[np.ndarray]) -> Groups:
    return [[(0, d), (1, d)] for d in range(operands[0].ndim - 2)]


def _dot(op: hlo.Dot, operands: Sequence[np.ndarray]) -> Groups:
    return [[(0, a), (1, b)] for a, b in op.pairs]


def _convolution(op: hlo.Convolution, operands: Sequence[np.ndarray]) -> Groups:
    labels = op.dim_labels
    whole = [[(1, d)] for d in (labels.kernel_output, *labels.kernel_spatial)]
    summed = [(0, labels.input_feature), (1, labels.kernel_input)]
    batch = [[(0, labels.input_batch)]] if op.batch_group_count > 1 else []
    return [*whole, *batch, *([summed] if op.feature_group_count == 1 else [[x] for x in summed])]


def _scattered(op: hlo.Scatter, operands: Sequence[np.ndarray]) -> Groups:
    count = len(operands) // 2
    updates = range(count + 1, len(operands))
    outer = [d for d in range(operands[-1].ndim) if d not in op.update_window_dims]
    vectors = [d for d in range(operands[count].ndim) if d != op.index_vector_dim]
    alike = [[(count, a), *((n, b) for n in updates)] for a, b in zip(vectors, outer, strict=True)]
    return [*alike, *([(n, d)] for n in updates for d in op.update_window_dims)]


def _everything(op: Op, operands: Sequence[np.ndarray]) -> Groups:
    return [[(n, d)] for n, x in enumerate(operands) for d in range(x.ndim)]


def _parts(op: hlo.BitcastConvert, operands: Sequence[np.ndarray]) -> Groups:
    """The dimensions of a bitcast-convert whose sizes must be their bounds: those of the operand that hold
    the parts of one element of the result.
    """
    return [[(0, d)] for d in range(op.shape.rank, operands[0].ndim)]


_GROUPS: dict[type[Op], Callable[[Any, Sequence[np.ndarray]], Groups]] = {
    hlo.BitcastConvert: _parts, hlo.Concatenate: _concatenate, hlo.Convolution: _convolution, hlo.Dot: _dot,
    hlo.Scatter: _scattered, hlo.TriangularSolve: _batches,
}  # fmt: skip


def _bitcast(inst: Instruction, function: Callable[..., HostValue], x: np.ndarray) -> HostValue:
    if inst.shape is not inst.operands[0].shape:
        raise _refusal(inst)
    return x


def _reshape(inst: Instruction[hlo.Reshape], function: Callable[..., HostValue], x: np.ndarray) -> HostValue:
    op = inst.op
    dims = list(op.shape.dims)
    sizes = carried_sizes(shape_of(inst.operands[0]), op.shape, op.inferred_dimension)
    for at, (parts, rest) in sizes.items():
        dims[at] = -(-prod(x.shape[d] for d in parts) // max(1, rest))
    return refilled(x, dims)


def _slice(
    inst: Instruction, function: Callable[..., HostValue], x: np.ndarray, *starts: np.ndarray
) -> HostValue:
    found = function(_whole(inst, 0, x), *starts)
    kept = zip(shape_of(inst).dynamic, found.shape, x.shape, strict=True)
    return found[_first([actual if dynamic else n for dynamic, n, actual in kept])]


def _update(
    inst: Instruction,
    function: Callable[..., HostValue],
    x: np.ndarray,
    update: np.ndarray,
    *starts: np.ndarray,
) -> HostValue:
    """Evaluates dynamic-update-slice. The update keeps its actual size, but its start is clamped as if it had
    its bound.
    """
    shapes = [o.shape for o in inst.operands[:2]]
    (outer, inner) = (s.dims for s in shapes if isinstance(s, Shape))
    at = [np.asarray(start) for start in clamped_starts(starts, outer, inner)]
    return function(_whole(inst, 0, x), update, *at)[_first(x.shape)]


def _gather(
    inst: Instruction[hlo.Gather], function: Callable[..., HostValue], x: np.ndarray, indices: np.ndarray
) -> HostValue:
    op = inst.op
    found = function(_whole(inst, 0, x), _whole(inst, 1, indices))
    inner = [n for d, n in enumerate(x.shape) if d not in op.dropped]
    actual = op.arranged(inner, [n for d, n in enumerate(indices.shape) if d != op.index_vector_dim])
    sizes = zip(shape_of(inst).dynamic, actual, found.shape, strict=True)
    return found[_first([n if dynamic else bound for dynamic, n, bound in sizes])]


def _scatter(inst: Instruction, function: Callable[..., HostValue], *operands: np.ndarray) -> HostValue:
    """Evaluates scatter. Indices are padded with -1, so that updates beyond the actual sizes are out of
    bounds and ignored.
    """
    count = len(operands) // 2
    outside = np.zeros((), operands[count].dtype) - np.ones((), operands[count].dtype)
    found = function(*[_whole(inst, n, x, outside if n == count else 0) for n, x in enumerate(operands)])
    if count == 1:
        return found[_first(operands[0].shape)]
    return tuple(y[_first(x.shape)] for x, y in zip(operands, found, strict=False))


_RULES: dict[type[Op], Callable[..., HostValue]] = {
    hlo.Bitcast: _bitcast, hlo.DynamicSlice: _slice, hlo.DynamicUpdateSlice: _update, hlo.Gather: _gather,
    hlo.Reshape: _reshape, hlo.Scatter: _scatter, hlo.Slice: _slice,
}  # fmt: skip
