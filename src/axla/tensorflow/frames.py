"""Converts TensorFlow 1 loops to While nodes. Also has functions that create nodes from other nodes.

A loop is a frame. `Enter` passes values in; `Merge` has the value for an iteration (first from Enter, then
from `NextIteration`); `LoopCond` says whether there is another iteration; `Switch` passes the value to the
body (output 1) or to `Exit` (output 0). A value whose `Enter` has is_constant does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError, VerifyError
from axla.tensorflow.graph import ARGUMENT, FunctionLibrary, Graph, Node, Output
from axla.tensorflow.records import records

LOOPS = ("Enter", "Exit", "NextIteration", "LoopCond")
_IDENTITIES = ("Identity", "RefIdentity")


def made(
    name: str, op: str, inputs: Sequence[Output], types: Sequence[str], like: Node | None = None,
    **attributes: object,
) -> Node:  # fmt: skip
    """Creates a node; with `like`, it has the source location and the control inputs of that node."""
    node = Node(name, op, list(inputs), [], {}, "", records().get(op), attributes, list(types))
    node.names = [""] * len(types)
    if like is not None:
        node.place, node.controls = like.place, like.controls
    return node


def identity(node: Node, source: Output | None = None) -> Node:
    """An identity node that replaces `node`. It returns `source`, by default the first input of `node`."""
    assert node.types is not None
    op = "RefIdentity" if node.op.startswith("Ref") else "Identity"
    return made(node.name, op, [source or node.inputs[0]], node.types[:1], node, T=node.types[0])


def argument(name: str, number: int, type_: str) -> Node:
    """The node for argument `number` of a function."""
    return made(name, ARGUMENT, [], [type_], index=number, T=type_)


def plain(output: Output, nodes: Mapping[str, Node]) -> Output:
    """The output from which `output` takes its value: follows identity nodes backwards."""
    while output.node in nodes and nodes[output.node].op in _IDENTITIES:
        output = nodes[output.node].inputs[0]
    return output


@dataclass(slots=True, eq=False)
class _Frame:
    name: str
    parent: _Frame | None
    nodes: dict[str, Node] = field(default_factory=dict)
    enters: list[Node] = field(default_factory=list)
    exits: list[Node] = field(default_factory=list)


def without_frames(nodes: Sequence[Node], library: FunctionLibrary) -> dict[str, Node]:
    """The nodes by name, with a While node in place of each loop. `nodes` are in topological order; the
    conditions and bodies of the loops are added to `library`.
    """
    top, *frames = _frames(nodes)
    for frame in reversed(frames):
        _take_out(frame, library)
    return top.nodes


def _frames(nodes: Sequence[Node]) -> list[_Frame]:
    """All frames, each with its nodes in topological order. The outermost comes first, and each other frame
    after the frame that contains it.
    """
    top = _Frame("", None)
    found: dict[tuple[_Frame | None, str], _Frame] = {(None, ""): top}
    behind: dict[str, _Frame] = {}
    for node in nodes:
        sources = [behind[name] for name in node.sources if name in behind]
        if any(source is not sources[0] for source in sources):
            names = ", ".join(sorted({f"'{source.name}'" for source in sources}))
            raise VerifyError(f"{node}: its inputs are in different frames: {names}")
        frame = behind[node.name] = sources[0] if sources else top
        frame.nodes[node.name] = node
        if node.kind == "Enter":
            key = frame, node.attributes["frame_name"]
            inner = found.setdefault(key, _Frame(key[1], frame))
            inner.enters.append(node)
            behind[node.name] = inner
        elif node.kind in ("Exit", "NextIteration") and frame.parent is None:
            raise VerifyError(f"{node}: it is not inside a frame")
        elif node.kind == "Exit":
            frame.exits.append(node)
            assert frame.parent is not None
            behind[node.name] = frame.parent
    return list(found.values())


def _take_out(frame: _Frame, library: FunctionLibrary) -> None:
    """Replaces a frame by a While node in the frame around it."""
    parent = frame.parent
    assert parent is not None
    tests = [node for node in frame.nodes.values() if node.op == "LoopCond"]
    if len(tests) != 1:
        raise VerifyError(f"the frame '{frame.name}' has {len(tests)} LoopCond nodes, wanted one")
    (test,) = tests
    arguments, enters, results = _arguments(frame)
    types = [argument.types[0] for argument in arguments if argument.types]
    switches = {
        node.name
        for node in frame.nodes.values()
        if node.kind == "Switch" and plain(node.inputs[1], frame.nodes) == Output(test.name, 0)
    }
    inner = _inside(frame, switches) | {argument.name: argument for argument in arguments}
    for node in inner.values():
        if any(name not in inner for name in node.sources):
            raise UnsupportedError(f"{node}: an input from outside the frame '{frame.name}' has no Enter")
    declared = list(zip((argument.name for argument in arguments), types, strict=True))
    condition = Graph("", inner, library, declared, [Output(test.name, 0)])
    body = Graph("", inner, library, declared, results)
    stem = f"{frame.name}.{test.name}"
    whole = made(
        test.name, "While", [Output(enter.name, 0) for enter in enters], types, replace(test, controls=[]),
        T=tuple(types), cond=library.added(condition, f"{stem}.cond"), parallel_iterations=10,
        body=library.added(body, f"{stem}.body"), output_shapes=(),
    )  # fmt: skip
    parent.nodes[test.name] = whole
    for enter in frame.enters:
        parent.nodes[enter.name] = identity(enter)
    places = {argument.name: number for number, argument in enumerate(arguments)}
    for node in frame.exits:
        number = places.get(_left_behind(node, frame, switches))
        if number is None:
            raise UnsupportedError(f"{node}: its input is not a value of the loop that a Switch returns")
        parent.nodes[node.name] = identity(node, Output(test.name, number))
        parent.nodes[node.name].controls = []


def _arguments(frame: _Frame) -> tuple[list[Node], list[Node], list[Output]]:
    """The values that a loop carries, first the changing ones, then the constant ones. Returns the argument
    nodes that represent them inside, the Enter nodes with their initial values, and their outputs after an
    iteration.
    """
    arguments: list[Node] = []
    enters: list[Node] = []
    results: list[Output] = []
    entered = {enter.name: enter for enter in frame.enters}
    for node in frame.nodes.values():
        first = [entered[source.node] for source in node.inputs if source.node in entered]
        sources = [frame.nodes[source.node] for source in node.inputs if source.node in frame.nodes]
        backs = [source for source in sources if source.kind == "NextIteration"]
        if node.kind != "Merge" or not (backs or first):
            continue
        if len(backs) != 1 or len(first) != 1 or len(node.inputs) != 2:
            raise VerifyError(f"{node}: wanted as inputs an Enter and a NextIteration of '{frame.name}'")
        assert node.types is not None
        arguments.append(argument(node.name, len(arguments), node.types[0]))
        enters += first
        results.append(Output(backs[0].name, 0))
    used = {enter.name for enter in enters}
    for enter in frame.enters:
        if enter.name in used:
            continue
        if not enter.attributes["is_constant"]:
            raise UnsupportedError(f"{enter}: it has no Merge, and is_constant is false")
        assert enter.types is not None
        arguments.append(argument(enter.name, len(arguments), enter.types[0]))
        enters.append(enter)
        results.append(Output(enter.name, 0))
    return arguments, enters, results


def _inside(frame: _Frame, switches: Collection[str]) -> dict[str, Node]:
    """The nodes of an iteration, by name; Switch (those in `switches`), LoopCond and NextIteration become
    identities.
    """
    moved = {Output(name, 1): Output(name, 0) for name in switches}
    inner = {}
    for name, node in frame.nodes.items():
        if node.kind == "Exit":
            continue
        if name in switches or node.kind in ("LoopCond", "NextIteration"):
            node = identity(node)
        inner[name] = replace(node, inputs=[moved.get(source, source) for source in node.inputs])
    return inner


def _left_behind(node: Node, frame: _Frame, switches: Collection[str]) -> str:
    """The name of the node inside a frame whose value an Exit returns. For a Switch in `switches` it is the
    node that the Switch takes its value from.
    """
    source = plain(node.inputs[0], frame.nodes)
    if source.node in switches and source.index == 0:
        return plain(frame.nodes[source.node].inputs[0], frame.nodes).node
    return source.node
