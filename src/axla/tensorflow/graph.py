"""Graphs: nodes whose inputs are outputs of other nodes, and a library of functions, verified.

A message is parsed and checked here, once: names, inputs, attributes and types must agree with the records,
so importers need not check again. Operations without a record are kept; importing fails only where their
results are needed.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, UnsupportedError, VerifyError, choices, did_you_mean
from axla.importers.records import Record
from axla.tensorflow.attributes import Callee
from axla.tensorflow.records import attributes_of, records, types_of
from axla.tensorflow.types import Proto, entries, without_ref

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
# Names in functions, and of nodes that TensorFlow itself creates, may begin with an underscore.
_INNER_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\\/>-]*$")
_MOST_OUTPUTS = 1 << 21
ARGUMENT = "_Arg"
"""The operation of nodes that represent the arguments of a function."""


class Output(NamedTuple):
    """Output number `index` of the node named `node`; as text, `node:index`."""

    node: str
    index: int

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


@dataclass(slots=True, eq=False)
class Node:
    """A node of a graph. `given`: its attributes as in the message; `attributes`: all attributes that its
    record declares, as Python values; `types`: the types of its outputs. The latter two are set when a
    message is read, if the operation has a record. `place`: where it was created, as text. `fault`: its first
    error, in graphs that keep errors.
    """

    name: str
    op: str
    inputs: list[Output]
    controls: list[str]
    given: dict[str, Proto]
    place: str = ""
    record: Record | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    types: list[str] | None = None
    names: list[str] = field(default_factory=list)
    """For each of `types`, the name of the result that it belongs to in the declaration of the operation."""
    device: str = ""
    fault: str = ""

    def __str__(self) -> str:
        return f"node '{self.name}' ({self.op}{self.place})"

    @property
    def kind(self) -> str:
        """The name of the operation without the prefix `Ref`, which operations on references to variables
        have.
        """
        return self.op.removeprefix("Ref")

    @property
    def sources(self) -> list[str]:
        """The names of the nodes that this one depends on."""
        return [source.node for source in self.inputs] + self.controls


@dataclass(slots=True, eq=False)
class Graph:
    """A graph, or the body of a function. `nodes`: by name, in the order of the message. Of a function,
    `arguments` are the names and types of the argument nodes, `results` the outputs that a call returns, and
    `controls` the nodes that a call waits for.
    """

    name: str
    nodes: dict[str, Node]
    library: FunctionLibrary
    arguments: list[tuple[str, str]] = field(default_factory=list)
    results: list[Output] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)

    def needed(
        self, outputs: Iterable[Output], targets: Iterable[str] = (), cut: Iterable[Output] = ()
    ) -> list[Node]:
        """The nodes that outputs and targets need, operands before users, otherwise in the graph's order;
        `cut`: outputs provided from outside. VerifyError for a cycle.
        """
        fed, fed_nodes = set(cut), {output.node for output in cut}
        wanted = [output.node for output in outputs if output not in fed] + list(targets)
        before: dict[str, list[str]] = {}
        while wanted:
            name = wanted.pop()
            if name in before:
                continue
            node = self.nodes[name]
            sources = [source.node for source in node.inputs if source not in fed]
            sources += [control for control in node.controls if control not in fed_nodes]
            before[name] = [source for source in sources if not self._goes_back(source, node)]
            wanted += sources
        return [self.nodes[name] for name in ordered(before, list(self.nodes), f"graph '{self.name}'")]

    def _goes_back(self, source: str, node: Node) -> bool:
        """Whether an edge leads from one iteration of a loop to the next; such edges may close cycles."""
        return node.kind == "Merge" and self.nodes[source].kind == "NextIteration"


@dataclass(slots=True, eq=False)
class FunctionLibrary:
    """Functions by name. A function is verified on first use, for each combination of attributes.

    `nodes` and `outputs` are counts: of the nodes of the graph and of all functions, and of the outputs of
    the nodes read so far. `definitions`: OpDefs of operations without a record; if given, an error of a node
    becomes its `fault` and is not raised.
    """

    messages: dict[str, Proto] = field(default_factory=dict)
    definitions: Mapping[str, Proto] | None = None
    gradients: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    made: dict[Any, Graph] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    """Functions that axla makes of parts of graphs, by names that are not in `messages`."""
    nodes: int = 0
    outputs: int = 0

    def function(self, called: Callee, what: str) -> Graph:
        """The body of the function `called`, for the attributes of this call. Raises VerifyError, which
        begins with `what`, if the library has no function of this name.
        """
        if called.name in self.graphs:
            return self.graphs[called.name]
        message = self.messages.get(called.name)
        if message is None:
            hint = did_you_mean(called.name, self.messages)
            raise VerifyError(f"{what}: there is no function '{called.name}' in the library{hint}")
        attributes = entries(message.get("attr", ())) | called.attributes
        key = called.name, _exact(attributes)
        if key not in self.made:
            try:
                self.made[key] = _function(message, called.name, attributes, self)
            except AxlaError as error:
                raise type(error)(f"function '{called.name}': {error.message}") from None
        return self.made[key]

    def added(self, graph: Graph, name: str) -> Callee:
        """Adds a graph as a function, under an unused name that begins with `name`; returns a reference to
        it.
        """
        graph.name = f"{name}_{len(self.graphs)}"
        self.graphs[graph.name] = graph
        return Callee(graph.name, {})


def _exact(value: Any) -> Any:
    """A hashable key that differs for different values in messages. (The text of a long NumPy array omits
    elements.)
    """
    if isinstance(value, dict):
        return tuple((key, _exact(each)) for key, each in sorted(value.items()))
    if isinstance(value, list):
        return tuple(map(_exact, value))
    return (value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


def graph_of(message: Proto, name: str = "graph", definitions: Mapping[str, Proto] | None = None) -> Graph:
    """The graph of a GraphDef. Raises VerifyError or ParseError that names the node and what is wrong with
    it.

    A graph that TensorFlow runs may have nodes that no record allows. With `definitions`, OpDefs by operation
    name, such nodes have a `fault`, and operations need no record; the structure of the graph must still be
    right.
    """
    library = FunctionLibrary(definitions=definitions)
    held = message.get("library", {})
    for function in held.get("function", ()):
        called = function.get("signature", {}).get("name", "")
        if called in library.messages:
            raise VerifyError(f"the library has two functions '{called}'")
        library.messages[called] = function
        library.nodes += len(function.get("node_def", ()))
    for gradient in held.get("gradient", ()):
        library.gradients[gradient.get("function_name", "")] = gradient.get("gradient_func", "")
    library.nodes += len(message.get("node", ()))
    library.places = _places(message.get("debug_info", {}))
    nodes = _nodes(message.get("node", ()), _NAME if definitions is None else _INNER_NAME, library)
    for node in nodes.values():
        node.inputs, node.controls = _inputs(node, nodes, plain_output)
    graph = Graph(name, nodes, library)
    _verify(graph)
    return graph


def _places(debug: Proto) -> dict[str, str]:
    """The source locations of nodes, by "node@function": `, file:line` of the innermost known stack frame."""
    files, found = debug.get("files", ()), {}
    fields = ("traces", "traces_by_id", "frames_by_id")
    traces, numbered, frames = (entries(debug.get(field, ())) for field in fields)
    for entry in debug.get("name_to_trace_id", ()):
        traces[entry.get("key", "")] = numbered.get(entry.get("value", 0.0), {})
    for name, trace in traces.items():
        numbers = trace.get("frame_id", ())
        places = trace.get("file_line_cols") or [frames[number] for number in numbers if number in frames]
        for place in places[-1:]:
            number = place.get("file_index", 0)
            if 0 <= number < len(files):
                found[name] = f", {files[number]}:{place.get('line', 0)}"
    return found


def _nodes(
    messages: Iterable[Proto], valid: re.Pattern[str], library: FunctionLibrary, function: str = ""
) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    for message in messages:
        name, op = message.get("name", ""), message.get("op", "")
        if valid.match(name) is None:
            raise VerifyError(f"the name of a node has invalid characters: {name[:80]!r}")
        if name in nodes:
            raise VerifyError(f"there are two nodes '{name}'")
        place = library.places.get(f"{name}@{function}", "")
        given, device = entries(message.get("attr", ())), message.get("device", "")
        node = Node(name, op, [], [], given, place, device=device)
        node.inputs = message.get("input", [])
        nodes[name] = node
        with _kept(node, library):
            _describe(node)
        if node.record is None:
            with _kept(node, library):
                _describe_call(node, library)
        library.outputs += len(node.types or ())
        if library.outputs > _MOST_OUTPUTS:
            raise UnsupportedError(f"{node}: the nodes up to this one have more than {_MOST_OUTPUTS} outputs")
    return nodes


@contextmanager
def _kept(node: Node, library: FunctionLibrary) -> Iterator[None]:
    """Keeps an error of the `with` block as the fault of a node, if the library has definitions."""
    try:
        yield
    except AxlaError as error:
        if library.definitions is None:
            raise
        node.fault = node.fault or error.message


def _describe(node: Node) -> None:
    """Reads the attributes of a node with a record, and determines the types of its outputs."""
    record, what = records().get(node.op), str(node)
    if record is None:
        return
    node.attributes = attributes_of(record, node.given, what)
    outputs = types_of(record.results, node.attributes, what)
    node.names, node.types = [name for name, _, _ in outputs], [type_ for _, type_, _ in outputs]
    node.record = record


def _describe_call(node: Node, library: FunctionLibrary) -> None:
    """Sets the output types of a node without a record: those of the function of this name, or those of the
    definition of its operation.
    """
    signature = library.messages.get(node.op, {}).get("signature") or (library.definitions or {}).get(node.op)
    if signature is None:
        return
    names, types = [], []
    for arg in signature.get("output_arg", ()):
        found = _arg_types(arg, node.given, str(node))
        types += found
        names += [arg.get("name", "")] * len(found)
    node.names, node.types = names, types


def _args(function: Proto, side: str) -> list[Proto]:
    return function.get("signature", {}).get(side, [])


def _arg_types(arg: Proto, attributes: Mapping[str, Proto], what: str) -> list[str]:
    """The types of the values of `arg`, an argument or result in the signature of a function. `attributes`
    are those of the call; error messages begin with `what`.
    """
    try:
        if arg.get("type_list_attr"):
            return [without_ref(t) for t in attributes[arg["type_list_attr"]]["list"].get("type", ())]
        type_ = attributes[arg["type_attr"]]["type"] if arg.get("type_attr") else arg["type"]
        count = attributes[arg["number_attr"]]["i"] if arg.get("number_attr") else 1
    except KeyError as error:
        raise VerifyError(f"{what}: argument '{arg.get('name')}' has no type: {error} is missing") from None
    if not 0 <= count <= 1 << 16:
        raise VerifyError(f"{what}: argument '{arg.get('name')}' has {count} values, wanted 0 to 65536")
    return [without_ref(type_)] * count


# Inputs.


def _inputs(node: Node, nodes: Mapping[str, Node], output_of: Any) -> tuple[list[Output], list[str]]:
    """The data inputs and the control inputs of a node, from the strings that name them in the message.
    `output_of`, `plain_output` or `_function_output`, finds the output for a string.
    """
    inputs: list[Output] = []
    controls: list[str] = []
    texts: Any = node.inputs  # still the strings of the message
    for text in texts:
        if text.startswith("^"):
            if text[1:] not in nodes:
                raise VerifyError(f"{node}: there is no node for its control input '{text[:80]}'")
            controls.append(text[1:])
            continue
        if controls:
            raise VerifyError(f"{node}: the input '{text[:80]}' comes after control inputs")
        inputs.append(output_of(text, nodes, str(node)))
    return inputs, controls


def plain_output(text: str, nodes: Mapping[str, Node], what: str) -> Output:
    """The output named `node` or `node:index`. Raises VerifyError, which begins with `what`, if there is
    none.
    """
    name, _, number = text.partition(":")
    if name not in nodes:
        raise VerifyError(f"{what}: the graph has no node '{name[:80]}'{did_you_mean(name, nodes)}")
    if number and (not number.isdecimal() or len(number) > 6):
        raise VerifyError(f"{what}: '{text[:80]}' is not the name of an output, wanted one like 'node:0'")
    return checked(Output(name, int(number or 0)), nodes, what)


def _function_output(text: str, nodes: Mapping[str, Node], what: str) -> Output:
    """The output named `argument` or `node:output:index`, as the body of a function names inputs. Raises
    VerifyError, which begins with `what`, if there is none.
    """
    name, _, rest = text.partition(":")
    output, _, number = rest.partition(":")
    node = nodes.get(name)
    if node is None or (number and not number.isdecimal()) or len(number) > 6:
        raise VerifyError(f"{what}: there is no output '{text[:80]}'")
    if node.types is None:
        raise UnsupportedError(f"{node}: neither TensorFlow's XLA nor axla supports it")
    if not output:
        return checked(Output(name, 0), nodes, what)
    places = [place for place, found in enumerate(node.names) if found == output]
    if not places:
        names = choices(dict.fromkeys(node.names), output)
        raise VerifyError(f"{what}: {node} has no output '{output}'; {names}")
    if int(number or 0) >= len(places):
        raise VerifyError(f"{what}: {node} has {len(places)} outputs '{output}', '{text}' is not one of them")
    return Output(name, places[int(number or 0)])


def checked(output: Output, nodes: Mapping[str, Node], what: str) -> Output:
    """Returns `output`. Raises VerifyError, which begins with `what`, if its node has fewer outputs."""
    node = nodes[output.node]
    if node.types is not None and output.index >= len(node.types):
        raise VerifyError(f"{what}: {node} has {len(node.types)} outputs, '{output}' is not one of them")
    return output


# Verifying.


def _verify(graph: Graph) -> None:
    for node in graph.nodes.values():
        if node.record is not None:
            with _kept(node, graph.library):
                _verify_inputs(node, graph.nodes)
    graph.needed([], list(graph.nodes))


def _verify_inputs(node: Node, nodes: Mapping[str, Node]) -> None:
    record = node.record
    assert record is not None
    wanted = types_of(record.operands, node.attributes, str(node))
    if len(wanted) != len(node.inputs):
        raise VerifyError(f"{node}: it takes {len(wanted)} inputs, found {len(node.inputs)}")
    for number, ((name, type_, ref), source) in enumerate(zip(wanted, node.inputs, strict=True)):
        types = nodes[source.node].types
        if types is None:
            continue
        found = types[source.index]
        if found != type_:
            raise VerifyError(f"{node}: input {number} ({name}) is {found}, wanted {type_}")
        if ref and not gives_ref(nodes[source.node], source.index):
            raise VerifyError(f"{node}: input {number} ({name}) is a value, wanted a reference to a variable")


def gives_ref(node: Node, index: int) -> bool:
    """Whether an output is a reference to a variable."""
    record = node.record
    return record is not None and types_of(record.results, node.attributes, str(node))[index][2]


def ordered(before: Mapping[str, list[str]], order: list[str], what: str) -> list[str]:
    """The keys of `before`, each after the names that it depends on, otherwise as in `order`. Raises
    VerifyError, which begins with `what`, for a cycle.
    """
    place = {name: number for number, name in enumerate(order)}
    behind: dict[str, list[str]] = {name: [] for name in before}
    left = {}
    for name, sources in before.items():
        left[name] = len(sources)
        for source in sources:
            behind[source].append(name)
    ready = [place[name] for name, count in left.items() if not count]
    heapq.heapify(ready)
    found = []
    while ready:
        name = order[heapq.heappop(ready)]
        found.append(name)
        for user in behind[name]:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(ready, place[user])
    if len(found) < len(before):
        held = [name for name in before if left[name]]
        raise VerifyError(f"{what}: {len(held)} nodes are in cycles or depend on them, '{held[0]}' is one")
    return found


# Functions.


def _function(message: Proto, name: str, attributes: Mapping[str, Proto], library: FunctionLibrary) -> Graph:
    arguments: list[tuple[str, str]] = []
    nodes: dict[str, Node] = {}
    for arg in _args(message, "input_arg"):
        types = _arg_types(arg, attributes, "its signature")
        if len(types) != 1:
            raise UnsupportedError(f"argument '{arg.get('name')}' is a list, which is not supported")
        arguments.append((arg.get("name", ""), types[0]))
    for number, (arg_name, type_) in enumerate(arguments):
        node = Node(arg_name, ARGUMENT, [], [], {}, types=[type_], names=[""])
        node.attributes = {"index": number, "T": type_}
        nodes[arg_name] = node
    inner = [_with_attributes(node, attributes) for node in message.get("node_def", ())]
    for node_name, node in _nodes(inner, _INNER_NAME, library, name).items():
        if node_name in nodes:
            raise VerifyError(f"there are two nodes '{node_name}'")
        nodes[node_name] = node
    for node in nodes.values():
        node.inputs, node.controls = _inputs(node, nodes, _function_output)
    graph = Graph(name, nodes, library, arguments)
    returns = {entry.get("key", ""): entry.get("value", "") for entry in message.get("ret", ())}
    for arg in _args(message, "output_arg"):
        graph.results += _results(arg, returns, nodes, _arg_types(arg, attributes, "its signature"))
    for entry in message.get("control_ret", ()):
        if entry.get("value", "") not in nodes:
            raise VerifyError(f"its control output '{entry.get('value', '')}' is not one of its nodes")
        graph.controls.append(entry["value"])
    _verify(graph)
    return graph


def _results(
    arg: Proto, returns: Mapping[str, str], nodes: Mapping[str, Node], types: list[str]
) -> list[Output]:
    name = arg.get("name", "")
    what = f"result '{name}'"
    if name not in returns:
        raise VerifyError(f"it returns no value for its result '{name}'")
    first = _function_output(returns[name], nodes, what)
    found = [checked(Output(first.node, first.index + number), nodes, what) for number in range(len(types))]
    for output, type_ in zip(found, types, strict=True):
        given = nodes[output.node].types
        if given is not None and given[output.index] != type_:
            raise VerifyError(f"{what} is {given[output.index]}, wanted {type_}")
    return found


def _with_attributes(node: Proto, attributes: Mapping[str, Proto]) -> Proto:
    """A node of a function's body, or a reference to a function, in which placeholders are replaced by the
    attribute values of a call.
    """
    filled = [
        {**entry, "value": _filled(entry.get("value", {}), attributes)} for entry in node.get("attr", ())
    ]
    return {**node, "attr": filled}


def _filled(value: Proto, attributes: Mapping[str, Proto]) -> Proto:
    if "placeholder" in value:
        return attributes.get(value["placeholder"], value)
    if "func" in value and value["func"].get("attr"):
        return {"func": _with_attributes(value["func"], attributes)}
    return value
