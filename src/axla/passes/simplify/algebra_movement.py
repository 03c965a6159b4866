"""Rules of algsimp for ops that move elements: broadcast, reshape, transpose, reverse, copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.core.literal import Literal, why_no_array
from axla.core.shape import Shape
from axla.hlo import Bitcast, Broadcast, Copy, Iota, Reshape, Reverse, Transpose
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.structure import Constant, Parameter
from axla.ir.typed import op_of, shape_of
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.match import constant, full, same_shape, uniform, values_of


def reshaped(x: Instruction, dims: Sequence[int]) -> Instruction:
    """`x` with other dimensions of the same size."""
    shape = shape_of(x)
    return x if shape.dims == tuple(dims) else Reshape(Shape(shape.dtype, dims))(x)


@rule(Op)
def no_elements(root: Instruction, *_: Instruction) -> Rewritten:
    """x => a constant without elements, for any x without elements"""
    shape, op = root.shape, root.op
    if not isinstance(shape, Shape) or 0 not in shape.dims or type(op) in (Constant, Parameter):
        return None
    if op.side_effect or op.computation_fields or op.opcode == "custom-call":
        return None  # what it does besides may matter
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
def broadcast_identity(root: Instruction, x: Instruction) -> Rewritten:
    """broadcast(x) => x, to its own shape"""
    op = op_of(root, Broadcast)
    return x if same_shape(x, root) and op.dimensions == tuple(range(shape_of(x).rank)) else None


@rule(Broadcast)
def broadcast_broadcast(root: Instruction, inner: Instruction) -> Rewritten:
    """broadcast(broadcast(x)) => broadcast(x)"""
    outer_op, inner_op = op_of(root, Broadcast), inner.op
    if not isinstance(inner_op, Broadcast):
        return None
    dimensions = tuple(outer_op.dimensions[d] for d in inner_op.dimensions)
    return Broadcast(shape_of(root), dimensions)(inner.operands[0])


@rule(Broadcast)
def broadcast_of_one_element(root: Instruction, x: Instruction) -> Rewritten:
    """broadcast(x[1,1]) => broadcast(reshape(x))"""
    shape = shape_of(x)
    if not shape.rank or shape.size != 1 or shape_of(root).size == 1:
        return None
    return Broadcast(shape_of(root), ())(reshaped(x, ()))


@rule(Broadcast)
def broadcast_adds_unit_dims(root: Instruction, x: Instruction) -> Rewritten:
    """broadcast(x) => reshape(x), when it repeats nothing"""
    op, shape = op_of(root, Broadcast), shape_of(root)
    if shape.size != shape_of(x).size or same_shape(x, root) or list(op.dimensions) != sorted(op.dimensions):
        return None
    return Reshape(shape)(x)


@rule(Broadcast)
def broadcast_of_wider_reshape(root: Instruction, inner: Instruction) -> Rewritten:
    """broadcast(reshape(x)) => broadcast(x), when the reshape only adds dimensions of size 1"""
    op = op_of(root, Broadcast)
    if type(inner.op) is not Reshape:
        return None
    x = inner.operands[0]
    kept = kept_dims(shape_of(x).dims, shape_of(inner).dims)
    return None if kept is None else Broadcast(shape_of(root), tuple(op.dimensions[d] for d in kept))(x)


def kept_dims(small: Sequence[int], large: Sequence[int]) -> list[int] | None:
    """Which dimensions of `large` those of `small` are, if all others have size 1; None if it is not so."""
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


@rule(Reshape)
def reshape_reshape(root: Instruction, inner: Instruction) -> Rewritten:
    """reshape(reshape(x)) => reshape(x)"""
    return Reshape(shape_of(root))(inner.operands[0]) if type(inner.op) is Reshape else None


@rule(Reshape)
def reshape_of_scalar_broadcast(root: Instruction, inner: Instruction) -> Rewritten:
    """reshape(broadcast(s)) => broadcast(s), for scalar s"""
    if type(inner.op) is not Broadcast or shape_of(inner.operands[0]).rank:
        return None
    s = inner.operands[0]
    return Broadcast(shape_of(root), ())(s) if shape_of(root).rank else s


@rule(Reshape)
def reshape_of_broadcast(root: Instruction, inner: Instruction) -> Rewritten:
    """reshape(broadcast(x)) => broadcast(x), when the reshape only adds or drops dimensions of size 1"""
    op = inner.op
    if not isinstance(op, Broadcast) or 1 in shape_of(inner.operands[0]).dims or not op.dimensions:
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
def transpose_identity(root: Instruction, x: Instruction) -> Rewritten:
    """transpose(x) => x, with the dimensions in order"""
    op = op_of(root, Transpose)
    return x if op.dimensions == tuple(range(len(op.dimensions))) else None


@rule(Transpose)
def transpose_transpose(root: Instruction, inner: Instruction) -> Rewritten:
    """transpose(transpose(x)) => transpose(x)"""
    outer_op, inner_op = op_of(root, Transpose), inner.op
    if not isinstance(inner_op, Transpose):
        return None
    return Transpose(tuple(inner_op.dimensions[d] for d in outer_op.dimensions))(inner.operands[0])


@rule(Transpose)
def transpose_moves_unit_dims(root: Instruction, x: Instruction) -> Rewritten:
    """transpose(x) => reshape(x), when only dimensions of size 1 move"""
    op = op_of(root, Transpose)
    moved = [d for d in op.dimensions if shape_of(x).dims[d] != 1]
    if moved != sorted(moved) or len(moved) == len(op.dimensions):
        return None
    return reshaped(x, shape_of(root).dims)


@rule(Transpose)
def transpose_of_broadcast(root: Instruction, inner: Instruction) -> Rewritten:
    """transpose(broadcast(x)) => broadcast(transpose(x))"""
    outer_op, inner_op = op_of(root, Transpose), inner.op
    if not isinstance(inner_op, Broadcast):
        return None
    x = inner.operands[0]
    places = [outer_op.dimensions.index(d) for d in inner_op.dimensions]
    if places == sorted(places):
        return Broadcast(shape_of(root), tuple(places))(x)
    if shape_of(x).size == shape_of(root).size:
        return None  # as many elements to move as before
    order = sorted(range(len(places)), key=places.__getitem__)
    return Broadcast(shape_of(root), tuple(sorted(places)))(Transpose(tuple(order))(x))


@rule(Broadcast)
def broadcast_in_order(root: Instruction, x: Instruction) -> Rewritten:
    """broadcast(x), dimensions={1,0} => broadcast(transpose(x)), dimensions={0,1}"""
    op = op_of(root, Broadcast)
    if list(op.dimensions) == sorted(op.dimensions):
        return None
    order = sorted(range(len(op.dimensions)), key=op.dimensions.__getitem__)
    return Broadcast(shape_of(root), tuple(sorted(op.dimensions)))(Transpose(tuple(order))(x))


@rule(Reverse)
def reverse_unit_dims(root: Instruction, x: Instruction) -> Rewritten:
    """reverse(x) => x along dimensions of size 1"""
    op = op_of(root, Reverse)
    needed = tuple(d for d in op.dimensions if shape_of(x).dims[d] != 1)
    if needed == op.dimensions:
        return x if not needed else None
    return Reverse(needed)(x) if needed else x


@rule(Reverse)
def reverse_reverse(root: Instruction, inner: Instruction) -> Rewritten:
    """reverse(reverse(x)) => reverse(x), along the dimensions of only one of them"""
    outer_op, inner_op = op_of(root, Reverse), inner.op
    if not isinstance(inner_op, Reverse):
        return None
    left = tuple(sorted(set(outer_op.dimensions) ^ set(inner_op.dimensions)))
    return Reverse(left)(inner.operands[0]) if left else inner.operands[0]


@rule(Reverse)
def reverse_of_broadcast(root: Instruction, inner: Instruction) -> Rewritten:
    """reverse(broadcast(x)) => broadcast(x), along dimensions that repeat x"""
    outer_op, inner_op = op_of(root, Reverse), inner.op
    if not isinstance(inner_op, Broadcast):
        return None
    needed = tuple(d for d in outer_op.dimensions if d in inner_op.dimensions)
    if needed == outer_op.dimensions:
        return None
    return Reverse(needed)(inner) if needed else inner


@rule(Copy)
def copy_same_layout(root: Instruction, x: Instruction) -> Rewritten:
    """copy(x) => x, in the same layout (copies that keep values apart are inserted later)"""
    return x if x.shape is root.shape else None


@rule(Bitcast)
def bitcast_identity(root: Instruction, x: Instruction) -> Rewritten:
    """bitcast(x) => x, to its own shape and layout"""
    return x if x.shape is root.shape else None


@rule(Iota)
def iota_of_unit_dim(root: Instruction, *_: Instruction) -> Rewritten:
    """iota() => 0, along a dimension of size 1"""
    op = op_of(root, Iota)
    return full(root, 0) if shape_of(root).dims[op.iota_dimension] == 1 else None


@rule(Transpose)
def transpose_of_iota(root: Instruction, x: Instruction) -> Rewritten:
    """transpose(iota()) => iota()"""
    outer_op, inner_op = op_of(root, Transpose), x.op
    if not isinstance(inner_op, Iota):
        return None
    return root.computation.add(Iota(shape_of(root), outer_op.dimensions.index(inner_op.iota_dimension)))


@rule(Transpose)
def transpose_of_constant(root: Instruction, x: Instruction) -> Rewritten:
    """transpose(constant) => constant, for small constants"""
    values = values_of(x)
    if values is None or values.nbytes > 1 << 20:
        return None
    turned = values.transpose(op_of(root, Transpose).dimensions)
    return constant(root.computation, Literal(shape_of(root).logical, turned))
