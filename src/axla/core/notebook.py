"""How objects of axla are shown in a notebook, instead of their text.

The page is written by `axla.tools.page`, above everything that it shows: so it is imported by its name, and
not before a notebook asks.
"""

from __future__ import annotations

import pkgutil
from typing import Any

PAGE = "axla.tools.page.notebook:html"


def html(thing: Any) -> str | None:
    """The HTML of a Module, an Executable or a Profile; None where there is only text."""
    return pkgutil.resolve_name(PAGE)(thing)
