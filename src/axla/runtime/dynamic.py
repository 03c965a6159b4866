"""Calls of programs whose parameters or results have dynamic dimensions, such as `f32[<=8]`.

The compiled code uses arrays of the bounds, and takes the actual sizes as additional scalars
(`interface.sizes_of`). Callers pass and receive arrays of the actual sizes: an argument smaller than its
bound is copied to a larger array, and a result is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from axla.program.interface import Interface, sizes_of
from axla.runtime.arguments import check_count, check_donation, convert
from axla.runtime.array import Array, device_put


class DynamicCall:
    """Replaces the native call of a program with dynamic dimensions: accepts and returns arrays of actual
    sizes.
    """

    __slots__ = ("_call", "_interface", "_put", "_parameter_sizes", "_result_sizes", "_dynamic", "_donated")

    def __init__(
        self, call: Any, interface: Interface, put: Callable[[Any, int], Array] = device_put
    ) -> None:
        """Wraps the native call of a program. `put(values, device)` creates the array of a result."""
        self._call = call
        self._interface = interface
        self._put = put
        self._parameter_sizes = sizes_of(interface.parameters)
        self._result_sizes = sizes_of(interface.results)
        self._dynamic = tuple(dict.fromkeys(size.leaf for size in self._parameter_sizes))
        self._donated = interface.donated

    def __call__(self, *arguments: Any) -> Array | tuple[Array, ...]:
        """Runs the program. Arguments and results have their actual sizes."""
        return self._run(self._call, arguments)

    def with_flag(self, flag: int, *arguments: Any) -> Array | tuple[Array, ...]:
        """Runs the program as `__call__` does. It stops when the cancel flag at address `flag` is set."""
        return self._run(lambda *inner: self._call.with_flag(flag, *inner), arguments)

    def dispatch(self, loaded: Any, arguments: Sequence[Any], deadline: float | None) -> list[Array]:
        """Puts the run into the device's queue. Waits for its end if the sizes of results are only known
        then.
        """
        hand_over = loaded.queue.dispatch
        found = self._run(lambda *inner: hand_over(self._call, loaded, inner, deadline), arguments)
        return [found] if isinstance(found, Array) else list(found)

    def together(
        self, run: Callable[..., list[list[Array]]], programs: Any, rows: Sequence[Sequence[Any]], *more: Any
    ) -> list[list[Array]]:
        """Calls `run(programs, rows, *more)`, which runs all participants, with arrays of the bounds. `rows`
        has the arguments of each participant. Returns the results of each.
        """
        given = [self._bounded(row) for row in rows]
        try:
            found = run(programs, [inner for inner, _ in given], *more)
        finally:  # also if the run fails: arguments whose copies it consumed are deleted
            for mine, copy in (pair for _, donated in given for pair in donated):
                if copy.is_deleted:
                    mine.delete()
        return [self._results(row) for row in found]

    def _run(self, call: Any, arguments: Sequence[Any]) -> Array | tuple[Array, ...]:
        def run(programs: None, rows: Sequence[Sequence[Any]]) -> list[list[Array]]:
            found = call(*rows[0])
            return [[found] if isinstance(found, Array) else list(found)]

        (found,) = self.together(run, None, [arguments])
        return tuple(found) if isinstance(self._interface.result_tree, tuple) else found[0]

    def _bounded(self, arguments: Sequence[Any]) -> tuple[list[Any], list[tuple[Array, Array]]]:
        """Returns (arrays of the bounds followed by the actual sizes, pairs (donated argument, its copy))."""
        interface = self._interface
        check_count(interface, len(arguments))
        check_donation(interface, arguments, self._donated)
        inner = list(arguments)
        for leaf in self._dynamic:
            inner[leaf] = convert(interface, leaf, interface.parameters[leaf], arguments[leaf])
        sizes = [np.asarray(inner[s.leaf].shape[s.dimension], np.int32) for s in self._parameter_sizes]
        donated: list[tuple[Array, Array]] = []
        for leaf in self._dynamic:
            given, bounds = inner[leaf], interface.parameters[leaf].shape.dims
            if given.shape != bounds:
                inner[leaf] = _padded(given, bounds)
                if leaf in self._donated and isinstance(given, Array):
                    donated.append((given, inner[leaf]))
        return [*inner, *sizes], donated

    def _results(self, found: Sequence[Array]) -> list[Array]:
        interface = self._interface
        dims = [list(spec.shape.dims) for spec in interface.results]
        for size in self._result_sizes:
            bound = dims[size.leaf][size.dimension]
            dims[size.leaf][size.dimension] = max(0, min(int(found[size.number].to_numpy()), bound))
        return [self._cut(array, tuple(wanted)) for array, wanted in zip(found, dims, strict=False)]

    def _cut(self, array: Array, dims: tuple[int, ...]) -> Array:
        if array.shape == dims:
            return array
        return self._put(array.to_numpy()[tuple(map(slice, dims))], array.device)


def _padded(array: Array | np.ndarray, bounds: tuple[int, ...]) -> Array:
    """Copies an array to a larger one of the sizes `bounds`. The other elements are zero: they never affect
    results, but runs should not depend on earlier contents of memory.
    """
    values = array.to_numpy() if isinstance(array, Array) else array
    whole = np.zeros(bounds, values.dtype)
    whole[tuple(map(slice, values.shape))] = values
    return device_put(whole)
