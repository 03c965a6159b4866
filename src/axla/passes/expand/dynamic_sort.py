"""Sorts arrays with dynamic sizes: invalid elements come last, whatever their value."""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dtypes import PRED
from axla.core.shape import Shape
from axla.hlo import And, Call, Compare, GetTupleElement, Not, Or, Parameter, Sort
from axla.ir.attributes import Direction
from axla.ir.graph import Computation, Instruction


def sorted_first(op: Sort, operands: Sequence[Instruction], counts: Instruction) -> list[Instruction]:
    """The sorted operands, with all valid elements before all invalid ones. `counts` says for each element
    whether it is valid.
    """
    comparator = _with_mask(op.to_apply)
    new = Sort(op.dimensions, op.is_stable, comparator)
    found = counts.computation.add(new, [*operands, counts])
    return [GetTupleElement(n)(found) for n in range(len(operands))]


def _with_mask(comparator: Computation) -> Computation:
    """A comparator with two more operands, which say whether the left and the right element are valid."""
    made = comparator.module.add_computation(f"{comparator.name}.counting")
    values = [made.add(Parameter(p.shape, n)) for n, p in enumerate(comparator.parameters)]
    left, right = (made.add(Parameter(Shape(PRED), len(values) + side)) for side in range(2))
    before = made.add(Call(comparator), values)
    only = And()(left, Not()(right))
    made.set_root(Or()(only, And()(Compare(Direction.EQ)(left, right), before)))
    return made
