"""Rules for ops on arrays with dynamic sizes: each rule returns the padded data and the actual sizes of the
result.
"""

from __future__ import annotations

from collections.abc import Sequence

import axla.hlo as hlo
from axla.core.dtypes import S32, S64
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.hlo.movement import carried_sizes
from axla.ir.attributes import PaddingConfig
from axla.ir.graph import Instruction
from axla.ir.op import Op, by_op
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.dynamic_sums import SUMS
from axla.passes.expand.dynamic_values import (
    PaddingRule,
    Result,
    Sized,
    again,
    least,
    number,
    several,
    static,
    together,
)
from axla.passes.expand.expander import converted, full, scalar, spread


def applied(inst: Instruction, operands: Sequence[Sized]) -> Result:
    """Applies the op of an instruction to operands with sizes; raises UnsupportedError if there is no rule
    for the op.
    """
    rule = _elementwise if inst.op.elementwise else RULES.get(type(inst.op))
    if rule is None:
        if all(s is None for o in operands for s in o.sizes):
            new = again(inst, [o.data for o in operands])
            return Sized(new) if isinstance(new.shape, Shape) else new
        raise UnsupportedError(f"{inst!r}: {inst.opcode} of arrays of dynamic size is not supported")
    return rule(inst, operands)


# Elementwise ops, and ops that move elements


