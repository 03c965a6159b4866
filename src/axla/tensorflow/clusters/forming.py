"""Forms clusters: joins neighbouring nodes that may share a cluster, as XLA's mark-for-compilation does.

Nodes are visited from last to first. A node joins every group directly after it with which it may share a
cluster, unless another path leads from the node to that group, which would become a cycle. These groups are
then complete, so no join has to be tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from axla.core.dataclass import dataclass
from axla.core.errors import VerifyError
from axla.tensorflow.clusters.marking import Mark
from axla.tensorflow.graph import Graph, Output, ordered

_ASKS_FOR_SHAPE = ("Shape", "Rank", "Size")
_TRIVIAL = ("Const", "Identity")
_LARGE = ("While", "StatelessWhile", "If", "StatelessIf")
"""Operations whose functions have many nodes: a cluster with one of these is never too small."""


@dataclass(frozen=True, slots=True)
class Formed:
    """A cluster. `inputs`: outputs of nodes outside that nodes inside use; `outputs`: outputs of nodes inside
    that other nodes, or results of the graph, use.

    A constant without control inputs is part of every cluster that uses it, and also stays in the graph: its
    value is never an output.
    """

    name: str
    nodes: tuple[str, ...]
    inputs: tuple[Output, ...]
    outputs: tuple[Output, ...]


def formed(graph: Graph, marks: Mapping[str, Mark], minimum: int) -> list[Formed]:
    """The clusters of a graph; `graph.results` are the fetched outputs. A cluster with fewer nodes than
    `minimum`, not counting constants and identities, is left out unless the user asked for it.
    """
    constants = [node.name for node in graph.nodes.values() if node.op == "Const" and not node.controls]
    free = {name for name in constants if not marks[name].reason}  # any cluster can have them
    places = {name: place for place, name in enumerate(graph.nodes)}
    place = places.__getitem__
    joined = [sorted(group, key=place) for group in _joined(graph, marks, free)]
    groups = sorted((g for g in joined if _is_worth(g, graph, marks, minimum)), key=lambda g: place(g[0]))
    owner = {name: number for number, group in enumerate(groups) for name in group}
    outputs: list[dict[Output, None]] = [{} for _ in groups]
    uses = [(output, -1) for output in graph.results]
    uses += [(source, owner.get(name, -1)) for name, node in graph.nodes.items() for source in node.inputs]
    for output, user in uses:
        number = owner.get(output.node, user)
        if number != user:
            outputs[number][output] = None
    found = []
    for number, group in enumerate(groups):
        where = _where(marks[group[0]])
        sources = dict.fromkeys(source for name in group for source in graph.nodes[name].inputs)
        own = {source.node for source in sources if source.node in free}
        nodes = {*group, *(name for name in own if _where(marks[name]) == where)}
        inputs = tuple(source for source in sources if source.node not in nodes)
        given = tuple(sorted(outputs[number], key=lambda output: (place(output.node), output.index)))
        found.append(Formed(f"cluster_{number}", tuple(sorted(nodes, key=place)), inputs, given))
    return found


def _where(mark: Mark) -> tuple[str, str]:
    return mark.scope, mark.device


def _is_worth(group: Collection[str], graph: Graph, marks: Mapping[str, Mark], minimum: int) -> bool:
    """Whether a group is worth a cluster. It must compute something, and have `minimum` nodes, or one with
    many nodes in its functions, or one that the user asked for. A group with a node that must be compiled is
    always a cluster.
    """
    nodes = [graph.nodes[name] for name in group]
    computes = any(node.types and node.op != "Const" for node in nodes)
    enough = sum(node.op not in _TRIVIAL for node in nodes) >= minimum
    wanted = enough or any(node.op in _LARGE or marks[node.name].asked for node in nodes)
    return (computes and wanted) or any(marks[name].must for name in group)


def _joined(graph: Graph, marks: Mapping[str, Mark], free: Collection[str]) -> Iterable[list[str]]:
    """Groups of nodes that can run together, without the constants in `free`."""
    keys = {name: (*_where(mark), mark.group) for name, mark in marks.items() if not mark.reason}
    before = _before(graph, marks, free)
    try:
        order = ordered(before, sorted(before, key=keys.__contains__), "clusters")
    except VerifyError:
        return []  # a path outside of a loop leads back to it: XLA forms no clusters then
    users: dict[str, list[str]] = {name: [] for name in order}
    homes: dict[str, str] = {}
    for name in order:
        sources = set(before[name])
        for home in sources if len(sources) == 1 else ():
            if name in keys and keys[name] == keys.get(home) and graph.nodes[name].op in _ASKS_FOR_SHAPE:
                homes[name] = home  # the result is small, but the array whose shape it is may be large
        for source in sources:
            users[source].append(name)
    groups = _Groups()
    members: dict[str, list[str]] = {name: [name] for name in order}
    for name in reversed(order):
        if name in homes:
            users[homes[name]] += users[name]
            members[homes[name]] += members[name]
        else:
            groups.visit(members[name], users[name], keys.get(name))
    return groups.members.values()


def _before(graph: Graph, marks: Mapping[str, Mark], free: Collection[str]) -> dict[str, list[str]]:
    """The nodes that each node waits for. A TensorFlow 1 loop counts as one more node, named like its frame:
    edges into the loop end there, edges out of it start there. Back edges inside the loop are left out.
    """
    before: dict[str, list[str]] = {name: [] for name in graph.nodes if name not in free}
    for name, node in graph.nodes.items():
        target = _frame(marks[name]) if node.kind == "Enter" else name
        for source in node.sources:
            kind = graph.nodes[source].kind
            if source not in free and kind != "NextIteration":
                source = _frame(marks[source]) if kind == "Exit" else source
                before.setdefault(source, [])
                before.setdefault(target, []).append(source)
    return before


def _frame(mark: Mark) -> str:
    return ":" + "/".join(mark.group.frame)  # no node's name begins with a colon


@dataclass(slots=True, eq=False)
class _Groups:
    """Groups of nodes, each represented by one of its nodes, and the edges between visited groups. The edges
    have no cycle: each leads to a group of smaller height.
    """

    members: dict[str, list[str]] = field(default_factory=dict)
    keys: dict[str, object] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    ahead: dict[str, set[str]] = field(default_factory=dict)
    behind: dict[str, set[str]] = field(default_factory=dict)
    heights: dict[str, int] = field(default_factory=dict)

    def visit(self, members: list[str], users: Iterable[str], key: object) -> None:
        """Adds a node after its users: the first of `members`; the others are nodes that belong to it. The
        node joins groups directly after it that have the same key; with the key None, it joins none and no
        later node joins it.
        """
        name = members[0]
        ahead = {self.owner(user) for user in users if user in self.owners}
        self.owners[name], self.ahead[name], self.behind[name] = name, ahead, set()
        self.heights[name] = 1 + max((self.heights[group] for group in ahead), default=-1)
        for group in ahead:
            self.behind[group].add(name)
        if key is not None:
            self.members[name], self.keys[name] = members, key
            near = [group for group in ahead if self.keys.get(group) == key]
            self.join(name, self.nearest(name, near) if near else [])

    def owner(self, name: str) -> str:
        """The representative of a node's group."""
        while self.owners[name] != name:
            self.owners[name] = name = self.owners[self.owners[name]]
        return name

    def nearest(self, name: str, groups: Collection[str]) -> list[str]:
        """Those of `groups` to which no path of several edges leads from the node `name`. All of `groups` are
        directly after the node.
        """
        ahead = self.ahead[name]
        low = min(self.heights[group] for group in groups)
        high = max(self.heights[group] for group in ahead)
        reached: set[str] = set()
        forth = self._steps(self.ahead, ahead, low, high, reached)
        found = []
        for group in groups:
            if not ahead.isdisjoint(self.behind[group]):
                continue
            # Searches from both ends, as one may have few neighbours. All groups share the forward search.
            for before in self._steps(self.behind, [group], 0, high, {name}):
                if before in ahead or before in reached:
                    break
                if next(forth, None) is None:
                    if group not in reached:
                        found.append(group)
                    break
            else:
                found.append(group)
        return found

    def _steps(
        self, edges: Mapping[str, set[str]], begin: Iterable[str], low: int, high: int, seen: set[str]
    ) -> Iterator[str]:
        """Follows `edges` from the groups in `begin` through groups with heights between `low` and `high`;
        yields the group at the end of each edge. `seen` has the groups that are not followed again; new ones
        are added.
        """
        left = list(begin)
        while left:
            for group in edges[left.pop()]:
                if group not in seen and low <= self.heights[group] <= high:
                    seen.add(group)
                    left.append(group)
                yield group

    def join(self, name: str, groups: Collection[str]) -> None:
        """Merges a node with groups directly after it, and updates the heights."""
        rest = self.ahead[name].difference(groups)
        heights = [self.heights[group] for group in groups] + [self.heights[group] + 1 for group in rest]
        height = max(heights, default=0)
        for group in groups:
            self._raise(group, height)
        for group in groups:
            name = self._merged(name, group)
        self.heights[name] = height

    def _raise(self, group: str, height: int) -> None:
        """Raises a group to a height, and all groups before it above that."""
        left = [(group, height)]
        while left:
            group, height = left.pop()
            if self.heights[group] < height:
                self.heights[group] = height
                left += [(before, height + 1) for before in self.behind[group]]

    def _merged(self, first: str, second: str) -> str:
        """Merges two groups; returns the representative of the result, which is that of the group with more
        edges.
        """
        size = {name: len(self.ahead[name]) + len(self.behind[name]) for name in (first, second)}
        large, small = (first, second) if size[first] >= size[second] else (second, first)
        for edges, reverse in ((self.ahead, self.behind), (self.behind, self.ahead)):
            for other in edges.pop(small):
                reverse[other].discard(small)
                if other != large:
                    reverse[other].add(large)
                    edges[large].add(other)
        self.owners[small] = large
        fewer, more = sorted((self.members.pop(small), self.members[large]), key=len)
        self.members[large] = more
        more += fewer
        del self.heights[small], self.keys[small]
        return large
