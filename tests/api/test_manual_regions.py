"""Programs with manual regions, run on whole arrays."""

import numpy as np
import pytest

import axla

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
