"""Functions of a graph as computations that conditionals and loops call.

Operands and results are tuples of all arrays: of the values, then of the contents of the resources that the
functions may use. Constants are made again inside, so that shapes that depend on them are known there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.shape import Shape, TupleShape
from axla.tensorflow.attributes import called_by
from axla.tensorflow.graph import ARGUMENT, Graph, Output
from axla.tensorflow.scope import Scope
from axla.tensorflow.values import Composite, Resource, Value, leaves, parts, rebuilt, structure

MOST_EMBEDDED = 1024
"""Elements of constants that regions make again."""
_MOST_PASSES = 10


@dataclass(slots=True, eq=False)
class Carried:
    """What goes into regions: the values of arguments, and the contents of resources."""

    values: list[Value]
    resources: list[Resource]
    contents: list[Value]

    def all(self) -> list[Value]:
        return [*self.values, *self.contents]

    def operand(self, scope: Scope) -> XlaOp:
        """The tuple of all arrays."""
        return ops.Tuple(scope.builder, [leaf for value in self.all() for leaf in leaves(value)])

    def entered(self, scope: Scope, inner: Scope, kept: Iterable[bool]) -> list[Value]:
        """The values inside of a region whose parameter is the tuple; `kept` says of each array whether it is
        what it is outside, so that a constant may stand for it. The state of `inner` is filled.
        """
        outside = [leaf for value in self.all() for leaf in leaves(value)]
        shape = TupleShape(tuple(leaf.shape for leaf in outside))
        inside = parts(ops.Parameter(inner.builder, 0, shape, "arguments"))
        for number, (leaf, same) in enumerate(zip(outside, kept, strict=True)):
            if same and isinstance(leaf.shape, Shape) and leaf.shape.size <= MOST_EMBEDDED:
                known = scope.known(leaf)
                if known is not None:
                    inside[number] = inner.constant(known)
        found = iter(inside)
        values = [rebuilt(value, found) for value in self.values]
        for resource, content in zip(self.resources, self.contents, strict=True):
            inner.state[resource] = rebuilt(content, found)
        return values


def carried(scope: Scope, values: Sequence[Value], graphs: Sequence[Graph]) -> Carried:
    """What functions need: their arguments, and the resources among them and in their bodies."""
    resources = dict.fromkeys(value for value in values if isinstance(value, Resource))
    for graph in graphs:
        resources.update(dict.fromkeys(named_resources(scope, graph)))
    held = [resource for resource in resources if scope.has(resource)]
    return Carried(list(values), held, [scope.read(resource) for resource in held])


def named_resources(scope: Scope, graph: Graph) -> list[Resource]:
    """The resources that nodes of a function, and of those that it calls, name themselves."""
    found: list[Resource] = []
    seen: set[int] = set()
    stack = [graph]
    while stack:
        graph = stack.pop()
        if id(graph) in seen:
            continue
        seen.add(id(graph))
        for node in graph.nodes.values():
            maker = RESOURCES.get(node.op)
            if maker is not None:
                found.append(maker(scope, node.name, node.attributes))
            stack += [graph.library.function(called, str(node)) for called in called_by(node.attributes)]
    return found


RESOURCES: dict[str, Callable[[Scope, str, dict[str, Any]], Resource]] = {}
"""Operations that name a resource -> what makes it, of a scope, the node's name and its attributes."""


def conditional(
    scope: Scope, selector: XlaOp, graphs: Sequence[Graph], values: Sequence[Value]
) -> list[Value]:
    """The results of the function that the selector chooses: of two by a pred, true first; otherwise by
    number, the last one where it is out of range.
    """
    known = scope.known(selector)
    if known is not None:
        number = int(known) if selector.dtype.name != "pred" else int(not known)
        return scope.call(graphs[number if 0 <= number < len(graphs) else -1], values)
    inputs = carried(scope, values, graphs)
    inner, results, states = [], [], []
    for graph in graphs:
        region = scope.inner(graph.name)
        count = sum(len(leaves(value)) for value in inputs.all())
        results.append(region.call(graph, inputs.entered(scope, region, [True] * count)))
        states.append(region.state)
        inner.append(region)
    resources = _common(states)
    outputs = [
        [*result, *(state[r] for r in resources)] for result, state in zip(results, states, strict=True)
    ]
    _check_equal(graphs, outputs)
    computations = [
        region.builder.build(ops.Tuple(region.builder, [leaf for value in found for leaf in leaves(value)]))
        for region, found in zip(inner, outputs, strict=True)
    ]
    operand = inputs.operand(scope)
    if selector.dtype.name == "pred":
        whole = ops.Conditional(selector, operand, computations[0], operand, computations[1])
    else:
        whole = ops.Conditional(selector, computations, [operand] * len(graphs))
    return _left(scope, whole, outputs[0], resources)


