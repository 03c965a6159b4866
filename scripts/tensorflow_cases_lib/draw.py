"""Draws random cases of TensorFlow's operations: a graph of one or a few nodes, with values for its inputs.

A rule (see the other modules) sets operands and attributes of a `Draw`. Everything else is drawn here:
operands of one common shape, attributes from their possible values. If an operation has no results, the case
shows that the nodes after it run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from axla.importers.records import Record
from axla.tensorflow.attributes import default_of, kind_of
from axla.tensorflow.records import records
from axla.tensorflow.types import DTYPES

CLASSES = {
    "float": ("DT_FLOAT", "DT_DOUBLE"),
    "half": ("DT_HALF", "DT_BFLOAT16"),
    "signed": ("DT_INT8", "DT_INT16", "DT_INT32", "DT_INT64"),
    "unsigned": ("DT_UINT8", "DT_UINT16", "DT_UINT32", "DT_UINT64"),
    "bool": ("DT_BOOL",),
    "complex": ("DT_COMPLEX64", "DT_COMPLEX128"),
    "quantized": ("DT_QINT8", "DT_QUINT8", "DT_QINT32"),
}
"""The classes of types for the attribute with the main type of an operation."""
MAIN = (
    "T", "dtype", "Tparams", "Tcomplex", "SrcT", "Tin", "Ta", "LhsT", "K", "element_dtype", "elem_type",
    "Tidx", "Tout", "index_type", "shape_type", "Tseed",
)  # fmt: skip
"""The attributes that may have the main type; the first one that an operation has counts."""
SPECIAL = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0)


class NoRule(Exception):
    """Raised with the reason why there are no cases of an operation."""


@dataclass
class Node:
    """A node of a graph. Attributes are Python values, depending on the kinds in the record."""

    name: str
    op: str
    inputs: list[str]
    attributes: dict[str, Any]


Rule = Callable[["Draw"], None]
RULES: dict[str, Rule] = {}


def rule(names: str) -> Callable[[Rule], Rule]:
    """A decorator that registers a function as the rule of these operations."""

    def register(function: Rule) -> Rule:
        for name in names.split():
            assert name in records() and name not in RULES, name
            RULES[name] = function
        return function

    return register


@dataclass
class Draw:
    """A case under construction. Rules set operands by `put` and attributes by `attr`. `types` has the types
    that XLA supports, by attribute; `main` is the attribute with the main type and the types of its class.
    """

    record: Record
    random: np.random.Generator
    types: dict[str, Sequence[str]]
    main: tuple[str, Sequence[str]]
    attributes: dict[str, Any] = field(default_factory=dict)
    operands: dict[str, Any] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    feed_types: dict[str, str] = field(default_factory=dict)
    variables: dict[str, np.ndarray] = field(default_factory=dict)
    functions: dict[str, tuple[str, Sequence[tuple[str, Sequence[int]]]]] = field(default_factory=dict)
    gradients: dict[str, str] = field(default_factory=dict)
    fetches: list[str] = field(default_factory=list)
    check: str = "close"
    special: bool = False
    scale: float = 1.0
    producer: int | None = None
    common: tuple[int, ...] | None = None
    kept: int = 99

    @property
    def op(self) -> str:
        return self.record.short

    # choices

    def one(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def int(self, low: int, high: int) -> int:
        """A random number from low to high, both inclusive."""
        return int(self.random.integers(low, high + 1))

    def dims(self, low: int = 0, high: int = 3, least: int = 1, most: int = 5) -> tuple[int, ...]:
        """A random shape, of a rank from low to high and sizes from least to most, all inclusive."""
        return tuple(self.int(least, most) for _ in range(self.int(low, high)))

    # attributes

    def attr(self, name: str, value: Any) -> Any:
        self.attributes[name] = value
        return value

    def type(self, name: str) -> str:
        """The type of an attribute, drawn at the first call. The name of a type (`DT_...`) is returned as it
        is.
        """
        if name.startswith("DT_"):
            return name
        if name not in self.attributes:
            choices = self.main[1] if name == self.main[0] else self.types.get(name, ())
            known = [t for t in choices if t in DTYPES]
            if not known:
                raise NoRule(f"no types for attribute {name}")
            self.attributes[name] = self.one(*known)
        return self.attributes[name]

    def flag(self, name: str) -> bool:
        return self.attr(name, self.chance(0.5))

    # values

    def array(self, shape: Sequence[int], kind: str, low: Any = None, high: Any = None) -> np.ndarray:
        """Random values of a type, from low to high if these are given."""
        type_ = self.type(kind)
        dtype = DTYPES[type_].numpy
        if type_ == "DT_BOOL":
            return self.random.random(shape) < 0.5
        if low is not None or high is not None:
            return self._between(shape, dtype, low, high)
        if np.dtype(dtype).kind in "iu":
            return self._integers(shape, np.dtype(dtype))
        values = self.random.normal(size=shape) * self.scale * self.one(1.0, 1.0, 3.0)
        if np.dtype(dtype).kind == "c":
            return np.asarray(values + 1j * self.random.normal(size=shape)).astype(dtype)
        if self.special and self.chance(0.3):
            spots = self.random.random(shape) < 0.3
            values = np.where(spots, self.random.choice(SPECIAL, size=shape), values)
        return np.asarray(values).astype(dtype)

    def _between(self, shape: Sequence[int], dtype: Any, low: Any, high: Any) -> np.ndarray:
        low, high = -9 if low is None else low, 9 if high is None else high
        if np.dtype(dtype).kind in "iu":
            low, high = (max(n, np.iinfo(dtype).min) for n in (low, high))
            return self.random.integers(int(low), int(high) + 1, shape).astype(dtype)
        values = self.random.uniform(low, high, shape)
        if np.dtype(dtype).kind == "c":
            values = values + 1j * self.random.uniform(low, high, shape)
        return np.asarray(values).astype(dtype)

    def _integers(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        info = np.iinfo(dtype)
        values = self.random.integers(max(-9, info.min), 10, shape).astype(dtype)
        if self.special and self.chance(0.2):
            spots = self.random.random(shape) < 0.3
            values = np.where(
                spots, self.random.choice(np.array([info.min, info.max], dtype), size=shape), values
            )
        return np.asarray(values)

    # operands

    def put(self, operand: str, value: Any, *, constant: bool = False) -> Any:
        """Sets the value of an operand (a list for several), as a feed or as a constant of the graph."""
        self.operands[operand] = (value, constant)
        return value

    def data(self, operand: str, shape: Sequence[int], low: Any = None, high: Any = None) -> np.ndarray:
        """Sets an operand to random values of the type in the record."""
        return self.put(operand, self.array(shape, self._kind(operand), low, high))

    def const(self, operand: str, value: Any) -> np.ndarray:
        """Sets an operand to a constant of the type in the record."""
        dtype = DTYPES[self.type(self._kind(operand))].numpy
        return self.put(operand, np.asarray(value).astype(dtype), constant=True)

    def fed(self, operand: str, value: Any) -> np.ndarray:
        """Sets an operand to a feed with this value, in the type of the record."""
        dtype = DTYPES[self.type(self._kind(operand))].numpy
        return self.put(operand, np.asarray(value).astype(dtype))

    def _kind(self, operand: str) -> str:
        kind = next(o.kind for o in self.record.operands if o.name == operand)
        return kind.lstrip("&").rpartition("*")[2]

    # nodes

    def node(self, op: str, inputs: Sequence[str], name: str | None = None, **attributes: Any) -> str:
        name = name or f"n{len(self.nodes)}"
        self.nodes.append(Node(name, op, list(inputs), attributes))
        return name

    def input(self, value: np.ndarray, type_: str, constant: bool = False) -> str:
        """Adds a node with a value: a placeholder that is fed, or a constant."""
        name = f"n{len(self.nodes)}"
        if constant:
            self.nodes.append(Node(name, "Const", [], {"dtype": type_, "value": (value, type_)}))
            return name
        self.nodes.append(Node(name, "Placeholder", [], {"dtype": type_, "shape": value.shape}))
        self.feeds[name], self.feed_types[name] = value, type_
        return name

    def function(self, body: str, *parameters: tuple[str, Sequence[int]]) -> tuple[str, str]:
        """Adds a function to the graph. `body` is a name in `bodies.BODIES`; a parameter is (type, shape)."""
        name = f"f{len(self.functions)}_{body}"
        self.functions[name] = (body, parameters)
        return ("func", name)

    def finish(self) -> None:
        """Draws everything that the rule has not set, and makes the nodes. Does nothing if the rule has made
        all nodes.
        """
        if self.fetches:
            return
        if self.common is None:
            self.common = (0, 3)[:0] if self.chance(0.1) else self.dims(1, 3)
            if self.chance(0.04):
                self.common = (*self.common, 0)
        inputs = [name for o in self.record.operands for name in self._inputs(o.name, o.kind)]
        for attribute in self.record.attributes:
            if attribute.name not in self.attributes:
                self.attributes[attribute.name] = self._attribute(attribute)
        self.nodes.append(Node("op", self.op, inputs, self.attributes))
        self.fetches = [f"op:{k}" for k in range(min(self.results(), self.kept))]
        if not self.fetches:
            value = self.input(self.array(self.common, "DT_FLOAT"), "DT_FLOAT")
            self.fetches = [self.node("Identity", [value, "^op"], T="DT_FLOAT") + ":0"]

    def results(self) -> int:
        """The number of results of the operation, once its attributes are set."""
        return sum(self._count(r.kind) for r in self.record.results)

    def _count(self, kind: str) -> int:
        count, star, base = kind.lstrip("&").rpartition("*")
        if star:
            return int(self.attributes[count])
        found = self.attributes.get(base)
        return len(found) if isinstance(found, (tuple, list)) else 1

    def _inputs(self, operand: str, kind: str) -> list[str]:
        if kind.startswith("&"):
            raise NoRule("an operand is a reference")
        if kind in ("DT_RESOURCE", "DT_VARIANT", "DT_STRING") and operand not in self.operands:
            raise NoRule(f"operand {operand} is a {kind[3:].lower()}")
        count, star, base = kind.rpartition("*")
        if operand not in self.operands:
            self._open(operand, count, star, base)
        value, constant = self.operands[operand]
        if isinstance(value, str):
            return [value]
        values = list(value) if isinstance(value, list) else [value]
        if star:
            self.attributes[count] = len(values)
        listed = kind_of(next((a.kind for a in self.record.attributes if a.name == base), "int")).is_list
        types = self.attributes[base] if listed else [self.type(base)] * len(values)
        return [self.input(np.asarray(v), t, constant) for v, t in zip(values, types, strict=True)]

    def _open(self, operand: str, count: str, star: str, base: str) -> None:
        assert self.common is not None
        attribute = next((a for a in self.record.attributes if a.name == base), None)
        if attribute is not None and kind_of(attribute.kind).is_list:
            if base not in self.attributes:
                some = [t for t in self.main[1] if t in DTYPES] or ["DT_FLOAT"]
                self.attr(base, tuple(self.one(*some) for _ in range(self.int(1, 3))))
            self.operands[operand] = ([self.array(self.common, t) for t in self.attributes[base]], False)
        elif star:
            number = self.attributes.setdefault(count, self.int(1, 3))
            self.operands[operand] = ([self.array(self.common, base) for _ in range(number)], False)
        else:
            self.data(operand, self.common)

    def _attribute(self, attribute: Any) -> Any:
        kind = kind_of(attribute.kind)
        if kind.name == "type" and not kind.is_list:
            return self.type(attribute.name) if self.types.get(attribute.name) else self._default(attribute)
        if kind.name == "bool" and not kind.is_list:
            return self.chance(0.5)
        if kind.name == "string" and kind.allowed and not kind.is_list:
            return self.one(*kind.allowed)
        return self._default(attribute)

    def _default(self, attribute: Any) -> Any:
        if not attribute.optional:
            raise NoRule(f"no rule for attribute {attribute.name} ({attribute.kind})")
        return default_of(attribute)
