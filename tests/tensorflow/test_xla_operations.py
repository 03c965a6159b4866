"""Operations of XLA in graphs, and programs of StableHLO."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.dtypes import F32
from axla.core.errors import UnsupportedError, VerifyError
from axla.core.shape import Shape
from axla.proto import encode
from axla.tensorflow.graph import Output, graph_of
from axla.tensorflow.importer import import_graph
from tensorflow_nodes import Known, module_of, run_node

f32 = np.float32


def text(name: str, **fields: object) -> str:
    """A message as an attribute has it."""
    return encode(fields, name).decode()


def test_products_with_dimension_numbers():
    numbers = text("DotDimensionNumbers", lhs_contracting_dimensions=[0], rhs_contracting_dimensions=[1])
    a, b = np.arange(6, dtype=f32).reshape(3, 2), np.arange(12, dtype=f32).reshape(4, 3)
    (found,) = run_node("XlaDot", a, b, dimension_numbers=numbers, precision_config="")
    np.testing.assert_array_equal(found, a.T @ b.T)


def test_windows_are_clamped():
    value, starts = np.arange(5, dtype=f32), np.array([4], np.int32)
    (found,) = run_node("XlaDynamicSlice", value, starts, Known(np.array([3], np.int32)))
    np.testing.assert_array_equal(found, [2, 3, 4])
    with pytest.raises(VerifyError, match="start_indices has shape .2., wanted .1."):
        module_of("XlaDynamicSlice", value, np.zeros(2, np.int32), Known(np.array([3], np.int32)))


def test_padding_around_and_between():
    edges = [Known(np.array([number], np.int32)) for number in (1, -1, 2)]
    (found,) = run_node("XlaPad", np.array([1, 2, 3], f32), np.array(9, f32), *edges)
    np.testing.assert_array_equal(found, [9, 1, 9, 9, 2, 9, 9])


@pytest.mark.parametrize("transposed", [False, True])
def test_packed_steps_of_a_range(transposed):
    words = np.array([[0x01020304, 0x000000FF]], np.uint32)
    (found,) = run_node(
        "XlaDequantize", words, min_range=0.0, max_range=255.0, mode="MIN_COMBINED",
        transpose_output=transposed,
    )  # fmt: skip
    np.testing.assert_array_equal(found.T if transposed else found, [[1, 2, 3, 4, 0, 0, 0, 255]])


PROGRAM = """module {
  func.func public @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
    %sum = stablehlo.add %a, %b : tensor<?xf32>
    return %sum, %a : tensor<?xf32>, tensor<?xf32>
  }
}"""


def call_of(**more: object) -> dict[str, object]:
    """A graph that calls the program."""
    types = {"list": {"type": ["DT_FLOAT", "DT_FLOAT"]}}
    attributes = {
        "Tin": types, "Tout": types, "module": {"s": PROGRAM.encode()}, "version": {"i": 9},
        "Sout": {"list": {"shape": [{"unknown_rank": True}] * 2}}, **more,
    }  # fmt: skip
    attr = [{"key": key, "value": value} for key, value in attributes.items()]
    feed = [{"key": "dtype", "value": {"type": "DT_FLOAT"}}]
    nodes = [{"name": name, "op": "Placeholder", "attr": feed} for name in ("a", "b")]
    return {"node": [*nodes, {"name": "it", "op": "XlaCallModule", "input": ["a", "b"], "attr": attr}]}


def test_programs_of_stablehlo_are_called_for_the_shapes_of_their_arguments():
    given = [np.array([1, 2], f32), np.array([3, 4], f32)]
    feeds = [(Output(name, 0), Shape(F32, (2,))) for name in "ab"]
    fetches = [Output("it", 0), Output("it", 1)]
    module = import_graph(graph_of(call_of()), feeds, fetches).module
    found = axla.compile(module).execute(given)
    np.testing.assert_array_equal(np.asarray(found[0]), [4, 6])
    np.testing.assert_array_equal(np.asarray(found[1]), [1, 2])
    for more, reason in (
        ({"platforms": {"list": {"s": [b"TPU"]}}}, "for TPU, wanted CPU"),
        ({"has_token_input_output": {"b": True}}, "or use tokens"),
    ):
        with pytest.raises(UnsupportedError, match=reason):
            import_graph(graph_of(call_of(**more)), feeds, fetches)
    with pytest.raises(VerifyError, match="is not a program of StableHLO"):
        import_graph(graph_of(call_of(module={"s": b"HloModule m"})), feeds, fetches)


def test_parts_of_arrays_on_several_devices_are_refused():
    tiles = text("OpSharding", type="OTHER", tile_assignment_dimensions=[2], tile_assignment_devices=[0, 1])
    with pytest.raises(UnsupportedError, match="has .2. tiles, but programs run on one device"):
        module_of("XlaSpmdFullToShardShape", np.ones(4, f32), manual_sharding=tiles)
    whole = text("OpSharding", type="MANUAL")
    (found,) = run_node("XlaSpmdFullToShardShape", np.ones(4, f32), manual_sharding=whole)
    np.testing.assert_array_equal(found, np.ones(4))
