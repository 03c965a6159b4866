"""Rules of algsimp for ops that move elements: broadcast, reshape, transpose, reverse, copies."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from axla.core.literal import Literal, why_no_array
from axla.core.shape import Shape
from axla.hlo import Bitcast, Broadcast, Copy, Iota, Reshape, Reverse, Transpose
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.structure import Constant, Parameter
from axla.ir.typed import shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.match import constant, full, limits, same_shape, spread, uniform, values_of


def reshaped(x: Instruction, dims: Sequence[int]) -> Instruction:
    """`x` reshaped to `dims`; `x` itself if it already has these dimensions."""
    shape = shape_of(x)
    return x if shape.dims == tuple(dims) else Reshape(Shape(shape.dtype, dims))(x)


@rule(Op)
def no_elements(root: Instruction, *_: Instruction) -> Rewritten:
    """x => a constant without elements, for any x without elements"""
    shape, op = root.shape, root.op
    if not isinstance(shape, Shape) or 0 not in shape.dims or type(op) in (Constant, Parameter):
        return None
    if op.side_effect or op.computation_fields or op.opcode == "custom-call":
        return None  # its effects or computations may matter
    if why_no_array(shape) is not None:
        return None
    return constant(root.computation, Literal(shape, np.empty(shape.dims, shape.dtype.numpy)))


@rule(Constant)
def uniform_constant(root: Instruction, *_: Instruction) -> Rewritten:
    """constant({c, c, ...}) => broadcast(constant(c))"""
    values = values_of(root)
    if values is None or values.size < 2 or values.nbytes <= 8:
        return None
    value = uniform(root)
    return None if value is None else full(root, value)


@rule(Broadcast)
def broadcast_identity(root: Instruction[Broadcast], x: Instruction) -> Rewritten:
    """broadcast(x) => x, to its own shape"""
    return x if same_shape(x, root) and root.op.dimensions == tuple(range(shape_of(x).rank)) else None


@rule(Broadcast, of=Broadcast)
def broadcast_broadcast(root: Instruction[Broadcast], inner: Instruction[Broadcast]) -> Rewritten:
    """broadcast(broadcast(x)) => broadcast(x)"""
    dimensions = tuple(root.op.dimensions[d] for d in inner.op.dimensions)
    return Broadcast(shape_of(root), dimensions)(inner.operands[0])


@rule(Broadcast)
def broadcast_of_one_element(root: Instruction, x: Instruction) -> Rewritten:
    """broadcast(x[1,1]) => broadcast(reshape(x))"""
    shape = shape_of(x)
    if not shape.rank or shape.size != 1 or shape_of(root).size == 1:
        return None
    return Broadcast(shape_of(root), ())(reshaped(x, ()))


@rule(Broadcast)
def broadcast_adds_unit_dims(root: Instruction[Broadcast], x: Instruction) -> Rewritten:
    """broadcast(x) => reshape(x), if no element is repeated"""
    shape, dims = shape_of(root), root.op.dimensions
    if shape.size != shape_of(x).size or same_shape(x, root) or list(dims) != sorted(dims):
        return None
    return Reshape(shape)(x)


@rule(Broadcast, of=Reshape)
def broadcast_of_wider_reshape(root: Instruction[Broadcast], inner: Instruction) -> Rewritten:
    """broadcast(reshape(x)) => broadcast(x), if the reshape only adds dimensions of size 1"""
    (x,), places = inner.operands, root.op.dimensions
    kept = kept_dims(shape_of(x).dims, shape_of(inner).dims)
    return None if kept is None else Broadcast(shape_of(root), tuple(places[d] for d in kept))(x)


def kept_dims(small: Sequence[int], large: Sequence[int]) -> list[int] | None:
    """For each dimension of `small` its dimension in `large`, if all other dimensions of `large` have size 1;
    else None.
    """
    kept: list[int] = []
    at = 0
    for size in small:
        while at < len(large) and large[at] != size:
            if large[at] != 1:
                return None
            at += 1
        if at == len(large):
            return None
        kept.append(at)
        at += 1
    return kept if all(size == 1 for size in large[at:]) else None


@rule(Reshape)
def reshape_identity(root: Instruction, x: Instruction) -> Rewritten:
    """reshape(x) => x, to its own dimensions"""
    return x if same_shape(x, root) else None


@rule(Reshape, of=Reshape)
def reshape_reshape(root: Instruction, inner: Instruction) -> Rewritten:
    """reshape(reshape(x)) => reshape(x)"""
    return Reshape(shape_of(root))(inner.operands[0])


@rule(Reshape, of=Broadcast)
def reshape_of_scalar_broadcast(root: Instruction, inner: Instruction) -> Rewritten:
    """reshape(broadcast(s)) => broadcast(s), for scalar s"""
    (s,) = inner.operands
    return None if shape_of(s).rank else spread(root, s)


@rule(Reshape, of=Broadcast)
def reshape_of_broadcast(root: Instruction, inner: Instruction[Broadcast]) -> Rewritten:
    """reshape(broadcast(x)) => broadcast(x), if the reshape only adds or drops dimensions of size 1"""
    op = inner.op
    if 1 in shape_of(inner.operands[0]).dims or not op.dimensions:
        return None
    before = [d for d, size in enumerate(op.shape.dims) if size != 1]
    after = [d for d, size in enumerate(shape_of(root).dims) if size != 1]
    if [op.shape.dims[d] for d in before] != [shape_of(root).dims[d] for d in after]:
        return None
    place = dict(zip(before, after, strict=True))
    return Broadcast(shape_of(root), tuple(place[d] for d in op.dimensions))(inner.operands[0])


@rule(Reshape)
def reshape_of_constant(root: Instruction, x: Instruction) -> Rewritten:
    """reshape(constant) => constant"""
    values = values_of(x)
    shape = shape_of(root).logical
    if values is None or why_no_array(shape) is not None:
        return None
    return constant(root.computation, Literal(shape, values.reshape(shape.dims)))


@rule(Transpose)
def transpose_identity(root: Instruction[Transpose], x: Instruction) -> Rewritten:
    """transpose(x) => x, if it keeps the order of dimensions"""
    return x if root.op.dimensions == tuple(range(shape_of(x).rank)) else None


@rule(Transpose, of=Transpose)
def transpose_transpose(root: Instruction[Transpose], inner: Instruction[Transpose]) -> Rewritten:
    """transpose(transpose(x)) => transpose(x)"""
    return Transpose(tuple(inner.op.dimensions[d] for d in root.op.dimensions))(inner.operands[0])


@rule(Transpose)
def transpose_moves_unit_dims(root: Instruction[Transpose], x: Instruction) -> Rewritten:
    """transpose(x) => reshape(x), if only dimensions of size 1 move"""
    moved = [d for d in root.op.dimensions if shape_of(x).dims[d] != 1]
    if moved != sorted(moved) or len(moved) == shape_of(x).rank:
        return None
    return reshaped(x, shape_of(root).dims)


@rule(Transpose, of=Broadcast)
def transpose_of_broadcast(root: Instruction[Transpose], inner: Instruction[Broadcast]) -> Rewritten:
    """transpose(broadcast(x)) => broadcast(transpose(x))"""
    (x,) = inner.operands
    places = [root.op.dimensions.index(d) for d in inner.op.dimensions]
    if places == sorted(places):
        return Broadcast(shape_of(root), tuple(places))(x)
    if shape_of(x).size == shape_of(root).size:
        return None  # the transpose would move as many elements as before
    order = sorted(range(len(places)), key=places.__getitem__)
    return Broadcast(shape_of(root), tuple(sorted(places)))(Transpose(tuple(order))(x))


@rule(Broadcast)
def broadcast_in_order(root: Instruction[Broadcast], x: Instruction) -> Rewritten:
    """broadcast(x), dimensions={1,0} => broadcast(transpose(x)), dimensions={0,1}"""
    places = root.op.dimensions
    if list(places) == sorted(places):
        return None
    order = sorted(range(len(places)), key=places.__getitem__)
    return Broadcast(shape_of(root), tuple(sorted(places)))(Transpose(tuple(order))(x))


@rule(Reverse)
def reverse_unit_dims(root: Instruction[Reverse], x: Instruction) -> Rewritten:
    """reverse(x) => x along dimensions of size 1"""
    return _transposed(root, x, tuple(d for d in root.op.dimensions if shape_of(x).dims[d] != 1))


def _transposed(root: Instruction[Reverse], x: Instruction, needed: tuple[int, ...]) -> Rewritten:
    """`x` reversed along the dimensions `needed`; None if that is the root itself."""
    if not needed:
        return x
    return Reverse(needed)(x) if needed != root.op.dimensions else None


@rule(Reverse, of=Reverse)
def reverse_reverse(root: Instruction[Reverse], inner: Instruction[Reverse]) -> Rewritten:
    """reverse(reverse(x)) => reverse(x), along the dimensions that only one of them reverses"""
    left = tuple(sorted(set(root.op.dimensions) ^ set(inner.op.dimensions)))
    return Reverse(left)(inner.operands[0]) if left else inner.operands[0]


@rule(Reverse, of=Broadcast)
def reverse_of_broadcast(root: Instruction[Reverse], inner: Instruction[Broadcast]) -> Rewritten:
    """reverse(broadcast(x)) => broadcast(x), for dimensions that repeat x"""
    return _transposed(root, inner, tuple(d for d in root.op.dimensions if d in inner.op.dimensions))


@rule(Copy)
def copy_same_layout(root: Instruction, x: Instruction) -> Rewritten:
    """copy(x) => x, if the layout is the same (copies that protect values are inserted later)"""
    return x if x.shape is root.shape else None


@rule(Bitcast)
def bitcast_identity(root: Instruction, x: Instruction) -> Rewritten:
    """bitcast(x) => x, to its own shape and layout"""
    return x if x.shape is root.shape else None


@rule(Iota)
def iota_of_unit_dim(root: Instruction[Iota]) -> Rewritten:
    """iota() => 0, along a dimension of size 1"""
    return full(root, 0) if shape_of(root).dims[root.op.iota_dimension] == 1 else None


@rule(Transpose, of=Iota)
def transpose_of_iota(root: Instruction[Transpose], x: Instruction[Iota]) -> Rewritten:
    """transpose(iota()) => iota()"""
    at = root.op.dimensions.index(x.op.iota_dimension)
    return root.computation.add(Iota(shape_of(root), at))


@rule(Transpose)
def transpose_of_constant(root: Instruction[Transpose], x: Instruction) -> Rewritten:
    """transpose(constant) => constant, for small constants"""
    values = values_of(x)
    if values is None or values.nbytes > 1 << 20:
        return None
    transposed = values.transpose(root.op.dimensions)
    return constant(root.computation, Literal(shape_of(root).logical, transposed))


@rule(Broadcast, of=Iota)
def broadcast_of_iota(root: Instruction[Broadcast], x: Instruction[Iota]) -> Rewritten:
    """broadcast(iota()) => iota()"""
    return root.computation.add(Iota(shape_of(root).logical, root.op.dimensions[x.op.iota_dimension]))


@rule(Reshape, of=Iota)
def reshape_of_iota(root: Instruction, x: Instruction[Iota]) -> Rewritten:
    """reshape(iota()) => iota(), if the iota dimension and the number of elements after it stay the same"""
    dims, at, target = shape_of(x).dims, x.op.iota_dimension, shape_of(root).dims
    inner = prod(dims[at + 1 :])
    for place, size in enumerate(target):
        if size == dims[at] != 1 and prod(target[place + 1 :]) == inner:
            return root.computation.add(Iota(shape_of(root).logical, place))
    return None


@rule(Constant)
def constant_of_iota(root: Instruction, *_: Instruction) -> Rewritten:
    """constant({0, 1, 2, ...}) => iota() (integers)"""
    values = values_of(root)
    counts = values is not None and values.ndim == 1 and shape_of(root).dtype.is_integer
    if values is None or not counts or values.size < 8 or values.size > limits(shape_of(root).dtype)[1]:
        return None
    if int(values[-1]) != values.size - 1 or (values != np.arange(values.size)).any():
        return None
    return root.computation.add(Iota(shape_of(root).logical, 0))


@rule(Transpose, of=Reshape)
def transpose_of_reshaped_transpose(root: Instruction[Transpose], inner: Instruction) -> Rewritten:
    """transpose(reshape(transpose(x))) => reshape(transpose(x)), if only dimensions of size 1 are reshaped"""
    (transposed,) = inner.operands
    if not isinstance(transposed.op, Transpose) or len(inner.users) != 1:
        return None
    before = [d for d, n in enumerate(shape_of(transposed).dims) if n != 1]
    after = [d for d, n in enumerate(shape_of(inner).dims) if n != 1]
    if [shape_of(transposed).dims[d] for d in before] != [shape_of(inner).dims[d] for d in after]:
        return None
    (x,) = transposed.operands
    # for each dimension of `inner` its dimension in x
    source = dict(zip(after, (transposed.op.dimensions[d] for d in before), strict=True))
    order = [source[d] for d in root.op.dimensions if d in source]
    units = [d for d, n in enumerate(shape_of(x).dims) if n == 1]
    moved = x if order == sorted(order) else Transpose((*order, *units))(x)
    return reshaped(moved, shape_of(root).dims)
