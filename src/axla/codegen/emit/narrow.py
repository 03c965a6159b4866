"""Products with few columns and few steps of k: all of rhs stays in registers while rows go by.

Meant for batches of small matrices and for tall, narrow ones. Also writes the zeros of products without any
k.
"""

from __future__ import annotations

from axla.codegen.array import element_address
from axla.codegen.emit.microkernel import Accumulation, Parts
from axla.codegen.emit.pack import Reader, least, pieces
from axla.codegen.emit.result import Store, arguments, product_function, units
from axla.codegen.emit.transpose_registers import transpose_block
from axla.codegen.function import Function, Module, Ssa
from axla.codegen.value import Value
from axla.kernels.dot import GemmPlan, GemmSpec
from axla.target.machine import Target


def emit_narrow(
    module: Module, name: str, spec: GemmSpec, found: GemmPlan, target: Target, store: Store
) -> None:
    """Adds the kernel of a plan whose method is narrow or fill."""
    f, begin, end = product_function(module, name)
    lhs, rhs = arguments(f, 0, 1)
    rule = Accumulation.of(spec, target)
    with units(f, found, begin, end) as unit:
        blocks = -(-spec.m // found.unit_rows)
        batch = f.udiv(unit.index, blocks)
        first = f.mul(f.urem(unit.index, blocks), f.index(found.unit_rows))
        stop = least(f, f.add(first, f.index(found.unit_rows)), spec.m, needed=spec.m % found.unit_rows != 0)
        if found.method == "fill":
            _fill(f, spec, found, rule, store, batch, (first, stop))
        else:
            a = element_address(f, lhs, spec.dtype, f.mul(batch, f.index(spec.lhs_batch)))
            b = element_address(f, rhs, spec.dtype, f.mul(batch, f.index(spec.rhs_batch)))
            _multiply(f, spec, found, rule, store, batch, (first, stop), (a, b))
    f.ret(f.const("i32", 0))


def _multiply(
    f: Function, spec: GemmSpec, found: GemmPlan, rule: Accumulation, store: Store, batch: Ssa,
    rows: tuple[Ssa, Ssa], matrices: tuple[Ssa, Ssa],
) -> None:  # fmt: skip
    """Rows of the result, each from its row of lhs and from rhs in registers."""
    reader = Reader(spec.dtype, spec.accumulator, rule.target)
    spans = pieces(spec.n, found.tile.lanes)
    factors = [_columns(f, spec, reader, matrices[1], start, lanes) for start, lanes in spans]
    with f.loop(*rows, nonempty=True) as row:
        scalars = [_scalar(f, spec, reader, matrices[0], row.index, k) for k in range(spec.k)]
        for (start, lanes), columns in zip(spans, factors, strict=True):
            total = rule.zero(f, lanes)
            for scalar, column in zip(scalars, columns, strict=True):
                splat = tuple(f.splat(part, lanes) for part in scalar)
                total = rule.multiply_add(f, splat, column, total)
            store(f, Value(spec.accumulator, lanes, total), batch, row.index, f.index(start), lanes)


def _scalar(f: Function, spec: GemmSpec, reader: Reader, lhs: Ssa, row: Ssa, k: int) -> Parts:
    major, minor = (f.index(k), row) if spec.lhs_transposed else (row, f.index(k))
    return reader.load(f, lhs, f.add(f.mul(major, f.index(spec.lhs_row)), minor), 1)


def _columns(f: Function, spec: GemmSpec, reader: Reader, rhs: Ssa, start: int, lanes: int) -> list[Parts]:
    """Columns [start, start+lanes) of rhs, a vector for each k."""
    stride = spec.rhs_row
    if not spec.rhs_transposed:
        return [reader.load(f, rhs, f.index(k * stride + start), lanes) for k in range(spec.k)]
    rows = [reader.load(f, rhs, f.index((start + lane) * stride), spec.k) for lane in range(lanes)]
    turned = [transpose_block(f, [row[part] for row in rows]) for part in range(len(rows[0]))]
    return list(zip(*turned, strict=True))


def _fill(
    f: Function, spec: GemmSpec, found: GemmPlan, rule: Accumulation, store: Store, batch: Ssa,
    rows: tuple[Ssa, Ssa],
) -> None:  # fmt: skip
    """The empty sum in every place."""
    lanes = found.tile.lanes
    with f.loop(*rows, nonempty=True) as row:
        whole = spec.n // lanes * lanes
        if whole:
            with f.loop(0, whole, lanes) as col:
                store(
                    f, Value(spec.accumulator, lanes, rule.zero(f, lanes)), batch, row.index, col.index, lanes
                )
        for start, width in pieces(spec.n - whole, lanes):
            zero = Value(spec.accumulator, width, rule.zero(f, width))
            store(f, zero, batch, row.index, f.index(whole + start), width)
