"""Shardings as values: which devices hold which parts of an array. Equal shardings are equal values; the text
of one is what XLA prints.

{replicated} {devices=[2,1]<=[2]} {devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate} {{manual},
{replicated}}
"""

from __future__ import annotations

from math import prod

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError
from axla.ir.devices import Axis, DeviceOrder, Iota, Mesh, MeshAxes, brackets

SUBGROUPS = ("manual", "replicated", "unreduced")
"""What the last dimensions of tiles may be for, in their order."""
WORDS = ("replicated", "manual", "unknown", "unreduced")
MAX_DEVICES = 1 << 17
LONGEST = 1 << 24  # characters of one sharding for all leaves of a tuple, written once for each


@dataclass(frozen=True, slots=True)
class Tiles:
    """An array in tiles, one per device. `dims`: tiles along each dimension; the last ones are groups of
    devices that are for what `kinds` says.
    """

    dims: tuple[int, ...]
    devices: DeviceOrder
    kinds: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Dimensions of the array."""
        return len(self.dims) - len(self.kinds)

    def __str__(self) -> str:
        found = self.devices
        where = f"<={found}" if isinstance(found, Iota) else ",".join(map(str, found))
        last = f" last_tile_dims={{{', '.join(self.kinds)}}}" if self.kinds else ""
        if self.kinds == ("replicated",):
            last = " last_tile_dim_replicate"
        return f"devices={brackets(self.dims)}{where}{last}"


@dataclass(frozen=True, slots=True)
class DimAxes:
    """The axes of a mesh that cut a dimension; open where others may be added."""

    axes: tuple[Axis, ...]
    closed: bool = True

    def __str__(self) -> str:
        return "{" + ", ".join([*map(str, self.axes), *["?"] * (not self.closed)]) + "}"


@dataclass(frozen=True, slots=True)
class MeshTiles:
    """Axes of a mesh for each dimension; `sets`: (kind, axes) of those that are for something else."""

    mesh: Mesh
    dims: tuple[DimAxes, ...]
    sets: tuple[tuple[str, DimAxes], ...] = ()

    def __str__(self) -> str:
        sets = [f"{kind}={axes}" for kind, axes in self.sets]
        return ", ".join([str(self.mesh), "[" + ", ".join(map(str, self.dims)) + "]", *sets])


@dataclass(frozen=True, slots=True)
class Sharding:
    """Of one array, or with `parts` of a tuple's leaves. `what`: one of WORDS, the only device, or tiles."""

    what: str | int | Tiles | MeshTiles = ""
    parts: tuple[Sharding, ...] = ()
    group: tuple[str, int] | None = None  # ("as" or "like", number): those that are sharded alike
    metadata: str = ""

    @property
    def is_unreduced(self) -> bool:
        """Whether the array is a sum of what devices have."""
        what = self.what
        return what == "unreduced" or (isinstance(what, Tiles) and "unreduced" in what.kinds)

    def of_leaves(self, leaves: int) -> Sharding:
        """The sharding of a tuple: one for all leaves stands once for each."""
        if self.parts:
            return self
        length = len(str(self))
        if length * leaves > LONGEST:
            raise UnsupportedError(f"a sharding of {length} characters for each of {leaves} leaves")
        return Sharding(parts=(self,) * max(leaves, 1))

    def __str__(self) -> str:
        if self.parts:
            return ", ".join(f"{{{part}}}" for part in self.parts)
        text = f"maximal device={self.what}" if isinstance(self.what, int) else str(self.what)
        if self.group is not None:
            text += f" shard_{self.group[0]} {self.group[1]}"
        between = ", " if isinstance(self.what, MeshTiles) else " "
        return text + (f"{between}metadata={self.metadata}" if self.metadata else "")


def tiled(dims: tuple[int, ...], devices: DeviceOrder, kinds: tuple[str, ...]) -> str | Tiles:
    """The tiles in their one form, or `replicated`. Subgroups of one device say nothing; the others stand in
    a fixed order, equal ones as one.
    """
    own = len(dims) - len(kinds)
    kept = [n for n in range(own, len(dims)) if dims[n] != 1]
    places = sorted(kept, key=lambda n: SUBGROUPS.index(kinds[n - own]))
    names = tuple(kinds[n - own] for n in places)
    if names and set(names) == {"replicated"} and all(d == 1 for d in dims[:own]):
        return "replicated"
    if (places != kept or len(set(names)) < len(names)) and len(devices) == prod(dims) <= MAX_DEVICES:
        ones = [n for n in range(own, len(dims)) if n not in places]
        devices = _permuted(dims, (*range(own), *places, *ones), devices)
        groups: dict[str, int] = {}
        for n, name in zip(places, names, strict=True):
            groups[name] = groups.get(name, 1) * dims[n]
        return Tiles((*dims[:own], *groups.values()), devices, tuple(groups))
    shown = (*dims[:own], *(dims[n] for n in kept))
    if names == ("replicated",):
        devices = _ascending(shown[-1], devices)
    return Tiles(shown, devices.simplified() if isinstance(devices, Iota) else devices, names)


