"""Boxes in images: those that stay when others that overlap them are dropped, and what they show."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

import axla.ops as ops
from axla.builder.iteration import combiner, loop
from axla.builder.records import GatherDimensionNumbers
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32, PRED, S32
from axla.core.shape import Shape
from axla.tensorflow.ops.common import summed
from axla.tensorflow.ops.windows import of_dims, of_rank
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import Call, spread
from axla.tensorflow.values import parts

RECORDS = """
NonMaxSuppression: boxes:f32 scores:f32 max_output_size:i32 iou_threshold=float?0.5 -> selected_indices:i32
NonMaxSuppressionV2: boxes:T scores:T max_output_size:i32 iou_threshold:T_threshold T=type?DT_FLOAT
    T_threshold=type?DT_FLOAT -> selected_indices:i32
NonMaxSuppressionV3: boxes:T scores:T max_output_size:i32 iou_threshold:T_threshold
    score_threshold:T_threshold T=type?DT_FLOAT T_threshold=type?DT_FLOAT -> selected_indices:i32
NonMaxSuppressionV4: boxes:T scores:T max_output_size:i32 iou_threshold:T_threshold
    score_threshold:T_threshold T=type?DT_FLOAT T_threshold=type?DT_FLOAT pad_to_max_output_size=bool?false ->
    selected_indices:i32 valid_outputs:i32
NonMaxSuppressionV5: boxes:T scores:T max_output_size:i32 iou_threshold:T score_threshold:T soft_nms_sigma:T
    T=type?DT_FLOAT pad_to_max_output_size=bool?false -> selected_indices:i32 selected_scores:T
    valid_outputs:i32
CombinedNonMaxSuppression: boxes:f32 scores:f32 max_output_size_per_class:i32 max_total_size:i32
    iou_threshold:f32 score_threshold:f32 pad_per_class=bool?false clip_boxes=bool?true -> nmsed_boxes:f32
    nmsed_scores:f32 nmsed_classes:f32 valid_detections:i32
CropAndResize: image:T boxes:f32 box_ind:i32 crop_size:i32 T=type method=string{bilinear,nearest}?bilinear
    extrapolation_value=float?0.0 -> crops:f32
