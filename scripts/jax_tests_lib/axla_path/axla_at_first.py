"""A pytest plugin: installs axla before the first case, when the files have asked for their devices.

JAX's cases check that they leave the configuration alone, so none of them may be the one that installs axla.
"""

from __future__ import annotations


def pytest_collection_finish() -> None:
    from jax._src import xla_bridge

    from axla.jax.plugin import install

    if not xla_bridge.backends_are_initialized():
        install()
