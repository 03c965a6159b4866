"""Backends by name: those of packages, registered ones, what cannot be loaded, the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import axla
from axla.backends.interface import BACKENDS
from axla.tools import main as command

ROOT = Path(axla.__file__).parents[2]
TEXT = "HloModule m\nENTRY e { p = f32[3] parameter(0)\n  ROOT r = f32[3] sine(p) }"


def test_names_and_what_is_near_them():
    assert axla.backends.names()[:3] == ("cpu", "one-lane", "interpreter")
    assert "outside" in axla.backends.names()
    wrong = r"backend='outsid'; there are cpu, one-lane, interpreter, .*; did you mean outside\?"
    for call in (axla.backends.get, axla.Client, lambda name: axla.compile(axla.parse(TEXT), backend=name)):
        with pytest.raises(axla.InvalidArgument, match=wrong):
            call("outsid")
    for name in (None, 3, [], ""):
        with pytest.raises(axla.InvalidArgument):
            axla.backends.get(name)  # type: ignore[arg-type]
    with pytest.raises(axla.InvalidArgument, match="wanted a name or a Backend"):
        axla.Client(3)  # type: ignore[arg-type]


def test_the_package_says_the_same_as_its_entry_points():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = project["entry-points"]["axla.backends"]
    assert said == BACKENDS._own


def test_a_backend_is_made_once_and_when_it_is_asked_for():
    made = []

    class Mine(axla.backends.Backend):
        name = "mine"

    def make():
        made.append(Mine())
        return made[-1]

    axla.backends.register("mine", make)
    try:
        assert "mine" in axla.backends.names() and not made
        assert axla.backends.get("mine") is axla.backends.get("mine") is made[0]
        assert axla.Client("mine").backend is axla.Client(made[0]).backend
        with pytest.raises(axla.InvalidArgument, match="a backend 'mine' exists already"):
            axla.backends.register("mine", make)
    finally:
        axla.backends.unregister("mine")
    assert "mine" not in axla.backends.names()
    with pytest.raises(axla.InvalidArgument, match="no backend was registered as 'mine'"):
        axla.backends.unregister("mine")
    with pytest.raises(axla.InvalidArgument, match="a backend 'cpu' exists already"):
        axla.backends.register("cpu", make)
    for wrong in (("", make), (3, make), ("mine", None)):
        with pytest.raises(axla.InvalidArgument, match="wanted a name and a function"):
            axla.backends.register(*wrong)


def test_what_cannot_be_loaded_says_why(capsys):
    with pytest.raises(axla.UnsupportedError, match="backend 'broken' cannot be loaded: .*no such machine"):
        axla.backends.get("broken")
    with pytest.raises(
        axla.UnsupportedError, match="backend 'odd': its factory returned dict, wanted Backend"
    ):
        axla.compile(axla.parse(TEXT), backend="odd")
    assert command.main(["backends"]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert "no such machine" in lines["broken"] and lines["outside"] == "the interpreter in other clothes"
    assert {"cpu", "one-lane", "interpreter"} <= lines.keys()


def test_the_command_line_shows_capabilities(backend, capsys):
    assert command.main(["backends", backend]) == 0
    out = capsys.readouterr().out
    able = axla.backends.get(backend).capabilities
    for text in (*able.effects, *able.refused.values(), f"up to {able.participants}", " add ", "bf16"):
        assert text in out
    assert (" sine " in out) == (backend != "outside") or "refuses sine" in out


def test_the_command_line_runs_an_installed_backend(tmp_path, capsys):
    (tmp_path / "m.hlo").write_text(TEXT.replace("sine", "negate"))
    (tmp_path / "sine.hlo").write_text(TEXT)
    assert command.main(["run", str(tmp_path / "m.hlo"), "--backend", "outside", "--reference", "cpu"]) == 0
    assert "outside agrees with cpu" in capsys.readouterr().out
    assert command.main(["check", str(tmp_path / "sine.hlo"), "--backend", "outside"]) == 1
    assert "outside does not run sine: its author has no sines" in capsys.readouterr().err


def test_a_backend_is_not_loaded_before_it_is_asked_for():
    code = (
        "import sys, axla; axla.backends.names(); axla.Client('interpreter');"
        "print([m for m in sys.modules if m in ('axla.backends.cpu', 'llvmlite', 'jax')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "[]", done.stderr
