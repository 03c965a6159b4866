"""Corners of elementwise arithmetic, as HLO and XLA:CPU define them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import axla.hlo as hlo
from axla.core.dtypes import BF16, F16, F32, F64, PRED, S4, S8, S32, U4, U8, U32, dtype
from axla.core.errors import ShapeError
from axla.core.shape import Shape
from axla.ir.attributes import CompareType, Direction

INT_MIN = -(2**31)
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def run(op, *operands, of=np.int32):
    return op.evaluate(*[np.asarray(o, of) for o in operands])


def same(found, wanted):
    """Equal values, NaN equal to NaN, and zeros of the same sign."""
    wanted = np.asarray(wanted, found.dtype)
    assert np.array_equal(found, wanted, equal_nan=found.dtype.kind in "fc"), f"{found} is not {wanted}"
    if found.dtype.kind == "f":
        assert np.array_equal(np.signbit(found) | np.isnan(found), np.signbit(wanted) | np.isnan(wanted))


@pytest.mark.parametrize(
    ("op", "x", "y", "wanted"),
    [
        (
            hlo.Divide(),
            [7, -7, 7, -7, 5, INT_MIN, 0],
            [2, 2, -2, -2, 0, -1, 0],
            [3, -3, -3, 3, -1, INT_MIN, -1],
        ),
        (hlo.Remainder(), [7, -7, 7, -7, 5, INT_MIN, 0], [2, 2, -2, -2, 0, -1, 0], [1, -1, 1, -1, 5, 0, 0]),
        (hlo.ShiftLeft(), [1, 1, 1, -1], [31, 32, -1, 4], [INT_MIN, 0, 0, -16]),
        (hlo.ShiftRightLogical(), [-1, -1, -1, 8], [31, 32, -1, 2], [1, 0, 0, 2]),
        (hlo.ShiftRightArithmetic(), [-8, -8, 8, -8, 8], [1, 32, 32, -1, 1], [-4, -1, 0, -1, 4]),
        (hlo.Power(), [2, -1, -1, 1, 0, 3, 5], [-1, -3, -2, -9, 0, 4, 0], [0, -1, 1, 1, 1, 81, 1]),
        (hlo.Add(), [2**31 - 1, 1], [1, 1], [INT_MIN, 2]),
        (hlo.Multiply(), [2**30, -3], [4, 5], [0, -15]),
        (hlo.Mulhi(), [2**31 - 1, -1], [2**31 - 1, 1], [2**30 - 1, -1]),
    ],
)
def test_signed_integers(op, x, y, wanted):
    same(run(op, x, y), wanted)


@pytest.mark.parametrize(
    ("op", "x", "y", "wanted"),
    [
        (hlo.Divide(), [7, 7], [2, 0], [3, 255]),
        (hlo.Remainder(), [7, 7], [4, 0], [3, 7]),
        (hlo.ShiftLeft(), [1, 255], [8, 4], [0, 240]),
        (hlo.ShiftRightLogical(), [255, 255], [8, 4], [0, 15]),
        (hlo.ShiftRightArithmetic(), [0x80, 0x40], [9, 2], [255, 16]),
        (hlo.Subtract(), [0, 5], [1, 7], [255, 254]),
    ],
)
def test_unsigned_integers(op, x, y, wanted):
    same(run(op, x, y, of=np.uint8), wanted)


@pytest.mark.parametrize(("name", "low", "high"), [("s4", -8, 7), ("u4", 0, 15), ("s2", -2, 1), ("u2", 0, 3)])
def test_narrow_integers_agree_with_exact_arithmetic(name, low, high):
    """Every pair of values of the narrow types, against Python's integers wrapped to the width."""
    type_ = dtype(name)
    values = list(range(low, high + 1))
    x, y = (np.array(a).astype(type_.numpy) for a in np.meshgrid(values, values))
    size = high - low + 1

    def wrap(v):
        return (int(v) - low) % size + low

    def amount(b):
        return b % size  # the bits of the amount, read as unsigned

    exact = {
        hlo.Add: lambda a, b: wrap(a + b),
        hlo.Multiply: lambda a, b: wrap(a * b),
        hlo.ShiftLeft: lambda a, b: wrap(a << amount(b)) if amount(b) < type_.bits else 0,
        hlo.ShiftRightLogical: lambda a, b: wrap((a % size) >> amount(b)),
        hlo.ShiftRightArithmetic: lambda a, b: wrap(wrap_signed(a) >> amount(b)),
    }

    def wrap_signed(v):
        return (v + size // 2) % size - size // 2

    for op, function in exact.items():
        found = op().evaluate(x, y).astype(int).ravel().tolist()
        assert found == [function(int(a), int(b)) for a, b in zip(x.ravel(), y.ravel(), strict=True)], (
            op.opcode
        )


def test_bits():
    same(run(hlo.Popcnt(), [0, -1, INT_MIN, 7]), [0, 32, 1, 3])
    same(run(hlo.CountLeadingZeros(), [0, -1, 1, 2**30]), [32, 0, 31, 1])
    same(run(hlo.CountLeadingZeros(), [0, 1, 255], of=np.uint8), [8, 7, 0])
    # XLA:CPU counts the byte that a signed element is extended to (as the corpus has it): 5, and 8 in 4 bits.
    assert hlo.Popcnt().evaluate(np.array([-8, -1], ml_dtypes.int4)).astype(int).tolist() == [5, -8]
    assert hlo.Popcnt().evaluate(np.array([8, 15], ml_dtypes.uint4)).astype(int).tolist() == [1, 4]


def test_minimum_maximum_and_clamp():
    floats = np.float32
    same(run(hlo.Maximum(), [NAN, 1, -0.0, 0.0], [1, NAN, 0.0, -0.0], of=floats), [NAN, NAN, 0.0, 0.0])
    same(run(hlo.Minimum(), [NAN, 1, -0.0, 0.0], [1, NAN, 0.0, -0.0], of=floats), [NAN, NAN, -0.0, -0.0])
    same(run(hlo.Clamp(), 0.0, [-1, NAN, 2, 0.5], 1.0, of=floats), [0, NAN, 1, 0.5])
    same(run(hlo.Clamp(), 5, [1, 7, 9], 6), [5, 6, 6])


def test_sign_and_rounding():
    same(run(hlo.Sign(), [-2, -0.0, 0.0, INF, NAN], of=np.float32), [-1, -0.0, 0.0, 1, NAN])
    same(
        run(hlo.RoundNearestAfz(), [0.5, -0.5, 2.5, 0.49999997, -0.2, INF], of=np.float32),
        [1, -1, 3, 0, -0.0, INF],
    )
    same(run(hlo.RoundNearestEven(), [0.5, 1.5, 2.5, -0.5], of=np.float32), [0, 2, 2, -0.0])
    same(run(hlo.Ceil(), [-0.5, 0.5], of=np.float16), [-0.0, 1])
    same(run(hlo.Remainder(), [5.5, -5.5, 1, 1], [2, 2, 0, INF], of=np.float32), [1.5, -1.5, NAN, 1])


def test_float_powers():
    same(
        run(hlo.Power(), [0, -8, NAN, 1, -2, 0], [0, 1 / 3, 0, NAN, 3, -1], of=np.float64),
        [1, NAN, 1, 1, -8, INF],
    )
    same(run(hlo.Atan2(), [0.0, -0.0, 0.0], [-1, -1, 1], of=np.float64), [np.pi, -np.pi, 0])


def test_narrow_floats_round_once_per_operation():
    x = np.array([1.0, 256.0, 3.0], ml_dtypes.bfloat16)
    y = np.array([2**-9, 1.0, 1 / 3], ml_dtypes.bfloat16)
    exact = x.astype(np.float64) + y.astype(np.float64)
    assert np.array_equal(hlo.Add().evaluate(x, y), exact.astype(ml_dtypes.bfloat16))
    assert hlo.Exponential().evaluate(np.array([12.0], np.float16)).dtype == np.float16
    assert np.isinf(hlo.Exponential().evaluate(np.array([12.0], np.float16)))[0]


def test_compare():
    x, y = np.array([NAN, -0.0, 1, -INF], np.float32), np.array([NAN, 0.0, NAN, INF], np.float32)
    total = CompareType.TOTAL_ORDER
    assert hlo.Compare(Direction.EQ).evaluate(x, y).tolist() == [False, True, False, False]
    assert hlo.Compare(Direction.NE).evaluate(x, y).tolist() == [True, False, True, True]
    assert hlo.Compare(Direction.LT).evaluate(x, y).tolist() == [False, False, False, True]
    assert hlo.Compare(Direction.LT, total).evaluate(x, y).tolist() == [False, True, True, True]
    assert hlo.Compare(Direction.EQ, total).evaluate(x, y).tolist() == [True, False, False, False]
    negative_nan = np.array([-NAN], ml_dtypes.bfloat16)
    assert hlo.Compare(Direction.LT, total).evaluate(negative_nan, np.array([-INF], ml_dtypes.bfloat16)).all()


def test_complex_corners():
    x = np.array([1 + 1j, complex(INF, 1), complex(0, 0), complex(1, INF)], np.complex64)
    y = np.array([0, 1 + 1j, 0, 1 + 1j], np.complex64)
    found = hlo.Divide().evaluate(x, y)
    assert np.isinf(found.real[0]) and np.isinf(found.imag[0])
    assert np.isinf(found[1]) and np.isnan(found[2])
    assert hlo.Abs().evaluate(np.array([3 + 4j], np.complex64)).tolist() == [5.0]
    assert hlo.Abs().infer(Shape(dtype("c64"), (1,))) is Shape(F32, (1,))
    sign = hlo.Sign().evaluate(np.array([3 + 4j, 0], np.complex128))
    assert np.allclose(sign, [0.6 + 0.8j, 0])
    assert hlo.Imag().evaluate(np.array([2.0], np.float32)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("op", "shapes", "label"),
    [
        (hlo.Add(), (Shape(F32, (2,)), Shape(F32, (3,))), "add_dims"),
        (hlo.Add(), (Shape(F32, (2,)), Shape(S32, (2,))), "add_dtype"),
        (hlo.Subtract(), (Shape(PRED),) * 2, "subtract_type"),
        (hlo.Exponential(), (Shape(S32),), "exponential_type"),
        (hlo.And(), (Shape(F32),) * 2, "and_type"),
        (hlo.ShiftLeft(), (Shape(F32),) * 2, "shift_left_type"),
        (hlo.Abs(), (Shape(U32),), "abs_type"),
        (hlo.Maximum(), (Shape(dtype("c64")),) * 2, "maximum_type"),
        (hlo.Complex(), (Shape(F16),) * 2, "complex_type"),
        (hlo.Compare(Direction.LT), (Shape(dtype("c64")),) * 2, "compare_c1"),
        (hlo.Compare(Direction.LT, CompareType.SIGNED), (Shape(F32),) * 2, "compare_c2"),
        (hlo.Select(), (Shape(F32), Shape(F32), Shape(F32)), "select_c1"),
        (hlo.Select(), (Shape(PRED, (3,)), Shape(F32, (2,)), Shape(F32, (2,))), "select_c2"),
        (hlo.Clamp(), (Shape(F32, (2,)), Shape(F32, (3,)), Shape(F32)), "clamp_dims"),
        (hlo.Negate(), (hlo.Tuple().infer(Shape(F32)),), "negate_array"),
    ],
)
def test_rejects(op, shapes, label):
    with pytest.raises(ShapeError, match=rf"^{op.opcode}.*\[{label}\]$"):
        op.infer(*shapes)


def test_dynamic_dimensions_stay():
    dynamic, static = Shape(F32, (4, 3), (True, False)), Shape(F32, (4, 3))
    assert hlo.Add().infer(dynamic, static) is dynamic
    assert hlo.Negate().infer(dynamic) is dynamic


def test_facts():
    for op in (hlo.Add, hlo.Multiply, hlo.And, hlo.Or, hlo.Xor):
        for type_ in (
            (S32, U8, PRED) if op in (hlo.And, hlo.Or, hlo.Xor) else (S32, F32, F64, BF16, S4, U4, S8)
        ):
            x = np.array([0, 1], type_.numpy)
            identity = np.array([op.identity] * 2).astype(type_.numpy)
            assert np.array_equal(op().evaluate(x, identity), x), (op, type_)
        assert op.commutative and op.elementwise
