#!/usr/bin/env python3
"""Draws docs/overview.svg, the figure in the README: python scripts/picture.py."""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "overview.svg"
SOURCES = ("JAX functions", "TensorFlow graphs", "HLO, StableHLO", "Python builders")
STAGES = (
    ("read, verify", "modules of HLO"),
    ("optimise", "passes and rewrite rules"),
    ("plan", "kernels, memory, order"),
    ("generate code", "LLVM"),
)
RESULTS = (
    ("machine code, called at once", "from Python, JAX, TensorFlow"),
    ("C library", "servers, the web, microcontrollers"),
    ("program for a device", "OpenCL, CUDA, a backend of yours"),
)
GREEN, BLUE, YELLOW = "#d9efdf", "#dde8f7", "#fbeccb"


def box(x: int, y: int, width: int, height: int, colour: str, title: str, about: str = "") -> str:
    middle, line = x + width // 2, y + height // 2 + (5 if not about else -3)
    text = f'<text x="{middle}" y="{line}" font-weight="600">{escape(title)}</text>'
    if about:
        text += f'<text x="{middle}" y="{line + 18}" font-size="12">{escape(about)}</text>'
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<rect {place} rx="6" fill="{colour}" stroke="#6b7785"/>{text}'


def arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    return f'<path d="M{x} {y} L{to_x} {to_y}" stroke="#6b7785" fill="none" marker-end="url(#tip)"/>'


def picture() -> str:
    parts = []
    for k, source in enumerate(SOURCES):
        y = 30 + 64 * k
        parts += [box(8, y, 166, 44, YELLOW, source), arrow(174, y + 22, 226, 150)]
    parts.append('<rect x="232" y="10" width="220" height="280" rx="8" fill="none" stroke="#9aa5b1"/>')
    for k, (title, about) in enumerate(STAGES):
        y = 24 + 66 * k
        parts.append(box(246, y, 192, 50, GREEN, title, about))
        if k:
            parts.append(arrow(342, y - 16, 342, y - 3))
    for k, (title, about) in enumerate(RESULTS):
        y = 30 + 86 * k
        parts += [arrow(452, 150, 510, y + 27), box(516, y, 248, 54, BLUE, title, about)]
    parts.append(
        box(516, 298, 248, 54, "#f3e3ee", "interpreter: NumPy", "defines what is right; checks the rest")
    )
    parts.append(arrow(342, 290, 342, 325).replace(' marker-end="url(#tip)"', "") + arrow(342, 325, 510, 325))
    body = "\n".join(parts)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 364" font-family="Helvetica, sans-serif" '
        'font-size="14" text-anchor="middle" role="img">\n'
        "<title>What axla reads and writes</title>\n"
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#6b7785"/></marker></defs>\n'
        f'<rect width="780" height="364" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
