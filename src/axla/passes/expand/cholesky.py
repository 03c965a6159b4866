"""Cholesky factors by halves, down to blocks that are factored column by column.

[a  .] = [l 0] [l^H m^H]        l = factor(a),  m^H = solve(l, b^H),  n = factor(c - m m^H)
[b  c]   [m n] [0   n^H]
"""

from __future__ import annotations

from axla.core.dtypes import F32
from axla.hlo import (
    And,
    Cholesky,
    Compare,
    Complex,
    Multiply,
    Real,
    Reduce,
    Select,
    Slice,
    Sqrt,
    Subtract,
)
from axla.ir.attributes import Direction, SliceDims
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import (
    binary_computation,
    converted,
    expand,
    full,
    scalar,
    shape_of,
    spread,
)
from axla.passes.expand.looping import repeated
from axla.passes.expand.matrices import (
    batched,
    column,
    conjugate,
    diagonal_element,
    divided,
    part,
    product,
    reshaped,
    stacked,
    transposed,
    where,
)
from axla.passes.expand.triangular import Block, Halves, Triangle, block_size, solve, split


def cholesky_expander(module: Module) -> None:
    """Writes every cholesky as loops over blocks and products."""
    expand(module, "cholesky-expander", {Cholesky: _cholesky})


def _cholesky(inst: Instruction) -> Instruction:
    op = inst.op
    assert isinstance(op, Cholesky)
    result = shape_of(inst)
    if not result.size:
        return full(inst.computation, result.logical, 0)
    a = batched(converted(inst.operands[0], result.dtype if result.dtype.bits >= 32 else F32))
    # Only one triangle counts; u^H u of the upper one is l l^H of its transpose.
    a = a if op.lower else conjugate(transposed(a))
    found = lower_factor(a)
    nowhere = full(found.computation, shape_of(found), float("nan"))
    factor = Select()(spread(_is_positive(found), shape_of(found), (0,)), found, nowhere)
    factor = factor if op.lower else conjugate(transposed(factor))
    return converted(reshaped(factor, result.dims), result.dtype)


def lower_factor(a: Instruction) -> Instruction:
    """The lower factor of matrices [batch, rows, columns], from their lower triangles. Where there is none,
    it is right up to the first element of the diagonal that is not positive.
    """
    return _joined(_factor(a, block_size(shape_of(a).dims[1])))


def _factor(a: Instruction, block: int) -> Triangle:
    """The lower factor, from the lower triangle, by blocks of `block` rows."""
    size = shape_of(a).dims[1]
    if size <= block:
        return Block(_by_columns(a))
    cut = split(size, block)
    first = _factor(part(a, (0, cut), (0, cut)), block)
    above = solve(first, conjugate(transposed(part(a, (cut, size), (0, cut)))))
    below = conjugate(transposed(above))
    rest = Subtract()(part(a, (cut, size), (cut, size)), product(below, above))
    return Halves(first, below, _factor(rest, block))


def _joined(a: Triangle) -> Instruction:
    """The matrix; zero above the diagonal."""
    if isinstance(a, Block):
        return a.matrix
    first, last = _joined(a.first), _joined(a.last)
    batch, cut, rest = shape_of(first).dims[0], a.first.size, a.last.size
    above = full(first.computation, shape_of(first).with_dims((batch, cut, rest)).logical, 0)
    return stacked([stacked([first, above], 2), stacked([a.below, last], 2)], 1)


def _by_columns(a: Instruction) -> Instruction:
    """Column by column: a column that is found is taken, times itself, from those behind it."""

    def step(at: Instruction, _: list[Instruction], changing: list[Instruction]) -> list[Instruction]:
        (a,) = changing
        shape, numbers = shape_of(a), column(a, at)
        line = shape_of(numbers)
        pivot = diagonal_element(a, at)
        root = Sqrt()(Real()(pivot) if line.dtype.is_complex else pivot)
        roots = spread(root, line, (0,))
        zeros = full(a.computation, shape_of(roots), 0)
        diagonal = Complex()(roots, zeros) if line.dtype.is_complex else roots
        below = Select()(
            where(line, 1, Direction.GT, at), divided(numbers, roots), full(a.computation, line, 0)
        )
        found = Select()(where(line, 1, Direction.EQ, at), diagonal, below)
        square = Multiply()(spread(found, shape, (0, 1)), spread(conjugate(found), shape, (0, 2)))
        behind = Select()(where(shape, 2, Direction.GT, at), Subtract()(a, square), a)
        return [Select()(where(shape, 2, Direction.EQ, at), spread(found, shape, (0, 1)), behind)]

    return repeated(shape_of(a).dims[1], [], [a], step)[0]


def _is_positive(factor: Instruction) -> Instruction:
    """Per matrix, whether all of the diagonal is: a pivot without a root leaves 0 or NaN there."""
    batch, size, _ = shape_of(factor).dims
    computation = factor.computation
    step = SliceDims((0, 0), (batch, size * size), (1, size + 1))
    numbers = Slice(step)(reshaped(factor, (batch, size * size)))
    numbers = Real()(numbers) if shape_of(numbers).dtype.is_complex else numbers
    positive = Compare(Direction.GT)(numbers, full(computation, shape_of(numbers), 0))
    both = binary_computation(computation.module, And.opcode, shape_of(positive).dtype)
    return Reduce((1,), both)(positive, scalar(computation, shape_of(positive).dtype, True))
