"""Pages in notebooks: a Module, an Executable or a Profile is shown in a frame."""

from __future__ import annotations

from typing import Any

from axla.backends import Executable
from axla.core.errors import AxlaError
from axla.core.profile import Profile
from axla.ir.graph import Module
from axla.tools.page import runs, stages
from axla.tools.page.html import frame

MOST = 20_000
"""The most instructions of a module that a notebook shows; a page in a file can have more."""


def html(thing: Module | Executable | Profile) -> str | None:
    """The HTML element for an object; None if there is nothing to show, so that the notebook prints text."""
    try:
        data = _data(thing)
    except AxlaError:  # a module without sizes, an executable without a module
        return None
    return None if data is None else frame(data)


def _data(thing: Module | Executable | Profile) -> dict[str, Any] | None:
    if isinstance(thing, Profile):
        names = ", ".join(run.program for run in thing.runs)
        return {**_EMPTY, "title": names or "profile", "profile": runs.of_profile(thing)}
    if isinstance(thing, Module):
        if not thing.has_entry or sum(len(c.instructions) for c in thing.computations) > MOST:
            return None
        return stages.of_module(thing)
    if "program" not in thing.stages:
        return stages.of_module(thing._optimized())
    from axla.tools.page.compiled import of_executable

    return of_executable(thing)


_EMPTY = {"notes": [], "records": [], "stages": [], "equations": {}}
