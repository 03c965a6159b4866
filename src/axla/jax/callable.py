"""A JAX function compiled by axla, called as the function is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from axla import api
from axla.core.errors import InvalidArgument
from axla.ir.graph import Module
from axla.jax.functions import Program, lowered, module_of
from axla.stablehlo.specialize import DynamicModule


class Function:
    """Takes the arguments that the function takes, without static ones; gives its result with `axla.Array`s
    for leaves. `module` is the program, `executable` what runs.
    """

    def __init__(self, program: Program, module: Module, executable: Any) -> None:
        self.module = module
        self.executable = executable
        self._program = program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        program = self._program
        if tree != program.in_tree:
            raise InvalidArgument(f"{self!r}: wanted arguments {program.in_tree}, found {tree}")
        parameters = self.module.entry.parameters
        given = [_array(leaves[k], p.shape) for k, p in zip(program.kept, parameters, strict=True)]
        return jax.tree_util.tree_unflatten(program.out_tree, self.executable.execute(given))

    def __repr__(self) -> str:
        return f"<axla.jax.Function {self.module.name}{self.module.entry.program_shape}>"


def _array(leaf: Any, shape: Any) -> Any:
    """A leaf as an array. A Python number has the type that the program has for it; 64-bit arrays are
    narrowed where JAX does that.
    """
    wanted = shape.dtype.numpy
    if isinstance(leaf, bool | int | float | complex):
        return np.asarray(leaf, wanted)
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return leaf
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)  # type: ignore[arg-type]
    array = np.asarray(leaf)
    narrowed = array.dtype != wanted and jax.dtypes.canonicalize_dtype(array.dtype) == wanted
    return array.astype(wanted) if narrowed else array


def compile(  # noqa: A001
    fn: Any, *args: Any, backend: str = "cpu", static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None, donate_argnums: int | Sequence[int] | None = None,
    x64: bool | None = None, **kwargs: Any,
) -> Function:  # fmt: skip
    """Compiles a JAX function for arguments like these (as `to_module` takes them)."""
    named = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
    }
    program = lowered(fn, args, kwargs, {n: v for n, v in named.items() if v is not None}, x64)
    module = module_of(program)
    if isinstance(module, DynamicModule):
        raise InvalidArgument(
            "axla.jax.compile: sizes are symbolic; give them as axla.compile(axla.jax.to_module(...), "
            "arg_types=...)"
        )
    return Function(program, module, api.compile(module, backend=backend))
