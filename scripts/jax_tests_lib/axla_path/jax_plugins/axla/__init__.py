"""Makes JAX find axla on the path, if axla is not installed: it has the module name that JAX searches for."""

from axla.jax.plugin import initialize

__all__ = ["initialize"]
