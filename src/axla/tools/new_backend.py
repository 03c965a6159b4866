"""axla new-backend: writes a package with a backend of your own.

axla new-backend npu     the package axla-npu in the folder axla-npu: pip install -e axla-npu

The backend can run every program from the start: ops for which its device has no function run on the host.
Its README names the next steps; docs/new-backend.md has more.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from axla import backends
from axla.core.errors import InvalidArgument
from axla.core.templates import fill


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla new-backend`."""
    parser.add_argument("name", metavar="NAME", help="the name for `--backend`: lower case, digits, hyphens")
    parser.add_argument("--folder", type=Path, help="an empty or new folder to write to (axla-NAME)")


def execute(options: argparse.Namespace) -> int:
    """Runs `axla new-backend`; returns its exit status."""
    folder = options.folder or Path(f"axla-{options.name}")
    made = package(options.name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidArgument(f"--folder={folder}: wanted a folder that is empty or new")
    for name, text in made.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    print(f"{folder}: {', '.join(made)}")
    return 0


def package(name: str) -> dict[str, str]:
    """The files of the package of the backend `name`: their contents, by their paths in the package's folder.
    Raises InvalidArgument if the name is invalid, or a backend of this name exists.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise InvalidArgument(f"new-backend: {name!r}, wanted lower case letters, digits and hyphens: my-npu")
    if name in backends.names():
        raise InvalidArgument(f"new-backend: there is a backend {name!r} already")
    module = f"axla_{name.replace('-', '_')}"
    words = "".join(word.capitalize() for word in name.split("-"))
    classes = {"BACKEND": f"{words}Backend", "EXECUTABLE": f"{words}Executable"}
    project = {"NAME": name, "PACKAGE": f"axla-{name}", "MODULE": module, "BACKEND": classes["BACKEND"]}
    files = {
        "pyproject.toml": fill("tools/backend_pyproject.txt", **project),
        "README.md": fill("tools/backend_readme.txt", NAME=name, MODULE=module),
        f"{module}/__init__.py": fill("tools/backend_init.txt", NAME=name),
        f"{module}/backend.py": fill("tools/backend_backend.txt", NAME=name, **classes),
        f"{module}/ops.py": fill("tools/backend_ops.txt"),
        f"{module}/device.py": fill("tools/backend_device.txt"),
        f"tests/test_{module}.py": fill("tools/backend_test.txt", NAME=name),
    }
    return {file: f"{text}\n" for file, text in files.items()}
