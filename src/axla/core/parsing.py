"""Works around thread-safety bugs of Python's parser.

Before Python 3.11.8 and 3.12.2 it counts recursion depth for all threads together, and a garbage collection
inside it lets another thread parse: then `ast.parse` raises SystemError (python/cpython issue 106905). Texts
of tracebacks are made with it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def undisturbed(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function that parses; it is called again if another thread interfered."""
    while True:
        try:
            return function(*arguments)
        except SystemError as error:
            if "AST constructor" not in str(error):
                raise
