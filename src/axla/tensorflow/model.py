"""Makes Python functions of TensorFlow graphs: `load`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from axla import api
from axla.backends import Client, get
from axla.core.dataclass import dataclass
from axla.core.dtypes import DType, from_numpy
from axla.core.errors import AxlaError, InvalidArgument, choices, did_you_mean
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.runtime.array import Array
from axla.tensorflow.graph import Graph, Output, graph_of
from axla.tensorflow.importer import Imported, import_graph, output_named, restored
from axla.tensorflow.reading import ModelSource, Saved, placed, read
from axla.tensorflow.types import DTYPES, Proto, dims_of, dtype_of, entries, fits, without_ref
from axla.tensorflow.values import VARIABLES

DEFAULT = "serving_default"
"""The signature that is used if the caller names none."""
_INITIALIZER = "__saved_model_init_op"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a function; unknown `dtype` and `dims` are None, unknown sizes -1."""

    name: str
    output: Output
    dtype: DType | None
    dims: tuple[int, ...] | None

    def __str__(self) -> str:
        sizes = "?" if self.dims is None else ",".join("?" if n < 0 else str(n) for n in self.dims)
        return f"{self.name}: {self.dtype or '?'}[{sizes}]"


@dataclass(frozen=True, slots=True, eq=False)
class EntryPoint:
    """A graph with its arguments and results. `named`: whether the results have names, as those of a
    signature do. `values`: the initial values of variables; `declared`: their types and shapes.
    """

    name: str
    graph: Graph
    arguments: tuple[Argument, ...]
    results: tuple[tuple[str, Output], ...]
    named: bool
    values: dict[str, np.ndarray] = field(default_factory=dict)
    declared: dict[str, Argument] = field(default_factory=dict)
    source: Any = None  # the text or path in which errors look up the lines of nodes

    def imported(
        self, shapes: Sequence[Shape], variables: Mapping[str, Shape | np.ndarray] | None = None
    ) -> Imported:
        """The program for arguments of these shapes. `variables`: initial values, which become constants, or
        shapes, which become parameters; by default the values in the checkpoint.
        """
        feeds = [(argument.output, shape) for argument, shape in zip(self.arguments, shapes, strict=True)]
        held = self.values if variables is None else variables
        fetches = [output for _, output in self.results]
        with placed(self.source):
            return import_graph(self.graph, feeds, fetches, variables=held, name=self.name)


def entry(
    source: ModelSource | Saved, *, signature: str | None = None, feeds: Sequence[str] | None = None,
    fetches: Sequence[str] | None = None, tags: Sequence[str] | None = None,
) -> EntryPoint:  # fmt: skip
    """The entry point for a signature of a model, or for feeds and fetches of a graph, as `load` takes
    them.
    """
    with placed(source):
        made = _entry(source, signature, feeds, fetches, tags)
    return replace(made, source=source)


def _entry(
    source: ModelSource | Saved, signature: str | None, feeds: Sequence[str] | None,
    fetches: Sequence[str] | None, tags: Sequence[str] | None,
) -> EntryPoint:  # fmt: skip
    saved = source if isinstance(source, Saved) else read(source, tags)
    graph = graph_of(saved.graph, saved.name)
    values = restored(graph, saved.saver, saved.checkpoint)
    declared = _declared(saved.graph)
    if feeds is not None or fetches is not None:
        if signature is not None:
            raise InvalidArgument("load: wanted a signature, or feeds and fetches, found both")
        return _by_tensors(saved, graph, feeds, fetches, values, declared)
    if not saved.signatures:
        wanted = f"feeds and fetches are wanted; {_ends(graph)}"
        raise InvalidArgument(f"load: the graph has no signatures, so {wanted}")
    name = _signature(saved.signatures, signature)
    arguments, results = _interface(saved.signatures[name], graph)
    return EntryPoint(saved.name, graph, arguments, results, True, values, declared)


def _signature(signatures: Mapping[str, Proto], wanted: str | None) -> str:
    names = [name for name in signatures if name != _INITIALIZER]
    if wanted is not None:
        if wanted not in signatures:
            found = choices(names, wanted)
            raise InvalidArgument(f"load: the model has no signature {wanted!r}; {found}")
        return wanted
    if DEFAULT in names or len(names) == 1:
        return DEFAULT if DEFAULT in names else names[0]
    raise InvalidArgument(f"load: which signature is wanted, or which feeds and fetches? {choices(names)}")


