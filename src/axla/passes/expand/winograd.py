"""Convolutions with 3 by 3 windows by Winograd's F(2x2, 3x3) (Lavin and Gray, arXiv 1509.09308).

A tile of 2 by 2 results takes 16 products of transformed numbers instead of 36 products of the numbers
themselves. This is exact for real numbers only: an infinity makes its neighbours' results NaN. Rounding
errors are about as large as those of the sums (0.4 to 0.6 of them for sums of 288 products).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import axla.hlo as hlo
from axla.ir.attributes import PaddingConfig, SliceDims, Window
from axla.ir.graph import Instruction
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.expander import scalar
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.match import values_of

_INPUT = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_OUTPUT = ((1, 1, 1, 0), (0, 1, -1, -1))
_KERNEL = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])


def winograd(x: Instruction, kernel: Instruction, window: Window, places: Sequence[int]) -> Instruction:
    """The convolution of [batch, height, width, inputs] with [3, 3, inputs, outputs]; `places` is the number
    of window positions along height and width. The window has stride 1 and no dilation.
    """
    batch, *size, inputs = shape_of(x).dims
    outputs = shape_of(kernel).dims[-1]
    high, wide = tiles = [-(-n // 2) for n in places]
    ends = [2 * n + 2 - low - there for n, low, there in zip(tiles, window.low, size, strict=True)]
    zero = scalar(x.computation, shape_of(x).dtype, 0)
    x = hlo.Pad(PaddingConfig((0, *window.low, 0), (0, *ends, 0), (0, 0, 0, 0)))(x, zero)

    def seen(i: int, j: int) -> Instruction:
        limits = (batch, i + 2 * high - 1, j + 2 * wide - 1, inputs)
        return hlo.Slice(SliceDims((0, i, j, 0), limits, (1, 2, 2, 1)))(x)

    numbers = _transformed(_INPUT, [[seen(i, j) for j in range(4)] for i in range(4)])
    left = hlo.Concatenate((0,))(
        *(reshaped(v, [1, batch * high * wide, inputs]) for row in numbers for v in row)
    )
    right = _kernel(kernel)
    op = hlo.Dot.of(
        shape_of(left), shape_of(right), lhs_batch_dims=(0,), rhs_batch_dims=(0,), lhs_contracting_dims=(2,),
        rhs_contracting_dims=(1,),
    )  # fmt: skip
    product = op(left, right)

    def sums(k: int) -> Instruction:
        bounds = SliceDims((k, 0, 0), (k + 1, *shape_of(product).dims[1:]), (1, 1, 1))
        return reshaped(hlo.Slice(bounds)(product), [batch, high, 1, wide, 1, outputs])

    results = _transformed(_OUTPUT, [[sums(4 * i + j) for j in range(4)] for i in range(4)])
    whole = hlo.Concatenate((2,))(*(hlo.Concatenate((4,))(*row) for row in results))
    whole = reshaped(whole, [batch, 2 * high, 2 * wide, outputs])
    limits = (batch, *places, outputs)
    return (
        whole if shape_of(whole).dims == limits else hlo.Slice(SliceDims((0,) * 4, limits, (1,) * 4))(whole)
    )


def _kernel(kernel: Instruction) -> Instruction:
    """The transformed kernel array, [16, inputs, outputs]; computed at compile time if it is constant."""
    *_, inputs, outputs = shape_of(kernel).dims
    computation, dtype, matrix = kernel.computation, shape_of(kernel).dtype, np.kron(_KERNEL, _KERNEL)
    is_transposed = isinstance(kernel.op, hlo.Transpose)
    values = values_of(kernel.operands[0] if is_transposed else kernel)
    if values is not None:
        values = values.transpose(op_of(kernel, hlo.Transpose).dimensions) if is_transposed else values
        made = matrix @ values.reshape(9, -1).astype(np.float64)
        return computation.add(hlo.Constant.of(made.reshape(16, inputs, outputs), dtype))
    left, flat = computation.add(hlo.Constant.of(matrix, dtype)), reshaped(kernel, [9, inputs * outputs])
    op = hlo.Dot.of(shape_of(left), shape_of(flat), lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
    return reshaped(op(left, flat), [16, inputs, outputs])


def _transformed(
    rows: Sequence[Sequence[int]], values: Sequence[Sequence[Instruction]]
) -> list[list[Instruction]]:
    """The matrix product rows * values * transposed rows. `rows` is a matrix of -1, 0 and 1, `values` a
    matrix of instructions.
    """
    columns = [[_sum(row, column) for row in rows] for column in zip(*values, strict=True)]
    return [[_sum(row, line) for row in rows] for line in zip(*columns, strict=True)]


def _sum(signs: Sequence[int], values: Sequence[Instruction]) -> Instruction:
    """The sum of the values with the given signs; a sign of 0 omits the value. At least one sign must be
    1.
    """
    terms = sorted(
        ((sign, value) for sign, value in zip(signs, values, strict=True) if sign), key=lambda t: -t[0]
    )
    total = terms[0][1]
    for sign, value in terms[1:]:
        total = (hlo.Add() if sign > 0 else hlo.Subtract())(total, value)
    return total
