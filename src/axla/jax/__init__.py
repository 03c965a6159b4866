"""JAX functions in: `axla.jax.to_module` gives their Module, `axla.jax.compile` runs them.

    import axla.jax
    module = axla.jax.to_module(predict, params, jax.ShapeDtypeStruct((8, 784), "float32"))
    step = axla.jax.compile(train_step, params, batch)   # called like train_step

This package alone imports JAX (`pip install "axla[jax]"`).
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    from axla.core.errors import missing

    raise ImportError(missing("axla.jax", "JAX", "jax"), name="jax") from error

from axla.jax.callable import Function, compile
from axla.jax.functions import NAMES, Names, names_of, to_module

__all__ = ["NAMES", "Function", "Names", "compile", "names_of", "to_module"]
