"""Devices as values: lists of them, meshes, and the groups of collectives, in compact form; members are
listed on demand only.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, UnsupportedError

MOST_LISTED = 1 << 20
"""Devices that are written out one by one."""


def brackets(numbers: Iterable[int]) -> str:
    """`[2,4]`, as HLO text writes sizes of meshes and tiles."""
    return "[" + ",".join(map(str, numbers)) + "]"


@dataclass(frozen=True, slots=True)
class IotaDevices:
    """The devices 0, 1, 2, ... as an array of sizes `reshape` with its dimensions permuted to `order`:
    [2,2]T(1,0).

    InvalidArgument where `order` is not a permutation of the dimensions, or a size is not positive.
    """

    reshape: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.reshape))):
            shown, rank = ",".join(map(str, self.order)), len(self.reshape)
            raise InvalidArgument(f"T({shown}) is not an order of the {rank} dimensions of devices")
        if min(self.reshape, default=1) < 1:
            message = f"{brackets(self.reshape)}: a size of 0; there is a tile in every dimension"
            raise InvalidArgument(message)

    @classmethod
    def of(cls, reshape: Iterable[int], order: Iterable[int] = ()) -> IotaDevices:
        """`order` is 0, 1, 2, ... where it is empty."""
        reshape = tuple(reshape)
        return cls(reshape, tuple(order) or tuple(range(len(reshape))))

    def __len__(self) -> int:
        return prod(self.reshape)

    def array(self) -> np.ndarray:
        """The array of all devices; UnsupportedError where they are too many."""
        if len(self) > MOST_LISTED or len(self.reshape) > 32:
            raise UnsupportedError(f"{len(self)} devices are not listed, at most {MOST_LISTED} are")
        return np.arange(len(self)).reshape(self.reshape).transpose(self.order).reshape(-1)

    def simplified(self) -> IotaDevices:
        """The same without dimensions of size 1, and with adjacent dimensions merged where possible."""
        sizes = self.reshape
        runs: list[list[int]] = []
        for d in (d for d in self.order if sizes[d] != 1):
            nearest = runs[-1][-1] + 1 if runs else -1
            while runs and nearest < d and sizes[nearest] == 1:
                nearest += 1
            if runs and nearest == d:
                runs[-1].append(d)
            else:
                runs.append([d])
        if len(runs) <= 1:
            return IotaDevices.of((prod(sizes),))
        order = sorted(runs)
        return IotaDevices(tuple(prod(sizes[d] for d in run) for run in order), tuple(map(order.index, runs)))

    def __str__(self) -> str:
        turned = self.order != tuple(range(len(self.order)))
        return brackets(self.reshape) + (f"T({','.join(map(str, self.order))})" if turned else "")


DeviceOrder = IotaDevices | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes with their sizes, and the devices in the order of their coordinates (None: 0, 1, 2, ...).

    InvalidArgument where axis names are not unique, a size is not positive, or devices do not match the
    coordinates one to one.
    """

    axes: tuple[tuple[str, int], ...]
    devices: DeviceOrder | None = None

    def __post_init__(self) -> None:
        if len(dict(self.axes)) != len(self.axes) or min((n for _, n in self.axes), default=1) < 1:
            raise InvalidArgument(f"{self}: a mesh has axes of different names and positive sizes")
        given = self.devices
        if given is None:
            return
        if (
            len(given) != len(self)
            or isinstance(given, tuple)
            and (len(set(given)) != len(given) or min(given) < 0)
        ):
            raise InvalidArgument(f"{self}: a mesh of {len(self)} places has as many devices, each once")

    def __len__(self) -> int:
        return prod(n for _, n in self.axes)

    def __str__(self) -> str:
        text = "mesh[" + ",".join(f"'{name}'={size}" for name, size in self.axes) + "]"
        if self.devices is None:
            return text
        listed = self.devices if isinstance(self.devices, IotaDevices) else ",".join(map(str, self.devices))
        return f"{text}, device_ids=({listed})"


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a mesh, or a sub-axis: of `size`, where `before` is the product of the sub-axes before it
    ('y':(2)4).
    """

    name: str
    before: int = 1
    size: int = 0  # 0: all of the axis

    def __str__(self) -> str:
        return f"'{self.name}'" + (f":({self.before}){self.size}" if self.size else "")


@dataclass(frozen=True, slots=True)
class IotaGroups:
    """Consecutive groups of equal size: [2,4]<=[8]."""

    count: int
    size: int
    devices: DeviceOrder

    def __post_init__(self) -> None:
        if min(self.count, self.size) < 1 or self.count * self.size != len(self.devices):
            raise InvalidArgument(f"{self}: {len(self.devices)} devices do not spread over the groups")

    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The groups, each as its devices in order."""
        return _rows(self.devices, self.size)

    def __str__(self) -> str:
        return f"[{self.count},{self.size}]<={self.devices}"


