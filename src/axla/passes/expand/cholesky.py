"""Cholesky factors by halves, down to blocks that are factored column by column.

[a  .] = [l 0] [l^H m^H]        l = factor(a),  m^H = solve(l, b^H),  n = factor(c - m m^H)
[b  c]   [m n] [0   n^H]
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.hlo import Cholesky
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes import matrix as mx
from axla.passes.expand.expander import expand, written
from axla.passes.expand.triangular import DiagonalBlock, Halves, Triangle, batched, block_size, solve, split


def cholesky_expander(module: Module) -> None:
    """Writes every cholesky as loops over blocks and dots."""
    expand(module, "cholesky-expander", {Cholesky: lambda inst: written(inst, _cholesky)})


def _cholesky(inst: Instruction, a: XlaOp) -> Sequence[XlaOp]:
    op, result = op_of(inst, Cholesky), shape_of(inst)
    if not result.size:
        return [mx.zeros(a.builder, result.dtype, result.dims)]
    a = batched(a, result.dtype)
    # Only one triangle is read; u^H u of the upper one is l l^H of its transpose.
    found = lower_factor(a if op.lower else mx.adjoint(a))
    # A pivot that is not positive leaves 0 or NaN on the diagonal.
    factor = mx.where(mx.every(mx.real(mx.diagonal(found)) > 0, 1), found, float("nan"))
    return [ops.Reshape(factor if op.lower else mx.adjoint(factor), result.dims)]


def lower_factor(a: XlaOp) -> XlaOp:
    """The lower factors of matrices [batch, rows, columns], read from their lower triangles. If a matrix is
    not positive definite, its factor is right up to the first diagonal element that is not positive.
    """
    return _whole(_factor(a, block_size(a.dims[1])))


def _factor(a: XlaOp, block: int) -> Triangle:
    """The lower factor of matrices, read from their lower triangles, computed by blocks of `block` rows."""
    size = a.dims[1]
    if size <= block:
        return DiagonalBlock(mx.repeat(size, [a], _next_column)[0])
    cut = split(size, block)
    first = _factor(a[:, :cut, :cut], block)
    above = solve(first, mx.adjoint(a[:, cut:, :cut]))
    below = mx.adjoint(above)
    rest = a[:, cut:, cut:] - mx.product(below, above)
    return Halves(first, below, _factor(rest, block))


def _whole(a: Triangle) -> XlaOp:
    """The whole matrix of a triangle that is given in parts, with zeros above the diagonal."""
    if isinstance(a, DiagonalBlock):
        return a.matrix
    first, last = _whole(a.first), _whole(a.last)
    above = mx.zeros(first.builder, first.dtype, (first.dims[0], a.first.size, a.last.size))
    return mx.joined([mx.joined([first, above], 2), mx.joined([a.below, last], 2)], 1)


def _next_column(at: XlaOp, a: XlaOp) -> Sequence[XlaOp]:
    """Computes column `at` of the factor in `a`, and subtracts its outer product with itself from the columns
    after it.
    """
    numbers, columns = mx.column(a, at), mx.indices(a, 2)
    rows, root = mx.indices(numbers, 1), ops.Sqrt(mx.real(mx.part(a, at, at, 1, 1)))
    found = mx.where(rows == at, mx.like(root, a), mx.where(rows > at, mx.over(numbers, root), 0.0))
    behind = mx.where(columns > at, a - found * mx.adjoint(found), a)
    return [mx.where(columns == at, found, behind)]
