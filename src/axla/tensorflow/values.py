"""What edges of a graph carry: arrays (`XlaOp`), strings (NumPy arrays of `bytes`), composites of arrays, and
resources, whose contents are the state of a scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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

    def cleared(self, builder: XlaBuilder, like: Composite) -> Composite:
        """This one, which has nothing in it, with arrays as `like` has them: what a loop begins with."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Resource:
    """What a handle names: compared by identity. Its contents are `Scope.state[resource]`."""

    name: str


@dataclass(slots=True, eq=False)
class Variable(Resource):
    """A variable: `dtype` is the name of a type, `shape` its sizes, None where the rank is not known."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None


class Reference(Variable):
    """A variable whose node gives a reference: it is read where a value is wanted."""


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
    return value.structure() if isinstance(value, Composite) else value


def parts(value: XlaOp) -> list[XlaOp]:
    """The elements of a tuple."""
    return [ops.GetTupleElement(value, number) for number in range(len(value.shape.elements))]
