"""The user's choice of arguments and results of a library: tfcompile configuration, names, variables.

`tf2xla.Config` is a message in text format:

    feed { id { node_name: "x" } shape { dim { size: 2 } dim { size: 3 } } name: "x" type: DT_FLOAT }
    fetch { id { node_name: "product" } name: "y" }
    variable { node_name: "state" readonly: false }

Feeds, then variables, are the arguments, fetches the results, in this order. A feed is a parameter or any
instruction of the entry computation, which then becomes a parameter; a fetch is a result or any instruction.
Instructions that no fetch needs are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from axla.aot import graph_ends
from axla.aot.build import BuildSource, Example, Label
from axla.aot.graph_ends import Ends
from axla.aot.names import check_unique
from axla.aot.options import opened
from axla.comparison import array_leaves
from axla.core.dataclass import dataclass
from axla.core.dtypes import DType
from axla.core.errors import InvalidArgument, choices
from axla.core.shape import AnyShape, Shape, show
from axla.ir.graph import Alias, Instruction, Module
from axla.ir.places import located
from axla.ir.structure import Parameter
from axla.ir.typed import op_of
from axla.proto import schema
from axla.proto.text_format import from_text
from axla.proto.wire import decode
from axla.tensorflow.types import DTYPES

_MESSAGES, _ = schema.read("tfcompile.txt")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A feed, fetch or variable (its `kind`) of a configuration: output number `output` of the node `node`.
    `name`, `dims` and `dtype` are declared properties; "" or None if they are not declared.
    """

    kind: str
    node: str
    output: int = 0
    name: str = ""
    dims: tuple[int, ...] | None = None
    dtype: DType | None = None
    readonly: bool = False

    def __str__(self) -> str:
        return f"config: {self.kind} {self.node!r}" + (f" output {self.output}" if self.output else "")

    def check(self, shape: Shape) -> None:
        """Raises InvalidArgument unless the sizes and the element type of `shape` are the declared ones."""
        if self.dims is not None and self.dims != shape.dims:
            found, wanted = list(shape.dims), list(self.dims)
            raise InvalidArgument(f"{self}: the config says shape {wanted}, the program has {found}")
        if self.dtype is not None and self.dtype is not shape.dtype:
            message = f"{self}: the config says type {self.dtype.name}, the program has {shape.dtype.name}"
            raise InvalidArgument(message)


@dataclass(frozen=True, slots=True)
class Config:
    """A tfcompile configuration: feeds, fetches and variables."""

    feeds: tuple[ConfigEntry, ...]
    fetches: tuple[ConfigEntry, ...]
    variables: tuple[ConfigEntry, ...]


def read_config(source: str | bytes | os.PathLike[str]) -> Config:
    """Reads a configuration from a text, a binary message, or a file. Raises ParseError with the field and
    the position of an error, and InvalidArgument for a configuration without fetches.
    """
    content = source = opened(source)
    if isinstance(content, os.PathLike):
        content = Path(content).read_bytes()
    with located("" if isinstance(source, str | bytes) else os.fsdecode(source)):
        message = _message(content)
    found = {kind: _entries(kind, message.get(kind, ())) for kind in ("feed", "fetch", "variable")}
    if not found["fetch"]:
        raise InvalidArgument("config: it has no fetch; a library returns at least one result")
    for kind, entries in (("feed", [*found["feed"], *found["variable"]]), ("fetch", found["fetch"])):
        check_unique((f"{e.node}:{e.output}" for e in entries), f"config: {kind}")
    return Config(found["feed"], found["fetch"], found["variable"])


def _message(content: str | bytes) -> dict[str, Any]:
    table = _MESSAGES["Config"]
    if isinstance(content, str):
        return from_text(content, table)
    if not re.search(rb"[\0-\x08\x0e-\x1f]", content):  # binary messages have such bytes
        return from_text(content.decode("utf-8", "replace"), table)
    return decode(content, table)


