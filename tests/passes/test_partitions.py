"""Programs of whole arrays as one partition computes them."""

import re

import numpy as np
import pytest
from test_propagation import _X, _Y, BINARY, DOT, PLAIN, X_, YX, program, unary

import axla
from axla.hlo import AllGather, AllReduce
from axla.passes.expand.partition import partitioned
from axla.passes.expand.propagation import Propagation

ONE = np.arange(64, dtype=np.float32).reshape(8, 8)
XY, Y_ = '8x8xf32 [{"x"}, {"y"}]', '8x8xf32 [{"y"}, {}]'


def partition(text: str):
    return partitioned(Propagation(axla.parse(text)))


def check(text: str, *arguments: np.ndarray, backend: str = "interpreter") -> None:
    """All partitions together give what one device gives."""
    module = axla.parse(text)
    assert partition(text) is not None
    wanted = axla.compile(module, backend="interpreter", num_partitions=1).execute(arguments)
    found = axla.compile(module, backend=backend).execute(arguments)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5)


def communication(module) -> list[str]:
    every = [inst.op for c in module.computations for inst in c.instructions]
    return sorted(type(op).__name__ for op in every if isinstance(op, AllGather | AllReduce))


def test_the_text_has_the_shapes_of_parts():
    body = """%0 = stablehlo.iota dim = 0 : tensor<8x8xf32>
      %1 = stablehlo.multiply %a, %0 : tensor<8x8xf32>
      return %1"""
    text = program([XY], [PLAIN], body)
    module = axla.compile(axla.parse(text))
    assert set(re.findall(r"f32\[(\d+,\d+)\]", module.as_text())) == {"2,4"}
    assert communication(partition(text)) == []
    check(text, ONE, backend="cpu")


REDUCE = """%0 = stablehlo.constant dense<{init}> : tensor<f32>
  %1 = stablehlo.reduce(%a init: %0) applies stablehlo.{op} across dimensions = [0]
    : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  return %1"""
SUM, MAXIMUM = REDUCE.format(init="0.0", op="add"), REDUCE.format(init="0xFF800000", op="maximum")
PRODUCT, FROM_ONE = REDUCE.format(init="1.0", op="multiply"), REDUCE.format(init="1.0", op="add")


@pytest.mark.parametrize(
    ("arguments", "results", "body", "expected"),
    [
        ([X_], [X_], unary("stablehlo.negate %a", PLAIN), []),
        ([X_], [_X], unary("stablehlo.negate %a", PLAIN), ["AllGather"]),
        ([X_, X_], [X_], BINARY, []),
        ([X_, Y_], [X_], BINARY, ["AllGather"]),
        ([X_, _Y], [XY], DOT, []),
        ([_X, X_], [PLAIN], DOT, ["AllReduce"]),
        ([X_, X_], [X_], DOT, ["AllGather"]),
        ([XY, YX], [PLAIN], DOT, ["AllGather", "AllReduce"]),
        ([X_], ["8xf32"], SUM, ["AllReduce"]),
        ([X_], ["8xf32"], MAXIMUM, ["AllReduce"]),
        ([X_], ["8xf32"], PRODUCT, ["AllGather"]),
        ([X_], ["8xf32"], FROM_ONE, ["AllGather"]),
        ([_Y], ["8xf32"], SUM, []),
    ],
)
def test_parts_are_gathered_and_addends_summed_where_needed(arguments, results, body, expected):
    text = program(arguments, results, body)
    assert communication(partition(text)) == expected
    check(text, *[ONE, ONE.T + 1][: len(arguments)])


@pytest.mark.parametrize("argument", [X_, _X, YX, XY, '8x8xf32 [{"x", "y"}, {}]'])
@pytest.mark.parametrize(
    ("result", "op"),
    [
        ("8x8xf32", "stablehlo.transpose %a, dims = [1, 0]"),
        ("4x2x8xf32", "stablehlo.reshape %a"),
        ("2x32xf32", "stablehlo.reshape %a"),
        ("16x4xf32", "stablehlo.reshape %a"),
        ("8x3x8xf32", "stablehlo.broadcast_in_dim %a, dims = [0, 2]"),
        ("4x8xf32", "stablehlo.slice %a [2:6, 0:8]"),
        ("8x8xf32", "stablehlo.reverse %a, dims = [0]"),
    ],
)
def test_of_one_operand(argument, result, op):
    check(program([argument], [result], unary(op, result)), ONE)


