"""Loops that expansions build: a counter, values that never change, values that each round changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axla.core.dtypes import S32
from axla.core.shape import TupleShape
from axla.hlo import Add, Compare, GetTupleElement, Parameter, Tuple, While
from axla.ir.attributes import Direction
from axla.ir.graph import Computation, Instruction
from axla.passes.expand.expander import scalar

Round = Callable[[Instruction, list[Instruction], list[Instruction]], Sequence[Instruction]]
"""(counter, fixed values, changing values) -> the changing values of the next round."""


def repeated(
    count: int, fixed: Sequence[Instruction], changing: Sequence[Instruction], step: Round
) -> list[Instruction]:
    """The changing values after `count` rounds of `step`, whose counter runs from 0."""
    computation = changing[0].computation
    state = computation.add(Tuple(), [scalar(computation, S32, 0), *fixed, *changing])
    assert isinstance(state.shape, TupleShape)
    first = 1 + len(fixed)

    condition = computation.module.add_computation("rounds_left")
    counter, *_ = _state(condition, state)
    condition.set_root(Compare(Direction.LT)(counter, scalar(condition, S32, count)))

    body = computation.module.add_computation("round")
    parts = _state(body, state)
    new = step(parts[0], parts[1:first], parts[first:])
    following = Add()(parts[0], scalar(body, S32, 1))
    body.set_root(body.add(Tuple(), [following, *parts[1:first], *new]))

    end = While(condition, body)(state)
    return [GetTupleElement(n)(end) for n in range(first, first + len(changing))]


def _state(computation: Computation, state: Instruction) -> list[Instruction]:
    whole = computation.add(Parameter(state.shape, 0), name="state")
    assert isinstance(state.shape, TupleShape)
    return [GetTupleElement(n)(whole) for n in range(len(state.shape.elements))]
