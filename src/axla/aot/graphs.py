"""Converts TensorFlow graphs to sources, with a tfcompile configuration or a SavedModel signature."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from axla.aot import config as configs
from axla.aot.build import BuildSource, Example, Label
from axla.aot.config import Config, ConfigEntry
from axla.aot.graph_ends import element
from axla.aot.names import KEYWORDS, derived
from axla.aot.options import Options, opened
from axla.api import is_graph_def
from axla.comparison import random_array
from axla.core.dataclass import dataclass
from axla.core.dtypes import from_numpy
from axla.core.errors import InvalidArgument, did_you_mean
from axla.core.shape import Shape
from axla.hlo import Parameter
from axla.ir.graph import Instruction
from axla.tensorflow import model
from axla.tensorflow.checkpoints import checkpoint_at
from axla.tensorflow.graph import Graph, Output, checked, graph_of
from axla.tensorflow.importer import Imported, import_graph, output_named, restored
from axla.tensorflow.messages import decode, from_text
from axla.tensorflow.reading import Saved, read
from axla.tensorflow.scope import variable_name
from axla.tensorflow.types import dtype_of
from axla.text.shapes import parse_shape

NamedArrays = Mapping[str, np.ndarray]
_FILES = ("saved_model.pb", "saved_model.pbtxt")
_ENDINGS = (".meta", ".keras", ".h5", ".hdf5", ".tflite")
_VARIABLES = ("VarHandleOp", "Variable", "VariableV2")


def opened_graph(program: Any) -> Saved | None:
    """The graph of a TensorFlow program; None for other programs."""
    if isinstance(program, Saved):
        return program
    if isinstance(program, model.Function):
        raise InvalidArgument("a loaded function cannot be compiled: give its file or folder")
    content = program = opened(program)
    if isinstance(program, os.PathLike):
        path = Path(program)
        if path.is_dir() or path.name in _FILES or path.suffix in _ENDINGS:
            return read(path)
        content = path.read_bytes()
    is_graph = isinstance(content, str | bytes) and is_graph_def(content)
    return read(program) if is_graph else None


def message_of(path: Path, name: str) -> dict[str, Any]:
    """Decodes the TensorFlow message of the type `name` in a file; it is text if the suffix is .pbtxt."""
    if path.suffix == ".pbtxt":
        return from_text(path.read_text("utf-8", "surrogateescape"), name)
    return decode(path.read_bytes(), name)


def example(saved: Saved, args: Sequence[Any] | None, options: Options) -> Example:
    """Converts the function that the options select to a source. `args`: its arguments as arrays, shapes or
    texts of shapes.
    """
    for name in ("freeze_checkpoint", "freeze_saver") if options.config is None else ("signature",):
        if getattr(options, name) is not None:
            raise InvalidArgument(f"{name}: wanted {'a' if options.config is None else 'no'} config")
    if options.config is not None:
        graph = graph_of(saved.graph, saved.name)
        return _of_config(graph, configs.read_config(options.config), _values(saved, graph, options), options)
    if not saved.signatures:
        raise InvalidArgument("config: the graph has no signatures, so feeds and fetches must be configured")
    return _of_signature(model.entry(saved, signature=options.signature), args, options)


# With a configuration.


def _values(saved: Saved, graph: Graph, options: Options) -> NamedArrays:
    """The values of variables: from the model's checkpoint, or from the one in `freeze_checkpoint`."""
    if options.freeze_checkpoint is None:
        return restored(graph, saved.saver, saved.checkpoint)
    tensors = checkpoint_at(Path(options.freeze_checkpoint))
    if options.freeze_saver is not None:
        return restored(graph, message_of(Path(options.freeze_saver), "SaverDef"), tensors)
    names = (variable_name(node) for node in graph.nodes.values() if node.op in _VARIABLES)
    return {name: tensors[name] for name in names if name in tensors}


def _of_config(graph: Graph, config: Config, values: NamedArrays, options: Options) -> Example:
    """The program that a configuration cuts out of a graph. Variables not in the configuration become
    constants with the values in `values`.
    """
    shapes = [_feed_shape(entry, graph) for entry in config.feeds]
    feeds = [replace(e, dims=s.dims, dtype=s.dtype) for e, s in zip(config.feeds, shapes, strict=True)]
    variables = {}
    for entry in config.variables:
        node = graph.nodes[output_named(entry.node, graph).node]
        if node.op not in _VARIABLES:
            raise InvalidArgument(f"{entry}: {node} is not a variable")
        shape = _shape(entry, node.attributes["dtype"], node.attributes["shape"])
        variables[variable_name(node)] = replace(entry, dims=shape.dims, dtype=shape.dtype)
    imported = _imported(graph, feeds, config.fetches, variables, values, options)
    for name, entry in variables.items():
        if entry.readonly == (name in imported.written):
            found, wanted = ("writes", "false") if entry.readonly else ("does not write", "true")
            raise InvalidArgument(f"{entry}: the graph {found} it; say readonly: {wanted}")
    for name in imported.written:
        if name in values and name not in variables:
            raise InvalidArgument(f"the graph writes '{name}': wanted variable {{ node_name: ... }} for it")
    return _between(imported, feeds, config.fetches, variables)


