"""What a scatter does, for its two emitters: where each update's window starts, and which operand element it
meets.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from axla.codegen.element import Elements, all_of
from axla.codegen.index import AnyIndex, linear, placed
from axla.codegen.value import Value
from axla.hlo import Scatter
from axla.ir.graph import Instruction
from axla.ir.typed import op_of


class ScatterGeometry:
    """The dimension numbers of a scatter, resolved for its shapes."""

    def __init__(self, inst: Instruction):
        op = op_of(inst, Scatter)
        self.op = op
        self.count = (len(inst.operands) - 1) // 2
        self.operands = inst.operands[: self.count]
        self.indices = inst.operands[self.count]
        self.updates = inst.operands[self.count + 1 :]
        shape, operand = self.updates[0].shape, self.operands[0].shape
        self.update_dims = shape.dims
        self.dims = operand.dims
        self.batch_dims = [d for d in range(shape.rank) if d not in op.update_window_dims]
        self.batch_sizes = [shape.dims[d] for d in self.batch_dims]
        self.window_sizes = [shape.dims[d] for d in op.update_window_dims]
        self.left_out = (*op.inserted_window_dims, *op.input_batching_dims)
        sizes = iter(self.window_sizes)
        # The window's size in each operand dimension: 1 where the updates leave it out.
        self.sizes = [1 if d in self.left_out else next(sizes) for d in range(len(self.dims))]

    @property
    def row(self) -> int:
        """Elements that are neighbours in windows, updates and operands alike."""
        windows = self.op.update_window_dims
        last = len(self.dims) - 1
        contiguous = windows and windows[-1] == len(self.update_dims) - 1 and last not in self.left_out
        return self.window_sizes[-1] if contiguous else 1

    @property
    def batch_count(self) -> int:
        return prod(self.batch_sizes)

    @property
    def window_count(self) -> int:
        return prod(self.window_sizes)

    def start(self, e: Elements, batch: Sequence[AnyIndex]) -> tuple[dict[int, AnyIndex], Value | bool]:
        """(start of a window per operand dimension, whether all of the window lies inside the operand)."""
        op = self.op
        rank = self.indices.shape.rank
        found: dict[int, AnyIndex] = {}
        conditions: list[Value | bool] = []
        for number, d in enumerate(op.scatter_dims_to_operand_dims):
            where = list(batch)
            if op.index_vector_dim < rank:
                where.insert(op.index_vector_dim, number)
            found[d], inside = e.checked_index(e(self.indices, tuple(where)), self.dims[d] - self.sizes[d])
            conditions.append(inside)
        pairs = zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True)
        for d, of_indices in pairs:
            found[d] = batch[of_indices - (1 if of_indices > op.index_vector_dim else 0)]
        return found, all_of(e.values, conditions)

    def update_index(self, batch: Sequence[AnyIndex], window: Sequence[AnyIndex]) -> tuple[AnyIndex, ...]:
        groups = (self.batch_dims, batch), (self.op.update_window_dims, window)
        return placed(len(self.update_dims), *groups)

    def operand_index(self, start: dict[int, AnyIndex], window: Sequence[AnyIndex]) -> tuple[AnyIndex, ...]:
        inside = iter(window)
        found: list[AnyIndex] = []
        for d in range(len(self.dims)):
            i = start.get(d, 0)
            if d not in self.left_out:
                step = next(inside)
                i = step if isinstance(i, int) and i == 0 else i + step
            found.append(i)
        return tuple(found)


def scatter_elements(e: Elements, inst: Instruction) -> list[list[Value]]:
    """The elements of each result of a small scatter, in registers: every update goes, by comparison, where
    it belongs.
    """
    g = ScatterGeometry(inst)
    everywhere = list(itertools.product(*map(range, g.dims)))
    current = [[e(operand, at) for at in everywhere] for operand in g.operands]
    for batch in itertools.product(*map(range, g.batch_sizes)):
        start, inside = g.start(e, batch)
        if inside is False:
            continue
        for window in itertools.product(*map(range, g.window_sizes)):
            new = [e(update, g.update_index(batch, window)) for update in g.updates]
            offset = linear(g.operand_index(start, window), g.dims)
            for position in range(len(everywhere)):
                here = all_of(e.values, [inside, e.in_range(offset, position, position + 1)])
                if here is False:
                    continue
                found = e.apply(g.op.to_apply, [*(c[position] for c in current), *new])
                for k, value in enumerate(found):
                    old = current[k][position]
                    current[k][position] = value if here is True else e.values.select(here, value, old)
    return current
