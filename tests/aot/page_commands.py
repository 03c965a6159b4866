"""Runs the commands of pages: a block with a file name (```c main.c) is written, `sh` is run, `text` is what
programs of the block before it say, or axla where it runs no program. The numbers of `text sizes` may be a
fourth off. Blocks without a language are not run.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from axla.codegen.host import host_target
from axla.tools import main as command

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w*) ?(\S*)\n(.*?)^```", re.M | re.S)
_NUMBER = re.compile(r"\d[\d,]*")


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    about: str  # the name of its file, or how it is compared
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page, or of a part of it."""
    return [Block(*found) for found in _BLOCK.findall(page)]


def lines(text: str) -> list[str]:
    """Commands, each in one line."""
    return text.replace("\\\n", "").splitlines()


def tools(found: list[Block]) -> list[str]:
    """The programs that blocks run, but axla; `python -m NAME` is NAME, and cmake runs a compiler and an
    emulator.
    """
    named: dict[str, None] = {}
    for block in found:
        for line in lines(block.text) if block.kind == "sh" else ():
            for part in re.split(r"&&|\|", line):
                words = shlex.split(part)
                module = words[:2] == ["python", "-m"]
                named[words[2] if module else words[0]] = None
                named |= dict.fromkeys(
                    re.findall(r"-DCMAKE_(?:C_COMPILER|CROSSCOMPILING_EMULATOR)=(\S+)", part)
                )
    return [name for name in named if not name.startswith(("axla", "./", "cd", "echo", "python"))]


def run(
    found: list[Block], folder: Path, given: Mapping[str, object] = MappingProxyType({})
) -> dict[str, object]:
    """Runs blocks in a folder, which has to be the current one; gives what their Python, and that before
    them, defines.
    """
    said = ""
    scope: dict[str, object] = {"__name__": "page", **given}
    for block in found:
        if block.kind == "sh":
            said = _commands(lines(block.text), folder)
        elif block.kind == "text":
            _compare(said, block)
        elif block.about:
            (folder / block.about).parent.mkdir(exist_ok=True)
            (folder / block.about).write_text(block.text)
        elif block.kind == "python":
            exec(compile(block.text, "page.py", "exec"), scope)
    return scope


def _commands(commands: list[str], folder: Path) -> str:
    """Runs the commands of a block; returns their output.

    Commands of axla run in this process, which is quicker; their output counts if no other command runs.
    """
    said: dict[bool, list[str]] = {True: [], False: []}
    for of_axla, group in itertools.groupby(commands, lambda line: line.startswith("axla ")):
        if of_axla:
            said[True] += [_axla(line) for line in group]
        else:
            said[False].append(_shell("\n".join(group), folder))
    return "".join(said[False] or said[True])


def _axla(line: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = command.main(shlex.split(line)[1:])
    assert code == 0, line
    return out.getvalue()


def _shell(text: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    packages = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PATH": path, "PYTHONPATH": packages}
    environment["ZIG_GLOBAL_CACHE_DIR"] = str(Path(os.environ.get("TMPDIR", "/tmp")) / "axla-zig-cache")
    done = subprocess.run(
        ["sh", "-ec", text], capture_output=True, text=True, cwd=folder, env=environment, timeout=300
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout or done.stderr  # QEMU writes there for machines without a system


def _compare(said: str, block: Block) -> None:
    if block.about != "sizes":
        assert said == block.text
        return
    assert _words(said) == _words(block.text)
    if host_target().name != "x86-64-v4":  # sizes of native code on the machine that wrote the page
        return
    numbers = [[int(n.replace(",", "")) for n in _NUMBER.findall(text)] for text in (said, block.text)]
    for found, wanted in zip(*numbers, strict=True):
        assert 4 * abs(found - wanted) <= wanted, f"the page says {wanted:,}, found {found:,}"


def _words(text: str) -> list[str]:
    return _NUMBER.sub("#", text).split()