def _common(states: Sequence[dict[Resource, Value]]) -> list[Resource]:
    """The resources that have contents behind all branches: what only one of them fills is gone."""
    return [resource for resource in states[0] if all(resource in state for state in states)]


def _check_equal(graphs: Sequence[Graph], outputs: Sequence[list[Value]]) -> None:
    for graph, found in zip(graphs[1:], outputs[1:], strict=True):
        for number, (value, first) in enumerate(zip(found, outputs[0], strict=True)):
            if structure(value) != structure(first):
                raise UnsupportedError(
                    f"result {number} is {_shown(first)} of function '{graphs[0].name}', "
                    f"{_shown(value)} of '{graph.name}'"
                )


def _shown(value: Value) -> str:
    found = structure(value)
    return found.to_string(layout=False) if isinstance(found, Shape) else str(found)


def _left(scope: Scope, whole: XlaOp, outputs: Sequence[Value], resources: Sequence[Resource]) -> list[Value]:
    """The values outside that a tuple of results is; the contents of resources go back into the state."""
    found = iter(parts(whole))
    values = [rebuilt(value, found) for value in outputs]
    count = len(values) - len(resources)
    scope.state.update(zip(resources, values[count:], strict=True))
    return values[:count]


def loop(scope: Scope, condition: Graph, body: Graph, values: Sequence[Value]) -> list[Value]:
    """Calls the body as long as the condition holds, with its results as the next arguments."""
    inputs = carried(scope, values, [condition, body])
    kept = _kept(body, values)
    for _ in range(_MOST_PASSES):
        region, outputs = _body(scope, body, inputs, kept)
        changed = _filled(scope, inputs, outputs)
        if changed is None:
            break
        inputs = changed
    else:
        raise UnsupportedError(
            f"the values of the loop '{body.name}' do not come to shapes that stay as they are"
        )
    _check_loop(body, inputs, outputs)
    built = region.builder.build(
        ops.Tuple(region.builder, [leaf for value in outputs for leaf in leaves(value)])
    )
    tester = scope.inner(condition.name)
    flags = _flags(inputs, kept)
    (test,) = tester.call(condition, inputs.entered(scope, tester, flags))
    if not isinstance(test, XlaOp) or test.dtype.name != "pred" or test.dims:
        raise VerifyError(
            f"the condition '{condition.name}' gives {_shown(test)}, wanted a scalar of booleans"
        )
    whole = ops.While(tester.builder.build(test), built, inputs.operand(scope))
    return _left(scope, whole, inputs.all(), inputs.resources)


def _flags(inputs: Carried, kept: Sequence[bool]) -> list[bool]:
    flags = [same for value, same in zip(inputs.values, kept, strict=True) for _ in leaves(value)]
    return flags + [False for value in inputs.contents for _ in leaves(value)]


def _body(scope: Scope, body: Graph, inputs: Carried, kept: Sequence[bool]) -> tuple[Scope, list[Value]]:
    region = scope.inner(body.name)
    results = region.call(body, inputs.entered(scope, region, _flags(inputs, kept)))
    if len(results) != len(inputs.values):
        raise VerifyError(f"the body '{body.name}' gives {len(results)} values of {len(inputs.values)}")
    return region, [*results, *(region.state[resource] for resource in inputs.resources)]


def _filled(scope: Scope, inputs: Carried, outputs: Sequence[Value]) -> Carried | None:
    """The inputs with composites that the body gave arrays first; None where all are as the body leaves
    them.
    """
    found = []
    for value, output in zip(inputs.all(), outputs, strict=True):
        if isinstance(value, Composite) and isinstance(output, Composite):
            changes = value.structure() != output.structure()
            found.append(value.cleared(scope.builder, output) if changes else value)
        else:
            found.append(value)
    if all(value is before for value, before in zip(found, inputs.all(), strict=True)):
        return None
    count = len(inputs.values)
    return Carried(found[:count], inputs.resources, found[count:])


def _check_loop(body: Graph, inputs: Carried, outputs: Sequence[Value]) -> None:
    for number, (value, result) in enumerate(zip(inputs.all(), outputs, strict=True)):
        if structure(value) != structure(result):
            raise UnsupportedError(
                f"value {number} of the loop '{body.name}' is {_shown(value)} before and {_shown(result)} "
                "behind a turn: a loop keeps its shapes"
            )


def _kept(body: Graph, values: Sequence[Value]) -> list[bool]:
    """Of each argument of a body, whether its result is the argument itself."""
    found = []
    for number, output in enumerate(body.results):
        while body.nodes[output.node].op in ("Identity", "StopGradient", "PreventGradient"):
            output = body.nodes[output.node].inputs[0]
        node = body.nodes[output.node]
        found.append(node.op == ARGUMENT and output == Output(body.arguments[number][0], 0))
    return found[: len(values)] + [False] * (len(values) - len(found))
