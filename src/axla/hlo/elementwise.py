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
    "The magnitude |x|; -0 becomes 0. The smallest integer is unchanged. For a complex number, its modulus, "
    "which is real.",
    result=_real_of,
)
Negate = unary(
    "negate", numeric.negate, ARITHMETIC, "-x: inverts the sign, also of zeros and NaN; integers wrap."
)
Sign = unary(
    "sign", numeric.sign, SIGNED, "-1, 0 or 1; -0 and NaN are unchanged. x / |x| for a complex number."
)
Ceil = unary(
    "ceil",
    rounded(np.ceil),
    FLOAT,
    "The smallest whole number >= x; -0 for -1 < x < 0. Infinities and NaN are unchanged.",
)
Floor = unary(
    "floor", rounded(np.floor), FLOAT, "The largest whole number <= x. -0, infinities and NaN are unchanged."
)
RoundNearestAfz = unary(
    "round-nearest-afz",
    numeric.round_away,
    FLOAT,
    "The nearest whole number, halves rounded away from zero. The sign is kept, also for zeros.",
)
RoundNearestEven = unary(
    "round-nearest-even",
    rounded(np.rint),
    FLOAT,
    "The nearest whole number, halves rounded to the even one. The sign is kept, also for zeros.",
)
IsFinite = unary(
    "is-finite", numeric.is_finite, FLOAT, "Whether x is neither infinite nor NaN.", result=_pred_of
)
Not = unary("not", rounded(np.invert), LOGICAL, "Inverts every bit; for pred, the logical not.")
Popcnt = unary("popcnt", bits.population_count, INTEGER, "The number of one bits.")
CountLeadingZeros = unary(
    "count-leading-zeros",
    bits.count_leading_zeros,
    INTEGER,
    "The number of zero bits above the highest one bit; the width for 0.",
)
Real = unary("real", numeric.real, INEXACT, "The real part; a real number is unchanged.", result=_real_of)
Imag = unary("imag", numeric.imag, INEXACT, "The imaginary part; 0 for a real number.", result=_real_of)


# Two operands

Add = symmetric("add", rounded(np.add), ANY, "x + y; integers wrap; the logical or for pred.", identity=0)
Subtract = binary("subtract", rounded(np.subtract), ARITHMETIC, "x - y; integers wrap.")
Multiply = symmetric(
    "multiply", numeric.multiply, ANY, "x * y; integers wrap; the logical and for pred.", identity=1
)
Divide = binary(
    "divide",
    numeric.divide,
    ARITHMETIC,
    "x / y. Integers: rounded towards zero; x / 0 has all bits set; the smallest integer / -1 is itself.",
    expensive=True,
)
Remainder = binary(
    "remainder",
    numeric.remainder,
    REAL_ARITHMETIC,
    "x - y * trunc(x / y), with the sign of x. Floats: NaN if y = 0 or x is infinite. Integers: x if y = 0.",
    expensive=True,
)
Maximum = symmetric("maximum", numeric.maximum, REAL, "The larger operand; NaN if either is NaN.")
Minimum = symmetric("minimum", numeric.minimum, REAL, "The smaller operand; NaN if either is NaN.")
And = symmetric("and", rounded(np.bitwise_and), LOGICAL, "x and y, bit by bit.", identity=-1)
Or = symmetric("or", rounded(np.bitwise_or), LOGICAL, "x or y, bit by bit.", identity=0)
Xor = symmetric("xor", rounded(np.bitwise_xor), LOGICAL, "x exclusive or y, bit by bit.", identity=0)
ShiftLeft = binary("shift-left", bits.shift_left, INTEGER, "x << y; 0 if y, as unsigned, >= the width.")
ShiftRightLogical = binary(
    "shift-right-logical",
    bits.shift_right_logical,
    INTEGER,
    "x shifted right by y bits, with zeros from the left; 0 if y, as unsigned, is at least the width.",
)
ShiftRightArithmetic = binary(
    "shift-right-arithmetic",
    bits.shift_right_arithmetic,
    INTEGER,
    "x shifted right by y bits, with copies of the highest bit from the left, also for unsigned types.",
)
Mulhi = binary(
    "mulhi",
    bits.multiply_high,
    INTEGER,
    "The upper half of the product x * y, which has twice the width of the operands.",
    commutative=True,
)
Complex = binary(
    "complex", complex.joined, PARTS, "The complex number lhs + i rhs.", result=COMPLEX_OF.__getitem__
)

# Ops with a class of their own


@op("compare", operands="lhs rhs")
class Compare(Elementwise):
    """Whether `lhs` is in the relation `direction` to `rhs`, as pred.

    If an operand is NaN, NE is true and the others are false; -0 equals 0. With type TOTALORDER, floats are
    ordered by sign and magnitude: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN. Complex numbers can be
    compared by EQ and NE only.
    """

    direction: Direction = attr(proto="comparison_direction")
    type: CompareType | None = attr(default=None, proto="comparison_type")

    def infer(self, lhs: AnyShape, rhs: AnyShape) -> Shape:
        """Returns the operands' dims with the dtype pred. Rejects an order of complex numbers, and a `type`
        that does not fit the operands.
        """
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
        """Whether floats are compared in total order: -NaN < -inf < -0 < 0 < inf < NaN."""
        return self.type is CompareType.TOTAL_ORDER

    def evaluate(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        """Compares element by element. Without total order, a comparison with NaN is false except for NE."""
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
    """`on_true[i]` where `pred[i]` is true, else `on_false[i]`. A scalar `pred` selects for all elements."""

    def infer(self, pred: AnyShape, on_true: AnyShape, on_false: AnyShape) -> Shape:
        """Returns the shape of `on_true` and `on_false`; `pred` must have their dims or be a scalar."""
        chooser, first, second = arrays(self, pred, on_true, on_false)
        if not chooser.dtype.is_pred:
            self.reject("c1", f"the first operand must be pred, found {show(chooser)}")
        result = same_dims(self, (first, second), same_dtype(self, (first, second)))
        if chooser.dims and chooser.dims != result.dims:
            self.reject("c2", f"pred must be a scalar or have the dims {result.dims}, found {show(chooser)}")
        return result

    def evaluate(self, pred: np.ndarray, on_true: np.ndarray, on_false: np.ndarray) -> np.ndarray:
        """Selects element by element; a scalar `pred` selects for all elements."""
        return np.where(pred, on_true, on_false)

    examples = [
        example(Shape(PRED, (3, 4)), Shape(F32, (3, 4)), Shape(F32, (3, 4))),
        example(Shape(PRED), Shape(F32, (3, 4)), Shape(F32, (3, 4))),
        example(Shape(PRED), Shape(S32), Shape(S32)),
    ]


@op("clamp", operands="min operand max")
class Clamp(Elementwise):
    """minimum(maximum(min, operand), max).

    A scalar bound applies to all elements. The result is NaN if any operand is NaN, and `max` if `min` is
    above `max`.
    """

    def infer(self, low: AnyShape, operand: AnyShape, high: AnyShape) -> Shape:
        """Returns the operand's shape; each bound must have that shape or be a scalar."""
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
