"""Compiles JAX functions: `axla.jax.jit` runs them, `axla.jax.to_module` returns their Module.

    import axla.jax
    predict = axla.jax.jit(predict)                      # in the place of jax.jit
    module = axla.jax.to_module(predict, params, jax.ShapeDtypeStruct((8, 784), "float32"))
    step = axla.jax.compile(train_step, params, batch)   # called like train_step
    axla.jax.install()                                   # axla as the CPU backend of JAX

Only this package imports JAX (`pip install "axla[jax]"`). JAX imports this package in every process, because
of its plugin: a name is therefore imported, and the version of JAX checked, when the name is first used.
"""

import typing as _typing

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    from axla.core.errors import missing

    raise ImportError(missing("axla.jax", "JAX", "jax"), name="jax") from error

if _typing.TYPE_CHECKING:
    from axla.jax.callable import Function, compile
    from axla.jax.functions import NAMES, Names, names_of, to_module
    from axla.jax.jitted import Jitted, jit
    from axla.jax.plugin import install

_HOMES = {
    "Function": "callable", "compile": "callable", "NAMES": "functions", "Names": "functions",
    "names_of": "functions", "to_module": "functions", "Jitted": "jitted", "jit": "jitted",
    "install": "plugin",
}  # fmt: skip

__all__ = ["NAMES", "Function", "Jitted", "Names", "compile", "install", "jit", "names_of", "to_module"]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'axla.jax' has no attribute {name!r}")
    from axla.jax.versions import check_version

    check_version()
    found = getattr(import_module(f"axla.jax.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
