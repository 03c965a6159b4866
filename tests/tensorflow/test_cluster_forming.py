"""Clusters: which nodes become one. The rules on small graphs, and all of them on random graphs."""

from __future__ import annotations

import os
import random
import zlib
from collections import Counter
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from axla.tensorflow.clusters import forming
from axla.tensorflow.clusters.forming import Formed, formed
from axla.tensorflow.clusters.marking import Mark, marked
from axla.tensorflow.graph import Graph, Node, Output
from cluster_graphs import function, graph

GRAPHS = int(os.environ.get("CLUSTER_GRAPHS", "400"))  # 2,000 when forming.py changes


def clusters(text: str, *functions: dict, mode: str = "auto", minimum: int = 1) -> list[str]:
    """The nodes of each cluster."""
    found = graph(text, *functions)
    return [" ".join(each.nodes) for each in formed(found, marked(found, mode), minimum)]


def test_neighbours_are_one_cluster():
    text = """
        x = Placeholder
        a = Abs x
        b = Other x
        c = Mul a b
        d = Neg x
        e = Other c
        f = Neg e
        g = Neg f
    """
    assert clusters(text) == ["a c", "d", "f g"]


def test_no_path_leads_out_of_a_cluster_and_back():
    text = """
        x = Placeholder
        a = Abs x
        b = Other a
        c = Mul a b
        d = Neg c
    """
    assert clusters(text) == ["a", "c d"]


def test_control_edges_count_for_cycles():
    text = """
        x = Placeholder
        a = Abs x
        b = Other x ^a
        c = Neg a ^b
    """
    assert clusters(text) == ["a", "c"]
    text = """
        x = Placeholder
        o = Other x
        a = Abs x ^o
        c = Neg x ^a
        p = Other x ^c
    """
    assert clusters(text) == ["a c"]


def test_paths_through_other_clusters_count():
    text = """
        x = Placeholder
        a = Abs x
        b = Other a
        c = Mul b a
        d = Other c
        e = AddN a c d
    """
    assert clusters(text) == ["a", "c", "e"]


def test_inputs_and_outputs():
    found = graph("""
        x = Placeholder
        c = Const
        d = Const
        u = Unpack x num=2 axis=0
        a = Mul u:1 c
        b = Mul u c
        o = Other a
        p = Other c
        e = Mul o d
    """)
    found.nodes["u"].record, found.nodes["u"].types = None, ["DT_FLOAT", "DT_FLOAT"]
    found.results = [Output("b", 0), Output("d", 0)]
    assert formed(found, marked(found, "auto"), 1) == [
        Formed("cluster_0", ("c", "a"), (Output("u", 1),), (Output("a", 0),)),
        Formed("cluster_1", ("c", "b"), (Output("u", 0),), (Output("b", 0),)),
        Formed("cluster_2", ("d", "e"), (Output("o", 0),), ()),
    ]


def test_constants_are_in_each_cluster_that_uses_them_and_in_none_alone():
    text = """
        x = Placeholder
        c = Const
        a = Mul x c
        o = Other a
        b = Mul o c
        d = Const
        e = Const ^x
        p = Other d
        q = Other e
    """
    assert clusters(text) == ["c a", "c b"]


def test_a_constant_of_another_device_is_an_input():
    text = "x = Placeholder\nc = Const @/cpu:1\na = Mul x c"
    found = graph(text)
    (only,) = formed(found, marked(found, "auto"), 1)
    assert (only.nodes, only.inputs) == (("a",), (Output("x", 0), Output("c", 0)))


def test_devices_and_scopes_are_kept_apart():
    text = """
        x = Placeholder
        a = Abs x @/cpu:0
        b = Neg a
        c = Neg b @/cpu:1
        d = Neg c @/device:XLA_CPU:0
    """
    assert clusters(text) == ["a b", "c", "d"]
    text = """
        x = Placeholder
        a = Abs x _XlaCompile=true _XlaScope=one
        b = Neg a _XlaCompile=true _XlaScope=one
        c = Neg b _XlaCompile=true _XlaScope=two
        d = Neg c
        e = Neg d _XlaCompile=true _XlaScope=two
    """
    assert clusters(text, mode="scope") == ["a b", "c", "e"]
    assert clusters(text) == ["a b c d e"]


