"""Programs that failed once, as `axla reduce` wrote them: the command of the first line must succeed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from axla.tools import main as command

FILES = sorted(Path(__file__).parent.glob("*.hlo"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_fails_no_more(path, capsys):
    first, _ = path.read_text().split("\n", 1)
    assert first.startswith("// RUN: axla ")
    words = shlex.split(first.removeprefix("// RUN: axla "))
    assert command.main([str(path) if word == "%s" else word for word in words]) == 0, capsys.readouterr().err
