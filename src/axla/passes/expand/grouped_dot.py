"""Rewrites ragged-dot and scaled-dot as plain dots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import F32, S64
from axla.core.shape import Shape
from axla.hlo import Broadcast, Dot, RaggedDot, ReduceWindow, ScaledDot
from axla.ir.attributes import Window
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.expander import expand, typed, written
from axla.passes.matrix import combiner, number, where


def ragged_dot_rewriter(module: Module) -> None:
    """Writes every ragged-dot as plain dots, in which rows that belong to no group, or to another group, are
    masked.
    """
    expand(module, "ragged-dot-rewriter", {RaggedDot: _ragged})


def scaled_dot_rewriter(module: Module) -> None:
    """Multiplies the operands of every scaled-dot by their scales, in f32 or a wider type, and makes it a
    plain dot.
    """
    expand(module, "scaled-dot-rewriter", {ScaledDot: lambda inst: written(inst, _scaled)})


def _ragged(inst: Instruction) -> Instruction:
    op, (lhs, rhs, _) = op_of(inst, RaggedDot), inst.operands
    if op.is_ragged_free:
        return written(inst, _by_rows, op)
    if not op.is_ragged_contracting:
        return op.dot(lhs, rhs)
    return written(inst, _by_sums, op)


def _by_rows(inst: Instruction, op: RaggedDot, lhs: XlaOp, rhs: XlaOp, sizes: XlaOp) -> Sequence[XlaOp]:
    """Multiplies every row by the rhs of every group, then keeps the product for the row's own group."""
    batch, result = op.lhs_batch_dims, shape_of(inst)
    rows, columns = op.lhs_free(len(lhs.dims)), op.rhs_free(len(rhs.dims))
    dims = [*(lhs.dims[d] for d in (*batch, *rows)), *(rhs.dims[d] for d in columns)]
    product = lhs.builder.add(replace(op.dot, shape=result.with_dims(dims)), (lhs, rhs))
    product = product if result.dtype.has_zero else typed(product, F32)
    place = {d: n for n, d in enumerate((*batch, *rows))}
    group = len(place) + columns.index(op.rhs_group_dims[0])
    kept = where(_mask(op, lhs, sizes, product, place, group), product, 0)
    return [ops.Reduce(kept, number(kept, 0), combiner("Add", kept.dtype), [group])]


def _by_sums(inst: Instruction, op: RaggedDot, lhs: XlaOp, rhs: XlaOp, sizes: XlaOp) -> Sequence[XlaOp]:
    """Repeats both operands for every group, with zeros for elements of other groups, and multiplies them."""
    sides = []
    for x, place in (
        (lhs, {d: d + 1 for d in range(len(lhs.dims))}),
        (rhs, {a: b + 1 for a, b in op.pairs}),
    ):
        copies = ops.Broadcast(x if x.dtype.has_zero else typed(x, F32), sizes.dims[-1:])
        sides.append(where(_mask(op, lhs, sizes, copies, place, 0), copies, 0))

    def behind(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d + 1 for d in dims)

    dot = Dot(
        shape_of(inst).logical, (0, *behind(op.lhs_batch_dims)), behind(op.lhs_contracting_dims),
        (0, *behind(op.rhs_batch_dims)), behind(op.rhs_contracting_dims), op.operand_precision,
    )  # fmt: skip
    return [lhs.builder.add(dot, sides)]


def _mask(op: RaggedDot, lhs: XlaOp, sizes: XlaOp, like: XlaOp, place: dict[int, int], group: int) -> XlaOp:
    """Whether each element of `like` belongs to the group that is its index along dimension `group`.
    Dimension d of lhs is dimension place[d] of `like`.
    """
    builder, shape, wide = lhs.builder, Shape(S64, like.dims), typed(sizes, S64)
    rank, count = len(sizes.dims), sizes.dims[-1]
    edge = (0,) * (rank - 1)
    window = Window((1,) * (rank - 1) + (max(count, 1),), low=(*edge, max(count - 1, 0)), high=(*edge, 0))
    add = builder.callee(combiner("Add", S64), "add")
    ends = builder.add(ReduceWindow(window, add), (wide, number(wide, 0)))
    prefix = op.prefix(len(lhs.dims))
    dimensions = (*(place[d] for d in prefix), group) if rank > 1 else (group,)
    at = ops.Iota(builder, shape, place[op.lhs_ragged_dims[0]])
    first, last = (builder.add(Broadcast(shape, dimensions), (x,)) for x in (ends - wide, ends))
    return (at >= first) & (at < last)


def _scaled(inst: Instruction, *given: XlaOp) -> Sequence[XlaOp]:
    op = op_of(inst, ScaledDot)
    lhs, rhs, *scales = (typed(x, op.wide) for x in given)
    sides = [_multiplied(x, s) for x, s in zip((lhs, rhs), scales, strict=True)]
    dot = replace(op.dot, shape=shape_of(inst).logical.with_dtype(op.wide))
    return [lhs.builder.add(dot, sides)]


def _multiplied(x: XlaOp, scale: XlaOp) -> XlaOp:
    """x with every block of elements multiplied by the scale of the block."""
    if not scale.dims:
        return x * scale
    split = [n for d, m in zip(x.dims, scale.dims, strict=True) for n in (m, d // m if m else 0)]
    return x * ops.Reshape(ops.BroadcastInDim(scale, split, range(0, len(split), 2)), x.dims)
