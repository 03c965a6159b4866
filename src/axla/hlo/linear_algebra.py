"""Ops of linear algebra: fft, cholesky, triangular-solve, and batch normalization."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import C64, C128, F32, F64, from_numpy
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.family import COMPLEX_OF, FLOAT, INEXACT, arrays, same_dtype, show
from axla.hlo.numeric import widened
from axla.ir.attributes import FftType, Single, TransposeA
from axla.ir.op import Op, attr, example, op

_PRODUCTS_OF_COMPLEX = 4


@op("fft", operands="operand", expensive=True)
class Fft(Op):
    """The discrete Fourier transform over the last dimensions: forward (FFT), inverse (IFFT), real to complex
    (RFFT) or complex to real (IRFFT).

    `fft_length` holds the lengths of the signal in one to three last dimensions. The result of RFFT and the
    operand of IRFFT have n / 2 + 1 frequencies in the last dimension for a length n. Inverse transforms
    divide by the number of elements of the signal.
    """

    fft_type: FftType
    fft_length: tuple[int, ...]

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the operand's shape with the dtype and the sizes of the last dimensions that result from
        `fft_type`.
        """
        (source,) = arrays(self, operand)
        lengths, rank = self.fft_length, len(self.fft_length)
        real = self.fft_type is FftType.RFFT
        if not 1 <= rank <= 3 or rank > source.rank or any(n < 0 for n in lengths):
            self.reject("c1", f"fft_length={lengths} must be 1 to 3 lengths for {show(source)}")
        if source.dtype not in ((F32, F64) if real else (C64, C128)):
            message = f"{self.fft_type} needs {'f32 or f64' if real else 'c64 or c128'}, found {show(source)}"
            self.reject("c2", message)
        halved = (*lengths[:-1], lengths[-1] // 2 + 1 if lengths[-1] else 0)
        wanted = halved if self.fft_type is FftType.IRFFT else lengths
        if source.dims[source.rank - rank :] != wanted and source.size:
            given = f"{self.fft_type} of fft_length={lengths}"
            self.reject("c3", f"{given} needs last dimensions {wanted}, found {show(source)}")
        dtype, dims = source.dtype, lengths
        if real:
            dtype, dims = COMPLEX_OF[dtype], halved
        elif self.fft_type is FftType.IRFFT:
            dtype = dtype.real
        if not source.size and source.dims[source.rank - rank :] != wanted:
            dims = source.dims[source.rank - rank :]
        return Shape(dtype, (*source.dims[: source.rank - rank], *dims), source.dynamic)

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts a complex product (4 multiplications and additions, of 2 operations each) in each of
        log2(length) steps for each element.
        """
        steps = sum(int(log2(length)) for length in self.fft_length if length > 0)
        return 2 * _PRODUCTS_OF_COMPLEX * steps * max(result.size, operands[0].size)

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Transforms with NumPy; if operand or result is empty, returns zeros."""
        axes = tuple(range(operand.ndim - len(self.fft_length), operand.ndim))
        wanted = self.infer(Shape(from_numpy(operand.dtype), operand.shape))
        if not operand.size or not wanted.size:
            return np.zeros(wanted.dims, wanted.dtype.numpy)
        result = _FFT[self.fft_type](operand, self.fft_length, axes)
        return np.asarray(result).astype(wanted.dtype.numpy)

    examples = [
        example(Shape(C64, (2, 4)), fft_type=FftType.FFT, fft_length=(4,)),
        example(Shape(C128, (3, 4)), fft_type=FftType.IFFT, fft_length=(3, 4)),
        example(Shape(F32, (2, 5)), fft_type=FftType.RFFT, fft_length=(5,)),
        example(Shape(C64, (3, 4)), fft_type=FftType.IRFFT, fft_length=(3, 6)),
    ]


_FFT = {
    FftType.FFT: np.fft.fftn,
    FftType.IFFT: np.fft.ifftn,
    FftType.RFFT: np.fft.rfftn,
    FftType.IRFFT: np.fft.irfftn,
}


def _matrices(self: Op, source: Shape) -> None:
    same_dtype(self, (source,), INEXACT)
    if source.rank < 2 or source.dims[-1] != source.dims[-2]:
        self.reject("square", f"square matrices are wanted, found {show(source)}")


@op("cholesky", operands="operand", expensive=True, message="cholesky_options")
class Cholesky(Op):
    """The Cholesky factor of each matrix a of the operand: the lower triangular L with a = L L^H if `lower`,
    else the upper triangular U with a = U^H U.

    Only the lower (or upper) triangle of a is read, and the other triangle of the result is 0. The factor of
    a matrix that is not positive definite is all NaN.
    """

    lower: bool = False

    def infer(self, operand: AnyShape) -> Shape:
        """Returns the operand's shape: an array of square matrices of floats or complex numbers."""
        (source,) = arrays(self, operand)
        _matrices(self, source)
        return source.logical

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts n / 3 operations for each element of an n x n matrix."""
        return result.size * result.dims[-1] // 3

    def evaluate(self, operand: np.ndarray) -> np.ndarray:
        """Factors each matrix; the factor of one that is not positive definite is NaN."""
        a = widened(operand)
        lower = np.tril(a) if self.lower else np.conj(np.swapaxes(np.triu(a), -1, -2))
        # NumPy reads only the lower triangle, so that the upper one need not be mirrored.
        result = np.empty_like(lower)
        for at in np.ndindex(*lower.shape[:-2]):
            try:
                result[at] = np.linalg.cholesky(lower[at])
            except np.linalg.LinAlgError:
                result[at] = np.nan
            # NumPy does not check for NaN, and a NaN can vanish next to an infinity.
            if np.isnan(lower[at]).any() or not (np.real(np.diagonal(result[at])) > 0).all():
                result[at] = np.nan
        return (result if self.lower else np.conj(np.swapaxes(result, -1, -2))).astype(operand.dtype)

    examples = [example(Shape(F32, (3, 3)), lower=True), example(Shape(F64, (2, 3, 3)))]


@op("triangular-solve", operands="a b", expensive=True, message="triangular_solve_options")
class TriangularSolve(Op):
    """The solution x of op(a) x = b if `left_side`, else of x op(a) = b, for triangular matrices a.

    Only the lower triangle of a is read if `lower`, else only the upper one; with `unit_diagonal` its
    diagonal counts as ones. op(a) is a itself, its transpose or its adjoint, by `transpose_a`. Leading
    dimensions are batch dimensions. A zero on the diagonal is divided by: the result has infinities and NaN,
    and there is no error.
    """

    left_side: bool = False
    lower: bool = False
    unit_diagonal: bool = False
    transpose_a: TransposeA = attr(always=True, default=TransposeA.NO_TRANSPOSE)

    def infer(self, a: AnyShape, b: AnyShape) -> Shape:
        """Returns the shape of `b`. Batch dimensions must be equal, and `b` must have the size of the matrix
        in the dimension that is solved for.
        """
        left, right = arrays(self, a, b)
        _matrices(self, left)
        same_dtype(self, (left, right))
        if right.rank != left.rank or left.dims[:-2] != right.dims[:-2]:
            self.reject("c1", f"ranks and batch dimensions must be equal, found {show((left, right))}")
        if right.dims[-2 if self.left_side else -1] != left.dims[-1]:
            self.reject("c2", f"b, {show(right)}, does not fit the matrix a, {show(left)}")
        return right.logical

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts two operations for each pair of an element of the result and a row of its matrix."""
        return 2 * result.size * operands[0].dims[-1]

    def evaluate(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Solves by substitution; reads one triangle of `a` only."""
        matrix = np.tril(widened(a)) if self.lower else np.triu(widened(a))
        if self.unit_diagonal:
            size = matrix.shape[-1]
            matrix[..., np.arange(size), np.arange(size)] = 1
        if self.transpose_a is not TransposeA.NO_TRANSPOSE:
            matrix = np.swapaxes(matrix, -1, -2)
        if self.transpose_a is TransposeA.ADJOINT:
            matrix = np.conj(matrix)
        lower = self.lower == (self.transpose_a is TransposeA.NO_TRANSPOSE)
        right = widened(b)
        if self.left_side:
            return substitute(matrix, right, lower).astype(b.dtype)
        solved = substitute(np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2), not lower)
        return np.swapaxes(solved, -1, -2).astype(b.dtype)

    examples = [
        example(Shape(F32, (3, 3)), Shape(F32, (3, 2)), left_side=True, lower=True),
        example(Shape(F64, (2, 3, 3)), Shape(F64, (2, 4, 3)), left_side=False, lower=False,
                unit_diagonal=True, transpose_a=TransposeA.TRANSPOSE),
        example(Shape(C64, (3, 3)), Shape(C64, (3, 2)), left_side=True, lower=False, unit_diagonal=False,
                transpose_a=TransposeA.ADJOINT),
    ]  # fmt: skip


def substitute(matrix: np.ndarray, b: np.ndarray, lower: bool) -> np.ndarray:
    """Solves matrix x = b row by row; the matrix is lower triangular if `lower`, else upper triangular."""
    x = np.zeros_like(b)
    size = matrix.shape[-1]
    for row in range(size) if lower else reversed(range(size)):
        known = slice(0, row) if lower else slice(row + 1, size)
        rest = b[..., row, :] - np.einsum("...k,...kj->...j", matrix[..., row, known], x[..., known, :])
        x[..., row, :] = rest / matrix[..., row, row, None]
    return x


@dataclass(frozen=True)
class _BatchNorm(Op):
    """The base of the three batch-norm ops. Each feature, an index along dimension `feature_index`, has a
    scale and an offset; mean and variance are taken over the other dimensions.
    """

    epsilon: Single
    feature_index: int

    expensive = True
    mixes_floats = True

    def _check(self, operand: AnyShape, features: tuple[AnyShape, ...]) -> tuple[Shape, Shape]:
        (source, *others) = arrays(self, operand, *features)
        index = self.feature_index
        same_dtype(self, (source,), FLOAT)
        if not 0 <= index < source.rank:
            self.reject("c1", f"feature_index={index} is not a dimension of {show(source)}")
        wanted = Shape(others[0].dtype, (source.dims[index],))
        if any(o.logical is not wanted for o in others) or not wanted.dtype.is_float:
            self.reject("c2", f"one float per feature of {show(source)} is wanted, found {show(others)}")
        return source, wanted

    def _along(self, x: np.ndarray, rank: int) -> np.ndarray:
        """A vector with one number per feature, reshaped to broadcast with an array of this rank."""
        index = self.feature_index
        return widened(x).reshape([-1 if d == index else 1 for d in range(rank)])

    def _others(self, rank: int) -> tuple[int, ...]:
        return tuple(d for d in range(rank) if d != self.feature_index)


@op("batch-norm-inference", operands="operand scale offset mean variance")
class BatchNormInference(_BatchNorm):
    """scale * (operand - mean) / sqrt(variance + epsilon) + offset, with one scale, offset, mean and variance
    for each feature: each index along dimension `feature_index`.
    """

    def infer(self, operand: AnyShape, *features: AnyShape) -> Shape:
        """Returns the operand's shape. The other operands must have one number for each feature."""
        return self._check(operand, features)[0].logical

    def evaluate(self, operand: np.ndarray, *features: np.ndarray) -> np.ndarray:
        """Normalizes by the given mean and variance."""
        scale, offset, mean, variance = (self._along(f, operand.ndim) for f in features)
        x = widened(operand)
        epsilon = x.dtype.type(self.epsilon)
        return ((x - mean) / np.sqrt(variance + epsilon) * scale + offset).astype(operand.dtype)

    examples = [example(Shape(F32, (4, 3)), *[Shape(F32, (3,))] * 4, epsilon=Single(0.001), feature_index=1)]


@op("batch-norm-training", operands="operand scale offset")
class BatchNormTraining(_BatchNorm):
    """Normalizes the operand as batch-norm-inference does, with the mean and the variance of the operand
    itself. The value is a tuple: the normalized array, the mean and the variance.
    """

    def infer(self, operand: AnyShape, *features: AnyShape) -> TupleShape:
        """Returns the tuple of the operand's shape and the shapes of mean and variance, which have one number
        for each feature.
        """
        source, feature = self._check(operand, features)
        return TupleShape((source.logical, feature, feature))

    def evaluate(self, operand: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> tuple[np.ndarray, ...]:
        """Normalizes by mean and variance over all dimensions except that of the features."""
        x, others = widened(operand), self._others(operand.ndim)
        count = x.size // max(1, x.shape[self.feature_index])
        mean = x.sum(others, x.dtype) / count
        variance = np.square(x - self._along(mean, x.ndim)).sum(others, x.dtype) / count
        mean, variance = mean.astype(scale.dtype), variance.astype(scale.dtype)
        inference = BatchNormInference(self.epsilon, self.feature_index)
        return inference.evaluate(operand, scale, offset, mean, variance), mean, variance

    examples = [
        example(Shape(F32, (4, 3, 2)), *[Shape(F32, (3,))] * 2, epsilon=Single(0.001), feature_index=1)
    ]


@op("batch-norm-grad", operands="operand scale mean variance grad_output")
class BatchNormGrad(_BatchNorm):
    """The gradients of batch-norm-training, as a tuple: with respect to operand, scale and offset."""

    def infer(self, operand: AnyShape, *rest: AnyShape) -> TupleShape:
        """Returns the tuple of the operand's shape and the shapes of the gradients with respect to scale and
        offset.
        """
        source, feature = self._check(operand, rest[:-1])
        if rest[-1].logical is not source.logical:
            self.reject("c3", f"grad_output must be {show(source)}, found {show(rest[-1])}")
        return TupleShape((source.logical, feature, feature))

    def evaluate(self, operand: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
        """Computes the three gradients from the mean and the variance of the forward pass."""
        rank, others = operand.ndim, self._others(operand.ndim)
        scale, mean, variance = (self._along(f, rank) for f in rest[:3])
        x, grad = widened(operand), widened(rest[3])
        count = x.dtype.type(max(1, x.size // max(1, x.shape[self.feature_index])))
        deviation = 1 / np.sqrt(variance + x.dtype.type(self.epsilon))
        centred = x - mean
        of_offset, products = grad.sum(others), (grad * centred).sum(others)
        of_scale = products * deviation.reshape(products.shape)
        correlated = self._along(products, rank) / (variance + x.dtype.type(self.epsilon))
        inner = count * grad - self._along(of_offset, rank) - centred * correlated
        of_operand = scale * deviation / count * inner
        kind = rest[0].dtype
        return of_operand.astype(operand.dtype), of_scale.astype(kind), of_offset.astype(kind)

    examples = [
        example(Shape(F32, (4, 3, 2)), *[Shape(F32, (3,))] * 3, Shape(F32, (4, 3, 2)),
                epsilon=Single(0.001), feature_index=1),
    ]  # fmt: skip
