"""Decides which nodes may run in a cluster, and why others may not, as XLA's mark-for-compilation does.

A node is also marked with properties that all nodes of a cluster must share: its scope, its device, and its
group, which consists of its loop (frame) and the condition under which it runs (its predicate).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from axla.core.dataclass import dataclass
from axla.core.errors import AxlaError
from axla.tensorflow.attributes import Callee, called_by
from axla.tensorflow.frames import plain
from axla.tensorflow.graph import ARGUMENT, Graph, Node, Output, gives_ref
from axla.tensorflow.records import types_of
from axla.tensorflow.types import DTYPES, entries

_CALLS_NESTED = 50
_FLOW = ("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ControlTrigger")
_GIVEN = (ARGUMENT, "_Retval", "Placeholder", "PlaceholderWithDefault")
_KNOWN = ("Const", "Shape", "ShapeN", "Size", "Rank")  # operations whose values follow from shapes
_BY_VALUES = "the sizes of its results depend on values"
RANDOM = (
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "RandomShuffle", "TruncatedNormal",
    "ParameterizedTruncatedNormal", "Multinomial",
)  # fmt: skip
"""The operations that return different numbers in each run."""
_REASONS = {
    "clusters leave out what it checks": "Assert CheckNumerics CheckNumericsV2",
    _BY_VALUES: "Where Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 "
    "ListDiff DynamicPartition XlaSetDynamicDimensionSize NonMaxSuppressionV3 NonMaxSuppressionV4",
    "XLA is slower or less exact than TensorFlow": "SelfAdjointEigV2 Svd Qr MatrixInverse MatrixSolve "
    "ResizeNearestNeighbor ResizeBilinear ResizeBilinearGrad",
    "it waits for other devices": "XlaSend XlaRecv XlaAllReduce XlaReduceScatter CollectiveReduceV2 "
    "CollectiveAssignGroupV2",
}
_LEFT = {op: reason for reason, ops in _REASONS.items() for op in ops.split()}
_LEFT |= dict.fromkeys(RANDOM, "its results differ from run to run")
"""The operations that could be compiled but are left to TensorFlow, with the reasons. A node that must be
compiled is compiled anyway.
"""

_NOT_ARRAYS = {"DT_STRING": "strings", "DT_RESOURCE": "resources", "DT_VARIANT": "variants"}
_DEVICE = re.compile(
    r"(/job:localhost)?(/replica:0)?(/task:0)?(?:/(?:device:)?(?P<kind>[A-Z_]+)(?::(?P<number>\d+|\*))?)?$",
    re.I,
)


Frame = tuple[str, ...]
Conditions = frozenset[object]


class ConditionSide(NamedTuple):
    """A condition, and the value it must have."""

    condition: Output
    value: bool


class FrameGroup(NamedTuple):
    """The frames around a node, and the conditions under which it runs. An unknown condition is represented
    by a name (of a Merge, or a frame).
    """

    frame: Frame
    predicate: Conditions


@dataclass(frozen=True, slots=True)
class Mark:
    """Determines the clusters that a node may belong to: none if `reason` is not empty. Nodes with different
    scope, device or group are never in one cluster. It is an error if a node with `must` cannot be in a
    cluster. `asked`: the user wants it compiled, however small the cluster.
    """

    reason: str
    scope: str
    device: str
    must: bool
    asked: bool
    group: FrameGroup


def marked(graph: Graph, mode: Literal["auto", "scope"]) -> dict[str, Mark]:
    """The mark of each node. "auto" selects all nodes that can be compiled, "scope" those with
    _XlaCompile.
    """
    compiler = Compilable(graph)
    nodes = graph.needed([], list(graph.nodes))
    groups, known = _groups(graph, nodes), set[str]()
    for node in nodes:
        if node.op in _KNOWN or (node.inputs and known.issuperset(source.node for source in node.inputs)):
            known.add(node.name)
    waited = {name for node in graph.nodes.values() for name in node.sources}
    steer = {name for node in graph.nodes.values() if node.op == "Const" for name in node.controls}
    scope = "_XlaScope" if mode == "scope" else "_XlaInternalScope"
    found = {}
    for name, node in graph.nodes.items():
        device, elsewhere, must = _device(node)
        told = bool(compiler.flag(node, "_XlaMustCompile"))
        must, wanted = must or told, compiler.flag(node, "_XlaCompile")
        indices = {source.node for source in node.inputs[1:]} if node.op == "StridedSlice" else set()
        others = {
            "it is an argument or a result": node.op in _GIVEN,
            "_XlaCompile is false": wanted is False,
            "it is in no scope": mode == "scope" and not must and not wanted,
            "nothing waits for it": node.op == "NoOp" and name not in waited and not must,
            _BY_VALUES: not must and not indices <= known,
            "constants of a loop wait for it": name in steer and _is_in_turn(node, graph),
        }
        reason = elsewhere or compiler.why_not(node, graph, must)
        reason = reason or next((why for why in others if others[why]), "") or _why_no_arrays(node, graph)
        label = node.given.get(scope, {}).get("s", b"").decode("utf-8", "replace")
        found[name] = Mark(reason, label, device, must, told or bool(wanted), groups[name])
    return found


def _is_in_turn(node: Node, graph: Graph) -> bool:
    """Whether a node passes a value of a loop to the next iteration. (In a cluster with this node, the values
    of an iteration would wait for the decision whether there is a next one.)
    """
    source = graph.nodes[node.inputs[0].node] if node.op == "Identity" and node.inputs else node
    conditions = [graph.nodes[each.node].op for each in source.inputs[1:]]
    return source.kind == "Switch" and node.inputs[0].index == 1 and "LoopCond" in conditions


def _device(node: Node) -> tuple[str, str, bool]:
    """The device of a node, the reason why nothing is compiled for it, and whether everything on it is
    compiled.
    """
    match = _DEVICE.match(node.device)
    if match is None:
        return node.device, f"it is placed on {node.device}", False
    kind = (match["kind"] or "CPU").upper()
    device = f"{kind}:{(match['number'] or '0').replace('*', '0')}"
    elsewhere = kind not in ("CPU", "XLA_CPU", "XLA_GPU", "XLA_CPU_JIT", "XLA_GPU_JIT")
    return device, f"it is placed on {device}" if elsewhere else "", kind.startswith("XLA_")


class Compilable:
    """Decides which nodes of a graph, and of the functions that it calls, can be compiled."""

    def __init__(self, graph: Graph) -> None:
        self.library = graph.library
        self.bodies: dict[tuple[Graph, bool], str] = {}

    def calls(self, node: Node) -> list[Callee]:
        """The functions that a node calls."""
        if node.op in self.library.messages:
            return [Callee(node.op, node.given)]
        return called_by(node.attributes) if node.record is not None else []

    def flag(self, node: Node, name: str) -> bool | None:
        """An attribute of a node, or of the function that it calls; None where it is missing."""
        functions = [self.library.messages.get(called.name, {}) for called in self.calls(node)]
        given = [node.given, *(entries(function.get("attr", ())) for function in functions)]
        return next((each[name]["b"] for each in given if "b" in each.get(name, ())), None)

    def why_not(self, node: Node, graph: Graph, must: bool, depth: int = 0) -> str:
        """The reason why a node cannot be compiled; empty if it can. If the node `must` be compiled, fewer
        reasons count: operations that could be left to TensorFlow are compiled. `depth`: the number of calls
        around the node.
        """
        calls = self.calls(node)
        if node.fault:
            return node.fault.removeprefix(f"{node}: ")
        if node.op in _GIVEN or (node.kind in _FLOW and must and depth):
            return ""
        if node.kind in _FLOW:
            return "it is control flow of TensorFlow 1"
        if node.record is None and not calls:
            return "axla has no such operation"
        if node.record is not None and node.record.why_not:
            return node.record.why_not
        if not must and node.op in _LEFT:
            return _LEFT[node.op]
        for called in calls:
            if why := self.why_not_called(called, must, depth + 1):
                return why
        return _why_no_arrays(node, graph) if depth and not must else ""

    def why_not_called(self, called: Callee, must: bool, depth: int) -> str:
        """The reason why a function cannot be compiled, that of its first node that cannot; empty if it can.
        `must` and `depth` are as in `why_not`.
        """
        if depth > _CALLS_NESTED:
            return f"its calls are nested more than {_CALLS_NESTED} deep"
        try:
            body = self.library.function(called, "it")
            nodes = body.needed(body.results, body.controls)
        except AxlaError as error:
            return error.message
        if (body, must) not in self.bodies:
            self.bodies[body, must] = f"function '{called.name}' calls itself"
            found = ((node, self.why_not(node, body, must, depth)) for node in nodes)
            whys = (f"{node} of function '{called.name}': {why}" for node, why in found if why)
            self.bodies[body, must] = next(whys, "")
        return self.bodies[body, must]


def _why_no_arrays(node: Node, graph: Graph) -> str:
    """The reason why inputs or outputs of a node cannot be those of a program; empty where they can."""
    types = list(node.types or ())
    if node.record is not None:
        values = types_of((*node.record.operands, *node.record.results), node.attributes, str(node))
        refs = [ref for _, _, ref in values]
        if node.op == "Identity":
            refs += [gives_ref(graph.nodes[source.node], source.index) for source in node.inputs]
        if any(refs):
            return "it takes or returns a reference to a variable"
    for source in node.inputs:
        types += (graph.nodes[source.node].types or [])[source.index : source.index + 1]
    others = [_NOT_ARRAYS.get(type_, type_) for type_ in types if type_ not in DTYPES]
    return f"it takes or returns {others[0]}" if others else ""


# Loops and branches of TensorFlow 1.


def _groups(graph: Graph, nodes: Sequence[Node]) -> dict[str, FrameGroup]:
    """The group of each node. The values of a loop are assumed to exist under the same condition, unless that
    leads to a contradiction.
    """
    lives = _Lives(graph, nodes, set())
    while more := lives.unequal():
        lives = _Lives(graph, nodes, lives.apart | more)
    return lives.groups


class _Lives:
    """Computes the groups of nodes, which are in topological order. It assumes that all values of a loop
    exist under the same condition, which is named like the frame if it is unknown. For the frames in `apart`
    it does not assume this; an unknown condition is then named like a Merge.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node], apart: set[Frame]) -> None:
        self.graph, self.apart, self.groups = graph, apart, dict[str, FrameGroup]()
        self.entered: dict[Frame, set[Conditions]] = {}
        self.backs: list[tuple[Frame, str]] = []
        for node in nodes:
            self.enter(node)

    def enter(self, node: Node) -> None:
        sources = [name for name in node.sources if name in self.groups]  # without back edges
        frame = max((self.behind(name) for name in sources), key=len, default=())
        if node.kind == "Enter":
            frame = (*frame, node.attributes.get("frame_name", ""))
        inputs = [self.predicate(source) for source in node.inputs if source.node in self.groups]
        backs = [name for name in node.sources if node.kind == "Merge" and name not in self.groups]
        if node.op == "ControlTrigger":
            predicate: Conditions = frozenset()
        elif backs:
            predicate = frozenset([node.name if frame in self.apart else frame])
            self.entered.setdefault(frame, set()).update(inputs)
            self.backs += [(frame, name) for name in backs]
        elif node.kind == "Merge":
            predicate = _either(inputs, node.name)
        else:
            controls = [self.groups[name].predicate for name in node.controls if name in self.groups]
            predicate = frozenset().union(*inputs, *controls)
        if node.kind == "Exit":
            predicate = self.left(frame, predicate)
        self.groups[node.name] = FrameGroup(frame, predicate)

    def behind(self, name: str) -> Frame:
        """The frames around the users of a node."""
        frame = self.groups[name].frame
        return frame[:-1] if self.graph.nodes[name].kind == "Exit" else frame

    def predicate(self, output: Output) -> Conditions:
        """The condition under which an output has a value."""
        node, predicate = self.graph.nodes[output.node], self.groups[output.node].predicate
        if node.kind == "Switch" and len(node.inputs) == 2:
            return predicate | {ConditionSide(plain(node.inputs[1], self.graph.nodes), output.index == 1)}
        return predicate

    def left(self, frame: Frame, predicate: Conditions) -> Conditions:
        """The condition under which a value exists after the loop `frame`, if it is `predicate` inside. As
        every loop ends once, it is the condition before the loop; `predicate` itself if that cannot be shown.
        """
        entered = next(iter(self.entered.get(frame, ())), frozenset())
        rest = predicate - entered - {frame}
        known = frame in predicate and len(rest) == len(self.entered[frame]) == 1
        ends = [
            self.graph.nodes[s.condition.node].op
            for s in rest
            if isinstance(s, ConditionSide) and not s.value
        ]
        return entered if known and ends == ["LoopCond"] else predicate

    def unequal(self) -> set[Frame]:
        """The frames whose values enter, or go on to the next iteration, under different conditions."""
        steps: dict[Frame, set[Conditions]] = {}
        for frame, name in self.backs:
            steps.setdefault(frame, set()).add(self.groups[name].predicate)
        return {
            frame
            for frame, step in steps.items()
            if frame not in self.apart and (len(step) > 1 or len(self.entered[frame]) > 1)
        }


def _either(predicates: Sequence[Conditions], name: str) -> Conditions:
    """The condition under which one of several values, with the conditions `predicates`, exists: two sides of
    one predicate cancel. If it is unknown, it is represented by `name`.
    """
    if len(set(predicates)) == 1:
        return predicates[0]
    if len(predicates) == 2:
        first, second = predicates
        sides = [each for each in first ^ second if isinstance(each, ConditionSide)]
        if len(sides) == len(first ^ second) == 2 and sides[0].condition == sides[1].condition:
            return first & second
    return frozenset([name])
