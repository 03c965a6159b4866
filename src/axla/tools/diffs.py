"""Compares texts."""

from __future__ import annotations

import difflib


def diff(before: str, after: str) -> str:
    """The lines in which two texts differ, as a unified diff with one line of context around each change."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=1)
    return "\n".join(lines)