def test_small_clusters_are_left_out_unless_somebody_asked():
    text = """
        x = Placeholder
        a = Abs x
        i = Identity a
        c = Const
        b = Mul i c
        o = Other b
        d = Cast o SrcT=DT_FLOAT DstT=DT_FLOAT
        e = Neg d
        f = Neg e
    """
    assert clusters(text, minimum=2) == ["a i c b", "d e f"]
    assert clusters(text, minimum=3) == ["d e f"]
    assert clusters(text, minimum=4) == []
    for more in ("_XlaCompile=true", "_XlaMustCompile=true", "@/device:XLA_CPU:0"):
        assert clusters(f"x = Placeholder\na = Abs x {more}", minimum=4) == ["a"]
    body = function("f", "y = Const", "x:DT_FLOAT", "y:output:0")
    for op, count in (("While", 1), ("StatelessWhile", 1), ("PartitionedCall", 0)):
        text = (
            f"x = Placeholder\na = {op} x T=[DT_FLOAT] Tin=[DT_FLOAT] Tout=[DT_FLOAT] cond=f() body=f() f=f()"
        )
        assert len(clusters(text, body, minimum=4)) == count


def test_clusters_that_compute_nothing():
    text = "x = Placeholder\na = NoOp ^x\nb = NoOp ^a\no = Other x ^b"
    assert clusters(text, minimum=0) == []
    assert clusters("c = Const ^x\nx = Placeholder\ni = Identity c", minimum=0) == ["c i"]
    assert clusters("c = Const ^x\nx = Placeholder\ni = Identity c", minimum=1) == []


def test_a_node_that_asks_for_a_shape_is_with_what_it_asks():
    text = """
        x = Placeholder
        a = Abs x
        s = {op} a out_type=DT_INT32
        o = Other a
        c = Cast s SrcT=DT_INT32 DstT=DT_FLOAT
        d = Mul c o
    """
    assert clusters(text.format(op="Shape")) == ["a s", "c d"]
    assert clusters(text.format(op="Cast SrcT=DT_FLOAT DstT=DT_INT32")) == ["a", "s c d"]


def test_what_lives_under_different_predicates_is_kept_apart():
    text = """
        p = Flag
        x = Placeholder
        y = Abs x
        s = Switch y p
        t = Switch y p
        a = Neg s:1
        b = Mul a t:1
        c = Neg s
        d = Mul a y ^b
        m = Merge b c
        e = Mul m m
        f = Mul e y
    """
    assert clusters(text) == ["y", "a b d", "c", "e f"]


LOOP = """
    z = Placeholder
    w = Abs z
    i0 = Enter w frame_name=f
    x0 = Enter w frame_name=f
    k = Enter z frame_name=f is_constant=true
    i = Merge i0 i3
    x = Merge x0 x3
    less = Less i k
    go = LoopCond less
    i1 = Switch i go
    x1 = Switch x go
    one = Const ^i1
    i2 = Add i1:1 one
    x2 = Mul x1:1 i2
    i3 = NextIteration i2
    x3 = NextIteration x2
    end = Exit x1
    out = Mul end w
    last = Neg out
"""


def test_clusters_in_a_loop_and_around_it():
    assert clusters(LOOP) == ["w", "less", "i2 x2", "out last"]
    found = graph(LOOP)
    each = formed(found, marked(found, "auto"), 1)[2]
    assert each.inputs == (Output("i1", 1), Output("one", 0), Output("x1", 1))
    assert each.outputs == (Output("i2", 0), Output("x2", 0))


def test_loops_of_one_frame_one_after_the_other():
    assert clusters(LOOP + "r = Enter out frame_name=f\nu = Exit r\n") == []


