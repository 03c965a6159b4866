"""Values on the edges of a graph: arrays (`XlaOp`), strings (NumPy arrays of `bytes`), lists of tensors, and
resources, whose contents are the state of a scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.tensorflow.lists import TensorList


@dataclass(slots=True, eq=False)
class Resource:
    """A resource, compared by identity. Its contents are `Scope.state[resource]`."""

    name: str
    origin: Resource | None = field(default=None, kw_only=True)
    """The one that this is a gradient of."""
    gradients: dict[str, Resource] = field(default_factory=dict, kw_only=True)


@dataclass(slots=True, eq=False)
class Variable(Resource):
    """A variable: `dtype` is the name of a type, `shape` its sizes, None where the rank is unknown."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None


class Reference(Variable):
    """A variable given as a reference: it is read where a value is needed."""


VARIABLES: dict[str, type[Variable]] = {
    "VarHandleOp": Variable, "_XlaAotOnlyVarHandleOp": Variable,
    "Variable": Reference, "VariableV2": Reference,
}  # fmt: skip
"""The operations that name a variable, and what they give."""
MISSING = Resource("missing")
"""The stand-in for values that cannot be made, where that is allowed."""

GraphValue = Any
"""XlaOp, np.ndarray of bytes, TensorList, Resource."""


def leaves(value: GraphValue) -> list[XlaOp]:
    """The arrays that make up a value."""
    if isinstance(value, XlaOp):
        return [value]
    return value.arrays if isinstance(value, TensorList) else []


def rebuilt(value: GraphValue, found: Iterator[XlaOp]) -> GraphValue:
    """The same value made of other arrays."""
    if isinstance(value, XlaOp):
        return next(found)
    return value.rebuilt(found) if isinstance(value, TensorList) else value


def structure(value: GraphValue) -> object:
    """A key that must be equal for two values to be results in the same position."""
    if isinstance(value, XlaOp):
        return value.shape.logical if isinstance(value.shape, Shape) else value.shape
    if isinstance(value, np.ndarray):
        return value.shape, tuple(value.reshape(-1))
    return value.type if isinstance(value, TensorList) else value
