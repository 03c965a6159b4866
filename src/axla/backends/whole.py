"""Converts between whole arrays and the slices of partitions, for programs that run on slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape, Shape
from axla.ir.graph import Computation
from axla.ir.sharding import Sharding, Tiling, tiling
from axla.runtime.array import Array, device_put


@dataclass(frozen=True, slots=True)
class Cuts:
    """The partitioning of the arguments and results of a program."""

    arguments: tuple[Tiling, ...]
    results: tuple[Tiling, ...]
    shapes: tuple[Shape, ...]
    """The shapes of the slices of the arguments."""

    def part(self, number: int, value: Any, partition: int) -> Any:
        """The slice of argument `number` for a partition. InvalidArgument if the argument has the wrong
        sizes.
        """
        cut, shape = self.arguments[number], self.shapes[number]
        if cut.is_whole:
            return value
        array = np.asarray(value)
        wanted = tuple(d * n for d, n in zip(shape.dims, cut.counts, strict=True))
        if array.shape != wanted:
            raise InvalidArgument(f"argument {number}: wanted {list(wanted)}, found {list(array.shape)}")
        return array[cut.part(wanted, partition)]

    def joined(self, number: int, parts: Sequence[Array]) -> Array:
        """Joins the slices of result `number`, one from each partition, to the whole array."""
        cut = self.results[number]
        if cut.is_whole:
            return parts[0]
        dims = tuple(d * n for d, n in zip(parts[0].shape, cut.counts, strict=True))
        whole = np.empty(dims, parts[0].dtype)
        for partition, part in enumerate(parts):
            whole[cut.part(dims, partition)] = part
        return device_put(whole)


def cuts_of(entry: Computation, partitions: int) -> Cuts | None:
    """The partitioning described by the shardings of an entry; None if it has none."""
    said = [p.extra.sharding for p in entry.parameters]
    result = entry.root.extra.sharding
    if result is None or (said and not any(said)):
        return None
    arguments = [
        (s, shape) for p, s in zip(entry.parameters, said, strict=True) for shape in _leaves(p.shape)
    ]
    leaves = _leaves(entry.root.shape)
    parts: Sequence[Sharding | None] = result.parts or [result] * len(leaves)
    return Cuts(
        tuple(tiling(s, shape.rank, partitions) for s, shape in arguments),
        tuple(tiling(s, shape.rank, partitions) for s, shape in zip(parts, leaves, strict=True)),
        tuple(shape for _, shape in arguments),
    )


def _leaves(shape: AnyShape) -> list[Shape]:
    return [leaf for leaf in shape.leaves() if isinstance(leaf, Shape)]
