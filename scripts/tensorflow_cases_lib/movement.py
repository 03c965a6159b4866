"""Draws operands for reshapes, concatenations, slices, gathers, scatters, segments and sets."""

from __future__ import annotations

from math import prod

import numpy as np

from tensorflow_cases_lib.draw import Draw, rule
from tensorflow_cases_lib.elementwise import pair

# movement


def permutation(c: Draw, rank: int) -> list[int]:
    return [int(n) for n in c.random.permutation(rank)]


@rule("Transpose ConjugateTranspose")
def transpose(c: Draw) -> None:
    shape = c.dims(0, 4, 0 if c.chance(0.1) else 1)
    c.data("x", shape)
    c.const("perm", np.array(permutation(c, len(shape)), int))


@rule("InvertPermutation")
def inverse(c: Draw) -> None:
    c.fed("x", permutation(c, c.int(1, 6)))


@rule("Reshape")
def reshape(c: Draw) -> None:
    shape = c.dims(0, 4, 0 if c.chance(0.1) else 1)
    c.data("tensor", shape)
    wanted = permuted = [shape[n] for n in permutation(c, len(shape))]
    if c.chance(0.5):
        wanted = [prod(permuted[:2]), *permuted[2:]]
    if wanted and c.chance(0.4) and prod(wanted):
        wanted[c.int(0, len(wanted) - 1)] = -1
    c.const("shape", np.array(wanted, int))


@rule("ExpandDims")
def expand(c: Draw) -> None:
    shape = c.dims()
    c.data("input", shape), c.const("dim", c.int(-len(shape) - 1, len(shape)))


@rule("Squeeze")
def squeeze(c: Draw) -> None:
    shape = [1 if c.chance(0.5) else n for n in c.dims(1, 4)]
    ones = [n - c.one(0, len(shape)) for n, size in enumerate(shape) if size == 1]
    c.data("input", shape), c.attr("squeeze_dims", tuple(ones) if c.chance(0.5) else ())


@rule("Concat ConcatV2")
def concat(c: Draw) -> None:
    shape, count = list(c.dims(1, 3)), c.int(2, 4)
    axis = c.int(0, len(shape) - 1)
    c.put(
        "values",
        [c.array([c.int(0, 4) if n == axis else s for n, s in enumerate(shape)], "T") for _ in range(count)],
    )
    c.const("axis" if c.op == "ConcatV2" else "concat_dim", axis - c.one(0, len(shape)))


@rule("ConcatOffset")
def offsets(c: Draw) -> None:
    shape, count = list(c.dims(1, 3)), c.int(2, 4)
    axis = c.int(0, len(shape) - 1)
    shapes = [[c.int(0, 4) if n == axis else s for n, s in enumerate(shape)] for _ in range(count)]
    kind = np.int32 if c.type("shape_type") == "DT_INT32" else np.int64
    c.const("concat_dim", axis), c.put("shape", [np.array(s, kind) for s in shapes], constant=True)


@rule("Pack")
def pack(c: Draw) -> None:
    c.common = c.dims(0, 3)
    c.attr("axis", c.int(-len(c.common) - 1, len(c.common)))


@rule("Unpack")
def unpack(c: Draw) -> None:
    shape = c.dims(1, 3)
    axis = c.attr("axis", c.int(-len(shape), len(shape) - 1))
    c.attr("num", shape[axis]), c.data("value", shape)


@rule("Split SplitV")
def split(c: Draw) -> None:
    shape, count = list(c.dims(1, 3)), c.int(1, 3)
    axis = c.int(0, len(shape) - 1)
    c.attr("num_split", count)
    sizes = [c.int(0, 3) for _ in range(count)]
    shape[axis] = sum(sizes) if c.op == "SplitV" else count * c.int(1, 3)
    c.data("value", shape), c.const("split_dim", axis - c.one(0, len(shape)))
    if c.op == "SplitV":
        if c.chance(0.4):
            sizes[c.int(0, count - 1)] = -1
        c.const("size_splits", sizes)


@rule("Tile")
def tile(c: Draw) -> None:
    shape = c.dims(0, 3)
    c.data("input", shape), c.const("multiples", np.array([c.int(0, 3) for _ in shape], int))


@rule("Pad PadV2 MirrorPad MirrorPadGrad")
def pad(c: Draw) -> None:
    shape = c.dims(1, 3, 2)
    most = 3 if c.op.startswith("Pad") else 1
    pads = [[c.int(0, most), c.int(0, most)] for _ in shape]
    if c.op == "MirrorPadGrad":
        shape = tuple(n + sum(p) + 1 for n, p in zip(shape, pads, strict=True))
    c.data("input", shape), c.const("paddings", pads)
    if c.op == "PadV2":
        c.data("constant_values", ())


