"""StableHLO's interpreter operations: several processes, probes, prints; meshes and manual computations."""

from __future__ import annotations

import csv
import logging

import numpy as np
import pytest

import axla
from axla.core.errors import CollectiveFailure, Mismatch, UnsupportedError, VerifyError
from axla.stablehlo.modules import import_source
from axla.stablehlo.text import parse


def run(text: str, *arguments, backend: str = "interpreter", entry: str = "") -> list[np.ndarray]:
    module = import_source(parse(text), entry)
    return [np.asarray(a) for a in axla.compile(module, backend=backend).execute(arguments)]


PAIR = """
func.func @sends(%x: tensor<2xf32>, %t: !stablehlo.token) -> !stablehlo.token {
  %s = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>,
    is_host_transfer = true} : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  return %s : !stablehlo.token
}
func.func @receives(%t: !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token) {
  %r:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>,
    is_host_transfer = true} : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  return %r#0, %r#1 : tensor<2xf32>, !stablehlo.token
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %t = stablehlo.after_all : !stablehlo.token
  %r:3 = "interpreter.run_parallel"(%t, %x, %t) {programs = [[@receives], [@sends]]}
    : (!stablehlo.token, tensor<2xf32>, !stablehlo.token)
    -> (tensor<2xf32>, !stablehlo.token, !stablehlo.token)
  return %r#0 : tensor<2xf32>
}"""


def test_programs_of_their_own():
    (found,) = run(PAIR, np.array([3, 4], np.float32))
    assert found.tolist() == [3, 4]


def test_a_receiver_without_a_sender():
    text = PAIR.replace("handle = 5, type = 2", "handle = 6, type = 2")
    with pytest.raises(CollectiveFailure, match="replica 0, partition 0 in .*recv-done"):
        run(text, np.zeros(2, np.float32))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[@receives], [@sends]]", "[[@receives], [@nowhere]]", "no function @nowhere"),
        ("[[@receives], [@sends]]", "[[@receives]]", "must be those of the programs"),
        ("[[@receives], [@sends]]", "[[@receives, @sends], [@sends]]", "rows of equal length"),
        ("[[@receives], [@sends]]", "[]", "rows of equal length"),
    ],
)
def test_calls_that_do_not_fit(old, new, said):
    with pytest.raises(VerifyError, match=said):
        run(PAIR.replace(old, new), np.zeros(2, np.float32))


def test_cpu_runs_processes():
    (found,) = run(PAIR, np.array([3, 4], np.float32), backend="cpu")
    assert found.tolist() == [3, 4]


def test_the_infeed_is_given_by_functions():
    text = """
    func.func @f(%t: !stablehlo.token) -> (tensor<f32>, tensor<f32>) {
      %a:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
      %b:2 = "stablehlo.infeed"(%a#1) : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
      return %a#0, %b#0 : tensor<f32>, tensor<f32>
    }
    func.func @one() -> tensor<f32> {
      %c = stablehlo.constant dense<1.0> : tensor<f32>
      return %c : tensor<f32>
    }
    func.func @two() -> tensor<f32> {
      %c = stablehlo.constant dense<2.0> : tensor<f32>
      return %c : tensor<f32>
    }
    func.func @main() -> (tensor<f32>, tensor<f32>) {
      %t = stablehlo.after_all : !stablehlo.token
      %r:2 = "interpreter.run_parallel"(%t) {infeed = [@one, @two], programs = [[@f]]}
        : (!stablehlo.token) -> (tensor<f32>, tensor<f32>)
      return %r#0, %r#1 : tensor<f32>, tensor<f32>
    }"""
    assert [float(a) for a in run(text)] == [1, 2]
    with pytest.raises(axla.AxlaError, match="no values left"):
        run(text.replace("[@one, @two]", "[@one]"))


PROBED = """
func.func @main(%n: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %p = interpreter.probe %j, probe_id = "step" : tensor<i32>
      stablehlo.return %p : tensor<i32>
    }
  interpreter.print %r : tensor<i32>
  return %r : tensor<i32>
}"""


