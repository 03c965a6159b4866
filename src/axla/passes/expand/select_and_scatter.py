"""select-and-scatter as a reduce-window that finds the chosen positions, and a scatter to them."""

from __future__ import annotations

from axla.core.dtypes import S32, S64, DType
from axla.core.shape import Shape
from axla.hlo import (
    And,
    Call,
    Compare,
    GetTupleElement,
    Iota,
    Parameter,
    ReduceWindow,
    Reshape,
    Scatter,
    Select,
    SelectAndScatter,
    Tuple,
)  # fmt: skip
from axla.ir.attributes import Direction
from axla.ir.graph import Computation, Instruction, Module
from axla.passes.expand.expander import expand, scalar, shape_of, spread


def select_and_scatter_expander(module: Module) -> None:
    """Writes every select-and-scatter as reduce-window and scatter."""
    expand(module, "select-and-scatter-expander", {SelectAndScatter: _expanded})


def _expanded(inst: Instruction) -> Instruction:
    op, computation = inst.op, inst.computation
    assert isinstance(op, SelectAndScatter)
    x, source, init = inst.operands
    shape, values = shape_of(x), shape_of(source)
    flat = shape_of(inst).with_dims([shape.size]).logical
    target = spread(init, flat)
    if not values.size or not shape.size:
        return Reshape(shape_of(inst).logical)(target)
    counter = S32 if shape.size < 1 << 31 else S64
    positions = Reshape(shape.with_dtype(counter).logical)(
        computation.add(Iota(Shape(counter, [shape.size]), 0))
    )
    inits = [scalar(computation, shape.dtype, 0), scalar(computation, counter, -1)]
    choose = _chooser(op.select, shape.dtype, counter)
    chosen = ReduceWindow(op.window, choose)(x, positions, *inits)
    # Places that see padding only have position -1, which scatter skips.
    where = Reshape(Shape(counter, [values.size, 1]))(GetTupleElement(1)(chosen))
    updates = Reshape(values.with_dims([values.size]).logical)(source)
    scattered = Scatter((), (0,), (0,), index_vector_dim=1, to_apply=op.scatter)(target, where, updates)
    return Reshape(shape_of(inst).logical)(scattered)


def _chooser(select: Computation, dtype: DType, counter: DType) -> Computation:
    """(element, position) chosen so far, and the next one: the first stays chosen while `select` says so."""
    made = select.module.add_computation("choose")
    shapes = [Shape(dtype), Shape(counter)] * 2
    value, position, new, where = (made.add(Parameter(s, n)) for n, s in enumerate(shapes))
    found = Compare(Direction.GE)(position, scalar(made, counter, 0))
    keep = And()(found, made.add(Call(select), [value, new]))
    made.set_root(made.add(Tuple(), [Select()(keep, value, new), Select()(keep, position, where)]))
    return made