def _elementwise(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    new = again(inst, [o.data for o in operands])
    rank = shape_of(new).rank
    return Sized(new, tuple(least(*[o.sizes[d] for o in operands if o.sizes]) for d in range(rank)))


def _bitcast_convert(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    """Handles a bitcast-convert. Sizes are those of the operand, with a dimension added if elements are
    divided into parts, or with the last one removed if parts are joined to elements.
    """
    (x,) = operands
    new = again(inst, [x.data])
    rank = shape_of(new).rank
    if any(s is not None for s in x.sizes[rank:]):
        raise UnsupportedError(f"{inst!r}: the dimension of an element's parts cannot have a dynamic size")
    return Sized(new, (*x.sizes, None)[:rank])


def _batched(inst: Instruction, operands: Sequence[Sized]) -> Result:
    """Handles ops on each matrix, or row, of a batch: batch dimensions may have dynamic sizes."""
    op = inst.op
    own = len(op.fft_length) if isinstance(op, hlo.Fft) else 1 if isinstance(op, hlo.TopK) else 2
    batch = len(operands[0].sizes) - own
    if any(s is not None for o in operands for s in o.sizes[batch:]):
        message = f"{inst!r}: {inst.opcode} of matrices or rows of dynamic size is not supported"
        raise UnsupportedError(message)
    sizes = [least(*[o.sizes[d] for o in operands]) for d in range(batch)]
    return several(again(inst, [o.data for o in operands]), (*sizes, *[None] * own))


def _broadcast(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    op, (x,) = op_of(inst, hlo.Broadcast), operands
    sizes: list[Instruction | None] = [None] * op.shape.rank
    for k, d in enumerate(op.dimensions):
        sizes[d] = x.sizes[k]
    return Sized(again(inst, [x.data]), tuple(sizes))


def _transpose(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    op, (x,) = op_of(inst, hlo.Transpose), operands
    return Sized(again(inst, [x.data]), tuple(x.sizes[d] for d in op.dimensions))


def _reverse(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    """Reverses the padded data, then shifts it so that the valid part begins at 0."""
    op, (x,) = op_of(inst, hlo.Reverse), operands
    found, zero = again(inst, [x.data]), number(x.data, 0)
    starts = [
        hlo.Subtract()(number(zero, n), x.size(d)) if d in op.dimensions and x.sizes[d] is not None else zero
        for d, n in enumerate(x.bounds)
    ]
    if all(s is zero for s in starts):
        return Sized(found, x.sizes)
    high = tuple(0 if s is zero else n for s, n in zip(starts, x.bounds, strict=True))
    none = (0,) * len(high)
    padded = hlo.Pad(PaddingConfig(none, high, none))(
        found, scalar(found.computation, shape_of(found).dtype, 0)
    )
    return Sized(hlo.DynamicSlice(x.bounds)(padded, *starts), x.sizes)


def _whole(result: Sequence[int], x: Sized) -> tuple[Instruction | None, ...]:
    """For each dimension of `x` of which a slice takes all elements, its valid size; None for other
    dimensions. `result` has the sizes of the slice.
    """
    return tuple(s if n == m else None for n, m, s in zip(result, x.bounds, x.sizes, strict=True))


def _slice(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    found = again(inst, [o.data for o in operands])
    return Sized(found, _whole(shape_of(found).dims, operands[0]))


def _dynamic_update_slice(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    """Handles a dynamic-update-slice: keeps the old elements where the update is not valid."""
    x, update, *starts = operands
    numbers = [s.data for s in starts]
    mask = update.mask(range(len(update.sizes)))
    new = update.data
    if mask is not None:
        new = hlo.Select()(mask, new, hlo.DynamicSlice(update.bounds)(x.data, *numbers))
    return Sized(again(inst, [x.data, new, *numbers]), x.sizes)


def _pad(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    op, (x, value) = op_of(inst, hlo.Pad), operands
    config = op.padding
    sizes: list[Instruction | None] = []
    for d, size in enumerate(x.sizes):
        if size is not None:
            low, high, interior = config.low[d], config.high[d], config.interior[d]
            between = hlo.Maximum()(hlo.Subtract()(size, number(size, 1)), number(size, 0))
            size = hlo.Add()(size, hlo.Multiply()(between, number(size, interior)))
            size = hlo.Maximum()(hlo.Add()(size, number(size, low + high)), number(size, 0))
        sizes.append(size)
    data = x.masked(range(len(x.sizes)), value.data)
    return Sized(again(inst, [data, value.data]), tuple(sizes))


def _concatenate(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    """Along a dynamic dimension, puts each operand after the valid elements of those before it."""
    op = op_of(inst, hlo.Concatenate)
    at = op.dimensions[0]
    rank = len(operands[0].sizes)
    sizes = [least(*[o.sizes[d] for o in operands]) for d in range(rank)]
    whole = again(inst, [o.data for o in operands])
    if all(o.sizes[at] is None for o in operands):
        sizes[at] = None
        return Sized(whole, tuple(sizes))
    zero = number(whole, 0)
    end = zero
    for x in operands:
        starts = [end if d == at else zero for d in range(rank)]
        whole = hlo.DynamicUpdateSlice()(whole, x.data, *starts)
        end = hlo.Add()(end, x.size(at))
    sizes[at] = end
    return Sized(whole, tuple(sizes))


def _reshape(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    """Handles a reshape. Dimensions that it does not change keep their valid sizes. If it changes dynamic
    dimensions, the elements are gathered one by one.
    """
    x, result = operands[0], static(shape_of(inst))
    source = Shape(result.dtype, x.bounds, [s is not None for s in x.sizes])
    carried = carried_sizes(source, shape_of(inst), getattr(inst.op, "inferred_dimension", -1))
    sizes: list[Instruction | None] = [None] * result.rank
    for at, (dims, rest) in carried.items():
        whole = x.size(dims[0])
        for d in dims[1:]:
            whole = hlo.Multiply()(whole, x.size(d))
        if rest > 1:
            whole = hlo.Divide()(hlo.Add()(whole, number(whole, rest - 1)), number(whole, rest))
        sizes[at] = whole
    stay = [dims for dims, rest in carried.values() if len(dims) == rest == 1]
    if len(stay) == sum(source.dynamic) or not result.size:
        return Sized(hlo.Reshape(result)(x.data), tuple(sizes))
    return Sized(_gathered(x, result, sizes), tuple(sizes))


def _dynamic_reshape(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    """Handles a dynamic-reshape. The dynamic dimensions of the result get the sizes that the size operands
    state. Static dimensions keep their size, whatever their size operand is.
    """
    x, *given = operands
    result = static(shape_of(inst))
    marks = shape_of(inst).dynamic
    sizes = tuple(o.data if dynamic else None for o, dynamic in zip(given, marks, strict=True))
    if not shape_of(x.data).size or not result.size:
        return Sized(full(inst.computation, result, 0), sizes)
    if shape_of(x.data).size == result.size and all(s is None for s in (*x.sizes, *sizes)):
        return Sized(hlo.Reshape(result)(x.data), sizes)
    return Sized(_gathered(x, result, sizes), sizes)


def _gathered(x: Sized, result: Shape, sizes: Sequence[Instruction | None]) -> Instruction:
    """The valid elements of x in row-major order, as the valid elements of an array of shape `result` with
    the sizes `sizes`.
    """
    computation = x.data.computation
    dtype = S32 if result.size < 1 << 31 else S64
    places = result.with_dtype(dtype).logical

    def wide(size: Instruction) -> Instruction:
        return spread(converted(hlo.Maximum()(size, number(size, 1)), dtype), places)

    target = Sized(x.data, tuple(sizes))
    linear, step = full(computation, places, 0), full(computation, places, 1)
    for d in reversed(range(result.rank)):
        linear = hlo.Add()(linear, hlo.Multiply()(computation.add(hlo.Iota(places, d)), step))
        size = target.sizes[d]
        step = hlo.Multiply()(step, full(computation, places, result.dims[d]) if size is None else wide(size))
    source, stride = full(computation, places, 0), 1
    for d in reversed(range(len(x.bounds))):
        count = wide(x.size(d))
        index = hlo.Remainder()(linear, count) if d else linear
        source = hlo.Add()(source, hlo.Multiply()(index, full(computation, places, stride)))
        linear, stride = hlo.Divide()(linear, count), stride * x.bounds[d]
    line = hlo.Reshape(result.with_dims((stride,)).logical)(x.data)
    column = hlo.Reshape(places.with_dims((result.size, 1)).logical)(source)
    take = hlo.Gather((), (0,), (0,), index_vector_dim=1, slice_sizes=(1,))
    return hlo.Reshape(result)(take(line, column))


def _add_dependency(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    return Sized(again(inst, [o.data for o in operands]), operands[0].sizes)


# Gather and scatter


def _gather(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    op, (x, indices) = op_of(inst, hlo.Gather), operands
    found = again(inst, [x.data, indices.data])
    inner = [s for d, s in enumerate(_whole(op.slice_sizes, x)) if d not in op.dropped]
    outer = [s for d, s in enumerate(indices.sizes) if d != op.index_vector_dim]
    return Sized(found, tuple(op.arranged(inner, outer)))


def _scatter(inst: Instruction, operands: Sequence[Sized]) -> Result:
    """Gives invalid updates indices outside of the array, so that they are dropped."""
    op, count = op_of(inst, hlo.Scatter), len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], together(operands[count + 1 :])
    if any(updates[0].sizes[d] is not None for d in op.update_window_dims):
        raise UnsupportedError(f"{inst!r}: a scatter of windows of dynamic size is not supported")
    outer = iter([s for d, s in enumerate(updates[0].sizes) if d not in op.update_window_dims])
    sizes = [s if d == op.index_vector_dim else least(s, next(outer)) for d, s in enumerate(indices.sizes)]
    dtype = shape_of(indices.data).dtype
    fill = scalar(inst.computation, dtype, -1 if dtype.is_signed else (1 << dtype.bits) - 1)
    places = Sized(indices.data, tuple(sizes)).masked(range(len(sizes)), fill)
    found = again(inst, [*(x.data for x in inputs), places, *(u.data for u in updates)])
    return several(found, inputs[0].sizes)


# Ops that read or set sizes


def _get_size(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    op, (x,) = op_of(inst, hlo.GetDimensionSize), operands
    return Sized(x.size(op.dimensions[0]))


def _set_size(inst: Instruction, operands: Sequence[Sized]) -> Sized:
    op, (x, size) = op_of(inst, hlo.SetDimensionSize), operands
    at = op.dimensions[0]
    bound = x.bounds[at]
    least = hlo.Minimum()(size.data, number(size.data, bound))
    new: Instruction | None = hlo.Maximum()(least, number(size.data, 0))
    if isinstance(size.data.op, hlo.Constant) and int(size.data.op.literal.array) == bound:
        new = None
    return Sized(x.data, (*x.sizes[:at], new, *x.sizes[at + 1 :]))


RULES: dict[type[Op], PaddingRule] = {
    **by_op(
        _add_dependency, _bitcast_convert, _broadcast, _concatenate, _dynamic_reshape, _dynamic_update_slice,
        _gather, _pad, _reshape, _reverse, _scatter, _slice, _transpose,
    ),
    **dict.fromkeys((hlo.Cholesky, hlo.Fft, hlo.TopK, hlo.TriangularSolve), _batched),
    **dict.fromkeys((hlo.Copy, hlo.Domain, hlo.Map), _elementwise),
    hlo.DynamicSlice: _slice,
    hlo.GetDimensionSize: _get_size,
    hlo.SetDimensionSize: _set_size,
    **SUMS,
}  # fmt: skip
