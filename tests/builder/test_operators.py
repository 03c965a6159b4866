"""Python's operators on XlaOp against NumPy's on arrays."""

import operator

import ml_dtypes
import numpy as np
import pytest

from axla.builder import XlaBuilder, ops
from axla.core.dtypes import BF16, F32, S32, U32
from axla.core.errors import InvalidArgument, ShapeError
from axla.core.shape import Shape

X = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
I = np.array([[7, -7, 3], [1, 2, -9]], np.int32)  # noqa: E741


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_float_arithmetic(b, value, op):
    other = np.float32(2.5)
    assert np.array_equal(value(op(ops.Constant(b, X), 2.5)), op(X, other))
    assert np.array_equal(value(op(2.5, ops.Constant(b, X))), op(other, X))
    assert np.array_equal(value(op(ops.Constant(b, X), X)), op(X, X))
    assert np.array_equal(value(op(X, ops.Constant(b, X))), op(X, X))


@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor])
def test_bits(b, value, op):
    assert np.array_equal(value(op(ops.Constant(b, I), 6)), op(I, np.int32(6)))
    assert np.array_equal(value(op(6, ops.Constant(b, I))), op(np.int32(6), I))


def test_shifts(b, value):
    assert np.array_equal(value(ops.Constant(b, I) << 2), I << 2)
    assert np.array_equal(value(ops.Constant(b, I) >> 1), I >> 1)
    unsigned = I.view(np.uint32)
    assert np.array_equal(value(ops.Constant(b, unsigned) >> 1), unsigned >> 1)
    assert np.array_equal(value(np.int32(1) << ops.Constant(b, np.int32([0, 3]))), [1, 8])


def test_division_and_remainder_have_the_sign_of_the_dividend(b, value):
    assert value(ops.Constant(b, np.int32([7, -7])) / 2).tolist() == [3, -3]
    assert value(ops.Constant(b, np.int32([7, -7])) % 4).tolist() == [3, -3]


def test_unary(b, value):
    assert np.array_equal(value(-ops.Constant(b, X)), -X)
    assert np.array_equal(value(abs(ops.Constant(b, X))), abs(X))
    assert np.array_equal(value(~ops.Constant(b, I)), ~I)
    x = ops.Constant(b, X)
    assert +x is x


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(b, value, name):
    op = getattr(operator, name)
    assert np.array_equal(value(op(ops.Constant(b, X), 1.5)), op(X, np.float32(1.5)))
    assert np.array_equal(value(op(X, ops.Constant(b, X.T.reshape(2, 3)))), op(X, X.T.reshape(2, 3)))


def test_power_and_matmul(b, value):
    assert np.allclose(value(ops.Constant(b, abs(X)) ** 2.0), abs(X) ** 2, rtol=1e-6)
    assert np.allclose(value(2.0 ** ops.Constant(b, X)), 2**X, rtol=1e-6)
    assert np.array_equal(value(ops.Constant(b, X) @ X.T), X @ X.T)
    assert np.array_equal(value(X[0] @ ops.Constant(b, X[1])), X[0] @ X[1])


def test_python_numbers_take_the_other_type(b):
    for dtype in (BF16, F32, S32, U32):
        x = ops.Parameter(XlaBuilder("p"), 0, Shape(dtype, (2,)))
        assert (x + 1).dtype is dtype and (1 - x).dtype is dtype


def test_numpy_scalars_keep_their_type(b):
    x = ops.Parameter(b, 0, Shape(F32, (2,)))
    assert (x + np.float32(1)).dtype is F32
    for other in (np.float64(1), ml_dtypes.bfloat16(1), np.int32(1)):
        with pytest.raises(ShapeError, match="add_dtype"):
            x + other


@pytest.mark.parametrize(
    "dtype, number", [(S32, 1.5), (S32, 2**31), (U32, -1), (F32, 1j), (Shape(S32).dtype, -(2**31) - 1)]
)
def test_python_numbers_must_fit(b, dtype, number):
    with pytest.raises(InvalidArgument, match=f"not a value of {dtype}"):
        ops.Parameter(b, 0, Shape(dtype)) + number


def test_no_truth_value(b):
    x = ops.Parameter(b, 0, Shape(F32))
    with pytest.raises(InvalidArgument, match="no truth value"):
        if x > 1.0:
            pass


def test_what_cannot_be_an_operand(b):
    with pytest.raises(InvalidArgument, match="Add: an operand is a str"):
        ops.Parameter(b, 0, Shape(F32)) + "one"
    with pytest.raises(InvalidArgument, match="at least one operand must be an XlaOp"):
        ops.Add(1.0, 2.0)


INDICES = [
    0, -1, slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(3, 0, -2), slice(5, 2), ...,
    None,
    (slice(None), 1), (0, 1, 2), (..., 1), (1, ..., None), (slice(None), None, slice(1, 3)), (None, ...,
    None),
    (slice(1, 3), slice(None, None, -1), 0), (2, slice(0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(b, value, index):
    array = np.arange(60, dtype=np.int32).reshape(4, 3, 5)
    found = value(ops.Constant(b, array)[index])
    assert found.shape == array[index].shape and np.array_equal(found, array[index])


def test_indexing_by_values_of_the_program(b, value):
    array = np.arange(60, dtype=np.int32).reshape(4, 3, 5)
    x, k = ops.Constant(b, array), ops.Constant(b, np.int32(2))
    assert np.array_equal(value(x[k]), array[2])
    x, k = ops.Constant(b, array), ops.Constant(b, np.int32(2))
    assert np.array_equal(value(x[1:, k, ::-1]), array[1:, 2, ::-1])
    x, k, m = ops.Constant(b, array), ops.Constant(b, np.int32(3)), ops.Constant(b, np.uint8(9))
    assert np.array_equal(value(x[k, ..., m]), array[3, :, 4]), "an index outside is clamped"


def test_indexing_outside(b):
    x = ops.Parameter(b, 0, Shape(F32, (2, 3)))
    with pytest.raises(InvalidArgument, match="index 3 is outside dimension 1"):
        x[0, 3]
    with pytest.raises(InvalidArgument, match="too many entries"):
        x[0, 0, 0]
    with pytest.raises(InvalidArgument, match="for arrays use Gather"):
        x[[0, 1]]


def test_array_conveniences(b, value):
    x = ops.Constant(b, X)
    assert len(x) == 2 and [row.dims for row in x] == [(3,), (3,)]
    assert np.array_equal(value(x.T), X.T)
    assert np.array_equal(value(ops.Constant(b, X).reshape(3, 2)), X.reshape(3, 2))
    assert value(ops.Constant(b, X).astype(np.int32)).dtype == np.int32
    with pytest.raises(InvalidArgument, match="is a scalar"):
        len(ops.Constant(b, np.float32(1)))
