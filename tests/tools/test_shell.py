"""Help on the command line: completion, hints, colours, doctor, help; the options of run and opt."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import axla
from axla.tools import doctor, opt
from axla.tools import main as command
from axla.tools.colours import painted, painted_diff
from axla.tools.completion import SCRIPTS, candidates
from axla.tools.stats import cost_analysis, memory_of, picture, svg

TEXT = """HloModule scaled
ENTRY main {
  x = f32[2,3] parameter(0)
  c = f32[] constant(2)
  b = f32[2,3] broadcast(c), dimensions={}
  m = f32[2,3] multiply(x, b)
  ROOT r = f32[2,3] sine(m)
}
"""
PASS = """
from axla.hlo.elementwise import Abs
from axla.passes.added import add_pass

def sines_to_absolutes(module):
    for computation in module.computations:
        for inst in list(computation.instructions):
            if inst.opcode == "sine":
                computation.set_op(inst, Abs())

add_pass(sines_to_absolutes, before="dce")
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scaled.hlo"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def loaded(tmp_path):
    """A file with a pass, which is taken away again."""
    from axla.passes import added

    path = tmp_path / "own.py"
    path.write_text(PASS)
    yield str(path)
    for one in list(added.ADDED):
        added.remove_pass(one.step.name)


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("redu", ["reduce"]), ("opt --sta", ["--stage"]), ("opt --stage as", ["asm"]),
        ("run --input-kinds=na", ["--input-kinds=nan"]), ("check f.hlo --backend one", ["one-lane"]),
        ("help bi", ["bisect"]), ("run f.hlo", []), ("nonsense x", []), ("completion fi", ["fish"]),
        ("opt --stage = as", ["asm"]), ("opt f.hlo --stage =", list(opt.STAGES) + list(opt.XLA_STAGES)),
    ],
)  # fmt: skip
def test_words_are_completed(line, wanted):
    assert candidates(line.split(" ")) == wanted


def test_all_verbs_come_first():
    assert candidates([""]) == list(command.VERBS)
    assert "--help" in candidates(["--"])


RULES = """
from axla.hlo.elementwise import Negate
from axla.passes.added import add_rules
from axla.passes.rewrite import rule

@rule(Negate, of=Negate, group="rules-of-a-test")
def twice(root, inner):
    "-(-x) => x"
    return inner.operands[0]

add_rules("rules-of-a-test", before="dce")
"""


def test_rules_of_users_are_a_pass(tmp_path, capsys):
    from axla.passes import added, rewrite

    program, rules = tmp_path / "f.hlo", tmp_path / "rules_of_a_test.py"
    program.write_text(
        "ENTRY e { x = f32[2] parameter(0)\n a = f32[2] negate(x)\n b = f32[2] negate(a)\n"
        " ROOT r = f32[2] sine(b) }"
    )
    rules.write_text(RULES)
    try:
        load = ["--load", str(rules)]
        assert command.main(["opt", str(program), *load, "--passes=rules-of-a-test,dce"]) == 0
        assert "negate" not in capsys.readouterr().out
        assert command.main(["opt", *load, "--list-passes"]) == 0
        listed = capsys.readouterr().out
        pipelines = [line for line in listed.splitlines() if line.startswith("cpu ")]
        assert "The rules of the group" in listed and "rules-of-a-test" in pipelines[0]
        assert command.main(["graph", str(program), *load, "-o", str(tmp_path / "p.html"), "--plain"]) == 0
    finally:
        added.remove_pass("rules-of-a-test")
        del rewrite.RULES["rules-of-a-test"]


def test_a_file_that_exits_is_an_error(file, tmp_path, capsys):
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    assert command.main(["opt", file, "--load", str(tmp_path / "exits.py")]) == 1
    assert "exits.py:2: SystemExit: 3" in capsys.readouterr().err


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_scripts_are_right_for_their_shells(shell, tmp_path, capsys):
    assert command.main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_a_line(tmp_path):
    (tmp_path / "axla").write_text(f'#!/bin/sh\nexec {sys.executable} -m axla "$@"\n')
    (tmp_path / "axla").chmod(0o755)
    line = "COMP_WORDS=(axla opt --sta); COMP_CWORD=2; _axla; echo ${COMPREPLY[@]}"
    script = f'PATH={tmp_path}:$PATH; eval "$(axla completion bash)"; {line}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout == "--stage\n", done.stderr


def test_help_is_that_of_the_verb(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["help", "bisect"])
    assert ended.value.code == 0 and "--slower-than" in capsys.readouterr().out
    assert command.main(["help"]) == 0
    assert "bisect" in capsys.readouterr().out
    assert command.main(["help", "bisekt"]) == 1
    assert "did you mean bisect?" in capsys.readouterr().err