def _entries(kind: str, messages: Iterable[dict[str, Any]]) -> tuple[ConfigEntry, ...]:
    found = []
    for message in messages:
        place = message if kind == "variable" else message.get("id", {})
        node = place.get("node_name", "")
        if not node:
            where = "node_name" if kind == "variable" else "id { node_name }"
            raise InvalidArgument(f"config: a {kind} has no {where}")
        dims = None
        if "shape" in message:
            dims = tuple(dim.get("size", 0) for dim in message["shape"].get("dim", ()))
        type_ = message.get("type", "DT_INVALID")
        if type_ not in (*DTYPES, "DT_INVALID"):
            raise InvalidArgument(f"config: {kind} {node!r}: type {type_} is unknown")
        dtype = DTYPES.get(type_)
        found.append(
            ConfigEntry(kind, node, place.get("output_index", 0), message.get("name", ""), dims, dtype,
                  message.get("readonly", False))
        )  # fmt: skip
    return tuple(found)


def configured(example: Example, config: Config) -> Example:
    """The part of a program between the feeds and fetches of `config`, with the names that `config` has for
    them.
    """
    source = example.source
    module = graph_ends.flattened(source.module)
    return between(example, module, Ends(module, source.arguments, source.results), config)


def between(example: Example, module: Module, ends: Any, config: Config) -> Example:
    """The library source for the part of a module between the feeds and fetches of `config`. `ends` finds
    their instructions by name. `example` has the source and the inputs of the whole module, which is changed.
    """
    takes: list[tuple[ConfigEntry, Label, Instruction]] = []
    for entry in (*config.feeds, *config.variables):
        place, label = ends.argument(entry.node, entry.output, str(entry))
        entry.check(graph_ends.array_shape(place, str(entry)))
        kept = entry.kind == "variable"
        takes.append((entry, Label(entry.name or label.name, label.label, kept), place))
    gives: list[tuple[ConfigEntry, Label, Instruction]] = []
    for entry in config.fetches:
        value, label = ends.result(entry.node, entry.output, str(entry))
        entry.check(graph_ends.array_shape(value, str(entry)))
        gives.append((entry, Label(entry.name or label.name, label.label), value))
    updated: list[tuple[int, int]] = []  # (result, argument)
    for number, (entry, label, place) in enumerate(takes):
        if entry.kind == "variable" and not entry.readonly:
            value = ends.update_of(place, label)
            if value is None:
                message = f"{entry}: no result has its name, so nothing writes it; say readonly: true"
                raise InvalidArgument(message)
            if graph_ends.array_shape(value, str(entry)).logical is not place.shape.logical:
                message = f"{entry}: its new value is {show(value.shape)}, wanted {show(place.shape)}"
                raise InvalidArgument(message)
            updated.append((len(gives), number))
            others = {given.name for _, given, _ in gives}
            name = label.name if label.name not in others else f"{label.name}_kept"
            gives.append((entry, replace(label, name=name), value))
    inputs = _inputs_for(example, module, [place for *_, place in takes])
    labels = example.source.arguments
    graph_ends.cut(module, [place for *_, place in takes], [value for *_, value in gives], labels)
    one = len(gives) == 1
    module.set_config(aliases=tuple(Alias(() if one else (r,), a, ()) for r, a in updated))
    arguments = tuple(label for _, label, _ in takes)
    results = tuple(label for _, label, _ in gives)
    return Example(replace(example.source, module=module, arguments=arguments, results=results), inputs)


def _inputs_for(
    example: Example, module: Any, places: Sequence[Instruction]
) -> tuple[np.ndarray, ...] | None:
    """The example's arrays for the feeds `places`; None if the example has no arrays, or a feed is not a
    parameter.
    """
    if example.inputs is None:
        return None
    given = dict(zip(module.entry.parameters, example.inputs, strict=True))
    return tuple(given[place] for place in places) if all(place in given for place in places) else None


# Without a config.