def _interface(signature: Proto, graph: Graph) -> tuple[tuple[Argument, ...], tuple[tuple[str, Output], ...]]:
    """The arguments and results of a signature."""
    arguments = []
    for name, info in sorted(entries(signature.get("inputs", ())).items()):
        output, what = output_named(info.get("name", ""), graph), f"argument '{name}'"
        dims = dims_of(info.get("tensor_shape", {}), what)
        type_ = without_ref(info.get("dtype", "DT_INVALID"))
        arguments.append(Argument(name, output, dtype_of(type_, what), dims))
    outputs = sorted(entries(signature.get("outputs", ())).items())
    results = [(name, output_named(info.get("name", ""), graph)) for name, info in outputs]
    return tuple(arguments), tuple(results)


def _by_tensors(
    saved: Saved, graph: Graph, feeds: Sequence[str] | None, fetches: Sequence[str] | None,
    values: dict[str, np.ndarray], declared: dict[str, Argument],
) -> EntryPoint:  # fmt: skip
    for what, names in (("feeds", feeds), ("fetches", fetches)):
        if isinstance(names, str) or not all(isinstance(name, str) for name in names or ()):
            raise InvalidArgument(f"load: {what} must be a list of names of tensors, found {names!r}")
    if not fetches:
        raise InvalidArgument(f"load: fetches are wanted; {_ends(graph)}")
    arguments = tuple(_fed(name, graph) for name in feeds or ())
    results = tuple((name, output_named(name, graph)) for name in fetches)
    return EntryPoint(saved.name, graph, arguments, results, False, values, declared)


def _fed(name: str, graph: Graph) -> Argument:
    output = output_named(name, graph)
    node = graph.nodes[output.node]
    dtype = None if node.types is None else dtype_of(node.types[output.index], f"the feed '{name}'")
    return Argument(name, output, dtype, node.attributes.get("shape") if node.op == "Placeholder" else None)


def _ends(graph: Graph) -> str:
    """The names of the placeholders of a graph, and of the nodes whose results are unused, for a message."""
    used = {source.node for node in graph.nodes.values() for source in node.inputs}
    first = [node.name for node in graph.nodes.values() if node.op == "Placeholder"]
    last = [node.name for node in graph.nodes.values() if node.name not in used and node.types]
    return f"placeholders: {', '.join(first[:9]) or 'none'}; nodes without users: {', '.join(last[-9:])}"


def _declared(graph: Proto) -> dict[str, Argument]:
    """The variables declared by nodes of the graph and of its functions."""
    bodies = [graph.get("node", ())]
    bodies += [function.get("node_def", ()) for function in graph.get("library", {}).get("function", ())]
    found = {}
    for node in (node for nodes in bodies for node in nodes if node.get("op") in VARIABLES):
        given = entries(node.get("attr", ()))
        shared = given.get("shared_name", {}).get("s", b"").decode("utf-8", "surrogateescape")
        name = shared or node.get("name", "")
        dtype = DTYPES.get(without_ref(given.get("dtype", {}).get("type", "DT_INVALID")))
        dims = dims_of(given.get("shape", {}).get("shape", {"unknown_rank": True}), f"variable '{name}'")
        found[name] = Argument(name, Output(node.get("name", ""), 0), dtype, dims)
    return found


