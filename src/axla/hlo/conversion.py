"""Ops that change the element type: convert, bitcasts, reduce-precision, stochastic-convert."""

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
    """The same number in another element type.

    Floats to integers truncate, saturate, and take NaN to 0; integers to integers wrap; to pred: whether not
    0.
    """

    shape: Shape

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the declared shape, which must have the operand's dims; complex becomes complex only."""
        (source,) = arrays(self, operand)
        if source.dims != self.shape.dims:
            self.reject("c1", f"{show(source)} cannot become {show(self.shape)}: dimensions differ")
        if source.dtype.is_complex and not self.shape.dtype.is_complex:
            message = f"complex {show(source)} cannot become {show(self.shape)}; take real or imag first"
            self.reject("c2", message)
        return self.shape

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Converts as XLA does: what is out of an integer's range saturates, NaN becomes 0."""
        return casting.convert(operand, self.shape.dtype)

    examples = [
        example(Shape(of, (3, 4)), shape=Shape(to, (3, 4)))
        for of, to in [(F32, S32), (S32, F32), (F32, BF16), (F64, F16), (F32, PRED), (PRED, F32), (F32, U8),
                       (S32, S8), (F32, C64), (S4, S64)]
    ]  # fmt: skip


@op("bitcast-convert", operands="operand", moves=True, keeps_order=True, in_line=True)
class BitcastConvert(Op):
    """The same bits as another element type.

    Between different widths the last dimension holds the parts of an element, the lowest first: f32[3]
    becomes u8[3,4], and u8[3,4] becomes f32[3]. Complex numbers become complex ones only.
    """

    shape: Shape

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the declared shape: of as many bits, with a last dimension more or less
        where sizes differ.
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
            self.reject("c2", f"{show(source)} of {of} bits cannot become {show(result)} of {to} bits")
        return result

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Reads the bits of the elements as the other dtype."""
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
    """The memory of the operand, read as another shape and layout of the same number of bits.

    Compilers make it, for reshapes and transposes that move nothing. Unlike bitcast-convert it is about
    memory: the result depends on both layouts.
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
        """0: no memory is read or written."""
        return 0

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """The result for default layouts on both sides; other cases need the operand's layout, which arrays
        do not have.
        """
        return casting.reinterpret(operand, array(self.shape))

    examples = [
        example(Shape(F32, (2, 3)), shape=Shape(F32, (6,))),
        example(Shape(F32, (2, 2)), shape=Shape(S32, (4,))),
    ]


@op("reduce-precision", operands="operand")
class ReducePrecision(Elementwise):
    """The operand rounded to a float with `exponent_bits` and `mantissa_bits`, in its own type.

    Rounds to nearest, ties to even. What is too large becomes an infinity, what is below the normal numbers
    of that format a zero of the same sign; NaN stays. More bits than the type has change nothing.
    """

    exponent_bits: int
    mantissa_bits: int

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the operand's shape, which must be of floats."""
        (source,) = arrays(self, operand)
        if not source.dtype.is_float:
            self.reject("c1", f"floating-point is wanted, found {show(source)}")
        if self.exponent_bits < 1 or self.mantissa_bits < 0:
            found = f"exponent_bits={self.exponent_bits}, mantissa_bits={self.mantissa_bits}"
            self.reject("c2", f"at least 1 and 0 bits are wanted, found {found}")
        return source.logical

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Rounds to nearest, ties to even; values beyond the range become infinite or 0."""
        return casting.reduce_precision(operand, self.exponent_bits, self.mantissa_bits)

    examples = [
        example(Shape(F32, (3, 4)), exponent_bits=8, mantissa_bits=7),
        example(Shape(F32, (7,)), exponent_bits=5, mantissa_bits=10),
        example(Shape(BF16, (5,)), exponent_bits=4, mantissa_bits=3),
        example(Shape(F64), exponent_bits=8, mantissa_bits=23),
    ]


@op("stochastic-convert", operands="operand random", mixes_floats=True)
class StochasticConvert(Elementwise):
    """Converts floats to integers, rounding away from zero with the probability of the part cut off.

    `random` holds unsigned bits of the operand's width: an element is rounded away from zero where its
    fraction, as such a number, is larger. Out of range saturates, NaN gives 0.
    """

    shape: Shape

    def infer(self, operand: AnyShape, random: AnyShape) -> Shape:
        """Returns the declared shape; the random bits must be unsigned and as wide as the floats."""
        source, bits = arrays(self, operand, random)
        if not source.dtype.is_float:
            self.reject("c1", f"floating-point is wanted, found {show(source)}")
        if not bits.dtype.is_unsigned or bits.dtype.bits != source.dtype.bits:
            message = f"unsigned random bits as wide as {show(source)} are wanted, found {show(bits)}"
            self.reject("c2", message)
        if not source.dims == bits.dims == self.shape.dims:
            self.reject("c3", f"dimensions must be the same, found {show((source, bits, self.shape))}")
        return self.shape

    def evaluate(self, operand: np.ndarray, random: np.ndarray) -> np.ndarray:
        """Rounds by comparing what is cut off with the random bits."""
        return casting.stochastic_convert(operand, random, self.shape.dtype)

    examples = [
        example(Shape(F32, (3, 4)), Shape(U32, (3, 4)), shape=Shape(S8, (3, 4))),
        example(Shape(F16, (4,)), Shape(U16, (4,)), shape=Shape(S32, (4,))),
    ]
