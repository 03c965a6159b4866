"""The code that both emitters of scatter share: where the window of each update starts, and which elements of
the operand it changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from axla.codegen.element import Elements, all_of
from axla.codegen.index import AnyIndex, linear, placed
from axla.codegen.value import Value
from axla.ir.graph import Instruction
from axla.ir.typed import shape_of
from axla.kernels.update import ScatterGeometry


class Scattering(ScatterGeometry):
    """Writes the index computations and the combiner of a scatter."""

    def start(
        self, e: Elements, batch: Sequence[AnyIndex], *, clamped: bool = True
    ) -> tuple[dict[int, AnyIndex], Value | bool]:
        """(start of the window `batch` per operand dimension, whether the whole window is inside the
        operand). Without `clamped`, the start is valid only where it is inside.
        """
        op = self.op
        rank = self.indices.shape.rank
        found: dict[int, AnyIndex] = {}
        conditions: list[Value | bool] = []
        for number, d in enumerate(op.scatter_dims_to_operand_dims):
            where = list(batch)
            if op.index_vector_dim < rank:
                where.insert(op.index_vector_dim, number)
            limit = self.dims[d] - self.sizes[d]
            found[d], inside = e.checked_index(e(self.indices, tuple(where)), limit, clamped=clamped)
            conditions.append(inside)
        pairs = zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True)
        for d, of_indices in pairs:
            found[d] = batch[of_indices - (1 if of_indices > op.index_vector_dim else 0)]
        return found, all_of(e.values, conditions)

    def update_index(self, batch: Sequence[AnyIndex], window: Sequence[AnyIndex]) -> tuple[AnyIndex, ...]:
        """The index into the updates, from the index `batch` of a window and the index `window` of an element
        in it.
        """
        groups = (self.batch_dims, batch), (self.op.update_window_dims, window)
        return placed(len(self.update_dims), *groups)

    def combined(self, e: Elements, old: Sequence[Value], new: Sequence[Value]) -> list[Value]:
        """Applies the combiner to old elements and updates, converted to the types of its parameters; returns
        the new elements.
        """
        taken = zip((*old, *new), self.op.to_apply.parameters, strict=True)
        found = e.apply(self.op.to_apply, [e.values.convert(v, shape_of(p).dtype) for v, p in taken])
        return [e.values.convert(v, before.dtype) for v, before in zip(found, old, strict=True)]

    def operand_index(self, start: dict[int, AnyIndex], window: Sequence[AnyIndex]) -> tuple[AnyIndex, ...]:
        """The index into the operands, from the start of a window and an index within it."""
        inside = iter(window)
        found: list[AnyIndex] = []
        for d in range(len(self.dims)):
            i = start.get(d, 0)
            if d not in self.left_out:
                i = i + next(inside)
            found.append(i)
        return tuple(found)


def scatter_elements(e: Elements, inst: Instruction) -> list[list[Value]]:
    """Computes a small scatter in registers: compares the index of every update with the position of every
    element. Returns the elements of each result.
    """
    g = Scattering(inst)
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
                found = g.combined(e, [c[position] for c in current], new)
                for k, value in enumerate(found):
                    old = current[k][position]
                    current[k][position] = value if here is True else e.values.select(here, value, old)
    return current
