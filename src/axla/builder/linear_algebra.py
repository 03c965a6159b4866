"""Builder functions for Fourier transforms, triangular matrices and batch normalization."""

from __future__ import annotations

from collections.abc import Sequence

import axla.hlo as hlo
from axla.builder.coerce import operands
from axla.builder.records import FftType, TriangularSolveOptions_Transpose
from axla.builder.values import boolean, booleans, integer, integers, member, real
from axla.builder.xla_builder import XlaOp
from axla.core.errors import InvalidArgument
from axla.ir.attributes import FftType as Transform
from axla.ir.attributes import TransposeA


def Fft(operand: object, fft_type: FftType, fft_length: Sequence[int]) -> XlaOp:
    """The discrete Fourier transform over the last `len(fft_length)` dimensions. `fft_length` are the lengths
    of the transform.
    """
    (value,) = operands("Fft", operand)
    transform = Transform[member(FftType, fft_type, "Fft: fft_type").name]
    return value.builder.add(hlo.Fft(transform, integers(fft_length, "Fft: fft_length")), (value,))


def Cholesky(a: object, lower: bool = True) -> XlaOp:
    """The triangular Cholesky factor of Hermitian positive definite matrices: L with a = L L^H if `lower`,
    else U with a = U^H U.
    """
    (value,) = operands("Cholesky", a)
    return value.builder.add(hlo.Cholesky(boolean(lower, "Cholesky: lower")), (value,))


def TriangularSolve(
    a: object, b: object, left_side: bool, lower: bool, unit_diagonal: bool,
    transpose_a: TriangularSolveOptions_Transpose,
) -> XlaOp:  # fmt: skip
    """Solves op(a) x = b for x, or x op(a) = b if not `left_side`. `a` is lower triangular if `lower`, else
    upper triangular; its diagonal counts as ones if `unit_diagonal`. `transpose_a` selects op.
    """
    values = operands("TriangularSolve", a, b)
    what = "TriangularSolve: transpose_a"
    transpose = member(TriangularSolveOptions_Transpose, transpose_a, what)
    if transpose is TriangularSolveOptions_Transpose.TRANSPOSE_INVALID:
        raise InvalidArgument(f"{what}: found {transpose!r}, wanted NO_TRANSPOSE, TRANSPOSE or ADJOINT")
    what = "TriangularSolve: left_side, lower, unit_diagonal"
    left_side, lower, unit_diagonal = booleans((left_side, lower, unit_diagonal), what)
    op = hlo.TriangularSolve(left_side, lower, unit_diagonal, TransposeA[transpose.name])
    return values[0].builder.add(op, values)


def BatchNormTraining(
    operand: object, scale: object, offset: object, epsilon: float, feature_index: int
) -> XlaOp:
    """Normalizes the operand by its own mean and variance per feature, multiplies by `scale`, and adds
    `offset`. Returns a tuple (result, mean, variance).
    """
    return _batch_norm(hlo.BatchNormTraining, epsilon, feature_index, operand, scale, offset)


def BatchNormInference(
    operand: object, scale: object, offset: object, mean: object, variance: object, epsilon: float,
    feature_index: int,
) -> XlaOp:  # fmt: skip
    """Normalizes the operand by a given mean and variance per feature, multiplies by `scale`, and adds
    `offset`.
    """
    given = (operand, scale, offset, mean, variance)
    return _batch_norm(hlo.BatchNormInference, epsilon, feature_index, *given)


def BatchNormGrad(
    operand: object, scale: object, batch_mean: object, batch_var: object, grad_output: object,
    epsilon: float, feature_index: int,
) -> XlaOp:  # fmt: skip
    """Returns a tuple: the gradients of BatchNormTraining with respect to operand, scale and offset."""
    given = (operand, scale, batch_mean, batch_var, grad_output)
    return _batch_norm(hlo.BatchNormGrad, epsilon, feature_index, *given)


def _batch_norm(kind: type, epsilon: object, feature_index: object, *given: object) -> XlaOp:
    what = kind.__name__
    values = operands(what, *given)
    op = kind(real(epsilon, f"{what}: epsilon"), integer(feature_index, f"{what}: feature_index"))
    return values[0].builder.add(op, values)
