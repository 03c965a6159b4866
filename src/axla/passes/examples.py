"""Examples of rewrite rules and their results: `scripts/verify-passes --examples` runs and writes them."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).with_name("examples.txt")


def examples() -> dict[str, str]:
    """`before => after` by the name of the rule."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {name: line for name, _, line in (text.partition(": ") for text in lines)}
