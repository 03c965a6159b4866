"""Rules for ops that combine elements of arrays with dynamic size: invalid elements are replaced by the
identity of the combiner.
"""

from __future__ import annotations

from collections.abc import Sequence

import axla.hlo as hlo
from axla.core.errors import UnsupportedError
from axla.ir.attributes import Direction, Window
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.dynamic_sort import sorted_first
from axla.passes.expand.dynamic_values import Result, Sized, again, least, number, several, together
from axla.passes.expand.expander import scalar
from axla.passes.simplify.match import neutral


def _reduce(inst: Instruction, operands: Sequence[Sized]) -> Result:
    op, count = op_of(inst, hlo.Reduce), len(operands) // 2
    data, inits = operands[:count], [o.data for o in operands[count:]]
    joined = together(data)
    fills = [_neutral(op.to_apply, init) for init in inits]
    parts = [x.masked(op.dimensions, fill) for x, fill in zip(joined, fills, strict=True)]
    kept = tuple(s for d, s in enumerate(joined[0].sizes) if d not in op.dimensions)
    return several(again(inst, [*parts, *inits]), kept)


def _neutral(reducer: Computation, init: Instruction) -> Instruction:
    """The identity of the combiner `reducer`, as a scalar; the initial value `init` if the identity is not
    known.
    """
    root, dtype = reducer.root, shape_of(init).dtype
    if len(root.operands) != 2 or set(root.operands) != set(reducer.parameters):
        return init
    found = neutral(type(root.op), dtype)
    if found is None:
        return init
    if found == 0 and dtype.is_inexact:  # adding -0.0 changes nothing
        found = complex(-0.0, -0.0) if dtype.is_complex else -0.0
    return scalar(init.computation, dtype, found)


def _reduce_window(inst: Instruction, operands: Sequence[Sized]) -> Result:
    op, count = op_of(inst, hlo.ReduceWindow), len(operands) // 2
    data, inits = together(operands[:count]), [o.data for o in operands[count:]]
    window, sizes = op.window, list(data[0].sizes)
    for d, size in enumerate(sizes):
        if size is not None:
            sizes[d] = _places(window, d, size)
    fills = [_neutral(op.to_apply, init) for init in inits]
    parts = [x.masked(range(len(sizes)), fill) for x, fill in zip(data, fills, strict=True)]
    return several(again(inst, [*parts, *inits]), tuple(sizes))


def _places(window: Window, d: int, size: Instruction) -> Instruction:
    """The number of window positions along dimension d, for an array with `size` elements there."""
    one, zero = number(size, 1), number(size, 0)
    dilation = number(size, window.base_dilation[d])
    reach = hlo.Add()(hlo.Multiply()(hlo.Subtract()(size, one), dilation), one)
    reach = hlo.Select()(hlo.Compare(Direction.GT)(size, zero), reach, zero)
    more = window.low[d] + window.high[d] - window.dilated_size[d]
    steps = hlo.Add()(reach, number(size, more))
    places = hlo.Add()(hlo.Divide()(steps, number(size, window.stride[d])), one)
    return hlo.Select()(hlo.Compare(Direction.GE)(steps, zero), places, zero)


def _convolution(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    """Handles a convolution. The batch, spatial and feature dimensions of the input, and the input features
    of the kernel, may have dynamic sizes. Raises UnsupportedError for dynamic sizes of other kernel
    dimensions, and of dimensions that are divided into groups.
    """
    op, (x, kernel) = op_of(inst, hlo.Convolution), operands
    labels = op.dim_labels
    features = least(x.sizes[labels.input_feature], kernel.sizes[labels.kernel_input])
    batch = x.sizes[labels.input_batch]
    if (
        any(kernel.sizes[d] is not None for d in (labels.kernel_output, *labels.kernel_spatial))
        or (op.feature_group_count > 1 and features is not None)
        or (op.batch_group_count > 1 and batch is not None)
    ):
        raise UnsupportedError(f"{inst!r}: dynamic sizes of the kernel, or of groups, are not supported")
    sizes: list[Instruction | None] = [None] * len(x.sizes)
    sizes[labels.output_batch] = batch
    for n, (source, target) in enumerate(zip(labels.input_spatial, labels.output_spatial, strict=True)):
        size = x.sizes[source]
        sizes[target] = None if size is None else _places(op.window, n, size)
    parts = []
    for value, at in ((x, labels.input_feature), (kernel, labels.kernel_input)):
        own = (*value.sizes[:at], features, *value.sizes[at + 1 :])
        summed = [d for d in range(len(own)) if value is kernel or d != labels.input_batch]
        zero = scalar(inst.computation, shape_of(value.data).dtype, 0)
        parts.append(Sized(value.data, own).masked(summed, zero))
    return Sized(again(inst, parts), tuple(sizes))


def _dot(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    op, (left, right, *more) = op_of(inst, hlo.Dot), operands
    pairs, count = op.pairs, len(op.lhs_batch_dims)
    summed = pairs[count:]
    sizes = {pair: least(left.sizes[pair[0]], right.sizes[pair[1]]) for pair in summed}
    parts = []
    for side, x in enumerate((left, right)):
        own = list(x.sizes)
        for pair, size in sizes.items():
            own[pair[side]] = size
        zero = scalar(inst.computation, shape_of(x.data).dtype, 0)
        parts.append(Sized(x.data, tuple(own)).masked([pair[side] for pair in summed], zero))
    batch = [least(left.sizes[a], right.sizes[b]) for a, b in pairs[:count]]
    rows = [left.sizes[d] for d in op.lhs_free(len(left.sizes))]
    columns = [right.sizes[d] for d in op.rhs_free(len(right.sizes))]
    return Sized(again(inst, [*parts, *(m.data for m in more)]), (*batch, *rows, *columns))


def _sort(inst: Instruction, operands: Sequence[Sized]) -> Result:
    op, data = op_of(inst, hlo.Sort), together(operands)
    found = [x.data for x in data]
    mask = data[0].mask(op.dimensions)
    if mask is None:
        return several(again(inst, found), data[0].sizes)
    parts = [Sized(x, data[0].sizes) for x in sorted_first(op, found, mask)]
    return parts if len(parts) > 1 else parts[0]


SUMS = {
    hlo.Reduce: _reduce, hlo.ReduceWindow: _reduce_window, hlo.Convolution: _convolution,
    hlo.Dot: _dot, hlo.Sort: _sort,
}  # fmt: skip
"""The rules of this file, by class of op."""
