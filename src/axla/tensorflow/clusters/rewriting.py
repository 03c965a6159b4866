"""Writes GraphDefs in which an AxlaLaunch node replaces each cluster, also in the bodies of functions.

The graph of a session grows, and each combination of feeds, fetches and targets needs other nodes, so
clusters differ from run to run. But nodes once added to TensorFlow's graph cannot be changed, and may hold
state under their names (reference variables, random numbers, queues). So `Rewriter.part` returns new nodes
only. A node is added again, under another name, if its inputs have changed because other clusters compute
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from graphlib import TopologicalSorter
from typing import Any, Literal, NamedTuple

from axla.backends import get
from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError, UnsupportedError
from axla.tensorflow.attributes import Callee, called_by
from axla.tensorflow.clusters.forming import Formed, formed
from axla.tensorflow.clusters.marking import Mark, marked
from axla.tensorflow.graph import Graph, Node, Output, graph_of, plain_output
from axla.tensorflow.messages import decode
from axla.tensorflow.types import Proto, entries

Mode = Literal["auto", "scope", "off"]
_CALLS = (
    "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase", "While",
    "StatelessWhile",
)  # fmt: skip
"""The operations whose functions are rewritten. TensorFlow runs the functions of other operations, such as
datasets, elsewhere.
"""
GPU = "cuda"
"""The backend for the device XLA_GPU."""
_PLAIN_ON_XLA = frozenset((
    "Placeholder", "PlaceholderWithDefault", "VarHandleOp", "Variable", "VariableV2", "ReadVariableOp",
    "AssignVariableOp", "VarIsInitializedOp", "IsVariableInitialized", "Assign", "NoOp", "ControlTrigger",
    "_Arg", "_Retval", "Const", "Identity", "IdentityN", "Shape", "Switch", "Merge", "Enter", "Exit",
    "NextIteration", "LoopCond", "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration",
))  # fmt: skip
"""The operations that XLA's devices run without a cluster."""
_XLA_DEVICE = re.compile(r"/?(?:device:)?XLA_(CPU|GPU)(?::(?:\d+|\*))?", re.IGNORECASE)


class ClusterCall(NamedTuple):
    """The operation by which TensorFlow runs a cluster: its name, and the names of its attributes and output.
    The attribute `key` identifies the cluster: its value is the field of the cluster that `value` names.
    """

    op: str
    inputs: str
    results: str
    key: str
    value: str
    output: str

    def attributes(self, program: Any) -> list[Proto]:
        """The attributes of the node that runs the cluster `program`."""
        key, lists = getattr(program, self.value), (program.input_types, program.result_types)
        found = {self.inputs: {"list": {"type": lists[0]}}, self.results: {"list": {"type": lists[1]}}}
        return listed({**found, self.key: {"i": key} if isinstance(key, int) else {"s": key}})


KERNEL = ClusterCall("AxlaLaunch", "Targs", "Tresults", "program", "number", "results")
PY_FUNC = ClusterCall("PyFunc", "Tin", "Tout", "token", "token", "output")


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    """The decision for a node of the graph or of a function: the name of its cluster, or the reason why it
    has none.
    """

    node: Node
    function: str
    cluster: str
    reason: str


@dataclass(slots=True, eq=False)
class RunPart:
    """The graph for some feeds, fetches and targets, and the names that these have in the graph (empty for a
    feed that is not needed). `graph` has only the nodes and functions not added before; `decisions` has the
    decision for each node.
    """

    graph: Proto
    feeds: list[str] = field(default_factory=list)
    fetches: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    clusters: list[Any] = field(default_factory=list)
    decisions: list[ClusterDecision] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Unit:
    """A candidate for a node of the rewritten graph: a node of the original graph, or the node that runs a
    cluster.
    """

    proto: Proto
    inputs: Sequence[Output]
    controls: Sequence[str]
    key: tuple[object, ...] = ()
    name: str = ""


@dataclass(slots=True, eq=False)
class _Formed:
    """The clusters of a graph with their programs. `homes`: for each node that only its cluster runs, the
    name of the cluster; `outputs`: for each output of a node in a cluster, the output of the cluster.
    """

    programs: list[tuple[Formed, Any]] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)
    outputs: dict[Output, Output] = field(default_factory=dict)

    def unit(self, name: str) -> str:
        """The name of the node to write for the node `name`: its own name, or that of its cluster."""
        return self.homes.get(name, name)

    def output(self, output: Output) -> Output:
        """The output of a node to write that has the value of `output`."""
        return self.outputs.get(output, output)


