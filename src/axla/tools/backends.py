"""axla backends: lists the backends that programs can run on.

axla backends                   a line for each backend, those of installed packages too
axla backends cpu               what it takes, and what it refuses and why
axla backends --coverage cpu    for each op whether the backend or the host runs it, or why it is refused
"""

from __future__ import annotations

import argparse

from axla import backends
from axla.core.errors import AxlaError
from axla.tools.conformance import BY_HOST, FAILED, REFUSED, alone, outcomes
from axla.tools.source import add_backend


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla backends`."""
    parser.add_argument("backend", metavar="NAME", nargs="?", help="a backend")
    add_backend(parser, "--coverage", None, "run every op alone, and say who does it, and why")


def execute(options: argparse.Namespace) -> int:
    """Runs `axla backends`; returns its exit status."""
    if options.coverage is not None:
        print(coverage(options.coverage))
        return 0
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
    """The description of the backend `name`."""
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


def coverage(name: str) -> str:
    """A line for each op, at the element type of its first sample: whether the backend `name` or the host
    runs it, or whether it is refused or fails. If the backend does not run it, the line has the reason.
    """
    said = {BY_HOST: "the host: ", REFUSED: "refused: ", FAILED: "failed: "}
    cases = outcomes(name, alone())
    return "\n".join(f"{c.op:26} {c.dtype:5} {said.get(c.kind, 'itself')}{c.reason}" for c in cases)
