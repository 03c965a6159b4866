"""A pytest plugin that installs axla before the first case, after the test files have requested their
devices.

JAX's cases check that they do not change the configuration, so none of them may install axla.
"""

from __future__ import annotations


def pytest_collection_finish() -> None:
    from jax._src import xla_bridge

    from axla.jax.plugin import install

    if not xla_bridge.backends_are_initialized():
        install()
