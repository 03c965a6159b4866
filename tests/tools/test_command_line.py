"""The verbs of `axla`, called in this process; one test starts it for real."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.backends.native import NativeExecutable
from axla.core import flags
from axla.cpu.compiler import compile_text
from axla.runtime.safetensors import write_safetensors
from axla.tools import archives, opt
from axla.tools import main as command

TEXT = """HloModule scaled
ENTRY main {
  x = f32[2,3] parameter(0)
  c = f32[] constant(2)
  b = f32[2,3] broadcast(c), dimensions={}
  ROOT m = f32[2,3] multiply(x, b)
}
"""
UNUSED = TEXT.replace("  ROOT", "  dead = f32[2,3] add(x, x)\n  ROOT")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scaled.hlo"
    path.write_text(TEXT)
    return str(path)


def test_run_prints_results_of_given_inputs(file, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    assert command.main(["run", file, "--input", str(tmp_path / "x.npy")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("output 0: float32[2, 3]\n")
    assert "[ 6.,  8., 10.]" in out


def test_run_takes_inputs_smaller_than_their_bounds(tmp_path, capsys):
    path = tmp_path / "sized.hlo"
    path.write_text("HloModule m\nENTRY e { p = s32[<=4] parameter(0)\n ROOT r = s32[<=4] negate(p) }")
    for size, code in ((3, 0), (5, 1)):
        np.save(tmp_path / "x.npy", np.arange(size, dtype=np.int32))
        assert command.main(["run", str(path), "--input", str(tmp_path / "x.npy")]) == code
    printed = capsys.readouterr()
    assert printed.out.startswith("output 0: int32[3]\n")
    assert "found int32[5], parameter p wants s32[<=4]" in printed.err


@pytest.mark.parametrize("verb", [["run"], ["check"], ["opt"], ["compile"]])
def test_sizes_without_a_bound_are_named(verb, tmp_path, capsys):
    path = tmp_path / "open.hlo"
    path.write_text("HloModule m\nENTRY e { p = s32[?,4] parameter(0)\n ROOT r = s32[?,4] negate(p) }")
    out = ["-o", str(tmp_path / "out")] if verb == ["compile"] else []
    assert command.main([*verb, str(path), *out]) == 1
    assert "parameter p of e is s32[?,4]" in capsys.readouterr().err


def test_run_takes_types_that_numpy_stores_raw(tmp_path, capsys):
    path = tmp_path / "b.hlo"
    path.write_text(TEXT.replace("f32", "bf16"))
    np.save(tmp_path / "x.npy", np.full((2, 3), 1.5, ml_dtypes.bfloat16))
    assert (
        command.main(["run", str(path), "--input", str(tmp_path / "x.npy"), "--backend", "interpreter"]) == 0
    )
    assert "bfloat16[2, 3]\n[[3, 3, 3]" in capsys.readouterr().out


def test_run_compares_with_a_reference(file, capsys):
    assert command.main(["run", file, "--random", "7", "--reference", "interpreter"]) == 0
    assert "scaled: cpu agrees with interpreter" in capsys.readouterr().out


def test_run_with_equal_seeds_is_equal(file, capsys):
    outputs = []
    for seed in ("1", "1", "2"):
        assert command.main(["run", file, "--random", seed, "--backend", "interpreter"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_run_names_the_output_that_differs(file, capsys, monkeypatch):
    from axla.tools import run

    right = run.run_flat

    def wrong_on_cpu(module, inputs, backend, deadline=None, replicas=None, before_run=None):
        found = right(module, inputs, "interpreter", deadline)
        return [a + 1 for a in found] if backend == "cpu" else found

    monkeypatch.setattr(run, "run_flat", wrong_on_cpu)
    assert command.main(["run", file, "--reference", "interpreter"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("axla: error: scaled: cpu and interpreter differ: output 0, f32[2,3]: 6 of 6")


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros((2, 2), np.float32), "found float32[2, 2], parameter x wants f32[2,3]"),
        (np.zeros((2, 3), np.float64), "found float64[2, 3], parameter x wants f32[2,3]"),
    ],
)
def test_run_names_the_input_that_does_not_fit(file, tmp_path, capsys, array, message):
    np.save(tmp_path / "x.npy", array)
    assert command.main(["run", file, "--input", str(tmp_path / "x.npy")]) == 1
    assert message in capsys.readouterr().err


def test_run_wants_an_input_for_each_parameter(file, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    name = str(tmp_path / "x.npy")
    assert command.main(["run", file, "--input", name, "--input", name]) == 1
    assert capsys.readouterr().err == "axla: error: 2 --input, wanted 1: x f32[2,3]\n"


def test_run_refuses_files_that_are_no_arrays(file, capsys):
    assert command.main(["run", file, "--input", file]) == 1
    assert "not an .npy file" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--inputs", "--input"])
def test_damaged_archives_are_errors(file, tmp_path, capsys, option):
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(600.0, dtype=np.float32).reshape(2, 300))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[100] ^= 255
    data[300] ^= 255
    for text in (b"PK\x03\x04" + bytes(50), bytes(data)):
        (tmp_path / "x.npz").write_bytes(text)
        assert command.main(["run", file, option, str(tmp_path / "x.npz")]) == 1
        assert "x.npz: " in capsys.readouterr().err


SEVERAL = """HloModule several, replica_count=2
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)
 ROOT s = f32[4] all-reduce(x), replica_groups={{0,1}}, to_apply=sum }
