"""Brings dots into one form: [batch, m, k] x [batch, k, n]. The last two dimensions of either operand may be
exchanged.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from axla.analysis.regions import is_tiny
from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.hlo import Dot, Reshape, Transpose
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.kernels.dot import dot_sizes
from axla.kernels.geometry import collapsed_transpose
from axla.passes.expand.expander import expand
from axla.passes.layout.normalize import location, reshaped
from axla.passes.rewrite import control_bound, current_session, sweep
from axla.target.machine import Limits, Target

FEW_ROWS = 8


def dot_exchange(module: Module, target: Target) -> None:
    """Swaps the operands of dots whose result is transposed so that a dimension of the left operand becomes
    the last.
    """
    session = current_session()
    for computation in module.computations:
        bound = control_bound(computation)
        for inst in [i for i in computation.instructions if isinstance(i.op, Transpose)]:
            order = _order_of_turned_dot(inst, target.limits, bound)
            if order and session.may_fire("dot-exchange", inst):
                computation.replace(inst, _exchanged(inst, order))
                sweep(computation, (inst,))


def dot_canonicalize(module: Module, target: Target) -> None:
    """Rewrites every dot that becomes a kernel so that each operand has at most one batch, one free and one
    contracting dimension.
    """
    expand(module, "dot-canonicalize", {Dot: partial(_canonical, limits=target.limits)})


def _order_of_turned_dot(
    inst: Instruction, limits: Limits, bound: Container[Instruction]
) -> list[int] | None:
    """The order of dimensions that the transpose `inst` gives to the result of a dot, if the operands should
    be swapped; else None. They should be swapped if the dot has no other user, if the last dimension after
    the transpose comes from the left operand, and if the swap leaves only whole rows to be moved. A dot of
    few rows with a matrix that is stored in the best order stays: it takes half as long unswapped.
    Instructions in `bound` stay, too.
    """
    (dot,), order = inst.operands, op_of(inst, Transpose).dimensions
    if isinstance(dot.op, Reshape) and len(dot.users) == 1:
        longer, (dot,) = shape_of(dot).dims, dot.operands
        sizes = shape_of(dot).dims if isinstance(dot.op, Dot) else ()
        if [n for n in longer if n != 1] != [n for n in sizes if n != 1]:
            return None
        kept = iter(d for d, n in enumerate(sizes) if n != 1)
        place = {d: next(kept) for d, n in enumerate(longer) if n != 1}
        order = tuple(place[d] for d in order if d in place)
    op = dot.op
    if not isinstance(op, Dot) or op.sparsity or len(dot.operands) != 2 or len(dot.users) != 1:
        return None
    if any(one in bound for one in (inst, *inst.operands, dot)):
        return None
    first, second = _free_dims(dot)
    sizes = shape_of(dot).dims
    rows, columns = (prod(sizes[d] for d in side) for side in (first, second))
    longer_than_one = [d for d in order if sizes[d] != 1]
    if min(rows, columns) <= 1 or longer_than_one[-1] not in first:
        return None
    inner = len(op.rhs_contracting_dims)
    is_best = 1 < rows <= FEW_ROWS < columns and set(op.rhs_contracting_dims) == set(range(inner))
    return (
        None
        if is_best and not is_tiny(dot, limits)
        else [*(d for d, n in enumerate(sizes) if n == 1), *longer_than_one]
    )


def _free_dims(dot: Instruction) -> tuple[range, range]:
    """The dimensions of a dot's result that come from its left operand, and those from its right operand."""
    op, rank = op_of(dot, Dot), shape_of(dot).rank
    batches = len(op.lhs_batch_dims)
    middle = batches + len(op.lhs_free(shape_of(dot.operands[0]).rank))
    return range(batches, middle), range(middle, rank)


def _exchanged(inst: Instruction, order: Sequence[int]) -> Instruction:
    """The transposed result of a dot, computed with swapped operands. `order` is the order of dimensions that
    the transpose `inst` makes.
    """
    dot = inst.operands[0]
    dot = dot.operands[0] if isinstance(dot.op, Reshape) else dot
    op, (lhs, rhs) = op_of(dot, Dot), dot.operands
    precision = (
        tuple(reversed(op.operand_precision)) if len(op.operand_precision) == 2 else op.operand_precision
    )
    new = Dot.of(
        lhs=shape_of(rhs), rhs=shape_of(lhs), dtype=shape_of(dot).dtype, lhs_batch_dims=op.rhs_batch_dims,
        lhs_contracting_dims=op.rhs_contracting_dims, rhs_batch_dims=op.lhs_batch_dims,
        rhs_contracting_dims=op.lhs_contracting_dims,
    )  # fmt: skip
    new = replace(new, operand_precision=precision, algorithm=op.algorithm)
    made = dot.computation.add(new, [rhs, lhs], extra=dot.extra)
    first, second = _free_dims(dot)
    now = [*range(first.start), *second, *first]
    permutation = [now.index(d) for d in order]
    kept = [d for d in permutation if shape_of(made).dims[d] != 1]
    if kept != sorted(kept):
        made = dot.computation.add(Transpose(tuple(permutation)), [made], extra=location(inst))
    return reshaped(made, shape_of(inst).dims)


