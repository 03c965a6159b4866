"""`axla.jax.jit`: compiles a JAX function for the arguments of each call."""

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
    """A function compiled for certain types of arguments. `convert` has a function for each argument leaf
    that makes it an array; `make` has one for each result that makes it a `jax.Array`.
    """

    function: Function
    names: tuple[str, ...]
    convert: tuple[Callable[[Any], Any], ...]
    make: tuple[Callable[[Any], Any], ...]  # for results; empty if they stay axla's arrays
    donated: set[int]
    out_tree: Any
    execute: Callable[[Any], Sequence[Array]]


class Jitted:
    """The function that `axla.jax.jit` returns; it is called like the original. Inside JAX's transformations,
    it behaves like the result of `jax.jit`.
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
        """Runs the function; compiles it first if the types of the arguments are new. Inside JAX's
        transformations, JAX runs it.
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
        """The compiled program for arguments like these; it has a `module` and an `executable`."""
        with contextlib.nullcontext() if self._x64 is None else jax.enable_x64(self._x64):
            return self._find(args, kwargs)[0].function

    def clear_cache(self) -> None:
        """Deletes all compiled programs."""
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
        """Returns the compiled program for the arguments, and the leaves of those that are not static."""
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
        """Returns the static arguments and the others. A static argument has its type beside it, since 1 ==
        True.
        """
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
        """The error for the first leaf that cannot be converted to an array; if all can, the error for
        `error`.
        """
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
    """The properties of an argument leaf that a program depends on: its type and whether it is weak, or the
    class of a Python number.
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
    """Replaces an array of axla with its shape and element type, which JAX can trace."""
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, Array) else leaf


def _converter(leaf: Any, shape: Any, x64: bool) -> Callable[[Any], Any]:
    """Returns a function that converts leaves of the kind of `leaf` to arrays for a parameter of the shape
    `shape`.
    """
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
    """Makes a JAX function run on axla. It is compiled once for each combination of argument types.

    Options are those of `jax.jit`. Results are `jax.Array`s on the first CPU device, in axla's memory; with
    `results="axla"` they are `axla.Array`s. A call deletes donated arrays, and reuses the memory of those
    that are `axla.Array`s. `x64` turns 64-bit types on or off; by default the configuration of JAX decides.

    Without a function it returns a decorator.
    """
    given = {
        "static_argnums": static_argnums, "static_argnames": static_argnames,
        "donate_argnums": donate_argnums, "donate_argnames": donate_argnames,
    }  # fmt: skip
    options = {name: value for name, value in given.items() if value is not None}
    if fn is None:
        return lambda fn: Jitted(fn, options, x64, backend, results)
    return Jitted(fn, options, x64, backend, results)