def _feed_shape(entry: ConfigEntry, graph: Graph) -> Shape:
    output = _output(entry, graph)
    node = graph.nodes[output.node]
    type_ = None if node.types is None else node.types[output.index]
    return _shape(entry, type_, node.attributes.get("shape"))


def _shape(entry: ConfigEntry, type_: str | None, dims: Sequence[int] | None) -> Shape:
    """The shape of a feed or variable: the declared properties in the configuration, else the element type
    `type_` and the sizes `dims` of the graph. Raises InvalidArgument if one of them is not known.
    """
    dtype, dims = entry.dtype, dims if entry.dims is None else entry.dims
    if dtype is None and type_ is None:
        raise InvalidArgument(f"{entry}: its type is not known: say type: DT_...")
    if dims is None or any(size < 0 for size in dims):
        found = "not known" if dims is None else list(dims)
        raise InvalidArgument(f"{entry}: its shape is {found}: say shape {{ dim {{ size: ... }} ... }}")
    return Shape(dtype or dtype_of(str(type_), str(entry)), dims)


def _output(entry: ConfigEntry, graph: Graph) -> Output:
    return checked(Output(output_named(entry.node, graph).node, entry.output), graph.nodes, str(entry))


# With a signature.


def _of_signature(entry: model.EntryPoint, args: Sequence[Any] | None, options: Options) -> Example:
    """The program for a signature. Variables become constants, except those that the program writes and those
    that options name.
    """
    given = _arguments(entry, args if options.arg_types is None else options.arg_types)
    arguments = list(zip(entry.arguments, given, strict=True))
    feeds = [
        ConfigEntry("feed", a.output.node, a.output.index, a.name, s.dims, s.dtype) for a, (s, _) in arguments
    ]
    fetches = [ConfigEntry("fetch", o.node, o.index, name) for name, o in entry.results]
    feeds, fetches = _identified(feeds, "arg"), _identified(fetches, "result")
    kept = [name for name in entry.values if any(_is_of(name, wanted) for wanted in options.variables)]
    while True:
        variables = {name: _variable_entry(name, entry.values[name]) for name in kept}
        imported = _imported(entry.graph, feeds, fetches, variables, entry.values, options)
        written = [name for name in imported.written if name in entry.values and name not in kept]
        if not written:
            break
        kept += written
    for name in kept:
        variables[name] = replace(variables[name], readonly=name not in imported.written)
    found = _between(imported, feeds, fetches, variables)
    arrays = [random_array(s, 0, k) if v is None else v for k, (_, (s, v)) in enumerate(arguments)]
    if args is None and not kept:
        return found
    values = {name: entry.values[name] for name in kept}
    labels = [label.name for label in found.source.arguments[len(arrays) :]]
    return replace(
        found, inputs=(*arrays, *values.values()), values=dict(zip(labels, values.values(), strict=True))
    )


def _is_of(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}/")


def _variable_entry(name: str, value: np.ndarray) -> ConfigEntry:
    return ConfigEntry("variable", name, 0, "", value.shape, from_numpy(value.dtype))


def _identified(entries: list[ConfigEntry], default: str) -> list[ConfigEntry]:
    names = derived([entry.name for entry in entries], default)
    return [replace(entry, name=name) for entry, name in zip(entries, names, strict=True)]


def _arguments(entry: model.EntryPoint, given: Sequence[Any] | None) -> list[tuple[Shape, np.ndarray | None]]:
    """The shape of each argument of `entry`, and its array, None if no array is given. `given` has an array,
    a Shape or the text of a shape for each argument.
    """
    if given is None:
        given = [None] * len(entry.arguments)
    if len(given) != len(entry.arguments):
        wanted = ", ".join(map(str, entry.arguments))
        raise InvalidArgument(f"args: found {len(given)} for {len(entry.arguments)} arguments: {wanted}")
    return [_argument(argument, value) for argument, value in zip(entry.arguments, given, strict=True)]


