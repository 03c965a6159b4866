"""docs/service.md: its blocks run, in their order; its tables have every limit and every counter.

They are one script of bash, in a folder of its own, with free ports in the place of those of the page. With
AXLA_PAGE_BIN, the commands are those of a folder: of an installed axla.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from axla.service.limits import ClientLimits
from axla.service.metrics import text_of
from axla.service.supervisor import Settings, Supervisor
from axla.tools import main as command
from axla.tools import serve

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text()


def script(folder: Path) -> str:
    """The blocks as a script, which ends what it has started."""
    text = PAGE
    for port in ("8470", "9470"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            text = text.replace(port, str(free.getsockname()[1]))
    lines = ["set -eu", "trap 'kill $(jobs -p); wait' EXIT"]
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", text, re.M | re.S):
        lines.append(block if language == "sh" else f"python - <<'END_OF_BLOCK'\n{block}END_OF_BLOCK")
    return "\n".join(lines)


@pytest.fixture
def commands(tmp_path) -> Path:
    """A folder with the commands `axla` and `python`."""
    if "AXLA_PAGE_BIN" in os.environ:
        return Path(os.environ["AXLA_PAGE_BIN"])
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("axla", "-m axla"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def test_the_blocks_run(tmp_path, commands):
    if shutil.which("openssl") is None or importlib.util.find_spec("grpc") is None:
        pytest.skip("it takes openssl, and grpcio (axla[service])")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AXLA_")}
    environment |= {"PATH": f"{commands}:{environment['PATH']}", "XDG_RUNTIME_DIR": str(tmp_path)}
    environment |= {"AXLA_CACHE_DIR": ""}
    if "AXLA_PAGE_BIN" not in os.environ:
        environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        ["bash", "-c", script(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Array f32[3]\n[1. 4. 9.]" in done.stdout and "[1.0, 256.0, 6561.0]" in done.stdout
    assert "service: the token is missing or wrong" in done.stdout
    assert "half.before_optimizations.txt" in done.stdout
    assert re.search(r"^axla_service_sessions_total [1-9]", done.stdout, re.M)


def rows() -> dict[str, list[str]]:
    """The rows of tables by what stands first, in `code`."""
    found = re.findall(r"^\| `([^`|]+)` \| (.*) \|$", PAGE, re.M)
    return {name: rest.split(" | ") for name, rest in found}


@pytest.mark.parametrize("field", [field.name for field in fields(ClientLimits)])
def test_every_limit_is_in_the_table(field):
    default = rows()[f"--{field.replace('_', '-')}"][0]
    assert serve.number(default) == getattr(ClientLimits, field)


def test_every_counter_is_in_the_table():
    counters = Supervisor(Settings()).counters()
    names = re.findall(r"^(axla_\w+) ", text_of(counters), re.M)
    assert set(names) == {name for name in rows() if name.startswith("axla_service_")}
    assert len(names) == len(counters)


def test_options_of_the_page_are_those_of_the_command():
    options = set(re.findall(r"--[a-z-]+", text_of_help()))
    lines = re.findall(r"axla serve [^`\n]*|ExecStart=[^\n]*|ENTRYPOINT \[(?:[^\]]*)\]", everything())
    used = {option for line in lines for option in re.findall(r"--[a-z-]+", line)}
    assert len(lines) > 5 and used <= options, used - options


def text_of_help() -> str:
    parser = command.parser()
    verbs = next(action for action in parser._actions if action.dest == "verb")
    return verbs.choices["serve"].format_help()


def everything() -> str:
    """The page, and the examples beside it."""
    return "\n".join([PAGE, *(path.read_text() for path in sorted((ROOT / "examples/service").iterdir()))])
