"""Simplified shapes of reductions, transposes and broadcasts.

Dimensions of size 1 are dropped, and adjacent dimensions that are treated alike are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axla.core.dataclass import dataclass
from axla.hlo import Broadcast, Concatenate, Reduce, Transpose
from axla.ir.graph import Instruction
from axla.ir.typed import op_of, shape_of


@dataclass(frozen=True, slots=True)
class ReduceGeometry:
    """A reduce over the middle dimension of [outer, reduced, inner]. `split` is the number of leading
    dimensions of the operand that `outer` stands for.
    """

    outer: int
    reduced: int
    inner: int
    split: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes of the space: outer, reduced, inner."""
        return self.outer, self.reduced, self.inner

    @property
    def is_row(self) -> bool:
        """Whether the minor dimension is reduced."""
        return self.inner == 1


def reduce_geometry(reduce: Instruction) -> ReduceGeometry | None:
    """The geometry of a reduce: the products of the sizes before, among and after the reduced dimensions;
    None if the reduced dimensions are not adjacent.
    """
    shape = shape_of(reduce.operands[0])
    reduced = frozenset(op_of(reduce, Reduce).dimensions)
    sizes = [1, 1, 1]
    part = split = 0
    for d, size in enumerate(shape.dims):
        if size == 1:
            continue
        if d in reduced:
            if part == 2:
                return None
            if part == 0:
                split = d
            part = 1
        elif part == 1:
            part = 2
        sizes[part] *= size
    if part == 0:
        split = len(shape.dims)
    return ReduceGeometry(sizes[0], sizes[1], sizes[2], split)


def collapsed_transpose(transpose: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(input dims, permutation) of the smallest equivalent transpose; ((n,), (0,)) if no element moves."""
    shape = shape_of(transpose.operands[0])
    dims = shape.dims
    order = [d for d in op_of(transpose, Transpose).dimensions if dims[d] != 1]
    rank = {d: number for number, d in enumerate(sorted(order))}
    groups: list[list[int]] = []  # dimensions that stay adjacent, in the order of the output
    for d in order:
        if groups and rank[d] == rank[groups[-1][-1]] + 1:
            groups[-1].append(d)
        else:
            groups.append([d])
    by_input = sorted(range(len(groups)), key=lambda g: groups[g][0])
    place = {g: number for number, g in enumerate(by_input)}
    sizes = tuple(prod(dims[d] for d in groups[g]) for g in by_input)
    return sizes or (1,), tuple(place[g] for g in range(len(groups))) or (0,)


def moves_minor(permutation: Sequence[int]) -> bool:
    """Whether a permutation changes which dimension is the minor one."""
    return bool(permutation) and permutation[-1] != len(permutation) - 1


def is_leading_broadcast(broadcast: Instruction) -> bool:
    """Whether the operand's dimensions are the leading ones of the result, in order, so that each element is
    repeated contiguously.
    """
    op = op_of(broadcast, Broadcast)
    source = shape_of(broadcast.operands[0])
    mapped = [at for at, size in zip(op.dimensions, source.dims, strict=True) if size != 1]
    return mapped == [d for d, size in enumerate(op.shape.dims) if size != 1][: len(mapped)]


def row_space(inst: Instruction) -> tuple[int, int]:
    """(rows, columns) of a reduce with one value per row, a broadcast that repeats one value per row, or a
    concatenation of columns; (0, 0) for other instructions.
    """
    if isinstance(inst.op, Reduce):
        geometry = reduce_geometry(inst)
        if geometry is not None and geometry.is_row:
            return geometry.outer, geometry.reduced
    if isinstance(inst.op, Broadcast) and is_leading_broadcast(inst):
        rows = shape_of(inst.operands[0]).size
        return rows, inst.op.shape.size // max(1, rows)
    if isinstance(inst.op, Concatenate):
        dims = shape_of(inst).dims
        if inst.op.dimensions[0] == len(dims) - 1:
            return prod(dims[:-1]), dims[-1]
    return 0, 0