def _argument(argument: model.Argument, value: Any) -> tuple[Shape, np.ndarray | None]:
    if isinstance(value, str):
        value = parse_shape(value)
    if isinstance(value, Shape):
        return value, None
    if value is not None and hasattr(value, "__array__"):
        array = np.asarray(value)
        wanted = array.dtype if argument.dtype is None else argument.dtype.numpy
        if not np.can_cast(array.dtype, wanted, "same_kind"):
            raise InvalidArgument(f"args: wanted {argument}, found an array of {array.dtype}")
        return Shape(from_numpy(np.dtype(wanted)), array.shape), array.astype(wanted)
    dims = argument.dims if value is None else value.shape
    if argument.dtype is None or dims is None or -1 in dims:
        raise InvalidArgument(
            f"args: sizes of argument {argument} are open: wanted an array or a shape for each argument; "
            "arg_types, from the shell --arg-types, takes shapes such as f32[1,4]"
        )
    return Shape(argument.dtype, dims), None


# With a configuration or a signature.


def _imported(
    graph: Graph, feeds: Sequence[ConfigEntry], fetches: Sequence[ConfigEntry],
    variables: Mapping[str, ConfigEntry], values: NamedArrays, options: Options,
) -> Imported:  # fmt: skip
    given = [(_output(entry, graph), _known(entry)) for entry in feeds]
    outputs = [_output(entry, graph) for entry in fetches]
    for name in options.operations:
        if name not in graph.nodes:
            raise InvalidArgument(f"operations: there is no node {name!r}{did_you_mean(name, graph.nodes)}")
    begun = {**values, **{name: _known(entry) for name, entry in variables.items()}}
    return import_graph(graph, given, outputs, targets=options.operations, variables=begun)


def _known(entry: ConfigEntry) -> Shape:
    assert entry.dtype is not None and entry.dims is not None
    return Shape(entry.dtype, entry.dims)


def _between(
    imported: Imported,
    feeds: Sequence[ConfigEntry],
    fetches: Sequence[ConfigEntry],
    variables: Mapping[str, ConfigEntry],
) -> Example:
    """An example for an imported graph, whose arguments and results have the names that the feeds, variables
    and fetches declare. Those without a name get the name of their node.
    """
    given = _named([*feeds, *variables.values()])
    count = len(feeds)
    held = dict(zip(variables, given[count:], strict=True))
    config = Config(given[:count], _named(fetches), given[count:])
    ends = _Ends.of(imported, config, held)
    labels = tuple(Label(p.name, p.name) for p in imported.module.entry.parameters)
    return configs.between(Example(BuildSource(imported.module, labels, ())), imported.module, ends, config)


def _named(entries: Sequence[ConfigEntry]) -> tuple[ConfigEntry, ...]:
    """The entries, each with a name, by default that of its node. A derived name that is a C keyword gets an
    underscore.
    """
    names = derived([e.name or (f"{e.node}_{e.output}" if e.output else e.node) for e in entries], "value")
    chosen = [name if e.name in KEYWORDS else e.name or name for e, name in zip(entries, names, strict=True)]
    return tuple(replace(e, name=name) for e, name in zip(entries, chosen, strict=True))


@dataclass(frozen=True, slots=True)
class _Ends:
    """Locates the values of a configuration in the module that was imported for it."""

    given: dict[tuple[str, int], Instruction]
    made: dict[tuple[str, int], Instruction]
    updates: dict[Instruction, Instruction]

    @classmethod
    def of(cls, imported: Imported, config: Config, variables: Mapping[str, ConfigEntry]) -> _Ends:
        """Locates the values of `config`; `variables` are its variables by name. A variable that is never
        read gets a parameter.
        """
        entry = imported.module.entry
        count = len(config.feeds)
        places = dict(zip(imported.variables, entry.parameters[count:], strict=True))
        for name, variable in variables.items():
            if name not in places:
                places[name] = entry.add(Parameter(_known(variable), len(entry.parameters)), stem="variable")
        given = [*entry.parameters[:count], *(places[name] for name in variables)]
        outputs = len(config.fetches) + len(imported.written)
        results = [element(entry.root, (k,)) for k in range(outputs)]
        written = dict(zip(imported.written, results[len(config.fetches) :], strict=True))
        takes = (*config.feeds, *config.variables)
        return cls(
            {(e.node, e.output): place for e, place in zip(takes, given, strict=True)},
            {(e.node, e.output): value for e, value in zip(config.fetches, results, strict=False)},
            {places[name]: written[name] for name in variables if name in written},
        )

    def argument(self, node: str, output: int, what: str) -> tuple[Instruction, Label]:
        return self.given[node, output], _label(node, output)

    def result(self, node: str, output: int, what: str) -> tuple[Instruction, Label]:
        return self.made[node, output], _label(node, output)

    def update_of(self, parameter: Instruction, variable: Label) -> Instruction | None:
        return self.updates.get(parameter)


def _label(node: str, output: int) -> Label:
    return Label("", f"{node}:{output}" if output else node)