"""


def test_each_kind_of_inputs_reaches_every_device(tmp_path, capsys):
    (tmp_path / "f.hlo").write_text(SEVERAL)
    given = ["run", str(tmp_path / "f.hlo"), "--input-kinds=ordinary,zeros"]
    assert command.main([*given, "--output", str(tmp_path / "y.npz")]) == 0
    found = np.load(tmp_path / "y.npz")
    assert found["ordinary inputs: device 1, 0"].any()
    assert not found["zeros inputs: device 0, 0"].any() and not found["zeros inputs: device 1, 0"].any()


def test_every_instruction_of_one_device_only(tmp_path, capsys):
    (tmp_path / "f.hlo").write_text(SEVERAL)
    given = ["run", str(tmp_path / "f.hlo"), "--reference=interpreter", "--compare-every-instruction"]
    assert command.main(given) == 1
    out, err = capsys.readouterr()
    assert "wanted a program for one device" in err and not out


def test_check_agrees(file, capsys):
    assert command.main(["check", file]) == 0
    assert capsys.readouterr().out.startswith("scaled: cpu agrees with interpreter\n  output 0, f32[2,3]")


def test_check_leaves_out_what_hangs_on_rounding_and_says_so(tmp_path, capsys):
    path = tmp_path / "sums.hlo"
    path.write_text("""add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
      ENTRY e { x = f32[8,40000] parameter(0)  zero = f32[] constant(0)  k = f32[] constant(100)
      s = f32[8] reduce(x, zero), dimensions={1}, to_apply=add
      ks = f32[8] broadcast(k), dimensions={}  m = f32[8] multiply(s, ks)  ROOT r = f32[8] sine(m) }""")
    assert command.main(["check", str(path)]) == 1
    assert "of 8 elements differ" in capsys.readouterr().err
    assert command.main(["check", str(path), "--skip-unstable"]) == 0
    assert "8 of 8 elements left out, as rounding moves them" in capsys.readouterr().out
    assert command.main(["check", str(tmp_path), "--skip-unstable"]) == 0
    assert capsys.readouterr().out == "1 passed (1 with unstable elements left out), 0 failed\n"


def test_opt_runs_the_named_passes(tmp_path, capsys):
    path = tmp_path / "u.hlo"
    path.write_text(UNUSED)
    assert command.main(["opt", str(path), "--passes=cse"]) == 0
    assert "add(" in capsys.readouterr().out
    assert command.main(["opt", str(path), "--passes=cse,dce"]) == 0
    out = capsys.readouterr().out
    assert "add(" not in out and out.startswith("HloModule scaled")
    assert axla.parse(out).to_string() == out.rstrip("\n") or axla.parse(out).to_string() == out


@pytest.mark.parametrize("options", [["--passes=dce"], ["--stage=hlo"]])
def test_what_opt_prints_runs(tmp_path, capsys, options):
    values = ", ".join(map(str, range(40)))
    path, target = tmp_path / "c.hlo", tmp_path / "out.hlo"
    path.write_text(f"ENTRY e {{ x = s32[40] parameter(0)  c = s32[40] constant({{{values}}})\n"
                    "  ROOT r = s32[40] add(x, c) }")  # fmt: skip
    assert command.main(["opt", str(path), *options, "-o", str(target)]) == 0
    assert command.main(["check", str(target)]) == 0


def test_opt_reads_standard_input_and_writes_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    target = tmp_path / "out.hlo"
    assert command.main(["opt", "-", "--passes=dce", "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert target.read_text().startswith("HloModule scaled")


@pytest.mark.parametrize(
    "stage, holds",
    [
        ("hlo", "HloModule scaled"),
        ("program", "interface name=scaled"),
        ("llvm", "define i32 @axla_entry(ptr"),
        ("asm", "axla_entry:"),
    ],
)
def test_opt_prints_each_stage(file, capsys, stage, holds):
    assert command.main(["opt", file, f"--stage={stage}", "--target-cpu=x86-64-v3"]) == 0
    assert holds in capsys.readouterr().out


def test_opt_writes_a_program_and_its_constants(tmp_path):
    numbers = ", ".join(str(n * n) for n in range(100))
    constant = f"c = s32[100] constant({{{numbers}}})"
    text = f"ENTRY e {{ x = s32[100] parameter(0)  {constant}  ROOT z = s32[100] add(x, c) }}"
    (tmp_path / "f.hlo").write_text(text)
    out = tmp_path / "f.axla"
    assert command.main(["opt", str(tmp_path / "f.hlo"), "--stage=program", "-o", str(out)]) == 0
    made = compile_text(out.read_text(), (tmp_path / "f.axla.constants").read_bytes())
    [result] = NativeExecutable(made.images, made.interface, made.constants).execute([np.ones(100, np.int32)])
    assert np.array_equal(result, np.arange(100) ** 2 + 1)


@pytest.mark.parametrize(
    "option, names",
    [
        ("--list-passes", ["algsimp{is_layout_sensitive=bool}", "dce"]),
        ("--list-stages", ["hlo", "program", "llvm", "asm"]),
        ("--list-rules", ["x + 0 => x", "add(x, broadcast(s32[] constant(0)))\n    => x\n"]),
    ],
)
def test_opt_lists(capsys, option, names):
    assert command.main(["opt", option]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in names)


def test_compile_writes_object_and_header(file, tmp_path, capsys):
    path = tmp_path / "scaled.o"
    assert command.main(["compile", file, "--emit-object", str(path), "--header", "--target=x86-64"]) == 0
    assert path.read_bytes()[:4] == b"\x7fELF"
    header = (tmp_path / "scaled.h").read_text()
    assert "int32_t scaled_run(const scaled_args *args" in header
    assert "#define scaled_NUM_ARGS 1" in header
    assert "#define scaled_ARG_x_SIZE 24" in header
    assert str(path) in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, message",
    [
        ("HloModule m\nENTRY e {", "line 2"),
        (TEXT.replace("multiply(x, b)", "multiply(x, c)"), "multiply"),
        ("\ufeff???", "line 1"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "opt", "check"])
def test_bad_programs_are_one_error(tmp_path, capsys, text, message, verb):
    path = tmp_path / "bad.hlo"
    path.write_text(text)
    assert command.main([verb, str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("axla: error: ") and message in error and "Traceback" not in error


def test_missing_files_are_errors(capsys, tmp_path):
    assert command.main(["opt", str(tmp_path / "none.hlo")]) == 1
    assert capsys.readouterr().err == f"axla: error: {tmp_path}/none.hlo: No such file or directory\n"


@pytest.mark.parametrize("shown", [None, "0", "1"])
def test_a_terminal_shows_progress_unless_told_otherwise(file, monkeypatch, shown):
    seen = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(opt, "execute", lambda options: seen.append(flags.current().progress) or 0)
    if shown is not None:
        monkeypatch.setenv("AXLA_PROGRESS", shown)
    assert command.main(["opt", str(file)]) == 0
    assert seen == [shown != "0"]


def test_a_wrong_flag_is_one_error_on_a_terminal_too(file, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("AXLA_NUM_THREADS", "many")
    assert command.main(["opt", str(file)]) == command.FAILED
    assert capsys.readouterr().err == "axla: error: AXLA_NUM_THREADS=many: wanted an integer\n"


@pytest.mark.parametrize(
    "arguments",
    [["fly"], ["run"], ["opt"], ["compile", "f.hlo"], ["run", "f.hlo", "--backend", "abacus"],
     ["opt", "f.hlo", "--stage=hlo", "--passes=dce"], ["run", "f.hlo", "--random", "x"]],
)  # fmt: skip
def test_wrong_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    assert exit_.value.code == 2
    assert "usage: axla" in capsys.readouterr().err


def test_unknown_target_is_an_error(file, tmp_path, capsys):
    arguments = ["compile", file, "--emit-object", str(tmp_path / "o.o"), "--target=z80"]
    assert command.main(arguments) == 1
    assert "target 'z80' is unknown" in capsys.readouterr().err
    assert not (tmp_path / "o.o").exists()


def test_interrupt_ends_quietly(file, monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("axla.tools.check.execute", interrupt)
    assert command.main(["check", file]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
def test_a_closed_pipe_is_quiet(file):
    environment = {**os.environ, "PYTHONPATH": str(Path(axla.__file__).parents[1])}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "axla", "opt", file, "--passes=cse"],
        stdout=writer, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_program_that_wants_to_be_fed_does_not_wait(tmp_path, capsys):
    path = tmp_path / "fed.hlo"
    path.write_text("""f {
  t = token[] after-all()
  fed = (f32[3], token[]) infeed(t)
  ROOT data = f32[3] get-tuple-element(fed), index=0
}
ENTRY e { ROOT data = f32[3] call(), to_apply=f }""")  # what the entry itself reads is random
    before = axla.feeds().infeed.timeout
    assert command.main(["run", str(path)]) == 1
    assert "infeed of device 0: it is empty" in capsys.readouterr().err
    assert axla.feeds().infeed.timeout == before


def test_a_seed_is_not_negative(file, capsys):
    assert command.main(["run", file, "--random", "-5"]) == 1
    assert "seed=-5, wanted a number of at least 0" in capsys.readouterr().err


def test_check_refuses_half_an_archive(file, tmp_path, capsys):
    whole, half = tmp_path / "whole.tar.gz", tmp_path / "half.tar.gz"
    with tarfile.open(whole, "w:gz") as archive:
        archive.add(file, "scaled.hlo")
    half.write_bytes(whole.read_bytes()[:100])
    assert command.main(["check", str(whole)]) == 0
    assert command.main(["check", str(half)]) == 1
    assert "half.tar.gz: not an archive" in capsys.readouterr().err


def _bomb(path, members):
    """An archive of zeros, which are of no size when packed."""
    with tarfile.open(path, "w:gz") as archive:
        for name, size in members:
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return str(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("a.hlo", 3 << 20)], "a.hlo has 3145728 bytes, at most 1048576 are read"),
        ([(f"{n}.txt", 1 << 20) for n in range(9)], "bytes or more, at most 8388608 are read; unpack it"),
        ([("n" * (3 << 20) + ".hlo", 1)], "a part has 31[0-9]* bytes, at most 1048576 are read"),
    ],
)
def test_check_refuses_an_archive_that_unpacks_to_more_than_it_should(
    members, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(archives, "MEMBER_BYTES", 1 << 20)
    monkeypatch.setattr(archives, "TOTAL_BYTES", 8 << 20)
    path = _bomb(tmp_path / "bomb.tar.gz", members)
    assert command.main(["check", path]) == 1
    error = capsys.readouterr().err
    assert error.startswith("axla: error: ") and "bomb.tar.gz" in error and re.search(message, error), error


def test_check_refuses_files_that_are_sparse(tmp_path, capsys):
    """Of a sparse file the archive has the parts, and the size in words."""
    path = tmp_path / "sparse.tar"
    member = tarfile.TarInfo("a.hlo")
    member.pax_headers = {
        "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "a.hlo",
        "GNU.sparse.size": str(1 << 40), "GNU.sparse.map": f"{1 << 40},0",
    }  # fmt: skip
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member)
    assert command.main(["check", str(path)]) == 1
    assert f"a.hlo has {1 << 40} bytes" in capsys.readouterr().err


def test_opt_takes_every_target(file, capsys):
    assert command.main(["opt", file, "--stage=asm", "--target-cpu=riscv64gc"]) == 0
    assert "rv64i" in capsys.readouterr().out
    assert command.main(["opt", file, "--stage=asm", "--target-cpu=z80"]) == 1
    assert "target 'z80' is unknown" in capsys.readouterr().err


def test_all_examples_of_the_documents_that_need_an_infeed_run(capsys):
    example = str(Path(__file__).parents[2] / "docs" / "examples" / "infeed.hlo")
    assert command.main(["check", example]) == 0
    assert command.main(["run", example]) == 0
    assert "infeed: cpu agrees with interpreter" in capsys.readouterr().out


def test_the_command_alone_prints_its_help(capsys):
    assert command.main([]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: axla") and all(verb in shown for verb in command.VERBS)


def test_an_unknown_flag_without_a_verb_is_an_error(capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["--bogus"])
    assert caught.value.code == 2 and "unrecognized arguments: --bogus" in capsys.readouterr().err


def test_ops_lists_ops_and_kinds_with_their_package(capsys):
    assert command.main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "sine                      axla  sin(x), x in radians of any magnitude" in lines
    assert any(line.split()[:3] == ["kind", "dot", "axla"] for line in lines)


def test_ops_shows_one(capsys):
    assert command.main(["ops", "scatter"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("scatter: Combines `updates` with windows of the operands")
    assert "package     axla\n" in shown and "facts       expensive, updates\n" in shown
    assert command.main(["ops", "scater"]) == 1
    assert "'scater' is not an opcode; did you mean scatter?" in capsys.readouterr().err


BOUND = """HloModule bound
ENTRY main {
  x = f32[2,3] parameter(0)
  w = f32[3,4] parameter(1)
  b = bf16[4] parameter(2)
  p = f32[2,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[4] convert(b)
  d = f32[2,4] broadcast(c), dimensions={1}
  ROOT s = f32[2,4] add(p, d)
}
"""


@pytest.fixture
def bound(tmp_path):
    """A program, its arrays, and options that make constants of the last two, in each kind of files."""
    path, rng = tmp_path / "bound.hlo", np.random.default_rng(0)
    path.write_text(BOUND)
    x, w = (rng.integers(-4, 4, shape).astype(np.float32) for shape in ((2, 3), (3, 4)))
    b = np.arange(4).astype(ml_dtypes.bfloat16)
    names = {name: str(tmp_path / name) for name in ("x.npy", "w.npy", "b.npy", "a.npz", "a.safetensors")}
    for name, array in (("x.npy", x), ("w.npy", w), ("b.npy", b)):
        np.save(names[name], array)
    np.savez(names["a.npz"], **{"w": w, "2": b})
    write_safetensors(names["a.safetensors"], {"w": w, "b": b})
    wanted = x @ w + b.astype(np.float32)
    given = [
        ["--constant", names["a.npz"]], ["--constant", names["a.safetensors"]],
        ["--constant", f"w={names['w.npy']}", "--constant", f"2={names['b.npy']}"],
    ]  # fmt: skip
    return str(path), names, wanted, given


def test_run_makes_constants_of_parameters(bound, capsys):
    path, names, wanted, given = bound
    for options in given:
        assert command.main(["run", path, "--input", names["x.npy"], *options]) == 0
        assert np.array2string(wanted, separator=", ") in capsys.readouterr().out


def test_compile_makes_constants_of_parameters(bound, tmp_path, capsys):
    path, names, wanted, given = bound
    for number, options in enumerate(given):
        out = str(tmp_path / f"out{number}")
        assert command.main(["compile", path, *options, "-o", out, "--target", "native"]) == 0
        np.testing.assert_array_equal(axla.aot.load(out)(np.load(names["x.npy"])), wanted)
    assert command.main(["compile", path, *given[0], "--emit-object", str(tmp_path / "f.o")]) == 0


@pytest.mark.parametrize(("text", "message"), [
    ("missing.npz", "No such file"), ("w={x}", r"constant 'w': wanted f32\[3,4\], found float32\[2, 3\]"),
    ("v={w}", "'v', which is not a number or name of a parameter"), ("7={w}", "parameter 7; there are 3"),
    ("{w}", "wanted FILE.npz"), ("{text}", "wanted FILE.npz"), ("w={a}", "found an archive"),
])  # fmt: skip
def test_constants_that_do_not_fit_are_errors(bound, tmp_path, capsys, text, message):
    path, names, _, _ = bound
    files = {"x": names["x.npy"], "w": names["w.npy"], "text": path, "a": names["a.npz"]}
    for verb in (["run"], ["compile", "-o", str(tmp_path / "out")]):
        assert command.main([*verb, path, "--constant", text.format(**files)]) == 1
        assert re.search(message, capsys.readouterr().err)


def test_compile_tells_what_was_tuned(tmp_path, capsys):
    path = tmp_path / "f.hlo"
    path.write_text("ENTRY e { x = f32[100,1000] parameter(0)  ROOT y = f32[100,1000] tanh(x) }")
    with flags.override(autotune=True):
        for target, told in (("native", True), ("aarch64", False)):
            options = ["-o", str(tmp_path / target), "--target", target]
            assert command.main(["compile", str(path), *options]) == 0
            assert ("tuning: 1 kernels" in capsys.readouterr().out) == told
