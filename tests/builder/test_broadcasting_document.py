"""The worked examples of XLA's page on broadcasting; one test per example, named after its section."""

import numpy as np
import pytest

from axla.builder import ops
from axla.builder.broadcasting import common_dims
from axla.core.dtypes import F32
from axla.core.errors import ShapeError
from axla.core.shape import Shape

MATRIX = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
VECTOR = np.array([7, 8, 9], np.int32)


def dims(lhs, rhs, broadcast_dimensions=None):
    return common_dims(Shape(F32, lhs), Shape(F32, rhs), broadcast_dimensions)


def test_what_is_broadcasting(b, value):
    total = ops.Add(ops.Constant(b, MATRIX), ops.Constant(b, VECTOR), [1])
    assert value(total).tolist() == [[8, 10, 12], [11, 13, 15]]


def test_principles_rank_is_never_inferred(b):
    with pytest.raises(ShapeError, match=r"broadcast_needed"):
        ops.Add(ops.Constant(b, MATRIX), ops.Constant(b, VECTOR))


def test_lower_rank_scalar(b, value):
    assert value(ops.Add(ops.Constant(b, MATRIX), ops.Constant(b, np.int32(7)))).tolist() == [
        [8, 9, 10],
        [11, 12, 13],
    ]


def test_lower_rank_scalar_on_the_left(b, value):
    assert value(ops.Sub(ops.Constant(b, np.int32(7)), ops.Constant(b, MATRIX))).tolist() == [
        [6, 5, 4],
        [3, 2, 1],
    ]


def test_lower_rank_vector_to_columns(b, value):
    zeros = ops.Constant(b, np.zeros((3, 3), np.int32))
    assert value(ops.Add(zeros, ops.Constant(b, VECTOR), [1])).tolist() == [[7, 8, 9]] * 3


def test_lower_rank_vector_to_rows(b, value):
    zeros = ops.Constant(b, np.zeros((3, 3), np.int32))
    assert value(ops.Add(zeros, ops.Constant(b, VECTOR), [0])).tolist() == [[7] * 3, [8] * 3, [9] * 3]


def test_lower_rank_note_2x3_and_3_along_0_is_invalid(b):
    with pytest.raises(ShapeError, match=r"broadcast_size"):
        ops.Add(ops.Constant(b, MATRIX), ops.Constant(b, VECTOR), [0])


def test_lower_rank_cuboid_and_matrix(b, value):
    cuboid = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    matrix = np.arange(12, dtype=np.int32).reshape(3, 4) * 100
    total = ops.Add(ops.Constant(b, cuboid), ops.Constant(b, matrix), [1, 2])
    assert (value(total) == cuboid + matrix).all()


@pytest.mark.parametrize("dim", range(4))
def test_formal_definition_vector(dim):
    sizes = (2, 3, 4, 5)
    assert dims(sizes, (sizes[dim],), [dim]) == sizes
    assert dims((sizes[dim],), sizes, [dim]) == sizes


@pytest.mark.parametrize("places", [(2, 3), (1, 2), (0, 3)])
def test_formal_definition_matrix(places):
    sizes = (2, 3, 4, 5)
    assert dims(sizes, tuple(sizes[p] for p in places), places) == sizes


def test_formal_definition_order_must_increase():
    with pytest.raises(ShapeError, match=r"broadcast_order"):
        dims((2, 3, 3, 4), (3, 3), [2, 1])
    with pytest.raises(ShapeError, match=r"broadcast_order"):
        dims((2, 3, 3, 4), (3, 3), [1, 1])


@pytest.mark.parametrize(
    "lhs, rhs, expected",
    [((2, 1), (2, 3), (2, 3)), ((1, 2, 5), (7, 2, 5), (7, 2, 5)), ((7, 2, 5), (7, 1, 5), (7, 2, 5))],
)
def test_degenerate_dimensions(lhs, rhs, expected):
    assert dims(lhs, rhs) == dims(rhs, lhs) == expected


def test_degenerate_dimensions_incompatible():
    with pytest.raises(ShapeError, match=r"dimension 2 has sizes 5 and 6.*broadcast_compatible"):
        dims((7, 2, 5), (7, 2, 6))


def test_degenerate_dimensions_outer_operation(b, value):
    column, row = np.array([[1], [2]], np.int32), np.array([[10, 20, 30]], np.int32)
    total = ops.Mul(ops.Constant(b, column), ops.Constant(b, row))
    assert value(total).tolist() == [[10, 20, 30], [20, 40, 60]]


def test_composition_vector_and_1x2_matrix(b, value):
    vector, matrix = np.array([1, 2, 3, 4], np.int32), np.array([[5, 6]], np.int32)
    total = ops.Add(ops.Constant(b, vector), ops.Constant(b, matrix), [0])
    assert value(total).tolist() == [[6, 7], [7, 8], [8, 9], [9, 10]]


def test_composition_1x2_matrix_and_4x3x1(b, value):
    matrix = np.array([[10, 20]], np.int32)
    cuboid = np.arange(12, dtype=np.int32).reshape(4, 3, 1)
    total = ops.Add(ops.Constant(b, matrix), ops.Constant(b, cuboid), [1, 2])
    assert total.dims == (4, 3, 2)
    assert (value(total) == matrix[None] + cuboid).all()


# Constraints that the page states, one test per label.


def test_broadcast_same_rank():
    with pytest.raises(ShapeError, match="broadcast_same_rank"):
        dims((2, 3), (2, 3), [1, 0])
    assert dims((2, 3), (2, 1), [0, 1]) == (2, 3)


def test_broadcast_scalar():
    with pytest.raises(ShapeError, match="broadcast_scalar"):
        dims((2, 3), (), [0])


def test_broadcast_count():
    with pytest.raises(ShapeError, match="broadcast_count"):
        dims((2, 3, 4), (3, 4), [1])


def test_broadcast_range():
    with pytest.raises(ShapeError, match="broadcast_range"):
        dims((2, 3), (3,), [2])


def test_random_shapes_agree_with_numpy(b, value):
    rng = np.random.default_rng(0)
    for _ in range(60):
        high = rng.integers(1, 4, rng.integers(1, 5))
        places = np.sort(rng.permutation(len(high))[: rng.integers(0, len(high) + 1)])
        low = np.where(rng.random(len(places)) < 0.3, 1, high[places])
        high = np.where(rng.random(len(high)) < 0.3, 1, high)
        x, y = rng.integers(0, 99, high).astype(np.int32), rng.integers(0, 99, low).astype(np.int32)
        spread = np.ones(len(high), int)
        spread[places] = low
        dimensions = places if 0 < len(places) < len(high) else None
        expected = x - y.reshape(spread)
        assert (value(ops.Sub(ops.Constant(b, x), ops.Constant(b, y), dimensions)) == expected).all()
        assert (value(ops.Sub(ops.Constant(b, y), ops.Constant(b, x), dimensions)) == -expected).all()
