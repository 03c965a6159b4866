"""`axla.jax.jit`: a JAX function that axla compiles for the arguments that it is called with."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, choices
from axla.jax.callable import Function, array_of
from axla.jax.functions import arrays_of, jitted, traced
from axla.jax.private import ArrayImpl, is_plain, result_maker, static_of, trace_context
from axla.runtime.array import Array

_SCALARS = frozenset({bool, int, float, complex})
_flatten, _unflatten = jax.tree_util.tree_flatten, jax.tree_util.tree_unflatten


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A function compiled for arguments of one kind: how its leaves become arrays, and its results leaves."""

    function: Function
    names: tuple[str, ...]
    convert: tuple[Callable[[Any], Any], ...]
    make: tuple[Callable[[Any], Any], ...]  # of results; empty: they stay axla's
    donated: set[int]
    out_tree: Any
    execute: Callable[[Any], Sequence[Array]]


class Jitted:
    """The function that `axla.jax.jit` returns; it is called like the original. Inside JAX's own
    transformations it is the function, jitted by JAX.
    """

    def __init__(
        self, fn: Callable[..., Any], options: dict[str, Any], x64: bool | None, backend: str, results: str
    ) -> None:
        if not callable(fn):
            raise InvalidArgument(f"axla.jax.jit: wanted a function, found {type(fn).__name__}")
        if results not in ("jax", "axla"):
            raise InvalidArgument(f"axla.jax.jit: results={results!r}; {choices(('jax', 'axla'))}")
        functools.update_wrapper(self, fn)
        self._name = getattr(fn, "__name__", type(fn).__name__)
        self._jitted = jitted(fn, options)
        self._static = static_of(self._jitted)
        self._x64, self._backend, self._results = x64, backend, results
        self._cache: dict[Any, _Compiled] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compiles for the types of the arguments where that is new, and runs; inside of JAX's
        transformations JAX does.
        """
        if not is_plain():
            return self._jitted(*args, **kwargs)
        if self._x64 is None:
            return self._call(args, kwargs)
        with jax.enable_x64(self._x64):
            return self._call(args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<axla.jax.jit {self._name}>"

    def compiled(self, *args: Any, **kwargs: Any) -> Function:
        """The compiled program for arguments like these: its `module` and `executable`."""
        with contextlib.nullcontext() if self._x64 is None else jax.enable_x64(self._x64):
            return self._find(args, kwargs)[0].function

    def clear_cache(self) -> None:
        """Forgets what was compiled."""
        self._cache.clear()

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        compiled, leaves = self._find(args, kwargs)
        try:
            given = [convert(leaf) for convert, leaf in zip(compiled.convert, leaves, strict=True)]
        except Exception as error:
            raise self._refused(compiled, leaves, error) from error
        if compiled.donated:
            self._check_donated(compiled, leaves)
        found = compiled.execute(given)
        for number in compiled.donated:
            if isinstance(leaves[number], jax.Array):
                leaves[number].delete()
        if compiled.make:
            found = [make(array) for make, array in zip(compiled.make, found, strict=True)]
        return _unflatten(compiled.out_tree, found)

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Compiled, list[Any]]:
        """The program for arguments, and their leaves that are not static."""
        numbers, names = self._static
        if numbers or names:
            static, dynamic = self._split(args, kwargs)
        else:
            static, dynamic = (), (args, kwargs)
        leaves, tree = _flatten(dynamic)
        kinds = [leaf.aval if type(leaf) is ArrayImpl else _kind(leaf) for leaf in leaves]
        key = (tree, static, trace_context(), *kinds)
        try:
            found = self._cache.get(key)
        except TypeError as error:
            raise self._not_hashable(static, error) from error
        if found is None:
            found = self._cache[key] = self._compile(args, kwargs, leaves)
        return found, leaves

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The static arguments, with their types since 1 == True, and the others."""
        numbers, names = self._static
        fixed = {n % len(args) for n in numbers if -len(args) <= n < len(args)}
        static = [(n, type(args[n]), args[n]) for n in sorted(fixed)]
        static += [(name, type(kwargs[name]), kwargs[name]) for name in names if name in kwargs]
        others = {name: value for name, value in kwargs.items() if name not in names}
        return tuple(static), (tuple(a for n, a in enumerate(args) if n not in fixed), others)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> _Compiled:
        if any(isinstance(leaf, Array) for leaf in leaves):
            args, kwargs = jax.tree_util.tree_map(_traceable, (args, kwargs))
        program = traced(self._jitted, args, kwargs)
        function = Function(program, self._backend)
        shapes = [p.shape for p in arrays_of(function.module)]
        return _Compiled(
            function,
            program.names.arguments,
            tuple(_converter(leaf, shape, program.x64) for leaf, shape in zip(leaves, shapes, strict=True)),
            tuple(map(result_maker, program.results)) if self._results == "jax" else (),
            function.executable.interface.donated,
            program.out_tree,
            function.executable.execute,
        )

    def _refused(self, compiled: _Compiled, leaves: list[Any], error: Exception) -> InvalidArgument:
        """The error of the first leaf that cannot be an array."""
        for name, convert, leaf in zip(compiled.names, compiled.convert, leaves, strict=True):
            try:
                convert(leaf)
            except Exception as found:
                return InvalidArgument(f"{self._name}: argument {name}: {found}")
        return InvalidArgument(f"{self._name}: {error}")

    def _check_donated(self, compiled: _Compiled, leaves: list[Any]) -> None:
        places: dict[int, int] = {}
        for number, leaf in enumerate(leaves):
            first = places.setdefault(id(leaf), number)
            if first != number and isinstance(leaf, jax.Array | Array) and {first, number} & compiled.donated:
                names = f"{compiled.names[first]} and {compiled.names[number]}"
                raise InvalidArgument(f"{self._name}: {names} are one array, which is donated")

    def _not_hashable(self, static: Any, error: TypeError) -> Exception:
        for place, kind, value in static:
            try:
                hash(value)
            except TypeError:
                what = f"of type {kind.__name__}: static arguments must be hashable"
                return InvalidArgument(f"{self._name}: static argument {place!r} is {what}")
        return error


