"""A function traced by TensorFlow, as one cluster.

Variables stay with TensorFlow: their values are inputs of the cluster, their new values are results. In the
cluster's graph, the placeholder of a variable becomes a variable to which the value is assigned first. The
gradient is another cluster: it computes the function again, from the values that the variables had.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

from axla.core.errors import UnsupportedError
from axla.tensorflow.clusters import capi
from axla.tensorflow.clusters.cluster import Cluster
from axla.tensorflow.clusters.framework import backprop_util, handle_data_util, ops, resource_variable_ops, tf
from axla.tensorflow.clusters.launch import launch
from axla.tensorflow.clusters.marking import RANDOM, Compilable
from axla.tensorflow.clusters.rewriting import KERNEL
from axla.tensorflow.graph import Graph, Node, Output, graph_of
from axla.tensorflow.messages import decode
from axla.tensorflow.types import dtype_of

_VALUE, _NEW = "/axla_value", "/axla_new"
"""Suffixes of the names of nodes that have the value of a variable, before and after the function."""
_IDENTITIES = ("Identity", "IdentityN")
_READ = ("ReadVariableOp", "VariableShape", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp")
"""The operations that do not change a variable among their inputs."""
_RANDOM = ""
"""In a set of names of variables, this name means that random numbers are drawn."""

_TENSORFLOW = Path(tf.__file__).parent
_FOLDERS = (_TENSORFLOW, _TENSORFLOW.with_name("keras"), Path(__file__).parents[2])
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in _FOLDERS)
"""The folders of code that is not part of the user's program."""

_thread = threading.local()
_traced: WeakValueDictionary[int, Traced] = WeakValueDictionary()
"""The traced functions by the numbers of their clusters."""


@contextmanager
def whole() -> Iterator[None]:
    """Within this context, calls of jitted functions become parts of the cluster that is being traced."""
    before, _thread.whole = is_whole(), True
    try:
        yield
    finally:
        _thread.whole = before


def is_whole() -> bool:
    """Whether this thread is tracing a function that becomes one cluster."""
    return getattr(_thread, "whole", False)