def renamed(source: BuildSource, names: tuple[Sequence[str] | None, Sequence[str] | None]) -> BuildSource:
    """The source with other names: `names` has those of the arguments and those of the results. With None for
    one of the two, its names are kept.
    """
    found = []
    for what, labels, chosen in zip(
        ("arguments", "results"), (source.arguments, source.results), names, strict=True
    ):
        if chosen is None:
            found.append(labels)
            continue
        if isinstance(chosen, str) or len(chosen) != len(labels):
            count = "a str" if isinstance(chosen, str) else f"{len(chosen)} names"
            have = ", ".join(label.name for label in labels)
            raise InvalidArgument(f"names: found {count} for {len(labels)} {what}: {have}")
        found.append(tuple(replace(label, name=name) for label, name in zip(labels, chosen, strict=True)))
    return replace(source, arguments=found[0], results=found[1])


def with_variables(source: BuildSource, variables: Sequence[str]) -> BuildSource:
    """Turns the arguments that `variables` names into variables, which are kept between calls. A name means a
    whole argument (`params`, with all its leaves) or one leaf. A result of the same name (`result['x']` for
    `x`) is written to the variable's memory; without such a result, and without aliasing in the program, a
    variable is only read. Raises InvalidArgument if a variable would only be read, but an unnamed result has
    its shape and may be its new value.
    """
    if isinstance(variables, str):
        raise InvalidArgument(f"variables: wanted a list of names, found the str {variables!r}")
    marked: dict[int, None] = {}
    for wanted in variables:
        found = [k for k, label in enumerate(source.arguments) if _is_of(label, wanted)]
        if not found:
            have = dict.fromkeys(label.label for label in source.arguments)
            raise InvalidArgument(f"variables: no argument is called {wanted!r}; {choices(have, wanted)}")
        marked |= dict.fromkeys(found)
    if not marked:
        return source
    arguments = tuple(replace(a, variable=True) if k in marked else a for k, a in enumerate(source.arguments))
    module = graph_ends.flattened(source.module)
    leaves = graph_ends.result_indices(module)
    shapes = array_leaves(module.entry.root.shape)
    aliases = list(module.config.aliases)
    named: set[tuple[int, ...]] = set()
    for k in marked:
        for n, label in enumerate(source.results):
            same = label.name == arguments[k].name or label.label == arguments[k].label
            fits = shapes[n].logical is module.entry.parameters[k].shape.logical
            if same and fits and leaves[n] not in named:
                # JAX chooses aliases by shape; a result with the variable's name takes precedence.
                aliases = [a for a in aliases if a.parameter != k and a.output != leaves[n]]
                aliases.append(Alias(leaves[n], k, ()))
                named.add(leaves[n])
                break
        else:
            _check_read_only(arguments[k], module.entry.parameters[k], aliases, source.results, shapes)
    module.set_config(aliases=tuple(aliases))
    return replace(source, module=module, arguments=arguments)


def _check_read_only(
    label: Label, parameter: Instruction, aliases: Sequence[Alias], results: Sequence[Label],
    shapes: Sequence[AnyShape],
) -> None:  # fmt: skip
    """Raises InvalidArgument if no alias writes to the variable `label`, although a result without a chosen
    name has the variable's shape, and so may be its new value.
    """
    if any(alias.parameter == op_of(parameter, Parameter).parameter_number for alias in aliases):
        return
    nameless = [
        r.label for r, shape in zip(results, shapes, strict=True)
        if shape.logical is parameter.shape.logical and re.fullmatch(r"result[\d\[\]_]*", r.label)
        and re.fullmatch(r"result[\d_]*", r.name)
    ]  # fmt: skip
    if nameless:
        raise InvalidArgument(
            f"variables: no result is called {label.label}, so nothing writes it; {', '.join(nameless)} may "
            "be meant: names=(None, [...]) and --result-names=... set the names of results"
        )


def _is_of(label: Label, wanted: str) -> bool:
    inside = re.match(re.escape(wanted) + r"[\[./]", label.label)
    return wanted in (label.name, label.label) or inside is not None
