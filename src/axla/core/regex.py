"""Regular expressions that are compiled when they are first used, not when a module is imported."""

from __future__ import annotations

import re
from typing import Any, cast


class _Late:
    """A `re.Pattern` to be. What is asked of it is kept here, so that later uses cost nothing more."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern that is compiled when it is first used: imports stay fast."""
    return cast(Any, _Late(pattern, flags))