class Variables(MutableMapping[str, np.ndarray]):
    """The values of a function's variables by name; only variables with a value are in it. Setting a value of
    another type or shape raises InvalidArgument.
    """

    def __init__(self, values: Mapping[str, np.ndarray], declared: Mapping[str, Argument]) -> None:
        self._declared = declared
        self.held: dict[str, Any] = dict(values)
        """The values, as NumPy arrays or arrays of the backend."""
        self.shapes = {name: _shape(value) for name, value in values.items()}
        self.version = 0
        """A number that changes whenever the shape of a value changes."""

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self.held[self._known(name, with_value=True)])

    def __setitem__(self, name: str, value: Any) -> None:
        array = _converted(self._declared[self._known(name)], value, "variable")
        self.put(name, np.array(array) if isinstance(array, np.ndarray) else array)

    def __delitem__(self, name: str) -> None:
        del self.held[self._known(name, with_value=True)], self.shapes[name]
        self.version += 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)

    def __contains__(self, name: object) -> bool:
        return name in self.held

    def __repr__(self) -> str:
        listed = (f"{name}: {shape.to_string(layout=False)}" for name, shape in self.shapes.items())
        return f"<axla.tensorflow.Variables {', '.join(listed)}>"

    def put(self, name: str, value: Any) -> None:
        """Sets a value without checking it."""
        self.held[name], shape = value, _shape(value)
        if self.shapes.get(name) != shape:
            self.shapes[name] = shape
            self.version += 1

    def _known(self, name: str, with_value: bool = False) -> str:
        if name not in self._declared:
            raise InvalidArgument(f"there is no variable {name!r}; {choices(self._declared, name)}")
        if with_value and name not in self.held:
            hint = f"f.variables['{name}'] = value sets one"
            raise InvalidArgument(f"variable '{name}' has no value; {hint}")
        return name


def _shape(value: Any) -> Shape:
    return Shape(from_numpy(value.dtype), value.shape)


def _converted(argument: Argument, value: Any, what: str) -> Any:
    """Converts a value to an array of an argument's type. Raises InvalidArgument if it does not fit; `what`
    and the argument's name begin the message.
    """
    what = f"{what} '{argument.name}'"
    if not (hasattr(value, "dtype") and hasattr(value, "shape")):
        try:
            value = np.asarray(value, None if argument.dtype is None else argument.dtype.numpy)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(f"{what}: {error}") from None
    elif not isinstance(value, np.ndarray | Array):
        value = np.asarray(value)
    _check(argument, _known_shape(value, what), what)
    return value


def _known_shape(value: Any, what: str) -> Shape:
    try:
        return _shape(value)
    except (AxlaError, KeyError, TypeError, ValueError):
        raise InvalidArgument(f"{what}: TensorFlow has no element type for {value.dtype}") from None


def _check(argument: Argument, shape: Shape, what: str) -> None:
    if argument.dtype is not None and shape.dtype is not argument.dtype:
        hint = f": value.astype('{argument.dtype.numpy}') converts it"
        raise InvalidArgument(f"{what} must be of type {argument.dtype}, found {shape.dtype}{hint}")
    if not fits(argument.dims, shape.dims):
        wanted = ", ".join("?" if size < 0 else str(size) for size in argument.dims or ())
        raise InvalidArgument(f"{what} must have shape [{wanted}], found {list(shape.dims)}")


