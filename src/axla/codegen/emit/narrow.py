"""Products with few columns and few steps of k: all of rhs stays in registers while rows go by.

Meant for batches of small matrices and for tall, narrow ones. Also writes the zeros of products without any
k.
"""

from __future__ import annotations

from axla.codegen.emit.pack import pieces
from axla.codegen.emit.product import Matrix, Product
from axla.codegen.emit.transpose_registers import transposed
from axla.codegen.function import Ssa
from axla.codegen.kernel import least
from axla.codegen.value import Value
from axla.kernels.dot import GemmPlan


class Narrow(Product):
    """Writes the kernel of a plan whose method is narrow or fill."""

    cut: GemmPlan

    def emit(self) -> None:
        f, spec, cut = self.f, self.spec, self.cut
        with self.units() as unit:
            blocks = -(-spec.m // cut.unit_rows)
            batch = f.udiv(unit.index, blocks)
            first = f.mul(f.urem(unit.index, blocks), cut.unit_rows)
            stop = least(f, f.add(first, cut.unit_rows), spec.m, needed=spec.m % cut.unit_rows != 0)
            (self.fill if cut.method == "fill" else self.multiply)(batch, first, stop)

    def multiply(self, batch: Ssa, first: Ssa, stop: Ssa) -> None:
        """Rows of the result, each from its row of lhs and from rhs in registers."""
        spec, values = self.spec, self.values
        lhs, rhs = self.matrices(batch)
        spans = pieces(spec.n, self.tile.lanes)
        factors = [self.columns(rhs, start, lanes) for start, lanes in spans]
        with self.f.loop(first, stop, nonempty=True) as row:
            scalars = [lhs.load(*self.stored(row.index, k), 1) for k in range(spec.k)]
            for (start, lanes), columns in zip(spans, factors, strict=True):
                total = self.zero(lanes)
                for scalar, column in zip(scalars, columns, strict=True):
                    total = self.multiply_add(values.splat(scalar, lanes), column, total)
                self.give(total, batch, row.index, start)

    def stored(self, row: Ssa, k: int) -> tuple[Ssa | int, Ssa | int]:
        """Where an element of lhs lies: row and column."""
        return (k, row) if self.spec.lhs_transposed else (row, k)

    def columns(self, rhs: Matrix, start: int, lanes: int) -> list[Value]:
        """Columns [start, start+lanes) of rhs, a vector for each k."""
        if not self.spec.rhs_transposed:
            return [rhs.load(k, start, lanes) for k in range(self.spec.k)]
        return transposed(self.f, [rhs.load(start + lane, 0, self.spec.k) for lane in range(lanes)])

    def fill(self, batch: Ssa, first: Ssa, stop: Ssa) -> None:
        """The empty sum in every place."""
        f, lanes, n = self.f, self.tile.lanes, self.spec.n
        with f.loop(first, stop, nonempty=True) as row:
            whole = n // lanes * lanes
            if whole:
                with f.loop(0, whole, lanes) as col:
                    self.give(self.zero(lanes), batch, row.index, col.index)
            for start, width in pieces(n - whole, lanes):
                self.give(self.zero(width), batch, row.index, whole + start)
