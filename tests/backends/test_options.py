"""CompileOptions: values, flags, and XLA's proto, against what jaxlib itself writes and reads."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest

import axla
from axla import CompileOptions
from axla.core.dtypes import F32
from axla.core.shape import Shape
from axla.proto import decode, encode

FULL = CompileOptions(
    donate=(1, 2), num_replicas=2, num_partitions=3, device_assignment=((0, 1, 2), (3, 4, 5)),
    target_cpu="x86-64", target_features=("+avx",), arg_types=(None, "tensor<2xf32>", Shape(F32, (2, 3))),
    dim_args=(3,),
    flags={"xla_cpu_enable_fast_math": True, "axla_fuel": 3, "disable_hlo_passes": ["a", "b"]},  # type: ignore[arg-type]
)  # fmt: skip


def test_equal_options_are_equal():
    other = CompileOptions([1, 2], 2, 3, np.arange(6).reshape(2, 3))  # type: ignore[arg-type]
    assert other == CompileOptions((1, 2), 2, 3, ((0, 1, 2), (3, 4, 5))) and hash(other)
    x = np.zeros((2, 3), np.float32)
    assert CompileOptions(arg_types=[x]) == CompileOptions(arg_types=[Shape(F32, (2, 3))])  # type: ignore[arg-type]
    assert CompileOptions(target_features=(), dim_args=()) == CompileOptions()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"donate": 3}, "donate: wanted a sequence of integers, found 3"),
        ({"donate": ["x"]}, "donate: wanted a sequence of integers"),
        ({"dim_args": 3}, "dim_args: .* found 3"),
        ({"arg_types": 3}, "arg_types: .* found 3"),
        ({"target_cpu": 3}, "target_cpu=3"),
        ({"num_replicas": 0}, "num_replicas=0, wanted a number of at least 1"),
        ({"num_partitions": True}, "num_partitions=True"),
        ({"replicas": "all"}, "replicas='all'"),
        ({"replicas": "first", "num_replicas": 1}, "wanted 'first', without num_replicas"),
        ({"device_assignment": [0]}, "wanted a device for each partition"),
        ({"device_assignment": [[0.5]]}, "wanted a device for each partition"),
        ({"device_assignment": [[1], [1]]}, "names a device twice"),
        ({"target_features": "avx2"}, "target_features: wanted a sequence of texts, found 'avx2'"),
        ({"arg_types": "tensor<f32>"}, "wanted a sequence of types"),
        ({"flags": {"xla_cpu_enable_fastmath": True}}, "no flag 'xla_cpu_enable_fastmath'"),
        ({"flags": {"xla_backend_optimization_level": 9}}, "wanted an integer from 0 to 3"),
        ({"flags": {"xla_cpu_enable_fast_math": 3}}, "wanted true or false"),
        ({"flags": {"axla_fuel": "many"}}, "wanted an integer"),
        ({"flags": {3: "many"}}, "no flag 3"),
        ({"flags": 3}, "flags=3"),
    ],
)
def test_wrong_values_are_named(options, message):
    with pytest.raises(axla.InvalidArgument, match=message):
        CompileOptions(**options)


def test_flags_as_text():
    text = FULL.to_flags()
    assert text == "--xla_disable_hlo_passes=a,b --xla_cpu_enable_fast_math=true --axla_fuel=3"
    assert CompileOptions.from_flags(text).flags == FULL.flags
    assert CompileOptions(flags=text).flags == FULL.flags  # type: ignore[arg-type]


def test_flags_hold_for_the_compilation():
    text = "ENTRY e { p = f32[] parameter(0)\n  z = f32[] constant(1)\n  ROOT r = f32[] multiply(p, z) }"
    for skipped in ("", "algsimp"):
        program = axla.compile(axla.parse(text), flags={"xla_disable_hlo_passes": skipped})
        assert ("multiply" in program.as_text()) == bool(skipped)
    assert axla.core.flags.current().disable_hlo_passes == ()


def test_the_proto_and_back():
    assert CompileOptions.from_proto(FULL.to_proto()) == FULL
    assert CompileOptions.from_proto(CompileOptions().to_proto()) == CompileOptions()
    first = CompileOptions(replicas="first")
    assert CompileOptions.from_proto(first.to_proto()) == first


def test_jaxlib_reads_what_is_written_and_the_other_way_round():
    client = pytest.importorskip("jaxlib.xla_client")
    theirs = client.CompileOptions.ParseFromString(FULL.to_proto())
    assert (theirs.num_replicas, theirs.num_partitions) == (2, 3)
    assert theirs.device_assignment.computation_count() == 3
    debug = theirs.executable_build_options.debug_options
    assert debug.xla_cpu_enable_fast_math and debug.xla_disable_hlo_passes == "a,b"
    assert CompileOptions.from_proto(theirs.SerializeAsString()) == FULL


def test_jaxlibs_own_options():
    client = pytest.importorskip("jaxlib.xla_client")
    theirs = client.CompileOptions()
    usual = CompileOptions.from_proto(theirs.SerializeAsString())
    assert replace(usual, flags=()) == CompileOptions((), 1, 1)
    assert usual.flags in ((), (("cpu_max_isa", "NEON"),)), "jaxlib sets it on 64-bit ARM"
    theirs.num_replicas = 2
    theirs.device_assignment = client.DeviceAssignment.create(np.array([[3, 1], [0, 2]]))
    theirs.num_partitions = 2
    theirs.env_option_overrides = [("xla_cpu_max_isa", "AVX2"), ("xla_backend_optimization_level", 1)]
    found = CompileOptions.from_proto(theirs.SerializeAsString())
    assert (found.num_replicas, found.num_partitions) == (2, 2)
    assert found.device_assignment == ((3, 1), (0, 2))
    assert dict(found.flags) == {"cpu_max_isa": "AVX2", "optimization_level": 1}
    text = "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }"
    program = axla.Client("cpu", 1).compile(axla.parse(text), client.CompileOptions())
    assert program.options == usual


@pytest.mark.parametrize(
    "message, error",
    [
        ({"parameter_is_tupled_arguments": True}, "parameter_is_tupled_arguments is set"),
        ({"executable_build_options": {"run_backend_only": True}}, "run_backend_only is set"),
        ({"executable_build_options": {"result_layout": {"element_type": "F32"}}}, "result_layout is set"),
        ({"executable_build_options": {"process_count": 2}}, "process_count"),
        ({"env_option_overrides": [{"key": "xla_x", "value": {"bool_field": True}}]}, "no flag 'xla_x'"),
        (
            {"env_option_overrides": [{"key": "axla_donate", "value": {"string_field": "x"}}]},
            "axla_donate='x'",
        ),
    ],
)
def test_what_would_change_results_is_refused_by_name(message, error):
    with pytest.raises(axla.AxlaError, match=error):
        CompileOptions.from_proto(encode(message, "CompileOptionsProto"))


@pytest.mark.parametrize(
    "name", ["donate", "dim_args", "arg_types", "target_features", "target_cpu", "replicas"]
)
@pytest.mark.parametrize("value", [{"string_field": "3"}, {"string_field": "{"}, {"int_field": 3}])
def test_overrides_of_other_types_are_named(name, value):
    message = {"env_option_overrides": [{"key": f"axla_{name}", "value": value}]}
    with pytest.raises(axla.InvalidArgument, match=name):
        CompileOptions.from_proto(encode(message, "CompileOptionsProto"))


def test_damaged_protos():
    data = FULL.to_proto()
    assert decode(data, "CompileOptionsProto")
    for cut in range(0, len(data) - 1, 3):
        with contextlib.suppress(axla.AxlaError):
            CompileOptions.from_proto(data[:cut] + b"\xff" + data[cut + 1 :])
