"""Builds the computations that conditionals and loops call, from functions of a graph.

A computation takes and returns a tuple of arrays: those of the values, then those of the contents of
resources that the functions may use. Constants are created again inside, so that shapes that depend on them
are known there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import axla.ops as ops
from axla.analysis.trip_count import most_trips, sum_behind
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.shape import Shape, TupleShape
from axla.ir.graph import Instruction
from axla.tensorflow.attributes import called_by
from axla.tensorflow.graph import ARGUMENT, Graph, Output
from axla.tensorflow.lists import TensorList, empty, shown
from axla.tensorflow.scope import Scope
from axla.tensorflow.values import GraphValue, Resource, leaves, rebuilt, structure

MOST_EMBEDDED = 1024
"""The largest number of elements of a constant that is created again inside a region."""
_MOST_PASSES = 10
_IDENTITIES = ("Identity", "RefIdentity", "StopGradient", "PreventGradient")


@dataclass(slots=True, eq=False)
class Inputs:
    """The values passed into regions: arguments, and the contents of resources."""

    values: list[GraphValue]
    resources: list[Resource]
    contents: list[GraphValue]

    def all(self) -> list[GraphValue]:
        """Values and contents in one list."""
        return [*self.values, *self.contents]

    def operand(self, scope: Scope) -> XlaOp:
        """The tuple of all arrays, as the operand of a conditional or loop."""
        return ops.Tuple(scope.builder, _leaves(self.all()))

    def entered(self, scope: Scope, inner: Scope, kept: Iterable[bool]) -> list[GraphValue]:
        """The values inside a region, taken from its tuple parameter; `kept` says, for each array, whether it
        has the same value outside, so that a constant may replace it. Sets the contents of resources in
        `inner`, the scope of the region.
        """
        outside = _leaves(self.all())
        shape = TupleShape(tuple(leaf.shape for leaf in outside))
        inside = list(ops.Parameter(inner.builder, 0, shape, "arguments"))
        for number, (leaf, same) in enumerate(zip(outside, kept, strict=True)):
            if same and isinstance(leaf.shape, Shape) and leaf.shape.size <= MOST_EMBEDDED:
                known = scope.known(leaf)
                if known is not None:
                    inside[number] = inner.constant(known)
        found = iter(inside)
        values = [rebuilt(value, found) for value in self.values]
        for resource, content in zip(self.resources, self.contents, strict=True):
            inner.state[resource] = rebuilt(content, found)
        inner.entered = dict(inner.state)
        return values


def carried(scope: Scope, values: Sequence[GraphValue], graphs: Sequence[Graph]) -> Inputs:
    """Collects what functions need from outside: `values`, and the resources among these and in the
    functions' bodies.
    """
    resources = dict.fromkeys(value for value in values if isinstance(value, Resource))
    for graph in graphs:
        resources.update(dict.fromkeys(named_resources(scope, graph)))
    for resource in list(resources):
        resources.update(dict.fromkeys(resource.gradients.values()))
    held = [resource for resource in resources if scope.has(resource)]
    return Inputs(list(values), held, [scope.read(resource) for resource in held])


def _with_gradients(scope: Scope, inputs: Inputs, state: Mapping[Resource, GraphValue]) -> bool:
    """Returns whether a region created gradients of tensor arrays that were passed in; `state` is the
    region's state. Creates each such gradient outside, as an empty list, and adds it to `inputs`, for the
    region to be built again.
    """
    made = [r for r in state if r.origin in inputs.resources and r not in inputs.resources]
    for resource in made:
        assert resource.origin is not None
        content = empty(scope.builder, scope.read(resource.origin).type)
        scope.state[resource] = content
        inputs.resources.append(resource)
        inputs.contents.append(content)
    return bool(made)


def named_resources(scope: Scope, graph: Graph) -> list[Resource]:
    """The resources named by nodes of a function and of the functions that it calls."""
    found: list[Resource] = []
    seen: set[int] = set()
    stack = [graph]
    while stack:
        graph = stack.pop()
        if id(graph) in seen:
            continue
        seen.add(id(graph))
        for node in graph.nodes.values():
            variable = scope.importer.variable(node)
            found += [] if variable is None else [variable]
            stack += [graph.library.function(called, str(node)) for called in called_by(node.attributes)]
    return found


def conditional(
    scope: Scope, selector: XlaOp, graphs: Sequence[Graph], values: Sequence[GraphValue]
) -> list[GraphValue]:
    """Calls one of several functions; returns its results. A pred selects the first function if it is true,
    else the second; an integer is the number of the function, or selects the last one if it is out of range.
    """
    known = scope.known(selector)
    if known is not None:
        number = int(known) if selector.dtype.name != "pred" else int(not known)
        return scope.call(graphs[number if 0 <= number < len(graphs) else -1], values)
    inputs = carried(scope, values, graphs)
    branches = _branches(scope, graphs, inputs)
    if any(_with_gradients(scope, inputs, region.state) for region, _ in branches):
        branches = _branches(scope, graphs, inputs)
    resources = [r for r in branches[0][0].state if all(r in region.state for region, _ in branches)]
    outputs = [[*result, *(region.state[r] for r in resources)] for region, result in branches]
    outputs = _made_equal(graphs, [region for region, _ in branches], outputs)
    computations = [
        region.builder.build(ops.Tuple(region.builder, _leaves(found)))
        for (region, _), found in zip(branches, outputs, strict=True)
    ]
    operand = inputs.operand(scope)
    if selector.dtype.name == "pred":
        whole = ops.Conditional(selector, operand, computations[0], operand, computations[1])
    else:
        whole = ops.Conditional(selector, computations, [operand] * len(graphs))
    found = iter(whole)
    results = [rebuilt(value, found) for value in outputs[0]]
    count = len(results) - len(resources)
    for resource, content in zip(resources, results[count:], strict=True):
        if any(_changes(region, resource) for region, _ in branches):
            scope.state[resource] = content
    return results[:count]


def _branches(scope: Scope, graphs: Sequence[Graph], inputs: Inputs) -> list[tuple[Scope, list[GraphValue]]]:
    found = []
    for graph in graphs:
        region = scope.inner(graph.name)
        kept = [True] * len(_leaves(inputs.all()))
        found.append((region, region.call(graph, inputs.entered(scope, region, kept))))
    return found


def _leaves(values: Iterable[GraphValue]) -> list[XlaOp]:
    return [leaf for value in values for leaf in leaves(value)]


def _changes(region: Scope, resource: Resource) -> bool:
    """Whether a region has written a resource."""
    return region.state[resource] is not region.entered.get(resource)


def _made_equal(
    graphs: Sequence[Graph], regions: Sequence[Scope], outputs: Sequence[list[GraphValue]]
) -> list[list[GraphValue]]:
    """The results of the branches, in which lists are converted to a common type."""
    for number, column in enumerate(zip(*outputs, strict=True)):
        common = column[0]
        if all(isinstance(value, TensorList) for value in column):
            for value in column[1:]:
                common = common.fitted(regions[0].builder, common.type.joined(value.type))
            for output, region in zip(outputs, regions, strict=True):
                output[number] = output[number].fitted(region.builder, common.type)
        for graph, output in zip(graphs[1:], outputs[1:], strict=True):
            if structure(output[number]) != structure(outputs[0][number]):
                one, other = shown(structure(outputs[0][number])), shown(structure(output[number]))
                where = f"in function '{graphs[0].name}', but {other} in '{graph.name}'"
                raise UnsupportedError(f"result {number} of a conditional is {one} {where}")
    return list(outputs)


def loop(scope: Scope, condition: Graph, body: Graph, values: Sequence[GraphValue]) -> list[GraphValue]:
    """Builds a loop that calls the body while the condition holds; an iteration's results are the next
    arguments. Returns the values after the loop.
    """
    begun = inputs = carried(scope, values, [condition, body])
    kept = _kept(body, values)
    for _ in range(_MOST_PASSES):
        region, entered, outputs = _body(scope, body, inputs, kept)
        if _with_gradients(scope, begun, region.state):
            inputs = begun
            continue
        tester, test = _test(scope, condition, inputs, kept)
        trips, is_exact = _trips(scope, inputs, test, outputs)
        changed = _fitted(scope, inputs, outputs, trips)
        if changed is None:
            break
        inputs = changed
    else:
        raise UnsupportedError(
            f"the types of lists in the loop '{body.name}' still change after {_MOST_PASSES} passes"
        )
    for number, (value, output) in enumerate(zip(inputs.all(), outputs, strict=True)):
        if isinstance(value, TensorList) and isinstance(output, TensorList):
            outputs[number] = output.fitted(region.builder, value.type)
    _check_loop(body, inputs, outputs)
    built = region.builder.build(ops.Tuple(region.builder, _leaves(outputs)))
    whole = ops.While(tester.builder.build(test), built, inputs.operand(scope))
    found = iter(whole)
    results = [rebuilt(value, found) for value in inputs.all()]
    exact = trips if is_exact else None
    for number, value in enumerate(results):
        before, first, last = begun.all()[number], entered[number], outputs[number]
        if last is first:
            results[number] = before
        elif isinstance(value, TensorList):
            results[number] = value.at_end(before, first, last, exact)
        elif exact is not None and isinstance(value, XlaOp):
            known = _counted(scope, before, first, last, exact)
            results[number] = value if known is None else scope.constant(known)
    scope.state.update(zip(inputs.resources, results[len(inputs.values) :], strict=True))
    return results[: len(inputs.values)]


def _counted(scope: Scope, before: XlaOp, first: XlaOp, last: XlaOp, trips: int) -> np.ndarray | None:
    """The value of a counter after a loop of `trips` iterations; None if unknown. `before`: its value before
    the loop; `first` and `last`: its values before and after an iteration.
    """
    counts = not last.dims and last.dtype.is_integer and last.dtype.bits >= 8
    start = scope.known(before) if counts else None
    step = None if start is None else sum_behind(first.instruction, last.instruction)
    if start is None or step is None:
        return None
    bits = last.dtype.bits
    return np.asarray((int(start) + trips * step) % (1 << bits)).astype(f"u{bits // 8}").view(start.dtype)


def _test(scope: Scope, condition: Graph, inputs: Inputs, kept: Sequence[bool]) -> tuple[Scope, XlaOp]:
    """Builds the condition of a loop; returns its scope and its result, a scalar pred. `kept` says which of
    the values are the same in all iterations.
    """
    tester = scope.inner(condition.name)
    results = tester.call(condition, inputs.entered(scope, tester, _flags(inputs, kept)))
    if len(results) != 1 or not isinstance(results[0], XlaOp):
        raise VerifyError(f"the condition '{condition.name}' does not return a single array")
    (test,) = results
    if test.dtype.name != "pred" or test.dims:
        found = shown(structure(test))
        raise VerifyError(f"the condition '{condition.name}' returns {found}, wanted a scalar of booleans")
    return tester, test


def _trips(
    scope: Scope, inputs: Inputs, test: XlaOp, outputs: Sequence[GraphValue]
) -> tuple[int | None, bool]:
    """The largest number of iterations that a loop can have, None if there is no limit; and whether it always
    has this number. `test` is the result of the condition, `outputs` those of an iteration.
    """
    starts: list[int | None] = []
    ends: list[Instruction | None] = []
    for value, output in zip(inputs.all(), outputs, strict=True):
        for leaf in leaves(value):
            counts = isinstance(output, XlaOp) and not leaf.dims and leaf.dtype.is_integer
            known = scope.known(leaf) if counts else None
            starts.append(None if known is None else int(known))
            ends.append(output.instruction if counts else None)
    return most_trips(test.instruction, starts, ends)


def _flags(inputs: Inputs, kept: Sequence[bool]) -> list[bool]:
    flags = [same for value, same in zip(inputs.values, kept, strict=True) for _ in leaves(value)]
    return flags + [False for value in inputs.contents for _ in leaves(value)]


def _body(
    scope: Scope, body: Graph, inputs: Inputs, kept: Sequence[bool]
) -> tuple[Scope, list[GraphValue], list[GraphValue]]:
    """Builds one iteration of a loop; returns its scope, its inputs and its results. Inputs and results are
    followed by the contents of resources. `kept` says which of the values are the same in all iterations.
    """
    region = scope.inner(body.name)
    values = inputs.entered(scope, region, _flags(inputs, kept))
    entered = [*values, *(region.state[resource] for resource in inputs.resources)]
    results = region.call(body, values)
    if len(results) != len(inputs.values):
        raise VerifyError(f"the body '{body.name}' returns {len(results)} values, not {len(inputs.values)}")
    return region, entered, [*results, *(region.state[resource] for resource in inputs.resources)]


def _fitted(scope: Scope, inputs: Inputs, outputs: Sequence[GraphValue], trips: int | None) -> Inputs | None:
    """The inputs of a loop, in which lists are converted to the types that the results of an iteration need;
    None if all lists have these types already.
    """
    found = []
    for value, output in zip(inputs.all(), outputs, strict=True):
        if isinstance(value, TensorList) and isinstance(output, TensorList):
            wanted = value.repeated(output, trips)
            if wanted is None:
                raise UnsupportedError(
                    f"a list grows in a loop, from {value.type} to {output.type} in an "
                    "iteration: give its size, or make the number of iterations a constant"
                )
            value = value.fitted(scope.builder, wanted)
        found.append(value)
    if all(value is before for value, before in zip(found, inputs.all(), strict=True)):
        return None
    count = len(inputs.values)
    return Inputs(found[:count], inputs.resources, found[count:])


def _check_loop(body: Graph, inputs: Inputs, outputs: Sequence[GraphValue]) -> None:
    for number, (value, result) in enumerate(zip(inputs.all(), outputs, strict=True)):
        if structure(value) != structure(result):
            raise UnsupportedError(
                f"value {number} of the loop '{body.name}' is {shown(structure(value))} before and "
                f"{shown(structure(result))} after an iteration, wanted equal shapes"
            )


def _kept(body: Graph, values: Sequence[GraphValue]) -> list[bool]:
    """For each argument, whether the body returns it unchanged."""
    found = []
    for number, output in enumerate(body.results):
        while body.nodes[output.node].op in _IDENTITIES and body.nodes[output.node].inputs:
            output = body.nodes[output.node].inputs[0]
        node = body.nodes[output.node]
        found.append(node.op == ARGUMENT and output == Output(body.arguments[number][0], 0))
    return found[: len(values)] + [False] * (len(values) - len(found))