def test_reshapes_are_cut_where_both_shapes_can_be():
    """12x8 in rows of 8 parts: those of 24x4 are others."""
    body = unary("stablehlo.reshape %a", "24x16xf32", "16x24xf32")
    for argument in ('16x24xf32 [{"x", "y"}, {}]', '16x24xf32 [{}, {"x", "y"}]'):
        for result in ('24x16xf32 [{"x", "y"}, {}]', "24x16xf32"):
            check(program([argument], [result], body), np.arange(384, dtype=np.float32).reshape(16, 24))


ROWS = '8x1xi32 [{"x"}, {}]'


@pytest.mark.parametrize("cuts", [(X_, PLAIN, PLAIN), (YX, ROWS, XY), (PLAIN, ROWS, X_)])
def test_rows_are_gathered_and_scattered(cuts):
    body = """%0 = "stablehlo.gather"(%a, %b) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 8>}> : (tensor<8x8xf32>, tensor<8x1xi32>) -> tensor<8x8xf32>
      %1 = "stablehlo.scatter"(%0, %b, %c) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 1>}> ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %9 = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %9 : tensor<f32>
        }) : (tensor<8x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %1"""
    rows = np.array([[3], [1], [1], [7], [0], [9], [2], [2]], np.int32)
    one, numbers, other = cuts
    arguments = [one, numbers.replace(PLAIN, "8x1xi32"), other]
    check(program(arguments, [PLAIN], body), ONE, rows, ONE.T, backend="cpu")


def test_results_may_be_sums_that_are_not_made():
    """Each partition along x has an addend of them."""
    sums = '8x8xf32 [{}, {}], unreduced={"x"}'
    body = DOT.replace("return %0", "return %0, %b, %c")
    text = program([_X, X_, "8x8xf32 [{}, {}]"], [sums] * 3, body)
    parts = [slice(p // 2 * 2, p // 2 * 2 + 2) for p in range(8)]
    module = axla.parse(text)
    assert communication(partition(text)) == []
    rows = axla.compile(module).execute_replicated([[ONE[:, n], ONE[n], ONE] for n in parts])
    for part, found in zip(parts, rows, strict=True):
        placed = np.zeros_like(ONE)
        placed[part] = ONE[part]
        wanted = [ONE[:, part] @ ONE[part], placed, ONE * (part.start == 0)]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(one), other)


def test_loops_and_branches_hand_on_parts():
    body = """%0 = stablehlo.constant dense<0> : tensor<i32>
      %1 = stablehlo.constant dense<3> : tensor<i32>
      %2:2 = stablehlo.while(%i = %0, %v = %a) : tensor<i32>, tensor<8x8xf32> cond {
        %9 = stablehlo.compare LT, %i, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %9 : tensor<i1>
      } do {
        %c = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %c : tensor<i32>
        %9 = stablehlo.transpose %v, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
        %10 = stablehlo.add %9, %v : tensor<8x8xf32>
        stablehlo.return %j, %10 : tensor<i32>, tensor<8x8xf32>
      }
      %3 = "stablehlo.case"(%0) ({
        %9 = stablehlo.negate %b : tensor<8x8xf32>
        stablehlo.return %9 : tensor<8x8xf32>
      }, {
        stablehlo.return %a : tensor<8x8xf32>
      }) : (tensor<i32>) -> tensor<8x8xf32>
      return %2#1, %3"""
    text = program([X_, _Y], [PLAIN, YX], body)
    check(text, ONE, ONE, backend="cpu")


def test_what_every_partition_would_compute_stays_whole():
    body = """%0 = stablehlo.reverse %a, dims = [0, 1] : tensor<512x512xf32>
      return %0"""
    cut = '512x512xf32 [{"x"}, {"y"}]'
    assert partition(program([cut], [cut], body)) is None
    assert (
        partition(program([cut], [cut], body.replace("reverse %a, dims = [0, 1]", "negate %a"))) is not None
    )
    assert partition(program(["8x8xf32 [{}, {}]"], [PLAIN], BINARY.replace("%b", "%a"))) is not None  # small


def test_what_is_not_there_stays_whole_and_leaves_nothing():
    body = """stablehlo.custom_call @unknown(%a) : (tensor<8x8xf32>) -> ()
      return %a"""
    found = Propagation(axla.parse(program([X_], [X_], body)))
    assert partitioned(found) is None
    assert list(found.module.computations) == [found.module.entry]