class Function:
    """A graph as a function of arrays: see `load`. It is compiled once for each combination of argument
    shapes. `variables` has the values of variables by name; a call changes those that it writes.
    """

    def __init__(self, entry: EntryPoint, backend: Any = "cpu") -> None:
        self.entry = entry
        self.client = backend if isinstance(backend, Client) else get(backend).client
        self.variables = Variables(entry.values, entry.declared)
        self._programs: dict[Any, tuple[Any, Imported]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the graph with arguments by position or by name."""
        given = len(args) == len(self.entry.arguments) and not kwargs
        arrays = list(args) if given else self._arranged(args, kwargs)
        key = self._key(arrays)
        if key not in self._programs:
            pairs = zip(self.entry.arguments, arrays, strict=True)
            arrays = [_converted(argument, value, "argument") for argument, value in pairs]
            key = self._key(arrays)
        if key not in self._programs:
            made = self.entry.imported([_shape(array) for array in arrays], self.variables.shapes)
            self._programs[key] = api.compile(made.module, backend=self.client), made
        executable, made = self._programs[key]
        found = executable.execute([*arrays, *map(self._held, made.variables)])
        names = [name for name, _ in self.entry.results]
        for name, value in zip(made.written, found[len(names) :], strict=True):
            self.variables.put(name, value)
        return dict(zip(names, found, strict=False)) if self.entry.named else found[: len(names)]

    def _key(self, arrays: Sequence[Any]) -> Any:
        """The key of the program for these arguments; None if an argument is not an array yet."""
        if not all(isinstance(array, np.ndarray | Array) for array in arrays):
            return None
        return self.variables.version, tuple([(array.dtype, array.shape) for array in arrays])

    def _held(self, name: str) -> Any:
        """The value of a variable on the device; it is moved there at its first use."""
        value = self.variables.held[name]
        if not isinstance(value, Array):
            value = self.variables.held[name] = self.client.device_put(value)
        return value

    def module(self, *args: Any, **kwargs: Any) -> Module:
        """The program for arguments like these: arrays, or an `axla.Shape` for each; without arguments, for
        the shapes in the graph. Its parameters are the arguments, then the variables read; its result is a
        tuple of the results, then the variables written.
        """
        return self.entry.imported(self._shapes(args, kwargs), self.variables.shapes).module

    def _shapes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Shape]:
        arguments = self.entry.arguments
        if not args and not kwargs:
            for argument in arguments:
                if argument.dtype is None or argument.dims is None or -1 in argument.dims:
                    raise InvalidArgument(f"module: an array or a Shape is wanted for {argument}")
            return [Shape(a.dtype, a.dims) for a in arguments]  # type: ignore[arg-type]
        shapes = []
        for argument, value in zip(arguments, self._arranged(args, kwargs), strict=True):
            if isinstance(value, Shape):
                _check(argument, value, f"argument '{argument.name}'")
            else:
                value = _shape(_converted(argument, value, "argument"))
            shapes.append(value)
        return shapes

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments, given by position or name, in the order of the entry point. Raises InvalidArgument
        for one that is missing, unknown or given twice.
        """
        arguments = self.entry.arguments
        names = [argument.name for argument in arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        if len(args) <= len(names) and len(given) == len(args) + len(kwargs) and {*given} == {*names}:
            return [given[name] for name in names]
        wanted = f"wanted {', '.join(map(str, arguments)) or 'none'}"
        for name in kwargs:
            if name not in names:
                raise InvalidArgument(f"there is no argument '{name}': {wanted}{did_you_mean(name, names)}")
            if name in names[: len(args)]:
                raise InvalidArgument(f"argument '{name}' is given twice: {wanted}")
        missing = [name for name in names if name not in given]
        if missing:
            raise InvalidArgument(f"argument '{missing[0]}' is missing: {wanted}")
        raise InvalidArgument(f"found {len(args)} arguments, not {len(arguments)}: {wanted}")

    def __repr__(self) -> str:
        taken = ", ".join(map(str, self.entry.arguments))
        given = ", ".join(name for name, _ in self.entry.results)
        return f"<axla.tensorflow.Function {self.entry.name}({taken}) -> {given}>"


def load(
    source: ModelSource, *, signature: str | None = None, feeds: Iterable[str] | None = None,
    fetches: Iterable[str] | None = None, backend: Any = "cpu",
) -> Function:  # fmt: skip
    """A TensorFlow graph as a function, compiled for each shape at its first call.

        f = load("saved_model_dir")                        its signature serving_default
        f(x=array)["y"]
        f = load("graph.pb", feeds=["x:0"], fetches=["y:0"])
        y, = f(array)

    `source` is the folder of a SavedModel, the path of a GraphDef or MetaGraphDef (.pb, .pbtxt), or the
    content of such a file. With a signature, by default `serving_default` or the only one, the function takes
    arguments by name and returns a dict; with feeds and fetches, names of tensors, it takes arguments in that
    order and returns a list. `f.variables["v"]` reads and sets a variable. Variables of a SavedModel, or of a
    MetaGraphDef beside its checkpoint, have the saved values; others have none at first. `f.module(...)` is
    the program.

    Raises InvalidArgument for unknown names, ParseError for damaged files, UnsupportedError for other kinds
    of files, and VerifyError and UnsupportedError with the node of the graph.
    """
    feeds = feeds if feeds is None or isinstance(feeds, str) else list(feeds)
    fetches = fetches if fetches is None or isinstance(fetches, str) else list(fetches)
    return Function(entry(source, signature=signature, feeds=feeds, fetches=fetches), backend)
