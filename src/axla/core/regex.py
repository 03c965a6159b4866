"""Regular expressions that are compiled when they are first used, not when a module is imported."""

from __future__ import annotations

import re
import sys
from typing import Any, cast

_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)([*+?])\+")
_KEEPS_PARTS = sys.version_info < (3, 11, 5)
"""Before this version (CPython issue 106052), a group with a possessive quantifier keeps what it matched of a
repetition that failed. There `ascii_regex` makes the quantifier greedy.
"""


class _Late:
    """A `re.Pattern` that is compiled at its first use; attributes that were asked for once are kept here."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern that is compiled when it is first used: imports stay fast."""
    return cast(Any, _Late(pattern, flags))


def ascii_regex(pattern: str) -> re.Pattern[str]:
    """As `regex`, with letters, digits and blanks of ASCII only, as in HLO and StableHLO."""
    return regex(_POSSESSIVE_GROUP.sub(r")\1", pattern) if _KEEPS_PARTS else pattern, re.ASCII)
