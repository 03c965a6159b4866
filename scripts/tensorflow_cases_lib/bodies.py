"""Functions of graphs, for operations that take a function; they are made with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def _binary(op: str) -> Callable[[Any, Any], Any]:
    """The function that applies an operation to x and y."""

    def body(a: Any, b: Any) -> Any:
        return getattr(tf.raw_ops, op)(x=a, y=b)

    return body


def _before(a: Any, b: Any) -> Any:
    """Whether a is before b, where false is before true."""
    return tf.raw_ops.LogicalAnd(x=tf.raw_ops.LogicalNot(x=a), y=b)


def _same(a: Any) -> Any:
    return tf.identity(a)


def _double(a: Any) -> Any:
    return tf.raw_ops.AddV2(x=a, y=a)


def _double_gradient(a: Any, change: Any) -> Any:
    return tf.raw_ops.AddV2(x=change, y=change)


def _few(count: Any, value: Any) -> Any:
    return tf.raw_ops.Less(x=count, y=tf.constant(4))


def _step(count: Any, value: Any) -> Any:
    return tf.raw_ops.AddV2(x=count, y=tf.constant(1)), tf.raw_ops.AddV2(x=value, y=value)


BODIES: dict[str, Callable[..., Any]] = {
    "add": _binary("AddV2"), "max": _binary("Maximum"), "greater": _binary("GreaterEqual"),
    "less": _binary("Less"), "and": _binary("LogicalAnd"), "or": _binary("LogicalOr"), "before": _before,
    "same": _same, "double": _double, "double_gradient": _double_gradient, "few": _few, "step": _step,
}  # fmt: skip
