"""Which nodes may run in a cluster, and why others may not, as XLA's mark-for-compilation decides it.

A node is marked with what keeps it apart from others too: its scope, its device, and its group, which is the
loop (frame) that it is in and what must hold for it to run at all (its predicate).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from axla.core.errors import AxlaError
from axla.tensorflow.attributes import Called, called_by
from axla.tensorflow.graph import ARGUMENT, Graph, Node, Output, gives_ref
from axla.tensorflow.records import types_of
from axla.tensorflow.types import DTYPES, entries

_CALLS_NESTED = 50
_FLOW = ("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ControlTrigger")
_GIVEN = (ARGUMENT, "_Retval", "Placeholder", "PlaceholderWithDefault")
_LEFT: Mapping[str, str] = {
    op: reason
    for reason, ops in {
        "its results differ from run to run": (
            "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "RandomShuffle", "TruncatedNormal",
            "ParameterizedTruncatedNormal", "Multinomial",
        ),
        "clusters leave out what it checks": ("Assert", "CheckNumerics", "CheckNumericsV2"),
        "the sizes of its results depend on values": (
            "Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "ListDiff",
            "DynamicPartition", "NonMaxSuppressionV3", "XlaSetDynamicDimensionSize",
        ),
        "XLA is slower or less exact than TensorFlow": (
            "SelfAdjointEigV2", "Svd", "Qr", "MatrixInverse", "MatrixSolve", "ResizeNearestNeighbor",
            "ResizeBilinear", "ResizeBilinearGrad",
        ),
        "it waits for other devices": (
            "XlaSend", "XlaRecv", "XlaAllReduce", "XlaReduceScatter", "CollectiveReduceV2",
            "CollectiveAssignGroupV2",
        ),
    }.items()
    for op in ops
}  # fmt: skip
"""What clusters leave to TensorFlow though it could be compiled; a node that must be compiled is."""

_NOT_ARRAYS = {"DT_STRING": "strings", "DT_RESOURCE": "resources", "DT_VARIANT": "variants"}
_DEVICE = re.compile(
    r"(/job:localhost)?(/replica:0)?(/task:0)?(?:/(?:device:)?(?P<kind>[A-Z_]+)(?::(?P<number>\d+|\*))?)?$",
    re.I,
)


class Side(NamedTuple):
    """A condition, and what it must be."""

    condition: Output
    value: bool


class Group(NamedTuple):
    """The frames around a node, and what must hold where it runs: conditions, and names of what is not known
    better (of a Merge, of a frame).
    """

    frame: tuple[str, ...]
    predicate: frozenset[object]


@dataclass(frozen=True, slots=True)
class Mark:
    """What says in which cluster a node can be: in none where `reason` is not empty. Nodes with different
    scope, device or group are never in one cluster. One that `must` be in a cluster and cannot is an error.
    """

    reason: str
    scope: str
    device: str
    must: bool
    group: Group


def marked(graph: Graph, mode: Literal["auto", "scope"]) -> dict[str, Mark]:
    """The mark of each node. "auto" takes all nodes that can be compiled, "scope" those with _XlaCompile."""
    compiler = _Compilable(graph)
    groups = _groups(graph)
    waited = {name for node in graph.nodes.values() for name in node.sources}
    scope = "_XlaScope" if mode == "scope" else "_XlaInternalScope"
    found = {}
    for name, node in graph.nodes.items():
        device, elsewhere, must = _device(node)
        must = must or bool(compiler.flag(node, "_XlaMustCompile"))
        wanted = compiler.flag(node, "_XlaCompile")
        reason = elsewhere or compiler.why_not(node, graph, must) or compiler.why_apart(node, graph)
        if wanted is False:
            reason = reason or "_XlaCompile is false"
        elif not must and not wanted and mode == "scope":
            reason = reason or "it is in no scope"
        if node.op == "NoOp" and name not in waited and not must:
            reason = reason or "nothing waits for it"
        label = node.given.get(scope, {}).get("s", b"").decode("utf-8", "replace")
        found[name] = Mark(reason, label, device, must, groups[name])
    return found


def asked(graph: Graph, node: Node) -> bool:
    """Whether somebody asked for a node to be compiled, in however small a cluster."""
    compiler = _Compilable(graph)
    return bool(compiler.flag(node, "_XlaCompile") or compiler.flag(node, "_XlaMustCompile"))


def _device(node: Node) -> tuple[str, str, bool]:
    """The device of a node, why nothing is compiled for it, and whether all of it is compiled."""
    match = _DEVICE.match(node.device)
    if match is None:
        return node.device, f"it is placed on {node.device}", False
    kind = (match["kind"] or "CPU").upper()
    device = f"{kind}:{(match['number'] or '0').replace('*', '0')}"
    elsewhere = kind.removeprefix("XLA_").removesuffix("_JIT") != "CPU"
    return device, f"it is placed on {device}" if elsewhere else "", kind.startswith("XLA_")


class _Compilable:
    """What of a graph, and of the functions that it calls, can be compiled."""

    def __init__(self, graph: Graph) -> None:
        self.library = graph.library
        self.bodies: dict[tuple[Graph, bool], str] = {}

    def calls(self, node: Node) -> list[Called]:
        """The functions that a node calls."""
        if node.op in self.library.messages:
            return [Called(node.op, node.given)]
        return called_by(node.attributes) if node.record is not None else []

    def flag(self, node: Node, name: str) -> bool | None:
        """An attribute of a node, or of the function that it calls; None where it is missing."""
        given = [node.given]
        for called in self.calls(node):
            given.append(entries(self.library.messages.get(called.name, {}).get("attr", ())))
        return next((each[name]["b"] for each in given if "b" in each.get(name, ())), None)

    def why_not(self, node: Node, graph: Graph, must: bool, depth: int = 0) -> str:
        """Why no program is made of a node, wherever it stands; empty where one can be made."""
        calls = self.calls(node)
        if node.fault:
            return node.fault.removeprefix(f"{node}: ")
        if node.op in _GIVEN:
            return ""
        if node.kind in _FLOW:
            return "it is control flow of TensorFlow 1"
        if node.record is None and not calls:
            return "axla has no such operation"
        if node.record is not None and node.record.why_not:
            return node.record.why_not
        if not must and node.op in _LEFT:
            return _LEFT[node.op]
        return next((why for called in calls if (why := self.why_not_called(called, must, depth + 1))), "")

    def why_not_called(self, called: Called, must: bool, depth: int) -> str:
        """Why no program is made of a function: the first of its nodes for which that is so."""
        if depth > _CALLS_NESTED:
            return f"its calls are nested more than {_CALLS_NESTED} deep"
        try:
            body = self.library.function(called, "it")
            nodes = body.needed(body.results, body.controls)
        except AxlaError as error:
            return error.message
        if (body, must) not in self.bodies:
            self.bodies[body, must] = f"function '{called.name}' calls itself"
            found = ((node, self._why_not_inside(node, body, must, depth)) for node in nodes)
            what = next((f"{node} of function '{called.name}': {why}" for node, why in found if why), "")
            self.bodies[body, must] = what
        return self.bodies[body, must]

    def _why_not_inside(self, node: Node, body: Graph, must: bool, depth: int) -> str:
        why = self.why_not(node, body, must, depth)
        return why if why or must else _why_no_arrays(node, body)

    def why_apart(self, node: Node, graph: Graph) -> str:
        """Why a node that can be compiled cannot be in a cluster of a graph."""
        if node.op in _GIVEN:
            return "it is an argument or a result"
        return _why_no_arrays(node, graph)


def _why_no_arrays(node: Node, graph: Graph) -> str:
    """Why inputs or outputs of a node are nothing that a program takes or gives."""
    types = list(node.types or ())
    if node.record is not None:
        values = types_of((*node.record.operands, *node.record.results), node.attributes, str(node))
        if any(ref for _, _, ref in values) or (
            node.op == "Identity" and _follows_ref(node.inputs[0], graph)
        ):
            return "it takes or gives a reference to a variable"
        types = [type_ for _, type_, _ in values]
    for source in node.inputs:
        types += (graph.nodes[source.node].types or [])[source.index : source.index + 1]
    others = [_NOT_ARRAYS.get(type_, type_) for type_ in types if type_ not in DTYPES]
    return f"it takes or gives {others[0]}" if others else ""


def _follows_ref(source: Output, graph: Graph) -> bool:
    return gives_ref(graph.nodes[source.node], source.index)


# Loops and branches of TensorFlow 1.


def _groups(graph: Graph) -> dict[str, Group]:
    """The group of each node. Values of a loop are taken to live equally long where all loops allow it."""
    nodes = graph.needed([], list(graph.nodes))
    groups, equal = _lives(nodes, graph, True)
    return groups if equal else _lives(nodes, graph, False)[0]


def _lives(nodes: Sequence[Node], graph: Graph, together: bool) -> tuple[dict[str, Group], bool]:
    """The groups of nodes that are in order; and whether, where values of a loop live `together`, they all
    enter it under the same predicate, and go on to the next turn under the same one.
    """
    groups: dict[str, Group] = {}
    entered: dict[object, set[frozenset[object]]] = {}
    backs: list[tuple[object, str]] = []
    for node in nodes:
        sources = [name for name in node.sources if name in groups]  # but for the ways back
        frame = max((_behind(name, groups, graph) for name in sources), key=len, default=())
        if node.kind == "Enter":
            frame = (*frame, node.attributes.get("frame_name", ""))
        inputs = [_predicate(source, groups, graph) for source in node.inputs if source.node in groups]
        back = [name for name in node.sources if node.kind == "Merge" and name not in groups]
        if node.op == "ControlTrigger":
            predicate: frozenset[object] = frozenset()
        elif back:
            symbol: object = frame if together else node.name
            predicate = frozenset([symbol])
            entered.setdefault(symbol, set()).update(inputs)
            backs += [(symbol, name) for name in back]
        elif node.kind == "Merge":
            predicate = _either(inputs, node.name)
        else:
            predicate = _all(inputs + [groups[name].predicate for name in node.controls if name in groups])
        groups[node.name] = Group(frame, predicate)
    steps: dict[object, set[frozenset[object]]] = {}
    for symbol, name in backs:
        steps.setdefault(symbol, set()).add(groups[name].predicate)
    stay = all(symbol in step for symbol, found in steps.items() for step in found)
    return groups, stay and all(len(found) == 1 for found in (*entered.values(), *steps.values()))


def _behind(name: str, groups: Mapping[str, Group], graph: Graph) -> tuple[str, ...]:
    """The frames around what uses a node."""
    frame = groups[name].frame
    return frame[:-1] if graph.nodes[name].kind == "Exit" else frame


def _predicate(output: Output, groups: Mapping[str, Group], graph: Graph) -> frozenset[object]:
    """What must hold where an output has a value."""
    node, predicate = graph.nodes[output.node], groups[output.node].predicate
    if node.kind == "Switch" and len(node.inputs) == 2:
        return predicate | {Side(node.inputs[1], output.index == 1)}
    return predicate


def _all(predicates: Collection[frozenset[object]]) -> frozenset[object]:
    return frozenset().union(*predicates)


def _either(predicates: Sequence[frozenset[object]], name: str) -> frozenset[object]:
    """What must hold where one of several values is there: two sides of a predicate are always there."""
    if len(set(predicates)) == 1:
        return predicates[0]
    if len(predicates) == 2:
        first, second = predicates
        sides = [each for each in first ^ second if isinstance(each, Side)]
        if len(sides) == len(first ^ second) == 2 and sides[0].condition == sides[1].condition:
            return first & second
    return frozenset([name])
