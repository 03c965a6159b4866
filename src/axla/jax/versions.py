"""The versions of JAX that `axla.jax` works with."""

from __future__ import annotations

import warnings

import jax
from jaxlib.version import __version__ as jaxlib_version

OLDEST, NEWEST = (0, 10), (0, 12)
"""The oldest and the newest series with which the tests run."""


def check_version(found: str = jax.__version__) -> None:
    """Raises ImportError for a JAX that is too old; warns of a series that is newer than the tested ones."""
    series = tuple(int(part) for part in found.split(".")[:2])
    tested = " to ".join(".".join(map(str, version)) for version in (OLDEST, NEWEST))
    text = f"axla.jax works with JAX {tested}; installed are jax {found} and jaxlib {jaxlib_version}"
    if series < OLDEST:
        raise ImportError(f'{text}: pip install --upgrade "axla[jax]"', name="jax")
    if series > NEWEST:
        warnings.warn(f"{text}, which are not tested", stacklevel=3)
