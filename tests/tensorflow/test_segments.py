"""Segments whose numbers are arguments: how many there are is known when the program runs."""

from __future__ import annotations

import numpy as np
import pytest

import axla.aot
from axla.core.dtypes import F32, S32
from axla.core.errors import InvalidArgument, RuntimeFailure, UnsupportedError, VerifyError
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.tensorflow.graph import Output, graph_of
from axla.tensorflow.importer import import_graph
from tensorflow_nodes import Known, entry, module_of, run_node, tensor

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
both = pytest.mark.parametrize("backend", ["cpu", "interpreter"])


def s32(value: object) -> np.ndarray:
    return np.array(value, np.int32)


@both
@pytest.mark.parametrize(("op", "ids", "wanted"), [
    ("SegmentSum", [0, 0, 2], [[4, 6], [0, 0], [5, 6]]),
    ("SegmentSum", [0, 1, 1], [[1, 2], [8, 10]]),
    ("SegmentProd", [1, 2, 2], [[1, 1], [1, 2], [15, 24]]),
    ("SegmentMax", [1, 1, 1], [[0, 0], [5, 6]]),
    ("SegmentMin", [1, 1, 2], [[0, 0], [1, 2], [5, 6]]),
    ("SegmentMean", [0, 0, 0], [[3, 4]]),
])  # fmt: skip
def test_as_many_as_the_last_number_says(op, ids, wanted, backend):
    (found,) = run_node(op, ROWS, s32(ids), backend=backend)
    np.testing.assert_array_equal(found, np.float32(wanted))


@both
def test_no_rows(backend):
    (found,) = run_node("SegmentProd", ROWS[:0], s32([]), backend=backend)
    assert found.shape == (0, 2)


@both
@pytest.mark.parametrize("ids", [[0, 1, 3], [0, 2, 1], [-1, 0, 1], [0, 0, 2**31 - 1]])
def test_other_numbers_end_the_program(ids, backend):
    with pytest.raises(
        RuntimeFailure, match="'it'.*must be one for each row, ascend from 0 on and be less than 3"
    ):
        run_node("SegmentSum", ROWS, s32(ids), backend=backend)


@both
def test_rows_by_their_places(backend):
    ids = np.array([0, 0, 2], np.int64)
    (found,) = run_node("SparseSegmentSqrtN", ROWS, s32([2, 0, 1]), ids, backend=backend)
    np.testing.assert_allclose(found, [[6 / 2**0.5, 8 / 2**0.5], [0, 0], [3, 4]], rtol=1e-6)
    for place in (3, -1):
        with pytest.raises(RuntimeFailure, match="indices must be from 0 to 2"):
            run_node("SparseSegmentSum", ROWS, s32([2, 0, place]), ids, backend=backend)
    with pytest.raises(VerifyError, match="indices must be from 0 to 2"):
        module_of("SparseSegmentSum", ROWS, Known(s32([2, 0, 3])), ids)


def chosen_and_summed(*, whole: bool) -> Module:
    """The sums of the segments of the rows whose number is not 0, their sum where it is `whole`."""
    number, real = entry("T", "DT_INT32"), entry("T", "DT_FLOAT")
    types = [entry("Tindices", "DT_INT64"), entry("Taxis", "DT_INT32"), entry("batch_dims", 0)]
    zero = [entry("dtype", "DT_INT32"), {"key": "value", "value": tensor(s32(0))}]
    flat = [entry("dtype", "DT_INT32"), {"key": "value", "value": tensor(s32([-1]))}]
    axes = [entry("dtype", "DT_INT32"), {"key": "value", "value": tensor(s32([0, 1]))}]
    nodes = [
        ("x", "Placeholder", "", [entry("dtype", "DT_FLOAT")]),
        ("ids", "Placeholder", "", [entry("dtype", "DT_INT32")]),
        ("zero", "Const", "", zero), ("flat", "Const", "", flat), ("axes", "Const", "", axes),
        ("where", "Where", "ids", [number]),
        ("places", "Reshape", "where flat", [entry("T", "DT_INT64"), entry("Tshape", "DT_INT32")]),
        ("rows", "GatherV2", "x places zero", [entry("Tparams", "DT_FLOAT"), *types]),
        ("numbers", "GatherV2", "ids places zero", [entry("Tparams", "DT_INT32"), *types]),
        ("sums", "SegmentSum", "rows numbers", [real, entry("Tindices", "DT_INT32")]),
        ("sum", "Sum", "sums axes", [real, entry("Tidx", "DT_INT32")]),
    ]  # fmt: skip
    graph = graph_of(
        {
            "node": [
                {"name": n, "op": op, "input": inputs.split(), "attr": attr} for n, op, inputs, attr in nodes
            ]
        }
    )
    feeds = [(Output("x", 0), Shape(F32, (3, 2))), (Output("ids", 0), Shape(S32, (3,)))]
    return import_graph(graph, feeds, [Output("sum" if whole else "sums", 0)]).module


@both
def test_rows_and_numbers_of_dynamic_sizes(backend):
    program = axla.compile(chosen_and_summed(whole=False), backend=backend)
    for ids, wanted in (([0, 1, 2], [[0, 0], [3, 4], [5, 6]]), ([1, 0, 1], [[0, 0], [6, 8]])):
        np.testing.assert_array_equal(program.execute([ROWS, s32(ids)])[0], np.float32(wanted))
    assert np.asarray(program.execute([ROWS, s32([0, 0, 0])])[0]).shape == (0, 2)
    with pytest.raises(RuntimeFailure, match="ascend"):
        program.execute([ROWS, s32([2, 0, 1])])


def test_a_library_returns_an_error(tmp_path):
    module = chosen_and_summed(whole=True)
    package = axla.aot.compile(module, (ROWS, s32([1, 1, 2])), name="Sums", out=tmp_path)
    library = package.load()
    assert library(ROWS, s32([0, 1, 2])) == 18
    with pytest.raises(RuntimeFailure, match="'sums'.*less than 3"):
        library(ROWS, s32([0, 1, 3]))
    assert "case 1000: return \"node 'sums'" in (tmp_path / "Sums.h").read_text()
    with pytest.raises(UnsupportedError, match="arrays of fixed sizes only"):
        axla.aot.compile(chosen_and_summed(whole=False), name="Rows", out=tmp_path)


def test_a_self_test_needs_arguments_that_the_program_takes(tmp_path):
    with pytest.raises(InvalidArgument, match="self-test failed .*ascend.*; give arguments"):
        axla.aot.compile(chosen_and_summed(whole=True), name="Sums", out=tmp_path)


@pytest.mark.parametrize("places", [[0, 2**31 - 1], [0, 2], [1, 1], [-1, 0]])
def test_stitched_rows_are_all_there(places):
    with pytest.raises(VerifyError, match="indices do not name every row"):
        module_of("DynamicStitch", [Known(s32(places))], [ROWS[:2]], N=1, T="DT_FLOAT")
    (found,) = run_node("DynamicStitch", [Known(s32([1, 0, 1]))], [ROWS], N=1, T="DT_FLOAT")
    assert found.tolist() == [[3, 4], [5, 6]]
