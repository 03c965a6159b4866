"""Observers of running passes (`driver.Observer`), in a module of their own so that importing it loads no
passes.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

OBSERVER: ContextVar[Any] = ContextVar("observer", default=None)
"""Of this thread; None for nobody. It may leave passes out, so what is compiled meanwhile is not kept."""
