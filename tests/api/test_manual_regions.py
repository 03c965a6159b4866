"""Programs with manual regions, run on whole arrays."""

import numpy as np
import pytest

import axla
from axla.passes.expand.propagation import Propagation

HEAD = "module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {"
UNCUT = (
    HEAD
    + """
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>]
        manual_axes={"x"} (%b: tensor<4xf32>) {
      %1 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %2 = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %2 : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"""
)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_region_whose_arrays_are_whole_runs_on_all(backend):
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(axla.compile(axla.parse(UNCUT), backend=backend)(x)), 2 * x)


CALLS = (
    HEAD
    + """
  sdy.mesh @mesh = <["x"=2]>
  sdy.mesh @all = <[]>
  sdy.mesh @second = <[], device_ids=[1]>
  func.func public @main(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.custom_call @test.made_by(%a) {
      has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@second, []>]>
    } : (tensor<3xf32>) -> tensor<3xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>]
        manual_axes={"x"} (%b: tensor<3xf32>) {
      %2 = stablehlo.custom_call @test.made_by(%b) {
        has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@all, []>]>
      } : (tensor<3xf32>) -> tensor<3xf32>
      sdy.return %2 : tensor<3xf32>
    } : (tensor<3xf32>) -> tensor<3xf32>
    return %0, %1 : tensor<3xf32>, tensor<3xf32>
  }
}"""
)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_call_of_one_device_is_made_once_and_in_a_region_by_all(backend):
    made = []

    def made_by(x):
        made.append(x.tolist())
        return x + 1

    axla.register_custom_call("test.made_by", made_by)
    x = np.zeros(3, np.float32)
    rows = axla.compile(axla.parse(CALLS), backend=backend).execute_replicated([[x], [x]])
    assert [[np.asarray(a).tolist() for a in row] for row in rows] == [[[1] * 3, [2] * 3]] * 2
    assert made == [[0] * 3, [1] * 3, [1] * 3]


TOKENS = (
    HEAD
    + """
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%t: !stablehlo.token, %a: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
    %s = "builtin.unrealized_conversion_cast"(%t) : (!stablehlo.token) -> !stablehlo.token
    %0:2 = sdy.manual_computation(%s, %a) in_shardings=[<@mesh, []>, <@mesh, [{"x"}]>]
        out_shardings=[<@mesh, []>, <@mesh, [{"x"}]>] manual_axes={"x"}
        (%u: !stablehlo.token, %b: tensor<2xf32>) {
      %1 = stablehlo.add %b, %b : tensor<2xf32>
      %2 = stablehlo.after_all %u : !stablehlo.token
      sdy.return %2, %1 : !stablehlo.token, tensor<2xf32>
    } : (!stablehlo.token, tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>)
    sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"x"} () {
      %3 = stablehlo.partition_id : tensor<ui32>
      stablehlo.custom_call @test.sees(%3) {
        has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>]>
      } : (tensor<ui32>) -> ()
      sdy.return
    } : () -> ()
    return %0#0, %0#1 : !stablehlo.token, tensor<4xf32>
  }
}"""
)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_regions_take_tokens_or_nothing(backend):
    seen = []
    axla.register_custom_call("test.sees", lambda n: seen.append(int(n)) or ())
    module = axla.parse(TOKENS)
    found = Propagation(module)
    assert found.arguments == [None, found.results[1]]
    x = np.arange(4, dtype=np.float32)
    program = axla.compile(module, backend=backend)
    rows = program.execute_replicated([[x[:2]], [x[2:]]])
    assert [np.asarray(row[-1]).tolist() for row in rows] == [[0, 2], [4, 6]]
    assert sorted(seen) == [0, 1]
