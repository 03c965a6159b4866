"""`axla.jax.compile`: compiles a JAX function for fixed types of arguments; the result is called like the
function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from axla import api
from axla.backends.binding import with_constants
from axla.core.errors import InvalidArgument
from axla.ir.graph import Module
from axla.ir.structure import Parameter
from axla.ir.typed import op_of
from axla.jax.functions import LoweredFunction, Names, arrays_of, lowered, module_of
from axla.jax.handlers import register_handlers_of
from axla.pjrt.callbacks import attach
from axla.stablehlo.modules import DynamicModule


class Function:
    """A compiled JAX function, called like the original, by position or by name. A static argument must have
    the value that it had at compilation, or be left out. The result has `axla.Array`s for leaves. `module` is
    the program as HLO, `executable` the native code.

    A call raises InvalidArgument with the name of an argument that is missing, static with another value,
    unknown, or of another structure or shape.
    """

    def __init__(
        self, program: LoweredFunction, backend: str = "cpu", call: _Call | None = None,
        weights: Mapping[int, Any] | None = None,
    ) -> None:  # fmt: skip
        """Compiles a lowered function. `call` is the call that it was lowered for; None if later calls are
        passed as they are. `weights` has argument leaves, by number, that are constants of the program.
        """
        module = module_of(program)
        if isinstance(module, DynamicModule):
            raise InvalidArgument(
                "axla.jax.compile: sizes are symbolic; give them as axla.compile(axla.jax.to_module(...), "
                "arg_types=...)"
            )
        self._weights = weights or {}
        self._kept = [k for k in program.kept if k not in self._weights]
        if self._weights:
            kept = zip(program.kept, arrays_of(module), strict=True)
            chosen = [
                (op_of(p, Parameter).parameter_number, k, p.shape) for k, p in kept if k in self._weights
            ]
            arrays = [(n, array_of(self._weights[k], shape, program.x64)) for n, k, shape in chosen]
            module = with_constants(module, arrays)
        register_handlers_of(module)
        self._callbacks = attach(module)
        if self._callbacks is not None:
            self._callbacks.functions = [partial(_called_back, program.x64, f) for f in program.functions]
        self.module: Module = module
        self.executable = api.compile(module, backend=backend)
        self._program = program
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program. Arguments and result are pytrees, as in the original function."""
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        program = self._program
        if tree != program.in_tree and self._call is not None:
            leaves, tree = jax.tree_util.tree_flatten(self._call.arranged(self.module.name, args, kwargs))
        if tree != program.in_tree:
            raise InvalidArgument(f"{self!r}: wanted arguments {program.in_tree}, found {tree}")
        for k, weight in self._weights.items():
            if leaves[k] is not weight:
                place = program.names.arguments[k]
                raise InvalidArgument(
                    f"{self!r}: {place} is a static weight: found another array than at compilation"
                )
        given = [
            array_of(leaves[k], p.shape, program.x64)
            for k, p in zip(self._kept, arrays_of(self.module), strict=True)
        ]
        return jax.tree_util.tree_unflatten(program.out_tree, self.executable.execute(given))

    def __repr__(self) -> str:
        return f"<axla.jax.Function {self.module.name}{self.module.entry.program_shape}>"


def _called_back(x64: bool, function: Callable[..., Any], *arrays: Any) -> Any:
    """Calls a function on any thread, with 64-bit types on or off as they were when the program was
    traced.
    """
    with jax.enable_x64(x64):
        return function(*arrays)


