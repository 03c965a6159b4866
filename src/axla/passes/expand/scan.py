"""scan as a loop that takes slices of the inputs and puts slices of the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.hlo import Scan
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of
from axla.passes.expand.expander import expand, written
from axla.passes.matrix import repeat


def scan_expander(module: Module) -> None:
    """Writes every scan as a while."""
    expand(module, "scan-expander", {Scan: lambda inst: written(inst, _scan)})


def _scan(inst: Instruction, *given: XlaOp) -> Sequence[XlaOp]:
    op, builder = op_of(inst, Scan), given[0].builder
    count, at = len(given) - op.num_carries, op.dimensions[0]
    length = op.length([x.shape for x in given])
    shapes = list(inst.shape.arrays())
    outputs = [
        ops.Broadcast(ops.Zero(builder, s.dtype), s.dims) for s in shapes[: len(shapes) - op.num_carries]
    ]

    def step(k: XlaOp, *state: XlaOp) -> Sequence[XlaOp]:
        k = length - 1 - k if op.is_reverse else k
        inputs, carries, outputs = state[:count], state[count : len(given)], state[len(given) :]
        slices = [x[(slice(None),) * at + (k,)] for x in inputs]
        found = ops.Call(k.builder, op.to_apply, [*slices, *carries])
        values = list(found) if found.shape.is_tuple else [found]
        puts = [_put(o, v, at, k) for o, v in zip(outputs, values, strict=False)]
        return *inputs, *values[len(outputs) :], *puts

    end = repeat(length, [*given, *outputs], step)
    return *end[len(given) :], *end[count : len(given)]


def _put(x: XlaOp, value: XlaOp, at: int, place: XlaOp) -> XlaOp:
    """`x` with the slice at `place` of dimension `at` replaced."""
    starts = [place if d == at else ops.ZerosLike(place) for d in range(len(x.dims))]
    sizes = [1 if d == at else n for d, n in enumerate(x.dims)]
    return ops.DynamicUpdateSlice(x, ops.Reshape(value, sizes), starts)
