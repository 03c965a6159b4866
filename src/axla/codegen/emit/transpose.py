"""The transpose emitter: square blocks go through registers, so that both reads and writes are contiguous.

Blocks of rows of the output are the parallel unit. What the sizes leave over beyond whole blocks is done
element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axla.analysis.kernel_kinds import TransposeKind
from axla.codegen.element import Elements, reshape_index
from axla.codegen.emit.transpose_registers import transpose_block
from axla.codegen.function import Module, Ssa
from axla.codegen.index import AnyIndex, Index, delinearize
from axla.codegen.kernel import KernelTask, KernelWriter, Phase, Plan, body_cost, grain_of, widest
from axla.codegen.value import Value
from axla.core.shape import Shape
from axla.target.machine import Target

BLOCK = 32
"""Rows and columns of an output block that is finished before the next: its lines of input stay in L1."""


def _kind(task: KernelTask) -> TransposeKind:
    assert isinstance(task.kind, TransposeKind)
    return task.kind


class _Geometry:
    """The output space of a transpose kernel: (outer..., p, q); q is minor in the output, p in the input."""

    def __init__(self, task: KernelTask, target: Target):
        kind = _kind(task)
        self.kind = kind
        rank = len(kind.input_dims)
        self.output_dims = tuple(kind.input_dims[d] for d in kind.permutation)
        self.p = kind.permutation.index(rank - 1)
        self.q = rank - 1
        self.outer = tuple(d for d in range(rank) if d not in (self.p, self.q))
        lanes = target.lanes(widest(task.computation))
        small = min(self.output_dims[self.p], self.output_dims[self.q])
        while lanes > small:
            lanes //= 2
        self.lanes = max(1, lanes)
        self.block = max(self.lanes, BLOCK // self.lanes * self.lanes)

    @property
    def row_blocks(self) -> int:
        return -(-self.output_dims[self.p] // self.block)

    @property
    def count(self) -> int:
        return prod(self.output_dims[d] for d in self.outer) * self.row_blocks

    def output_index(self, outer: Sequence[AnyIndex], p: AnyIndex, q: AnyIndex) -> tuple[AnyIndex, ...]:
        found: list[AnyIndex] = [0] * len(self.output_dims)
        for d, i in zip(self.outer, outer, strict=True):
            found[d] = i
        found[self.p], found[self.q] = p, q
        return tuple(found)

    def input_index(self, output: Sequence[AnyIndex]) -> tuple[AnyIndex, ...]:
        found: list[AnyIndex] = [0] * len(output)
        for k, d in enumerate(self.kind.permutation):
            found[d] = output[k]
        return tuple(found)


def plan(task: KernelTask, target: Target) -> Plan:
    """How a transpose kernel is called: blocks of output rows in parallel."""
    g = _Geometry(task, target)
    grain, parallel = grain_of(g.count, (body_cost(task.computation) + 1) * g.block * g.output_dims[g.q])
    return Plan((Phase(task.name, g.count, grain, parallel),))


def emit(module: Module, task: KernelTask, target: Target) -> None:
    """Writes the kernel of a `TransposeKind`."""
    g = _Geometry(task, target)
    k = KernelWriter(module, task, target, task.name)
    f = k.f
    rows, columns, lanes = g.output_dims[g.p], g.output_dims[g.q], g.lanes
    with f.loop(k.begin, k.end, 1, nonempty=True) as step:
        here = Index(f, step.index, limit=g.count)
        *outer, block = delinearize(here, (*(g.output_dims[d] for d in g.outer), g.row_blocks))
        number = f.index(block) if isinstance(block, int) else block.base
        low = f.mul(number, f.index(g.block))
        high = f.smin(f.add(low, f.index(g.block)), f.index(rows))
        whole_rows, whole_columns = rows - rows % lanes, columns - columns % lanes
        tiles_end = f.smin(high, f.index(whole_rows))
        with f.loop(0, whole_columns, g.block) as q_block:
            q_end = f.smin(f.add(q_block.index, f.index(g.block)), f.index(whole_columns))
            with f.loop(low, tiles_end, lanes) as p, f.loop(q_block.index, q_end, lanes, nonempty=True) as q:
                _tile(k, g, outer, p.index, q.index)
        if columns % lanes:
            _singles(k, g, outer, (low, high), (f.index(whole_columns), f.index(columns)))
        if rows % lanes:
            _singles(
                k, g, outer, (f.smax(low, f.index(whole_rows)), high), (f.index(0), f.index(whole_columns))
            )
    k.finish()


def _tile(k: KernelWriter, g: _Geometry, outer: Sequence[AnyIndex], p: Ssa, q: Ssa) -> None:
    """lanes x lanes elements: rows of the input are loaded, turned in registers, and written as rows of the
    output.
    """
    f, lanes = k.f, g.lanes
    wide = k.elements(lanes)
    loaded: list[list[Value]] = []
    for j in range(lanes):
        along_p = Index(f, p, 1, lanes, multiple=lanes, limit=g.output_dims[g.p])
        column = Index(f, f.add(q, f.index(j)), limit=g.output_dims[g.q])
        at = g.input_index(g.output_index(outer, along_p, column))
        loaded.append([
            wide.values.splat(_below(wide, g, hero, at), lanes) for hero in g.kind.heroes
        ])  # fmt: skip
    turned = []
    for number in range(len(g.kind.heroes)):
        rows = [row[number] for row in loaded]
        parts = [transpose_block(f, [v.parts[i] for v in rows]) for i in range(len(rows[0].parts))]
        turned.append([Value(rows[0].dtype, lanes, tuple(p[r] for p in parts)) for r in range(lanes)])
    for r in range(lanes):
        row = Index(f, f.add(p, f.index(r)), limit=g.output_dims[g.p])
        along_q = Index(f, q, 1, lanes, multiple=lanes, limit=g.output_dims[g.q])
        e = k.elements(lanes)
        for hero, values in zip(g.kind.heroes, turned, strict=True):
            e.bind(hero, values[r])
        _store(k, e, g, g.output_index(outer, row, along_q))


def _below(e: Elements, g: _Geometry, hero, at: tuple[AnyIndex, ...]) -> Value:
    """The operand of a hero at an index of the collapsed input."""
    operand = hero.operands[0]
    assert isinstance(operand.shape, Shape)
    return e(operand, reshape_index(at, g.kind.input_dims, operand.shape.dims))


def _store(k: KernelWriter, e: Elements, g: _Geometry, at: tuple[AnyIndex, ...]) -> None:
    k.write(e, lambda s: reshape_index(at, g.output_dims, s.dims))


def _singles(
    k: KernelWriter, g: _Geometry, outer: Sequence[AnyIndex], rows: tuple[Ssa, Ssa], columns: tuple[Ssa, Ssa]
) -> None:
    """Element by element."""
    f = k.f
    if columns[0].constant is not None and columns[0].constant == columns[1].constant:
        return
    with f.loop(rows[0], rows[1], 1) as p, f.loop(columns[0], columns[1], 1) as q:
        row = Index(f, p.index, limit=g.output_dims[g.p])
        column = Index(f, q.index, limit=g.output_dims[g.q])
        _store(k, k.elements(1), g, g.output_index(outer, row, column))
