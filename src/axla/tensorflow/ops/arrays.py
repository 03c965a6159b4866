"""Operations on shapes, and those that rearrange the elements of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import DType
from axla.core.shape import Shape
from axla.tensorflow.lists import TensorList
from axla.tensorflow.ops.common import of_dims, of_rank
from axla.tensorflow.ops.variables import assign, read
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, common_dims, spread
from axla.tensorflow.types import fits
from axla.tensorflow.values import GraphValue, Variable

RECORDS = """
Shape Size: input:T out_type=type?DT_INT32 -> output:out_type
ShapeN: input:N*T N=int>=1 out_type=type?DT_INT32 -> output:N*out_type
Rank: input:T -> output:i32
VariableShape: input:resource out_type=type?DT_INT32 -> output:out_type
EnsureShape: input:T shape=shape -> output:T
Reshape: tensor:T shape:Tshape Tshape=type?DT_INT32 -> output:T
Squeeze: input:T squeeze_dims=ints>=0?[] -> output:T
ExpandDims: input:T dim:Tdim Tdim=type?DT_INT32 -> output:T
Transpose ConjugateTranspose: x:T perm:Tperm Tperm=type?DT_INT32 -> y:T
Concat: concat_dim:i32 values:N*T N=int>=2 -> output:T
ConcatV2: values:N*T axis:Tidx N=int>=2 Tidx=type?DT_INT32 -> output:T
ConcatOffset: concat_dim:i32 shape:N*shape_type N=int>=2 shape_type=type?DT_INT32 -> offset:N*shape_type
Split: split_dim:i32 value:T num_split=int>=1 -> output:num_split*T
SplitV: value:T size_splits:Tlen split_dim:i32 num_split=int>=1 Tlen=type?DT_INT64 -> output:num_split*T
Pack: values:N*T N=int>=1 axis=int?0 -> output:T
Unpack: value:T num=int>=0 axis=int?0 -> output:num*T
XlaSplitND: input:T N=int>=1 num_splits=ints paddings=ints?[] -> outputs:N*T
XlaConcatND: inputs:N*T N=int>=1 num_concats=ints paddings=ints?[] -> output:T
ReadVariableXlaSplitND: resource:resource N=int>=1 num_splits=ints paddings=ints?[] -> outputs:N*T
AssignVariableXlaConcatND: resource:resource inputs:N*T N=int>=1 num_concats=ints paddings=ints?[] ->
Tile: input:T multiples:Tmultiples Tmultiples=type?DT_INT32 -> output:T
BroadcastTo: input:T shape:Tidx Tidx=type?DT_INT32 -> output:T
BroadcastArgs: s0:T s1:T T=type?DT_INT32 -> r0:T
BroadcastGradientArgs: s0:T s1:T T=type?DT_INT32 -> r0:T r1:T
XlaBroadcastHelper: lhs:T rhs:T broadcast_dims:Tindices -> lhs_output:T rhs_output:T
Fill: dims:index_type value:T index_type=type?DT_INT32 -> output:T
ZerosLike OnesLike: x:T -> y:T
Empty: shape:i32 init=bool?false -> output:dtype
Reverse: tensor:T dims:DT_BOOL -> output:T
ReverseV2: tensor:T axis:Tidx Tidx=type?DT_INT32 -> output:T
Roll: input:T shift:Tshift axis:Taxis -> output:T
OneHot: indices:TI depth:i32 on_value:T off_value:T axis=int?-1 TI=type?DT_INT64 -> output:T
DeviceIndex: device_names=list(string) -> index:i32
"""


# Shapes.


def sizes(value: XlaOp) -> list[int | XlaOp]:
    """The sizes of an array: a number for a static size, an s32 scalar of the program for a dynamic one."""
    return [
        ops.GetDimensionSize(value, d) if dynamic else size
        for d, (size, dynamic) in enumerate(zip(value.dims, value.shape.dynamic, strict=True))
    ]


@lowering("Shape")
def _shape(call: OpCall, value: XlaOp) -> GraphValue:
    numbers, dtype = sizes(value), call.dtype("out_type")
    if not any(value.shape.dynamic):
        return np.array(numbers, np.int64).astype(dtype.numpy)
    found = [call.scope.constant(np.array(n)) if isinstance(n, int) else n for n in numbers]
    rows = [ops.Broadcast(ops.ConvertElementType(number, dtype), (1,)) for number in found]
    return ops.ConcatInDim(call.builder, rows, 0)


@lowering("ShapeN")
def _shape_n(call: OpCall, values: list[XlaOp]) -> list[GraphValue]:
    return [_shape(call, value) for value in values]


@lowering("Size")
def _size(call: OpCall, value: XlaOp) -> GraphValue:
    count = prod(sizes(value))
    if isinstance(count, int):
        return np.array(count).astype(call.dtype("out_type").numpy)
    return ops.ConvertElementType(count, call.dtype("out_type"))


@lowering("Rank")
def _rank(call: OpCall, value: XlaOp) -> GraphValue:
    return np.array(len(value.dims), np.int32)


@lowering("VariableShape")
def _variable_shape(call: OpCall, variable: Variable) -> GraphValue:
    known = variable.shape is not None and -1 not in variable.shape
    dims = call.scope.read(variable).dims if call.scope.has(variable) or not known else variable.shape
    return np.array(dims, call.dtype("out_type").numpy)


@lowering("EnsureShape")
def _ensure_shape(call: OpCall, value: XlaOp) -> XlaOp:
    if not fits(call["shape"], value.dims):
        call.fail(f"its shape is {list(value.dims)}, wanted {list(call['shape'])}")
    return value


def shape_operand(call: OpCall, value: XlaOp, what: str = "shape") -> tuple[int, ...]:
    """The sizes in the constant vector `value`, an operand that messages name `what`. Raises VerifyError if a
    size is negative.
    """
    of_rank(call, value, 1, what)
    found = call.integers(value, what)
    if any(size < 0 for size in found):
        call.fail(f"{what} is {list(found)}: a size is negative")
    return found


@lowering("Reshape")
def _reshape(call: OpCall, value: XlaOp, shape: XlaOp) -> XlaOp:
    of_rank(call, shape, 1, "shape")
    wanted = list(call.integers(shape, "shape"))
    unknown = [d for d, size in enumerate(wanted) if size == -1]
    if len(unknown) > 1 or any(size < -1 for size in wanted):
        call.fail(f"shape is {wanted}, wanted sizes, and at most one -1")
    if unknown:
        rest = prod(size for size in wanted if size != -1)
        if not rest:
            call.fail(f"shape is {wanted}: -1 could be any size, as another size is 0")
        wanted[unknown[0]] = value.shape.size // rest
    if prod(wanted) != value.shape.size:
        call.fail(f"an array of {list(value.dims)} cannot have the shape {wanted}")
    return reshaped(value, wanted, unknown[0]) if unknown else ops.Reshape(value, wanted)


def reshaped(value: XlaOp, dims: Sequence[int], free: int) -> XlaOp:
    """Reshapes an array to the sizes `dims`. If the array has dynamic sizes, dimension `free` of the result
    is dynamic.
    """
    if not any(value.shape.dynamic) or value.dims == tuple(dims):
        return ops.Reshape(value, dims)
    count = prod(sizes(value)) / prod([*dims[:free], *dims[free + 1 :]])
    now = [*dims[:free], count, *dims[free + 1 :]]
    return ops.DynamicReshape(value, now, dims, [d == free for d in range(len(dims))])


@lowering("Squeeze")
def _squeeze(call: OpCall, value: XlaOp) -> XlaOp:
    dims, rank = value.dims, len(value.dims)
    gone = {call.axis(d, rank, "squeeze_dims") for d in call["squeeze_dims"]}
    if any(dims[d] != 1 for d in gone):
        call.fail(f"dimensions {sorted(gone)} of shape {list(dims)} are not all of size 1")
    gone = gone or {d for d in range(rank) if dims[d] == 1}
    return ops.Reshape(value, [size for d, size in enumerate(dims) if d not in gone])


@lowering("ExpandDims")
def _expand_dims(call: OpCall, value: XlaOp, dim: XlaOp) -> XlaOp:
    return expanded(value, call.axis(call.integer(dim, "dim"), len(value.dims) + 1, "dim"))


def expanded(value: XlaOp, axis: int) -> XlaOp:
    """The array with an additional dimension of size 1 before dimension `axis`."""
    return ops.Reshape(value, [*value.dims[:axis], 1, *value.dims[axis:]])


@lowering("Transpose", "ConjugateTranspose")
def _transpose(call: OpCall, value: XlaOp, perm: XlaOp) -> XlaOp:
    rank = len(value.dims)
    places = [call.axis(d, rank, "perm") for d in call.integers(perm, "perm")]
    if len(perm.dims) != 1 or sorted(places) != list(range(rank)):
        call.fail(f"perm is {places}, wanted an order of {rank} dimensions")
    moved = ops.Transpose(value, places)
    return ops.Conj(moved) if call.node.op == "ConjugateTranspose" else moved


# Several arrays.


@lowering("Concat")
def _concat(call: OpCall, axis: XlaOp, values: list[XlaOp]) -> XlaOp:
    place = call.axis(call.integer(axis, "axis"), len(values[0].dims))
    return ops.ConcatInDim(call.builder, values, place)


@lowering("ConcatV2")
def _concat_v2(call: OpCall, values: list[XlaOp], axis: XlaOp) -> XlaOp:
    return _concat(call, axis, values)


@lowering("ConcatOffset")
def _concat_offset(call: OpCall, axis: XlaOp, shapes: list[XlaOp]) -> list[np.ndarray]:
    """The indices at which each of several arrays begins in their concatenation."""
    found = np.array([shape_operand(call, shape) for shape in shapes])
    place = call.axis(call.integer(axis, "concat_dim"), found.shape[1], "concat_dim")
    others = np.delete(found, place, 1)
    if (others != others[0]).any():
        call.fail(f"shapes {found.tolist()} differ in other dimensions than {place}")
    offsets = np.zeros_like(found)
    offsets[1:, place] = np.cumsum(found[:-1, place])
    return list(offsets.astype(call.dtype("shape_type").numpy))


@lowering("Split")
def _split(call: OpCall, axis: XlaOp, value: XlaOp) -> list[XlaOp]:
    place = call.axis(call.integer(axis, "split_dim"), len(value.dims), "split_dim")
    count, size = call["num_split"], value.dims[place]
    if size % count:
        call.fail(f"{size} elements of dimension {place} cannot be split into {count} equal parts")
    return cut(value, [size // count] * count, place)


@lowering("SplitV")
def _split_v(call: OpCall, value: XlaOp, size_splits: XlaOp, axis: XlaOp) -> list[XlaOp]:
    place = call.axis(call.integer(axis, "split_dim"), len(value.dims), "split_dim")
    parts, size = list(call.integers(size_splits, "size_splits")), value.dims[place]
    if len(parts) != call["num_split"]:
        call.fail(f"size_splits has {len(parts)} elements, attribute 'num_split' is {call['num_split']}")
    if parts.count(-1) == 1:
        parts[parts.index(-1)] = size - sum(parts) - 1
    if sum(parts) != size or min(parts) < 0:
        call.fail(f"size_splits {parts} do not add up to {size}, the size of dimension {place}")
    return cut(value, parts, place)


def cut(value: XlaOp, parts: Sequence[int], axis: int) -> list[XlaOp]:
    """Splits an array along an axis into consecutive parts of the sizes `parts`."""
    ends = np.cumsum(parts, dtype=int).tolist()
    return [ops.SliceInDim(value, end - size, end, 1, axis) for size, end in zip(parts, ends, strict=True)]


@lowering("Pack")
def _pack(call: OpCall, values: list[XlaOp]) -> XlaOp:
    axis = call.axis(call["axis"], len(values[0].dims) + 1)
    if len({value.dims for value in values}) > 1:
        call.fail(f"wanted operands of one shape, found {[list(value.dims) for value in values]}")
    return ops.ConcatInDim(call.builder, [expanded(value, axis) for value in values], axis)


@lowering("Unpack")
def _unpack(call: OpCall, value: XlaOp) -> list[XlaOp]:
    axis = call.axis(call["axis"], len(value.dims))
    dims = value.dims[:axis] + value.dims[axis + 1 :]
    if value.dims[axis] != call["num"]:
        call.fail(f"attribute 'num' is {call['num']}, dimension {axis} has {value.dims[axis]} elements")
    return [ops.Reshape(part, dims) for part in cut(value, [1] * call["num"], axis)]


# Blocks: an array that is cut, or put together, along several dimensions.


@lowering("XlaSplitND")
def _split_nd(call: OpCall, value: XlaOp) -> list[XlaOp]:
    counts, paddings = _blocks(call, "num_splits", len(value.dims))
    ends = [-(size + pad) % count for size, count, pad in zip(value.dims, counts, paddings, strict=True)]
    if any(ends):
        call.fail(f"{list(value.dims)} with paddings {paddings} cannot be split into {counts} equal parts")
    found = [ops.Pad(value, ops.Zero(call.builder, value.dtype), [(0, pad, 0) for pad in paddings])]
    for axis, count in enumerate(counts):
        found = [part for each in found for part in cut(each, [each.dims[axis] // count] * count, axis)]
    return found


@lowering("XlaConcatND")
def _concat_nd(call: OpCall, values: list[XlaOp]) -> XlaOp:
    rank = len(values[0].dims)
    counts, paddings = _blocks(call, "num_concats", rank)
    found = list(values)
    for axis, count in reversed(list(enumerate(counts))):
        rows = [found[first : first + count] for first in range(0, len(found), count)]
        found = [ops.ConcatInDim(call.builder, row, axis) for row in rows]
    ends = [size - pad for size, pad in zip(found[0].dims, paddings, strict=True)]
    if any(end < 0 for end in ends):
        call.fail(f"paddings {paddings} are more than the sizes {list(found[0].dims)}")
    return ops.Slice(found[0], [0] * rank, ends)


def _blocks(call: OpCall, name: str, rank: int) -> tuple[list[int], list[int]]:
    counts, paddings = list(call[name]), list(call["paddings"]) or [0] * rank
    if len(counts) != rank or len(paddings) != rank or min([*counts, 1]) < 1 or min([*paddings, 0]) < 0:
        call.fail(f"attributes {name!r} {counts} and 'paddings' {paddings} do not fit {rank} dimensions")
    if prod(counts) != call["N"]:
        call.fail(f"attribute {name!r} {counts} makes {prod(counts)} parts, attribute 'N' is {call['N']}")
    return counts, paddings


@lowering("ReadVariableXlaSplitND")
def _read_split_nd(call: OpCall, variable: Variable) -> list[XlaOp]:
    return _split_nd(call, read(call, variable))


@lowering("AssignVariableXlaConcatND")
def _assign_concat_nd(call: OpCall, variable: Variable, values: list[XlaOp]) -> None:
    assign(call, variable, _concat_nd(call, values))


# Broadcasts and constants.


@lowering("Tile")
def _tile(call: OpCall, value: XlaOp, multiples: XlaOp) -> XlaOp:
    counts = shape_operand(call, multiples, "multiples")
    of_dims(call, multiples, [len(value.dims)], "multiples")
    wide = [size for pair in zip(counts, value.dims, strict=True) for size in pair]
    found = ops.BroadcastInDim(value, wide, range(1, len(wide), 2))
    return ops.Reshape(found, [count * size for count, size in zip(counts, value.dims, strict=True)])


@lowering("BroadcastTo")
def _broadcast_to(call: OpCall, value: XlaOp, shape: XlaOp) -> XlaOp:
    return broadcast_to(call, value, shape_operand(call, shape))


def broadcast_to(call: OpCall, value: XlaOp, dims: Sequence[int]) -> XlaOp:
    """The array broadcast to a shape; VerifyError where that is not possible."""
    pairs = zip(reversed(value.dims), reversed(dims), strict=False)
    if len(value.dims) > len(dims) or any(size not in (1, wanted) for size, wanted in pairs):
        call.fail(f"an array of {list(value.dims)} cannot be broadcast to {list(dims)}")
    return spread(value, dims)


@lowering("BroadcastArgs")
def _broadcast_args(call: OpCall, left: XlaOp, right: XlaOp) -> np.ndarray:
    return np.array(_broadcast(call, left, right)[-1], call.dtype("T").numpy)


def _broadcast(call: OpCall, left: XlaOp, right: XlaOp) -> list[tuple[int, ...]]:
    """The shapes in two operands, extended to equal rank, and the shape to which both are broadcast."""
    shapes = [shape_operand(call, left, "s0"), shape_operand(call, right, "s1")]
    whole = common_dims(*shapes)
    return [*((1,) * (len(whole) - len(shape)) + shape for shape in shapes), whole]


@lowering("BroadcastGradientArgs")
def _broadcast_gradient_args(call: OpCall, left: XlaOp, right: XlaOp) -> list[np.ndarray]:
    """The dimensions over which the gradients of two operands are summed."""
    *shapes, whole = _broadcast(call, left, right)
    same = shape_operand(call, left) == shape_operand(call, right)
    found = [[d for d in range(len(whole)) if shape[d] == 1 and not same] for shape in shapes]
    return [np.array(dims, call.dtype("T").numpy) for dims in found]


@lowering("XlaBroadcastHelper")
def _broadcast_helper(call: OpCall, left: XlaOp, right: XlaOp, dims: XlaOp) -> list[XlaOp]:
    """Reshapes the operand of lower rank to the rank of the other: its dimensions become the dimensions
    `broadcast_dims`.
    """
    places = call.integers(dims, "broadcast_dims")
    small, large = (left, right) if len(left.dims) < len(right.dims) else (right, left)
    if not places:
        if len(left.dims) != len(right.dims) and small.dims:
            call.fail(f"broadcast_dims is empty, ranks differ: {list(left.dims)}, {list(right.dims)}")
        return [left, right]
    rank = len(large.dims)
    if len(places) != len(small.dims) or sorted(set(places)) != list(places) or not -1 < places[-1] < rank:
        call.fail(f"broadcast_dims {list(places)} does not fit {list(left.dims)}, {list(right.dims)}")
    sized = dict(zip(places, small.dims, strict=True))
    found = ops.Reshape(small, [sized.get(d, 1) for d in range(rank)])
    return [found, right] if small is left else [left, found]


@lowering("Fill")
def _fill(call: OpCall, dims: XlaOp, value: XlaOp) -> XlaOp:
    of_rank(call, value, 0, "value")
    return ops.Broadcast(value, shape_operand(call, dims, "dims"))


def full(call: OpCall, dims: Sequence[int], dtype: DType, number: float = 0) -> XlaOp:
    """An array of the sizes `dims` filled with one number."""
    return call.scope.constant(np.broadcast_to(np.array(number).astype(dtype.numpy), tuple(dims)))


@lowering("ZerosLike", "OnesLike")
def _filled_like(call: OpCall, value: GraphValue) -> GraphValue:
    if isinstance(value, TensorList):
        return value.zeros() if call.node.op == "ZerosLike" else call.fail("OnesLike of a list of tensors")
    found = full(call, value.dims, value.dtype, int(call.node.op == "OnesLike"))
    for d, size in enumerate(sizes(value)):
        found = found if isinstance(size, int) else ops.SetDimensionSize(found, size, d)
    return found


@lowering("Empty")
def _empty(call: OpCall, shape: XlaOp) -> XlaOp:
    return full(call, shape_operand(call, shape), call.dtype("dtype"))


# Changing the order of elements.


@lowering("Reverse")
def _reverse(call: OpCall, value: XlaOp, dims: XlaOp) -> XlaOp:
    of_dims(call, dims, [len(value.dims)], "dims")
    return ops.Rev(value, np.flatnonzero(call.constant(dims, "dims")).tolist())


@lowering("ReverseV2")
def _reverse_v2(call: OpCall, value: XlaOp, axis: XlaOp) -> XlaOp:
    places = [call.axis(d, len(value.dims)) for d in call.integers(axis, "axis")]
    if len(set(places)) != len(places):
        call.fail(f"axis has a dimension twice: {places}")
    return ops.Rev(value, places)


@lowering("Roll")
def _roll(call: OpCall, value: XlaOp, shift: XlaOp, axis: XlaOp) -> XlaOp:
    places = [call.axis(d, len(value.dims)) for d in call.integers(axis, "axis")]
    of_dims(call, shift, axis.dims, "shift")
    for number, place in enumerate(places):
        size = value.dims[place]
        if not size:
            continue
        one = ops.Reshape(shift[number], ()) if shift.dims else shift
        first = (size - one % size) % size  # % has the sign of the shift
        twice = ops.ConcatInDim(call.builder, [value, value], place)
        value = ops.DynamicSliceInDim(twice, first, size, place)
    return value


@lowering("OneHot")
def _one_hot(call: OpCall, indices: XlaOp, depth: XlaOp, on: XlaOp, off: XlaOp) -> XlaOp:
    axis = call.axis(call["axis"], len(indices.dims) + 1)
    size = call.integer(depth, "depth")
    if size < 0 or on.dims or off.dims:
        call.fail(f"wanted scalars and depth >= 0, found {list(on.dims)}, {list(off.dims)} and {size}")
    if indices.dtype.bits < 32:
        indices = ops.ConvertElementType(indices, np.int32)
    dims = [*indices.dims[:axis], size, *indices.dims[axis:]]
    wide = ops.BroadcastInDim(indices, dims, [d for d in range(len(dims)) if d != axis])
    places = ops.Iota(call.builder, Shape(indices.dtype, dims), axis)
    return ops.Select(ops.Eq(wide, places), on, off)


@lowering("DeviceIndex")
def _device_index(call: OpCall) -> np.ndarray:
    """The index of "CPU" in the attribute `device_names`; the number of names if it is missing."""
    names = call["device_names"]
    return np.array(names.index("CPU") if "CPU" in names else len(names), np.int32)