@dataclass(slots=True, eq=False)
class Rewriter:
    """Rewrites a graph, which may grow. `cluster(name, graph, inputs, outputs, backend)` creates programs;
    `definition` returns the OpDef of an operation.
    """

    cluster: Callable[[str, Graph, Sequence[Output], Sequence[Output], str], Any]
    mode: Mode
    minimum: int
    definition: Callable[[str], Proto | None]
    way: ClusterCall = KERNEL
    definitions: dict[str, Proto] = field(default_factory=dict)
    message: Proto = field(default_factory=dict)
    graph: Graph = field(default_factory=lambda: graph_of({}))
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    """The name of each node added so far, by a key made of its operation, attributes and inputs."""
    taken: set[str] = field(default_factory=set)
    programs: dict[tuple[object, ...], Any] = field(default_factory=dict)
    bodies: dict[str, tuple[Proto | None, RunPart]] = field(default_factory=dict)
    """For each function: the function that replaces it, or None, and a RunPart with its clusters and
    decisions.
    """
    calling: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    """The names of the functions added so far."""
    parts: int = 0

    def read(self, data: bytes) -> None:
        """Reads a GraphDef: the whole current graph."""
        self.message = decode(data, "GraphDef")
        functions = self.message.get("library", {}).get("function", ())
        nodes = [*self.message.get("node", ()), *(n for each in functions for n in each.get("node_def", ()))]
        for op in {node["op"] for node in nodes} - self.definitions.keys():
            found = self.definition(op)
            if found is not None:
                self.definitions[op] = found
        self.graph = graph_of(self.message, definitions=self.definitions)

    def part(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> RunPart:
        """The part of the graph that fetches and targets (nodes) need. UnsupportedError for a node that must
        be compiled but cannot be.
        """
        fed = [plain_output(text, self.graph.nodes, f"the feed '{text}'") for text in feeds]
        graph, protos = self._with_feeds(fed)
        outputs = [plain_output(text, self.graph.nodes, f"the fetch '{text}'") for text in fetches]
        graph.results = [_place(output, graph) for output in outputs]
        graph.nodes = {node.name: node for node in graph.needed(graph.results, targets)}
        graph.controls = list(targets)
        part = RunPart({})
        found = self._formed(graph, "", part)
        units = self._units(graph, protos, found, part)
        new = self._named(units, graph, found)

        def text(output: Output) -> str:
            source = found.output(output)
            return f"{units[source.node].name}:{source.index}"

        places = [_place(output, graph) for output in fed]
        part.feeds = [text(place) if place.node in units else "" for place in places]
        part.fetches = [text(output) for output in graph.results]
        part.targets = [units[found.unit(name)].name for name in targets]
        part.graph["versions"] = self.message.get("versions", {})
        part.graph["node"] = _written(new, units, found, text)
        self._add_functions(part)
        return part

    def _with_feeds(self, fed: Sequence[Output]) -> tuple[Graph, dict[str, Proto]]:
        """The graph, and the messages of its nodes, with a placeholder for each fed output, under the
        output's name.
        """
        nodes = dict(self.graph.nodes)
        protos = {proto["name"]: proto for proto in self.message.get("node", ())}
        for output in fed:
            node = nodes[output.node]
            if node.op != "Placeholder":
                proto = placeholder(node.name, (node.types or ["DT_INVALID"])[output.index])
                (stub,) = graph_of({"node": [proto]}).nodes.values()
                protos[str(output)], nodes[str(output)] = proto, replace(stub, name=str(output))
        graph = replace(self.graph, nodes=nodes)
        for name, node in nodes.items() if fed else ():
            nodes[name] = replace(node, inputs=[_place(source, graph) for source in node.inputs])
        return graph, protos

    # Clusters.

    def _formed(self, graph: Graph, function: str, part: RunPart) -> _Formed:
        """The clusters of a graph, which is the body of the function named `function`, or the whole graph if
        that is "". Adds their programs, and a decision for each node, to `part`.
        """
        marks = self._marks(graph, function)
        found = _Formed()
        waited = {*graph.controls, *(name for node in graph.nodes.values() for name in node.controls)}
        clusters: dict[str, str] = {}
        for each in formed(graph, marks, self.minimum):
            if each.outputs or not waited.isdisjoint(each.nodes):
                name = _apart(each.name, graph)
                clusters |= dict.fromkeys(each.nodes, name)
                program = self._program(each, graph, function)
                program.falls_back = not any(marks[node].must for node in each.nodes)
                found.programs.append((replace(each, name=name), program))
                found.homes |= {node: name for node in each.nodes if not _is_shared(graph.nodes[node])}
                found.outputs |= {output: Output(name, number) for number, output in enumerate(each.outputs)}
        part.clusters += [program for _, program in found.programs]
        for name, node in graph.nodes.items():
            reason = marks[name].reason or "too few nodes could share a cluster with it"
            reason = "" if name in clusters else reason
            _check(node, marks[name], reason)
            part.decisions.append(ClusterDecision(node, function, clusters.get(name, ""), reason))
        return found

    def _marks(self, graph: Graph, function: str) -> dict[str, Mark]:
        marks = marked(graph, "scope" if self.mode == "off" else self.mode)
        for (where, *_), program in self.programs.items():
            if program.refused and where == function:
                for name in _at_fault(program):
                    if name in marks:
                        marks[name] = replace(marks[name], reason=program.refused)
        for name, mark in marks.items():
            if self.mode == "off" and not _XLA_DEVICE.search(graph.nodes[name].device):
                marks[name] = replace(mark, reason="clusters are switched off", must=False)
        return marks

    def _program(self, each: Formed, graph: Graph, function: str) -> Any:
        """The program of the cluster `each`. Its graph has only the nodes that it needs. It is created once,
        and used again for an equal cluster of the same function.
        """
        nodes = {source.node: graph.nodes[source.node] for source in each.inputs}
        members = frozenset(each.nodes)
        for name in each.nodes:
            node = graph.nodes[name]
            nodes[name] = replace(node, controls=[other for other in node.controls if other in members])
        inner = [(name, *nodes[name].inputs, *nodes[name].controls) for name in each.nodes]
        key = (function, *inner, each.inputs, each.outputs)
        if key not in self.programs:
            held = Graph(each.name, nodes, graph.library)
            backend = GPU if _is_on_gpu(graph.nodes[each.nodes[0]]) else "cpu"
            self.programs[key] = self.cluster(each.name, held, each.inputs, each.outputs, backend)
        return self.programs[key]

    # Nodes.

    def _units(
        self, graph: Graph, protos: Mapping[str, Proto], found: _Formed, part: RunPart
    ) -> dict[str, _Unit]:
        """The candidates for nodes of the rewritten graph, by name: each node in no cluster, and a node for
        each cluster. `_named` drops those that no result needs.
        """
        units = {}
        for name, node in graph.nodes.items():
            if name in protos and name not in found.homes:
                proto, called = self._calling(node, protos[name], part)
                key = (name, proto["op"], *called)
                units[name] = _Unit(_off_xla(proto), node.inputs, node.controls, key)
        for each, program in found.programs:
            members = [graph.nodes[name] for name in each.nodes]
            waits = dict.fromkeys(found.unit(name) for node in members for name in node.controls)
            waits.pop(each.name, None)
            attributes, place = self.way.attributes(program), members[0].device
            proto = {"name": each.name, "op": self.way.op, "attr": attributes, "device": place}
            units[each.name] = _Unit(_off_xla(proto), each.inputs, [*waits], (None, program.number))
        return units

    def _named(self, units: dict[str, _Unit], graph: Graph, found: _Formed) -> list[_Unit]:
        """Names the nodes in `units` that results need, and removes the others. A node that was added before,
        with the same inputs, keeps its name. Returns the nodes that must be added.
        """
        before: dict[str, list[str]] = {}
        left = [found.unit(name) for name in (*(output.node for output in graph.results), *graph.controls)]
        while left:
            name = left.pop()
            if name not in before:
                sources = [found.output(source).node for source in units[name].inputs]
                sources += [found.unit(control) for control in units[name].controls]
                before[name] = [source for source in sources if not _goes_back(source, name, graph)]
                left += sources
        for name in units.keys() - before.keys():
            del units[name]
        self.parts += 1
        new = []
        for name in TopologicalSorter(before).static_order():
            unit = units[name]
            sources = [found.output(source) for source in unit.inputs]
            sources += [Output(found.unit(control), -1) for control in unit.controls]
            # A Merge is not shared with other parts: the source of its back edge has no name yet.
            loop = self.parts if len(before[name]) < len(sources) else 0
            key = (*unit.key, loop, *((units[source.node].name, source.index) for source in sources))
            if key not in self.names:
                self.names[key] = self.free(unit.proto["name"])
                new.append(unit)
            unit.name = self.names[key]
        return new

    def free(self, name: str) -> str:
        """Reserves and returns a name that no added node has."""
        found, number = name, 1
        while found in self.taken:
            found, number = f"{name}__{number}", number + 1
        self.taken.add(found)
        return found

    # Functions.

    def _calling(self, node: Node, proto: Proto, part: RunPart) -> tuple[Proto, list[str]]:
        """The node `proto`, with calls of rewritten functions instead of its own ones, and the names of the
        functions that it then calls.
        """
        called = called_by(node.attributes) if node.op in _CALLS else []
        names = {each.name: self._other(each, part) for each in called}
        return {**proto, "attr": _renamed(proto.get("attr", []), names)}, [*names.values()]

    def _other(self, called: Callee, part: RunPart) -> str:
        """The name of the function to call instead of `called`: one with clusters, or `called` itself."""
        if called.attributes or called.name in self.calling or called.name not in self.graph.library.messages:
            return called.name
        if called.name not in self.bodies:
            inside = RunPart({})
            self.calling.append(called.name)
            try:
                self.bodies[called.name] = self._body(called, inside), inside
            finally:
                self.calling.pop()
        body, inside = self.bodies[called.name]
        part.clusters += inside.clusters
        part.decisions += inside.decisions
        return called.name if body is None else body["signature"]["name"]

    def _body(self, called: Callee, part: RunPart) -> Proto | None:
        """A function with clusters in its body; None where it has none."""
        message = self.graph.library.messages[called.name]
        try:
            graph = self.graph.library.function(called, "it")
        except AxlaError:  # TensorFlow may accept the function
            return None
        arguments, returns = message["signature"].get("output_arg", []), entries(message.get("ret", ()))
        if len(arguments) != len(graph.results):
            return None  # a result is a list of values
        protos = {proto["name"]: proto for proto in message.get("node_def", ())}
        found = self._formed(graph, called.name, part)
        units = self._units(graph, protos, found, part)
        if not part.clusters:
            return None
        results = dict(zip((each["name"] for each in arguments), graph.results, strict=True))
        texts = {output: returns[name] for name, output in results.items()}
        for name, proto in protos.items():
            texts |= zip(graph.nodes[name].inputs, proto.get("input", ()), strict=False)
        texts |= {output: f"{at.node}:{self.way.output}:{at.index}" for output, at in found.outputs.items()}
        for key, unit in units.items():
            unit.name = key
        name = self.free(f"{called.name}__axla")
        waits = [{**each, "value": found.unit(each["value"])} for each in message.get("control_ret", ())]
        return {
            **message,
            "signature": {**message["signature"], "name": name, "is_stateful": True},
            "node_def": _written(units.values(), units, found, texts.__getitem__),
            "ret": [{"key": name, "value": texts[output]} for name, output in results.items()],
            "control_ret": waits,
        }

    def _add_functions(self, part: RunPart) -> None:
        """Adds to a part the functions that were not added before."""
        library = self.message.get("library", {})
        functions = [*library.get("function", ()), *(body for body, _ in self.bodies.values() if body)]
        fresh = {each["signature"]["name"]: each for each in functions}
        fresh = {name: each for name, each in fresh.items() if name not in self.given}
        if fresh:
            self.given |= fresh.keys()
            part.graph["library"] = {"function": [*fresh.values()], "gradient": library.get("gradient", [])}


def _at_fault(program: Any) -> set[str]:
    """The name of the node for which `program` could not be compiled; the names of all its nodes if that one
    is not known.
    """
    needed = program.graph.needed(program.outputs, cut=program.inputs)
    nodes = {node.name for node in needed if not _is_shared(node)}
    named = re.match(r"node '([^']+)'", program.refused)
    return {named[1]} if named and named[1] in nodes else nodes


def _check(node: Node, mark: Mark, reason: str) -> None:
    """Raises UnsupportedError for a node that must be compiled but cannot be: for `reason`, which is empty if
    it can, or because there is no such GPU.
    """
    if _is_on_gpu(node):
        try:
            get(GPU).client.device_put(0)
        except AxlaError as error:
            raise UnsupportedError(f"{node}: it is placed on {mark.device}; {error.message}") from error
    if reason and mark.must and node.op not in _PLAIN_ON_XLA:
        raise UnsupportedError(f"{node}: it must be compiled (it is placed on {mark.device}), but {reason}")


def _is_on_gpu(node: Node) -> bool:
    found = _XLA_DEVICE.search(node.device)
    return found is not None and found[1].upper() == "GPU"


def _apart(name: str, graph: Graph) -> str:
    """`name`, with underscores at the end if a node of the graph has this name."""
    while name in graph.nodes:
        name += "_"
    return name


def _place(output: Output, graph: Graph) -> Output:
    """The output that has the value of `output`: of its placeholder if it is fed, else `output` itself."""
    return Output(str(output), 0) if str(output) in graph.nodes else output


def _is_shared(node: Node) -> bool:
    """Whether a node is copied into each cluster that uses it, and also stays in the graph."""
    return node.op == "Const" and not node.controls


def _goes_back(source: str, name: str, graph: Graph) -> bool:
    """Whether an edge leads to the next iteration of a loop."""
    kinds = [graph.nodes[each].kind if each in graph.nodes else "" for each in (source, name)]
    return kinds == ["NextIteration", "Merge"]


def _written(
    units: Iterable[_Unit], kept: Mapping[str, _Unit], found: _Formed, text: Callable[[Output], str]
) -> list[Proto]:
    """The NodeDefs of `units`. `text` returns an input as text. Control inputs refer to the clusters that
    `found` has instead of nodes inside them; requests for colocation with nodes outside `kept` are removed.
    """
    names = {name: unit.name for name, unit in kept.items()}
    written = []
    for unit in units:
        waits = dict.fromkeys(names.get(found.unit(name), name) for name in unit.controls)
        inputs = [text(source) for source in unit.inputs] + [f"^{name}" for name in waits]
        attributes = [_colocated(entry, names) for entry in unit.proto["attr"]]
        written.append({**unit.proto, "name": unit.name, "input": inputs, "attr": attributes})
    return written


def _colocated(entry: Proto, names: Mapping[str, str]) -> Proto:
    """An attribute without requests for colocation with nodes that no longer exist."""
    if entry["key"] != "_class":
        return entry
    places = [text.decode().removeprefix("loc:@") for text in entry["value"].get("list", {}).get("s", ())]
    there = [f"loc:@{names[name]}".encode() for name in places if name in names]
    return {"key": "_class", "value": {"list": {"s": there}}}


def placeholder(name: str, type_: str) -> Proto:
    """A placeholder node for a value of any shape."""
    attributes = {"dtype": {"type": type_}, "shape": {"shape": {"unknown_rank": True}}}
    return {"name": name, "op": "Placeholder", "attr": listed(attributes)}


def listed(attributes: Mapping[str, Proto]) -> list[Proto]:
    """Attributes as a list of the entries of a map field."""
    return [{"key": key, "value": value} for key, value in attributes.items()]


def _off_xla(proto: Proto) -> Proto:
    """The node, placed on the CPU instead of XLA's device, as TensorFlow has no such device."""
    return {**proto, "device": _XLA_DEVICE.sub("/device:CPU:0", proto.get("device", ""))}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A part of a message in which references to functions are renamed: `names` has the new names by the old
    ones.
    """
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    if not isinstance(value, dict) or not names:
        return value
    found = {key: _renamed(each, names) for key, each in value.items()}
    if value.keys() <= {"name", "attr"} and value.get("name") in names:
        found["name"] = names[value["name"]]
    return found
