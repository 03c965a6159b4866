"""The current observer of passes (`driver.Observer`). It is in a module of its own so that importing it does
not import the passes.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

OBSERVER: ContextVar[Any] = ContextVar("observer", default=None)
"""The observer of this thread, or None. It may skip passes, so programs compiled while it is set are not
cached.
"""
