"""Elementwise ops: result[i] = f(operands[i]...)."""

from __future__ import annotations

import numpy as np

from axla.core.dtypes import F32, F64, PRED, S32, DType
from axla.core.shape import AnyShape, Shape
from axla.hlo import bits, complex, numeric
from axla.hlo.family import (
    ANY,
    ARITHMETIC,
    COMPLEX_OF,
    FLOAT,
    INEXACT,
    INTEGER,
    LOGICAL,
    PARTS,
    REAL,
    REAL_ARITHMETIC,
    SIGNED,
    Elementwise,
    arrays,
    binary,
    same_dims,
    same_dtype,
    show,
    symmetric,
    unary,
)  # fmt: skip
from axla.hlo.numeric import rounded
from axla.ir.attributes import CompareType, Direction
from axla.ir.op import attr, example, op


def _real_of(dtype: DType) -> DType:
    return dtype.real


def _pred_of(dtype: DType) -> DType:
    return PRED


# One operand

Abs = unary(
    "abs",
    numeric.absolute,
    SIGNED,
    "The magnitude |x|, of zeros too; the smallest integer is unchanged. Of a complex number its real "
    "modulus.",
    result=_real_of,
)
Negate = unary(
    "negate", numeric.negate, ARITHMETIC, "-x: inverts the sign, of zeros and NaN too; integers wrap."
)
Sign = unary(
    "sign", numeric.sign, SIGNED, "-1, 0 or 1; zeros of both signs and NaN stay. Of a complex number x / |x|."
)
Ceil = unary(
    "ceil",
    rounded(np.ceil),
    FLOAT,
    "The smallest whole number >= x; between -1 and 0 it is -0. Infinities and NaN are unchanged.",
)
Floor = unary(
    "floor", rounded(np.floor), FLOAT, "The largest whole number <= x. -0, infinities and NaN are unchanged."
)
RoundNearestAfz = unary(
    "round-nearest-afz",
    numeric.round_away,
    FLOAT,
    "The nearest whole number, halves away from zero; the sign is kept.",
)
RoundNearestEven = unary(
    "round-nearest-even",
    rounded(np.rint),
    FLOAT,
    "The nearest whole number, halves to the even one; the sign is kept.",
)
IsFinite = unary(
    "is-finite", numeric.is_finite, FLOAT, "Whether x is neither infinite nor NaN.", result=_pred_of
)
Not = unary("not", rounded(np.invert), LOGICAL, "Inverts every bit; of pred the logical not.")
Popcnt = unary("popcnt", bits.population_count, INTEGER, "The number of bits that are one.")
CountLeadingZeros = unary(
    "count-leading-zeros",
    bits.count_leading_zeros,
    INTEGER,
    "The number of zero bits above the highest one bit; of 0 the width.",
)
Real = unary("real", numeric.real, INEXACT, "The real part; a real number itself.", result=_real_of)
Imag = unary("imag", numeric.imag, INEXACT, "The imaginary part; 0 for a real number.", result=_real_of)


# Two operands

Add = symmetric("add", rounded(np.add), ANY, "x + y; integers wrap; of pred the logical or.", identity=0)
Subtract = binary("subtract", rounded(np.subtract), ARITHMETIC, "x - y; integers wrap.")
Multiply = symmetric(
    "multiply", numeric.multiply, ANY, "x * y; integers wrap; of pred the logical and.", identity=1
)
Divide = binary(
    "divide",
    numeric.divide,
    ARITHMETIC,
    "x / y. Integers round towards zero; by zero all bits are one, and the smallest by -1 is itself.",
    expensive=True,
)
Remainder = binary(
    "remainder",
    numeric.remainder,
    REAL_ARITHMETIC,
    "x - y * trunc(x / y), with the sign of x; NaN for y = 0 and infinite x; for integers and y = 0 it is x.",
    expensive=True,
)
Maximum = symmetric("maximum", numeric.maximum, REAL, "The larger one; NaN if either is NaN.")
Minimum = symmetric("minimum", numeric.minimum, REAL, "The smaller one; NaN if either is NaN.")
And = symmetric("and", rounded(np.bitwise_and), LOGICAL, "x and y, bit by bit.", identity=-1)
Or = symmetric("or", rounded(np.bitwise_or), LOGICAL, "x or y, bit by bit.", identity=0)
Xor = symmetric("xor", rounded(np.bitwise_xor), LOGICAL, "x exclusive or y, bit by bit.", identity=0)
ShiftLeft = binary("shift-left", bits.shift_left, INTEGER, "x * 2^y, wrapping; 0 if y >= the width.")
ShiftRightLogical = binary(
    "shift-right-logical",
    bits.shift_right_logical,
    INTEGER,
    "x shifted right by y bits; zeros come in; 0 if y is not less than the width.",
)
ShiftRightArithmetic = binary(
    "shift-right-arithmetic",
    bits.shift_right_arithmetic,
    INTEGER,
    "x shifted right by y bits; copies of the top bit come in.",
)
Mulhi = binary(
    "mulhi",
    bits.multiply_high,
    INTEGER,
    "The upper half of x * y, computed in twice the width.",
    commutative=True,
)
Complex = binary(
    "complex", complex.joined, PARTS, "The complex number lhs + i rhs.", result=COMPLEX_OF.__getitem__
)

