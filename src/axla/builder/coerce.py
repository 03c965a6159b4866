"""Converts the operands given to builder functions to `XlaOp`s: literals, NumPy values and Python numbers
become constants. Other arguments are converted by `values.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from axla.builder.values import instance, items, refuse
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import DType
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape

_PYTHON_NUMBERS = (bool, int, float, complex)  # take the other operand's dtype; NumPy's scalars keep theirs


def builder_of(what: str, values: Iterable[object]) -> XlaBuilder:
    """Returns the builder of the first value that is an `XlaOp`; InvalidArgument if none is. `what` is the
    name of the calling function.
    """
    for value in values:
        if isinstance(value, XlaOp):
            return value.builder
    raise InvalidArgument(f"{what}: at least one operand must be an XlaOp")


def operands(what: str, *values: object, builder: XlaBuilder | None = None) -> list[XlaOp]:
    """Converts `values` to ops of one builder. A Python number gets the element type of the first array among
    the values. `what` is the function's name in messages.
    """
    builder = builder or builder_of(what, values)
    weak = [type(value) in _PYTHON_NUMBERS for value in values]
    if not any(weak):
        return [as_op(what, builder, v) for v in values]
    ops = [None if w else as_op(what, builder, v) for w, v in zip(weak, values, strict=True)]
    shapes = [op.shape for op in ops if op is not None]
    like = next((s.dtype for s in shapes if isinstance(s, Shape)), None)
    return [number(what, builder, v, like) if op is None else op for op, v in zip(ops, values, strict=True)]


def array(what: str, operand: object) -> tuple[XlaOp, Shape]:
    """Converts an operand of the function `what` to an op and returns it with its shape. Raises ShapeError
    unless it is an array.
    """
    (value,) = operands(what, operand)
    if not isinstance(value.shape, Shape):
        value.builder.fail(what, (value,), f"{what}: the operand must be an array  [operand_array]")
    return value, value.shape


def several(what: str, builder: object, values: object) -> list[XlaOp]:
    """Converts a sequence of operands of the function `what` to ops. A single NumPy array is refused: each of
    its rows would become an operand.
    """
    if isinstance(values, np.ndarray):
        refuse(what, values, "a sequence of operands")
    owner = builder_in(what, builder)
    return [as_op(what, owner, value) for value in items(values, what, "a sequence of operands")]


def builder_in(what: str, builder: object) -> XlaBuilder:
    """Returns the argument `builder` of the function `what`; InvalidArgument unless it is an XlaBuilder."""
    return instance(XlaBuilder, builder, f"{what}: builder")


def as_op(what: str, builder: XlaBuilder, value: object) -> XlaOp:
    """Returns an XlaOp unchanged, and makes a constant of a literal or NumPy value. `what` is the function's
    name in messages.
    """
    if isinstance(value, XlaOp):
        return value
    if type(value) in _PYTHON_NUMBERS:
        return number(what, builder, value, None)
    try:
        return builder.constant(value)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{what}: an operand is a {type(value).__name__}, wanted an XlaOp, number or array "
            f"({error.message})"
        ) from None


def number(what: str, builder: XlaBuilder, value: Any, like: DType | None) -> XlaOp:
    """Makes a scalar constant of a Python number, with the element type `like`. Raises InvalidArgument if
    `like` is None, or cannot represent the number. `what` is the function's name in messages.
    """
    if like is None:
        raise InvalidArgument(f"{what}: the number {value!r} has no dtype, and no operand is an array")
    if not _holds(like, value):
        advice = "give a NumPy scalar or convert the array"
        raise InvalidArgument(f"{what}: the Python number {value!r} is not a value of {like}; {advice}")
    return builder.constant(np.asarray(value).astype(like.numpy))


def _holds(dtype: DType, value: Any) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        if not dtype.is_integer:
            return not dtype.is_pred
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        return low <= value < low + (1 << dtype.bits)
    return dtype.is_inexact if isinstance(value, float) else dtype.is_complex