class _Call:
    """The call for which a function was compiled: its signature, its static arguments and the pytrees of the
    others.
    """

    def __init__(self, signature: inspect.Signature, args: Any, kwargs: dict[str, Any], names: Names) -> None:
        given = signature.bind(*args, **kwargs).arguments
        self.used = set(map(_argument, names.arguments))
        self.signature = signature
        self.positional, self.named = list(signature.parameters)[: len(args)], list(kwargs)
        self.weights: dict[str, Any] = {}  # arguments that are constants of the program, by name
        self.static = {n: v for n, v in given.items() if n not in self.used and jax.tree_util.tree_leaves(v)}
        self.trees = {n: jax.tree_util.tree_structure(v) for n, v in given.items() if n not in self.static}

    def arranged(self, function: str, args: Any, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Returns the arguments of a later call, without static arguments, by position and by name as they
        were in the call of this object. Raises InvalidArgument, which names the function `function`, if the
        arguments differ in structure or in static values.
        """
        try:
            given = self.signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidArgument(f"{function}: {error}") from None
        defaults = {n: p.default for n, p in self.signature.parameters.items()}
        values = defaults | self.static | self.weights | given
        for name in given:
            fixed = self.static.get(name, self.signature.parameters[name].default)
            if name not in self.trees and not (given[name] is fixed or np.array_equal(given[name], fixed)):
                found = f"compiled for {name}={fixed!r}, found {given[name]!r}"
                raise InvalidArgument(f"{function}: {name} is static: {found}")
        for name, wanted in self.trees.items():
            if values[name] is inspect.Parameter.empty:
                raise InvalidArgument(f"{function}: missing argument {name!r}")
            found = jax.tree_util.tree_structure(values[name])
            if found != wanted:
                raise InvalidArgument(f"{function}: {name}: wanted {wanted}, found {found}")
        return (
            tuple(values[n] for n in self.positional if n in self.trees),
            {n: values[n] for n in self.named if n in self.trees},
        )


def _call_of(fn: Any, args: Any, kwargs: dict[str, Any], names: Names) -> _Call | None:
    """The call of the function `fn` with these arguments; None if the signature of `fn` does not name every
    argument.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return None
    kinds = {p.kind for p in signature.parameters.values()}
    several = kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    call = None if several else _Call(signature, args, kwargs, names)
    return call if call is not None and call.used <= {*signature.parameters} else None


def array_of(leaf: Any, shape: Any, x64: bool) -> Any:
    """Converts an argument leaf to an array for a parameter of this shape. A Python number gets the element
    type of the parameter. Without `x64`, 64-bit arrays are narrowed as JAX narrowed them at compilation.
    """
    wanted = shape.dtype.numpy
    if isinstance(leaf, Tracer):
        raise InvalidArgument(
            f"axla's programs take arrays, found a tracer of JAX, {leaf}: call them outside jit, grad, vmap"
        )
    if isinstance(leaf, bool | int | float | complex):
        return np.asarray(leaf, wanted)
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return leaf
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)  # type: ignore[arg-type]
    array = np.asarray(leaf)
    if array.dtype != wanted and not x64:
        with jax.enable_x64(False):
            if jax.dtypes.canonicalize_dtype(array.dtype) == wanted:
                return array.astype(wanted)
    return array


def _weights_of(call: _Call | None, names: Names, chosen: Any, args: Any, kwargs: Any) -> dict[int, Any]:
    """Evaluates the option `static_weights`, whose value is `chosen`. Returns the argument leaves that it
    selects, by their number.
    """
    listed: list[Any] = [chosen]
    if isinstance(chosen, Iterable) and not isinstance(chosen, str):
        listed = list(chosen)
    if call is None:
        raise InvalidArgument("axla.jax.compile: static_weights: wanted a function with named arguments")
    given = call.signature.bind(*args, **kwargs).arguments
    for one in listed:
        counted = type(one) is int and -len(call.positional) <= one < len(call.positional)
        name = call.positional[one] if counted else one
        if not isinstance(name, str) or name not in call.trees:
            known = f"wanted numbers or names of arguments that are not static, {list(call.trees)}"
            raise InvalidArgument(f"axla.jax.compile: static_weights has {one!r}; {known}")
        call.weights[name] = given[name]
    leaves = jax.tree_util.tree_leaves(call.arranged("axla.jax.compile", args, kwargs))
    found = {k: leaves[k] for k, path in enumerate(names.arguments) if _argument(path) in call.weights}
    for k, leaf in found.items():
        if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
            place = f"{names.arguments[k]} is {type(leaf).__name__}"
            raise InvalidArgument(f"axla.jax.compile: static_weights: {place}, wanted an array")
    return found


def _argument(path: str) -> str:
    """The name of the argument that contains the leaf with this path."""
    return path.partition("[")[0].partition(".")[0]


def compile(  # noqa: A001
    fn: Any, *args: Any, backend: str = "cpu", static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
    x64: bool | None = None, static_weights: int | str | Iterable[int | str] = (), **kwargs: Any,
) -> Function:  # fmt: skip
    """Compiles a JAX function for arguments like these (as `to_module` takes them).

    `static_weights`: arguments, by number or name, whose arrays never change. They are constants of the
    program, laid out once in the order in which it reads them. A call passes the same arrays or leaves them
    out; writing into them after compilation has no effect.
    """
    program = lowered(fn, args, kwargs, (static_argnums, static_argnames, donate_argnums), x64)
    call, weights = _call_of(fn, args, kwargs, program.names), None
    if static_weights != ():
        weights = _weights_of(call, program.names, static_weights, args, kwargs)
    return Function(program, backend, call, weights)
