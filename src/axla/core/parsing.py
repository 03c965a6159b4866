"""Works around a bug of Python's parser with threads.

Before Python 3.11.8 and 3.12.2, the parser counts recursion depth for all threads together. A garbage
collection inside it can let another thread parse; then `ast.parse` raises SystemError (python/cpython issue
106905). Formatting a traceback also calls the parser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def undisturbed(function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function that uses Python's parser, again and again while it fails because of another thread;
    returns its result.
    """
    while True:
        try:
            return function(*arguments)
        except SystemError as error:
            if "AST constructor" not in str(error):
                raise
