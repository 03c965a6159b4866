"""Random floats with constant seeds. TensorFlow computes these before XLA sees them, with its CPU kernels,
which derive other numbers from the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from axla.core.dtypes import BF16, F16, F32, F64, DType
from axla.hlo.random_bits import philox

MOST_BYTES = 10 << 20
"""The size in bytes of the largest result that TensorFlow folds."""
_LIMIT = 2.0
_PER_COUNTER = 4
"""The number of 32-bit words that a value of the counter generates. Truncated numbers are generated in groups
of this many numbers, in f64 of half as many.
"""
_SKIPPED, _USED = 64, 8
"""For truncated numbers: a group of n numbers begins `_SKIPPED` * n counter values after the previous one,
and uses the first `_USED` of these.
"""


def numbers(name: str, dtype: DType, dims: Sequence[int], key: np.ndarray, counter: np.ndarray) -> np.ndarray:
    """An array of the shape `dims` with numbers of the distribution `name`. The key has one 64-bit word, the
    counter has two.
    """
    width = 2 if dtype is F64 else 1
    size = _PER_COUNTER // width
    groups = np.arange(-(-prod(dims) // size), dtype=np.uint64)
    if name == "RandomUniform":
        found = _units(_words(key, counter, groups), dtype)
    elif name == "RandomNormal":
        found = _normal(_words(key, counter, groups), dtype)
    else:
        used = groups[:, None] * np.uint64(_SKIPPED * size) + np.arange(_USED, dtype=np.uint64)
        drawn = _normal(_words(key, counter, used.reshape(-1)), dtype).reshape(len(groups), -1)
        order = np.argsort(abs(drawn) >= _LIMIT, axis=1, kind="stable")[:, :size]
        found = np.take_along_axis(drawn, order, 1).reshape(-1)
    return found[: prod(dims)].reshape(dims).astype(dtype.numpy)


def _words(key: np.ndarray, counter: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The random 32-bit words for the counters `counter + by`."""
    low = counter[0] + by
    high = counter[1] + (low < counter[0]).astype(np.uint64)
    parts = [part.view(np.uint32).reshape(-1, 2).T for part in (low, high, key)]
    words = philox((*parts[0], *parts[1]), tuple(parts[2]))
    return np.stack(words, 1).reshape(-1)


def _units(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers in [0, 1): the low bits of each word, or pair of words, are the mantissa."""
    if dtype is F64:
        high = (words[0::2] & 0xFFFFF).astype(np.float64)
        return (high * 2.0**32 + words[1::2]) * 2.0**-52
    bits = 10 if dtype is F16 else 7 if dtype is BF16 else 23
    return (words & ((1 << bits) - 1)).astype(np.float32) * np.float32(2.0**-bits)


def _normal(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Normally distributed numbers from pairs of uniform ones (Box and Muller)."""
    units = _units(words, F64 if dtype is F64 else F32)
    kind = units.dtype.type
    radius = np.sqrt(kind(-2) * np.log(np.maximum(units[0::2], kind(1e-7))))
    angle = kind(2 * np.pi) * units[1::2]
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], 1).reshape(-1)
