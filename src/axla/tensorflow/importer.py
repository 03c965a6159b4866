"""Converts a graph with feeds and fetches to an HLO module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dataclass import dataclass
from axla.core.errors import VerifyError
from axla.core.shape import Shape
from axla.ir.graph import Module
from axla.tensorflow.graph import Graph, Output, plain_output
from axla.tensorflow.scope import Import, Scope
from axla.tensorflow.types import Proto, dtype_of, fits
from axla.tensorflow.values import GraphValue, Reference, Variable


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """An imported graph. The parameters of `module` are the feeds, then `variables`, in order; its result is
    a tuple of the fetches, then the new values of `written`.
    """

    module: Module
    variables: tuple[str, ...]
    written: tuple[str, ...]


def output_named(name: str, graph: Graph) -> Output:
    """The output of a graph named `node` or `node:index`; VerifyError where there is none."""
    return plain_output(name, graph.nodes, f"'{name[:80]}'")


def import_graph(
    graph: Graph, feeds: Sequence[tuple[Output, Shape]], fetches: Sequence[Output], *,
    targets: Sequence[str] = (), variables: Mapping[str, Shape | np.ndarray] | None = None,
    constants: Mapping[Output, np.ndarray] | None = None, checkpoint: Mapping[str, np.ndarray] | None = None,
    name: str = "graph", with_state: bool = True,
) -> Imported:  # fmt: skip
    """The program that computes fetches from feeds, and runs the operations `targets`.

    `variables`: the initial value of each variable that has one, which becomes a constant, or its shape,
    which makes it a parameter. `constants`: outputs with a known value; `checkpoint`: tensors by the names
    under which nodes restore them. Without `with_state`, new values of variables are not results. Raises
    VerifyError and UnsupportedError that name the node.
    """
    if not graph.nodes:
        raise VerifyError("the graph is empty")
    builder = XlaBuilder(name)
    importer = Import(initial=variables or {}, checkpoint=checkpoint or {})
    scope = Scope(importer, builder)
    given: dict[Output, GraphValue] = {}
    for number, (output, shape) in enumerate(feeds):
        _check_feed(graph, output, shape)
        if output in given:
            raise VerifyError(f"'{output}' is fed twice")
        given[output] = ops.Parameter(builder, number, shape, output.node)
    scope.first = len(given)
    for output, value in (constants or {}).items():
        given[output] = scope.constant(value) if value.dtype != object else value
    results = scope.run(graph, fetches, given, targets)
    results = [scope.read(value) if isinstance(value, Reference) else value for value in results]
    for output, value in zip(fetches, results, strict=True):
        if not isinstance(value, XlaOp):
            raise VerifyError(f"the fetch '{output}' is not an array")
    held = [r for r in scope.state if isinstance(r, Variable)] if with_state else []
    written = [r for r in held if scope.begun.get(r) is not scope.state[r]]
    outputs = [*results, *(scope.state[variable] for variable in written)]
    module = builder.build(ops.Tuple(builder, outputs)).module
    return Imported(module, tuple(v.name for v in scope.parameters), tuple(v.name for v in written))


def restored(graph: Graph, saver: Proto, checkpoint: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the operation by which a SaverDef restores variables from `checkpoint`; returns the values of
    variables by name. The default is the operation of TensorFlow 1 savers. Lookup tables and strings are left
    out.
    """
    if not checkpoint:
        return {}
    operation = saver.get("restore_op_name") or "save/restore_all"
    file = output_named(saver.get("filename_tensor_name") or "save/Const:0", graph)
    if operation not in graph.nodes:
        raise VerifyError(f"the graph has no node '{operation}', which should restore its variables")
    builder = XlaBuilder("restore")
    scope = Scope(Import(checkpoint=checkpoint, partial=True), builder)
    scope.run(graph, [], {file: np.array(b"", object)}, [operation])
    found = {}
    for variable, value in scope.state.items():
        known = scope.known(value) if isinstance(variable, Variable) else None
        if known is not None:
            found[variable.name] = known
    return found


def _check_feed(graph: Graph, output: Output, shape: Shape) -> None:
    node = graph.nodes[output.node]
    if node.types is not None:
        wanted = dtype_of(node.types[output.index], f"the feed '{output}'")
        if wanted is not shape.dtype:
            raise VerifyError(f"the feed '{output}' must be {wanted.name}, found {shape.dtype.name}")
    dims = node.attributes.get("shape") if node.op in ("Placeholder", "PlaceholderWithDefault") else None
    if not fits(dims, shape.dims):
        raise VerifyError(f"the feed '{output}' must have shape {list(dims or ())}, found {list(shape.dims)}")
