"""Tables of functions by operation, in which names are not repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def by_name(prefix: str, *functions: Callable[..., Any], between: str = "_") -> dict[str, Any]:
    """Functions by their names: `_all_gather` becomes `stablehlo.all_gather` with that prefix, or
    `all-gather` with the dash `between` words.
    """
    return {prefix + f.__name__.strip("_").replace("_", between): f for f in functions}
