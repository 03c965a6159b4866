"""Objects of `axla compile`: they need nothing from outside, and run where they were compiled for."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import c_driver
import pytest

import axla
from axla.aot.machines import machine
from axla.aot.objects import compile_object
from axla.codegen.object_files import symbols
from axla.comparison import compare, random_inputs, run_flat
from axla.ir.verify import verify

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import fuzz_text_cases  # noqa: E402
from conformance_lib import objects  # noqa: E402
from conformance_lib.corpora import NotAtHand, corpus  # noqa: E402
from conformance_lib.section import OK  # noqa: E402

TARGETS = ("x86-64-v3", "x86-64", "aarch64")

# Ops whose usual lowering is a library call, at sizes with and without a rest.
MATHS = """
HloModule maths
add_ { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY maths {
  x = f32[33,17] parameter(0)
  w = f32[17,40] parameter(1)
  n = s64[19] parameter(2)
  h = f16[21] parameter(3)
  y = f32[33,40] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[33,40] exponential(y)
  t = f32[33,40] tanh(e)
  p = f32[33,40] power(t, y)
  r = f32[33,40] remainder(e, y)
  f = f32[33,40] floor(r)
  q = f32[33,40] round-nearest-even(p)
  s = f32[33,40] add(f, q)
  zero = f32[] constant(0)
  sums = f32[33] reduce(s, zero), dimensions={1}, to_apply=add_
  seven = s64[] constant(7)
  sevens = s64[19] broadcast(seven), dimensions={}
  d = s64[19] divide(n, sevens)
  b = bf16[21] convert(h)
  ROOT out = (f32[33,40], f32[33], s64[19], bf16[21]) tuple(s, sums, d, b)
}
"""

# Control flow, constants outside the code, a result in the place of a parameter.
LOOP = f"""
HloModule loop, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
body {{
  t = (s32[], f32[400]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  v = f32[400] get-tuple-element(t), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  table = f32[400] constant({{{", ".join(str(k / 8) for k in range(400))}}})
  w = f32[400] add(v, table)
  ROOT r = (s32[], f32[400]) tuple(next, w)
}}
condition {{
  t = (s32[], f32[400]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}}
ENTRY loop {{
  v = f32[400] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[400]) tuple(zero, v)
  w = (s32[], f32[400]) while(t), condition=condition, body=body
  s = f32[400] get-tuple-element(w), index=1
  ROOT out = (f32[400]) tuple(s)
}}
"""
PROGRAMS = {"maths": MATHS, "loop": LOOP}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_objects_need_no_symbols(name, target):
    code = compile_object(axla.parse(PROGRAMS[name]), machine(target))
    assert symbols(code.image).needed == set()


def test_texts_of_the_repository_are_programs():
    """Those of which the sample is, whichever these are: none that is there to be refused."""
    for case in fuzz_text_cases.repository_texts():
        verify(axla.parse(case.text.decode()))


def sample() -> list[tuple[str, str]]:
    try:
        section = objects.Objects()
    except NotAtHand:
        return [(case.name, case.text.decode()) for case in fuzz_text_cases.repository_texts()[::12]]
    return [(name, section.paths[name].read_text()) for name in section.cases()[::90]]


@pytest.mark.parametrize("name, text", sample(), ids=lambda value: value if len(value) < 60 else "")
def test_objects_of_a_sample_stand_alone(name, text):
    for target in TARGETS:
        try:
            kind, detail = objects.object_outcome(axla.parse(text), target)
        except axla.UnsupportedError as error:
            pytest.skip(error.message)
        assert kind == OK, f"{target}: {detail}"


def test_a_call_of_the_library_would_be_seen():
    """The check itself: an object that calls expf."""
    from axla.codegen import llvm
    from axla.target.machine import cpu_target

    text = (
        "declare float @expf(float)\n"
        "define float @f(float %x) {\n  %y = call float @expf(float %x)\n  ret float %y\n}\n"
    )
    assert symbols(llvm.emit_object(text, cpu_target("x86-64"))).needed == {"expf"}


def agree(folder: Path, text: str, target: str, compiler: list[str], runner: list[str]) -> None:
    """The program called from C gives what the interpreter gives."""
    module = axla.parse(text)
    inputs = random_inputs(module, seed=3)
    found = c_driver.run(folder, compile_object(axla.parse(text), machine(target)), inputs, compiler, runner)
    wanted = run_flat(module, inputs, "interpreter")
    compare(module, found, wanted, target, "interpreter").raise_if_different()


@pytest.mark.cc
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler on the PATH")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs a machine that runs x86-64")
@pytest.mark.parametrize("target", ["x86-64", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_c_program_calls_the_object(tmp_path, name, target):
    agree(tmp_path, PROGRAMS[name], target, ["cc"], [])


CROSS, QEMU = (
    shutil.which("aarch64-linux-gnu-gcc"),
    shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static"),
)
MODELS = corpus("models-open")


@pytest.mark.cc
@pytest.mark.skipif(
    CROSS is None or QEMU is None, reason="needs aarch64-linux-gnu-gcc and qemu-aarch64 (qemu-user)"
)
@pytest.mark.parametrize("name", [*PROGRAMS, "mlp_adam_train"])
def test_an_aarch64_object_runs(tmp_path, name):
    if name in PROGRAMS:
        text = PROGRAMS[name]
    elif MODELS is None:
        pytest.skip("the corpus models-open is not at hand")
    else:
        text = (MODELS / name / "module.hlo.txt").read_text()
    agree(tmp_path, text, "aarch64", [str(CROSS)], [str(QEMU)])