@lru_cache(maxsize=64)
def _rows(devices: DeviceOrder, size: int) -> tuple[tuple[int, ...], ...]:
    ids = devices.array() if isinstance(devices, IotaDevices) else np.array(devices)
    return tuple(map(tuple, ids.reshape(-1, size).tolist()))


@dataclass(frozen=True, slots=True)
class MeshAxes:
    """Groups of the devices of a mesh that differ only along these axes: mesh['a'=2,'b'=2] {'b'}.

    InvalidArgument where the mesh does not have the axes, or they overlap.
    """

    mesh: Mesh
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        self.table()

    def table(self) -> IotaGroups:
        """The groups as consecutive devices."""
        names = dict(self.mesh.axes)
        cuts = {name: {1, size} for name, size in self.mesh.axes}
        for axis in self.axes:
            if axis.name not in names:
                raise InvalidArgument(f"'{axis.name}' is not one of the axes {', '.join(names)}")
            end = axis.before * (axis.size or names[axis.name])
            if end < 1 or names[axis.name] % end or axis.before < 1:
                raise InvalidArgument(f"{self}: parts must divide the axis {axis.name} of {names[axis.name]}")
            cuts[axis.name] |= {axis.before, end}
        parts = [(name, begin, end) for name in names for begin, end in pairwise(sorted(cuts[name]))]
        chosen = [
            number
            for axis in self.axes
            for number, (name, begin, end) in enumerate(parts)
            if name == axis.name and axis.before <= begin and end <= axis.before * (axis.size or names[name])
        ]
        if len(set(chosen)) != len(chosen) or any(end % begin for _, begin, end in parts):
            raise InvalidArgument(f"{self}: axes, or parts of axes, that are different are wanted")
        sizes = tuple(end // begin for _, begin, end in parts)
        order = (*(n for n in range(len(parts)) if n not in chosen), *chosen)
        size, found, given = prod(sizes[n] for n in chosen), IotaDevices(sizes, order), self.mesh.devices
        if given is None:
            return IotaGroups(len(found) // size, size, found.simplified())
        ids = given.array() if isinstance(given, IotaDevices) else np.array(given)
        return IotaGroups(len(found) // size, size, tuple(ids[found.array()].tolist()))

    def __str__(self) -> str:
        return f"{self.mesh} {{{','.join(map(str, self.axes))}}}"


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """The groups of participants of a collective: {{0,1},{2,3}}, [2,2]<=[4] or mesh['a'=2,'b'=2] {'b'}."""

    listed: tuple[tuple[int, ...], ...] = ()
    form: IotaGroups | MeshAxes | None = None

    def __bool__(self) -> bool:
        return bool(self.listed) or self.form is not None

    @property
    def table(self) -> IotaGroups | None:
        """The groups as rows of a table of devices; None where they are listed one by one."""
        return self.form.table() if isinstance(self.form, MeshAxes) else self.form

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """All groups, listed; UnsupportedError where they are too many."""
        return self.listed if self.table is None else self.table.rows()

    @property
    def sizes(self) -> set[int]:
        """The different sizes of groups."""
        return {len(g) for g in self.listed} if self.table is None else {self.table.size}

    @property
    def members(self) -> int:
        """The number of members in all groups."""
        return sum(map(len, self.listed)) if self.table is None else len(self.table.devices)

    @property
    def highest(self) -> int:
        """The highest member; -1 where there are none."""
        if self.table is not None and isinstance(self.table.devices, IotaDevices):
            return self.members - 1
        return max((m for group in self.groups for m in group), default=-1)

    def group_of(self, member: int) -> tuple[int, ...] | None:
        """The group of a member; None when it is in none."""
        return next((group for group in self.groups if member in group), None)

    def __str__(self) -> str:
        if self.form is not None:
            return str(self.form)
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in self.listed) + "}"
