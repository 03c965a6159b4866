"""The devices of a program as a mesh whose axes have prime sizes. An array is either cut along an axis or
not, and a part of an axis that a program names is a set of whole prime axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from axla.core.dataclass import dataclass
from axla.ir.devices import DeviceOrder, IotaDevices
from axla.ir.sharding import DimAxes, MeshTiles, Sharding, Tiles, tiled
from axla.passes.expand.cuts import Cut

Axes = tuple[int, ...]
"""Numbers of axes of a mesh, the major axis first."""


@dataclass(frozen=True, slots=True)
class Cutting:
    """A sharding in terms of the axes of a mesh. `dims`: the axes along which each dimension is cut;
    `unreduced`: the axes along which the array is still to be summed; `taken`: all axes that the sharding
    names outside of the dimensions, unreduced axes included; `is_open`: whether each dimension may be cut
    further.
    """

    dims: tuple[Axes, ...]
    unreduced: Axes = ()
    taken: Axes = ()
    is_open: tuple[bool, ...] = ()


class PrimeMesh:
    """A mesh with axes of prime sizes. It is made from one sharding, and used for all shardings of the same
    devices in the same order.
    """

    def __init__(self, what: Tiles | MeshTiles) -> None:
        sizes, self.devices = _mesh_of(what)
        self.sizes = [prime for size in sizes for prime in _primes(size)]
        self.runs = _runs(sizes)  # the prime axes of each axis that the sharding names

    def count(self, axes: Iterable[int]) -> int:
        """The number of parts into which the given axes cut an array."""
        return prod(self.sizes[axis] for axis in axes)

    def parted(self, axes: Axes, size: int) -> Axes:
        """The longest prefix of `axes` that consists of whole axes of the program's mesh, not only of some
        prime factors of an axis, and whose number of parts divides `size`.
        """
        found: Axes = ()
        while run := next((run for run in self.runs if run[:1] == axes[len(found) : len(found) + 1]), ()):
            longer = (*found, *run)
            if axes[: len(longer)] != longer or size % self.count(longer):
                break
            found = longer
        return found

    def cutting(self, sharding: Sharding, rank: int) -> Cutting | None:
        """Converts a sharding to axes of this mesh; None if it uses axes that the mesh does not have."""
        what = sharding.what
        if what == "replicated":
            return Cutting(((),) * rank, is_open=(False,) * rank)
        if not isinstance(what, Tiles | MeshTiles):
            return None
        if isinstance(what, MeshTiles) and not what.mesh.axes:
            return Cutting(((),) * rank, is_open=tuple(not dim.closed for dim in what.dims))
        sizes, devices = _mesh_of(what)
        if [p for size in sizes for p in _primes(size)] != self.sizes or devices != self.devices:
            return None
        try:
            if isinstance(what, Tiles):
                return self._of_tiles(what, _runs(sizes), rank)
            return self._of_axes(what, dict(zip(dict(what.mesh.axes), _runs(sizes), strict=True)), rank)
        except ValueError:
            return None

    def sharding(self, dims: Sequence[Axes], unreduced: Axes = ()) -> Sharding:
        """The sharding that cuts each dimension along its axes in `dims`. Along the axes `unreduced`, the
        array is still to be summed.
        """
        used = [axis for axes in (*dims, unreduced) for axis in axes]
        rest = self._others(used)
        devices: DeviceOrder = IotaDevices(tuple(self.sizes), (*used, *rest))
        if self.devices is not None:
            devices = self._listed(devices)
        counts = (*map(self.count, dims), self.count(unreduced), self.count(rest))
        found = tiled(counts, devices, ("unreduced", "replicated"))
        is_sum = isinstance(found, Tiles) and found.kinds == ("unreduced",) and set(found.dims[:-1]) <= {1}
        return Sharding("unreduced" if is_sum else found)

    def cut(self, dims: Sequence[Axes], sums: Axes = ()) -> Cut:
        """Like `sharding`, but returns a Cut. `sums` are the axes along which the arrays of the partitions
        must be added.
        """
        used = [axis for axes in dims for axis in axes]
        rest = self._others([*used, *sums])
        counts = (*map(self.count, dims), self.count(rest), self.count(sums))
        return Cut(counts, self._listed(IotaDevices(tuple(self.sizes), (*used, *rest, *sums))))

    def _others(self, used: Sequence[int]) -> list[int]:
        return [axis for axis in range(len(self.sizes)) if axis not in used]

    def _listed(self, places: IotaDevices) -> tuple[int, ...]:
        found = places.array()
        return tuple((found if self.devices is None else np.array(self.devices)[found]).tolist())

    def _of_axes(self, tiles: MeshTiles, runs: dict[str, Axes], rank: int) -> Cutting:
        def of(dim: DimAxes) -> Axes:
            found: Axes = ()
            for axis in dim.axes:
                run = runs[axis.name]
                ends = [1, *accumulate((self.sizes[n] for n in run), mul)]
                end = axis.before * (axis.size or ends[-1])
                found += run[ends.index(axis.before) : ends.index(end)]
            return found

        dims = [*tiles.dims, *[DimAxes(())] * (rank - len(tiles.dims))]
        sets = {kind: of(axes) for kind, axes in tiles.sets}
        is_open = tuple(not dim.closed for dim in dims)
        return Cutting(tuple(map(of, dims)), sets.get("unreduced", ()), sum(sets.values(), ()), is_open)

    def _of_tiles(self, tiles: Tiles, runs: list[Axes], rank: int) -> Cutting:
        order = tiles.devices.order if isinstance(tiles.devices, IotaDevices) else range(len(runs))
        numbers = [n for d in order for n in runs[d]]
        ends = [self.count(numbers[:n]) for n in range(len(numbers) + 1)]
        places = [ends.index(end) for end in accumulate((1, *tiles.dims), mul)]
        found = [tuple(numbers[places[n] : places[n + 1]]) for n in range(len(tiles.dims))]
        sets = dict(zip(tiles.kinds, found[rank:], strict=True))
        return Cutting(tuple(found[:rank]), sets.get("unreduced", ()), (), (False,) * rank)


def _mesh_of(what: Tiles | MeshTiles) -> tuple[list[int], tuple[int, ...] | None]:
    """The sizes of a mesh's axes, and its device numbers, or None if they are 0, 1, 2..."""
    if isinstance(what, MeshTiles):
        devices = what.mesh.devices
        listed = tuple(devices.array().tolist()) if isinstance(devices, IotaDevices) else devices
        return [size for _, size in what.mesh.axes], listed
    if isinstance(what.devices, IotaDevices):
        return list(what.devices.reshape), None
    return list(what.dims), what.devices


def _runs(sizes: list[int]) -> list[Axes]:
    """For each size, the positions of its prime factors in the list of the prime factors of all sizes."""
    ends = [0, *accumulate(len(_primes(size)) for size in sizes)]
    return [tuple(range(*ends[n : n + 2])) for n in range(len(sizes))]


def _primes(number: int) -> list[int]:
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found