# Irregular ones


@op("compare", operands="lhs rhs")
class Compare(Elementwise):
    """Whether `lhs` stands in relation `direction` to `rhs`, as pred.

    Comparisons with NaN are false, except NE; -0 equals 0. With type TOTALORDER floats are ordered by their
    bits: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN. Complex numbers have EQ and NE only.
    """

    direction: Direction = attr(proto="comparison_direction")
    type: CompareType | None = attr(default=None, proto="comparison_type")

    def infer(self, lhs: AnyShape, rhs: AnyShape) -> Shape:
        """Returns pred of the operands' dims; complex numbers have no order."""
        shapes = arrays(self, lhs, rhs)
        dtype = same_dtype(self, shapes)
        if dtype.is_complex and self.direction not in (Direction.EQ, Direction.NE):
            message = f"complex numbers cannot be ordered, found direction={self.direction} of {show(shapes)}"
            self.reject("c1", message)
        if self.type is not None and not _accepts_type(self.type, dtype):
            self.reject("c2", f"type={self.type} does not fit operands {show(shapes)}")
        return same_dims(self, shapes, PRED)

    @property
    def is_total_order(self) -> bool:
        """Whether floats are in total order: -NaN < -inf < -0 < 0 < inf < NaN."""
        return self.type is CompareType.TOTAL_ORDER

    def evaluate(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Compares element by element; without total order each comparison but NE is false for NaN."""
        if self.is_total_order and numeric.kind(lhs) == "float":
            lhs, rhs = numeric.total_order_key(lhs), numeric.total_order_key(rhs)
        return np.asarray(_COMPARE[self.direction](numeric.widened(lhs), numeric.widened(rhs)), np.bool_)

    examples = [
        *[example(Shape(F32, (3, 4)), Shape(F32, (3, 4)), direction=d) for d in Direction],
        example(Shape(S32), Shape(S32), direction=Direction.LT),
        *[example(*[Shape(F64, (5,))] * 2, direction=d, type=CompareType.TOTAL_ORDER) for d in Direction],
    ]


_COMPARE = {
    Direction.EQ: np.equal, Direction.NE: np.not_equal, Direction.GE: np.greater_equal,
    Direction.GT: np.greater, Direction.LE: np.less_equal, Direction.LT: np.less,
}  # fmt: skip


def _accepts_type(type_: CompareType, dtype: DType) -> bool:
    if type_ is CompareType.SIGNED:
        return dtype.is_signed
    if type_ is CompareType.UNSIGNED:
        return dtype.is_unsigned or dtype.is_pred
    return dtype.is_inexact


@op("select", operands="pred on_true on_false")
class Select(Elementwise):
    """`on_true[i]` where `pred[i]`, else `on_false[i]`; a scalar `pred` chooses for all."""

    def infer(self, pred: AnyShape, on_true: AnyShape, on_false: AnyShape) -> Shape:
        """Returns the shape of `on_true` and `on_false`; `pred` must have their dims or be a scalar."""
        chooser, first, second = arrays(self, pred, on_true, on_false)
        if not chooser.dtype.is_pred:
            self.reject("c1", f"the first operand must be pred, found {show(chooser)}")
        result = same_dims(self, (first, second), same_dtype(self, (first, second)))
        if chooser.dims and chooser.dims != result.dims:
            self.reject("c2", f"{show(chooser)} must be a scalar or have the dimensions of {show(result)}")
        return result

    def evaluate(self, pred: np.ndarray, on_true: np.ndarray, on_false: np.ndarray) -> np.ndarray:
        """Chooses element by element, or all by a scalar."""
        return np.where(pred, on_true, on_false)

    examples = [
        example(Shape(PRED, (3, 4)), Shape(F32, (3, 4)), Shape(F32, (3, 4))),
        example(Shape(PRED), Shape(F32, (3, 4)), Shape(F32, (3, 4))),
        example(Shape(PRED), Shape(S32), Shape(S32)),
    ]


@op("clamp", operands="min operand max")
class Clamp(Elementwise):
    """minimum(maximum(min, operand), max).

    Scalar bounds hold for all elements. NaN in any of the three gives NaN; where min is above max, max wins.
    """

    def infer(self, low: AnyShape, operand: AnyShape, high: AnyShape) -> Shape:
        """Returns the operand's shape; each bound must have the same shape or be a scalar."""
        shapes = arrays(self, low, operand, high)
        dtype = same_dtype(self, shapes, REAL)
        return same_dims(
            self, [shapes[1], *[s for s in (shapes[0], shapes[2]) if s.dims or not shapes[1].dims]], dtype
        )

    def evaluate(self, low: np.ndarray, operand: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Clamps element by element; NaN in any operand gives NaN."""
        return numeric.clamp(low, operand, high)

    examples = [
        example(Shape(F32, (3, 4)), Shape(F32, (3, 4)), Shape(F32, (3, 4))),
        example(Shape(F32), Shape(F32, (3, 4)), Shape(F32)),
        example(*[Shape(S32)] * 3),
    ]
