"""Measures the work of Python code in function calls, a number that is equal on all machines, busy or not."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls(function: Callable[[], object]) -> int:
    """The number of calls of Python's and built-in functions while `function` runs."""
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
