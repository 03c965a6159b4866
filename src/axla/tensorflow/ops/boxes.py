"""Boxes in images: non-maximum suppression, which drops boxes that overlap better ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

import axla.ops as ops
from axla.builder.iteration import loop
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32, S32
from axla.tensorflow.ops.common import lowest, of_dims, of_rank, reduced
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall

RECORDS = """
NonMaxSuppressionV3: boxes:T scores:T max_output_size:i32 iou_threshold:T_threshold
    score_threshold:T_threshold T=type?DT_FLOAT T_threshold=type?DT_FLOAT -> selected_indices:i32
NonMaxSuppressionV4: boxes:T scores:T max_output_size:i32 iou_threshold:T_threshold
    score_threshold:T_threshold T=type?DT_FLOAT T_threshold=type?DT_FLOAT pad_to_max_output_size=bool?false ->
    selected_indices:i32 valid_outputs:i32
"""


@lowering("NonMaxSuppressionV3", "NonMaxSuppressionV4")
def _suppression(call: OpCall, boxes: XlaOp, scores: XlaOp, size: XlaOp, *limits: XlaOp) -> list[XlaOp]:
    """The indices of boxes [y, x, y, x], by descending scores. A box is dropped if its overlap with a
    selected box is above the first of `limits`, or its score is not above the second one. The result has as
    many indices as boxes are selected, or `max_output_size` indices, padded with zeros. A second result is
    the number of selected boxes.
    """
    of_rank(call, scores, 1, "scores")
    of_dims(call, boxes, (*scores.dims, 4), "boxes")
    wanted = call.integer(size, "max_output_size")
    if wanted < 0:
        call.fail(f"max_output_size is {wanted}, wanted a number from 0 on")
    for limit in limits:
        of_rank(call, limit, 0, "a threshold")
    boxes, scores, overlap, least = (ops.ConvertElementType(value, F32) for value in (boxes, scores, *limits))
    number = call.builder.constant(np.int32(0))
    most = min(wanted, *scores.dims)
    chosen = ops.Broadcast(number, (most,))
    if most:
        scores = ops.Select(ops.Gt(scores, least), scores, -inf)
        state = [number, scores, chosen, overlap, *_corners(boxes)]
        number, _, chosen, *_ = loop(state, _goes_on, _chosen, "suppression")
    if call.attributes.get("pad_to_max_output_size"):
        chosen = ops.PadInDim(chosen, ops.Zero(call.builder, S32), 0, 0, wanted - most)
    else:
        chosen = ops.SetDimensionSize(chosen, number, 0)
    return [chosen, number][: len(call.node.types or ())]


def _corners(boxes: XlaOp) -> list[XlaOp]:
    """The coordinates of each box: lowest y, highest y, lowest x, highest x. Corners may be in any order."""
    y, x, other_y, other_x = (boxes[:, k] for k in range(4))
    return [ops.Min(y, other_y), ops.Max(y, other_y), ops.Min(x, other_x), ops.Max(x, other_x)]


def _goes_on(step: XlaOp, scores: XlaOp, chosen: XlaOp, *_: XlaOp) -> XlaOp:
    return (step < chosen.dims[0]) & (_best(scores) > -inf)


def _best(scores: XlaOp) -> XlaOp:
    return reduced(scores, [0], "Max")


def _chosen(step: XlaOp, scores: XlaOp, chosen: XlaOp, overlap: XlaOp, *corners: XlaOp) -> list[XlaOp]:
    """The loop state after one more selection: of the box with the highest score. The selected box, and boxes
    that overlap it too much, get the score -infinity.
    """
    count = scores.dims[0]
    places = ops.Iota(step.builder, S32, count)
    place = reduced(ops.Select(ops.Eq(scores, _best(scores)), places, count), [0], "Min")
    box = [coordinate[place] for coordinate in corners]
    scores = ops.Select(ops.Gt(_overlaps(corners, box), overlap), -inf, scores)
    scores = ops.DynamicUpdateSlice(scores, ops.Reshape(lowest(scores), (1,)), [place])
    chosen = ops.DynamicUpdateSlice(chosen, ops.Reshape(place, (1,)), [step])
    return [step + 1, scores, chosen, overlap, *corners]


def _overlaps(corners: Sequence[XlaOp], others: Sequence[XlaOp]) -> XlaOp:
    """The areas of the intersections of boxes, `corners` with `others`, divided by those of their unions; 0
    where a box has no area.
    """
    areas = [(box[1] - box[0]) * (box[3] - box[2]) for box in (corners, others)]
    sides = [
        ops.Max(ops.Min(corners[k + 1], others[k + 1]) - ops.Max(corners[k], others[k]), 0) for k in (0, 2)
    ]
    shared = sides[0] * sides[1]
    found = shared / (areas[0] + areas[1] - shared)
    return ops.Select((areas[0] > 0) & (areas[1] > 0), found, ops.ZerosLike(found))