def _kind(leaf: Any) -> Any:
    """The facts of an argument that a program depends on: its type, weak or not, or the type of
    a Python number.
    """
    kind = type(leaf)
    if isinstance(leaf, jax.Array):
        return leaf.aval
    if kind in _SCALARS:
        return kind
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype, leaf.shape
    if isinstance(leaf, Array):
        return leaf.xla_shape
    return kind, getattr(leaf, "shape", None), getattr(leaf, "dtype", None)


def _traceable(leaf: Any) -> Any:
    """An array of axla as JAX traces it."""
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, Array) else leaf


def _converter(leaf: Any, shape: Any, x64: bool) -> Callable[[Any], Any]:
    """How leaves of a kind become arrays that the program takes."""
    wanted = shape.dtype.numpy
    if type(leaf) is ArrayImpl:
        return np.asarray
    if isinstance(leaf, Array) or (isinstance(leaf, np.ndarray) and leaf.dtype == wanted):
        return _same
    if type(leaf) in _SCALARS or isinstance(leaf, np.ndarray | np.generic):
        return functools.partial(np.asarray, dtype=wanted)
    return lambda leaf: array_of(leaf, shape, x64)


def _same(leaf: Any) -> Any:
    return leaf


def jit(
    fn: Callable[..., Any] | None = None, *, static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None, x64: bool | None = None, backend: str = "cpu",
    results: str = "jax",
) -> Any:  # fmt: skip
    """A JAX function that runs on axla, compiled for the types of the arguments of each call, once for each.

    Options are those of `jax.jit`. Results are `jax.Array`s on the first CPU device, over axla's memory; with
    `results="axla"` they are axla's. Donated arrays are deleted by the call; their memory is used again where
    they are axla's. `x64` turns 64-bit types on or off; else they are as JAX is configured.

    Without a function it is a decorator.
    """
    given = {
        "static_argnums": static_argnums, "static_argnames": static_argnames,
        "donate_argnums": donate_argnums, "donate_argnames": donate_argnames,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    if fn is None:
        return lambda fn: Jitted(fn, options, x64, backend, results)
    return Jitted(fn, options, x64, backend, results)
