"""Loops in programs, among them iterations in which each element of an array runs until it has converged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from axla.builder import elementwise as e
from axla.builder.calls import ReduceAll, Tuple, While
from axla.builder.computation import XlaComputation
from axla.builder.operators import FUNCTIONS
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import PRED, DType
from axla.core.shape import Shape

LoopBody = Callable[[XlaOp, Sequence[XlaOp], Sequence[XlaOp]], tuple[XlaOp, Sequence[XlaOp]]]
"""A function (number of the step from 1 on, constant values, state) -> (which elements continue, next
state).
"""


def iterated(
    what: str, step: LoopBody, active: XlaOp, fixed: Sequence[XlaOp], state: Sequence[XlaOp], most: int
) -> Sequence[XlaOp]:
    """Runs `step` on the elements marked in `active`, each until `step` reports its end, or for `most` steps.
    Returns the final state. An element's state does not change after its end, so its result does not depend
    on other elements. `fixed` are values that stay constant; `what` is a prefix for the names of the
    computations.
    """

    def following(count: XlaOp, going: XlaOp, *values: XlaOp) -> Sequence[XlaOp]:
        held, before = values[: len(fixed)], values[len(fixed) :]
        count = count + 1
        more, after = step(e.ConvertElementType(count, fixed[0].dtype), held, before)
        after = [e.Select(going, new, old) for new, old in zip(after, before, strict=True)]
        return [count, going & more, *held, *after]

    def goes_on(count: XlaOp, going: XlaOp, *_: XlaOp) -> XlaOp:
        some = ReduceAll(going, going.builder.constant(np.bool_(False)), combiner("Or", PRED))
        return (count < most) & some

    start = [active.builder.constant(np.int32(0)), active, *fixed, *state]
    return loop(start, goes_on, following, what)[2 + len(fixed) :]


def loop(
    state: Sequence[XlaOp], keep: Callable[..., XlaOp], step: Callable[..., Sequence[XlaOp]], what: str = ""
) -> list[XlaOp]:
    """Replaces `state` with `step(*state)` as long as `keep(*state)` is true; returns the last state. `what`
    is a prefix for the names of the computations.
    """
    start = Tuple(state[0].builder, state)
    names = (f"{what}_goes_on", f"{what}_step") if what else ("keep", "step")
    return list(While(function(names[0], keep, start), function(names[1], step, start), start))


def repeat(count: int, state: Sequence[XlaOp], step: Callable[..., Sequence[XlaOp]]) -> list[XlaOp]:
    """Replaces `state` with `step(k, *state)` for k = 0, 1, ... count - 1; returns the last state."""
    if count <= 0:
        return list(state)
    start = [state[0].builder.constant((np.int32 if count < 1 << 31 else np.int64)(0)), *state]
    return loop(start, lambda k, *_: k < count, lambda k, *state: (k + 1, *step(k, *state)))[1:]


def function(name: str, body: Callable[..., XlaOp | Sequence[XlaOp]], start: XlaOp) -> XlaComputation:
    """Builds a computation named `name` that returns `body(*state)`. Its parameter is a tuple with the shape
    of `start`.
    """
    inner = start.builder.sub_builder(name)
    found = body(*inner.parameter(0, start.shape, "state"))
    return inner.build(found if isinstance(found, XlaOp) else Tuple(inner, found))


@lru_cache(maxsize=64)
def combiner(opcode: str, dtype: DType) -> XlaComputation:
    """Builds a computation that applies a function of `ops`, such as "Add", to two scalars of a dtype."""
    builder = XlaBuilder(opcode.lower())
    x, y = (builder.parameter(k, Shape(dtype), "xy"[k]) for k in range(2))
    return builder.build(FUNCTIONS[opcode](x, y))
