"""Converts TensorFlow 1 branches (Switch and Merge) to If nodes; `functional` converts loops to While nodes
first.

A branch consists of the nodes between a `Switch` and a `Merge`. A node runs only if all its inputs have
values. Its state is the condition under which it runs: a set of predicates, each with the value that it must
have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError, VerifyError
from axla.tensorflow.frames import LOOPS, argument, identity, made, plain, without_frames
from axla.tensorflow.graph import Graph, Node, Output

BranchSide = tuple[Output, bool]
State = frozenset[BranchSide]
_ALWAYS: State = frozenset()


def functional(
    graph: Graph, outputs: Sequence[Output], targets: Collection[str], cut: Collection[Output]
) -> Graph:
    """A graph with the nodes that `outputs` and `targets` need, in which While and If nodes replace
    TensorFlow 1 loops and branches; `graph` itself if it has none. The outputs in `cut` are provided from
    outside.
    """
    kinds = {node.kind for node in graph.nodes.values()}
    if kinds.isdisjoint((*LOOPS, "Switch", "Merge")):
        return graph
    nodes = graph.needed(outputs, targets, cut)
    given = {output.node: graph.nodes[output.node] for output in cut}
    found = given | without_frames(nodes, graph.library)
    for output in outputs:
        if output.node not in found:
            raise VerifyError(f"'{output}' is inside a loop, so it cannot be fetched")
    graph = replace(graph, nodes=found)
    nodes = graph.needed(outputs, targets, cut)
    if any(node.kind in ("Switch", "Merge") for node in nodes):
        graph = replace(graph, nodes=given | _Branches(nodes, graph, outputs, targets).made())
    return graph


@dataclass(slots=True, eq=False)
class _Group:
    """Merges with the same predicate, which become one If. `roots` are nodes in its branches for which nodes
    outside wait.
    """

    predicate: Output
    merges: list[Node] = field(default_factory=list)
    roots: list[Node] = field(default_factory=list)


class _Branches:
    """Finds the branches among nodes, which have no loops and are in topological order, and converts them."""

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
        """For each Merge with only one input that can have a value, by name: the number of this input."""
        self.assumed = _ALWAYS
        """The predicates with values that hold in every call of this function, for example in the body of a
        loop that is inside a branch.
        """
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
        waiting = [node for node in nodes if node.op == "ControlTrigger" or node.kind == "Merge"]
        names = [*targets, *(name for node in waiting for name in node.controls)]
        self.add_roots([self.nodes[name] for name in dict.fromkeys(names) if self.states.get(name)])

    # The conditions under which nodes run.

    def state(self, output: Output) -> State | None:
        """The condition under which an output has a value; None where it never has one."""
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
        """The predicate of a Switch; None for other nodes."""
        node = self.nodes.get(name)
        return plain(node.inputs[1], self.nodes) if node is not None and node.kind == "Switch" else None

    def enter(self, node: Node) -> None:
        """Determines the state of a node, and its depth: the largest number of Merges that become an If on a
        path to the node. A ControlTrigger after nodes in a branch counts like such a Merge.
        """
        sources = [name for name in node.sources if name in self.states]
        depth = max((self.depths[name] for name in sources), default=0)
        if node.op == "ControlTrigger":
            self.states[node.name] = _ALWAYS
            depth += any(self.states[name] for name in sources)
        elif node.kind == "Merge":
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
            raise UnsupportedError(f"{node}: {found}, wanted the two sides of one predicate")
        self.states[node.name] = first & second
        if first & second:
            return depth
        predicate = next(iter(apart))[0]
        self.groups.setdefault((predicate, depth), _Group(predicate)).merges.append(node)
        return depth + 1

    def add_roots(self, roots: Sequence[Node]) -> None:
        """Assigns each of `roots`, which are nodes in branches for which other nodes wait, to the If that
        runs it anyway, or to an If of its own.
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
        """The nodes that the If of a group runs if its predicate has the value `side`, by name, in
        topological order.
        """
        key = group.predicate, side
        wanted = [merge.inputs[self.input(merge, group.predicate, side)].node for merge in group.merges]
        wanted += [root.name for root in group.roots if key in (self.states[root.name] or ())]
        found: dict[str, Node] = {}
        while wanted:
            name = wanted.pop()
            if name in found or key not in (self.states.get(name) or ()):
                continue
            found[name] = self.nodes[name]
            wanted += self.nodes[name].sources
        return {name: found[name] for name in sorted(found, key=self.places.__getitem__)}

    def input(self, merge: Node, predicate: Output, side: bool) -> int:
        """The number of the input of a Merge that has a value if `predicate` has the value `side`."""
        states = [self.state(source) for source in merge.inputs]
        return next(n for n, state in enumerate(states) if state is not None and (predicate, side) in state)

    # The graph without Switch and Merge nodes.

    def made(self) -> dict[str, Node]:
        """The nodes that always run, by name, with an If for each group."""
        found = {}
        for name, node in self.nodes.items():
            if self.states[name] != _ALWAYS:
                continue
            found[name] = _both_sides(node) if node.kind == "Switch" else node
            if name in self.chosen:
                number = self.chosen[name]
                values = [node.inputs[number], _number(f"{name}/index", number, found)]
                found[name] = _several(node, values)
        run: dict[str, Output] = {}
        for group in self.groups.values():
            self.add_if(group, found, run)
        return found

    def add_if(self, group: _Group, found: dict[str, Node], run: dict[str, Output]) -> None:
        name = f"{group.predicate.node}/If_{len(run)}"
        insides = [self.inside(group, side) for side in (True, False)]
        for node in (node for inside in insides for node in inside.values()):
            if run.setdefault(node.name, Output(name, 0)).node != name and _has_state(node):
                raise UnsupportedError(f"{node}: it may change a resource, and two conditionals would run it")
        captured: dict[Output, Node] = {}
        branches = [
            self.branch(group, side, inside, captured)
            for side, inside in zip((True, False), insides, strict=True)
        ]
        declared = [(node.name, node.attributes["T"]) for node in captured.values()]
        for graph in branches:
            graph.arguments = declared
        types = [type_ for merge in group.merges for type_ in merge.types or ()]
        found[name] = made(
            name, "If", [group.predicate, *captured], types, Tcond="DT_BOOL",
            Tin=tuple(type_ for _, type_ in declared), Tout=tuple(types), output_shapes=(),
            then_branch=self.library.added(branches[0], f"{name}.then"),
            else_branch=self.library.added(branches[1], f"{name}.else"),
        )  # fmt: skip
        for number, merge in enumerate(group.merges):
            values = [Output(name, 2 * number), Output(name, 2 * number + 1)]
            found[merge.name] = _several(merge, values)
        for root in group.roots:
            found[root.name] = replace(made(root.name, "NoOp", [], []), controls=[name])

    def branch(
        self, group: _Group, side: bool, inside: Mapping[str, Node], captured: dict[Output, Node]
    ) -> Graph:
        """The function that the If of a group calls for the predicate value `side`, made of the nodes in
        `inside`. `captured` collects the values that it takes from outside, each with the argument node that
        represents it.
        """
        inner: dict[str, Node] = {}
        for name, node in inside.items():
            if self.predicate(name) == group.predicate:
                node = identity(node)
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
        """The output that replaces `source`, the input of a node in a branch of `group`. A Switch with the
        predicate of the branch is replaced by its own input; any other Switch is copied into `inner`, the
        nodes of the branch's function. An output from outside is replaced by an argument node, which
        `captured` collects.
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
            captured[source] = argument(str(source), len(captured), self.type(source))
        return Output(captured[source].name, 0)

    def type(self, output: Output) -> str:
        types = self.all[output.node].types
        if types is None:
            raise UnsupportedError(f"{self.all[output.node]}: neither TensorFlow's XLA nor axla supports it")
        return types[output.index]


def _all_of(states: Iterable[State | None]) -> State | None:
    """The conjunction of states; None where it cannot hold."""
    found: set[BranchSide] = set()
    for state in states:
        if state is None:
            return None
        found |= state
    return None if any((predicate, not side) in found for predicate, side in found) else frozenset(found)


def _shown(state: State | None) -> str:
    if state is None:
        return "never"
    asked = " and ".join(f"{p} is {str(s).lower()}" for p, s in sorted(state))
    return f"where {asked or 'the function runs'}"


def _has_state(node: Node) -> bool:
    """Whether a node may change a resource or a reference variable, so that it must run exactly once."""
    if node.record is None or node.kind in ("Identity", "Switch"):
        return False
    kinds = [value.kind for value in node.record.operands]
    return any(kind[0] == "&" or kind == "DT_RESOURCE" for kind in kinds)


def _both_sides(node: Node) -> Node:
    """An identity node that replaces a Switch: both its outputs are the input of the Switch. A RefSwitch gets
    only one output, the reference.
    """
    return _several(node, node.inputs[:1] * 2) if node.op == "Switch" else identity(node)


def _number(name: str, number: int, found: dict[str, Node]) -> Output:
    """Adds a constant node with an s32 scalar, named `name`, to `found`; returns its output."""
    value = np.asarray(number, np.int32)
    found[name] = made(name, "Const", [], ["DT_INT32"], value=value, dtype="DT_INT32")
    return Output(name, 0)


def _several(node: Node, values: Sequence[Output]) -> Node:
    """An IdentityN node that replaces `node` and returns `values`. For a Merge these are its value and the
    number of the input that had it.
    """
    assert node.types is not None
    return made(node.name, "IdentityN", values, node.types, node, T=tuple(node.types))
