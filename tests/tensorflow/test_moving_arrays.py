"""Arrays that are moved and indexed: results that TensorFlow's XLA gives in corners, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import UnsupportedError, VerifyError
from tensorflow_nodes import Known, module_of, run_node

f32, f16, s32, s64, s8 = np.float32, np.float16, np.int32, np.int64, np.int8
nan, inf = np.nan, np.inf
BACKENDS = ("cpu", "interpreter")
ROW = f32([1, 2, 3, 4])
LOWEST = -3.4028234663852886e38


def same(found: list[np.ndarray], *wanted: object) -> None:
    assert [array.tolist() for array in found] == list(wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("op, operands, attributes, wanted", [
    ("GatherV2", (ROW, s32([-1, 5, 2, -7]), Known(s32(0))), {}, [1, 4, 3, 1]),
    ("GatherV2", (np.zeros((0, 2), f32), s32([0]), Known(s32(0))), {}, [[0, 0]]),
    ("GatherNd", (ROW.reshape(2, 2), np.zeros((2, 0), s32)), {}, [[[1, 2], [3, 4]]] * 2),
    ("ScatterNd", (s32([[5], [-1], [2], [2]]), ROW, Known(s32([4]))), {}, [0, 0, 7, 0]),
    ("ScatterNd", (s32([[3], [2], [2]]), np.array([True] * 3), Known(s32([4]))), {},
     [False, False, True, True]),
    ("TensorScatterUpdate", (ROW, s32([[2], [2], [9]]), f32([1, 2, 3])), {}, [1, 2, 2, 4]),
    ("TensorScatterUpdate", (ROW, s32([[2], [1]]), f32(9)), {}, [1, 9, 9, 4]),
    ("UnsortedSegmentMax", (ROW, s32([0, 0, 2, -1]), Known(s32(3))), {}, [2, LOWEST, 3]),
    ("SegmentMax", (ROW, Known(s32([0, 0, 2, 2]))), {}, [2, 0, 4]),
    ("SegmentMean", (np.ones(3000, f16), Known(s32([0] * 2999 + [3]))), {}, [1, 0, 0, 1]),
    ("ReverseSequence", (ROW.reshape(2, 2), s64([7, -1])), {"seq_dim": 1}, [[2, 2], [3, 4]]),
    ("Roll", (ROW, s32([1, -6]), Known(s32([0, 0]))), {}, [2, 3, 4, 1]),
    ("OneHot", (s8([-1, 2, 3]), Known(s32(3)), s32(1), s32(0)), {"axis": 0},
     [[0, 0, 0], [0, 0, 0], [0, 1, 0]]),
    ("DataFormatDimMap", (s32([-5, 4, -1, 0]),), {}, [0, 0, 1, 0]),
    ("DataFormatVecPermute", (s32([1, 2, 3, 4, 5]),), {"src_format": "NDHWC", "dst_format": "NCDHW"},
     [1, 5, 2, 3, 4]),
    ("SparseToDense", (s32([7, -1, 2]), Known(s32([4])), s32(5), s32(1)), {}, [1, 1, 5, 1]),
    ("MirrorPadGrad", (ROW, Known(s32([[1, 0]]))), {"mode": "REFLECT"}, [2, 4, 4]),
    ("Where", (f32([0, nan, -0.0, 2]),), {}, [[1], [3]]),
    ("Where", (np.zeros((2, 2), np.bool_),), {}, []),
])  # fmt: skip
def test_corners(op, operands, attributes, wanted, backend):
    same(run_node(op, *operands, backend=backend, **attributes), wanted)


@pytest.mark.parametrize("op, k, align, wanted", [
    ("MatrixDiagPartV3", [-1, 1], "RIGHT_LEFT", [[9, 2, 6], [1, 5, 9], [4, 8, 9]]),
    ("MatrixDiagPartV3", [-1, 1], "LEFT_RIGHT", [[2, 6, 9], [1, 5, 9], [9, 4, 8]]),
    ("MatrixDiagPartV3", [1, 2], "RIGHT_RIGHT", [[9, 3], [2, 6]]),
    ("MatrixDiagPartV2", -1, None, [4, 8]),
])  # fmt: skip
def test_diagonals(op, k, align, wanted):
    matrix = f32([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    more = {"align": align} if align else {}
    same(run_node(op, matrix, Known(s32(k)), Known(f32(9)), **more), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_that_differ(backend):
    same(run_node("Unique", f32([nan, 0, -0.0, nan, 3]), backend=backend)[1:], [0, 1, 1, 2, 3])
    rows = s32([[1, 2, 1], [3, 4, 3]])
    same(run_node("UniqueV2", rows, Known(s32([1])), backend=backend), [[1, 2], [3, 4]], [0, 1, 0])
    found = run_node("UniqueWithCounts", s32([7, 5, 7]), backend=backend)
    same(found, [7, 5], [0, 1, 0], [2, 1])
    same(run_node("ListDiff", s32([1, 2, 3, 2]), s32([2, 7]), backend=backend), [1, 3], [0, 2])


def test_sizes_of_constants_are_known():
    (shape,) = module_of("Where", Known(f32([0, 3]))).entry.program_shape.result.elements
    assert shape.dims == (1, 1) and not any(shape.dynamic)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("begin, end, stride, masks, wanted", [
    (s32([1]), Known(s32([9])), 2, {}, [2, 4]),
    (s32([-3]), Known(s32([0])), -1, {}, [2]),
    (Known(s32([1])), s32([3]), 1, {}, [2, 3]),
    (s32([-1]), s32([0]), 1, {"shrink_axis_mask": 1}, 4),
    (Known(s32([3])), Known(s32([1])), -1, {}, [4, 3]),
    (Known(s32([1])), Known(s32([3])), 1, {"begin_mask": 1, "shrink_axis_mask": 1}, 2),
    (Known(s32([1])), Known(s32([3])), 1, {"new_axis_mask": 1, "shrink_axis_mask": 1}, [[1, 2, 3, 4]]),
])  # fmt: skip
def test_slices(begin, end, stride, masks, wanted, backend):
    same(run_node("StridedSlice", ROW, begin, end, Known(s32([stride])), backend=backend, **masks), wanted)


@pytest.mark.parametrize("op, operands, error, match", [
    ("Reshape", (ROW, Known(s32([-1, -1]))), VerifyError, "at most one -1"),
    ("Reshape", (ROW, s32([4])), UnsupportedError, "must be constant"),
    ("Where", (f32(1),), VerifyError, "scalar"),
    ("MirrorPad", (ROW, Known(s32([[4, 0]]))), VerifyError, "can be mirrored"),
    ("BroadcastTo", (ROW, Known(s32([3]))), VerifyError, "cannot be broadcast"),
    ("TopKV2", (ROW, Known(s32(5))), VerifyError, "k is 5, not within"),
    ("Transpose", (ROW.reshape(2, 2), Known(s32([1, 1]))), VerifyError, "an order of 2 dimensions"),
    ("Transpose", (ROW, Known(s32([1]))), VerifyError, "perm is 1"),
    ("SegmentSum", (ROW, Known(s32([0, 1, 0, 1]))), VerifyError, "ascend from 0"),
])  # fmt: skip
def test_refused(op, operands, error, match):
    attributes = {"mode": "REFLECT"} if op == "MirrorPad" else {}
    with pytest.raises(error, match=match):
        module_of(op, *operands, **attributes)
