"""JAX functions in: `axla.jax.jit` runs them, `axla.jax.to_module` gives their Module.

    import axla.jax
    predict = axla.jax.jit(predict)                      # in the place of jax.jit
    module = axla.jax.to_module(predict, params, jax.ShapeDtypeStruct((8, 784), "float32"))
    step = axla.jax.compile(train_step, params, batch)   # called like train_step

This package alone imports JAX (`pip install "axla[jax]"`).
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    from axla.core.errors import missing

    raise ImportError(missing("axla.jax", "JAX", "jax"), name="jax") from error

from axla.jax.versions import check_version

check_version()

from axla.jax.callable import Function, compile  # noqa: E402
from axla.jax.functions import NAMES, Names, names_of, to_module  # noqa: E402
from axla.jax.jit import Jitted, jit  # noqa: E402

__all__ = ["NAMES", "Function", "Jitted", "Names", "compile", "jit", "names_of", "to_module"]
