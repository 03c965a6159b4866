"""docs/passes.md: XLA's passes and the passes of axla that do their work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from axla.passes.pipelines import PASSES

FACTS = Path(__file__).parent / "xla_passes.txt"
NOTES = tuple(Path(__file__).parent / name for name in ("passes_left_out.md", "passes_notes.md"))

TOP = """\
# Passes, and XLA's

Made by `python scripts/docs` from `axla/passes/pipelines.py` and, in `scripts/docs_lib`, `xla_passes.txt`
(XLA's passes), `passes_left_out.md` and `passes_notes.md`; do not edit. A pass of axla that XLA has too has
XLA's name. Passes for other devices (GPU, TPU), and files that are parts of passes, are not listed. See
[adding a pass](adding-a-pass.md).

"""

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


@dataclass(frozen=True, slots=True)
class Known:
    """A pass of XLA: its file, the passes of axla that do its work, and a note."""

    folder: str
    name: str
    ours: tuple[str, ...]
    note: str


def known() -> list[Known]:
    """All passes of the list, in its order."""
    found: list[Known] = []
    folder = ""
    text = re.sub(r"\n +", " ", FACTS.read_text(encoding="utf-8"))
    for line in text.splitlines():
        if line.startswith("## "):
            folder = line[3:]
        elif line and not line.startswith("#"):
            match = re.fullmatch(r"(\w+)(?: = ([\w, -]+))?(?:: (.+))?", line)
            if match is None:
                raise ValueError(
                    f"{FACTS.name}: wanted `name = pass: note` or `name: reason`, found {line!r}"
                )
            name, ours, note = match.groups()
            same = name_of(name)
            ours = ours.split(", ") if ours else [same] if same in PASSES else []
            found.append(Known(folder, name, tuple(ours), note or ""))
    return found


def name_of(name: str) -> str:
    """The name that axla would give the pass."""
    return name.replace("_", "-")


def page(table: Table) -> str:
    rows = known()
    parts = [TOP]
    for folder in dict.fromkeys(row.folder for row in rows):
        listed = [(row.name, quoted(row.ours), said(row.note)) for row in rows if row.folder == folder]
        parts += [f"## xla/{folder}\n\n", table(("XLA", "axla", "notes"), listed), "\n"]
    parts.append("## All of ours\n\n")
    parts.append(table(("pass", "XLA's", "what it does"), list(own(rows))))
    return "\n".join(["".join(parts), *(notes.read_text(encoding="utf-8") for notes in NOTES)])


def quoted(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def said(note: str) -> str:
    return note[:1].upper() + note[1:] + "." if note else ""


def own(rows: Sequence[Known]) -> Iterator[tuple[str, ...]]:
    for step in sorted(PASSES.values(), key=lambda p: p.name):
        names = [row.name for row in rows if step.name in row.ours]
        contract = " ".join((step.function.__doc__ or "").partition("\n\n")[0].split())
        yield f"`{step.name}`", quoted(names), contract
