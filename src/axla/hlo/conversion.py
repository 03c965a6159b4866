"""Ops that change the element type or the precision: convert, bitcast-convert, bitcast, reduce-precision,
stochastic-convert.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.core.dtypes import BF16, C64, F16, F32, F64, PRED, S4, S8, S32, S64, U8, U16, U32
from axla.core.shape import AnyShape, Shape, array
from axla.hlo import casting
from axla.hlo.family import Elementwise, arrays, show
from axla.ir.op import Op, example, op


@op("convert", operands="operand")
class Convert(Elementwise):
    """Converts the numbers to another element type.

    Float to integer truncates and saturates, and NaN becomes 0. Integer to integer wraps. Conversion to pred
    tests for `!= 0`.
    """

    shape: Shape

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the declared shape, which must have the operand's dims. Complex numbers can be converted to
        complex types only.
        """
        (source,) = arrays(self, operand)
        if source.dims != self.shape.dims:
            self.reject("c1", f"{show(source)} cannot become {show(self.shape)}: dimensions differ")
        if source.dtype.is_complex and not self.shape.dtype.is_complex:
            message = f"complex {show(source)} cannot become {show(self.shape)}; take real or imag first"
            self.reject("c2", message)
        return self.shape

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Converts as XLA does: numbers beyond the range of an integer type saturate, NaN becomes 0."""
        return casting.convert(operand, self.shape.dtype)

    examples = [
        example(Shape(of, (3, 4)), shape=Shape(to, (3, 4)))
        for of, to in [(F32, S32), (S32, F32), (F32, BF16), (F64, F16), (F32, PRED), (PRED, F32), (F32, U8),
                       (S32, S8), (F32, C64), (S4, S64)]
    ]  # fmt: skip


@op("bitcast-convert", operands="operand", moves=True, keeps_order=True, in_line=True)
class BitcastConvert(Op):
    """Reads the bits of the elements as elements of another type.

    If the widths differ, an element of the wider type corresponds to several of the narrower type along the
    last dimension, lowest bits first: f32[3] becomes u8[3,4], and u8[3,4] becomes f32[3]. Complex types can
    be converted to complex types only.
    """

    shape: Shape

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the declared shape, which must have as many bits as the operand. If the element types
        differ in width, the last dimension is added or dropped.
        """
        (source,) = arrays(self, operand)
        result = self.shape
        if source.dtype.is_complex is not result.dtype.is_complex:
            self.reject("c1", f"{show(source)} cannot become {show(result)}: only one is complex")
        of, to = source.dtype.bits, result.dtype.bits
        wanted: tuple[int, ...] | None = source.dims
        if of > to:
            wanted = (*source.dims, of // to) if of % to == 0 else None
        elif of < to:
            wanted = source.dims[:-1] if source.rank and source.dims[-1] * of == to else None
        if result.dims != wanted:
            self.reject("c2", f"{show(source)} ({of} bits each) cannot become {show(result)} ({to} bits)")
        return result

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Reads the bits of the elements as elements of the declared dtype."""
        return casting.bitcast(operand, self.shape.dtype)

    examples = [
        example(Shape(F32, (3,)), shape=Shape(S32, (3,))),
        example(Shape(F32, (2,)), shape=Shape(U16, (2, 2))),
        example(Shape(U8, (3, 4)), shape=Shape(F32, (3,))),
        example(Shape(BF16), shape=Shape(U16)),
        example(Shape(S8, (3,)), shape=Shape(S4, (3, 2))),
        example(Shape(S4, (3, 2)), shape=Shape(U8, (3,))),
        example(Shape(F64, (2,)), shape=Shape(U32, (2, 2))),
    ]


@op("bitcast", operands="operand", moves=True, passes_on=True, keeps_order=True, free=True)
class Bitcast(Op):
    """Reads the memory of the operand as an array of another shape and layout with the same number of bits.

    Compilers insert it for reshapes and transposes that move no element in memory. Unlike that of
    bitcast-convert, its result depends on the layouts of operand and result.
    """

    shape: AnyShape

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the declared shape, which must have as many bits as the operand."""
        if isinstance(operand, Shape) and isinstance(self.shape, Shape):
            of, to = operand.size * operand.dtype.bits, self.shape.size * self.shape.dtype.bits
            if of != to:
                self.reject("c1", f"{show(operand)} has {of} bits, {show(self.shape)} has {to}")
        return self.shape

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Returns 0, since no memory is read or written."""
        return 0

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Returns the result for default layouts of operand and result. A NumPy array has no HLO layout, so a
        bitcast with other layouts cannot be evaluated here.
        """
        return casting.reinterpret(operand, array(self.shape))

    examples = [
        example(Shape(F32, (2, 3)), shape=Shape(F32, (6,))),
        example(Shape(F32, (2, 2)), shape=Shape(S32, (4,))),
    ]


@op("reduce-precision", operands="operand")
class ReducePrecision(Elementwise):
    """Rounds the operand to the precision of a float with `exponent_bits` and `mantissa_bits`. The element
    type stays.

    Rounds to nearest, ties to even. Numbers too large for that format become infinities, numbers below its
    normal numbers become zeros of the same sign, and NaN stays NaN. As many bits as the type has, or more,
    change nothing.
    """

    exponent_bits: int
    mantissa_bits: int

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the operand's shape; the operand must be an array of floats."""
        (source,) = arrays(self, operand)
        if not source.dtype.is_float:
            self.reject("c1", f"an array of floats is wanted, found {show(source)}")
        if self.exponent_bits < 1 or self.mantissa_bits < 0:
            found = f"exponent_bits={self.exponent_bits}, mantissa_bits={self.mantissa_bits}"
            self.reject("c2", f"exponent_bits must be at least 1 and mantissa_bits at least 0, found {found}")
        return source.logical

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Rounds to nearest, ties to even; numbers beyond the range become infinities or zeros."""
        return casting.reduce_precision(operand, self.exponent_bits, self.mantissa_bits)

    examples = [
        example(Shape(F32, (3, 4)), exponent_bits=8, mantissa_bits=7),
        example(Shape(F32, (7,)), exponent_bits=5, mantissa_bits=10),
        example(Shape(BF16, (5,)), exponent_bits=4, mantissa_bits=3),
        example(Shape(F64), exponent_bits=8, mantissa_bits=23),
    ]


@op("stochastic-convert", operands="operand random", mixes_floats=True)
class StochasticConvert(Elementwise):
    """Converts floats to integers and rounds at random: away from zero with a probability equal to the
    fraction, else towards zero.

    `random` holds unsigned integers of the operand's width, in bits. An element is rounded away from zero if
    its fraction, times 2**width, is larger than the random integer. Numbers beyond the range saturate, NaN
    becomes 0.
    """

    shape: Shape

    def infer(self, operand: AnyShape, random: AnyShape) -> Shape:
        """Returns the declared shape. The random integers must be unsigned and as wide as the floats."""
        source, bits = arrays(self, operand, random)
        if not source.dtype.is_float:
            self.reject("c1", f"an array of floats is wanted, found {show(source)}")
        if not bits.dtype.is_unsigned or bits.dtype.bits != source.dtype.bits:
            message = f"unsigned random bits as wide as {show(source)} are wanted, found {show(bits)}"
            self.reject("c2", message)
        if not source.dims == bits.dims == self.shape.dims:
            self.reject("c3", f"dimensions must be the same, found {show((source, bits, self.shape))}")
        return self.shape

    def evaluate(self, operand: np.ndarray, random: np.ndarray) -> np.ndarray:
        """Rounds by comparing the fraction of each element with its random integer; UnsupportedError for a
        result that is not an integer.
        """
        return casting.stochastic_convert(operand, random, self.shape.dtype)

    examples = [
        example(Shape(F32, (3, 4)), Shape(U32, (3, 4)), shape=Shape(S8, (3, 4))),
        example(Shape(F16, (4,)), Shape(U16, (4,)), shape=Shape(S32, (4,))),
    ]