class Traced:
    """A traced function and its cluster. The parameter `tensors` of methods has a tensor for each input of
    the function's graph: arguments, then captures.

    A Traced lives as long as the graphs that launch it, and the executables of its cluster are freed with it.
    (The cluster may live longer, for a kernel. It must not refer to objects of TensorFlow: those would be
    freed when TensorFlow frees the kernel, which would deadlock.)
    """

    def __init__(self, function: Any, writes: bool = True) -> None:
        """The cluster of a ConcreteFunction; without `writes`, variables are not changed. UnsupportedError
        for what cannot be compiled, with the node.
        """
        self.function, graph, inputs = function, function.graph, list(function.inputs)
        count = len(function.function_type.flat_outputs)  # TensorFlow adds outputs for its own gradients
        results = function.outputs[:count]
        self.tensors, self.results = inputs, results
        name = re.sub(r"\W", "_", graph.name).strip("_") or "function"
        variables = {tensor.op.name: data for tensor in inputs if (data := _variable(tensor))}
        controls = [operation.name for operation in graph.control_outputs]
        parsed = _parsed(function, variables, controls, name)
        outputs = [Output(tensor.op.name, tensor.value_index) for tensor in results]
        compiler, nodes = Compilable(parsed), parsed.needed(outputs, controls)
        for node in nodes:
            if why := compiler.why_not(node, parsed, must=True):
                raise UnsupportedError(f"{node}: {why}")
        held = {Output(place, 0): frozenset([place]) for place in variables}
        effects = _effects(compiler, parsed, nodes, held, {})
        self.is_random = _RANDOM in effects
        changed = effects if writes else set()
        self.written = [number for number, tensor in enumerate(inputs) if tensor.op.name in changed]
        """The numbers of the tensors that are variables to which the function may assign."""
        outputs += [Output(inputs[number].op.name + _NEW, 0) for number in self.written]
        places = [tensor.op.name + _VALUE * (tensor.op.name in variables) for tensor in inputs]
        needed = {node.name for node in parsed.needed(outputs)}
        self.fed = [number for number, place in enumerate(places) if place in needed]
        """The numbers of the tensors that are inputs of the cluster."""
        cluster = Cluster(name, parsed, [Output(places[number], 0) for number in self.fed], outputs)
        types = cluster.input_types + cluster.result_types
        for type_, output in zip(types, (*cluster.inputs, *outputs), strict=True):
            dtype_of(type_, f"'{output}' of function '{name}'")
        self.cluster = cluster
        _traced[cluster.number] = self
        finalize(self, cluster.free).atexit = False

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """Runs the cluster: reads and writes variables; returns the results of the function."""
        for variable in self.function.graph.variables:
            resource_variable_ops.variable_accessed(variable)
        results = self.launched([_read(self.tensors[n], tensors[n]) for n in self.fed])
        count = len(self.results)
        for number, value in zip(self.written, results[count:], strict=True):
            tf.raw_ops.AssignVariableOp(resource=tensors[number], value=value)
        return results[:count]

    def launched(self, values: Sequence[Any]) -> list[Any]:
        """Runs the cluster for these values of its inputs; returns the results, then the new values of
        variables.
        """
        if not self.cluster.outputs:
            return []
        results = self._with_gradient(values) if capi.missing() else launch(self.cluster, values)
        if not tf.executing_eagerly():
            ops.get_default_graph()._axla_clusters.append(self)
        for result, known in zip(results, self.results, strict=False):
            result.set_shape(known.shape)
        for result, number in zip(results[len(self.results) :], self.written, strict=True):
            result.set_shape(_variable(self.tensors[number]).shape)
        return results

    def _with_gradient(self, values: Sequence[Any]) -> list[Any]:
        """Launches the cluster by PyFunc, with an explicit gradient, which PyFunc needs."""

        @tf.custom_gradient
        def called(*given: Any) -> Any:
            return launch(self.cluster, given), lambda *cotangents: self.gradient(given, cotangents)

        return tf.nest.flatten(called(*values))

    def gradient(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The gradients of the cluster's inputs, None for an input without one, for the gradients
        `cotangents` of the results.
        """
        if self.is_random:
            why = "its gradient would draw other random numbers; take the gradient inside of it"
            raise UnsupportedError(f"function '{self.cluster.name}': {why}")
        given = dict(zip(self.fed, values, strict=True))
        tensors = [given.get(number) for number in range(len(self.tensors))]
        tensors += [cotangents[number] for number in self._trainable]
        backward = self._backward
        results = backward.launched([tensors[number] for number in backward.fed])
        found = backward.function.function_type.pack_output(results)
        return [found[number] for number in self.fed]

    @property
    def _trainable(self) -> list[int]:
        """The numbers of the results that have a gradient."""
        return [number for number, one in enumerate(self.results) if backprop_util.IsTrainable(one)]

    @cached_property
    def _backward(self) -> Traced:
        function, numbers = self.function, self._trainable
        first = len(self.tensors) - len(function.captured_inputs)

        def backward(tensors: list[Any], cotangents: list[Any]) -> list[Any]:
            for given, inner in zip(tensors, self.tensors, strict=True):
                handle_data_util.copy_handle_data(inner, given)
            found = function._call_flat(tensors[:first], tensors[first:])
            results = [one for one in tf.nest.flatten(found, expand_composites=True) if one is not None]
            found = tf.gradients([results[number] for number in numbers], tensors, cotangents)
            return [None if one is None else tf.convert_to_tensor(one) for one in found]

        tensors = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in self.tensors]
        cotangents = [tf.TensorSpec(self.results[n].shape, self.results[n].dtype) for n in numbers]
        with tf.init_scope(), whole():
            made = tf.function(backward, autograph=False).get_concrete_function(tensors, cotangents)
        return Traced(made, writes=False)


@ops.RegisterGradient(KERNEL.op)
def _gradient(operation: Any, *cotangents: Any) -> list[Any]:
    traced = _traced.get(operation.get_attr("program"))
    if traced is None:
        why = "has no gradient: it is a part of a session's graph"
        raise UnsupportedError(f"{operation.name} ({operation.type}) {why}")
    pairs = zip(cotangents, operation.outputs, strict=True)
    given = [tf.zeros_like(output) if one is None else one for one, output in pairs]
    return traced.gradient(operation.inputs, given)


def _variable(tensor: Any) -> Any:
    """Type and shape of the variable whose handle a tensor is; None for other tensors."""
    data = handle_data_util.get_resource_handle_data(tensor) if tensor.dtype == tf.resource else None
    return data.shape_and_type[0] if data and data.is_set and len(data.shape_and_type) == 1 else None


def _read(placeholder: Any, tensor: Any) -> Any:
    data = _variable(placeholder)
    return tensor if data is None else tf.raw_ops.ReadVariableOp(resource=tensor, dtype=data.dtype)


# Graphs.


def _parsed(function: Any, variables: Mapping[str, Any], controls: Sequence[str], name: str) -> Graph:
    """The graph, named `name`, of a function. The placeholders of `variables`, which have types and shapes by
    name, become variables with assigned values. The nodes `controls` run before the new values are read.
    """
    message = function.graph.as_graph_def()
    for node in list(message.node):
        data = variables.get(node.name)
        if data is None:
            continue
        handle, value, given = (node.name + end for end in ("/axla_handle", _VALUE, "/axla_given"))
        made = [
            message.node.add(name=handle, op="VarHandleOp"),
            message.node.add(name=value, op="Placeholder"),
            message.node.add(name=given, op="AssignVariableOp", input=[handle, value]),
            message.node.add(name=node.name + _NEW, op="ReadVariableOp"),
        ]
        for each in made:
            each.attr["dtype"].type = data.dtype
        made[0].attr["shape"].shape.CopyFrom(data.shape)
        made[3].input.extend([node.name, *(f"^{control}" for control in controls)])
        node.op = "Identity"
        node.attr.clear()
        node.attr["T"].type = tf.resource.as_datatype_enum
        node.input.extend([handle, f"^{given}"])
    graph = graph_of(decode(message.SerializeToString(), "GraphDef"), name, {})
    graph.library.places |= places(function.graph)
    for node in graph.nodes.values():
        node.place = graph.library.places.get(f"{node.name}@", "")
    return graph


def places(graph: Any) -> dict[str, str]:
    """The lines of the user's program that created the operations of a TensorFlow graph and of its functions,
    by `operation@function`.
    """
    functions = {name: getattr(one, "graph", None) for name, one in graph._functions.items()}
    graphs = {"": graph} | {name: inner for name, inner in functions.items() if inner}  # a Defun has none
    pairs = [(name, operation) for name, one in graphs.items() for operation in one.get_operations()]
    return {f"{operation.name}@{name}": place_of(operation) for name, operation in pairs}


def place_of(operation: Any) -> str:
    """The line of the user's program that created an operation, in the form used by messages."""
    trace = operation.traceback
    for frame in reversed(trace.get_user_frames() if trace else ()):
        if not frame.filename.startswith(_LIBRARIES):
            return f", {frame.filename}:{frame.lineno}"
    return ""


def _effects(
    compiler: Compilable, graph: Graph, nodes: Iterable[Node], held: dict[Output, frozenset[str]],
    called: dict[Any, tuple[set[str], dict[int, frozenset[str]]]],
) -> set[str]:  # fmt: skip
    """The variables that nodes may change, and `_RANDOM` if they draw random numbers. `held`: the variables
    that outputs refer to, filled here; `called`: caches the results for functions.
    """
    found: set[str] = set()
    for node in nodes:
        given = {number: held[source] for number, source in enumerate(node.inputs) if source in held}
        functions = [graph.library.function(each, str(node)) for each in compiler.calls(node)]
        for function in functions:
            arguments = enumerate(function.arguments, len(node.inputs) - len(function.arguments))
            inner = {Output(name, 0): given[number] for number, (name, _) in arguments if number in given}
            key = function, frozenset(inner.items())
            if key not in called:
                needed = function.needed(function.results, function.controls)
                effects = _effects(compiler, function, needed, inner, called)
                results = enumerate(function.results)
                called[key] = effects, {number: inner[one] for number, one in results if one in inner}
            effects, given_back = called[key]
            found |= effects
            for number, names in given_back.items():
                place = Output(node.name, number)
                held[place] = held.get(place, frozenset()) | names
        if node.op in RANDOM:
            found.add(_RANDOM)
        if node.op in _IDENTITIES:
            held.update({Output(node.name, number): names for number, names in given.items()})
        elif not functions and node.op not in _READ:
            found.update(*given.values())
    return found
