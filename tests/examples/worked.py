"""Worked examples of the documents: parameters with values, run on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np

import axla
from axla.builder import XlaBuilder, ops
from axla.comparison import compare, run_flat
from axla.core.shape import AnyShape, Shape


class Document:
    """A worked example: operands are parameters, so that code is generated for what the example shows."""

    def __init__(self) -> None:
        self.builder = XlaBuilder("example")
        self.values: list[np.ndarray] = []

    def given(self, values: object, dtype: Any = np.float32):
        """A parameter with this value."""
        array = np.asarray(values, dtype)
        shape = Shape(axla.dtypes.from_numpy(array.dtype), array.shape)
        self.values.append(array)
        return ops.Parameter(self.builder, len(self.values) - 1, shape)

    def function(self, make, *shapes: AnyShape):
        """A computation of parameters of these shapes."""
        sub = self.builder.sub_builder("f")
        result = make(*[ops.Parameter(sub, n, shape) for n, shape in enumerate(shapes)])
        return sub.build(result)

    def results(self, root) -> list[np.ndarray]:
        """The leaves of a value: the same from the interpreter and from compiled code."""
        return on_both_backends(self.builder.build(root).module, self.values)

    def value(self, root) -> list:
        (result,) = self.results(root)
        return result.tolist()


def on_both_backends(module, values) -> list[np.ndarray]:
    wanted, found = (run_flat(module, values, backend) for backend in ("interpreter", "cpu"))
    compare(module, found, wanted, "cpu", "interpreter").raise_if_different()
    return found
