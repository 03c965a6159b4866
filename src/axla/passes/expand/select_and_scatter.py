"""Expands select-and-scatter to a reduce-window that finds the selected positions, and a scatter to them."""

from __future__ import annotations

from collections.abc import Sequence

from axla import hlo
from axla.builder import ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import S32, S64
from axla.core.shape import Shape
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.passes.expand.applied import flat
from axla.passes.expand.expander import expand, written


def select_and_scatter_expander(module: Module) -> None:
    """Writes every select-and-scatter as reduce-window and scatter."""
    expand(module, "select-and-scatter-expander", {hlo.SelectAndScatter: lambda i: written(i, _expanded)})


def _expanded(inst: Instruction, x: XlaOp, source: XlaOp, init: XlaOp) -> Sequence[XlaOp]:
    op, builder, shape = op_of(inst, hlo.SelectAndScatter), x.builder, shape_of(inst)
    target = ops.Broadcast(init, [shape.size])
    if not shape_of(inst.operands[1]).size or not shape.size:
        return [ops.Reshape(target, shape.dims)]
    counter = S32 if shape.size < 1 << 31 else S64
    positions = ops.Reshape(ops.Iota(builder, counter, shape.size), shape.dims)
    window = hlo.ReduceWindow(op.window, builder.callee(_chooser(builder, op, x, positions), "choose"))
    inits = [ops.Zero(builder, x.dtype), ops.Zero(builder, counter) - 1]
    chosen = builder.add(window, (x, positions, *inits))
    # Windows that cover only padding return position -1, which scatter skips.
    where = ops.Reshape(chosen[1], [len(flat(source)), 1])
    scatter = builder.callee(op.scatter, "scatter")
    put = hlo.Scatter((), (0,), (0,), index_vector_dim=1, to_apply=scatter)
    return [ops.Reshape(builder.add(put, (target, where, flat(source))), shape.dims)]


def _chooser(builder: XlaBuilder, op: hlo.SelectAndScatter, x: XlaOp, positions: XlaOp) -> object:
    """The combiner of the reduce-window on pairs (element, position): keeps the pair selected so far while
    `select` holds, else takes the next one.
    """
    made = builder.sub_builder("choose")
    types = [Shape(x.dtype), Shape(positions.dtype)] * 2
    value, position, new, where = (made.parameter(n, s) for n, s in enumerate(types))
    keep = (position >= 0) & ops.Call(made, op.select, [value, new])
    return made.build(ops.Tuple(made, [ops.Select(keep, value, new), ops.Select(keep, position, where)]))
