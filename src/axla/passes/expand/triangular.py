"""Triangular systems by halves, down to blocks that are solved row by row.

    [a 0] [x]   [p]         x = solve(a, p)
    [b c] [y] = [q]         y = solve(c, q - b x)

Nearly all of the work is then dots. The size of the first half is a power of two times the block size: few
different shapes, so few kernels. A matrix has at most MOST blocks, however large it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.dtypes import F32, DType
from axla.hlo import TriangularSolve
from axla.ir.attributes import TransposeA
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes import matrix as mx
from axla.passes.expand.expander import expand, typed, written

BLOCK_ROWS = range(16, 65)
"""The fewest and the most rows of a block that is solved row by row: a 16th of the matrix, within these
limits. In matrices of more than MOST * 64 rows blocks are larger.
"""

MOST = 128
"""The most blocks into which a matrix is divided, so that the program does not grow with its data."""

PANELS = 32
"""The most panels into which a matrix is divided."""

INVERTED = 128
"""The most rows of a part of the matrix that is inverted once, if there are ENOUGH right sides.

XLA does so too: results near the largest number overflow in both or in neither.
"""

ENOUGH = 16
"""The fewest right sides for which a part of the matrix is inverted."""


@dataclass(slots=True)
class DiagonalBlock:
    """A lower triangular block on the diagonal; elements above the diagonal are ignored."""

    matrix: XlaOp
    unit: bool = False
    inverse: XlaOp | None = None

    @property
    def size(self) -> int:
        """The number of rows and of columns of each matrix of the batch."""
        return self.matrix.dims[1]


@dataclass(slots=True)
class Halves:
    """A lower triangular matrix [first, 0; below, last]."""

    first: Triangle
    below: XlaOp
    last: Triangle
    inverse: XlaOp | None = None

    @property
    def size(self) -> int:
        """The number of rows and of columns of the whole matrix."""
        return self.first.size + self.last.size


Triangle = DiagonalBlock | Halves
Solver = Callable[[Triangle, XlaOp], XlaOp]


def triangular_solve_expander(module: Module) -> None:
    """Writes every triangular-solve as loops over blocks and dots."""
    expand(module, "triangular-solve-expander", {TriangularSolve: lambda inst: written(inst, _solution)})


def block_size(size: int) -> int:
    """The number of rows of a block for a matrix with `size` rows: a power of two."""
    usual = min(max(-(-size // 16), BLOCK_ROWS[0]), BLOCK_ROWS[-1])
    return 1 << (max(usual, -(-size // MOST)) - 1).bit_length()


def panel_size(size: int) -> int:
    """The number of columns of a panel for a matrix with `size` columns: one of a few values."""
    return max(block_size(size), 1 << (-(-size // PANELS) - 1).bit_length())


def split(size: int, block: int) -> int:
    """The index at which a matrix that is larger than a block is cut: a power of two times the block size."""
    return block << ((size - 1) // block).bit_length() - 1


def batched(x: XlaOp, dtype: DType) -> XlaOp:
    """Matrices with all leading dimensions merged to one. Their elements have the type `dtype`, or f32 if
    that has fewer than 32 bits.
    """
    wide = typed(x, dtype if dtype.bits >= 32 else F32)
    return ops.Reshape(wide, (prod(x.dims[:-2]), *x.dims[-2:]))


def lower_triangle(a: XlaOp, unit: bool, block: int) -> Triangle:
    """The lower triangles of matrices, in blocks of `block` rows. With `unit`, the diagonal counts as 1."""
    size = a.dims[1]
    if size <= block:
        return DiagonalBlock(a, unit)
    cut = split(size, block)
    first = lower_triangle(a[:, :cut, :cut], unit, block)
    last = lower_triangle(a[:, cut:, cut:], unit, block)
    return Halves(first, a[:, cut:, :cut], last)


def solve(a: Triangle, b: XlaOp) -> XlaOp:
    """Solves a x = b for x."""
    if b.dims[2] < ENOUGH or a.size > INVERTED or a.size == 1:
        return _substituted(a, b, solve)
    if a.inverse is None:
        a.inverse = by_substitution(a, mx.identity(b, a.size, a.size))
    return mx.product(a.inverse, b)


def by_substitution(a: Triangle, b: XlaOp) -> XlaOp:
    """Solves a x = b by substitution alone, without inverses."""
    return _substituted(a, b, by_substitution)


def _substituted(a: Triangle, b: XlaOp, solve_part: Solver) -> XlaOp:
    if isinstance(a, DiagonalBlock):
        return _by_rows(a, b)
    cut = a.first.size
    x = solve_part(a.first, b[:, :cut])
    return mx.joined([x, solve_part(a.last, b[:, cut:] - mx.product(a.below, x))], 1)


def _by_rows(a: DiagonalBlock, b: XlaOp) -> XlaOp:
    """Solves a x = b row by row: multiples of each solved row are subtracted from the rows below."""

    def step(at: XlaOp, matrix: XlaOp, x: XlaOp) -> Sequence[XlaOp]:
        rows, found = mx.indices(x, 1), mx.row(x, at)
        if not a.unit:
            found = found / mx.part(matrix, at, at, 1, 1)
        below = mx.where(rows > at, x - mx.column(matrix, at) * found, x)
        return matrix, mx.where(rows == at, found, below)

    return mx.repeat(a.size, [a.matrix, b], step)[1]


def _solution(inst: Instruction, a: XlaOp, b: XlaOp) -> Sequence[XlaOp]:
    op, result = op_of(inst, TriangularSolve), shape_of(inst)
    if not result.size:
        return [mx.zeros(a.builder, result.dtype, result.dims)]
    a, b = (batched(x, result.dtype) for x in (a, b))
    if op.transpose_a is TransposeA.ADJOINT:
        a = mx.conjugate(a)
    # x a = b is a^T x^T = b^T; the transpose of an upper triangle is a lower one, and a flipped one is too.
    transposed = op.left_side == (op.transpose_a is not TransposeA.NO_TRANSPOSE)
    a = mx.transposed(a) if transposed else a
    lower = op.lower != transposed
    b = b if op.left_side else mx.transposed(b)
    block = block_size(a.dims[1])
    if lower:
        x = solve(lower_triangle(a, op.unit_diagonal, block), b)
    else:
        flipped = ops.Rev(a, (1, 2))
        x = ops.Rev(solve(lower_triangle(flipped, op.unit_diagonal, block), ops.Rev(b, [1])), [1])
    return [ops.Reshape(x if op.left_side else mx.transposed(x), result.dims)]