def _is_canonical(dot: Instruction) -> bool:
    sizes = dot_sizes(dot)
    return sizes is not None and not (op_of(dot, Dot).lhs_batch_dims and sizes[0] == 1)


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a dot, with its dimensions grouped by role: batch and free ones in the order of the
    result, contracting ones in the order of the sum.
    """

    inst: Instruction
    batch: tuple[int, ...]
    contracting: tuple[int, ...]
    free: tuple[int, ...]

    def cost(self, order: Sequence[int]) -> int:
        """The cost of transposing the operand to this order of dimensions: 0 if nothing moves in memory, else
        the number of elements, doubled if single elements move.
        """
        shape = shape_of(self.inst)
        kept = [d for d in order if shape.dims[d] != 1]
        if kept == sorted(kept):
            return 0
        return shape.size if kept[-1] == max(kept) else 2 * shape.size

    def orders(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (*self.batch, *self.free, *self.contracting), (*self.batch, *self.contracting, *self.free)


def _sides(dot: Instruction) -> tuple[_Side, _Side]:
    op = op_of(dot, Dot)
    found = []
    pairs = op.pairs[len(op.lhs_batch_dims) :]
    options = []
    # the order of the sum is free: that of the left operand's dimensions, or that of the right operand's
    for key in (0, 1):
        pairs.sort(key=lambda pair: pair[key])
        found = []
        for side, (operand, batch) in enumerate(
            zip(dot.operands, (op.lhs_batch_dims, op.rhs_batch_dims), strict=True)
        ):
            contracting = tuple(pair[side] for pair in pairs)
            free = (op.rhs_free if side else op.lhs_free)(operand.shape.rank)
            found.append(_Side(operand, batch, contracting, tuple(free)))
        options.append((found[0], found[1]))
    return min(options, key=lambda sides: sum(min(map(s.cost, s.orders())) for s in sides))


def _canonical(dot: Instruction, limits: Limits) -> Instruction | None:
    op = op_of(dot, Dot)
    if op.sparsity or len(dot.operands) != 2 or _is_canonical(dot) or is_tiny(dot, limits):
        return None
    lhs, rhs = _sides(dot)
    batch = prod(_sizes(lhs, lhs.batch))
    m, n, k = prod(_sizes(lhs, lhs.free)), prod(_sizes(rhs, rhs.free)), prod(_sizes(lhs, lhs.contracting))
    lead = (batch,) if batch != 1 else ()
    at = len(lead)
    plain, transposed = lhs.orders()
    swap_left = lhs.cost(transposed) < lhs.cost(plain)
    left = _arranged(
        lhs.inst, transposed if swap_left else plain, (*lead, k, m) if swap_left else (*lead, m, k)
    )
    # for the right operand, contracting dimensions come first in the plain form
    swapped, straight = rhs.orders()
    swap_right = rhs.cost(swapped) < rhs.cost(straight)
    right = _arranged(
        rhs.inst, swapped if swap_right else straight, (*lead, n, k) if swap_right else (*lead, k, n)
    )
    batches = (0,) if lead else ()
    new = Dot(
        Shape(dot.shape.dtype, (*lead, m, n)), lhs_batch_dims=batches,
        lhs_contracting_dims=(at if swap_left else at + 1,),
        rhs_batch_dims=batches, rhs_contracting_dims=(at + 1 if swap_right else at,),
        operand_precision=op.operand_precision, algorithm=op.algorithm,
    )  # fmt: skip
    extra = replace(dot.extra, control_predecessors=())  # `expand` moves them
    made = dot.computation.add(new, [left, right], extra=extra)
    return reshaped(made, dot.shape.dims)


def _sizes(side: _Side, dims: Sequence[int]) -> list[int]:
    shape = shape_of(side.inst)
    return [shape.dims[d] for d in dims]


def _arranged(inst: Instruction, order: Sequence[int], dims: Sequence[int]) -> Instruction:
    """The operand transposed to the given order of dimensions and reshaped to `dims`."""
    if tuple(order) != tuple(range(len(order))):
        transposed = inst.computation.add(Transpose(tuple(order)), [inst], extra=location(inst))
        if len(collapsed_transpose(transposed)[0]) > 1:
            inst = transposed
        else:
            inst.computation.remove(transposed)
    return reshaped(inst, dims)
