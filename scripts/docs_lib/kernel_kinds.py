"""docs/kernel-kinds.md: the loaded kinds of kernels, from their classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from axla.kernels.kind import Kind
from axla.kernels.kinds import kinds

TOP = """\
# Kinds of kernels

Made by `python scripts/docs` from the classes in `axla/kernels`; do not edit. axla tests the kinds in this
order for each kernel; the first that matches is used. [Adding a kind](adding-a-kernel-kind.md).

"""


def page(table: Callable[[Sequence[str], Sequence[Sequence[str]]], str]) -> str:
    """The text of the page, with the kinds that other packages registered."""
    return TOP + table(("kind", "hero", "description", "alone", "plan", "emitter"), list(map(row, kinds())))


def row(kind: type[Kind]) -> tuple[str, ...]:
    what = " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())
    ops = ", ".join(f"`{op.opcode}`" for op in kind.heroes) or "any op"
    plan = f"`{kind.planned.__name__}`" if kind.planned is not None else "that of a loop"
    written = "" if kind.planned is None else f"`{kind.emission or f'{kind.__qualname__}.emit'}`"
    return kind.name, ops, what, "yes" if kind.alone else "", plan, written
