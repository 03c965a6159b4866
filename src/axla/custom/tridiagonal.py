"""The target that JAX emits for tridiagonal systems whose matrix may be singular.

It uses elimination with row exchanges, as LAPACK's xGTSV does. Pivots smaller than eps max |U| are replaced
by that size, so that the solution is finite: it is the solution for a nearby matrix.
"""

from __future__ import annotations

import numpy as np

from axla.core.errors import CustomCallFailure
from axla.custom.site import CallSite

TARGET = "tridiagonal_solve_perturbed_ffi"


def solve_perturbed(
    lower: np.ndarray, middle: np.ndarray, upper: np.ndarray, right: np.ndarray, *, site: CallSite
) -> np.ndarray:
    """Solves T x = right for batches of tridiagonal matrices T with these diagonals. The first element of
    `lower` and the last one of `upper` are padding.
    """
    alike = middle.shape == lower.shape == upper.shape == right.shape[:-1] and middle.ndim
    types = {v.dtype for v in (lower, middle, upper, right)}
    if not alike or len(types) > 1 or middle.dtype.kind not in "fc":
        raise CustomCallFailure(
            f"{site}: wanted three arrays [..., n] of floats or complex numbers, and one [..., n, k]"
        )
    n = middle.shape[-1]
    with np.errstate(all="ignore"):
        bands = [np.moveaxis(v, -1, 0) for v in (lower, middle, upper)]
        u, x = _eliminated(bands[0], bands[1], bands[2], np.moveaxis(right, -2, 0))
        info = np.finfo(middle.dtype)
        least = np.maximum(info.eps * np.abs(u).max((0, 1), initial=0.0), info.tiny)
        for i in reversed(range(n)):
            for above in range(1, min(3, n - i)):
                x[i] -= u[i, above][..., None] * x[i + above]
            size = np.abs(u[i, 0])
            moved = np.where(size == 0, least, u[i, 0] / np.where(size == 0, 1, size) * least)
            x[i] /= np.where(size < least, moved, u[i, 0])[..., None]
    return np.moveaxis(x, 0, -2)


def _eliminated(
    lower: np.ndarray, middle: np.ndarray, upper: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (u, x): u[i] has the diagonal element of row i of U and the two to the right of it; x is the
    right side after the same steps of elimination.
    """
    n = len(middle)
    u = np.zeros((n, 3, *middle.shape[1:]), middle.dtype)
    x = right.copy()
    u[:, 0] = middle
    u[:-1, 1] = upper[:-1]
    for i in range(n - 1):
        below = np.stack([lower[i + 1], u[i + 1, 0], u[i + 1, 1]])
        exchange = np.abs(below[0]) > np.abs(u[i, 0])
        row, rest = np.where(exchange, below, u[i]), np.where(exchange, u[i], below)
        first, second = (np.where(exchange[..., None], x[b], x[a]) for a, b in ((i, i + 1), (i + 1, i)))
        factor = np.where(row[0] == 0, 0, rest[0] / np.where(row[0] == 0, 1, row[0]))
        u[i], u[i + 1, :2] = row, rest[1:] - factor * row[1:]
        x[i], x[i + 1] = first, second - factor[..., None] * first
    return u, x
