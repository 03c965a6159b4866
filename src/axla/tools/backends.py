"""axla backends: what programs can run on.

axla backends            a line for each backend, those of installed packages too
axla backends cpu        what it takes, and what it refuses and why
"""

from __future__ import annotations

import argparse

from axla import backends
from axla.core.errors import AxlaError

HELP = "list the backends, what they take and what they refuse"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("backend", metavar="NAME", nargs="?", help="a backend")


def execute(options: argparse.Namespace) -> int:
    if options.backend is not None:
        print(detail(options.backend))
        return 0
    names = backends.names()
    width = max(map(len, names))
    for name in names:
        try:
            about = backends.get(name).about
        except AxlaError as error:
            about = str(error)
        print(f"{name:{width}}  {about}".rstrip())
    return 0


def detail(name: str) -> str:
    """All about one backend."""
    found = backends.get(name)
    able = found.capabilities
    facts = [
        ("version", found.version), ("devices", found.device_kind),
        ("memories", ", ".join(found.memory_kinds)),
        ("element types", " ".join(able.element_types)), ("ops", " ".join(able.ops)),
        ("effects", ", ".join(able.effects)), ("participants", f"up to {able.participants}"),
        *((f"refuses {what}", why) for what, why in able.refused.items()),
    ]  # fmt: skip
    width = max(len(label) for label, _ in facts)
    return "\n".join([f"{name}: {found.about}", *(f"  {label:<{width}}  {text}" for label, text in facts)])
