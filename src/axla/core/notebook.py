"""The representation of axla's objects in a notebook, instead of text.

Pages are written by `axla.tools.page`, a higher layer, so it is imported by name, when a notebook first asks.
"""

from __future__ import annotations

import pkgutil
from typing import Any

PAGE = "axla.tools.page.notebook:html"


def html(thing: Any) -> str | None:
    """The HTML of a Module, an Executable or a Profile; None where there is only text."""
    return pkgutil.resolve_name(PAGE)(thing)
