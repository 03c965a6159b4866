"""Observers of running passes (`driver.Observer`): apart from the driver, for modules that run no passes."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

OBSERVER: ContextVar[Any] = ContextVar("observer", default=None)
"""Of this thread; None for nobody. It may leave passes out, so what is compiled meanwhile is not kept."""
