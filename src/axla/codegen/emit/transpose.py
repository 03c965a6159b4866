"""The transpose emitter: square blocks go through registers, so that both reads and writes are contiguous.

Blocks of rows of the output are the parallel unit. What the sizes leave over beyond whole blocks is done
element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.transpose_registers import transposed
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, placed
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value
from axla.ir.graph import Instruction
from axla.kernels.transpose import TransposePlan


def emit(k: KernelWriter, plan: TransposePlan) -> None:
    """Writes the kernel of a `TransposePlan`."""
    _Transpose(k, plan).emit()


class _Transpose:
    """Writes the kernel."""

    def __init__(self, k: KernelWriter, plan: TransposePlan):
        self.k, self.f, self.lanes, self.block = k, k.f, plan.lanes, plan.block
        self.input_dims, self.permutation, self.steps = plan.input_dims, plan.permutation, plan.steps
        self.output_dims, self.outer, self.p, self.q = plan.output_dims, plan.outer, plan.p, plan.q
        self.heroes = [k.named[name] for name in plan.heroes]

    def output_index(self, outer: Sequence[AnyIndex], p: AnyIndex, q: AnyIndex) -> tuple[AnyIndex, ...]:
        return placed(len(self.output_dims), (self.outer, outer), ((self.p, self.q), (p, q)))

    def emit(self) -> None:
        f, k, lanes, dims = self.f, self.k, self.lanes, self.output_dims
        rows, columns = dims[self.p], dims[self.q]
        with k.steps(*self.steps) as (*outer, block):
            number = f.index(block) if isinstance(block, int) else block.base
            low = f.mul(number, self.block)
            high = f.smin(f.add(low, self.block), rows)
            whole_rows, whole_columns = rows - rows % lanes, columns - columns % lanes
            tiles_end = f.smin(high, whole_rows)
            with f.loop(0, whole_columns, self.block) as q_block:
                q_end = f.smin(f.add(q_block.index, self.block), whole_columns)
                with (
                    f.loop(low, tiles_end, lanes) as p,
                    f.loop(q_block.index, q_end, lanes, nonempty=True) as q,
                ):
                    self.tile(outer, p.index, q.index)
            if columns % lanes:
                self.singles(outer, (low, high), (f.index(whole_columns), f.index(columns)))
            if rows % lanes:
                rest = f.smax(low, whole_rows), high
                self.singles(outer, rest, (f.index(0), f.index(whole_columns)))

    def tile(self, outer: Sequence[AnyIndex], p: Ssa, q: Ssa) -> None:
        """lanes x lanes elements: rows of the input are loaded, turned in registers, and written as rows of
        the output.
        """
        f, lanes, dims = self.f, self.lanes, self.output_dims
        wide = self.k.elements(lanes)
        loaded: list[list[Value]] = []
        for j in range(lanes):
            along_p = Index(f, p, 1, lanes, multiple=lanes, limit=dims[self.p])
            column = Index(f, f.add(q, j), limit=dims[self.q])
            output = self.output_index(outer, along_p, column)
            at = placed(len(output), (self.permutation, output))
            loaded.append([wide.values.splat(self.below(wide, hero, at), lanes) for hero in self.heroes])
        turned = [transposed(f, rows) for rows in zip(*loaded, strict=True)]
        for r in range(lanes):
            row = Index(f, f.add(p, r), limit=dims[self.p])
            along_q = Index(f, q, 1, lanes, multiple=lanes, limit=dims[self.q])
            e = self.k.elements(lanes)
            for hero, values in zip(self.heroes, turned, strict=True):
                e.bind(hero, values[r])
            self.store(e, self.output_index(outer, row, along_q))

    def below(self, e: Elements, hero: Instruction, at: tuple[AnyIndex, ...]) -> Value:
        """The operand of a hero at an index of the collapsed input."""
        operand = hero.operands[0]
        return e(operand, reshape_index(at, self.input_dims, operand.shape.dims))

    def store(self, e: Elements, at: tuple[AnyIndex, ...]) -> None:
        self.k.write(e, at, self.output_dims)

    def singles(self, outer: Sequence[AnyIndex], rows: tuple[Ssa, Ssa], columns: tuple[Ssa, Ssa]) -> None:
        """Element by element."""
        f, dims = self.f, self.output_dims
        if columns[0].constant is not None and columns[0].constant == columns[1].constant:
            return
        with f.loop(rows[0], rows[1], 1) as p, f.loop(columns[0], columns[1], 1) as q:
            row = Index(f, p.index, limit=dims[self.p])
            column = Index(f, q.index, limit=dims[self.q])
            self.store(self.k.elements(1), self.output_index(outer, row, column))
