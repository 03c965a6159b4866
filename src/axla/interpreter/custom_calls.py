"""Custom calls that the interpreter knows, by target. Most of them only mark places for passes: they give
their operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from axla.core.shape import Shape, TupleShape
from axla.hlo.sorting import largest_first
from axla.ir.graph import Instruction

Value = Any


def _operand(inst: Instruction, operand: Value, *rest: Value) -> Value:
    return operand


def _top_k(inst: Instruction, operand: np.ndarray) -> Value:
    """The k largest elements of every row, largest first, and where they were; k is the result's last
    dimension.
    """
    assert isinstance(inst.shape, TupleShape)
    values = inst.shape.elements[0]
    assert isinstance(values, Shape)
    order = largest_first(operand)[..., : values.dims[-1]]
    return np.take_along_axis(operand, order, -1), order.astype(np.int32)


CUSTOM_CALLS: dict[str, Callable[..., Value]] = {
    "annotate_device_placement": _operand,
    "LayoutConstraint": _operand,
    "MoveToDevice": _operand,
    "MoveToHost": _operand,
    "Sharding": _operand,
    "SPMDFullToShardShape": _operand,
    "SPMDShardToFullShape": _operand,
    "TopK": _top_k,
}
