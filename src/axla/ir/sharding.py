"""Shardings: which device holds which part of an array. Equal shardings are equal values; `str` returns XLA's
text.

{replicated} {devices=[2,1]<=[2]} {devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate} {{manual},
{replicated}}
"""

from __future__ import annotations

from math import prod

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError
from axla.ir.devices import Axis, DeviceOrder, IotaDevices, Mesh, MeshAxes, brackets

SUBGROUPS = ("manual", "replicated", "unreduced")
"""The roles, in fixed order, that the last dimensions of tiles may have: kinds of subgroups of devices."""
WORDS = ("replicated", "manual", "unknown", "unreduced")
MAX_DEVICES = 1 << 17
LONGEST = 1 << 24  # characters at most of a sharding that is repeated for all leaves of a tuple


@dataclass(frozen=True, slots=True)
class Tiles:
    """An array divided into tiles, one per device. `dims` has the number of tiles along each dimension; its
    last entries, one for each of `kinds`, are the sizes of subgroups of devices with those roles.
    """

    dims: tuple[int, ...]
    devices: DeviceOrder
    kinds: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """The rank of the array."""
        return len(self.dims) - len(self.kinds)

    def __str__(self) -> str:
        found = self.devices
        where = f"<={found}" if isinstance(found, IotaDevices) else ",".join(map(str, found))
        last = f" last_tile_dims={{{', '.join(self.kinds)}}}" if self.kinds else ""
        if self.kinds == ("replicated",):
            last = " last_tile_dim_replicate"
        return f"devices={brackets(self.dims)}{where}{last}"


@dataclass(frozen=True, slots=True)
class DimAxes:
    """The mesh axes along which a dimension is divided. If it is not `closed`, more may be added."""

    axes: tuple[Axis, ...]
    closed: bool = True

    def __str__(self) -> str:
        return "{" + ", ".join([*map(str, self.axes), *["?"] * (not self.closed)]) + "}"


@dataclass(frozen=True, slots=True)
class MeshTiles:
    """An array divided over the axes of a mesh. `dims` has the axes along which each dimension is divided;
    `sets` holds pairs (role, axes) for axes along which no dimension is divided.
    """

    mesh: Mesh
    dims: tuple[DimAxes, ...]
    sets: tuple[tuple[str, DimAxes], ...] = ()

    def __str__(self) -> str:
        sets = [f"{kind}={axes}" for kind, axes in self.sets]
        return ", ".join([str(self.mesh), "[" + ", ".join(map(str, self.dims)) + "]", *sets])


