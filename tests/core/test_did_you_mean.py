"""Unknown names are errors that say what comes near."""

import re

import pytest

import axla
from axla.core import flags
from axla.core.errors import InvalidArgument, did_you_mean
from axla.tools import main as command

TEXT = "ENTRY e { ROOT p = f32[4] parameter(0) }"


def test_only_what_comes_near_is_named():
    assert did_you_mean("alegbra", ["algebra", "dce"]) == "; did you mean algebra?"
    assert did_you_mean("zzz", ["algebra"]) == did_you_mean("a", []) == ""
    assert did_you_mean(None, ["None"]) == "; did you mean None?"


@pytest.mark.parametrize("variable", ["AXLA_DISABLE", "AXLA_ENABLE_ONLY"])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_pass_that_there_is_not_cannot_be_disabled(monkeypatch, variable, backend):
    monkeypatch.setenv(variable, "alegbra")
    with pytest.raises(InvalidArgument, match="no pass or rule 'alegbra'; .*--list-passes"):
        axla.compile(axla.parse(TEXT), backend=backend)
    monkeypatch.setenv(variable, "algsim")
    with pytest.raises(InvalidArgument, match="no pass or rule 'algsim'; did you mean algsimp"):
        axla.compile(axla.parse(TEXT), backend=backend)


def test_passes_and_rules_that_there_are_can_be(monkeypatch):
    monkeypatch.setenv("AXLA_DISABLE", "algsimp,negate_negate")
    axla.compile(axla.parse(TEXT))


def test_unknown_flags_of_axla_are_errors():
    with pytest.raises(
        InvalidArgument, match="AXLA_FLAGS: unknown flag --axla_verfy; did you mean axla_verify"
    ):
        flags.from_environment({"AXLA_FLAGS": "--axla_verfy"})
    with pytest.warns(UserWarning, match="unknown flag --xla_gpu_of_another_version"):
        flags.from_environment({"AXLA_FLAGS": "--xla_gpu_of_another_version"})


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: axla.compile(m, backend="cpus"), "backend='cpus'; there are .*; did you mean cpu?"),
        (
            lambda m: axla.compile(m, target_cpu="x86-64-v9"),
            "target_cpu='x86-64-v9', .*; did you mean x86-64-v",
        ),
        (
            lambda m: axla.aot.compile(m, out="x", weights="objects"),
            "weights='objects'; .*did you mean object?",
        ),
        (lambda m: axla.aot.compile(m, out="x", target="cortex-m5"), "did you mean cortex-m"),
        (lambda m: axla.aot.compile(m, out="x", variables=["pp"]), "no argument is called 'pp'"),
    ],
)
def test_backends_targets_and_others(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=message.replace("?", r"\?")):
        call(axla.parse(TEXT))


@pytest.mark.parametrize(
    "words, message",
    [
        (
            ["run", "FILE", "--backend", "interpeter"],
            "backend='interpeter'; .*; did you mean interpreter?",
        ),
        (["opt", "FILE", "--stage=lvm"], "'lvm' is unknown; .*; did you mean llvm"),
        (["rnu", "FILE"], "'rnu' is unknown; .*; did you mean run"),
        (["run", "FILE", "--refrence", "cpu"], "--refrence cpu; did you mean --reference"),
        (["convert", "FILE", "-", "--to=stablhlo"], "'stablhlo' is unknown; .*; did you mean stablehlo"),
    ],
)
def test_words_of_the_command_line(words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(words)
    assert caught.value.code == 2
    assert re.search(message.replace("?", r"\?"), capsys.readouterr().err.replace("\n", " "))


@pytest.mark.parametrize("stage", [[], ["--stage=hlo"], ["--passes=dce"], ["--stage=llvm"]])
def test_a_wrong_target_cpu_is_said_at_every_stage(tmp_path, capsys, stage):
    file = tmp_path / "f.hlo"
    file.write_text(TEXT)
    assert command.main(["opt", str(file), "--target-cpu=cortex-m5", *stage]) == 1
    assert "target 'cortex-m5' is unknown; did you mean cortex-m" in capsys.readouterr().err
