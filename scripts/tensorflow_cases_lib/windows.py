"""Draws operands for windows, batches, images and boxes."""

from __future__ import annotations

import numpy as np

from tensorflow_cases_lib.draw import Draw, rule

# windows


def layout(c: Draw, rank: int, batch: int, size: list[int], depth: int) -> list[int]:
    first = "data_format" in c.attributes and c.attributes["data_format"].startswith("NC")
    return [batch, depth, *size] if first else [batch, *size, depth]


def window(c: Draw, rank: int) -> tuple[list[int], list[int]]:
    """Random sizes and strides of windows; sets the attribute `data_format`."""
    attribute = next((a for a in c.record.attributes if a.name == "data_format"), None)
    if attribute is not None:
        plain, other = ("NHWC", "NCHW") if rank == 2 else ("NDHWC", "NCDHW")
        c.attr("data_format", other if c.chance(0.2) else plain)
    return [c.int(1, 3) for _ in range(rank)], [c.int(1, 2) for _ in range(rank)]


def padded(n: int, size: int, stride: int, padding: str) -> int:
    """The number of windows along a dimension."""
    return -(-n // stride) if padding == "SAME" else (n - size) // stride + 1


@rule(
    "AvgPool AvgPool3D MaxPool MaxPool3D MaxPoolV2 AvgPoolGrad AvgPool3DGrad MaxPoolGrad "
    "MaxPool3DGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2 MaxPool3DGradGrad"
)
def pool(c: Draw) -> None:
    rank = 3 if "3D" in c.op else 2
    sizes, strides = window(c, rank)
    padding = c.attr("padding", c.one("SAME", "VALID"))
    space, batch, depth = [c.int(3, 6) for _ in range(rank)], c.int(1, 2), c.int(1, 3)
    shape = layout(c, rank, batch, space, depth)
    put = c.const if c.op.endswith("V2") else c.attr
    for name, values in (("ksize", sizes), ("strides", strides)):
        found = layout(c, rank, 1, values, 1)
        put(name, found if put == c.const else tuple(found))
    small = [padded(n, k, s, padding) for n, k, s in zip(space, sizes, strides, strict=True)]
    out = layout(c, rank, batch, small, depth)
    if c.op.startswith("AvgPool") and "Grad" in c.op:
        c.const("orig_input_shape", shape), c.data("grad", out)
        return
    operand = c.record.operands[0].name
    if "TInput" in c.types and c.op == "MaxPool3DGrad":
        c.attr("TInput", c.type("T"))
    values = c.data(operand, shape)
    if "Grad" in c.op:
        first = "data_format" in c.attributes and c.attributes["data_format"].startswith("NC")
        c.put("orig_output", _maxima(values, sizes, strides, padding, small, first))
        c.data("grad", shape if "GradGrad" in c.op else out)


def _maxima(
    values: np.ndarray, sizes: list, strides: list, padding: str, small: list, first: bool
) -> np.ndarray:
    """The result of MaxPool, computed with NumPy."""
    data = np.moveaxis(values, 1, -1) if first else values
    found = np.empty((data.shape[0], *small, data.shape[-1]), data.dtype)
    for place in np.ndindex(*small):
        at = []
        for n, k, s, count, p in zip(data.shape[1:-1], sizes, strides, small, place, strict=True):
            low = p * s - (max((count - 1) * s + k - n, 0) // 2 if padding == "SAME" else 0)
            at.append(slice(max(low, 0), low + k))
        spot = (slice(None), *at, slice(None))
        found[(slice(None), *place, slice(None))] = data[spot].max(tuple(range(1, len(small) + 1)))
    return np.moveaxis(found, -1, 1) if first else found


@rule(
    "Conv2D Conv3D Conv Conv2DBackpropFilter Conv2DBackpropInput Conv3DBackpropFilterV2 "
    "Conv3DBackpropInputV2 DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter "
    "DepthwiseConv2dNativeBackpropInput"
)
def convolution(c: Draw) -> None:
    rank = 3 if "3D" in c.op else 2
    depthwise = c.op.startswith("Depthwise")
    sizes, strides = window(c, rank)
    if c.op == "Conv":
        c.attr("data_format", c.one("CHANNELS_LAST", "CHANNELS_LAST", "CHANNELS_FIRST"))
        c.attr("batch_dims", 1)
        c.attr("groups", 1)
    if depthwise:
        strides = [strides[0]] * rank
    dilations = [c.int(1, 2) if c.chance(0.3) else 1 for _ in range(rank)]
    space, batch, depth, features = [c.int(5, 7) for _ in range(rank)], c.int(1, 2), c.int(1, 3), c.int(1, 3)
    first = c.attributes.get("data_format") == "CHANNELS_FIRST"
    make = layout if not first else _channels_first
    shape = make(c, rank, batch, space, depth)
    c.attr("strides", tuple(make(c, rank, 1, strides, 1)))
    c.attr("dilations", tuple(make(c, rank, 1, dilations, 1)))
    explicit = rank == 2 and any(a.name == "explicit_paddings" for a in c.record.attributes) and c.chance(0.2)
    padding = c.attr("padding", "EXPLICIT" if explicit else c.one("SAME", "VALID"))
    pads = [(c.int(0, 2), c.int(0, 2)) if explicit else (0, 0) for _ in range(rank)]
    if explicit:
        both = _channels_first if shape[1] == depth and shape[2:] == space else layout
        whole = both(c, rank, (0, 0), pads, (0, 0))
        c.attr("explicit_paddings", tuple(n for each in whole for n in each))
    small = [
        padded(n + sum(p), (k - 1) * d + 1, s, padding)
        for n, k, s, d, p in zip(space, sizes, strides, dilations, pads, strict=True)
    ]
    out = make(c, rank, batch, small, depth * features if depthwise else features)
    kernel = (*sizes, depth, features)
    for name, values in (("input", shape), ("filter", kernel), ("out_backprop", out)):
        if any(o.name == name for o in c.record.operands):
            c.data(name, values)
    for name, values in (("input_sizes", shape), ("filter_sizes", kernel)):
        if any(o.name == name for o in c.record.operands):
            c.const(name, values)


def _channels_first(c: Draw, rank: int, batch: object, size: list, depth: object) -> list:
    return [batch, depth, *size]


@rule("_FusedConv2D")
def fused_convolution(c: Draw) -> None:
    depth, features, size = c.int(1, 3), c.int(1, 3), c.int(1, 3)
    c.attr("data_format", "NHWC"), c.attr("filter_format", "HWIO")
    padding, stride, n = c.attr("padding", c.one("SAME", "VALID")), c.int(1, 2), c.int(4, 6)
    c.attr("strides", (1, stride, stride, 1)), c.attr("dilations", (1, 1, 1, 1)), c.attr("num_args", 2)
    batch, count = c.int(1, 2), padded(n, size, stride, padding)
    c.data("input", (batch, n, n, depth)), c.data("filter", (size, size, depth, features))
    side = c.array((batch, count, count, features) if c.chance(0.5) else (0,), "T")
    c.attr("TArgs", ("DT_FLOAT", c.type("T"))), c.put("args", [c.array((features,), "DT_FLOAT"), side])
    c.put("host_args", [np.float32(c.one(0.5, 0.25)), np.float32(c.one(1.0, 0.5))])
    c.attr("fused_ops", ("BiasAdd", *c.one((), ("Relu",))))


@rule("ExtractImagePatches")
def patches(c: Draw) -> None:
    for name in ("ksizes", "strides", "rates"):
        c.attr(name, (1, c.int(1, 3), c.int(1, 3), 1))
    c.data("images", (c.int(1, 2), c.int(5, 7), c.int(5, 7), c.int(1, 3)))


@rule("LRN LRNGrad")
def lrn(c: Draw) -> None:
    c.common = c.dims(4, 4, 1, 4)
    c.attr("depth_radius", c.int(1, 3)), c.attr("bias", c.one(1.0, 2.0))
    c.attr("alpha", c.one(1.0, 0.5)), c.attr("beta", c.one(0.5, 0.75))


@rule("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx")
def batch_norm(c: Draw) -> None:
    c.attr("data_format", c.one("NHWC", "NHWC", "NCHW"))
    depth = c.int(1, 4)
    c.data("x", layout(c, 2, c.int(1, 3), [c.int(2, 4), c.int(2, 4)], depth))
    training = c.flag("is_training")
    c.data("scale", (depth,)), c.data("offset", (depth,)), c.attr("exponential_avg_factor", c.one(1.0, 0.5))
    held = (0,) if training and c.attributes["exponential_avg_factor"] == 1.0 else (depth,)
    c.data("mean", held), c.data("variance", held, 0.5, 2.0)
    if c.op == "_FusedBatchNormEx":
        (
            c.attr("num_side_inputs", 0),
            c.put("side_input", []),
            c.attr("activation_mode", c.one("Identity", "Relu")),
        )
    c.kept = 3


@rule("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3")
def batch_norm_grad(c: Draw) -> None:
    c.attr("data_format", c.one("NHWC", "NHWC", "NCHW")), c.flag("is_training")
    depth = c.int(1, 4)
    shape = layout(c, 2, c.int(1, 3), [c.int(2, 4), c.int(2, 4)], depth)
    c.data("y_backprop", shape), c.data("x", shape), c.data("scale", (depth,))
    c.data("reserve_space_1", (depth,)), c.data("reserve_space_2", (depth,), 0.5, 2.0)
    if c.op.endswith("V3"):
        c.data("reserve_space_3", (depth,))
    c.kept = 3


@rule("SpaceToDepth DepthToSpace")
def blocks(c: Draw) -> None:
    c.attr("data_format", c.one("NHWC", "NHWC", "NCHW"))
    size = c.attr("block_size", c.int(2, 3))
    h, w, d, b = c.dims(4, 4, 1, 3)
    grown = [h * size, w * size], d
    c.data("input", layout(c, 2, b, *(grown if c.op == "SpaceToDepth" else ([h, w], d * size * size))))


@rule("SpaceToBatch BatchToSpace SpaceToBatchND BatchToSpaceND")
def batches(c: Draw) -> None:
    size, b, h, w, d = c.int(2, 3), *c.dims(4, 4, 1, 3)
    pads = [[c.int(0, 1), c.int(0, 1)] for _ in range(2)]
    if c.op.endswith("ND"):
        c.const("block_shape", [size, size])
    else:
        c.attr("block_size", size)
    if c.op.startswith("Space"):
        h, w = (n * size + size * 2 - sum(p) for n, p in zip((h, w), pads, strict=True))
        c.data("input", (b, h, w, d)), c.const("paddings", pads)
    else:
        c.data("input", (b * size * size, h, w, d)), c.const("crops", pads if h > 1 < w else [[0, 1], [1, 0]])


# images, boxes


@rule("ResizeBilinear ResizeNearestNeighbor ResizeBilinearGrad ResizeNearestNeighborGrad")
def resize(c: Draw) -> None:
    batch, h, w, depth = c.int(1, 2), c.int(1, 6), c.int(1, 6), c.int(1, 3)
    aligned = c.flag("align_corners")
    c.attr("half_pixel_centers", not aligned and c.chance(0.5))
    size = [c.int(1, 7), c.int(1, 7)]
    c.data(c.record.operands[0].name, (batch, h, w, depth))
    if c.op == "ResizeBilinearGrad":
        c.data("original_image", (batch, *size, depth))
    else:
        c.const("size", size)


@rule("RGBToHSV HSVToRGB AdjustHue AdjustSaturation AdjustContrastv2")
def colors(c: Draw) -> None:
    c.data("images", (*c.dims(2 if c.op.startswith("Adjust") else 0, 3), 3), 0.0, 1.0)
    if c.op.startswith("Adjust"):
        c.data(c.record.operands[1].name, (), -0.5 if "Hue" in c.op else 0.2, 0.5 if "Hue" in c.op else 2.0)


@rule("NonMaxSuppressionV3 NonMaxSuppressionV4")
def suppression(c: Draw) -> None:
    count = c.int(1, 6)
    corner, size = c.array((count, 2), "T", 0, 2), c.array((count, 2), "T", 0.3, 1.5)
    c.put("boxes", np.concatenate([corner, corner + size], -1))
    c.data("scores", (count,), 0.05, 1.0), c.const("max_output_size", c.int(1, 6))
    c.const("iou_threshold", c.one(0.3, 0.5)), c.const("score_threshold", c.one(0.0, 0.4))
    if c.op == "NonMaxSuppressionV4":
        c.attr("pad_to_max_output_size", True)


@rule("DataFormatDimMap DataFormatVecPermute")
def formats(c: Draw) -> None:
    c.attr("src_format", c.one("NHWC", "NCHW")), c.attr("dst_format", c.one("NHWC", "NCHW"))
    if c.op == "DataFormatDimMap":
        c.data("x", c.dims(0, 2), -4, 3)
    else:
        c.data("x", c.one((4,), (4, 2), (2,)))
