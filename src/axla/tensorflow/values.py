"""What edges of a graph carry: arrays (`XlaOp`), strings (NumPy arrays of `bytes`), composites of arrays, and
resources, whose contents are the state of a scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.shape import Shape


class Composite:
    """A value of several arrays, as a list of tensors. `leaves` are its arrays, `rebuilt` is the same of
    others, `structure` tells composites apart that cannot stand for each other.
    """

    def leaves(self) -> list[XlaOp]:
        raise NotImplementedError

    def rebuilt(self, leaves: Iterator[XlaOp]) -> Composite:
        raise NotImplementedError

    def structure(self) -> object:
        raise NotImplementedError

    def fitted(self, builder: XlaBuilder, structure: object) -> Composite:
        """The same value with another structure, which `joined` or `repeated` gave."""
        raise NotImplementedError

    def joined(self, other: Composite) -> object:
        """A structure that both can have: behind the branches of a conditional."""
        raise NotImplementedError

    def repeated(self, behind: Composite, turns: int | None) -> object:
        """A structure that this has before and behind each of at most so many turns of a loop, if a turn
        makes `behind` of it; None where that depends on the number of turns, which is not known.
        """
        raise NotImplementedError

    def at_end(
        self, before: Composite, entered: Composite, behind: Composite, turns: int | None
    ) -> Composite:
        """This value, which a loop gives that had `before`. A turn makes `behind` of `entered`; `turns` is
        their number, None where it is not known.
        """
        raise NotImplementedError

    def zeros(self) -> Composite:
        """The same with zeros as elements."""
        raise NotImplementedError

    def plus(self, other: Composite) -> Composite:
        """The sums of elements."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Resource:
    """What a handle names: compared by identity. Its contents are `Scope.state[resource]`."""

    name: str
    origin: Resource | None = field(default=None, kw_only=True)
    """The one that this is a gradient of."""
    gradients: dict[str, Resource] = field(default_factory=dict, kw_only=True)

    def empty(self, builder: XlaBuilder, contents: Composite) -> Value:
        """What a gradient holds first, where its origin has these contents."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Variable(Resource):
    """A variable: `dtype` is the name of a type, `shape` its sizes, None where the rank is not known."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None


class Reference(Variable):
    """A variable whose node gives a reference: it is read where a value is wanted."""


VARIABLES: dict[str, type[Variable]] = {
    "VarHandleOp": Variable, "_XlaAotOnlyVarHandleOp": Variable,
    "Variable": Reference, "VariableV2": Reference,
}  # fmt: skip
"""The operations that name a variable, and what they give."""
MISSING = Resource("missing")
"""What stands for values that cannot be made, where that is allowed."""

Value = Any
"""XlaOp, np.ndarray of bytes, Composite, Resource."""


def leaves(value: Value) -> list[XlaOp]:
    """The arrays that a value consists of."""
    if isinstance(value, XlaOp):
        return [value]
    return value.leaves() if isinstance(value, Composite) else []


def rebuilt(value: Value, found: Iterator[XlaOp]) -> Value:
    """The same value of other arrays."""
    if isinstance(value, XlaOp):
        return next(found)
    return value.rebuilt(found) if isinstance(value, Composite) else value


def structure(value: Value) -> object:
    """What must be equal for two values to be results of the same place."""
    if isinstance(value, XlaOp):
        return value.shape.logical if isinstance(value.shape, Shape) else value.shape
    if isinstance(value, np.ndarray):
        return value.shape, tuple(value.reshape(-1))
    return value.structure() if isinstance(value, Composite) else value


def shown(found: object) -> str:
    """The text of a structure."""
    return found.to_string(layout=False) if isinstance(found, Shape) else str(found)


def parts(value: XlaOp) -> list[XlaOp]:
    """The elements of a tuple."""
    return [ops.GetTupleElement(value, number) for number in range(len(value.shape.elements))]
