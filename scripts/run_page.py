#!/usr/bin/env python3
"""Runs the code blocks of a page in order, in one shell and a temporary folder.

    python scripts/run_page.py docs/start/jax.md            with this Python's axla
    python scripts/run_page.py --fresh docs/start/jax.md    as the page says, beginning with its `pip install`
    python scripts/run_page.py --here README.md             in the current folder, with the installed axla

A block `python NAME`, `hlo NAME`... is written to the file NAME. A block `sh` is run, and its output is
compared with the block `text` that follows it, in which `...` stands for any text. A block `sh install` makes
an environment. Without --fresh these blocks are skipped, except for `pip install -e FOLDER`, which installs a
package that the page wrote. With --here all `python` blocks without a name form one program, which runs
first, and all output is shown.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.M | re.S)


@dataclass(frozen=True)
class Step:
    command: str  # the text for bash
    wanted: str | None  # the output that the page shows, if any


def steps_of(page: str, fresh: bool) -> Iterator[tuple[str, str] | Step]:
    """Yields the files, as (name, text), and the commands of a page."""
    blocks = BLOCK.findall(page)
    for (kind, name, text), following in zip(blocks, [*blocks[1:], ("", "", "")], strict=True):
        if kind == "sh":
            command = text if fresh or name != "install" else installed_without_pip(text)
            yield Step(command, following[2] if following[0] == "text" else None)
        elif name and kind != "sh":
            yield name, text


def installed_without_pip(text: str) -> str:
    """The commands that replace a block `sh install` if nothing is to be installed."""
    folders = re.findall(r"^pip install .*-e (\S+)$", text, re.M)
    return "".join(f"python {Path(__file__).resolve()} --enter {folder}\n" for folder in folders) or ":\n"


def enter(project: Path) -> None:
    """Writes into `.site` the metadata of a package that `pip install -e` would write, with its entry
    points.
    """
    told = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    package = told["name"].replace("-", "_")
    facts = Path(".site") / f"{package}-{told['version']}.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {told['version']}\n")
    lines = []
    for group, names in told["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in names.items())]
    (facts / "entry_points.txt").write_text("\n".join([*lines, ""]))
    (Path(".site") / package).symlink_to((project / package).resolve())


def pattern_of(wanted: str) -> str:
    """A regular expression for the output of a block. `...` stands for any text in a line; a line `...`
    stands for any lines. Spaces at the ends of lines are ignored.
    """
    lines = [line.rstrip() for line in wanted.splitlines()]
    inner = (re.escape(line).replace(r"\.\.\.", "[^\n]*") for line in lines)
    any_lines = r"([^\n]*\n)*"
    return "".join(
        any_lines if line == "..." else rf"{text}[ \t]*\n" for line, text in zip(lines, inner, strict=True)
    )


def run(page: Path, folder: Path, environment: dict[str, str], fresh: bool = False) -> None:
    """Runs a page in a folder. Raises AssertionError with the block that fails or prints another output."""
    steps = list(steps_of(page.read_text(encoding="utf-8"), fresh))
    lines = ["set -eu", "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT"]
    for number, step in enumerate(steps):
        if isinstance(step, Step):
            lines.append(f"{{\n{step.command}}} > .said.{number} 2>&1")
        else:
            name, text = step
            lines += [f"mkdir -p {Path(name).parent}", f"cat > {name} <<'END-OF-FILE'\n{text}END-OF-FILE"]
    done = subprocess.run(
        ["bash"],
        input="\n".join(lines),
        text=True,
        cwd=folder,
        env=environment,
        timeout=3600 if fresh else 900,
        capture_output=True,
    )
    for number, step in enumerate(steps):
        if not isinstance(step, Step):
            continue
        path = folder / f".said.{number}"
        assert path.exists(), f"{page.name}: not run:\n{step.command}\n{done.stderr}"
        said = path.read_text(encoding="utf-8")
        last = not (folder / f".said.{number + 1}").exists() and done.returncode
        assert not (last and number == ran(folder)), (
            f"{page.name}: failed:\n{step.command}\nwhich said\n{said}"
        )
        if step.wanted is not None:
            found = re.fullmatch(pattern_of(step.wanted), said.rstrip() + "\n")
            assert found, f"{page.name}: printed by\n{step.command}\n{said}\nwanted\n{step.wanted}"
    assert done.returncode == 0, f"{page.name}: {done.stderr}"


def installed() -> dict[str, str]:
    """The environment variables by which `axla` and `python` are those of this Python, with the axla of this
    repository.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}.site"}


def run_here(page: Path) -> int:
    """Runs a page in the current folder. Stops at the first command that fails; returns its exit status."""
    text = page.read_text(encoding="utf-8")
    program = "\n".join(code for kind, name, code in BLOCK.findall(text) if kind == "python" and not name)
    tools = f'python() {{ "{sys.executable}" "$@"; }}\naxla() {{ "{sys.executable}" -m axla "$@"; }}\n'
    page_steps = list(steps_of(text, fresh=False))
    files = [("page.py", program), *(step for step in page_steps if not isinstance(step, Step))]
    steps = [*files, Step("python page.py\n", None), *(step for step in page_steps if isinstance(step, Step))]
    for step in steps:
        if not isinstance(step, Step):
            Path(step[0]).write_text(step[1], encoding="utf-8")
            continue
        print("$", step.command, flush=True)
        done = subprocess.run(
            ["bash", "-euc", tools + step.command], env={**os.environ, "PYTHONSAFEPATH": "1"}
        )
        if done.returncode:
            print(f"run_page: status {done.returncode}", file=sys.stderr)
            return done.returncode
    return 0


def ran(folder: Path) -> int:
    """The number of the last block that was started."""
    return max(int(path.suffix[1:]) for path in folder.glob(".said.*"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--enter", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.enter:
        enter(options.page)
        return 0
    if options.here:
        return run_here(options.page)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AXLA_", "PYTHON"))
    }
    environment["CHECKOUT"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        if not options.fresh:
            environment |= installed()
        run(options.page.resolve(), Path(folder), environment, options.fresh)
    print(f"{options.page}: as it says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