@dataclass(frozen=True, slots=True)
class Sharding:
    """The sharding of one array, or, with `parts`, of the leaves of a tuple. `what` is one of WORDS, the
    number of the only device, or tiles.
    """

    what: str | int | Tiles | MeshTiles = ""
    parts: tuple[Sharding, ...] = ()
    group: tuple[str, int] | None = None  # ("as" or "like", number), equal for arrays that are sharded alike
    metadata: str = ""

    @property
    def is_unreduced(self) -> bool:
        """Whether the array is the sum of the arrays on the devices."""
        what = self.what
        return what == "unreduced" or (isinstance(what, Tiles) and "unreduced" in what.kinds)

    def of_leaves(self, leaves: int) -> Sharding:
        """The sharding of a tuple with this number of leaves; a sharding of one array is repeated for each
        leaf. UnsupportedError if the text would be too long.
        """
        if self.parts:
            return self
        length = len(str(self))
        if length * leaves > LONGEST:
            raise UnsupportedError(f"a sharding of {length} characters is too long for {leaves} leaves")
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
    """The tiles in normal form, or `replicated`. The arguments are the fields of Tiles. Subgroups of size 1
    are dropped, the others are sorted by role, and subgroups with equal roles are merged.
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
    return Tiles(shown, devices.simplified() if isinstance(devices, IotaDevices) else devices, names)


def _permuted(dims: tuple[int, ...], permutation: tuple[int, ...], devices: DeviceOrder) -> DeviceOrder:
    """The order of devices for tiles, `dims` along each dimension, after their dimensions are permuted by
    `permutation`: an IotaDevices if possible, else a list.
    """
    if isinstance(devices, IotaDevices) and devices.order == tuple(range(len(devices.order))):
        return IotaDevices(dims, permutation).simplified()
    ids = devices.array() if isinstance(devices, IotaDevices) else np.array(devices)
    return tuple(ids.reshape(dims).transpose(permutation).reshape(-1).tolist())


def _ascending(size: int, devices: DeviceOrder) -> DeviceOrder:
    """Sorts each run of `size` consecutive devices, all of which hold the same part of the array."""
    if not isinstance(devices, IotaDevices):
        if len(devices) % size:
            return devices
        return tuple(np.sort(np.array(devices).reshape(-1, size), axis=1).reshape(-1).tolist())
    reshape, order, left, inside = devices.reshape, devices.order, size, 0
    while inside < len(order) and left > 1:
        inside += 1
        d = order[-inside]
        if reshape[d] > left:  # the run covers a part of this dimension, so that it is split into two
            if reshape[d] % left:
                return IotaDevices(reshape, order)
            reshape = (*reshape[:d], reshape[d] // left, left, *reshape[d + 1 :])
            moved = [n + (n > d) for n in order]
            at = len(order) - inside
            order = (*moved[:at], d, d + 1, *moved[at + 1 :])
            left = 1
        elif left % reshape[d]:
            return IotaDevices(reshape, order)
        else:
            left //= reshape[d]
    at = len(order) - inside
    return IotaDevices(reshape, (*order[:at], *sorted(order[at:])))


# The parts of partitions


@dataclass(frozen=True, slots=True)
class Tiling:
    """The part of an array that each partition has: `counts` is the number of parts along each dimension, and
    `places[p]` the index, in parts, of the part of partition p. Shardings with equal tilings are equivalent,
    even if their texts differ.
    """

    counts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def is_whole(self) -> bool:
        """Whether every partition has the whole array."""
        return max(self.counts, default=1) == 1

    def part(self, dims: tuple[int, ...], partition: int) -> tuple[slice, ...]:
        """The slices that select the part of a partition from an array of sizes `dims`, which are multiples
        of the counts.
        """
        sizes = [d // n for d, n in zip(dims, self.counts, strict=True)]
        return tuple(slice(at * s, (at + 1) * s) for at, s in zip(self.places[partition], sizes, strict=True))


def tiling(sharding: Sharding | None, rank: int, partitions: int) -> Tiling:
    """The tiling that a sharding describes; without a sharding, or if it is replicated, every partition has
    the whole array.

    UnsupportedError for a sharding that is not tiles or replicated (on one device, unknown, unreduced), or
    not for this rank and number of partitions.
    """
    what = without_axes(sharding, rank).what if sharding is not None else "replicated"
    if what == "replicated":
        return Tiling((1,) * rank, ((0,) * rank,) * partitions)
    if isinstance(what, Tiles) and not {*what.kinds} - {"replicated"}:
        counts, places = what.dims[:rank], _places(what.dims, what.devices, rank)
    else:
        raise UnsupportedError(f"the sharding {{{sharding}}} is neither tiles nor replicated")
    if len(counts) != rank or sorted(places) != list(range(partitions)):
        raise UnsupportedError(f"sharding {{{sharding}}} does not fit rank {rank}, {partitions} partitions")
    return Tiling(counts, tuple(places[p] for p in range(partitions)))


def _ids(devices: DeviceOrder | None, count: int) -> np.ndarray:
    return (
        devices.array()
        if isinstance(devices, IotaDevices)
        else np.array(range(count) if devices is None else devices)
    )


def _places(dims: tuple[int, ...], devices: DeviceOrder, rank: int) -> dict[int, tuple[int, ...]]:
    at = np.unravel_index(np.arange(prod(dims)), dims)
    rows = np.stack(at, axis=-1)[:, :rank].tolist() if dims else [[]]
    return {device: tuple(row) for device, row in zip(_ids(devices, len(rows)).tolist(), rows, strict=True)}


def _tiles_of_axes(tiles: MeshTiles, rank: int) -> str | Tiles:
    """Converts tiles by mesh axes into tiles by sizes and a list of devices."""
    mesh, every = tiles.mesh, [*tiles.dims, *[DimAxes(())] * (rank - len(tiles.dims))]
    every += [axes for _, axes in tiles.sets]
    chosen = tuple(axis for dim in every for axis in dim.axes)
    groups, sizes = MeshAxes(mesh, chosen).table(), dict(mesh.axes)
    counts = [prod(axis.size or sizes[axis.name] for axis in dim.axes) for dim in every]
    ids = _ids(groups.devices, len(mesh)).reshape(groups.count, groups.size).T.reshape(-1)
    kinds = (*(kind for kind, _ in tiles.sets), "replicated")
    return tiled((*counts, groups.count), tuple(ids.tolist()), kinds)


def without_axes(sharding: Sharding, rank: int) -> Sharding:
    """The sharding with mesh axes replaced by tiles; `rank` is that of the array."""
    if not isinstance(sharding.what, MeshTiles):
        return sharding
    if not sharding.what.mesh.axes:
        return Sharding("replicated")
    found = _tiles_of_axes(sharding.what, rank)
    if isinstance(found, Tiles) and found.kinds == ("unreduced",) and set(found.dims[:-1]) <= {1}:
        return Sharding("unreduced")
    return Sharding(found)
