"""Whole programs from the cache: without passes and LLVM, with the same bits, only when nothing changed."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys

import numpy as np
import pytest

import axla
from axla.backends import prepare
from axla.backends.cpu import CpuBackend
from axla.core import cache, flags, trace
from axla.passes.driver import Observer, observed
from axla.target.machine import cpu_target

if platform.machine() != "x86_64":
    pytest.skip("the cache of programs knows the machine by /proc/cpuinfo", allow_module_level=True)

TEXT = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,32] parameter(0)
  w = f32[32,8] constant({WEIGHTS})
  y = f32[64,8] dot(x, w), lhs_contracting_dims={1},
      rhs_contracting_dims={0}, metadata={op_name="l" source_line=7}
  t = f32[64,8] tanh(y)
  zero = f32[] constant(0)
  s = f32[64] reduce(t, zero), dimensions={1}, to_apply=add
  n = f32[64,32] negate(x)
  ROOT r = (f32[64,8], f32[64], f32[64,32]) tuple(t, s, n)
}"""
X = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)


def text(seed: int = 1) -> str:
    weights = np.random.default_rng(seed).standard_normal((32, 8)).astype(np.float32)
    return TEXT.replace("{WEIGHTS}", str(weights.tolist()).replace("[", "{").replace("]", "}"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AXLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AXLA_VERIFY", "0")
    cache.clear()
    yield tmp_path
    cache.clear()


def compiled(source: str, **options) -> tuple[bool, axla.Executable]:
    """Whether passes ran, and the executable."""
    with trace.recording() as events:
        program = axla.compile(axla.parse(source), **options)
    names = {event["name"] for event in events}
    assert ("passes" in names) is ("llvm" in names) is not ("cached program" in names)
    return "passes" in names, program


def test_a_program_compiled_before_is_loaded():
    first, program = compiled(text())
    cache.clear()  # as in another process
    second, again = compiled(text())
    assert (first, second) == (True, False) and again.interface == program.interface
    for a, b in zip(program(X), again(X), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("change", [
    lambda t: t.replace("tanh(y)", "sine(y)"),
    lambda t: t.replace("x = f32", "other = f32").replace("(x", "(other"),  # a name of the interface
    lambda t: t.replace("source_line=7", "source_line=8"),  # messages show it
    lambda t: t.replace("HloModule m", "HloModule n"),
    lambda t: text(seed=2),
    lambda t: t.replace("constant(0)", "constant(-0)"),
])  # fmt: skip
def test_what_changes_the_result_changes_the_key(change):
    compiled(text())
    assert change(text()) != text()
    assert compiled(change(text()))[0] and not compiled(text())[0]


def test_constants_in_another_order_change_the_key():
    """The text that the key is made of has neither the order of the lines nor large constants."""
    values = [",".join(str(float(scale * n)) for n in range(12)) for scale in (1, 2)]
    found = []
    for first, second in (("a", "b"), ("b", "a")):
        lines = f"""{first} = f32[12] constant({{{values[0]}}})
          {second} = f32[12] constant({{{values[1]}}})"""
        source = f"HloModule m\nENTRY e {{ {lines}\n ROOT r = f32[12] subtract(a, b) }}"
        passes, program = compiled(source)
        assert passes
        found.append(np.asarray(program()))
    np.testing.assert_array_equal(found[0], -np.arange(12, dtype=np.float32))
    np.testing.assert_array_equal(found[1], np.arange(12, dtype=np.float32))


def test_what_an_observer_changes_is_not_kept():
    class Without(Observer):
        pipeline = "cpu"

        def wants(self, step, module, session):
            return step.name != "algsimp"

    with observed(Without()):
        assert compiled(text())[0]
        assert compiled(text())[0]
    assert compiled(text())[0]


@pytest.mark.parametrize("options", [{"donate": (0,)}, {"target_cpu": "x86-64"}, {"backend": "one-lane"}])
def test_options_are_part_of_the_key(options):
    compiled(text())
    assert compiled(text(), **options)[0] and not compiled(text(), **options)[0]


@pytest.mark.parametrize("change", [
    {"fast_math": True}, {"optimization_level": 0}, {"disable_hlo_passes": ("cse",)}, {"cpu_max_isa": "AVX2"},
])  # fmt: skip
def test_flags_are_part_of_the_key(change):
    compiled(text())
    with flags.override(**change):
        assert compiled(text())[0] and not compiled(text())[0]
    assert not compiled(text())[0]


def test_other_compilers_and_machines_are_other_keys(monkeypatch):
    compiled(text())
    for name in ("compiler", "machine"):
        with monkeypatch.context() as patched:
            patched.setattr(cache, name, lambda: "another")
            assert compiled(text())[0]
    assert not compiled(text())[0]


@pytest.mark.parametrize(
    "watch", [{"verify": True}, {"timings": True}, {"fuel": 3}, {"shuffle": 1}, {"dump_to": "D"}]
)
def test_who_watches_the_passes_sees_them(watch, tmp_path):
    compiled(text())
    with flags.override(**{k: str(tmp_path / v) if v == "D" else v for k, v in watch.items()}):
        assert compiled(text())[0]


def test_custom_calls_are_known_by_their_convention():
    """A function may change; how it is called may not. Its address is found at loading."""
    call = 'custom-call(x), custom_call_target="cached_twice"'
    source = f"ENTRY e {{ x = f32[4] parameter(0)  ROOT c = f32[4] {call} }}"
    axla.register_custom_call("cached_twice", lambda x: x * 2)
    try:
        assert np.asarray(compiled(source)[1](np.ones(4, np.float32)))[0] == 2
        axla.register_custom_call("cached_twice", lambda x: x * 3)
        passes, program = compiled(source)
        assert not passes and np.asarray(program(np.ones(4, np.float32)))[0] == 3
        axla.unregister_custom_call("cached_twice")
        with pytest.raises(axla.UnsupportedError, match="no such target is registered"):
            compiled(source)
    finally:
        cache.clear()


def test_shapes_are_inferred_before_passes_only(monkeypatch):
    """A text that was compiled was verified: no copy for the passes is made, nothing is inferred again."""
    compiled(text())
    for owner, name in ((prepare, "verify_meaning"), (CpuBackend, "work")):
        monkeypatch.setattr(owner, name, lambda *given: pytest.fail("this is for what is compiled"))
    assert not compiled(text())[0]


def _wrong_shape(module):
    [tanh] = [i for i in module.entry.instructions if i.opcode == "tanh"]
    tanh.operands[0].op = dataclasses.replace(tanh.operands[0].op, lhs_contracting_dims=(0,))


def _foreign_operand(module):
    other = axla.parse(text()).entry
    module.entry.root.operands = (*module.entry.root.operands[:2], other.root.operands[2])


def _no_attributes(module):
    [dot] = [i for i in module.entry.instructions if i.opcode == "dot"]
    dot.op = dataclasses.replace(dot.op, lhs_contracting_dims=None)


@pytest.mark.parametrize("damage", [_wrong_shape, _foreign_operand, _no_attributes])
def test_what_is_wrong_is_not_taken_for_what_was_compiled(damage):
    compiled(text())
    module = axla.parse(text())
    damage(module)
    with pytest.raises(axla.VerifyError):
        axla.compile(module)


def test_large_constants_are_not_kept(monkeypatch, folder):
    monkeypatch.setattr(cache, "LARGEST", 500)
    compiled(text())
    assert compiled(text())[0] and not list((folder / "programs").glob("*/*"))


def test_keys_do_not_depend_on_the_process(folder):
    """Sets and hashes of a process are not in them: three processes, of which the first compiles."""
    code = f"""
import sys, numpy as np, axla
from axla.core import trace
with trace.recording() as events:
    program = axla.compile(axla.parse({text()!r}))
compiler = {{"axla.passes.driver", "axla.cpu.compiler", "axla.codegen.kernel"}} & set(sys.modules)
found = np.asarray(program(np.ones((64, 32), np.float32))[1])
passes = "passes" in [e["name"] for e in events]
print(len(compiler), passes, "llvmlite" in sys.modules, found.tobytes().hex())
"""
    lines = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(3)
    ]
    first, *others = [line.split() for line in lines]
    assert first[:3] == ["3", "True", "True"]
    assert [line[:3] for line in others] == [["0", "False", "False"]] * 2
    assert len({line[3] for line in (first, *others)}) == 1


def test_hosts_are_asked_once():
    from axla.codegen import host, llvm

    host._description.cache_clear()
    first = host._description()
    assert first == (llvm.host_cpu(), llvm.host_features())
    host._description.cache_clear()
    cache.clear()
    assert host._description() == first


def test_machine_is_part_of_the_key_of_kernels():
    from axla.cpu.compiler import object_for

    made = [object_for("text", cpu_target(name), lambda text, target: target.cpu.encode()) for name in
            ("x86-64", "x86-64-v3", "x86-64")]  # fmt: skip
    assert made[0] == made[2] != made[1]
