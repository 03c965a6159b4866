"""Triangular systems by halves, down to blocks that are solved row by row.

    [a 0] [x]   [p]         x = solve(a, p)
    [b c] [y] = [q]         y = solve(c, q - b x)

so that nearly all of the work is products of matrices. Halves are powers of two times the size of a block:
few different shapes, so few kernels. A matrix has at most BLOCKS blocks, however large it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from axla.core.dtypes import F32
from axla.core.literal import Literal
from axla.hlo import Constant, Divide, Multiply, Select, Subtract, TriangularSolve
from axla.ir.attributes import Direction, TransposeA
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import converted, expand, full, shape_of, spread
from axla.passes.expand.looping import repeated
from axla.passes.expand.matrices import (
    batched,
    column,
    conjugate,
    diagonal_element,
    flipped,
    part,
    product,
    reshaped,
    row,
    stacked,
    transposed,
    where,
)

BLOCK = 64
"""Rows of a block that is solved row by row, in matrices of up to BLOCKS * BLOCK rows."""

BLOCKS = 128
"""Blocks that a matrix is cut into, at most: the size of the program does not grow with that of the data."""

INVERTED = 128
"""Rows of a part whose inverse is made, once, when there are enough right sides.

XLA does so too: results near the largest number overflow in both or in neither."""

ENOUGH = 16
"""Right sides that are enough."""


@dataclass(slots=True)
class Block:
    """A lower triangular block on the diagonal; what is above the diagonal is not looked at."""

    matrix: Instruction
    unit: bool = False
    inverse: Instruction | None = None

    @property
    def size(self) -> int:
        return shape_of(self.matrix).dims[1]


@dataclass(slots=True)
class Halves:
    """A lower triangular matrix [first, 0; below, last]."""

    first: Triangle
    below: Instruction
    last: Triangle
    inverse: Instruction | None = None

    @property
    def size(self) -> int:
        return self.first.size + self.last.size


Triangle = Block | Halves
Solver = Callable[[Triangle, Instruction], Instruction]


def triangular_solve_expander(module: Module) -> None:
    """Writes every triangular-solve as loops over blocks and products."""
    expand(module, "triangular-solve-expander", {TriangularSolve: _solution})


def block_size(size: int) -> int:
    """Rows of the blocks of a matrix with `size` rows: a power of two."""
    return max(BLOCK, 1 << (-(-size // BLOCKS) - 1).bit_length())


def split(size: int, block: int) -> int:
    """Where to cut what is bigger than a block."""
    return block << ((size - 1) // block).bit_length() - 1


def lower_triangle(a: Instruction, unit: bool, block: int) -> Triangle:
    """The lower triangles of matrices, by blocks of `block` rows."""
    size = shape_of(a).dims[1]
    if size <= block:
        return Block(a, unit)
    cut = split(size, block)
    first = lower_triangle(part(a, (0, cut), (0, cut)), unit, block)
    last = lower_triangle(part(a, (cut, size), (cut, size)), unit, block)
    return Halves(first, part(a, (cut, size), (0, cut)), last)


def solve(a: Triangle, b: Instruction) -> Instruction:
    """x with a x = b."""
    if shape_of(b).dims[2] < ENOUGH or a.size > INVERTED or a.size == 1:
        return _substituted(a, b, solve)
    if a.inverse is None:
        shape = shape_of(b).with_dims((shape_of(b).dims[0], a.size, a.size)).logical
        ones = np.broadcast_to(np.eye(a.size), shape.dims).astype(shape.dtype.numpy)
        identity = b.computation.add(Constant(shape, Literal(shape, ones)))
        a.inverse = _by_substitution(a, identity)
    return product(a.inverse, b)


def _by_substitution(a: Triangle, b: Instruction) -> Instruction:
    """The same without inverses."""
    return _substituted(a, b, _by_substitution)


def _substituted(a: Triangle, b: Instruction, solve_part: Solver) -> Instruction:
    if isinstance(a, Block):
        return _by_rows(a, b)
    columns, cut = shape_of(b).dims[2], a.first.size
    x = solve_part(a.first, part(b, (0, cut), (0, columns)))
    rest = Subtract()(part(b, (cut, a.size), (0, columns)), product(a.below, x))
    return stacked([x, solve_part(a.last, rest)], 1)


def _by_rows(a: Block, b: Instruction) -> Instruction:
    """Row by row: what is found is taken from the rows below."""

    def step(at: Instruction, fixed: list[Instruction], changing: list[Instruction]) -> list[Instruction]:
        (matrix,), (x,) = fixed, changing
        shape, factors = shape_of(x), column(matrix, at)
        known = row(x, at)
        if not a.unit:
            known = Divide()(known, spread(diagonal_element(matrix, at), shape_of(known), (0,)))
        found = spread(known, shape, (0, 2))
        rest = Subtract()(x, Multiply()(spread(factors, shape, (0, 1)), found))
        lower = Select()(where(shape, 1, Direction.GT, at), rest, x)
        return [Select()(where(shape, 1, Direction.EQ, at), found, lower)]

    return repeated(a.size, [a.matrix], [b], step)[0]


def _solution(inst: Instruction) -> Instruction:
    op = inst.op
    assert isinstance(op, TriangularSolve)
    result = shape_of(inst)
    if not result.size:
        return full(inst.computation, result.logical, 0)
    wide = result.dtype if result.dtype.bits >= 32 else F32
    a, b = (batched(converted(x, wide)) for x in inst.operands)
    if op.transpose_a is TransposeA.ADJOINT:
        a = conjugate(a)
    # x a = b is a^T x^T = b^T; the transpose of an upper triangle is a lower one, and a flipped one is too.
    turned = op.left_side == (op.transpose_a is not TransposeA.NO_TRANSPOSE)
    a = transposed(a) if turned else a
    lower = op.lower != turned
    b = b if op.left_side else transposed(b)
    block = block_size(shape_of(a).dims[1])
    if lower:
        x = solve(lower_triangle(a, op.unit_diagonal, block), b)
    else:
        x = flipped(solve(lower_triangle(flipped(a, 1, 2), op.unit_diagonal, block), flipped(b, 1)), 1)
    x = x if op.left_side else transposed(x)
    return converted(reshaped(x, result.dims), result.dtype)
