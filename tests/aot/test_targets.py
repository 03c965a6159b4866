"""Targets by alias, what features imply, and what is refused on them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import axla
from axla.aot.objects import check_alone, compile_object
from axla.codegen import llvm
from axla.codegen.child import Child
from axla.codegen.object_files import symbols
from axla.core import dtypes as D
from axla.core.errors import CompileError, InvalidArgument, UnsupportedError
from axla.program import abi
from axla.target.machine import Target, with_features
from axla.target.names import TARGETS, target

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from test_objects import LOOP, MATHS  # noqa: E402

MATMUL = """
HloModule matmul
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[3,2] parameter(1)
  ROOT d = f32[2,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
# What small machines have no instruction for.
HARD = """
HloModule hard
ENTRY e {
  a = s64[5] parameter(0)
  b = u64[5] parameter(1)
  i = s32[5] parameter(2)
  x = f32[5] parameter(3)
  h = f16[5] parameter(4)
  c = bf16[5] parameter(5)
  d = s64[5] divide(a, a)
  r = u64[5] remainder(b, b)
  s = s64[5] shift-left(a, a)
  q = s32[5] divide(i, i)
  fa = f32[5] convert(a)
  fb = f32[5] convert(b)
  ia = s64[5] convert(x)
  ib = u64[5] convert(x)
  hh = f16[5] multiply(h, h)
  cc = bf16[5] add(c, c)
  m = f32[5] maximum(x, fa)
  p = f32[5] power(m, x)
  k = f32[5] sine(p)
  l = f32[5] remainder(x, k)
  g = f32[5] round-nearest-even(l)
  ROOT t = (s64[5], u64[5], s64[5], s32[5], f32[5], f32[5], s64[5], u64[5], f16[5], bf16[5], f32[5])
    tuple(d, r, s, q, fa, fb, ia, ib, hh, cc, g)
}
"""
DOUBLE = """
HloModule double
ENTRY e {
  x = f64[8] parameter(0)
  ROOT y = f64[8] multiply(x, x), metadata={source_file="m.py" source_line=3}
}
"""
NO_DOUBLE = [name for name, found in TARGETS.items() if not found.has_double]


@pytest.mark.parametrize("name", TARGETS)
def test_objects_of_every_target_stand_alone(name):
    found = target(name)
    assert isinstance(found, Target) and found.name == name
    for text in (MATMUL, HARD, LOOP, MATHS):
        code = compile_object(axla.parse(text), found)
        rows = symbols(code.image)
        assert (rows.defined, rows.needed) == ({"program_run", "program_run_frame"}, frozenset())


def test_formats():
    starts = {"elf": b"\x7fELF", "wasm": b"\0asm", "macho": b"\xcf\xfa\xed\xfe"}
    for name, found in TARGETS.items():
        image = compile_object(axla.parse(MATMUL), found).image
        form = found.form.format
        assert image[:2] in (b"\x64\x86", b"\x64\xaa") if form == "coff" else image.startswith(starts[form])
        if form == "elf":  # the class says the size of addresses
            assert image[4] == found.form.pointer_bytes // 4, name


@pytest.mark.parametrize("name", TARGETS)
def test_symbols_from_outside_are_seen(name):
    text = (
        "declare float @expf(float)\n"
        "define float @program_run(float %x) nounwind {\n"
        "  %y = call float @expf(float %x)\n  ret float %y\n}\n"
    )
    image = llvm.emit_object(text, target(name))
    assert symbols(image).needed == {"expf"}
    with pytest.raises(CompileError, match=f"{name}.*expf"):
        check_alone(image, target(name), {"program_run"}, set())


def test_no_object_is_no_object():
    with pytest.raises(ValueError, match="object file"):
        symbols(b"MZ something else")
    with pytest.raises(ValueError, match="damaged"):
        symbols(compile_object(axla.parse(MATMUL), target("x86-64")).image[:90])


def test_the_frame_of_32_bit_machines_is_what_llvm_makes_of_it():
    import llvmlite.binding as binding

    for name, found in TARGETS.items():
        pointer = found.form.pointer_bytes
        for struct in abi.STRUCTS:
            with llvm.LOCK:
                parts = [f.llvm if f.count == 1 else f"[{f.count} x {f.llvm}]" for f in struct.fields]
                text = f"@g = global {{ {', '.join(parts)} }} zeroinitializer"
                module = binding.parse_assembly(text, binding.create_context())
                data = llvm.machine(found).target_data
                kind = module.get_global_variable("g").global_value_type
                assert data.get_abi_size(kind) == struct.size_on(pointer), name
                for k, field in enumerate(struct.fields):
                    assert data.get_element_offset(kind, k) == struct.offset(field.name, pointer), name


def test_unknown_targets_are_refused_with_the_nearest():
    with pytest.raises(InvalidArgument, match=r"'cortex-m4'.*did you mean cortex-m4f"):
        target("cortex-m4")
    with pytest.raises(InvalidArgument, match="'fma'.*must be [+]"):
        target("x86-64", features=["fma"])


@pytest.mark.parametrize("name", NO_DOUBLE)
def test_f64_arithmetic_is_refused_by_name(name):
    with pytest.raises(UnsupportedError, match=rf"multiply.*{name}.*f64"):
        compile_object(axla.parse(DOUBLE), target(name))
    code = compile_object(axla.parse(DOUBLE), target(name), allow_libgcc=True)
    assert not symbols(code.image).needed
    moved = DOUBLE.replace("multiply(x, x)", "reverse(x), dimensions={0}")
    compile_object(axla.parse(moved), target(name))


@pytest.mark.parametrize("name", NO_DOUBLE)
def test_f64_arithmetic_that_is_folded_away_is_none(name):
    text = """ENTRY e { x = f32[4] parameter(0)  c = f64[] constant(-1e9)  h = f64[] constant(0.5)
      product = f64[] multiply(c, h)  k = f32[] convert(product)  b = f32[4] broadcast(k), dimensions={}
      ROOT y = f32[4] maximum(x, b) }"""
    assert not symbols(compile_object(axla.parse(text), target(name)).image).needed


def test_arrays_that_32_bits_cannot_address_are_refused():
    text = "HloModule m\nENTRY e { x = f32[1024,1024,1024] parameter(0)  ROOT y = f32[] slice_ }"
    text = text.replace("ROOT y = f32[] slice_", "ROOT y = f32[1,1,1] slice(x), slice={[0:1],[0:1],[0:1]}")
    with pytest.raises(UnsupportedError, match=r"4294967296 bytes.*wasm32"):
        compile_object(axla.parse(text), target("wasm32"))
    compile_object(axla.parse(text), target("aarch64"))


def test_functions_of_this_process_are_refused():
    text = """HloModule m
ENTRY e { x = f32[4,4] parameter(0)
  ROOT y = f32[4,4] custom-call(x), custom_call_target="some_function" }"""
    with pytest.raises(axla.AxlaError, match="some_function"):
        compile_object(axla.parse(text), target("aarch64"))


def test_features_change_what_follows_from_them():
    plain = target("x86-64")
    assert with_features(plain, ["+fma"]).has_fma and with_features(plain, ["+fma"]).has_rounding
    wide = with_features(plain, ["+avx2"])
    assert (wide.vector_bytes, wide.lanes(D.F32), wide.has_fma) == (32, 8, False)
    v4 = target("x86-64-v4")
    assert with_features(v4, ["+avx2"]) == replace(v4, features=v4.features | {"+avx2"})
    less = with_features(v4, ["-avx512vl"])
    assert (less.vector_bytes, less.has_masked, less.has_fast_gather, less.math.avx512) == (
        32,
        False,
        False,
        False,
    )
    assert less.has_fma
    assert not with_features(target("x86-64-v3"), ["-avx"]).has_fma
    assert with_features(plain, ["+fma", "-fma"]).features == {"-fma"}
    assert not with_features(plain, ["+fma", "-fma"]).has_fma
    arm = target("armv7hf", features=["+vfp4d16", "+hwdiv-arm"])
    assert arm.has_fma and arm.has_division and not target("armv7hf").has_fma
    assert target("armv7hf", features=["+neon"]).lanes(D.F32) == 4
    assert target("riscv32imafc", features=["+d"]).has_double
    assert target("wasm32", features=["+simd128"]).lanes(D.F32) == 4


def test_lanes_of_small_machines():
    for name in ("cortex-m4f", "cortex-m7", "cortex-m33", "riscv32imafc", "wasm32", "armv7hf"):
        found = target(name)
        assert {found.lanes(dtype) for dtype in D.ALL} == {1}
        assert (found.index_type, found.form.pointer_bytes) == ("i32", 4)


def test_what_llvm_dies_of_is_an_error_and_the_next_module_compiles():
    child = Child()
    try:
        # LLVM has no way to select this, and ends its process.
        dying = "define bfloat @f(float %x) {\n  %y = fptrunc float %x to bfloat\n  ret bfloat %y\n}\n"
        with pytest.raises(CompileError, match="target wasm32: LLVM failed: .*"):
            child.emit_object(dying, target("wasm32"))
        fine = "define float @f(float %x) {\n  ret float %x\n}\n"
        first = child.emit_object(fine, target("wasm32"))
        assert symbols(first).defined == {"f"}
        process = child._process
        assert child.emit_object(fine, target("wasm32")) == first
        assert child._process is process  # one child serves many modules
        with pytest.raises(CompileError, match=r"aarch64: .*LLVM rejects"):
            child.emit_object("define void @f() { ret i32 0 }", target("aarch64"))
        assert child._process is process
    finally:
        child.close()


@pytest.mark.skipif(sys.platform == "win32", reason="processes have other parents there")
def test_the_child_ends_with_a_parent_that_was_killed():
    code = """if True:
        import os, signal
        from axla.codegen.child import Child
        from axla.target.names import target
        child = Child()
        child.emit_object("define void @f() { ret void }", target("wasm32"))
        print(child._process.pid, flush=True)
        if not os.fork():  # holds the pipes open, as a worker of multiprocessing does
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert parent.stdout is not None
    compiler = int(parent.stdout.readline())
    try:
        assert parent.wait(60) == -signal.SIGKILL
        for _ in range(600):
            if not alive(compiler):
                break
            time.sleep(0.1)
        else:
            pytest.fail("the compiler goes on without its parent")
    finally:
        os.killpg(parent.pid, signal.SIGKILL)


def alive(process):
    """Whether a process runs; one that has ended and waits for whoever adopted it does not."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
