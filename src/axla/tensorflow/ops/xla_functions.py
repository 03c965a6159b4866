"""HLO operations that call functions of the graph, or whole programs."""

from __future__ import annotations

from collections.abc import Sequence

import axla.ops as ops
from axla.api import contents, stablehlo
from axla.builder import records
from axla.builder.computation import XlaComputation
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import DType
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.stablehlo.modules import entry_of, import_source
from axla.tensorflow.attributes import Callee
from axla.tensorflow.ops.xla import dimension_numbers, pairs
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.values import GraphValue, leaves

RECORDS = """
XlaReduce: input:T init_value:T dimensions_to_reduce=ints reducer=func -> output:T
XlaVariadicReduce: input:N*T init_value:N*T N=int>=1 dimensions_to_reduce=ints reducer=func -> output:N*T
XlaVariadicReduceV2: inputs:T init_values:T T=types>=1 dimensions_to_reduce=ints reducer=func -> outputs:T
XlaReduceWindow: input:T init_value:T window_dimensions:Tindices window_strides:Tindices
    base_dilations:Tindices window_dilations:Tindices padding:Tindices computation=func -> output:T
XlaSelectAndScatter: operand:T window_dimensions:Tindices window_strides:Tindices padding:Tindices source:T
    init_value:T select=func scatter=func -> output:T
XlaScatter: operand:T scatter_indices:Tindices updates:T update_computation=func dimension_numbers=string
    indices_are_sorted=bool -> output:T
XlaVariadicSort: inputs:T dimension:i32 T=types>=1 comparator=func is_stable=bool -> outputs:T
XlaCallModule: args:Tin version=int module=string Sout=list(shape)>=0 Tout=types>=0 Tin=types>=0
    platforms=list(string)?[] function_list=list(func)?[] has_token_input_output=bool?false -> output:Tout
SymbolicGradient: input:Tin Tin=types>=1 Tout=types>=1 f=func -> output:Tout
"""


def computation(call: OpCall, attribute: str, types: Sequence[DType]) -> XlaComputation:
    """Builds the function that an attribute names as a computation on scalars of these types."""
    graph = call.function(attribute)
    region = call.scope.inner(graph.name)
    parameters = [
        ops.Parameter(region.builder, number, Shape(dtype), f"scalar{number}")
        for number, dtype in enumerate(types)
    ]
    results = [leaf for value in region.call(graph, parameters) for leaf in leaves(value)]
    if len(results) == 1:
        return region.builder.build(results[0])
    return region.builder.build(ops.Tuple(region.builder, results))


@lowering("XlaReduce")
def _reduce(call: OpCall, value: XlaOp, initial: XlaOp) -> XlaOp | Sequence[XlaOp]:
    return _variadic_reduce(call, [value], [initial])


@lowering("XlaVariadicReduce", "XlaVariadicReduceV2")
def _variadic_reduce(call: OpCall, values: list[XlaOp], initial: list[XlaOp]) -> XlaOp | Sequence[XlaOp]:
    """Reduces dimensions; without dimensions to reduce, returns the arrays."""
    if not call["dimensions_to_reduce"]:
        return values
    reducer = computation(call, "reducer", [value.dtype for value in (*values, *values)])
    return ops.Reduce(call.builder, values, initial, reducer, call["dimensions_to_reduce"])


@lowering("XlaReduceWindow")
def _reduce_window(
    call: OpCall, value: XlaOp, initial: XlaOp, sizes: XlaOp, strides: XlaOp, base_dilations: XlaOp,
    window_dilations: XlaOp, padding: XlaOp,
) -> XlaOp:  # fmt: skip
    return ops.ReduceWindowWithGeneralPadding(
        value, initial, computation(call, "computation", [value.dtype] * 2),
        call.integers(sizes, "window_dimensions"), call.integers(strides, "window_strides"),
        call.integers(base_dilations, "base_dilations"), call.integers(window_dilations, "window_dilations"),
        pairs(call, padding),
    )  # fmt: skip


@lowering("XlaSelectAndScatter")
def _select_and_scatter(
    call: OpCall, value: XlaOp, sizes: XlaOp, strides: XlaOp, padding: XlaOp, source: XlaOp, initial: XlaOp
) -> XlaOp:
    select, scatter = (computation(call, name, [value.dtype] * 2) for name in ("select", "scatter"))
    window = call.integers(sizes, "window_dimensions"), call.integers(strides, "window_strides")
    return ops.SelectAndScatterWithGeneralPadding(
        value, select, *window, pairs(call, padding), source, initial, scatter
    )


@lowering("XlaScatter")
def _scatter(call: OpCall, value: XlaOp, places: XlaOp, updates: XlaOp) -> XlaOp:
    combine = computation(call, "update_computation", [value.dtype] * 2)
    numbers = dimension_numbers(call, records.ScatterDimensionNumbers)
    return ops.Scatter(value, places, updates, combine, numbers, call["indices_are_sorted"])


@lowering("XlaVariadicSort")
def _variadic_sort(call: OpCall, values: list[XlaOp], dimension: XlaOp) -> XlaOp:
    types = [value.dtype for value in values for _ in range(2)]
    comparator = computation(call, "comparator", types)
    place = call.axis(call.integer(dimension, "the dimension"), len(values[0].dims), "the dimension")
    return ops.Sort(call.builder, values, comparator, place, call["is_stable"])


@lowering("SymbolicGradient")
def _gradient(call: OpCall, values: list[GraphValue]) -> list[GraphValue]:
    called = call["f"]
    name = call.graph.library.gradients.get(called.name)
    if name is None:
        raise UnsupportedError(f"the library has no gradient for the function '{called.name}'")
    graph = call.graph.library.function(Callee(name, called.attributes), "its gradient")
    return call.scope.call(graph, values)


@lowering("XlaCallModule")
def _call_module(call: OpCall, values: list[XlaOp]) -> XlaOp:
    """Calls a StableHLO program, specialized to the shapes of its arguments. A program for several platforms
    takes the number of its platform as first argument.
    """
    if call["function_list"] or call["has_token_input_output"]:
        raise UnsupportedError("programs of StableHLO that call functions of the graph, or use tokens")
    source = stablehlo(contents(call["module"].encode("utf-8", "surrogateescape")))
    if source is None:
        call.fail("attribute 'module' is not a program of StableHLO")
    platforms = [name.upper() for name in call["platforms"]]
    if platforms and "CPU" not in platforms:
        raise UnsupportedError(f"the program of StableHLO is for {', '.join(platforms)}, wanted CPU")
    known = [platforms.index("CPU")] if len(platforms) > 1 else None
    shapes = [value.shape for value in values]
    module = import_source(source, entry_of(source), arg_types=shapes, dim_args=known)
    return ops.Call(call.builder, XlaComputation(module), values)