def test_doctor_checks_the_backends(capsys, monkeypatch):
    monkeypatch.setattr(axla.backends, "names", lambda: ["cpu", "interpreter"])
    assert command.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"axla {axla.__version__}" in out and "axla.backends: cpu = " in out
    assert "cpu          ok: compiled and ran" in out
    monkeypatch.setattr(doctor, "checks", lambda: iter([("cpu", "WRONG", "it differs")]))
    assert command.main(["doctor"]) == 1


@pytest.mark.parametrize(
    "text, hint",
    [
        (TEXT.replace("dimensions={}", "dimension={}"), "no attribute 'dimension'; did you mean dimensions?"),
        (TEXT.replace("scaled", "scaled, replica_counts=2"), "'replica_counts'; did you mean replica_count?"),
        (TEXT.replace("sine", "sinee"), "did you mean sine?"),
    ],
)  # fmt: skip
def test_what_is_near_is_named(text, hint):
    with pytest.raises(axla.AxlaError) as caught:
        axla.parse(text)
    assert hint in str(caught.value)


def test_the_name_of_a_file_is_no_program(tmp_path, file):
    with pytest.raises(
        axla.ParseError, match=r"looks like the name of a file, which does not exist.*pathlib\.Path"
    ):
        axla.parse("model.mlir")
    with pytest.raises(axla.ParseError, match=r"looks like the name of a file; a str is read as a program"):
        axla.parse(file)


def test_colours_are_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert painted("x", "31", sys.stderr) == "x"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert painted("x", "31", sys.stderr) == "\x1b[1;31mx\x1b[0m"
    assert painted_diff("+a\n b", sys.stderr) == "\x1b[32m+a\x1b[0m\n b"
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted("x", "31", sys.stderr) == "x"


def test_run_takes_and_writes_archives(file, tmp_path, capsys):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in ({"x": x}, {"0": x}):
        np.savez(tmp_path / "in.npz", **given)
        out = tmp_path / "out.npz"
        assert command.main(["run", file, "--inputs", str(tmp_path / "in.npz"), "--output", str(out)]) == 0
        np.testing.assert_allclose(np.load(out)["0"], np.sin(2 * x), rtol=1e-5)
    np.savez(tmp_path / "in.npz", y=x)
    assert command.main(["run", file, "--inputs", str(tmp_path / "in.npz")]) == 1
    assert "'y' is not a parameter; there are x" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ("f8e5m2", "f8e4m3fn", "bf16", "s4", "c64"))
def test_archives_of_all_types_can_be_read_again(dtype, tmp_path):
    file, out = tmp_path / "m.hlo", str(tmp_path / "out.npz")
    file.write_text(
        f"HloModule m\n\nENTRY main {{\n x = {dtype}[3] parameter(0)\n ROOT r = {dtype}[3] negate(x)\n}}\n"
    )
    assert command.main(["run", str(file), "--output", out]) == 0
    with np.load(out) as found:
        given = {"x": found["0"]}
    np.savez(tmp_path / "in.npz", **given)
    assert command.main(["run", str(file), "--inputs", str(tmp_path / "in.npz"), "--output", out]) == 0
    with np.load(out) as found:
        assert found["0"].dtype == given["x"].dtype and found["0"].tobytes() != given["x"].tobytes()


def test_run_repeats_and_tries_kinds(file, capsys):
    given = ["run", file, "--repeat", "3", "--input-kinds", "nan,zeros", "--reference", "interpreter"]
    assert command.main(given) == 0
    out = capsys.readouterr().out
    assert out.count("3 runs: first ") == 2 and out.count("cpu agrees with interpreter") == 2
    assert "nan inputs: output 0" in out and "nan" in out


def test_run_is_on_as_many_devices_as_replicas(tmp_path, capsys):
    path = tmp_path / "several.hlo"
    path.write_text("""HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  r = u32[] replica-id()
  f = f32[] convert(r)
  b = f32[2] broadcast(f), dimensions={}
  ROOT s = f32[2] add(x, b)
}""")
    assert command.main(["run", str(path), "--num-replicas", "2", "--reference", "interpreter"]) == 0
    out = capsys.readouterr().out
    assert "device 0, output 0" in out and "device 1, m: cpu agrees with interpreter" in out


def test_run_names_the_first_instruction_that_differs(file, capsys, loaded):
    given = ["run", file, "--reference", "interpreter", "--compare-every-instruction", "--load", loaded]
    assert command.main(given) == 1
    assert "differ at %r = f32[2,3] sine(%m): " in capsys.readouterr().err


