"""Ops that move elements: pad, slices, reshapes, gather; and what they reject."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import axla.hlo as hlo
from axla.core.dtypes import F32, PRED, S32, U8, U32
from axla.core.errors import ShapeError
from axla.core.shape import Shape
from axla.hlo.movement import regroup
from axla.interpreter import evaluate
from axla.ir.attributes import PaddingConfig, SliceDims
from axla.text import parse_hlo


def test_pad_against_its_definition():
    """Every small padding of small arrays, element by element."""
    for n, low, high, interior in itertools.product(range(4), range(-4, 4), range(-4, 4), range(3)):
        op = hlo.Pad(PaddingConfig((low,), (high,), (interior,)))
        size = n + max(0, n - 1) * interior + low + high
        if size < 0:
            with pytest.raises(ShapeError, match=r"\[pad_c4\]"):
                op.infer(Shape(S32, (n,)), Shape(S32))
            continue
        wanted = [-1] * size
        for k in range(n):
            at = low + k * (interior + 1)
            if 0 <= at < size:
                wanted[at] = k
        assert op.infer(Shape(S32, (n,)), Shape(S32)).dims == (size,)
        assert op.evaluate(np.arange(n, dtype=np.int32), np.int32(-1)).tolist() == wanted, op


def test_dynamic_slice_clamps():
    x = np.arange(5, dtype=np.int32)
    op = hlo.DynamicSlice((3,))
    for start, wanted in ((-7, [0, 1, 2]), (1, [1, 2, 3]), (4, [2, 3, 4]), (2**31 - 1, [2, 3, 4])):
        assert op.evaluate(x, np.int32(start)).tolist() == wanted
    assert op.evaluate(x, np.uint32(2**32 - 1)).tolist() == [2, 3, 4]
    assert hlo.DynamicUpdateSlice().evaluate(x, np.array([8, 9], np.int32), np.int32(9)).tolist() == [
        0,
        1,
        2,
        8,
        9,
    ]
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_regroup():
    assert regroup((4, 6), (2, 12)) == [((0, 1), (0, 1))]
    assert regroup((2, 1, 3, 4), (2, 12)) == [((0,), (0,)), ((2, 3), (1,))]
    assert regroup((6, 5), (6, 5)) == [((0,), (0,)), ((1,), (1,))]
    assert regroup((), (1, 1)) == []


def test_reshape_source_keeps_dimensions_that_stay():
    op = hlo.Reshape(Shape(F32, (2, 3, 20)))
    assert op.source(("i", "j", "k"), Shape(F32, (2, 1, 3, 20))) == ("i", 0, "j", "k")


def test_gather_clamps_and_moves_offsets():
    operand = np.arange(20, dtype=np.int32).reshape(5, 4)
    rows = hlo.Gather((1,), (0,), (0,), index_vector_dim=1, slice_sizes=(1, 4))
    assert (
        rows.evaluate(operand, np.array([[4], [-3], [99]], np.int32)).tolist() == operand[[4, 0, 4]].tolist()
    )
    first = hlo.Gather((0,), (0,), (0,), index_vector_dim=1, slice_sizes=(1, 4))
    assert first.evaluate(operand, np.array([1, 2], np.int64)).tolist() == operand[[1, 2]].T.tolist()
    huge = np.array([[2**64 - 1]], np.uint64)
    assert rows.evaluate(operand, huge).tolist() == [operand[4].tolist()]
    scalar = hlo.Gather((), (0, 1), (0, 1), index_vector_dim=0, slice_sizes=(1, 1))
    assert scalar.evaluate(operand, np.array([2, 3])).tolist() == 11


def test_gather_against_its_definition():
    rng = np.random.default_rng(0)
    operand, indices = rng.random((4, 3, 5)), rng.integers(-2, 6, (2, 2, 3))
    op = hlo.Gather((1, 2), (1,), (2, 0), index_vector_dim=1, slice_sizes=(2, 1, 3))
    found = op.evaluate(operand, indices)
    assert found.shape == op.infer(Shape(F32, operand.shape), Shape(S32, indices.shape)).dims == (2, 2, 3, 3)
    for i, j in np.ndindex(2, 3):
        last, first = (int(np.clip(v, 0, top)) for v, top in zip(indices[i, :, j], (2, 2), strict=True))
        assert np.array_equal(found[i, :, :, j], operand[first : first + 2, 0, last : last + 3])


X = Shape(F32, (2, 3))


@pytest.mark.parametrize(
    ("op", "shapes", "label"),
    [
        (hlo.Broadcast(Shape(F32, (2, 4)), (0, 1)), (X,), "broadcast_c4"),
        (hlo.Broadcast(Shape(F32, (2, 3)), (0,)), (X,), "broadcast_c2"),
        (hlo.Broadcast(Shape(F32, (2, 2)), (0, 0)), (Shape(F32, (2, 2)),), "broadcast_c3"),
        (hlo.Broadcast(Shape(S32, (2, 3)), (0, 1)), (X,), "broadcast_c1"),
        (hlo.Reshape(Shape(F32, (7,))), (X,), "reshape_c2"),
        (hlo.Reshape(Shape(S32, (6,))), (X,), "reshape_c1"),
        (hlo.DynamicReshape(Shape(F32, (7,))), (X, Shape(S32)), "dynamic_reshape_c3"),
        (hlo.Transpose((0, 0)), (X,), "transpose_c1"),
        (hlo.Reverse((2,)), (X,), "reverse_c1"),
        (hlo.Slice(SliceDims((0,), (1,))), (X,), "slice_c1"),
        (hlo.Slice(SliceDims((0, 0), (2, 4))), (X,), "slice_c2"),
        (hlo.Slice(SliceDims((0, 0), (2, 3), (1, 0))), (X,), "slice_c3"),
        (hlo.DynamicSlice((3, 3)), (X, Shape(S32), Shape(S32)), "dynamic_slice_c1"),
        (hlo.DynamicSlice((1, 1)), (X, Shape(S32)), "dynamic_slice_indices"),
        (hlo.DynamicSlice((1, 1)), (X, Shape(S32), Shape(U32)), "dynamic_slice_indices"),
        (
            hlo.DynamicUpdateSlice(),
            (X, Shape(F32, (3, 3)), Shape(S32), Shape(S32)),
            "dynamic_update_slice_c1",
        ),
        (hlo.Pad(PaddingConfig((1,), (1,))), (X, Shape(F32)), "pad_c2"),
        (hlo.Pad(PaddingConfig((1, 1), (1, 1))), (X, Shape(F32, (1,))), "pad_c1"),
        (hlo.Pad(PaddingConfig((1, 1), (1, 1), (0, -1))), (X, Shape(F32)), "pad_c3"),
        (hlo.Concatenate((2,)), (X, X), "concatenate_c2"),
        (hlo.Concatenate((0,)), (X, Shape(F32, (2, 4))), "concatenate_c3"),
        (hlo.Concatenate((0,)), (), "concatenate_c1"),
        (hlo.Iota(X, 2), (), "iota_c1"),
        (
            hlo.Gather((1,), (0,), (0,), index_vector_dim=1, slice_sizes=(3, 3)),
            (X, Shape(S32, (4, 1))),
            "gather_c1",
        ),
        (
            hlo.Gather((1,), (0,), (0,), index_vector_dim=1, slice_sizes=(2, 3)),
            (X, Shape(S32, (4, 1))),
            "gather_c3",
        ),
        (
            hlo.Gather((1,), (0,), (0,), index_vector_dim=1, slice_sizes=(1, 3)),
            (X, Shape(F32, (4, 1))),
            "gather_i1",
        ),
        (
            hlo.Gather((1,), (0,), (0, 1), index_vector_dim=1, slice_sizes=(1, 3)),
            (X, Shape(S32, (4, 1))),
            "gather_i3",
        ),
        (
            hlo.Gather((5,), (0,), (0,), index_vector_dim=1, slice_sizes=(1, 3)),
            (X, Shape(S32, (4, 1))),
            "gather_c5",
        ),
    ],
)
def test_rejects(op, shapes, label):
    with pytest.raises(ShapeError, match=rf"^{op.opcode}.*\[{label}\]$"):
        op.infer(*shapes)


def test_dynamic_dimensions_propagate():
    x = Shape(U8, (4, 3), (True, False))
    assert hlo.Transpose((1, 0)).infer(x) is Shape(U8, (3, 4), (False, True))
    assert hlo.Slice(SliceDims((0, 0), (4, 2))).infer(x) is Shape(U8, (4, 2), (True, False))
    assert hlo.Concatenate((0,)).infer(x, x) is Shape(U8, (8, 3), (True, False))


def test_dot_shapes_and_rejections():
    lhs, rhs = Shape(F32, (5, 2, 3)), Shape(F32, (3, 5, 4))
    numbers = {
        "lhs_batch_dims": (0,),
        "lhs_contracting_dims": (2,),
        "rhs_batch_dims": (1,),
        "rhs_contracting_dims": (0,),
    }
    assert hlo.Dot.of(lhs, rhs, **numbers).shape is Shape(F32, (5, 2, 4))
    for change, label in (
        ({"lhs_contracting_dims": (1,)}, "dot_c3"),
        ({"lhs_contracting_dims": (0,)}, "dot_c1"),
        ({"lhs_contracting_dims": (1, 2)}, "dot_c2"),
        ({"rhs_contracting_dims": (7,)}, "dot_c1"),
    ):
        with pytest.raises(ShapeError, match=rf"\[{label}\]$"):
            hlo.Dot.of(lhs, rhs, **(numbers | change))


def test_dot_of_pred_and_small_integers():
    plain = {"lhs_contracting_dims": (0,), "rhs_contracting_dims": (0,)}
    x = np.full(300, 100, np.int8)
    assert hlo.Dot(Shape(S32), **plain).evaluate(x, x) == 3_000_000
    flags = np.array([True, False])
    assert hlo.Dot(Shape(PRED), **plain).evaluate(flags, flags) == np.True_
    for numbers in ([0.25, 0.0], [2.0, -2.0], [float("nan"), 0.0]):  # all but 0 are true
        x = np.array(numbers, np.float32)
        assert hlo.Dot(Shape(PRED), **plain).evaluate(x, np.ones(2, np.float32)) == np.True_
    zeros = np.array([0.0, -0.0], np.float32)
    assert hlo.Dot(Shape(PRED), **plain).evaluate(zeros, np.ones(2, np.float32)) == np.False_


def test_arrays_without_elements_keep_the_other_sizes():
    for text, dims in (
        ("u16[0,2] bitcast-convert(p)", (0, 2)),
        ("c64[0,3] fft(q), fft_type=RFFT, fft_length={5}", (0, 3)),  # as XLA has it
    ):
        module = parse_hlo(
            "HloModule m\nENTRY e { p = f32[0] parameter(0)\n q = f32[0,5] parameter(1)\n ROOT r = "
            + text
            + " }"
        )
        found = evaluate(module, [np.zeros(0, np.float32), np.zeros((0, 5), np.float32)])
        assert found.array.shape == dims
