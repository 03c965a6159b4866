"""Shardings of arguments and results of partitioned programs, in Shardy's form and in the older one."""

import pytest

import axla
from axla.ir.sharding import tiling
from axla.passes.expand.propagation import Propagation
from axla.passes.expand.shardings import meshes_of

HEAD = "module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {"
SHARDY = (
    HEAD
    + """
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  sdy.mesh @turned = <["x"=4], device_ids=[3, 1, 2, 0]>
  func.func public @main(
      %a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p1, {}]>},
      %b: tensor<8x4xf32>, %c: tensor<7x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %d: tensor<8xf32> {sdy.sharding = #sdy.sharding<@turned, [{"x":(2)2}]>}
  ) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x", "y"}]>},
      tensor<8x4xf32>, tensor<7x4xf32>, tensor<8xf32>) {
    %0 = call @f(%b) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %a, %0, %c, %d : tensor<8x4xf32>, tensor<8x4xf32>, tensor<7x4xf32>, tensor<8xf32>
  }
  func.func private @f(%b: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{"x", ?}, {?}]>]
        out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%p: tensor<4x4xf32>) {
      sdy.return %p : tensor<4x4xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}"""
)
GSPMD = (
    HEAD
    + """
  func.func public @main(
      %a: tensor<8x4xf32> {mhlo.sharding = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
      %b: tensor<8x4xf32>,
      %c: tensor<7x4xf32> {mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
      %d: tensor<8xf32> {mhlo.sharding = "{devices=[2,2]3,2,1,0 last_tile_dim_replicate}"}
  ) -> (tensor<8x4xf32> {mhlo.sharding = "{devices=[1,4]<=[4]}"},
      tensor<8x4xf32>, tensor<7x4xf32>, tensor<8xf32>) {
    %0 = call @f(%b) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %a, %0, %c, %d : tensor<8x4xf32>, tensor<8x4xf32>, tensor<7x4xf32>, tensor<8xf32>
  }
  func.func private @f(%b: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %0 = stablehlo.custom_call @Sharding(%b) {
      mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {
      mhlo.sharding = "{devices=[1,1,2,2]<=[4] last_tile_dims={manual, replicated}}"
    } : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.custom_call @SPMDShardToFullShape(%1) {
      mhlo.sharding = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"} : (tensor<4x4xf32>) -> tensor<8x4xf32>
    return %2 : tensor<8x4xf32>
  }
}"""
)


@pytest.mark.parametrize("text", [SHARDY, GSPMD], ids=["shardy", "gspmd"])
def test_how_arguments_and_results_are_cut(text):
    """As is said; as regions want them and give them; whole where parts would be of different sizes."""
    found = Propagation(axla.parse(text))
    given = [tiling(s, r, 4) for s, r in zip(found.arguments, (2, 2, 2, 1), strict=True)]
    assert [cut.counts for cut in given] == [(2, 1), (2, 1), (1, 1), (2,)]
    assert [[place[0] for place in cut.places] for cut in given] == [
        [0, 1, 0, 1], [0, 0, 1, 1], [0] * 4, [1, 1, 0, 0],
    ]  # fmt: skip
    assert tiling(found.results[0], 2, 4).counts == (1, 4)
    assert found.results[1:] == found.arguments[1:]
    assert found.has_regions


def test_programs_without_regions_and_meshes_by_name():
    module = axla.parse(SHARDY)
    assert meshes_of(module) == {"mesh": "['x'=2, 'y'=2]", "turned": "['x'=4], device_ids=(3,1,2,0)"}
    plain = SHARDY.replace("call @f(%b) : (tensor<8x4xf32>) ->", "stablehlo.negate %b :")
    assert not Propagation(axla.parse(plain)).has_regions


@pytest.mark.parametrize(
    ("call", "regions"),
    [
        ('{has_side_effect = true, mhlo.sharding = "{manual}"}', True),
        ("{has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@none, []>]>}", True),
        ("{has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@first, []>]>}", False),
        ("{has_side_effect = true}", False),
    ],
)
def test_callbacks_say_whether_each_partition_runs_them(call, regions):
    text = f"""{HEAD}
      sdy.mesh @none = <[]>
      sdy.mesh @first = <[], device_ids=[0]>
      func.func public @main(%a: tensor<f32>) -> tensor<f32> {{
        stablehlo.custom_call @callback(%a) {call} : (tensor<f32>) -> ()
        return %a : tensor<f32>
      }} }}"""
    assert Propagation(axla.parse(text)).has_regions == regions