@rule("BroadcastTo")
def broadcast_to(c: Draw) -> None:
    whole = c.dims(0, 4)
    shape = [1 if c.chance(0.3) else n for n in whole][c.int(0, len(whole)) :]
    c.data("input", shape), c.const("shape", np.array(whole, int))


@rule("BroadcastArgs BroadcastGradientArgs")
def broadcast_shapes(c: Draw) -> None:
    one, two = pair(c)
    c.const("s0", np.array(one, int)), c.const("s1", np.array(two, int))


@rule("Fill Empty")
def fill(c: Draw) -> None:
    shape = np.array(c.dims(0, 3, 0), int)
    if c.op == "Empty":
        c.check = "shape"
        c.const("shape", shape)
        return
    c.const("dims", shape), c.data("value", ())


@rule("EnsureShape PlaceholderWithDefault")
def ensure(c: Draw) -> None:
    c.common = c.dims()
    c.attr("shape", tuple(-1 if c.chance(0.3) and c.op == "EnsureShape" else n for n in c.common))


@rule("Range")
def numbers(c: Draw) -> None:
    step = c.int(1, 3)
    c.const("start", c.int(0, 4)), c.const("limit", c.int(5, 12)), c.const("delta", step)


@rule("LinSpace")
def linspace(c: Draw) -> None:
    c.data("start", ()), c.data("stop", ()), c.const("num", c.int(1, 7))
    c.operands["start"], c.operands["stop"] = (c.operands["start"][0], True), (c.operands["stop"][0], True)


@rule("OneHot")
def one_hot(c: Draw) -> None:
    shape = c.dims(0, 3)
    c.data("indices", shape, -1, 6), c.const("depth", c.int(0, 6))
    c.data("on_value", ()), c.data("off_value", ()), c.attr("axis", c.int(-1, len(shape)))


@rule("Reverse ReverseV2")
def reverse(c: Draw) -> None:
    shape = c.dims(0, 4)
    c.data("tensor", shape)
    axes = [n for n in range(len(shape)) if c.chance(0.5)]
    if c.op == "Reverse":
        c.const("dims", np.array([n in axes for n in range(len(shape))], bool))
    else:
        c.const("axis", np.array([n - c.one(0, len(shape)) for n in axes], int))


@rule("ReverseSequence")
def reverse_sequence(c: Draw) -> None:
    shape = c.dims(2, 4)
    order = permutation(c, len(shape))
    c.data("input", shape), c.attr("batch_dim", order[0]), c.attr("seq_dim", order[1])
    c.data("seq_lengths", (shape[order[0]],), 0, shape[order[1]])


@rule("Roll")
def roll(c: Draw) -> None:
    shape = c.dims(1, 3)
    axes = [c.int(-len(shape), len(shape) - 1) for _ in range(c.int(1, 3))]
    moves = [c.int(-9, 9) for _ in axes]
    if c.chance(0.3):
        axes, moves = axes[0], moves[0]
    c.data("input", shape), c.const("axis", axes), c.fed("shift", moves)


def slicing(c: Draw, shape: tuple[int, ...], strides: tuple[int, ...] = (1, 2, -1, -2, 3)) -> None:
    """Draws begin, end and strides of a strided slice, with masks."""
    count = c.int(0, len(shape))
    c.const("begin", np.array([c.int(-n - 1, n) for n in shape[:count]], int))
    c.const("end", np.array([c.int(-n - 1, n + 1) for n in shape[:count]], int))
    c.const("strides", np.array([c.one(*strides) for _ in range(count)], int))
    for name in ("begin_mask", "end_mask"):
        c.attr(name, c.int(0, (1 << count) - 1))
    c.attr("ellipsis_mask", 1 << c.int(0, count - 1) if count and c.chance(0.2) else 0)
    c.attr("new_axis_mask", 1 << c.int(0, count - 1) if count and c.chance(0.2) else 0)
    c.attr("shrink_axis_mask", 1 << c.int(0, count - 1) if count and c.chance(0.2) else 0)


@rule("StridedSlice")
def strided_slice(c: Draw) -> None:
    shape = c.dims(0, 4)
    c.data("input", shape), slicing(c, shape)


@rule("StridedSliceGrad TensorStridedSliceUpdate")
def strided_slice_update(c: Draw) -> None:
    shape = c.dims(1, 3)
    slicing(c, shape, (1, 1, -1) if c.op == "TensorStridedSliceUpdate" else (1, 2, -1))
    c.attr("ellipsis_mask", 0), c.attr("new_axis_mask", 0), c.attr("shrink_axis_mask", 0)
    begin, end, strides = (c.operands[n][0] for n in ("begin", "end", "strides"))
    index = []
    for n, (low, high, step) in enumerate(zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)):
        low = None if c.attributes["begin_mask"] >> n & 1 else low
        high = None if c.attributes["end_mask"] >> n & 1 else high
        index.append(slice(low, high, step))
    found = np.zeros(shape)[tuple(index)].shape
    if c.op == "StridedSliceGrad":
        c.const("shape", shape), c.data("dy", found)
    else:
        c.data("input", shape), c.data("value", found)


