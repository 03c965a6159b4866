"""TensorFlow graphs in a short text form, for tests of clusters."""

from __future__ import annotations

from typing import Any

from axla.tensorflow.graph import Graph, graph_of

Message = dict[str, Any]
FLOAT = {"dtype": "DT_FLOAT", "tensor_shape": {}}


def node(line: str) -> Message:
    """Reads a node: `name = Op inputs attribute=value @device`. Types are float unless an attribute says
    otherwise. `Flag` is a placeholder of a boolean; `f()` as the value of an attribute is a function.
    """
    name, _, rest = line.strip().partition(" = ")
    op, *words = rest.split()
    found: Message = {"name": name, "op": op, "input": []}
    attributes: dict[str, Any] = {key: {"type": "DT_FLOAT"} for key in ("T", "dtype", "Tidx", "out_type")}
    if op == "Flag":
        found["op"], attributes["dtype"] = "Placeholder", {"type": "DT_BOOL"}
    if op == "Const":
        attributes["value"] = {"tensor": FLOAT}
    if op == "Shape":
        attributes["out_type"] = {"type": "DT_INT32"}
    for word in words:
        if word.startswith("@"):
            found["device"] = word[1:]
        elif "=" in word:
            key, _, text = word.partition("=")
            attributes[key] = _value(text)
        else:
            found["input"].append(word)
    data = [text for text in found["input"] if not text.startswith("^")]
    if op in ("Merge", "AddN"):
        attributes["N"] = {"i": len(data)}
    found["attr"] = [{"key": key, "value": value} for key, value in attributes.items()]
    return found


def _value(text: str) -> Message:
    if text in ("true", "false"):
        return {"b": text == "true"}
    if text.endswith("()"):
        return {"func": {"name": text[:-2]}}
    if text.startswith("["):
        return {"list": {"type": [word for word in text[1:-1].split(",") if word]}}
    if text.isdecimal():
        return {"i": int(text)}
    return {"type": text} if text.startswith("DT_") else {"s": text.encode()}


def function(name: str, text: str, arguments: str = "x", result: str = "y:0", **attributes: bool) -> Message:
    """A function with a float result. Arguments are floats, or `name:type`. In the text, `node:output:0`
    names an output.
    """
    pairs = [word.partition(":") for word in arguments.split()]
    inputs = [{"name": name, "type": type_ or "DT_FLOAT"} for name, _, type_ in pairs]
    outputs = [{"name": "result", "type": "DT_FLOAT"}]
    return {
        "signature": {"name": name, "input_arg": inputs, "output_arg": outputs},
        "node_def": [node(line) for line in text.splitlines()],
        "ret": [{"key": "result", "value": result}],
        "attr": [{"key": key, "value": {"b": value}} for key, value in attributes.items()],
    }


def definition(name: str, *outputs: str) -> Message:
    """An OpDef of an operation with float outputs."""
    return {"name": name, "output_arg": [{"name": output, "type": "DT_FLOAT"} for output in outputs]}


OTHER = {"Other": definition("Other", "output")}
"""An operation with one output that axla does not support."""


def graph(text: str, *functions: Message, definitions: dict[str, Message] | None = None) -> Graph:
    """Reads a graph with a node in each line."""
    nodes = [node(line) for line in text.splitlines() if line.strip()]
    message = {"node": nodes, "library": {"function": list(functions)}}
    return graph_of(message, definitions=OTHER if definitions is None else definitions)