"""


# Suppression. Boxes are [..., y, x, y, x] of two corners; rows are lists of boxes that do not see each other.


def _reduced(value: XlaOp, how: str, start: float) -> XlaOp:
    """The elements of each row combined, [rows, 1]."""
    first = value.builder.constant(np.asarray(start, value.dtype.numpy))
    found = ops.Reduce(value, first, combiner(how, value.dtype), [1])
    return ops.Reshape(found, (value.dims[0], 1))


def _corners(boxes: XlaOp) -> list[XlaOp]:
    """The least and the largest coordinates, each [rows, boxes]: y, y, x, x."""
    first, second, third, fourth = (
        ops.Reshape(ops.SliceInDim(boxes, k, k + 1, 1, 2), boxes.dims[:2]) for k in range(4)
    )
    return [
        ops.Min(first, third), ops.Max(first, third), ops.Min(second, fourth), ops.Max(second, fourth)
    ]  # fmt: skip


def _overlaps(corners: Sequence[XlaOp], others: Sequence[XlaOp]) -> XlaOp:
    """The intersection of boxes divided by their union; 0 where one has no area."""
    areas = [(box[1] - box[0]) * (box[3] - box[2]) for box in (corners, others)]
    sides = [
        ops.Max(ops.Min(corners[k + 1], others[k + 1]) - ops.Max(corners[k], others[k]), 0) for k in (0, 2)
    ]
    shared = sides[0] * sides[1]
    found = shared / (areas[0] + areas[1] - shared)
    return ops.Select((areas[0] > 0) & (areas[1] > 0), found, ops.ZerosLike(found))


def _suppressed(
    boxes: XlaOp, scores: XlaOp, most: int, limits: Sequence[XlaOp]
) -> tuple[XlaOp, XlaOp, XlaOp]:
    """The numbers of the boxes chosen in each row, by descending scores, and their scores, both [rows, most]
    with zeros behind them, and how many they are, [rows, 1].

    `limits` are [overlap, score, sigma]: a box is dropped when it overlaps a chosen one by more than
    `overlap`, or when its score is not above `score`. With `sigma`, which may be left out, scores fall by
    exp(-overlap**2 / (2 * sigma)) instead where it is positive.
    """
    builder, (rows, count) = boxes.builder, scores.dims
    zero = builder.constant(np.int32(0))
    chosen, number = ops.Broadcast(zero, (rows, most)), ops.Broadcast(zero, (rows, 1))
    values = ops.ConvertElementType(chosen, F32)
    if not rows * most * count:
        return chosen, values, number
    scores = _above(scores, limits[1])
    best = _reduced(scores, "Max", -inf)
    state = [zero, best, scores, chosen, values, number, *_corners(boxes), *limits]
    return tuple(loop(state, _goes_on, _chosen, "suppression")[3:6])


def _above(scores: XlaOp, limit: XlaOp) -> XlaOp:
    """Scores, -infinity for those that are not above the limit."""
    return ops.Select(ops.Gt(scores, limit), scores, ops.ZerosLike(scores) - inf)


def _goes_on(step: XlaOp, best: XlaOp, scores: XlaOp, chosen: XlaOp, *_: XlaOp) -> XlaOp:
    some = ops.ReduceAll(best > -inf, step.builder.constant(np.bool_(False)), combiner("Or", PRED))
    return (step < chosen.dims[1]) & some


def _chosen(
    step: XlaOp, best: XlaOp, scores: XlaOp, chosen: XlaOp, values: XlaOp, number: XlaOp, *rest: XlaOp
) -> list[XlaOp]:
    """The state after the box with the best score of each row is chosen."""
    corners, limits = rest[:4], rest[4:]
    dims = scores.dims
    places = ops.Iota(step.builder, Shape(S32, dims), 1)
    is_best = ops.Eq(scores, spread(best, dims))
    first = _reduced(ops.Select(is_best, places, ops.ZerosLike(places) + dims[1]), "Min", dims[1])
    is_first = ops.Eq(places, spread(first, dims))
    box = [_reduced(ops.Select(is_first, c, ops.ZerosLike(c)), "Add", 0) for c in corners]
    shared = _overlaps(corners, [spread(coordinate, dims) for coordinate in box])
    is_over = ops.Gt(shared, limits[0])
    if len(limits) == 3:
        fall = ops.Exp(shared * shared * (-0.5 / limits[2]))
        is_soft = limits[2] > 0
        fallen = scores * ops.Select(is_over, ops.ZerosLike(fall), fall)
        scores = ops.Select(is_soft & (scores > -inf), fallen, scores)
        is_over = is_over & ops.Not(is_soft)
    scores = _above(scores, limits[1])
    scores = ops.Select(is_first | is_over, ops.ZerosLike(scores) - inf, scores)
    is_any, origin = best > -inf, [step.builder.constant(np.int32(0)), step]
    chosen = ops.DynamicUpdateSlice(chosen, ops.Select(is_any, first, ops.ZerosLike(first)), origin)
    values = ops.DynamicUpdateSlice(values, ops.Select(is_any, best, ops.ZerosLike(best)), origin)
    number = number + ops.ConvertElementType(is_any, S32)
    return [step + 1, _reduced(scores, "Max", -inf), scores, chosen, values, number, *rest]


def _limits(call: Call, *given: XlaOp) -> list[XlaOp]:
    """Limits as scalars of f32: those of the overlap, of the score, and sigma where there is one."""
    found = [ops.ConvertElementType(value, F32) for value in given]
    if "iou_threshold" in call.attributes:
        found = [call.builder.constant(np.float32(call["iou_threshold"]))]
    if len(found) == 1:
        found.append(call.builder.constant(np.float32(-inf)))
    if any(value.dims for value in found):
        call.fail("a threshold is no scalar")
    return found


@lowering(
    "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
)  # fmt: skip
def _non_max_suppression(call: Call, boxes: XlaOp, scores: XlaOp, size: XlaOp, *limits: XlaOp) -> list[XlaOp]:
    """Results have as many elements as boxes are chosen, or the size that is wanted where they are padded."""
    of_rank(call, scores, 1, "scores")
    (count,) = scores.dims
    of_dims(call, boxes, (count, 4), "boxes")
    size_ = call.integer(size, "max_output_size")
    if size_ < 0:
        call.fail(f"max_output_size is {size_}, wanted a number from 0 on")
    most = min(size_, count)
    rows = ops.ConvertElementType(ops.Reshape(boxes, (1, count, 4)), F32)
    values = ops.ConvertElementType(ops.Reshape(scores, (1, count)), F32)
    chosen, values, number = _suppressed(rows, values, most, _limits(call, *limits))
    number = ops.Reshape(number, ())
    found = [ops.Reshape(chosen, (most,)), ops.ConvertElementType(ops.Reshape(values, (most,)), boxes.dtype)]
    if call.attributes.get("pad_to_max_output_size"):
        found = [
            ops.PadInDim(value, ops.Zero(call.builder, value.dtype), 0, 0, size_ - most) for value in found
        ]
    else:
        found = [ops.SetDimensionSize(value, number, 0) for value in found]
    return {"4": [found[0], number], "5": [*found, number]}.get(call.node.op[-1], found[:1])


def _along(value: XlaOp, places: XlaOp) -> XlaOp:
    """The elements [rows, places, ...] of [rows, elements, ...] at places [rows, places]."""
    others = list(range(2, len(value.dims)))
    numbers = GatherDimensionNumbers(others, [1], [1], 2, [0], [0])
    index = ops.Reshape(places, (*places.dims, 1))
    return ops.Gather(value, index, numbers, [1, 1, *value.dims[2:]])


@lowering("CombinedNonMaxSuppression")
def _combined_suppression(
    call: Call, boxes: XlaOp, scores: XlaOp, per_class: XlaOp, total: XlaOp, *limits: XlaOp
) -> list[XlaOp]:
    """The best boxes of all classes of each image, after the suppression in each class."""
    of_rank(call, boxes, 4, "boxes")
    of_rank(call, scores, 3, "scores")
    images, count, classes = scores.dims
    if boxes.dims not in ((images, count, 1, 4), (images, count, classes, 4)):
        call.fail(f"boxes of shape {list(boxes.dims)} for scores of shape {list(scores.dims)}")
    each, most = call.integer(per_class, "max_output_size_per_class"), call.integer(total, "max_total_size")
    if each <= 0 or most <= 0 or not images * count * classes:
        call.fail(f"sizes {each} and {most} for scores of shape {list(scores.dims)}, wanted positive ones")
    most = min(most, each * classes) if call["pad_per_class"] else most
    boxes = ops.Transpose(spread(boxes, (images, count, classes, 4)), [0, 2, 1, 3])
    rows = ops.Reshape(ops.Transpose(scores, [0, 2, 1]), (images * classes, count))
    each = min(each, count)
    flat = ops.Reshape(boxes, (images * classes, count, 4))
    chosen, values, number = _suppressed(flat, rows, each, _limits(call, *limits))
    is_chosen = ops.Iota(call.builder, Shape(S32, values.dims), 1) < spread(number, values.dims)
    values = ops.Select(is_chosen, values, ops.ZerosLike(values) - inf)
    kept = min(most, classes * each)
    best, places = parts(ops.TopK(ops.Reshape(values, (images, classes * each)), kept))
    class_ = places / each
    places = class_ * count + _along(ops.Reshape(chosen, (images, classes * each)), places)
    found = _along(ops.Reshape(boxes, (images, classes * count, 4)), places)
    found = ops.Clamp(0, found, 1) if call["clip_boxes"] else found
    is_kept = best > -inf
    results = []
    for value in (found, best, ops.ConvertElementType(class_, F32)):
        mask = ops.BroadcastInDim(is_kept, value.dims, [0, 1])
        value = ops.Select(mask, value, ops.ZerosLike(value))
        results.append(ops.PadInDim(value, ops.Zero(call.builder, F32), 1, 0, most - kept))
    return [*results, summed(ops.ConvertElementType(is_kept, S32), [1])]


# What boxes show.


def _crop_places(call: Call, begin: XlaOp, end: XlaOp, size: int, new: int) -> tuple[XlaOp, XlaOp]:
    """The places [boxes, new] along a dimension that a crop takes, and whether they are in the image."""
    steps = call.builder.constant(np.arange(new, dtype=np.float32))
    dims = (begin.dims[0], new)
    if new > 1:
        scale = (end - begin) * ((size - 1) / (new - 1))
        first = ops.BroadcastInDim(begin * (size - 1), dims, [0])
        where = first + ops.Mul(ops.BroadcastInDim(scale, dims, [0]), steps, [1])
    else:
        where = ops.BroadcastInDim((begin + end) * (0.5 * (size - 1)), dims, [0])
    return where, (where >= 0) & (where <= size - 1)


def _looked_up(image: XlaOp, number: XlaOp, rows: XlaOp, columns: XlaOp) -> XlaOp:
    """The elements [boxes, height, width, features] of images at places [boxes, height], [boxes, width]."""
    dims = (*rows.dims, columns.dims[1], 1)
    parts_ = [ops.BroadcastInDim(number, dims, [0])]
    for places, at in ((rows, [0, 1]), (columns, [0, 2])):
        parts_.append(ops.BroadcastInDim(ops.ConvertElementType(places, S32), dims, at))
    index = ops.ConcatInDim(image.builder, parts_, 3)
    numbers = GatherDimensionNumbers([3], [0, 1, 2], [0, 1, 2], 3)
    return ops.Gather(image, index, numbers, [1, 1, 1, image.dims[3]])


@lowering("CropAndResize")
def _crop_and_resize(call: Call, image: XlaOp, boxes: XlaOp, number: XlaOp, size: XlaOp) -> XlaOp:
    of_rank(call, image, 4, "image")
    new = call.integers(size, "crop_size")
    count = number.dims[0] if len(number.dims) == 1 else -1
    if boxes.dims != (count, 4) or len(new) != 2 or min(new) < 1 or 0 in image.dims:
        call.fail(f"boxes of shape {list(boxes.dims)} to size {list(new)} of {list(image.dims)}")
    y1, x1, y2, x2 = (ops.Reshape(ops.SliceInDim(boxes, k, k + 1, 1, 1), (count,)) for k in range(4))
    rows, has_row = _crop_places(call, y1, y2, image.dims[1], new[0])
    columns, has_column = _crop_places(call, x1, x2, image.dims[2], new[1])
    image = ops.ConvertElementType(image, F32)
    dims = (count, *new, image.dims[3])
    if call["method"] == "nearest":
        found = _looked_up(image, number, ops.Round(rows), ops.Round(columns))
    else:
        above, left = ops.Floor(rows), ops.Floor(columns)
        weights = ops.BroadcastInDim(columns - left, dims, [0, 2])
        lines = []
        for places in (above, ops.Ceil(rows)):
            first = _looked_up(image, number, places, left)
            lines.append(first + (_looked_up(image, number, places, ops.Ceil(columns)) - first) * weights)
        found = lines[0] + (lines[1] - lines[0]) * ops.BroadcastInDim(rows - above, dims, [0, 1])
    has_image = (number >= 0) & (number < image.dims[0])
    inside = ops.BroadcastInDim(has_row, dims, [0, 1]) & ops.BroadcastInDim(has_column, dims, [0, 2])
    inside = inside & ops.BroadcastInDim(has_image, dims, [0])
    return ops.Select(inside, found, ops.ZerosLike(found) + call["extrapolation_value"])