def _permuted(dims: tuple[int, ...], permutation: tuple[int, ...], devices: DeviceOrder) -> DeviceOrder:
    """The devices of tiles that were permuted: an iota again if the sizes line up, else a list."""
    if isinstance(devices, Iota) and devices.order == tuple(range(len(devices.order))):
        return Iota(dims, permutation).simplified()
    ids = devices.array() if isinstance(devices, Iota) else np.array(devices)
    return tuple(ids.reshape(dims).transpose(permutation).reshape(-1).tolist())


def _ascending(size: int, devices: DeviceOrder) -> DeviceOrder:
    """The devices that hold the same, `size` after each other, in ascending order."""
    if not isinstance(devices, Iota):
        if len(devices) % size:
            return devices
        return tuple(np.sort(np.array(devices).reshape(-1, size), axis=1).reshape(-1).tolist())
    reshape, order, left, inside = devices.reshape, devices.order, size, 0
    while inside < len(order) and left > 1:
        inside += 1
        d = order[-inside]
        if reshape[d] > left:  # the group is a part of this dimension, which becomes two
            if reshape[d] % left:
                return Iota(reshape, order)
            reshape = (*reshape[:d], reshape[d] // left, left, *reshape[d + 1 :])
            moved = [n + (n > d) for n in order]
            at = len(order) - inside
            order = (*moved[:at], d, d + 1, *moved[at + 1 :])
            left = 1
        elif left % reshape[d]:
            return Iota(reshape, order)
        else:
            left //= reshape[d]
    at = len(order) - inside
    return Iota(reshape, (*order[:at], *sorted(order[at:])))


# What partitions have


@dataclass(frozen=True, slots=True)
class Tiling:
    """Which part of an array each partition has: `counts` parts along each dimension, and `places[p]`, the
    number of partition p's part along each. Equal tilings cut alike, however their shardings are written.
    """

    counts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def is_whole(self) -> bool:
        """Whether every partition has the whole array."""
        return max(self.counts, default=1) == 1

    def part(self, dims: tuple[int, ...], partition: int) -> tuple[slice, ...]:
        """Where a partition's part lies in an array of sizes `dims`, which the counts divide."""
        sizes = [d // n for d, n in zip(dims, self.counts, strict=True)]
        return tuple(slice(at * s, (at + 1) * s) for at, s in zip(self.places[partition], sizes, strict=True))


def tiling(sharding: Sharding | None, rank: int, partitions: int) -> Tiling:
    """The parts that a sharding makes of an array; without one, and replicated, all have the whole.

    UnsupportedError for one that does not say it of these partitions: of one device, unknown, unreduced, or
    of another number.
    """
    what = without_axes(sharding, rank).what if sharding is not None else "replicated"
    if what == "replicated":
        return Tiling((1,) * rank, ((0,) * rank,) * partitions)
    if isinstance(what, Tiles) and not {*what.kinds} - {"replicated"}:
        counts, places = what.dims[:rank], _places(what.dims, what.devices, rank)
    else:
        raise UnsupportedError(f"a sharding {{{sharding}}}, where tiles or replicated is wanted")
    if len(counts) != rank or sorted(places) != list(range(partitions)):
        raise UnsupportedError(f"a sharding {{{sharding}}} of rank {rank} for {partitions} partitions")
    return Tiling(counts, tuple(places[p] for p in range(partitions)))


def _ids(devices: DeviceOrder | None, count: int) -> np.ndarray:
    return (
        devices.array()
        if isinstance(devices, Iota)
        else np.array(range(count) if devices is None else devices)
    )


def _places(dims: tuple[int, ...], devices: DeviceOrder, rank: int) -> dict[int, tuple[int, ...]]:
    at = np.unravel_index(np.arange(prod(dims)), dims)
    rows = np.stack(at, axis=-1)[:, :rank].tolist() if dims else [[]]
    return {device: tuple(row) for device, row in zip(_ids(devices, len(rows)).tolist(), rows, strict=True)}


def _tiles_of_axes(tiles: MeshTiles, rank: int) -> str | Tiles:
    """The same tiles without names: the sizes along the axes, and the devices one by one."""
    mesh, every = tiles.mesh, [*tiles.dims, *[DimAxes(())] * (rank - len(tiles.dims))]
    every += [axes for _, axes in tiles.sets]
    chosen = tuple(axis for dim in every for axis in dim.axes)
    groups, sizes = MeshAxes(mesh, chosen).table(), dict(mesh.axes)
    counts = [prod(axis.size or sizes[axis.name] for axis in dim.axes) for dim in every]
    ids = _ids(groups.devices, len(mesh)).reshape(groups.count, groups.size).T.reshape(-1)
    kinds = (*(kind for kind, _ in tiles.sets), "replicated")
    return tiled((*counts, groups.count), tuple(ids.tolist()), kinds)


def without_axes(sharding: Sharding, rank: int) -> Sharding:
    """The sharding as tiles where axes of a mesh say it."""
    if not isinstance(sharding.what, MeshTiles):
        return sharding
    if not sharding.what.mesh.axes:
        return Sharding("replicated")
    found = _tiles_of_axes(sharding.what, rank)
    if isinstance(found, Tiles) and found.kinds == ("unreduced",) and set(found.dims[:-1]) <= {1}:
        return Sharding("unreduced")
    return Sharding(found)
