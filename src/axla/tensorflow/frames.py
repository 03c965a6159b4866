"""Loops and branches as TensorFlow 1 writes them, made into nodes While and If.

A loop is a frame: `Enter` takes values in, `Merge` has the value of a turn (of Enter first, then of
`NextIteration`), `LoopCond` says whether there is another, `Switch` gives the value to the body (output 1) or
to `Exit` (output 0). What an `Enter` with is_constant takes in stays. A branch is all between a `Switch` and
a `Merge`: a node runs only where all its inputs have values. That is its state: predicates with the side on
which they must be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from axla.core.errors import UnsupportedError, VerifyError
from axla.tensorflow.attributes import Called
from axla.tensorflow.graph import ARGUMENT, Graph, Library, Node, Output
from axla.tensorflow.records import records

_LOOPS = ("Enter", "Exit", "NextIteration", "LoopCond")
_IDENTITIES = ("Identity", "RefIdentity")
Side = tuple[Output, bool]
State = frozenset[Side]
_ALWAYS: State = frozenset()


def functional(
    graph: Graph, outputs: Sequence[Output], targets: Collection[str], cut: Collection[Output]
) -> Graph:
    """A graph with the nodes that outputs and targets need, without loops and branches of TensorFlow 1: the
    graph itself where it has none.
    """
    kinds = {_kind(node) for node in graph.nodes.values()}
    if kinds.isdisjoint((*_LOOPS, "Switch", "Merge")):
        return graph
    nodes = graph.needed(outputs, targets, cut)
    given = {output.node: graph.nodes[output.node] for output in cut}
    found = given | _without_frames(nodes, graph.library)
    for output in outputs:
        if output.node not in found:
            raise VerifyError(f"'{output}' is inside of a loop")
    graph = replace(graph, nodes=found)
    nodes = graph.needed(outputs, targets, cut)
    if any(_kind(node) in ("Switch", "Merge") for node in nodes):
        graph = replace(graph, nodes=given | _Branches(nodes, graph, outputs, targets).made())
    return graph


def _kind(node: Node) -> str:
    """The operation; the same for values and for references."""
    return node.op.removeprefix("Ref")


def _made(
    name: str,
    op: str,
    inputs: Sequence[Output],
    types: Sequence[str],
    *,
    place: str = "",
    **attributes: object,
) -> Node:
    node = Node(name, op, list(inputs), [], {}, place, records().get(op), attributes, list(types))
    node.names = [""] * len(types)
    return node


def _identity(node: Node, source: Output | None = None) -> Node:
    """A node of the same name that passes on its first input, or another value."""
    assert node.types is not None
    op = "RefIdentity" if node.op.startswith("Ref") else "Identity"
    made = _made(node.name, op, [source or node.inputs[0]], node.types[:1], place=node.place, T=node.types[0])
    made.controls = node.controls
    return made


def _both_sides(node: Node) -> Node:
    """A Switch that gives its input as both outputs; a reference as the first."""
    assert node.types is not None
    made = _identity(node)
    if node.op == "Switch":
        made = _made(node.name, "IdentityN", node.inputs[:1] * 2, node.types, T=tuple(node.types))
        made.controls = node.controls
    return made


def _argument(name: str, number: int, type_: str) -> Node:
    return _made(name, ARGUMENT, [], [type_], index=number, T=type_)


def _plain(output: Output, nodes: Mapping[str, Node]) -> Output:
    """What identities pass on."""
    while output.node in nodes and nodes[output.node].op in _IDENTITIES:
        output = nodes[output.node].inputs[0]
    return output


def _added(library: Library, graph: Graph, name: str) -> Called:
    """Puts a graph into the library, under a name that is free."""
    graph.name = f"{name}_{len(library.graphs)}"
    library.graphs[graph.name] = graph
    return Called(graph.name, {})


# Loops.


@dataclass(slots=True, eq=False)
class _Frame:
    name: str
    parent: _Frame | None
    depth: int
    nodes: dict[str, Node] = field(default_factory=dict)
    enters: list[Node] = field(default_factory=list)
    exits: list[Node] = field(default_factory=list)


def _without_frames(nodes: Sequence[Node], library: Library) -> dict[str, Node]:
    frames = _frames(nodes)
    for frame in sorted(frames[1:], key=_depth, reverse=True):
        _take_out(frame, library)
    return frames[0].nodes


def _depth(frame: _Frame) -> int:
    return frame.depth


def _frames(nodes: Sequence[Node]) -> list[_Frame]:
    """All frames with their nodes, which are in order; the first is around all."""
    top = _Frame("", None, 0)
    found: dict[tuple[_Frame | None, str], _Frame] = {(None, ""): top}
    behind: dict[str, _Frame] = {}
    for node in nodes:
        sources = [behind[name] for name in _sources(node) if name in behind]
        if any(source is not sources[0] for source in sources):
            names = ", ".join(sorted({f"'{source.name}'" for source in sources}))
            raise VerifyError(f"{node}: its inputs are of different frames: {names}")
        frame = behind[node.name] = sources[0] if sources else top
        frame.nodes[node.name] = node
        kind = _kind(node)
        if kind == "Enter":
            key = frame, node.attributes["frame_name"]
            inner = found.setdefault(key, _Frame(key[1], frame, frame.depth + 1))
            inner.enters.append(node)
            behind[node.name] = inner
        elif kind in ("Exit", "NextIteration") and frame.parent is None:
            raise VerifyError(f"{node}: it is outside of all frames")
        elif kind == "Exit":
            frame.exits.append(node)
            assert frame.parent is not None
            behind[node.name] = frame.parent
    return list(found.values())


def _sources(node: Node) -> list[str]:
    return [source.node for source in node.inputs] + node.controls


def _take_out(frame: _Frame, library: Library) -> None:
    """Makes a frame a node While in the one around it."""
    parent = frame.parent
    assert parent is not None
    tests = [node for node in frame.nodes.values() if node.op == "LoopCond"]
    if len(tests) != 1:
        raise VerifyError(f"the frame '{frame.name}' has {len(tests)} nodes LoopCond, wanted one")
    (test,) = tests
    arguments, enters, results = _arguments(frame)
    types = [argument.types[0] for argument in arguments if argument.types]
    switches = {
        node.name
        for node in frame.nodes.values()
        if _kind(node) == "Switch" and _plain(node.inputs[1], frame.nodes) == Output(test.name, 0)
    }
    inner = _inside(frame, switches) | {argument.name: argument for argument in arguments}
    for node in inner.values():
        if any(name not in inner for name in _sources(node)):
            raise UnsupportedError(f"{node}: it takes a value from outside of the frame '{frame.name}'")
    declared = list(zip((argument.name for argument in arguments), types, strict=True))
    condition = Graph("", inner, library, declared, [Output(test.name, 0)])
    body = Graph("", inner, library, declared, results)
    stem = f"{frame.name}.{test.name}"
    whole = _made(
        test.name, "While", [Output(enter.name, 0) for enter in enters], types, place=test.place,
        T=tuple(types), cond=_added(library, condition, f"{stem}.cond"), parallel_iterations=10,
        body=_added(library, body, f"{stem}.body"), output_shapes=(),
    )  # fmt: skip
    parent.nodes[test.name] = whole
    for enter in frame.enters:
        parent.nodes[enter.name] = _identity(enter)
    places = {argument.name: number for number, argument in enumerate(arguments)}
    for node in frame.exits:
        number = places.get(_left_behind(node, frame, switches))
        if number is None:
            raise UnsupportedError(f"{node}: what it gives is no value of the loop behind a Switch")
        parent.nodes[node.name] = _identity(node, Output(test.name, number))
        parent.nodes[node.name].controls = []


def _arguments(frame: _Frame) -> tuple[list[Node], list[Node], list[Output]]:
    """What a loop keeps: nodes that stand for it inside, those that it comes from, and the results of a turn.
    First what changes, then what stays.
    """
    arguments: list[Node] = []
    enters: list[Node] = []
    results: list[Output] = []
    entered = {enter.name: enter for enter in frame.enters}
    for node in frame.nodes.values():
        first = [entered[source.node] for source in node.inputs if source.node in entered]
        sources = [frame.nodes[source.node] for source in node.inputs if source.node in frame.nodes]
        backs = [source for source in sources if _kind(source) == "NextIteration"]
        if _kind(node) != "Merge" or not (backs or first):
            continue
        if len(backs) != 1 or len(first) != 1 or len(node.inputs) != 2:
            raise VerifyError(f"{node}: wanted an Enter and a NextIteration of the frame '{frame.name}'")
        assert node.types is not None
        arguments.append(_argument(node.name, len(arguments), node.types[0]))
        enters += first
        results.append(Output(backs[0].name, 0))
    used = {enter.name for enter in enters}
    for enter in frame.enters:
        if enter.name in used:
            continue
        if not enter.attributes["is_constant"]:
            raise UnsupportedError(f"{enter}: it has no Merge, and is_constant is false")
        assert enter.types is not None
        arguments.append(_argument(enter.name, len(arguments), enter.types[0]))
        enters.append(enter)
        results.append(Output(enter.name, 0))
    return arguments, enters, results


def _inside(frame: _Frame, switches: Collection[str]) -> dict[str, Node]:
    """The nodes of a turn: those that steer it are identities."""
    moved = {Output(name, 1): Output(name, 0) for name in switches}
    inner = {}
    for name, node in frame.nodes.items():
        if _kind(node) == "Exit":
            continue
        if name in switches or _kind(node) in ("LoopCond", "NextIteration"):
            node = _identity(node)
        inner[name] = replace(node, inputs=[moved.get(source, source) for source in node.inputs])
    return inner


def _left_behind(node: Node, frame: _Frame, switches: Collection[str]) -> str:
    """The name of the value of a loop that an Exit gives; empty where it is something else."""
    source = _plain(node.inputs[0], frame.nodes)
    if source.node in switches and source.index == 0:
        return _plain(frame.nodes[source.node].inputs[0], frame.nodes).node
    return source.node


# Branches.


@dataclass(slots=True, eq=False)
class _Group:
    """Merges of a predicate that become one If; `roots` are nodes inside that something waits for."""

    predicate: Output
    merges: list[Node] = field(default_factory=list)
    roots: list[Node] = field(default_factory=list)


class _Branches:
    """The branches of nodes that are in order, without loops."""

    def __init__(
        self, nodes: Sequence[Node], graph: Graph, outputs: Sequence[Output], targets: Collection[str]
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.places = {node.name: number for number, node in enumerate(nodes)}
        self.all, self.library = graph.nodes, graph.library
        self.states: dict[str, State | None] = {}
        self.depths: dict[str, int] = {}
        self.groups: dict[tuple[Output, int], _Group] = {}
        self.chosen: dict[str, int] = {}
        """The input of a Merge that is the only one that can have a value."""
        self.assumed = _ALWAYS
        """What must hold where a function is called at all: a loop that runs in a branch."""
        for node in nodes:
            self.enter(node)
        needed = _all_of(self.state(output) for output in outputs)
        arguments = {name for name, _ in graph.arguments}
        if needed and arguments.issuperset(predicate.node for predicate, _ in needed):
            self.assumed = needed
            self.groups.clear()
            self.chosen.clear()
            for node in nodes:
                self.enter(node)
        for output in outputs:
            if self.state(output) != _ALWAYS:
                raise VerifyError(f"'{output}' has a value only {_shown(self.state(output))}")
        waiting = [node for node in nodes if node.op == "ControlTrigger" or _kind(node) == "Merge"]
        names = [*targets, *(name for node in waiting for name in node.controls)]
        self.add_roots([self.nodes[name] for name in dict.fromkeys(names) if self.states.get(name)])

    # What must hold where a node runs.

    def state(self, output: Output) -> State | None:
        """What must hold where an output has a value; None where it never has one."""
        state, predicate = self.states.get(output.node, _ALWAYS), self.predicate(output.node)
        if state is None or predicate is None:
            return state
        side = output.index == 1
        if (predicate, side) in self.assumed:
            return state
        if (predicate, not side) in self.assumed:
            return None
        decider = self.nodes.get(predicate.node)
        if decider is not None and decider.op == "Const":
            return state if bool(decider.attributes["value"].all()) == side else None
        return None if (predicate, not side) in state else state | {(predicate, side)}

    def predicate(self, name: str) -> Output | None:
        """What a Switch chooses its output by; None for other nodes."""
        node = self.nodes.get(name)
        return _plain(node.inputs[1], self.nodes) if node is not None and _kind(node) == "Switch" else None

    def enter(self, node: Node) -> None:
        """Finds the state of a node, and how many Merges are before it."""
        sources = [name for name in _sources(node) if name in self.states]
        depth = max((self.depths[name] for name in sources), default=0)
        if node.op == "ControlTrigger":
            self.states[node.name] = _ALWAYS
            depth += any(self.states[name] for name in sources)
        elif _kind(node) == "Merge":
            depth = self.enter_merge(node, depth)
        else:
            states = [self.state(source) for source in node.inputs]
            states += [self.states.get(name, _ALWAYS) for name in node.controls]
            self.states[node.name] = _all_of(states)
        self.depths[node.name] = depth

    def enter_merge(self, node: Node, depth: int) -> int:
        states = [(number, self.state(source)) for number, source in enumerate(node.inputs)]
        alive = [(number, state) for number, state in states if state is not None]
        if len(alive) < 2:
            self.states[node.name] = alive[0][1] if alive else None
            self.chosen[node.name] = alive[0][0] if alive else 0
            return depth
        (_, first), (_, second) = alive[:2]
        apart = first ^ second
        if len(alive) > 2 or len(apart) != 2 or len({predicate for predicate, _ in apart}) != 1:
            found = f"its inputs have values {_shown(first)} and {_shown(second)}"
            raise UnsupportedError(f"{node}: {found}, wanted two sides of one predicate")
        self.states[node.name] = first & second
        if first & second:
            return depth
        predicate = next(iter(apart))[0]
        self.groups.setdefault((predicate, depth), _Group(predicate)).merges.append(node)
        return depth + 1

    def add_roots(self, roots: Sequence[Node]) -> None:
        """Nodes inside of branches that are waited for go to the If that runs them anyway, or to one of their
        own.
        """
        homes_of: dict[str, _Group] = {}
        for group in self.groups.values():
            for name in (*self.inside(group, True), *self.inside(group, False)):
                homes_of.setdefault(name, group)
        for root in roots:
            home = homes_of.get(root.name)
            if home is None:
                state = self.states[root.name]
                assert state is not None
                predicate = min(p for p, _ in state if self.state(p) == _ALWAYS)
                key = predicate, self.depths[root.name]
                home = self.groups.setdefault(key, _Group(predicate))
            home.roots.append(root)

    def inside(self, group: _Group, side: bool) -> dict[str, Node]:
        """The nodes that a group runs on one side."""
        key = group.predicate, side
        wanted = [merge.inputs[self.input(merge, group.predicate, side)].node for merge in group.merges]
        wanted += [root.name for root in group.roots if key in (self.states[root.name] or ())]
        found: dict[str, Node] = {}
        while wanted:
            name = wanted.pop()
            if name in found or key not in (self.states.get(name) or ()):
                continue
            found[name] = self.nodes[name]
            wanted += _sources(self.nodes[name])
        return {name: found[name] for name in sorted(found, key=self.places.__getitem__)}

    def input(self, merge: Node, predicate: Output, side: bool) -> int:
        """The number of the input of a Merge that has a value on one side."""
        states = [self.state(source) for source in merge.inputs]
        return next(n for n, state in enumerate(states) if state is not None and (predicate, side) in state)

    # The graph without them.

    def made(self) -> dict[str, Node]:
        """The nodes that always run, with one If for each group."""
        found = {}
        for name, node in self.nodes.items():
            if self.states[name] != _ALWAYS:
                continue
            found[name] = _both_sides(node) if _kind(node) == "Switch" else node
            if name in self.chosen:
                number = self.chosen[name]
                _pair(node, [node.inputs[number], _number(f"{name}/index", number, found)], found)
        run: dict[str, Output] = {}
        for group in self.groups.values():
            self.add_if(group, found, run)
        return found

    def add_if(self, group: _Group, found: dict[str, Node], run: dict[str, Output]) -> None:
        name = f"{group.predicate.node}/If_{len(run)}"
        insides = [self.inside(group, side) for side in (True, False)]
        for node in (node for inside in insides for node in inside.values()):
            if run.setdefault(node.name, Output(name, 0)).node != name and _has_state(node):
                raise UnsupportedError(f"{node}: two conditionals would run it")
        captured: dict[Output, Node] = {}
        branches = [
            self.branch(group, side, inside, captured)
            for side, inside in zip((True, False), insides, strict=True)
        ]
        declared = [(node.name, node.attributes["T"]) for node in captured.values()]
        for graph in branches:
            graph.arguments = declared
        types = [type_ for merge in group.merges for type_ in merge.types or ()]
        found[name] = _made(
            name, "If", [group.predicate, *captured], types, Tcond="DT_BOOL",
            Tin=tuple(type_ for _, type_ in declared), Tout=tuple(types), output_shapes=(),
            then_branch=_added(self.library, branches[0], f"{name}.then"),
            else_branch=_added(self.library, branches[1], f"{name}.else"),
        )  # fmt: skip
        for number, merge in enumerate(group.merges):
            _pair(merge, [Output(name, 2 * number), Output(name, 2 * number + 1)], found)
        for root in group.roots:
            found[root.name] = _made(root.name, "NoOp", [], [])
            found[root.name].controls = [name]

    def branch(
        self, group: _Group, side: bool, inside: Mapping[str, Node], captured: dict[Output, Node]
    ) -> Graph:
        """The function of one side. `captured` are the values from outside, with the nodes that stand for
        them inside.
        """
        inner: dict[str, Node] = {}
        for name, node in inside.items():
            if self.predicate(name) == group.predicate:
                node = _identity(node)
            inner[name] = replace(
                node, inputs=[self.taken(source, group, inside, inner, captured) for source in node.inputs],
                controls=[control for control in node.controls if control in inside],
            )  # fmt: skip
        results: list[Output] = []
        for merge in group.merges:
            number = self.input(merge, group.predicate, side)
            results.append(self.taken(merge.inputs[number], group, inside, inner, captured))
            results.append(_number(f"{merge.name}/index", number, inner))
        inner |= {node.name: node for node in captured.values()}
        controls = [root.name for root in group.roots if root.name in inside]
        return Graph("", inner, self.library, [], results, controls)

    def taken(
        self, source: Output, group: _Group, inside: Mapping[str, Node], inner: dict[str, Node],
        captured: dict[Output, Node],
    ) -> Output:  # fmt: skip
        """The output inside that a node takes: a Switch of the predicate passes its value on, another one is
        made again.
        """
        name, predicate = source.node, self.predicate(source.node)
        if predicate == group.predicate:
            source, predicate = Output(name, 0), None
        if name in inside:
            return source
        if predicate is None:
            return self.argument(source, captured)
        if name not in inner:
            inputs = [self.argument(Output(name, 0), captured), self.argument(predicate, captured)]
            inner[name] = replace(self.nodes[name], inputs=inputs, controls=[])
        return source

    def argument(self, source: Output, captured: dict[Output, Node]) -> Output:
        if source not in captured:
            captured[source] = _argument(str(source), len(captured), self.type(source))
        return Output(captured[source].name, 0)

    def type(self, output: Output) -> str:
        types = self.all[output.node].types
        if types is None:
            raise UnsupportedError(f"{self.all[output.node]}: axla knows no such operation")
        return types[output.index]


def _all_of(states: Iterable[State | None]) -> State | None:
    """What holds where all of these hold; None where that cannot be."""
    found: set[Side] = set()
    for state in states:
        if state is None:
            return None
        found |= state
    return None if any((predicate, not side) in found for predicate, side in found) else frozenset(found)


def _shown(state: State | None) -> str:
    if state is None:
        return "never"
    asked = " and ".join(f"{p} is {str(s).lower()}" for p, s in sorted(state))
    return f"where {asked or 'nothing is asked'}"


def _has_state(node: Node) -> bool:
    """Whether a node may change what a handle or a reference names: it must run once."""
    if node.record is None or _kind(node) in ("Identity", "Switch"):
        return False
    kinds = [value.kind for value in node.record.operands]
    return any(kind[0] == "&" or kind == "DT_RESOURCE" for kind in kinds)


def _number(name: str, number: int, found: dict[str, Node]) -> Output:
    """An output with a number, which is made."""
    made = _made(name, "Const", [], ["DT_INT32"], value=np.asarray(number, np.int32), dtype="DT_INT32")
    found[name] = made
    return Output(name, 0)


def _pair(node: Node, sources: Sequence[Output], found: dict[str, Node]) -> None:
    """Makes a Merge a node of the same name that passes on its value and the number of its input."""
    assert node.types is not None
    made = _made(node.name, "IdentityN", sources, node.types, T=tuple(node.types), place=node.place)
    made.controls = node.controls
    found[node.name] = made
