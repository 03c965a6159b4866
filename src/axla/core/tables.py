"""Tables of functions, one for each operation, that do not name each twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def by_name(prefix: str, *functions: Callable[..., Any], between: str = "_") -> dict[str, Any]:
    """Functions by what they are called after: `_all_gather` is there as `stablehlo.all_gather` with that
    prefix, or as `all-gather` where names have a dash `between` their words.
    """
    return {prefix + f.__name__.strip("_").replace("_", between): f for f in functions}
