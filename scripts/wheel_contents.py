#!/usr/bin/env python3
"""Checks the contents of a wheel and an sdist: python scripts/wheel_contents.py FOLDER.

`--extras` prints the extras of pyproject.toml instead.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def problems(folder: Path) -> list[str]:
    wheels, sources = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sources) != 1 or not wheels[0].name.endswith("-py3-none-any.whl"):
        return [f"{folder} should have one wheel for any machine, and one sdist"]
    tracked = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/axla/")}
    with zipfile.ZipFile(wheels[0]) as file:
        names = set(file.namelist())
    with tarfile.open(sources[0]) as file:
        top = f"{sources[0].name.removesuffix('.tar.gz')}/"
        source = {name.removeprefix(top) for name in file.getnames()}
    facts = {name for name in names - package if ".dist-info/" in name}
    found = [f"the wheel lacks {name}" for name in sorted(package - names)]
    found += [f"the wheel has {name}" for name in sorted(names - package - facts)]
    found += [
        f"the wheel lacks the licence {name}"
        for name in PROJECT["license-files"]
        if not any(fact.endswith(f"/licenses/{name}") for fact in facts)
    ]
    return found + [f"the sdist lacks {name}" for name in sorted(set(tracked) - source) if name[0] != "."]


def main() -> int:
    if sys.argv[1:] == ["--extras"]:
        print(*PROJECT["optional-dependencies"])
        return 0
    found = problems(Path(sys.argv[1]))
    for problem in found:
        print(f"wheel: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
