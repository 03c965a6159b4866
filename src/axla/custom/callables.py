"""Calls of Python functions: NumPy arrays in and out, checked against what the program declares."""

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
    """A Python function at one call site. Takes and gives leaves; None for tokens."""

    __slots__ = ("function", "site", "keywords", "_results")

    def __init__(self, function: Callable[..., Any], site: CallSite) -> None:
        self.function = function
        self.site = site
        self.keywords = keywords_of(function, site)
        self._results = site.result_leaves

    def __call__(self, leaves: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
        """The result's leaves. CustomCallFailure names the call; its cause is what the function raised."""
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
        """A leaf of the result, which must be of exactly the declared shape and element type."""
        place = "the result" if len(self._results) == 1 else f"result {number}"
        if not isinstance(shape, Shape):
            if value is not None:
                kind = show(shape)
                raise CustomCallFailure(
                    f"{self.site}: {place} is of type {type(value).__name__}; of a {kind} there is only None"
                )
            return None
        wanted = show(shape)
        try:
            array = np.asarray(value)
        except Exception as error:  # an object may do anything when asked for an array
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
