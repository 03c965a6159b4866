"""Colours text on a terminal, unless NO_COLOR (https://no-color.org) is set."""

from __future__ import annotations

import os
from typing import TextIO

RED, GREEN, YELLOW, CYAN, BOLD = "31", "32", "33", "36", "1"


def coloured(stream: TextIO) -> bool:
    """Whether to write colours to a stream."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def painted(text: str, colour: str, stream: TextIO) -> str:
    """A text in a colour, if the stream takes colours."""
    return f"\x1b[1;{colour}m{text}\x1b[0m" if coloured(stream) else text


def painted_diff(text: str, stream: TextIO) -> str:
    """A unified diff with added and removed lines in colours, if the stream takes them."""
    if not coloured(stream):
        return text
    colours = {"+": GREEN, "-": RED, "@": CYAN}
    lines = (f"\x1b[{colours[x[:1]]}m{x}\x1b[0m" if x[:1] in colours else x for x in text.split("\n"))
    return "\n".join(lines)
