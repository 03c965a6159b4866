"""Regular expressions that are compiled when they are first used, not when a module is imported."""

from __future__ import annotations

import re
import sys
from typing import Any, cast

_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)([*+?])\+")
_KEEPS_PARTS = sys.version_info < (3, 11, 5)
"""Before this version (CPython issue 106052), a group with a possessive quantifier keeps the part that it
matched before a repetition failed. For these versions `ascii_regex` makes the quantifier greedy.
"""


class _Late:
    """Acts as a `re.Pattern` that is compiled at its first use. Attributes of the pattern are stored here
    when first read.
    """

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)
        return found


def regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Returns a pattern that is compiled at its first use, which keeps imports fast."""
    return cast(Any, _Late(pattern, flags))


def ascii_regex(pattern: str) -> re.Pattern[str]:
    """As `regex`, but letters, digits and blanks are those of ASCII only, as in HLO and StableHLO."""
    return regex(_POSSESSIVE_GROUP.sub(r")\1", pattern) if _KEEPS_PARTS else pattern, re.ASCII)