@rule("Slice")
def slice_(c: Draw) -> None:
    shape = c.dims(0, 4)
    begin = [c.int(0, n) for n in shape]
    c.data("input", shape), c.const("begin", np.array(begin, int))
    sizes = [c.one(-1, c.int(0, n - b)) for n, b in zip(shape, begin, strict=True)]
    c.const("size", np.array(sizes, int))


@rule("Gather GatherV2 GatherNd")
def gather(c: Draw) -> None:
    shape = c.dims(1, 3)
    c.data("params", shape)
    if c.op == "GatherNd":
        depth = c.int(0, len(shape))
        rows = c.dims(0, 2)
        parts_ = [c.random.integers(0, n, rows) for n in shape[:depth]]
        c.fed("indices", np.stack(parts_, -1) if parts_ else np.zeros((*rows, 0)))
        c.attr("bad_indices_policy", c.one("", "DEFAULT"))
        return
    axis = c.int(0, len(shape) - 1) if c.op == "GatherV2" else 0
    batch = c.int(0, axis)
    c.data("indices", (*shape[:batch], *c.dims(0, 2)), 0, shape[axis] - 1)
    if c.op == "GatherV2":
        c.const("axis", axis), c.attr("batch_dims", batch)


@rule("ScatterNd TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate")
def scatter(c: Draw) -> None:
    shape = c.dims(1, 3)
    depth, count = c.int(1, len(shape)), c.int(1, 4)
    indices = np.stack([c.random.integers(0, n, count) for n in shape[:depth]], -1)
    if c.op == "TensorScatterUpdate":
        indices = np.unique(indices, axis=0)
    c.fed("indices", indices), c.data("updates", (len(indices), *shape[depth:]))
    c.attr("bad_indices_policy", "")
    if c.op == "ScatterNd":
        c.const("shape", shape)
    else:
        c.data("tensor", shape)


@rule("SparseToDense")
def sparse_to_dense(c: Draw) -> None:
    rows = c.int(3, 9)
    found = np.sort(c.random.permutation(rows)[: c.int(1, 3)])
    c.fed("sparse_indices", found[:, None]), c.const("output_shape", [rows])
    c.data("sparse_values", (len(found),)), c.data("default_value", ())


@rule("DynamicPartition")
def partition(c: Draw) -> None:
    shape = c.dims(1, 2)
    count = c.attr("num_partitions", c.int(1, 3))
    c.data("data", shape), c.operands.update(partitions=(c.array(shape[:1], "DT_INT32", 0, count - 1), True))


@rule("DynamicStitch ParallelDynamicStitch")
def stitch(c: Draw) -> None:
    order, tail = permutation(c, 5), c.dims(0, 2)
    split_at = c.int(1, 4)
    parts_ = [np.array(order[:split_at], np.int32), np.array(order[split_at:], np.int32)]
    c.put("indices", parts_, constant=True), c.put("data", [c.array((len(p), *tail), "T") for p in parts_])


@rule(
    "UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin SegmentSum "
    "SegmentProd SegmentMax SegmentMin SegmentMean SegmentSumV2 SegmentProdV2 SegmentMaxV2 "
    "SegmentMinV2"
)
def segments(c: Draw) -> None:
    shape, count = c.dims(1, 3), c.int(1, 5)
    c.data("data", shape)
    ids = c.random.integers(0, count, shape[:1])
    if not c.op.startswith("Unsorted"):
        ids = np.sort(ids)
    if any(o.name == "num_segments" for o in c.record.operands):
        c.const("num_segments", count), c.fed("segment_ids", ids)
    else:
        c.const("segment_ids", ids)


@rule("SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN")
def sparse_segments(c: Draw) -> None:
    shape, count, rows = c.dims(2, 3), c.int(1, 4), c.int(1, 5)
    c.data("data", shape), c.data("indices", (rows,), 0, shape[0] - 1), c.attr("sparse_gradient", False)
    c.const("segment_ids", np.sort(c.random.integers(0, count, rows)))


@rule("Unique UniqueWithCounts UniqueV2 UniqueWithCountsV2 ListDiff Where")
def sets(c: Draw) -> None:
    if c.op == "Where":
        c.put("input", c.array(c.dims(1, 3), "T"), constant=True)
        return
    c.put("x", c.array((c.int(1, 8),), "T", 0, 4), constant=True)
    if c.op == "ListDiff":
        c.put("y", c.array((c.int(1, 4),), "T", 0, 4), constant=True)
    if c.op.endswith("V2"):
        c.const("axis", [0])