def test_names_are_in_the_order_of_the_graph():
    text = "x = Placeholder\n" + "".join(f"o{k} = Other x\na{k} = Abs o{k}\n" for k in range(12))
    found = graph(text)
    names = {each.name: each.nodes for each in formed(found, marked(found, "auto"), 1)}
    assert names == {f"cluster_{k}": (f"a{k}",) for k in range(12)}


# Random graphs.


def random_graph(seed: int) -> tuple[Graph, bool]:
    """A graph, and whether it has a loop."""
    chance = random.Random(seed)
    size = chance.randrange(5, 50)
    lines = ["p = Flag", "q = Flag", "u = Placeholder", "v = Placeholder"]
    values = ["u", "v"]  # outputs that are floats
    flags, names = ["p", "q"], ["u", "v"]
    odd = chance.choice((0.05, 0.2, 0.4))
    placed, scoped = chance.random() < 0.2, chance.random() < 0.2
    looped = chance.random() < 0.25

    def any_value() -> str:
        return chance.choice(values[-12:] if chance.random() < 0.7 else values)

    for number in range(size):
        name = f"n{number}"
        kind = chance.random()
        more = f" ^{chance.choice(names)}" if chance.random() < 0.15 else ""
        if placed and chance.random() < 0.2:
            more += " @/cpu:1"
        if scoped:
            more += f" _XlaInternalScope={chance.choice('ab')}"
        if kind < odd:
            lines.append(f"{name} = Other {any_value()} {any_value()}{more}")
        elif kind < odd + 0.08:
            lines.append(f"{name} = Switch {any_value()} {chance.choice(flags)}{more}")
            values.append(f"{name}:1")
        elif kind < odd + 0.14:
            lines.append(f"{name} = Merge {any_value()} {any_value()}{more}")
        elif kind < odd + 0.18:
            lines.append(f"{name} = Greater {any_value()} {any_value()}{more}")
            flags.append(name)
        elif kind < odd + 0.24:
            lines.append(f"{name} = Const{more}")
        elif kind < odd + 0.28:
            lines.append(f"{name} = Shape {any_value()}{more}")
        elif kind < odd + 0.31:
            lines.append(
                f"{name} = {chance.choice(('NoOp', 'ControlTrigger'))} ^{chance.choice(names)}{more}"
            )
        else:
            count = chance.randrange(1, 4)
            op = {1: chance.choice(("Abs", "Identity")), 2: "Mul", 3: "AddN"}[count]
            lines.append(f"{name} = {op} {' '.join(any_value() for _ in range(count))}{more}")
        names.append(name)
        if not any(f" = {op} " in lines[-1] for op in ("Greater", "Shape", "NoOp", "ControlTrigger")):
            values.append(name)
    if looped:
        start = any_value()
        lines += LOOP.replace("z = Placeholder", f"z = Identity {start}").strip().splitlines()
    chance.shuffle(lines)  # the order of the message means nothing
    found = graph("\n".join(lines))
    found.results = [Output(chance.choice(names), 0) for _ in range(2)]
    return found, looped


def units_of(found: list[Formed], nodes: Mapping[str, Node], shared: set[str]) -> dict[str, str]:
    """The cluster that each node is in, else the node itself."""
    held = Counter(name for each in found for name in each.nodes if name not in shared)
    assert max(held.values(), default=0) <= 1
    inside = {name: each.name for each in found for name in each.nodes if name not in shared}
    return {name: inside.get(name, name) for name in nodes}


def order_of(nodes: Mapping[str, Node], units: Mapping[str, str], shared: set[str]) -> list[str]:
    """Units in order; CycleError where there is none."""
    before: dict[str, set[str]] = {unit: set() for unit in units.values()}
    for name, node in nodes.items():
        for source in node.sources:
            back = node.op == "Merge" and nodes[source].op == "NextIteration"
            if units[source] != units[name] and source not in shared and not back:
                before[units[name]].add(units[source])
    return list(TopologicalSorter(before).static_order())