NESTED = """HloModule nested
wave { a = f32[2,3] parameter(0)
  h = f32[2,3] negate(a)
  ROOT w = f32[2,3] sine(h) }
same { b = f32[2,3] parameter(0)
  ROOT n = f32[2,3] negate(b) }
body { c = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  x = f32[2,3] get-tuple-element(c), index=1
  two = s32[] constant(2)
  one = s32[] constant(1)
  late = pred[] compare(i, two), direction=EQ
  y = f32[2,3] conditional(late, x, x), true_computation=wave, false_computation=same
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[2,3]) tuple(j, y) }
goes { d = (s32[], f32[2,3]) parameter(0)
  k = s32[] get-tuple-element(d), index=0
  four = s32[] constant(4)
  ROOT l = pred[] compare(k, four), direction=LT }
ENTRY main { p = f32[2,3] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[2,3]) tuple(zero, p)
  ROOT loop = (s32[], f32[2,3]) while(s), condition=goes, body=body }
"""


def test_run_looks_into_loops_and_branches(tmp_path, capsys, loaded):
    path = tmp_path / "nested.hlo"
    path.write_text(NESTED)
    given = ["run", str(path), "--reference", "interpreter", "--compare-every-instruction", "--load", loaded]
    assert command.main(given) == 1
    said = capsys.readouterr().err.splitlines()
    start = next(n for n, line in enumerate(said) if "while(%s)" in line)
    found = [line.strip().partition(" = ")[0] for line in said[start:]]
    assert found[1:] == ["in iteration 2: %y", "in wave: %w"]


def test_tolerances_are_those_given(file, capsys):
    given = ["run", file, "--reference", "interpreter"]
    assert command.main([*given, "--bitwise"]) in (0, 1)
    assert command.main([*given, "--rtol=1e-3", "--atol=1e-3"]) == 0
    assert command.main(["run", file, "--compare-every-instruction"]) == 1
    assert "wanted a --reference" in capsys.readouterr().err


def test_opt_loads_passes_and_shows_what_changed(file, capsys, loaded):
    assert command.main(["opt", file, "--load", loaded, "--passes=sines-to-absolutes", "--diff"]) == 0
    out = capsys.readouterr().out
    assert "-  ROOT %r = f32[2,3]{1,0} sine(%m)\n+  ROOT %r = f32[2,3]{1,0} abs(%m)" in out
    assert command.main(["opt", file, "--stage=hlo-backend", "--time"]) == 0
    printed = capsys.readouterr()
    assert "abs(" in printed.out and "runs" in printed.err and "sines-to-absolutes" in printed.err


def test_a_file_that_cannot_be_loaded_is_named(file, tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text("x = 1\nraise ValueError('no')\n")
    assert command.main(["opt", file, "--load", str(path)]) == 1
    assert f"--load {path}:2: ValueError: no" in capsys.readouterr().err
    assert command.main(["opt", file, "--load", str(tmp_path / "none.py")]) == 1
    assert "there is no such Python file" in capsys.readouterr().err


def test_stats_count_and_draw(file, tmp_path, capsys):
    out = tmp_path / "memory.svg"
    assert command.main(["stats", file, "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "scaled: 5 instructions in 1 computations" in printed and "transcendentals" in printed
    assert out.read_text().startswith("<svg ")
    assert command.main(["stats", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cost"] == {
        "flops": 6.0,
        "transcendentals": 6.0,
        "bytes accessed": found["cost"]["bytes accessed"],
    }
    assert found["memory"]["parameters"] == 24


def test_stats_of_what_is_refused(tmp_path, capsys):
    path = tmp_path / "foreign.hlo"
    path.write_text("""HloModule m
ENTRY e {
  x = f32[40] parameter(0)
  ROOT r = f32[40] custom-call(x), custom_call_target="who_knows"
}""")
    assert command.main(["stats", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "1 custom-call" in printed and "memory: unknown" in printed and "'who_knows'" in printed
    assert command.main(["stats", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["memory"] is None and "who_knows" in found["refused"]
    assert command.main(["stats", str(path), "-o", str(tmp_path / "memory.svg")]) == 1


def test_memory_fills_and_empties():
    text = """HloModule m
ENTRY e {
  x = f32[100,100] parameter(0)
  t = f32[100,100] transpose(x), dimensions={1,0}
  d = f32[100,100] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[100,100] sine(d)
  e = f32[100,100] dot(s, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[100,100] dot(e, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    module = axla.parse(text)
    memory = memory_of(module)
    assert memory.parameters == memory.results == 40000
    assert memory.workspace == max(size for _, size in memory.steps) >= 80000
    assert memory.steps[-1][1] <= memory.workspace
    assert "most at step" in picture(memory) and svg(memory, "m").count("<rect ") == len(memory.steps)
    assert cost_analysis(module)["flops"] == 3 * 2 * 100**3
