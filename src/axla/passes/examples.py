"""Reads the examples of rewrite rules in examples.txt, which `scripts/verify-passes --examples` generates and
checks.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).with_name("examples.txt")


def examples() -> dict[str, str]:
    """Maps the name of each rule to its example, `before => after`."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {name: line for name, _, line in (text.partition(": ") for text in lines)}
