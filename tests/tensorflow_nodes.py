"""Graphs of one node, for tests of operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import axla
from axla.core.dtypes import from_numpy
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.tensorflow.graph import Output, graph_of
from axla.tensorflow.importer import import_graph
from axla.tensorflow.records import records
from axla.tensorflow.types import DTYPES


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """An operand that is a constant of the graph."""

    value: Any


def module_of(op: str, *operands: Any, **attributes: Any) -> Module:
    """The program of a node. Its parameters are the operands, except those that are `Known`; a list stands
    for an operand of several arrays. Attributes that follow from single operands may be left out.
    """
    nodes, inputs, feeds = [], [], []
    record = records()[op]
    values = [
        (operand, value)
        for operand, given in zip(record.operands, operands, strict=True)
        for value in (given if isinstance(given, list) else [given])
    ]
    for place, (operand, value) in enumerate(values):
        array = np.asarray(value.value if isinstance(value, Known) else value)
        dtype = type_name(array)
        node: dict[str, Any] = {"name": f"in{place}", "op": "Placeholder", "attr": [entry("dtype", dtype)]}
        if isinstance(value, Known):
            node |= {"op": "Const", "attr": [entry("dtype", dtype), {"key": "value", "value": tensor(array)}]}
        else:
            feeds.append((Output(f"in{place}", 0), Shape(from_numpy(array.dtype), array.shape)))
        if any(a.name == operand.kind for a in record.attributes):
            attributes.setdefault(operand.kind, dtype)
        nodes.append(node)
        inputs.append(f"in{place}")
    attr = [entry(name, value) for name, value in attributes.items()]
    graph = graph_of({"node": [*nodes, {"name": "it", "op": op, "input": inputs, "attr": attr}]})
    return import_graph(graph, feeds, [Output("it", k) for k in range(len(record.results))]).module


def run_node(op: str, *operands: Any, backend: str = "cpu", **attributes: Any) -> list[np.ndarray]:
    """The results of a node for these operands."""
    program = axla.compile(module_of(op, *operands, **attributes), backend=backend)
    flat = [value for given in operands for value in (given if isinstance(given, list) else [given])]
    given = [np.asarray(value) for value in flat if not isinstance(value, Known)]
    return [np.asarray(result) for result in program.execute(given)]


def type_name(array: np.ndarray) -> str:
    dtype = from_numpy(array.dtype)
    return next(name for name, ours in DTYPES.items() if ours is dtype)


def tensor(array: np.ndarray) -> dict[str, Any]:
    shape = {"dim": [{"size": size} for size in array.shape]}
    content = {"dtype": type_name(array), "tensor_shape": shape, "tensor_content": array.tobytes()}
    return {"tensor": content}


def entry(name: str, value: Any) -> dict[str, Any]:
    """An attribute with a number, a string, the name of a type, or a list of these."""
    if isinstance(value, list) and any(isinstance(item, str) for item in value):
        (field,) = entry("", value[0])["value"]
        items = [entry("", item)["value"][field] for item in value]
        return {"key": name, "value": {"list": {field: items}}}
    if isinstance(value, list):
        field = "f" if any(isinstance(item, float) for item in value) else "i"
        return {"key": name, "value": {"list": {field: value}}}
    if isinstance(value, bool | int | float):
        field = {bool: "b", int: "i", float: "f"}[type(value)]
        return {"key": name, "value": {field: value}}
    return {"key": name, "value": {"type": value} if value.startswith("DT_") else {"s": value.encode()}}
