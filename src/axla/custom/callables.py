"""Calls of Python functions by programs, with NumPy arrays. The results are checked against the declared
shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from axla.core.errors import Cancelled, CustomCallFailure, DeadlineExceeded
from axla.core.shape import AnyShape, Shape, show
from axla.custom.built_in import BUILT_IN
from axla.custom.registry import keywords_of
from axla.custom.site import CallSite, flatten, nest


class PythonCall:
    """Calls a Python function for one call site. Operands and results are lists of leaves, with None for
    tokens.
    """

    __slots__ = ("function", "site", "keywords", "_results")

    def __init__(self, function: Callable[..., Any], site: CallSite) -> None:
        self.function = function
        self.site = site
        self.keywords = keywords_of(function, site)
        self._results = site.result_leaves

    def __call__(self, leaves: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
        """Calls the function and returns the leaves of its result. An exception of the function becomes a
        CustomCallFailure that names the call.
        """
        rest: Iterator[Any] = iter([_read_only(leaf) for leaf in leaves])
        arguments = [nest(shape, rest) for shape in self.site.operands]
        try:
            found = self.function(*arguments, **self.keywords)
        except (Cancelled, DeadlineExceeded):
            raise
        except Exception as error:
            if self.function in BUILT_IN.values():
                raise
            raise CustomCallFailure(f"{self.site}: {type(error).__name__}: {error}") from error
        try:
            values = flatten(self.site.result, found)
        except ValueError as error:
            raise CustomCallFailure(f"{self.site}: {error}") from None
        return [self._checked(n, s, v) for n, (s, v) in enumerate(zip(self._results, values, strict=True))]

    def _checked(self, number: int, shape: AnyShape, value: Any) -> np.ndarray | None:
        """Returns a leaf of the result as an array. CustomCallFailure unless it has exactly the declared
        element type and sizes.
        """
        place = "the result" if len(self._results) == 1 else f"result {number}"
        if not isinstance(shape, Shape):
            if value is not None:
                kind = show(shape)
                raise CustomCallFailure(
                    f"{self.site}: {place} is of type {type(value).__name__}, wanted None for a {kind}"
                )
            return None
        wanted = show(shape)
        try:
            array = np.asarray(value)
        except Exception as error:  # conversion may call any code of the object
            raise CustomCallFailure(f"{self.site}: {place} is not an array: {error}") from error
        if array.dtype != shape.dtype.numpy or array.shape != shape.dims:
            found = f"{array.dtype}{list(array.shape)}"
            if value is None:
                found = "None"
            raise CustomCallFailure(f"{self.site}: {place} is {found}, wanted {wanted}")
        return array


def _read_only(leaf: np.ndarray | None) -> np.ndarray | None:
    if leaf is None or not leaf.flags.writeable:
        return leaf
    view = leaf.view()
    view.flags.writeable = False
    return view
