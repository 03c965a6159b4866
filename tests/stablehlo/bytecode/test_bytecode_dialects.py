"""Bytecode with other dialects: CHLO and sdy as they are, within portable artifacts and in plain bytecode."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

pytest.importorskip("jaxlib")
from artifacts import generic, mixed, parsed, plain  # noqa: E402

from axla.stablehlo import bytecode, mlir, text  # noqa: E402
from axla.stablehlo.importer.program import functions_of
from mlir_sources import difference  # noqa: E402

CHLO = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<2x8x3xf32>, %g: tensor<2xi32>, %i: tensor<8xf32>) {
  "chlo.ragged_dot"(%a, %b, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1],
    rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>,
    precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGH>]}
    : (tensor<4x8xf32>, tensor<2x8x3xf32>, tensor<2xi32>) -> tensor<4x3xf32>
  %1:2 = chlo.top_k(%a, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
  %2 = stablehlo.abs %1#0 : tensor<4x2xf32>
  %3 = chlo.erf %2 : tensor<4x2xf32> -> tensor<4x2xf32>
  chlo.broadcast_compare %a, %a {comparison_direction = #chlo<comparison_direction LT>, compare_type =
    #chlo<comparison_type FLOAT>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  chlo.broadcast_add %a, %i {broadcast_dimensions = array<i64: 1>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  "chlo.constant_like"(%a) {value = 1.5 : f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
"""
SCAN = """
func.func @main(%a: tensor<4xf32>, %i: tensor<f32>) {
  "chlo.scan"(%a) ({ ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32> }) {dimension = 0 : i64, scan_dim_size = 4 : i64, is_associative = false,
    operandSegmentSizes = array<i32: 1, 0>, resultSegmentSizes = array<i32: 1, 0>} : (tensor<4xf32>) -> tensor<4xf32>
  "chlo.scan"(%a, %i) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %x, %y : tensor<f32>, tensor<f32> }) {dimension = 0 : i64, is_reverse = true,
    operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}
    : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return
}
"""
SDY = """module @m attributes {mhlo.num_partitions = 4 : i32, sdy.x = #sdy.mesh<["a"=2]>} {
sdy.mesh @mesh = <["x"=2, "y"=2]>
sdy.mesh @empty = <[]>
sdy.mesh @one = <[], device_ids=[3]>
sdy.mesh @p = <["x"=2, "y"=4], device_ids=[0,2,1,3,4,5,6,7]>
func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, mhlo.sharding =
    "{devices=[2,1]<=[2]}"}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {}]>}) {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {"y"}]> : tensor<8x16xf32>
  %1 = stablehlo.add %0, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x16xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
      manual_axes={"x"} (%arg1: tensor<4x16xf32>) {
    %3 = stablehlo.multiply %arg1, %arg1 : tensor<4x16xf32>
    sdy.return %3 : tensor<4x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %5 = sdy.reshard %2 <@mesh, [{}, {"y"}]> : tensor<8x16xf32>
  sdy.sharding_group %5 group_id=0 : tensor<8x16xf32>
  %6 = sdy.propagation_barrier %5 allowed_direction=FORWARD : tensor<8x16xf32>
  %7 = sdy.named_computation<"foo">(%6) (%arg1: tensor<8x16xf32>) {
    sdy.return %arg1 : tensor<8x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %8 = sdy.constant dense<1.0> : tensor<8x16xf32>
  %9 = stablehlo.custom_call @foo(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk])->([i, k]) {i=8, j=2, k=8}
    reduction={j} need_replication={i} permutation={k}, custom>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %10 = stablehlo.add %7, %7 {a.a = #sdy.sharding<@p, [{"x":(1)2, ?}, {?}p0], replicated={"y":(2)2},
    unreduced={"y":(1)2}>, b.b = #sdy.sharding<mesh<["x"=2]>, []>} : tensor<8x16xf32>
  return %10 : tensor<8x16xf32>
}
}
"""
TOKENS = """
module {
sdy.mesh @mesh = <["x"=2]>
func.func public @main(%t: !stablehlo.token, %a: tensor<8xf32>) -> !stablehlo.token {
  %0 = sdy.manual_computation(%t, %a) in_shardings=[<@mesh, []>, <@mesh, [{"x"}]>] out_shardings=[<@mesh, []>]
      manual_axes={"x"} (%u: !stablehlo.token, %b: tensor<4xf32>) {
    %1 = stablehlo.custom_call @foo(%u, %b) : (!stablehlo.token, tensor<4xf32>) -> !stablehlo.token
    sdy.return %1 : !stablehlo.token
  } : (!stablehlo.token, tensor<8xf32>) -> !stablehlo.token
  return %0 : !stablehlo.token
}
}
"""


@pytest.mark.parametrize("program", [CHLO, SCAN, SDY, TOKENS], ids=["chlo", "scan", "sdy", "tokens"])
def test_plain_and_within_an_artifact(program):
    module = parsed(program)
    written = text.parse(generic(module))
    assert difference(written, bytecode.read(plain(module)), locations=True) == ""
    for version in ("1.11.0", "1.17.0") if program != SCAN else ():  # jaxlib cannot write that one
        assert difference(written, bytecode.read(mixed(parsed(program), version)), locations=True) == ""


def test_resources_have_their_bytes():
    module = parsed("""module attributes {a.b = dense_resource<blob> : tensor<3xi8>} {}
{-# dialect_resources: { builtin: { blob: "0x04000000010203" } } #-}""")
    source = bytecode.read(plain(module))
    assert source.resources == {"blob": b"\1\2\3"}
    assert source.module.attributes["a.b"] == mlir.DenseResource(
        "blob", mlir.TensorType((3,), mlir.IntegerType(8))
    )


def test_what_jax_exports():
    jax = pytest.importorskip("jax")
    from jax import export

    def step(x, y):
        return jax.nn.softmax(x @ y), jax.lax.top_k(x, 2)

    made = export.export(jax.jit(step))(
        jax.ShapeDtypeStruct((4, 8), "float32"), jax.ShapeDtypeStruct((8, 3), "float32")
    )
    source = bytecode.read(made.mlir_module_serialized)
    names = functions_of(source)
    assert isinstance(names["main"].attributes["function_type"], mlir.FunctionType)
    first, second = (v.type for v in names["main"].regions[0].blocks[0].arguments)
    assert first == mlir.TensorType((4, 8), mlir.FloatType("f32"))
    assert second == mlir.TensorType((8, 3), mlir.FloatType("f32"))
    assert any(
        operation.name == "stablehlo.dot_general"
        for operation in names["main"].regions[0].blocks[0].operations
    )
