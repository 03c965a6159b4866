"""Rewrites reductions of dimensions that are not adjacent as reductions of adjacent ones, which can be
emitted.
"""

from __future__ import annotations

from functools import partial

from axla.analysis.regions import is_tiny
from axla.hlo import Add, And, Maximum, Minimum, Multiply, Or, Reduce, Transpose
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.kernels.geometry import reduce_geometry
from axla.kernels.reduce import is_inner_reduce
from axla.passes.expand.expander import expand
from axla.passes.simplify.algebra_reduce import is_identity, renumbered
from axla.passes.simplify.match import combiner
from axla.target.machine import Limits, Target


def reduce_canonicalize(module: Module, target: Target) -> None:
    """Rewrites large reduces of dimensions that are not adjacent: splits a reduce into reduces of adjacent
    dimensions, or transposes the operands.
    """
    expand(module, "reduce-canonicalize", {Reduce: partial(_canonical, limits=target.limits)})


def _canonical(reduce: Instruction, limits: Limits) -> Instruction | None:
    """The reduce of adjacent dimensions that replaces `reduce`, alone or after other ones; None if the reduce
    stays as it is.
    """
    if is_tiny(reduce, limits) or is_inner_reduce(reduce, limits) or reduce_geometry(reduce) is not None:
        return None
    new = cut(reduce) if may_start_twice(reduce) else transposed(reduce)
    while reduce_geometry(new) is None:
        inst, new = new, cut(new) if may_start_twice(new) else transposed(new)
        inst.computation.remove(inst)
    return new


def may_start_twice(reduce: Instruction) -> bool:
    """Whether combining the initial value several times leaves the result of a reduction unchanged."""
    op = op_of(reduce, Reduce)
    if len(reduce.operands) != 2:
        return False
    by = combiner(op.to_apply)
    if by in (Maximum, Minimum, And, Or):
        return True
    return by in (Add, Multiply) and is_identity(reduce.operands[1], by)


def cut(reduce: Instruction) -> Instruction:
    """Splits a reduce in two, and returns the second one. The first reduces the last group of adjacent
    reduced dimensions, the second the remaining ones.
    """
    op = op_of(reduce, Reduce)
    value, init = reduce.operands
    shape = shape_of(value)
    wide = [d for d in range(shape.rank) if shape.dims[d] != 1]
    run: list[int] = []
    for d in reversed(wide):
        if d in op.dimensions:
            run.insert(0, d)
        elif run:
            break
    left = [d for d in sorted(op.dimensions) if d not in run]
    computation = reduce.computation
    inner = computation.add(Reduce(tuple(run), op.to_apply), [value, init])
    return computation.add(Reduce(renumbered(left, run), op.to_apply), [inner, init])


def transposed(reduce: Instruction) -> Instruction:
    """A reduce of operands that are transposed so that the reduced dimensions come last."""
    op = op_of(reduce, Reduce)
    count = len(reduce.operands) // 2
    shape = shape_of(reduce.operands[0])
    kept = [d for d in range(shape.rank) if d not in op.dimensions]
    order = (*kept, *sorted(op.dimensions))
    computation = reduce.computation
    values = [computation.add(Transpose(order), [o]) for o in reduce.operands[:count]]
    dimensions = tuple(range(len(kept), shape.rank))
    return computation.add(Reduce(dimensions, op.to_apply), [*values, *reduce.operands[count:]])
