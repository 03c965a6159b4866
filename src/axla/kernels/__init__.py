"""The kinds of kernels, a file for each or for a family (`kinds.py` lists them): what a kind matches, what
fusion may put into its kernels and why not, and how they are planned. What writes their code is named there.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from warnings import warn

from axla.core import plugins
from axla.core.errors import AxlaError

ENTRY_POINTS = "axla.kernels"
"""The group of the entry points of packages that have kinds of kernels. Object: the class."""

ADDED: list[Any] = []
"""The kinds that this process registered, the last one first."""


@cache
def installed() -> tuple[Any, ...]:
    """The kinds of packages that are installed, loaded now. A warning names one that cannot be used."""
    from axla.kernels.kinds import checked, own

    found: list[Any] = []
    for name, entry in plugins.installed(ENTRY_POINTS).items():
        try:
            with plugins.blamed(f"the kind of kernels {name!r} of {entry.value} cannot be loaded", passed=()):
                found.append(checked(entry.load(), (*found, *own())))
        except AxlaError as error:
            warn(error.message, RuntimeWarning, stacklevel=2)
    return tuple(found)
