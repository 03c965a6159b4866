"""Image operations: resizing, patches, colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner
from axla.builder.records import ScatterDimensionNumbers
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32
from axla.tensorflow.ops.common import of_rank, summed, taken, widened
from axla.tensorflow.ops.windows import format_of, numbers_of, only_spatial, steps_of
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall

RECORDS = """
ResizeBilinear: images:T size:i32 align_corners=bool?false half_pixel_centers=bool?false -> resized_images:f32
ResizeNearestNeighbor: images:T size:i32 align_corners=bool?false half_pixel_centers=bool?false ->
    resized_images:T
ResizeBilinearGrad: grads:f32 original_image:T align_corners=bool?false half_pixel_centers=bool?false ->
    output:T
ResizeNearestNeighborGrad: grads:T size:i32 align_corners=bool?false half_pixel_centers=bool?false -> output:T
ExtractImagePatches: images:T ksizes=ints strides=ints rates=ints padding=edges -> patches:T
AdjustContrastv2 AdjustHue AdjustSaturation: images:T factor:f32 T=type?DT_FLOAT -> output:T
RGBToHSV HSVToRGB: images:T T=type?DT_FLOAT -> output:T
"""


# Resizing.


class ResizePositions(NamedTuple):
    """For each element of a resized dimension, its sources: the positions `low` and `high` in the old
    dimension, and the weight of the element at `high`; the element at `low` has 1 minus this weight.
    """

    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray


def _scaled(call: OpCall, old: int, new: int) -> np.ndarray:
    """The positions of new elements on the old scale, with TensorFlow's rounding."""
    f = np.float32
    if call["align_corners"] and new > 1:
        return np.arange(new, dtype=f) * (f(old - 1) / f(new - 1))
    scale = f(old) / f(new)
    return (np.arange(new, dtype=f) + f(0.5 if call["half_pixel_centers"] else 0)) * scale


def _bilinear(call: OpCall, old: int, new: int) -> ResizePositions:
    where = _scaled(call, old, new) - np.float32(0.5 if call["half_pixel_centers"] else 0)
    below = np.floor(where)
    low, high = np.maximum(below, 0), np.minimum(np.ceil(where), old - 1)
    return ResizePositions(low.astype(np.int32), high.astype(np.int32), where - below)


def _nearest(call: OpCall, old: int, new: int) -> ResizePositions:
    where = _scaled(call, old, new)
    found = np.floor(where + np.float32(0.5)) if call["align_corners"] else np.floor(where)
    low = np.clip(found, 0, old - 1).astype(np.int32)
    return ResizePositions(low, low, np.zeros(new, np.float32))


_LARGEST = 1 << 18
"""The largest number of rows or columns of a resized image. The positions of their sources become constants.
"""


def _places(call: OpCall, old: Sequence[int], new: Sequence[int]) -> list[ResizePositions]:
    """The sources of the rows and those of the columns of a resized image; `old` and `new` are sizes [height,
    width].
    """
    if call["align_corners"] and call["half_pixel_centers"]:
        call.fail("align_corners and half_pixel_centers exclude each other")
    if len(old) != 2 or len(new) != 2 or min(*old, *new) < 1:
        call.fail(f"images are resized from {list(old)} to {list(new)}, wanted positive heights and widths")
    if max(new) > _LARGEST:
        call.fail(f"images of size {list(new)} have more than {_LARGEST} rows or columns")
    kind = _nearest if "Nearest" in call.node.op else _bilinear
    return [kind(call, a, b) for a, b in zip(old, new, strict=True)]


@lowering("ResizeBilinear", "ResizeNearestNeighbor")
def _resized(call: OpCall, images: XlaOp, size: XlaOp) -> XlaOp:
    of_rank(call, images, 4, "images")
    places = _places(call, images.dims[1:3], call.integers(size, "size"))
    if "Nearest" in call.node.op:
        return taken(taken(images, 1, places[0].low), 2, places[1].low)
    images = ops.ConvertElementType(images, F32)
    for dim in (2, 1):
        at = places[dim - 1]
        low = taken(images, dim, at.low)
        if np.any(at.weight):
            weight = call.builder.constant(at.weight)
            low = low + ops.Mul(taken(images, dim, at.high) - low, weight, [dim])
        images = low
    return images


@lowering("ResizeBilinearGrad", "ResizeNearestNeighborGrad")
def _resized_grad(call: OpCall, gradient: XlaOp, images: XlaOp) -> XlaOp:
    """Adds the gradient of each new element to those of its sources. `images` has the old size; for nearest
    neighbours it is the old size.
    """
    of_rank(call, gradient, 4, "grads")
    is_nearest = "Nearest" in call.node.op
    old = call.integers(images, "size") if is_nearest else images.dims[1:3]
    if not is_nearest:
        of_rank(call, images, 4, "original_image")
        if (images.dims[0], images.dims[3]) != (gradient.dims[0], gradient.dims[3]):
            call.fail(f"shapes {list(gradient.dims)} and {list(images.dims)} differ in images or features")
    places = _places(call, old, gradient.dims[1:3])
    dtype = gradient.dtype if is_nearest else images.dtype
    found = widened(gradient)
    for dim in (1, 2):
        found = _put_back(found, dim, old[dim - 1], places[dim - 1])
    return ops.ConvertElementType(found, dtype)


