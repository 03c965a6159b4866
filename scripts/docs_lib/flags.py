"""docs/flags.md: the flags, from axla/core/flags.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from axla.core.flags import FIELDS, spellings_of

HEAD = """\
# Flags

Made by `python scripts/docs` from `axla/core/flags.py`; do not edit.

Set them in `XLA_FLAGS` or `AXLA_FLAGS` (`--name=value`, separated by spaces), or by the last column's
variable.

"""


def page(table: Callable[[Sequence[str], Iterable[Sequence[str]]], str]) -> str:
    rows = []
    for field in FIELDS.values():
        names = spellings_of(field.name)
        default = field.default
        shown = {False: "false", True: "true", None: "", (): ""}.get(default, default) if default != 1 else 1
        variable = next(name for name in names if name.startswith("axla_")).upper()
        spelled = "<br>".join(f"`--{name}`" for name in names)
        rows.append((spelled, str(shown), field.metadata["doc"], f"`{variable}`"))
    return HEAD + table(("flag", "default", "effect", "variable"), rows)
