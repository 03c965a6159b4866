"""Targets, calls of LLVM and the reader of its objects."""

from __future__ import annotations

import dataclasses

import pytest

from axla.codegen import elf, host, llvm
from axla.codegen.function import LlvmFunction, LlvmModule
from axla.codegen.host import _x86_level, host_target, one_lane_target
from axla.codegen.object_files import symbols
from axla.codegen.value import allowed_intrinsics, forbidden_intrinsics
from axla.core import dtypes as D
from axla.core import flags
from axla.core.errors import AxlaError, CompileError
from axla.target.machine import AARCH64, X86_LEVELS, Target, cpu_target

TEXT = """
declare float @expf(float)
define <8 x float> @f(<8 x float> %x, float %y) {
  %a = extractelement <8 x float> %x, i32 0
  %b = call float @expf(float %a)
  %c = insertelement <8 x float> %x, float %b, i32 1
  ret <8 x float> %c
}
"""


def test_targets_are_values_of_the_protocol():
    for target in (host_target(), one_lane_target(), AARCH64, *X86_LEVELS.values()):
        assert isinstance(target, Target)
        assert target == dataclasses.replace(target)
        assert hash(target) == hash(dataclasses.replace(target))


def test_lanes_follow_the_widest_type():
    wide, narrow = cpu_target("x86-64-v4"), cpu_target("x86-64")
    assert [wide.lanes(kind) for kind in (D.F32, D.F64, D.C64, D.C128, D.S8, D.PRED, D.S64)] == [
        16,
        8,
        16,
        8,
        64,
        64,
        8,
    ]
    assert wide.lanes(D.BF16) == wide.lanes(D.F8E5M2) == wide.lanes(D.F32)  # computed as f32
    assert [narrow.lanes(kind) for kind in (D.F32, D.F64, D.S8)] == [4, 2, 16]
    assert {one_lane_target().lanes(kind) for kind in D.ALL} == {1}
    assert one_lane_target().index_type == "i32"


def test_a_host_gets_the_highest_level_it_has_all_of():
    v2 = dict.fromkeys(("sse4.2", "popcnt", "cx16"), True)
    v3 = v2 | dict.fromkeys(("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"), True)
    v4 = v3 | dict.fromkeys(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), True)
    assert [_x86_level(features) for features in ({}, v2, v3, v4)] == [
        "x86-64",
        "x86-64-v2",
        "x86-64-v3",
        "x86-64-v4",
    ]
    assert _x86_level(v4 | {"avx512bw": False}) == "x86-64-v3"
    assert _x86_level(v4 | {"fma": False}) == "x86-64-v2"


def test_undefined_symbols_are_found():
    assert symbols(llvm.emit_object(TEXT, cpu_target("x86-64"))).needed == {"expf"}
    assert symbols(llvm.emit_object(TEXT, cpu_target("aarch64"))).needed == {"expf"}
    small = cpu_target("x86-64", triple="i686-unknown-linux-gnu")
    small = dataclasses.replace(small, cpu="i686")
    assert "expf" in symbols(llvm.emit_object(TEXT, small)).needed
    with pytest.raises(ValueError, match="ELF"):
        elf.Elf(b"MZ not an object")


def test_the_same_text_gives_the_same_object():
    target = cpu_target("x86-64-v3")
    assert llvm.emit_object(TEXT, target) == llvm.emit_object(TEXT, target)
    assert "ymm0" in llvm.emit_assembly(TEXT, target)


def test_machines_are_kept():
    target = cpu_target("x86-64-v3")
    assert llvm.machine(target) is llvm.machine(dataclasses.replace(target))
    assert llvm.machine(target) is not llvm.machine(target, level=0)


def test_bad_text_and_bad_triples_are_our_errors():
    with pytest.raises(AxlaError, match="LLVM rejects"):
        llvm.emit_object("define void @f() { ret i32 0 }", cpu_target("x86-64"))
    with pytest.raises(CompileError, match="pdp11"):
        llvm.machine(cpu_target("x86-64", triple="pdp11-unknown-unknown"))


def test_intrinsics_that_may_become_calls_are_forbidden():
    plain, fused = cpu_target("x86-64"), cpu_target("x86-64-v3")
    assert forbidden_intrinsics(["llvm.fma.v4f32", "llvm.floor.f32", "llvm.fabs.f64"], plain) == [
        "floor.f32",
        "fma.v4f32",
    ]
    assert forbidden_intrinsics(["llvm.fma.v8f32", "llvm.floor.f32"], fused) == []
    assert forbidden_intrinsics(["llvm.exp.f32", "llvm.ldexp.f32.i32", "malloc"], fused) == [
        "exp.f32",
        "ldexp.f32.i32",
    ]
    assert not {"exp", "ldexp", "maxnum", "powi", "frem"} & allowed_intrinsics(cpu_target("x86-64-v4"))


def test_an_outlined_function_is_written_once():
    from axla.codegen.value import Values

    module = LlvmModule()
    for name in ("f", "g"):
        f = LlvmFunction(module, name, "void", [("ptr", "p")])
        values = Values(f, cpu_target("x86-64-v3"))
        x = values.load(D.F32, f.params["p"], 8)
        values.store(values.binary("power", x, x), f.params["p"])
        f.ret()
    assert sorted(module.functions) == ["axla.power.v8f32.v8f32", "f", "g"]
    assert not symbols(llvm.emit_object(module.text(), cpu_target("x86-64-v3"))).needed


@pytest.mark.parametrize("isa, level", [("SSE4_2", "x86-64-v2"), ("avx2", "x86-64-v3"), ("AVX", "x86-64-v2")])
def test_flag_cpu_max_isa(isa, level):
    if host_target().name not in X86_LEVELS:
        pytest.skip("levels are x86-64's")
    names = list(X86_LEVELS)
    with flags.override(cpu_max_isa=isa):
        found = host_target()
    assert names.index(found.name) == min(names.index(level), names.index(host_target().name))


@pytest.mark.parametrize("isa, without", [
    ("AVX512", {"avx512vnni", "avx512bf16", "amx-tile", "amx-fp16"}),
    ("AVX512_VNNI", {"avx512bf16", "amx-tile", "amx-fp16"}),
    ("AVX512_BF16", {"amx-tile", "amx-fp16"}),
    ("AMX", {"amx-fp16"}),
    ("AMX_FP16", set()),
])  # fmt: skip
def test_what_is_above_an_isa_is_what_xla_takes_for_it(isa, without, monkeypatch):
    every = {"avx512fp16", "avx512vnni", "avx512bf16", "amx-tile", "amx-fp16"}
    level = {name for names in host._LEVEL_FEATURES.values() for name in names}
    monkeypatch.setattr(host, "_description", lambda: ("sapphirerapids", dict.fromkeys(every | level, True)))
    monkeypatch.setattr(host.systems, "machine", lambda: "x86_64")
    found = host._host_target.__wrapped__(isa).features
    assert {name for name in every if f"+{name}" not in found} == without


@pytest.mark.parametrize(("cpu", "fast"), [("znver4", False), ("znver5", False), ("icelake-server", True)])
def test_machines_whose_gathers_are_slow_load_elements_one_by_one(monkeypatch, cpu, fast):
    features = dict.fromkeys([name for names in host._LEVEL_FEATURES.values() for name in names], True)
    monkeypatch.setattr(host, "_description", lambda: (cpu, features))
    monkeypatch.setattr(host.systems, "machine", lambda: "x86_64")
    assert host._host_target.__wrapped__("").has_fast_gather == fast