def check(found: Graph, marks: Mapping[str, Mark], minimum: int) -> list[Formed]:
    """All that has to be true of clusters."""
    nodes = found.nodes
    made = formed(found, marks, minimum)
    shared = {name for name, node in nodes.items() if node.op == "Const" and not node.controls}
    units = units_of(made, nodes, shared)
    order_of(nodes, units, shared)
    for each in made:
        inside = set(each.nodes)
        own = [name for name in each.nodes if name not in shared]
        assert not any(marks[name].reason for name in inside)
        assert len({(marks[name].scope, marks[name].device) for name in inside}) == 1
        assert len({marks[name].group for name in own}) == 1
        assert any(nodes[name].types and nodes[name].op != "Const" for name in own)
        used = [source for name in each.nodes for source in nodes[name].inputs]
        assert set(each.inputs) == {source for source in used if source.node not in inside}
        outer = [s for name, node in nodes.items() if name not in inside for s in node.inputs] + found.results
        assert set(each.outputs) == {source for source in outer if source.node in own}
        assert len(set(each.inputs)) == len(each.inputs) and len(set(each.outputs)) == len(each.outputs)
        assert not any(output.node in shared for output in each.outputs)
        assert shared & inside == {
            s.node for s in used if s.node in shared and (marks[s.node].device, marks[s.node].scope)
            == (marks[own[0]].device, marks[own[0]].scope) and not marks[s.node].reason
        }  # fmt: skip
        near = {name: {s for s in nodes[name].sources if s in own} for name in own}
        reached, left = {own[0]}, [own[0]]
        while left:
            name = left.pop()
            more = (near[name] | {user for user in own if name in near[user]}) - reached
            reached |= more
            left += more
        assert reached == set(own)  # it hangs together
    return made


def assert_nothing_can_be_joined(found: Graph, marks: Mapping[str, Mark], made: list[Formed]) -> None:
    nodes = found.nodes
    shared = {name for name, node in nodes.items() if node.op == "Const" and not node.controls}
    units = units_of(made, nodes, shared)
    names = {each.name for each in made}
    keys = {units[name]: (marks[name].scope, marks[name].device, marks[name].group) for name in nodes}
    edges = {(units[source], units[name]) for name, node in nodes.items() for source in node.sources}
    for first, second in edges:
        if first != second and {first, second} <= names and keys[first] == keys[second]:
            joined = {name: second if unit == first else unit for name, unit in units.items()}
            with pytest.raises(CycleError):
                order_of(nodes, joined, shared)


def number(text: str) -> int:
    return zlib.crc32(text.encode())


def run(found: Graph, units: Mapping[str, str], shared: set[str], flags: Mapping[str, int]) -> dict[str, str]:
    """The outputs of live nodes, by `node:index`. A cluster runs if all its inputs are live."""
    nodes, values = found.nodes, dict[str, str]()
    members: dict[str, list[str]] = {}
    order = order_of(nodes, {name: name for name in nodes}, set())
    for name in order:
        members.setdefault(units[name], []).append(name)
    units_in_order = order_of(nodes, units, set())
    for unit in units_in_order:
        inside = members[unit]
        outer = [s for name in inside for s in nodes[name].inputs if s.node not in inside]
        waits = [s for name in inside for s in nodes[name].controls if s not in inside]
        node = nodes[inside[0]]
        if node.op == "Merge":
            live = any(str(source) in values for source in outer)
        elif node.op == "ControlTrigger":
            live = True
        else:
            live = all(str(s) in values for s in outer) and all(f"{s}:control" in values for s in waits)
        for name in inside if live else ():
            node = nodes[name]
            values[f"{name}:control"] = ""
            given = [values.get(str(source), "") for source in node.inputs]
            if node.op == "Switch":
                values[f"{name}:{flags.get(given[1], number(given[1]) % 2)}"] = given[0]
            elif node.op == "Merge":
                values[f"{name}:0"] = next(value for value in given if value)
            else:
                values[f"{name}:0"] = f"{name}({number(' '.join(given))})"
    return values


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part: int):
    found_some = Counter[str]()
    for seed in range(part, GRAPHS, 4):
        found, looped = random_graph(seed)
        marks = marked(found, "auto")
        made = check(found, marks, 0)
        least = random.Random(seed).randrange(1, 5)
        sizes = {e.nodes: sum(found.nodes[n].op not in ("Const", "Identity") for n in e.nodes) for e in made}
        assert [e.nodes for e in check(found, marks, least)] == [
            e.nodes for e in made if sizes[e.nodes] >= least
        ]
        found_some.update(clusters=len(made), large=sum(len(each.nodes) > 4 for each in made))
        if looped:
            continue
        assert_nothing_can_be_joined(found, marks, made)
        shared = {name for name, node in found.nodes.items() if node.op == "Const" and not node.controls}
        units = units_of(made, found.nodes, shared)
        alone = {name: name for name in found.nodes}
        for p, q in ((0, 0), (0, 1), (1, 0), (1, 1)):
            flags = {f"p({number('')})": p, f"q({number('')})": q}
            wanted = run(found, alone, shared, flags)
            assert run(found, units, shared, flags) == wanted
            found_some["dead"] += len(found.nodes) > sum(key.endswith("control") for key in wanted)
    assert min(found_some[what] for what in ("clusters", "large", "dead")) > GRAPHS / 16


