"""Shows axla's objects as HTML in notebooks.

The HTML is written by `axla.tools.page`. That package depends on this one, so it is imported by name when a
notebook first needs it.
"""

from __future__ import annotations

import pkgutil
from typing import Any

PAGE = "axla.tools.page.notebook:html"


def html(thing: Any) -> str | None:
    """Returns the HTML for a Module, an Executable or a Profile; None if only its text can be shown."""
    return pkgutil.resolve_name(PAGE)(thing)