@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_probes_are_recorded_where_somebody_asks(backend, tmp_path, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.INFO, "axla.trace"):
        assert run(PROBED, np.int32(3), backend=backend)[0] == 3
    assert list(tmp_path.iterdir()) == []
    assert "interpreter.print, line 14" in caplog.text
    with axla.record_probes() as probes:
        run(PROBED, np.int32(3), backend=backend)
    assert [int(v) for v in probes.values["step"]] == [1, 2, 3]
    with axla.record_probes(tmp_path / "seen"):
        run(PROBED, np.int32(2), backend=backend)
    assert np.load(tmp_path / "seen" / "step_2.npy") == 2
    with (tmp_path / "seen" / "index.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["step", "s32[]", "step_1.npy"], ["step", "s32[]", "step_2.npy"]]


def test_checks_of_probed_values():
    text = """func.func @f() {{
      %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
      %b = stablehlo.constant dense<[1, {}]> : tensor<2xi32>
      %p = interpreter.probe %a, probe_id = "a" : tensor<2xi32>
      check.expect_serialized_eq %b, probe_id = "{}", iter = {} : tensor<2xi32>
      return
    }}"""
    assert axla.check(text.format(2, "a", 0), backend="interpreter").ok
    with pytest.raises(Mismatch, match="found 3, wanted 2"):
        axla.check(text.format(3, "a", 0), backend="interpreter")
    for name, number in (("b", 0), ("a", 1)):
        with pytest.raises(Mismatch, match="was not reached"):
            axla.check(text.format(2, name, number), backend="interpreter")


GATHER = """
sdy.mesh @line = <["x"=2, "y"=4]>
func.func @main(%x: tensor<1xi32>) -> tensor<?xi32> {
  %r = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64,
    replica_groups = #stablehlo.replica_group_mesh_axes<mesh = MESH, axes = [AXES]>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>,
    use_global_device_ids} : (tensor<1xi32>) -> tensor<?xi32>
  return %r : tensor<?xi32>
}"""
MESH = """#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>,
  #stablehlo.mesh_axis<name = "y", size = 4>]>"""
X, Y = '#stablehlo.axis_ref<name = "x">', '#stablehlo.axis_ref<name = "y">'
FIRST, LAST = (f'#stablehlo.axis_ref<name = "y", sub_axis_info = ({n})2>' for n in (1, 2))


@pytest.mark.parametrize("mesh", ["@line", MESH])
@pytest.mark.parametrize(
    ("axes", "order", "count"),
    [
        ((X,), (1, 2, 0), 2),
        ((Y,), (0, 1, 2), 4),
        ((X, Y), (0, 1, 2), 8),
        ((Y, X), (1, 2, 0), 8),
        ((FIRST,), (0, 2, 1), 2),
        ((LAST, X), (1, 2, 0), 4),
        ((LAST, FIRST), (0, 2, 1), 4),
    ],
)
def test_groups_by_axes_of_a_mesh(mesh, axes, order, count):
    text = GATHER.replace("?", str(count)).replace("MESH", mesh).replace("AXES", ", ".join(axes))
    module = import_source(parse(text))
    (gather,) = [i for i in module.entry.instructions if i.opcode == "all-gather"]
    wanted = np.arange(8).reshape(2, 2, 2).transpose(order).reshape(-1, count)
    assert gather.op.replica_groups.groups == tuple(map(tuple, wanted.tolist()))
    program = axla.compile(module, backend="interpreter", num_replicas=2, num_partitions=4)
    found = program.execute_replicated([[np.array([n], np.int32)] for n in range(8)])
    for row in wanted.tolist():
        assert all(found[n][0].tolist() == row for n in row)


@pytest.mark.parametrize(
    ("mesh", "axes", "said"),
    [
        ("@nowhere", X, "no mesh @nowhere"),
        (MESH, '#stablehlo.axis_ref<name = "z">', "of the mesh axes x, y"),
        (MESH, f"{Y}, {FIRST}", "axes must be different"),
        (MESH, '#stablehlo.axis_ref<name = "y", sub_axis_info = (3)2>', "divide y of size 4"),
    ],
)
def test_axes_that_are_none(mesh, axes, said):
    with pytest.raises(VerifyError, match=said):
        import_source(parse(GATHER.replace("?", "2").replace("MESH", mesh).replace("AXES", axes)))


MANUAL = """
sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>]
    manual_axes={"a"} (%y: tensor<8xf32>) {
    %1 = stablehlo.add %y, %x : tensor<8xf32>
    sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""


def test_manual_computations_of_whole_arrays():
    (found,) = run(MANUAL, np.arange(8, dtype=np.float32), backend="cpu")
    assert found.tolist() == list(range(0, 16, 2))
    with pytest.raises(UnsupportedError, match="converts between a whole array and its parts"):
        cut = MANUAL.replace("%y: tensor<8xf32>", "%y: tensor<4xf32>").replace(
            "%1 : tensor<8", "%1 : tensor<4"
        )
        run(cut.replace("add %y, %x : tensor<8xf32>", "add %y, %y : tensor<4xf32>"))
