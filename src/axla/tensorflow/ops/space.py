"""Padding, and operations that move the elements of spatial blocks to the batch or to channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.ops.common import of_rank
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall

RECORDS = """
Pad: input:T paddings:Tpaddings Tpaddings=type?DT_INT32 -> output:T
PadV2: input:T paddings:Tpaddings constant_values:T Tpaddings=type?DT_INT32 -> output:T
MirrorPad MirrorPadGrad: input:T paddings:Tpaddings Tpaddings=type?DT_INT32 mode=string{REFLECT,SYMMETRIC} ->
    output:T
SpaceToBatch: input:T paddings:Tpaddings Tpaddings=type?DT_INT32 block_size=int>=2 -> output:T
SpaceToBatchND: input:T block_shape:Tblock_shape paddings:Tpaddings Tblock_shape=type?DT_INT32
    Tpaddings=type?DT_INT32 -> output:T
BatchToSpace: input:T crops:Tidx block_size=int>=2 Tidx=type?DT_INT32 -> output:T
BatchToSpaceND: input:T block_shape:Tblock_shape crops:Tcrops Tblock_shape=type?DT_INT32 Tcrops=type?DT_INT32
    -> output:T
SpaceToDepth DepthToSpace: input:T block_size=int>=2 data_format=vectors?NHWC -> output:T
"""


def edges(call: OpCall, value: XlaOp, count: int, what: str = "paddings") -> list[tuple[int, int]]:
    """For each of `count` dimensions, the padding before and after it, from a constant operand, which
    messages name `what`.
    """
    found = call.constant(value, what)
    if found.shape != (count, 2) or (found < 0).any():
        call.fail(f"{what} is {found.tolist()}, wanted two numbers from 0 on for each of {count} dimensions")
    return [(int(low), int(high)) for low, high in found]


def padded(value: XlaOp, pads: Sequence[tuple[int, int]], number: XlaOp | None = None) -> XlaOp:
    """The array padded with `number`, by default zero; `pads` has (before, after) for each dimension."""
    number = ops.Zero(value.builder, value.dtype) if number is None else number
    return ops.Pad(value, number, [(low, high, 0) for low, high in pads])


@lowering("Pad", "PadV2")
def _pad(call: OpCall, value: XlaOp, paddings: XlaOp, number: XlaOp | None = None) -> XlaOp:
    if number is not None:
        of_rank(call, number, 0, "constant_values")
    return padded(value, edges(call, paddings, len(value.dims)), number)


@lowering("MirrorPad")
def _mirror_pad(call: OpCall, value: XlaOp, paddings: XlaOp) -> XlaOp:
    skip = int(call["mode"] == "REFLECT")  # 1 if the edge element itself is not repeated
    for d, (low, high) in enumerate(edges(call, paddings, len(value.dims))):
        size = value.dims[d]
        _check_mirror(call, low, high, size - skip)
        before = ops.Rev(ops.SliceInDim(value, skip, skip + low, 1, d), [d])
        behind = ops.Rev(ops.SliceInDim(value, size - skip - high, size - skip, 1, d), [d])
        if low or high:
            value = ops.ConcatInDim(call.builder, [before, value, behind], d)
    return value


def _check_mirror(call: OpCall, low: int, high: int, most: int) -> None:
    if max(low, high) > max(most, 0):
        call.fail(f"paddings are {low} and {high}, at most {max(most, 0)} elements can be mirrored")


@lowering("MirrorPadGrad")
def _mirror_pad_grad(call: OpCall, value: XlaOp, paddings: XlaOp) -> XlaOp:
    """Adds the gradients of elements that MirrorPad copied to those of their sources."""
    skip = int(call["mode"] == "REFLECT")
    for d, (low, high) in enumerate(edges(call, paddings, len(value.dims))):
        size = value.dims[d] - low - high
        _check_mirror(call, low, high, size - skip)
        before = ops.Rev(ops.SliceInDim(value, 0, low, 1, d), [d])
        behind = ops.Rev(ops.SliceInDim(value, low + size, low + size + high, 1, d), [d])
        value = ops.SliceInDim(value, low, low + size, 1, d)
        zero = ops.Zero(call.builder, value.dtype)
        if low:
            value += ops.PadInDim(before, zero, d, skip, size - skip - low)
        if high:
            value += ops.PadInDim(behind, zero, d, size - skip - high, skip)
    return value


# Blocks.


def _block_of(call: OpCall, value: XlaOp, shape: Sequence[XlaOp]) -> Sequence[int]:
    """The block sizes of the dimensions after the batch: an operand, or an attribute for two dimensions."""
    block = call.integers(shape[0], "block_shape") if shape else [call["block_size"]] * 2
    if len(value.dims) <= len(block) or min([*block, 1]) < 1:
        call.fail(f"block_shape {list(block)} is not positive, or too long for shape {list(value.dims)}")
    return block


@lowering("SpaceToBatch", "SpaceToBatchND")
def _to_batch(call: OpCall, value: XlaOp, *operands: XlaOp) -> XlaOp:
    """Divides the dimensions after the batch into blocks. The elements at one position in all blocks become a
    batch element of their own.
    """
    *shape, paddings = operands
    block = _block_of(call, value, shape)
    count = len(block)
    rest = [(0, 0)] * (len(value.dims) - count - 1)
    value = padded(value, [(0, 0), *edges(call, paddings, count), *rest])
    batch, space, others = value.dims[0], value.dims[1 : count + 1], value.dims[count + 1 :]
    if any(size % n for size, n in zip(space, block, strict=True)):
        call.fail(f"sizes {list(space)} with paddings are not multiples of {list(block)}")
    cells = [size // n for size, n in zip(space, block, strict=True)]
    split = [size for pair in zip(cells, block, strict=True) for size in pair]
    found = ops.Reshape(value, [batch, *split, *others])
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count + 1, 2)
    found = ops.Transpose(found, [*inner, 0, *outer, *range(2 * count + 1, len(found.dims))])
    return ops.Reshape(found, [batch * prod(block), *cells, *others])


@lowering("BatchToSpace", "BatchToSpaceND")
def _to_space(call: OpCall, value: XlaOp, *operands: XlaOp) -> XlaOp:
    """The reverse of `_to_batch`: groups of batch elements become the elements of blocks. Then the result is
    cropped.
    """
    *shape, crops = operands
    block = _block_of(call, value, shape)
    count = len(block)
    batch, cells, others = value.dims[0], value.dims[1 : count + 1], value.dims[count + 1 :]
    if batch % prod(block):
        call.fail(f"a batch of {batch} is not a multiple of the size of a block {list(block)}")
    found = ops.Reshape(value, [*block, batch // prod(block), *cells, *others])
    pairs = [d for n in range(count) for d in (count + 1 + n, n)]
    found = ops.Transpose(found, [count, *pairs, *range(2 * count + 1, len(found.dims))])
    space = [size * n for size, n in zip(cells, block, strict=True)]
    found = ops.Reshape(found, [batch // prod(block), *space, *others])
    cuts = edges(call, crops, count, "crops")
    if any(low + high > size for (low, high), size in zip(cuts, space, strict=True)):
        call.fail(f"crops are {cuts}, more than the sizes {space}")
    return padded(found, [(0, 0), *((-low, -high) for low, high in cuts), *[(0, 0)] * len(others)])


@lowering("SpaceToDepth", "DepthToSpace")
def _depth(call: OpCall, value: XlaOp) -> XlaOp:
    """Moves the elements of a block to channels, or channels to the elements of a block. NCHW_VECT_C has
    vectors of 4 channels in the last dimension.
    """
    name = call["data_format"]
    if len(value.dims) != len(name.split("_")[0]) + (name == "NCHW_VECT_C"):
        call.fail(f"shape {list(value.dims)} does not fit attribute 'data_format', {name!r}")
    order = [0, 2, 3, 1, 4] if name == "NCHW_VECT_C" else [name.index(letter) for letter in "NHWC"]
    transposed = ops.Transpose(value, order)
    vector = transposed.dims[4:]
    found = ops.Reshape(transposed, [*transposed.dims[:3], prod(transposed.dims[3:])])
    found = _blocks_to_depth(call, found) if call.node.op == "SpaceToDepth" else _depth_to_blocks(call, found)
    found = ops.Reshape(found, [*found.dims[:3], found.dims[3] // prod(vector), *vector])
    return ops.Transpose(found, np.argsort(order).tolist())


def _blocks_to_depth(call: OpCall, value: XlaOp) -> XlaOp:
    (batch, height, width, depth), n = value.dims, call["block_size"]
    if height % n or width % n:
        call.fail(f"height {height} or width {width} is not a multiple of block_size {n}")
    found = ops.Reshape(value, [batch, height // n, n, width // n, n, depth])
    found = ops.Transpose(found, [0, 1, 3, 2, 4, 5])
    return ops.Reshape(found, [batch, height // n, width // n, n * n * depth])


def _depth_to_blocks(call: OpCall, value: XlaOp) -> XlaOp:
    (batch, height, width, depth), n = value.dims, call["block_size"]
    if depth % (n * n):
        call.fail(f"{depth} channels are not a multiple of the square of block_size {n}")
    found = ops.Reshape(value, [batch, height, width, n, n, depth // (n * n)])
    found = ops.Transpose(found, [0, 1, 3, 2, 4, 5])
    return ops.Reshape(found, [batch, height * n, width * n, depth // (n * n)])
