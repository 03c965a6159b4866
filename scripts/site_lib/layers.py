"""The figure of the layers, from the contract that `lint-imports` checks."""

from __future__ import annotations

import ast
import html
import tomllib

from .api import ROOT, path_of, plain, tree_of

ROW, WIDTH, NAME = 26, 760, 250


def layers() -> list[list[str]]:
    """The rows of the layers, highest first. The packages of a row do not import each other."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in told["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [[name.strip() for name in row.split("|")] for row in contract["layers"]]


def about(name: str) -> str:
    """The first clause of the docstring of a package."""
    path = path_of(f"axla.{name}")
    doc = ast.get_docstring(tree_of(path)) if path else None
    first = " ".join((doc or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")
    return first.replace("`", "")


def picture() -> str:
    rows = layers()
    parts = []
    for number, row in enumerate(rows):
        y, width = number * ROW, NAME / len(row)
        for place, name in enumerate(row):
            x = place * width
            parts.append(f'<rect x="{x + 1:g}" y="{y + 1}" width="{width - 2:g}" height="{ROW - 2}" rx="3"/>')
            parts.append(f'<text x="{x + width / 2:g}" y="{y + 17}" class="name">{name}</text>')
        what = about(row[0]) if len(row) == 1 else ""
        shown = what if len(what) <= 76 else what[:73].rsplit(" ", 1)[0] + " ..."
        parts.append(f'<text x="{NAME + 10}" y="{y + 17}">{html.escape(shown)}</text>')
    height = len(rows) * ROW
    drawn = "\n".join(parts)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    label = 'role="img" aria-label="The layers of axla, highest first"'
    return f'```{{raw}} html\n<div class="layers"><svg {size} {label}>\n{drawn}\n</svg></div>\n```'


def listed() -> str:
    """The layers as a table, with links to the packages."""
    lines = ["| layer | what it is |", "| --- | --- |"]
    for row in layers():
        for name in row:
            path = path_of(f"axla.{name}")
            assert path is not None, name
            lines.append(f"| [{name}](../../{path.relative_to(ROOT).as_posix()}) | {plain(about(name))} |")
    return "\n".join(lines)
