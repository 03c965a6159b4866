"""Where JAX finds axla that is not installed: on the path, as an entry point would name it."""

from axla.jax.plugin import initialize

__all__ = ["initialize"]
