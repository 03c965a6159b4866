"""Sliding windows over images: dimension formats and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError
from axla.tensorflow.ops.common import of_rank
from axla.tensorflow.scope import OpCall

_FEATURES_LAST = ("NHWC", "NDHWC", "CHANNELS_LAST")
VECTORS = "NCHW_VECT_C"
"""Images of the dimensions [batch, vectors, height, width, features of a vector]: their features are split.
"""


@dataclass(frozen=True, slots=True)
class ImageFormat:
    """The number of the feature dimension of images, and the numbers of their spatial dimensions."""

    features: int
    spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """The window along one dimension. It has `size` elements at the distance `dilation`, and starts at every
    `stride`-th position; `count` is the number of positions, `low` and `high` are the padding.
    """

    size: int
    stride: int
    dilation: int
    count: int
    low: int
    high: int


def format_of(name: str, rank: int) -> ImageFormat:
    """The dimension numbers of images in a format; NCHW_VECT_C is treated as NCHW."""
    if name in _FEATURES_LAST:
        return ImageFormat(rank - 1, tuple(range(1, rank - 1)))
    return ImageFormat(1, tuple(range(2, rank)))


def numbers_of(call: OpCall, numbers: Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    """Returns `numbers` as a tuple. Raises VerifyError unless it has one positive number for each of `rank`
    dimensions; `what` names the numbers in the message.
    """
    if len(numbers) != rank or any(number < 1 for number in numbers):
        call.fail(f"{what} are {list(numbers)}, wanted {rank} positive numbers")
    return tuple(numbers)


def only_spatial(numbers: Sequence[int], form: ImageFormat, what: str) -> None:
    """Raises UnsupportedError for numbers other than 1 in dimensions that are not spatial; `what` names the
    numbers in the message.
    """
    if any(number != 1 for d, number in enumerate(numbers) if d not in form.spatial):
        raise UnsupportedError(f"{what} are {list(numbers)}, wanted 1 for batch and features")


def steps_of(
    call: OpCall, dims: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[WindowSteps]:
    """The windows along all dimensions; each argument has a number for each dimension. The padding comes from
    the attributes `padding` and `explicit_paddings`, which has a pair for each dimension.
    """
    explicit = _explicit(call, len(dims))
    found = []
    for d, (dim, size, stride, dilation) in enumerate(zip(dims, sizes, strides, dilations, strict=True)):
        reach = (size - 1) * dilation + 1
        low, high = explicit[d]
        count = (dim + low + high - reach) // stride + 1
        if call["padding"] == "SAME":
            count = -(-dim // stride)
            missing = max((count - 1) * stride + reach - dim, 0)
            low, high = missing // 2, missing - missing // 2
        if size < 1 or count < 0:
            call.fail(f"a window of size {size} does not fit a dimension of size {dim}")
        found.append(WindowSteps(size, stride, dilation, count, low, high))
    return found


def _explicit(call: OpCall, rank: int) -> list[tuple[int, int]]:
    """The explicit padding of each dimension, (before, after); zeros if the node has other padding."""
    given: Any = call.attributes.get("explicit_paddings", ())
    if call["padding"] != "EXPLICIT":
        if given:
            call.fail(f"explicit_paddings are {list(given)}, but padding is {call['padding']}")
        return [(0, 0)] * rank
    if len(given) != 2 * rank or any(number < 0 for number in given):
        call.fail(f"explicit_paddings are {list(given)}, wanted {2 * rank} numbers of at least 0")
    return list(zip(given[::2], given[1::2], strict=True))


def joined_vectors(call: OpCall, value: XlaOp) -> XlaOp:
    """Converts images from NCHW_VECT_C to NCHW."""
    of_rank(call, value, 5, "images in vectors")
    n, c, h, w, size = value.dims
    return ops.Reshape(ops.Transpose(value, [0, 1, 4, 2, 3]), (n, c * size, h, w))


def split_vectors(value: XlaOp, size: int) -> XlaOp:
    """Converts images from NCHW to NCHW_VECT_C."""
    n, c, h, w = value.dims
    return ops.Transpose(ops.Reshape(value, (n, c // size, size, h, w)), [0, 1, 3, 4, 2])