# Large graphs.


def large(kind: str, size: int) -> str:
    """Graphs in which a search for cycles that looks too far takes quadratic time."""
    lines = ["x = Placeholder", "a = Abs x"]
    if kind == "chain":
        lines += [f"n{k} = Abs {f'n{k - 1}' if k else 'a'}" for k in range(size)]
    elif kind == "skip":  # a part that cannot be compiled between two that can, with ways around it
        third = size // 3
        lines += [f"f{k} = Abs {f'f{k - 1}' if k else 'a'}" for k in range(third)]
        lines += [f"o{k} = Other {f'o{k - 1}' if k else f'f{third - 1}'}" for k in range(third)]
        lines += [
            f"g{k} = Mul {f'g{k - 1}' if k else f'o{third - 1}'} f{third - 1 - k}" for k in range(third)
        ]
    elif kind == "fan":  # one value that everything uses
        lines += [f"o{k} = Other {f'o{k - 1}' if k else 'a'}" for k in range(size // 2)]
        lines += [f"g{k} = Mul a o{size // 2 - 1}" for k in range(size // 2)]
    elif kind == "ladder":  # updates beside a chain, each behind the one before
        for k in range(size // 3):
            lines.append(f"f{k} = Mul {f'f{k - 1}' if k else 'a'} x")
            lines.append(f"o{k} = Other f{k} {f'o{k - 1}' if k else 'x'}")
            lines.append(f"g{k} = AddN f{k} o{k} {f'g{k - 1}' if k else ''}")
    elif kind == "sides":  # beside a chain, what feeds it and what it feeds
        for k in range(size // 3):
            lines.append(f"i{k} = Other a")
            lines.append(f"f{k} = Mul {f'f{k - 1}' if k else 'x'} i{k}")
            lines.append(f"o{k} = Other f{k} {f'o{k - 1}' if k else 'x'}")
        lines.append(f"end = Abs o{size // 3 - 1}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "count"), [("chain", 1), ("skip", 2), ("fan", 2501), ("ladder", 2), ("sides", 3)]
)
def test_steps_grow_with_the_graph_only(kind: str, count: int, monkeypatch: pytest.MonkeyPatch):
    """Not seconds are counted but edges that are followed, and heights that are changed."""
    steps = Counter[str]()
    groups, follow = forming._Groups, forming._Groups._steps

    class Heights(dict[str, int]):
        def __setitem__(self, name: str, height: int) -> None:
            steps["all"] += 1
            super().__setitem__(name, height)

    def counted(self, *arguments):
        for group in follow(self, *arguments):
            steps["all"] += 1
            yield group

    monkeypatch.setattr(groups, "_steps", counted)
    monkeypatch.setattr(forming, "_Groups", lambda: groups(heights=Heights()))
    found = graph(large(kind, 5000))
    assert len(formed(found, marked(found, "auto"), 1)) == count
    assert len(found.nodes) < steps["all"] < 20 * len(found.nodes)
