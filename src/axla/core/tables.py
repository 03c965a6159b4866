"""Tables of functions, whose keys are made from the functions' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def by_name(prefix: str, *functions: Callable[..., Any], between: str = "_") -> dict[str, Any]:
    """Maps names of operations to functions. The name is `prefix` and the function's name without outer
    underscores; `between` replaces the inner ones. So `_all_gather` becomes `stablehlo.all_gather`, or, with
    `between="-"`, `all-gather`.
    """
    return {prefix + f.__name__.strip("_").replace("_", between): f for f in functions}
