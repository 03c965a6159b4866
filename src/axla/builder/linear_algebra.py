"""Functions of the builder for Fourier transforms, triangular matrices and batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import axla.hlo as hlo
from axla.builder.coerce import integers, operands
from axla.builder.records import FftType, TriangularSolveOptions_Transpose
from axla.builder.xla_builder import XlaOp
from axla.core.errors import InvalidArgument
from axla.ir.attributes import FftType as Transform
from axla.ir.attributes import TransposeA


def Fft(operand: object, fft_type: FftType, fft_length: Sequence[int]) -> XlaOp:
    """The discrete Fourier transform over the last dimensions, of these lengths."""
    (value,) = operands("Fft", operand)
    if not isinstance(fft_type, FftType):
        raise InvalidArgument(f"Fft: found the type {fft_type!r}, wanted an FftType")
    return value.builder.add(hlo.Fft(Transform[fft_type.name], integers(fft_length, "fft_length")), (value,))


def Cholesky(a: object, lower: bool = True) -> XlaOp:
    """The triangular factor of Hermitian positive definite matrices: L of L L^H, or U of U^H U."""
    (value,) = operands("Cholesky", a)
    return value.builder.add(hlo.Cholesky(bool(lower)), (value,))


def TriangularSolve(
    a: object, b: object, left_side: bool, lower: bool, unit_diagonal: bool,
    transpose_a: TriangularSolveOptions_Transpose,
) -> XlaOp:  # fmt: skip
    """x with op(a) x = b, or x op(a) = b when not `left_side`; a is triangular."""
    values = operands("TriangularSolve", a, b)
    if (
        not isinstance(transpose_a, TriangularSolveOptions_Transpose)
        or transpose_a is TriangularSolveOptions_Transpose.TRANSPOSE_INVALID
    ):
        raise InvalidArgument(
            f"TriangularSolve: found transpose_a={transpose_a!r}, wanted NO_TRANSPOSE, TRANSPOSE or ADJOINT"
        )
    op = hlo.TriangularSolve(bool(left_side), bool(lower), bool(unit_diagonal), TransposeA[transpose_a.name])
    return values[0].builder.add(op, values)


def BatchNormTraining(
    operand: object, scale: object, offset: object, epsilon: float, feature_index: int
) -> XlaOp:
    """A tuple: the batch normalised by its own statistics, their mean and variance per feature."""
    values = operands("BatchNormTraining", operand, scale, offset)
    return values[0].builder.add(hlo.BatchNormTraining(float(epsilon), int(feature_index)), values)


def BatchNormInference(
    operand: object, scale: object, offset: object, mean: object, variance: object, epsilon: float,
    feature_index: int,
) -> XlaOp:  # fmt: skip
    """The batch normalised by given statistics per feature."""
    values = operands("BatchNormInference", operand, scale, offset, mean, variance)
    return values[0].builder.add(hlo.BatchNormInference(float(epsilon), int(feature_index)), values)


def BatchNormGrad(
    operand: object, scale: object, batch_mean: object, batch_var: object, grad_output: object,
    epsilon: float, feature_index: int,
) -> XlaOp:  # fmt: skip
    """A tuple: the gradients of BatchNormTraining by operand, scale and offset."""
    values = operands("BatchNormGrad", operand, scale, batch_mean, batch_var, grad_output)
    return values[0].builder.add(hlo.BatchNormGrad(float(epsilon), int(feature_index)), values)
