"""Merges dots that share an operand and are too narrow to read it efficiently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from dataclasses import replace
from typing import Any

from axla.hlo import Concatenate, Dot, Slice
from axla.ir.attributes import SliceDims
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite

WIDE = 64
"""The fewest rows or columns of a shared operand for which reading it once pays."""
ROWS = 2
"""The most rows of a narrow left operand. Two products with a 512 by 512 matrix take 107 us, or 45 us merged.
"""
COLUMNS = (2, 8)
"""The fewest and most columns of a narrow right operand: less than a register. Vectors have a faster emitter.
"""
MOST = 32
"""The most rows or columns of a merged operand."""
LOOK = 32
"""The most instructions visited to show that a product does not depend on another one."""


def dot_merger(module: Module) -> None:
    """Merges narrow dots that share an operand, so that the operand is read once."""
    session = rewrite.current_session()
    for computation in module.computations:
        groups: dict[tuple[Any, ...], list[Instruction]] = defaultdict(list)
        for inst in computation.instructions:
            if type(inst.op) is Dot and not inst.op.sparsity:
                for side in range(2):
                    if _is_narrow(inst, side):
                        alike = replace(inst.op, shape=shape_of(inst).with_dims(()).logical)
                        other = shape_of(inst.operands[side])
                        groups[inst.operands[1 - side], side, alike, other.rank, other.dtype].append(inst)
        shared = {key: found for key, found in groups.items() if len(found) > 1}
        bound = rewrite.control_bound(computation) if shared else frozenset()
        for (_, side, *_), found in shared.items():
            others = set(found)
            for part in _packed([i for i in found if i not in bound and _is_apart(i, side, others)], side):
                if len(part) > 1 and session.may_fire("dot-merger", part[0]):
                    _merge(part, side)


def _is_narrow(inst: Instruction, side: int) -> bool:
    """Whether a product of two matrices is so narrow that merging pays. For side 0, lhs must have few rows,
    and rhs at least WIDE columns. For side 1, rhs must have few columns, and lhs at least WIDE rows.
    """
    op, (left, right) = op_of(inst, Dot), inst.operands
    if op.lhs_batch_dims or len(op.lhs_contracting_dims) != 1 or len(shape_of(inst).dims) != 2:
        return False
    if left is right or shape_of(left).rank != 2 or shape_of(right).rank != 2:
        return False
    narrow, wide = (shape_of(inst).dims[side], shape_of(inst).dims[1 - side])
    low, high = COLUMNS if side else (1, ROWS)
    return low <= narrow <= high and wide >= WIDE


def _is_apart(inst: Instruction, side: int, others: Container[Instruction]) -> bool:
    """Whether operand number `side` of a product, the narrow one, depends on none of the products `others`.
    False if the search takes too long.
    """
    seen, stack = {inst.operands[side]}, [inst.operands[side]]
    while stack:
        one = stack.pop()
        if one in others or len(seen) > LOOK:
            return False
        new = [o for o in (*one.operands, *one.extra.control_predecessors) if o not in seen]
        seen.update(new)
        stack += new
    return True


def _packed(found: list[Instruction], side: int) -> list[list[Instruction]]:
    """Splits the products `found` into groups. The narrow operands of a group, which have number `side`, have
    at most MOST rows (lhs) or columns (rhs) together.
    """
    parts: list[list[Instruction]] = [[]]
    for inst in found:
        if sum(shape_of(i).dims[side] for i in (*parts[-1], inst)) > MOST:
            parts.append([])
        parts[-1].append(inst)
    return parts


def _merge(part: list[Instruction], side: int) -> None:
    first = part[0]
    computation, op = first.computation, op_of(first, Dot)
    free = 1 - (op.lhs_contracting_dims, op.rhs_contracting_dims)[side][0]
    narrow = Concatenate((free,))(*[inst.operands[side] for inst in part])
    operands = [first.operands[0], narrow] if side else [narrow, first.operands[1]]
    numbers = {a.name: getattr(op, a.name) for a in op.attributes if a.name != "shape"}
    left, right = map(shape_of, operands)
    whole = computation.add(
        Dot.of(left, right, shape_of(first).dtype, **numbers), operands, extra=first.extra
    )
    at = 0
    for inst in part:
        dims, limits = shape_of(inst).dims, list(shape_of(whole).dims)
        limits[side] = at + dims[side]
        starts = (0, at) if side else (at, 0)
        computation.replace(inst, Slice(SliceDims(starts, tuple(limits), (1, 1)))(whole))
        computation.remove(inst)
        at = limits[side]
