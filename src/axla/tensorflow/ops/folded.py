"""Random floats whose seeds are constants. TensorFlow computes these before XLA sees them, by its kernels for
the CPU, which make other numbers of the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from axla.core.dtypes import BF16, F16, F64, U32, DType

_MOST_BYTES = 100 << 10
"""TensorFlow folds no greater results."""
_LIMIT = 2.0
_SKIPPED, _USED = 256, 16
"""Counters of four words from one group of truncated numbers to the next, and those that are used."""
_PER_COUNTER = 4


def is_folded(dtype: DType, dims: Sequence[int]) -> bool:
    return dtype.is_float and prod(dims) * dtype.itemsize <= _MOST_BYTES


def count_of_words(name: str, dtype: DType, dims: Sequence[int]) -> int:
    """How many random words of 32 bits the numbers are made of."""
    size = prod(dims) * (2 if dtype is F64 else 1)
    size += size % 2
    groups = -(-size // _PER_COUNTER)
    return groups * _SKIPPED * _PER_COUNTER if name == "TruncatedNormal" else size


def numbers(name: str, dtype: DType, dims: Sequence[int], words: np.ndarray) -> np.ndarray:
    """The numbers of a distribution that the words are."""
    if name == "RandomUniform":
        found = _units(words, dtype)
    elif name == "RandomNormal":
        found = _normal(words, dtype)
    else:
        used = words.reshape(-1, _SKIPPED * _PER_COUNTER)[:, : _USED * _PER_COUNTER]
        size = _PER_COUNTER // 2 if dtype is F64 else _PER_COUNTER
        groups = [_normal(group, dtype) for group in used]
        found = np.concatenate([group[abs(group) < _LIMIT][:size] for group in groups] or [used[:, :0]])
    return found[: prod(dims)].reshape(dims).astype(dtype.numpy)


def _units(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers from 0 up to, without, 1: of each word, or pair of words, the last bits are the mantissa."""
    if dtype is F64:
        high = (words[0::2] & 0xFFFFF).astype(np.float64)
        return (high * 2.0**32 + words[1::2]) * 2.0**-52
    bits = 10 if dtype is F16 else 7 if dtype is BF16 else 23
    return (words & ((1 << bits) - 1)).astype(np.float32) * np.float32(2.0**-bits)


def _normal(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Pairs of normal numbers, of pairs of uniform ones, by Box and Muller."""
    units = _units(words, F64 if dtype is F64 else U32)
    kind = units.dtype.type
    radius = np.sqrt(kind(-2) * np.log(np.maximum(units[0::2], kind(1e-7))))
    angle = kind(2 * np.pi) * units[1::2]
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], 1).reshape(-1)
