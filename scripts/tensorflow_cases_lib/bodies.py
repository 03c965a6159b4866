"""Functions of graphs, for operations that take one; made with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def _add(a: Any, b: Any) -> Any:
    return tf.raw_ops.AddV2(x=a, y=b)


def _max(a: Any, b: Any) -> Any:
    return tf.raw_ops.Maximum(x=a, y=b)


def _greater(a: Any, b: Any) -> Any:
    return tf.raw_ops.GreaterEqual(x=a, y=b)


def _less(a: Any, b: Any) -> Any:
    return tf.raw_ops.Less(x=a, y=b)


def _and(a: Any, b: Any) -> Any:
    return tf.raw_ops.LogicalAnd(x=a, y=b)


def _or(a: Any, b: Any) -> Any:
    return tf.raw_ops.LogicalOr(x=a, y=b)


def _before(a: Any, b: Any) -> Any:
    """False before true."""
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
    "add": _add, "max": _max, "greater": _greater, "less": _less, "same": _same, "double": _double,
    "double_gradient": _double_gradient, "few": _few, "step": _step, "and": _and, "or": _or,
    "before": _before,
}  # fmt: skip
