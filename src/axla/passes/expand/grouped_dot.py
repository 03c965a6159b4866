"""ragged-dot and scaled-dot as plain dots."""

from __future__ import annotations

from dataclasses import replace

from axla.core.dtypes import F32, S64
from axla.core.shape import Shape
from axla.hlo import (
    And,
    Broadcast,
    Compare,
    Dot,
    Iota,
    Multiply,
    RaggedDot,
    Reduce,
    ReduceWindow,
    Reshape,
    ScaledDot,
    Select,
    Subtract,
)
from axla.ir.attributes import Direction, Window
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


def ragged_dot_rewriter(module: Module) -> None:
    """Writes every ragged-dot as a dot of which what is in no group, or in another, is masked."""
    expand(module, "ragged-dot-rewriter", {RaggedDot: _ragged})


def scaled_dot_rewriter(module: Module) -> None:
    """Multiplies the operands of every scaled-dot by their scales, in f32 or better, and makes it a dot."""
    expand(module, "scaled-dot-rewriter", {ScaledDot: _scaled})


def _ragged(inst: Instruction) -> Instruction:
    op, (lhs, rhs, _) = inst.op, inst.operands
    assert isinstance(op, RaggedDot)
    if op.is_ragged_free:
        return _by_rows(inst, op)
    if not op.is_ragged_contracting:
        return op.dot(lhs, rhs)
    return _by_sums(inst, op)


def _by_rows(inst: Instruction, op: RaggedDot) -> Instruction:
    """Every row with the rhs of every group; of those the row's own is kept."""
    lhs, rhs, _ = inst.operands
    left, right, result = shape_of(lhs), shape_of(rhs), shape_of(inst)
    batch = op.lhs_batch_dims
    rows = [d for d in range(left.rank) if d not in (*batch, *op.lhs_contracting_dims)]
    columns = [d for d in range(right.rank) if d not in (*op.rhs_batch_dims, *op.rhs_contracting_dims)]
    dims = [*(left.dims[d] for d in (*batch, *rows)), *(right.dims[d] for d in columns)]
    product = replace(op.dot, shape=result.with_dims(dims))(lhs, rhs)
    if not result.dtype.has_zero:
        product = converted(product, F32)
    place = {d: n for n, d in enumerate((*batch, *rows))}
    group = len(place) + columns.index(op.rhs_group_dims[0])
    mask = _mask(inst, op, product, place, group)
    kept = Select()(mask, product, full(inst.computation, shape_of(product), 0))
    dtype = shape_of(kept).dtype
    add = binary_computation(inst.computation.module, "add", dtype)
    return converted(Reduce((group,), add)(kept, scalar(inst.computation, dtype, 0)), result.dtype)


def _by_sums(inst: Instruction, op: RaggedDot) -> Instruction:
    """Both operands once for every group, with zeros for what belongs to the others."""
    lhs, rhs, sizes = inst.operands
    groups = shape_of(sizes).dims[-1]
    own = (*op.lhs_batch_dims, *op.lhs_contracting_dims)
    theirs = (*op.rhs_batch_dims, *op.rhs_contracting_dims)
    sides = []
    for x, place in (
        (lhs, {d: d + 1 for d in range(shape_of(lhs).rank)}),
        (rhs, {a: b + 1 for a, b in zip(own, theirs, strict=True)}),
    ):
        x = x if shape_of(x).dtype.has_zero else converted(x, F32)
        shape = shape_of(x)
        wide = shape.with_dims((groups, *shape.dims))
        copies = Broadcast(wide, tuple(range(1, wide.rank)))(x)
        mask = _mask(inst, op, copies, place, 0)
        sides.append(Select()(mask, copies, full(inst.computation, wide, 0)))

    def behind(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(d + 1 for d in dims)

    dot = Dot(
        shape_of(inst).logical, (0, *behind(op.lhs_batch_dims)), behind(op.lhs_contracting_dims),
        (0, *behind(op.rhs_batch_dims)), behind(op.rhs_contracting_dims), op.operand_precision,
    )  # fmt: skip
    return dot(*sides)


def _mask(
    inst: Instruction, op: RaggedDot, like: Instruction, place: dict[int, int], group: int
) -> Instruction:
    """Which elements of `like` belong to their group: dimension d of lhs is its dimension place[d]."""
    sizes, computation = inst.operands[2], inst.computation
    shape = Shape(S64, shape_of(like).dims)
    known = Shape(S64, shape_of(sizes).dims)
    wide = converted(sizes, S64)
    last, count = known.rank - 1, known.dims[-1]
    window = Window(
        (1,) * last + (max(count, 1),), low=(0,) * last + (max(count - 1, 0),), high=(0,) * known.rank
    )
    add = binary_computation(computation.module, "add", S64)
    ends = ReduceWindow(window, add)(wide, scalar(computation, S64, 0))
    starts = Subtract()(ends, wide)
    prefix = op.prefix(shape_of(inst.operands[0]).rank)
    dimensions = (*(place[d] for d in prefix), group) if known.rank > 1 else (group,)
    at = computation.add(Iota(shape, place[op.lhs_ragged_dims[0]]))
    behind = Compare(Direction.GE)(at, Broadcast(shape, dimensions)(starts))
    before = Compare(Direction.LT)(at, Broadcast(shape, dimensions)(ends))
    return And()(behind, before)


def _scaled(inst: Instruction) -> Instruction:
    op, (lhs, rhs, *scales) = inst.op, inst.operands
    assert isinstance(op, ScaledDot)
    shape = shape_of(inst).logical.with_dtype(op.wide)
    sides = [
        _multiplied(converted(x, op.wide), converted(s, op.wide))
        for x, s in zip((lhs, rhs), scales, strict=True)
    ]
    return converted(replace(op.dot, shape=shape)(*sides), shape_of(inst).dtype)


def _multiplied(x: Instruction, scale: Instruction) -> Instruction:
    """x with every block of elements multiplied by its scale."""
    shape, blocks = shape_of(x), shape_of(scale).dims
    if not blocks:
        return Multiply()(x, spread(scale, shape))
    split = [n for d, m in zip(shape.dims, blocks, strict=True) for n in (m, d // m if m else 0)]
    wide = Broadcast(shape.with_dims(split), tuple(range(0, 2 * shape.rank, 2)))(scale)
    return Multiply()(x, Reshape(shape.logical)(wide))
