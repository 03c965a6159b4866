"""One program on the interpreter and on both backends that make code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

import axla

BACKENDS = ("cpu", "one-lane")


@lru_cache(maxsize=3)
def compiled(text: str, backend: str) -> axla.Executable:
    """Tests run one text on several inputs."""
    return axla.compile(axla.parse(text), backend=backend)


def agree(text: str, inputs: Sequence[np.ndarray], tolerance: float = 0.0) -> list[np.ndarray]:
    """Runs HLO text everywhere and compares with the interpreter, whose results it gives.

    `tolerance` is relative to the largest finite element of each result; NaN and infinities must be alike.
    """
    wanted = [np.asarray(x) for x in compiled(text, "interpreter").execute(inputs)]
    for backend in BACKENDS:
        found = compiled(text, backend).execute(inputs)
        for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
            near(np.asarray(a), b, tolerance, f"{backend}, result {number}")
    return wanted


def near(found: np.ndarray, wanted: np.ndarray, tolerance: float, what: str = "") -> None:
    """Refuses what differs by more than `tolerance` times the largest finite element."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), what
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted, err_msg=what)
        return
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    found, wanted = found.astype(wide), wanted.astype(wide)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite], err_msg=what)
    scale = np.abs(wanted[finite]).max() if finite.any() else 1.0
    np.testing.assert_allclose(found[finite], wanted[finite], 0, tolerance * max(scale, 1e-300), err_msg=what)
