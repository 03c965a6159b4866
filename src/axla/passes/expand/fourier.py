"""Fourier transforms of lengths with large prime factors, as convolutions of lengths that are powers of two.

With w(k) = exp(-i pi k^2 / n), the transform of x is w(k) * sum over j of (x(j) w(j)) * conj(w(k - j)): a
convolution (Bluestein). Transforms of several axes that include such a length are computed axis by axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.builder import ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import F64, U64, DType
from axla.hlo import Fft
from axla.ir.attributes import FftType
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.kernels.fft import factors, transformed_lengths
from axla.passes.expand.expander import expand, typed, written
from axla.passes.matrix import joined, zeros

MOST_CONSTANT = 1 << 16
"""The longest transform whose factors w are constants. For longer ones they are computed at run time, so that
a program does not grow with its data.
"""


def fft_expander(module: Module) -> None:
    """Replaces Fourier transforms that have a length with a large prime factor by convolutions of other
    lengths.
    """
    expand(module, "fft-expander", {Fft: _expanded})


def _expanded(inst: Instruction) -> Instruction | None:
    op = op_of(inst, Fft)
    some = shape_of(inst).size and shape_of(inst.operands[0]).size
    if some and all(factors(n) is not None for n in transformed_lengths(op.fft_type, op.fft_length)):
        return None
    return written(inst, _transformed, op)


def _transformed(inst: Instruction, op: Fft, x: XlaOp) -> Sequence[XlaOp]:
    shape = shape_of(inst)
    if not shape.size or not shape_of(inst.operands[0]).size:
        return [zeros(x.builder, shape.dtype, shape.dims)]
    last = shape.rank - 1
    inverse = op.fft_type in (FftType.IFFT, FftType.IRFFT)
    if op.fft_type is FftType.RFFT:
        x = ops.Complex(x, ops.ZerosLike(x))
    for d in range(shape.rank - len(op.fft_length), shape.rank):
        if d < last or op.fft_type is not FftType.IRFFT:
            x = _axis(x, d, inverse)
    if op.fft_type is FftType.RFFT:
        x = x[..., : shape.dims[-1]]
    if op.fft_type is FftType.IRFFT:
        x = ops.Real(_axis(_hermitian(x, op.fft_length[-1]), last, inverse))
    return [x]


def _axis(x: XlaOp, d: int, inverse: bool) -> XlaOp:
    """The complex transform of `x` along dimension `d`, or the inverse transform if `inverse`."""
    order = [*(k for k in range(len(x.dims)) if k != d), d]
    line, length = ops.Transpose(x, order), x.dims[d]
    if factors(length) is not None:
        found = _transform(line, FftType.IFFT if inverse else FftType.FFT)
    elif inverse:
        found = ops.Conj(_chirp(ops.Conj(line))) * (1.0 / length)
    else:
        found = _chirp(line)
    return ops.Transpose(found, np.argsort(order).tolist())


def _transform(x: XlaOp, kind: FftType) -> XlaOp:
    """The complex transform of the last dimension, as an fft instruction."""
    return x.builder.add(Fft(kind, x.dims[-1:]), (x,))


def _chirp(x: XlaOp) -> XlaOp:
    """The complex transform of the last dimension by Bluestein's method."""
    last, n = len(x.dims) - 1, x.dims[-1]
    size = 1 << (2 * n - 2).bit_length()
    tables = _constants if n <= MOST_CONSTANT else _computed
    line, kernel = tables(x.builder, x.dtype, n, size)
    chirps = ops.BroadcastInDim(line, x.dims, [last])
    padded = ops.PadInDim(x * chirps, ops.Zero(x.builder, x.dtype), last, 0, size - n)
    spectrum = ops.Mul(_transform(padded, FftType.FFT), kernel, [last])
    return _transform(spectrum, FftType.IFFT)[..., :n] * chirps


def _constants(builder: XlaBuilder, dtype: DType, n: int, size: int) -> tuple[XlaOp, XlaOp]:
    """Returns the constants w(0)...w(n - 1), and the transform of conj(w), which is arranged periodically in
    `size` elements.
    """
    k = np.arange(n, dtype=np.int64)
    w = np.exp(-1j * np.pi * (k * k % (2 * n)) / n)
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = w.conj()
    kernel[size - n + 1 :] = w.conj()[:0:-1]
    return builder.constant(w, dtype), builder.constant(np.fft.fft(kernel), dtype)


def _computed(builder: XlaBuilder, dtype: DType, n: int, size: int) -> tuple[XlaOp, XlaOp]:
    """Returns the same as `_constants`, computed when the program runs."""
    k = ops.Iota(builder, U64, n)
    # k * k wraps for n > 2^32, which would take 32 GiB or more.
    angles = typed(k * k % (2 * n), F64) * (np.pi / n)
    conjugate = ops.Complex(*[typed(turn(angles), dtype.real) for turn in (ops.Cos, ops.Sin)])
    between = zeros(builder, dtype, [size - 2 * n + 1])
    kernel = joined([conjugate, between, ops.Rev(conjugate[1:], [0])], 0)
    return ops.Conj(conjugate), _transform(kernel, FftType.FFT)


def _hermitian(x: XlaOp, length: int) -> XlaOp:
    """Extends the first half of the spectrum of real data, along the last dimension, to all `length` values:
    value `length - k` is the conjugate of value k. The given values are kept, even if value 0 is not real.
    """
    last = len(x.dims) - 1
    rest = length - x.dims[last]
    return joined([x, ops.Conj(ops.Rev(x[..., 1 : rest + 1], [last]))], last) if rest else x
