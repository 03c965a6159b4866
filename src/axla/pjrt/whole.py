"""Runs programs for several partitions that were not partitioned: whole, on the first of their devices.

Arguments are joined from their parts, and results are cut, by the propagated shardings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.ir.sharding import Tiling
from axla.pjrt.buffers import copy_of
from axla.runtime.array import Array, device_put


def joined(parts: Sequence[Array], cut: Tiling) -> Array:
    """A whole array, joined from the parts of all partitions. `cut` is the tiling that has these parts."""
    if cut.is_whole:
        return parts[0] if parts[0].device == 0 else copy_of(parts[0])
    dims = tuple(d * n for d, n in zip(parts[0].shape, cut.counts, strict=True))
    whole = np.empty(dims, parts[0].dtype)
    for partition, part in enumerate(parts):
        whole[cut.part(dims, partition)] = part.to_numpy()
    return device_put(whole)


def parts_of(whole: Array, cut: Tiling) -> list[Array]:
    """The parts into which the tiling `cut` divides an array, one for each partition."""
    if cut.is_whole:
        return [whole, *(copy_of(whole) for _ in cut.places[1:])]
    values = whole.to_numpy()
    return [device_put(values[cut.part(values.shape, p)]) for p in range(len(cut.places))]
