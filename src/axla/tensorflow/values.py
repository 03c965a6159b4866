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
    """The resource of which this one is a gradient, if it is one."""
    gradients: dict[str, Resource] = field(default_factory=dict, kw_only=True)


@dataclass(slots=True, eq=False)
class Variable(Resource):
    """A variable. `dtype` is the name of its type, `shape` its sizes, or None if its rank is unknown."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None


class Reference(Variable):
    """A variable that a node passes on as a reference. Nodes that need its value read it."""


VARIABLES: dict[str, type[Variable]] = {
    "VarHandleOp": Variable, "_XlaAotOnlyVarHandleOp": Variable,
    "Variable": Reference, "VariableV2": Reference,
}  # fmt: skip
"""The operations that name a variable, and the class of the value that they return."""
MISSING = Resource("missing")
"""The value of outputs that cannot be computed, in imports that allow such outputs."""

GraphValue = Any
"""An XlaOp, a NumPy array of `bytes` objects, a TensorList or a Resource."""


def leaves(value: GraphValue) -> list[XlaOp]:
    """The arrays that a value consists of."""
    if isinstance(value, XlaOp):
        return [value]
    return value.arrays if isinstance(value, TensorList) else []


def rebuilt(value: GraphValue, found: Iterator[XlaOp]) -> GraphValue:
    """A value of the same type, made of the next items of `found`."""
    if isinstance(value, XlaOp):
        return next(found)
    return value.rebuilt(found) if isinstance(value, TensorList) else value


def structure(value: GraphValue) -> object:
    """A key that two values must share to be the same result of two branches, or the same value before and
    after an iteration: shapes, types of lists, contents of string arrays, or a resource itself.
    """
    if isinstance(value, XlaOp):
        return value.shape.logical if isinstance(value.shape, Shape) else value.shape
    if isinstance(value, np.ndarray):
        return value.shape, tuple(value.reshape(-1))
    return value.type if isinstance(value, TensorList) else value
