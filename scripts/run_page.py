#!/usr/bin/env python3
"""Runs the examples of a page in the current folder: python scripts/run_page.py README.md.

The Python blocks are one program. A block with a file name (```text f.hlo) is written, `sh` blocks are run in
turn, by the `axla` and `python` of this Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.M | re.S)


def main() -> int:
    blocks = BLOCK.findall(Path(sys.argv[1]).read_text(encoding="utf-8"))
    tools = f'python() {{ "{sys.executable}" "$@"; }}\naxla() {{ "{sys.executable}" -m axla "$@"; }}\n'
    Path("page.py").write_text(
        "\n".join(text for kind, name, text in blocks if kind == "python" and not name)
    )
    programs = [[sys.executable, "page.py"]]
    for kind, name, text in blocks:
        if name:
            Path(name).write_text(text, encoding="utf-8")
        elif kind == "sh":
            programs.append(["sh", "-euc", tools + text])
    for program in programs:
        print("$", program[-1].removeprefix(tools), flush=True)
        done = subprocess.run(program, env={**os.environ, "PYTHONSAFEPATH": "1"})
        if done.returncode:
            print(f"run_page: status {done.returncode}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