def _put_back(value: XlaOp, dim: int, size: int, at: ResizePositions) -> XlaOp:
    """The reverse of a resize along dimension `dim`, from `size` elements: for each of these, the sum of the
    resized elements of which it is a source, by their weights in `at`.
    """
    indices, updates = at.low, value
    if np.any(at.weight):
        weight = ops.ConvertElementType(value.builder.constant(at.weight), value.dtype)
        indices = np.concatenate([at.low, at.high])
        parts = [ops.Mul(value, 1 - weight, [dim]), ops.Mul(value, weight, [dim])]
        updates = ops.ConcatInDim(value.builder, parts, dim)
    dims = [size if d == dim else n for d, n in enumerate(value.dims)]
    zeros = ops.Broadcast(ops.Zero(value.builder, value.dtype), dims)
    others = [d for d in range(len(dims)) if d != dim]
    numbers = ScatterDimensionNumbers(others, [dim], [dim], 1)
    return ops.Scatter(zeros, indices, updates, combiner("Add", value.dtype), numbers)


# Patches.


@lowering("ExtractImagePatches")
def _patches(call: OpCall, images: XlaOp) -> XlaOp:
    """The elements of the window at each position, as the features of one element of the result."""
    of_rank(call, images, 4, "images")
    form = format_of("NHWC", 4)
    given = [numbers_of(call, call[name], 4, name) for name in ("ksizes", "strides", "rates")]
    for numbers, name in zip(given, ("ksizes", "strides", "rates"), strict=True):
        only_spatial(numbers, form, name)
    steps = steps_of(call, images.dims, *given)
    padding = [(s.low, s.high, 0) for s in steps]
    found = ops.Pad(images, ops.Zero(call.builder, images.dtype), padding)
    for dim in form.spatial:
        s = steps[dim]
        numbers = call.numbers(s.count * s.size)
        found = taken(found, dim, numbers // s.size * s.stride + numbers % s.size * s.dilation)
    (n, h, w, c), (rows, columns) = (s.count for s in steps), (steps[d].size for d in form.spatial)
    found = ops.Transpose(ops.Reshape(found, (n, h, rows, w, columns, c)), [0, 1, 3, 2, 4, 5])
    return ops.Reshape(found, (n, h, w, rows * columns * c))


# Colours.


def _channels(call: OpCall, images: XlaOp) -> list[XlaOp]:
    """The red, green and blue (or hue, saturation and value) channels, slices of the last dimension."""
    if not images.dims or images.dims[-1] != 3:
        call.fail(f"images of shape {list(images.dims)}, wanted 3 channels")
    return [images[..., k : k + 1] for k in range(3)]


def _hsv(red: XlaOp, green: XlaOp, blue: XlaOp) -> list[XlaOp]:
    """Converts colours to hue, saturation and value."""
    value = ops.Max(ops.Max(red, green), blue)
    spread = value - ops.Min(ops.Min(red, green), blue)
    zero = ops.ZerosLike(value)
    saturation = ops.Select(value > 0, spread / value, zero)
    sixth = 1 / (6 * spread)
    hue = ops.Select(ops.Eq(green, value), sixth * (blue - red) + 2 / 6, sixth * (red - green) + 4 / 6)
    hue = ops.Select(ops.Eq(red, value), sixth * (green - blue), hue)
    hue = ops.Select(spread > 0, hue, zero)
    return [ops.Select(hue < 0, hue + 1, hue), saturation, value]


def _rgb(hue: XlaOp, saturation: XlaOp, value: XlaOp) -> list[XlaOp]:
    """Converts colours to red, green and blue."""
    turn = hue * 6
    parts = [ops.Abs(turn - 3) - 1, 2 - ops.Abs(turn - 2), 2 - ops.Abs(turn - 4)]
    return [(1 - saturation + saturation * ops.Clamp(0, part, 1)) * value for part in parts]


def _joined(images: XlaOp, channels: Sequence[XlaOp]) -> XlaOp:
    found = ops.ConcatInDim(images.builder, channels, len(images.dims) - 1)
    return ops.ConvertElementType(found, images.dtype)


@lowering("RGBToHSV", "HSVToRGB")
def _converted(call: OpCall, images: XlaOp) -> XlaOp:
    convert = _hsv if call.node.op == "RGBToHSV" else _rgb
    return _joined(images, convert(*_channels(call, widened(images))))


def _check_images(call: OpCall, images: XlaOp, factor: XlaOp) -> None:
    if len(images.dims) < 3 or factor.dims:
        call.fail(f"wanted images and a scalar, found shapes {list(images.dims)} and {list(factor.dims)}")


@lowering("AdjustHue", "AdjustSaturation")
def _adjusted(call: OpCall, images: XlaOp, factor: XlaOp) -> XlaOp:
    """Rotates the hue by a fraction of the circle (AdjustHue), or multiplies the saturation
    (AdjustSaturation).
    """
    _check_images(call, images, factor)
    hue, saturation, value = _hsv(*_channels(call, widened(images)))
    if call.node.op == "AdjustHue":
        hue = hue + factor
        hue = hue - ops.Floor(hue)
    else:
        saturation = ops.Clamp(0, saturation * factor, 1)
    return _joined(images, _rgb(hue, saturation, value))


@lowering("AdjustContrastv2")
def _adjust_contrast(call: OpCall, images: XlaOp, factor: XlaOp) -> XlaOp:
    """(x - mean) * factor + mean, for the mean of each channel of an image."""
    _check_images(call, images, factor)
    rank, wide = len(images.dims), widened(images)
    height, width = images.dims[-3:-1]
    mean = summed(wide, [rank - 3, rank - 2]) / max(height * width, 1)
    found = ops.Add(wide * factor, mean * (1 - factor), [*range(rank - 3), rank - 1])
    return ops.ConvertElementType(found, images.dtype)
