"""Fourier transforms of lengths with large prime factors, as convolutions of lengths that are powers of two.

With w(k) = exp(-i pi k^2 / n), the transform of x is w(k) * sum over j of (x(j) w(j)) * conj(w(k - j)): a
convolution (Bluestein). Transforms of several axes that contain such a length are done axis by axis.
"""

from __future__ import annotations

import numpy as np

from axla.analysis.fourier import factors, transformed_lengths
from axla.core.dtypes import C64, F32, F64, U64, DType
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.hlo import (
    Complex,
    Concatenate,
    Constant,
    Cosine,
    Fft,
    Imag,
    Iota,
    Multiply,
    Negate,
    Pad,
    Real,
    Remainder,
    Reverse,
    Sine,
    Slice,
)  # fmt: skip
from axla.ir.attributes import FftType, PaddingConfig, SliceDims
from axla.ir.graph import Computation, Instruction, Module
from axla.passes.expand.convolution import turned
from axla.passes.expand.expander import converted, expand, full, scalar, shape_of, spread

MOST_CONSTANT = 1 << 16
"""The longest line whose factors are constants: a program does not grow with the size of its data."""


def fft_expander(module: Module) -> None:
    """Leaves transforms of lengths that have small factors only."""
    expand(module, "fft-expander", {Fft: _expanded})


def _expanded(inst: Instruction) -> Instruction | None:
    op = inst.op
    assert isinstance(op, Fft)
    shape = shape_of(inst)
    if not shape.size or not shape_of(inst.operands[0]).size:
        return full(inst.computation, shape.logical, 0)
    if all(factors(n) is not None for n in transformed_lengths(op.fft_type, op.fft_length)):
        return None
    (x,) = inst.operands
    axes = range(shape.rank - len(op.fft_length), shape.rank)
    inverse = op.fft_type in (FftType.IFFT, FftType.IRFFT)
    if op.fft_type is FftType.RFFT:
        x = Complex()(x, full(inst.computation, shape_of(x), 0))
    for d in axes:
        if d < shape.rank - 1 or op.fft_type is not FftType.IRFFT:
            x = _axis(x, d, inverse)
    if op.fft_type is FftType.RFFT:
        return _cut(x, shape.rank - 1, 0, shape.dims[-1])
    if op.fft_type is FftType.IRFFT:
        return Real()(_axis(_hermitian(x, op.fft_length[-1]), shape.rank - 1, inverse))
    return x


def _axis(x: Instruction, d: int, inverse: bool) -> Instruction:
    """The complex transform along dimension d."""
    rank = shape_of(x).rank
    order = [k for k in range(rank) if k != d] + [d]
    back = [order.index(k) for k in range(rank)]
    line = turned(x, order)
    length = shape_of(x).dims[d]
    if factors(length) is not None:
        found = Fft(FftType.IFFT if inverse else FftType.FFT, (length,))(line)
    elif inverse:
        found = _conjugate(_chirp(_conjugate(line)))
        found = Multiply()(found, full(found.computation, shape_of(found), 1.0 / length))
    else:
        found = _chirp(line)
    return turned(found, back)


def _chirp(x: Instruction) -> Instruction:
    """The transform of the last dimension."""
    shape, computation = shape_of(x), x.computation
    n = shape.dims[-1]
    size = 1 << (2 * n - 2).bit_length()
    tables = _constants if n <= MOST_CONSTANT else _computed
    line, kernel = tables(computation, shape.dtype, n, size)
    chirps = spread(line, shape.logical, (shape.rank - 1,))
    a = Multiply()(x, chirps)
    last = (0,) * (shape.rank - 1)
    padded = Pad(PaddingConfig((*last, 0), (*last, size - n)))(a, scalar(computation, shape.dtype, 0))
    spectrum = Fft(FftType.FFT, (size,))(padded)
    product = Multiply()(spectrum, spread(kernel, shape_of(spectrum), (shape.rank - 1,)))
    convolved = Fft(FftType.IFFT, (size,))(product)
    return Multiply()(_cut(convolved, shape.rank - 1, 0, n), chirps)


def _constants(computation: Computation, dtype: DType, n: int, size: int) -> tuple[Instruction, Instruction]:
    """w of 0 to n - 1, and the transform of conj(w) laid around a circle of `size` elements, as constants."""
    k = np.arange(n, dtype=np.int64)
    w = np.exp(-1j * np.pi * (k * k % (2 * n)) / n)
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = w.conj()
    kernel[size - n + 1 :] = w.conj()[:0:-1]
    literals = (Literal.of(line.astype(dtype.numpy), dtype) for line in (w, np.fft.fft(kernel)))
    line, spectrum = (computation.add(Constant(found.shape, found)) for found in literals)
    return line, spectrum


def _computed(computation: Computation, dtype: DType, n: int, size: int) -> tuple[Instruction, Instruction]:
    """`_constants`, computed when the program runs."""
    k = computation.add(Iota(Shape(U64, (n,)), 0))
    # k * k wraps from 2^32 on: such a line has 32 GiB and more.
    turns = Remainder()(Multiply()(k, k), full(computation, shape_of(k), 2 * n))
    angles = converted(turns, F64)
    angles = Multiply()(angles, full(computation, shape_of(angles), np.pi / n))
    part = F32 if dtype is C64 else F64
    conjugate = Complex()(converted(Cosine()(angles), part), converted(Sine()(angles), part))
    between = full(computation, Shape(dtype, (size - 2 * n + 1,)), 0)
    kernel = Concatenate((0,))(conjugate, between, Reverse((0,))(_cut(conjugate, 0, 1, n)))
    return _conjugate(conjugate), Fft(FftType.FFT, (size,))(kernel)


def _conjugate(x: Instruction) -> Instruction:
    return Complex()(Real()(x), Negate()(Imag()(x)))


def _cut(x: Instruction, d: int, start: int, end: int) -> Instruction:
    """Elements [start, end) of dimension d."""
    dims = shape_of(x).dims
    starts = tuple(start if k == d else 0 for k in range(len(dims)))
    ends = tuple(end if k == d else n for k, n in enumerate(dims))
    return Slice(SliceDims(starts, ends))(x)


def _hermitian(x: Instruction, length: int) -> Instruction:
    """All of a line whose transform is real (but for what the first value makes imaginary) from its first
    half.
    """
    d = shape_of(x).rank - 1
    rest = length - shape_of(x).dims[d]
    if not rest:
        return x
    mirrored = _conjugate(Reverse((d,))(_cut(x, d, 1, rest + 1)))
    return Concatenate((d,))(x, mirrored)
