"""Lists of devices, meshes, and replica groups, stored in compact form; they are written out as lists only on
demand.
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
"""The highest number of devices in a list that is written out."""


def brackets(numbers: Iterable[int]) -> str:
    """The numbers as HLO text writes sizes of meshes and tiles: `[2,4]`."""
    return "[" + ",".join(map(str, numbers)) + "]"


@dataclass(frozen=True, slots=True)
class IotaDevices:
    """The devices 0, 1, 2, ... in row-major order of an array of sizes `reshape`, read in row-major order of
    that array transposed to `order`: [2,2]T(1,0).

    InvalidArgument if `order` is not a permutation of the dimensions, or a size is not positive.
    """

    reshape: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.reshape))):
            shown, rank = ",".join(map(str, self.order)), len(self.reshape)
            raise InvalidArgument(f"T({shown}) is not a permutation of the {rank} dimensions of the devices")
        if min(self.reshape, default=1) < 1:
            message = f"{brackets(self.reshape)}: the sizes must be at least 1"
            raise InvalidArgument(message)

    @classmethod
    def of(cls, reshape: Iterable[int], order: Iterable[int] = ()) -> IotaDevices:
        """Makes an IotaDevices; an empty `order` means that the dimensions are not permuted."""
        reshape = tuple(reshape)
        return cls(reshape, tuple(order) or tuple(range(len(reshape))))

    def __len__(self) -> int:
        return prod(self.reshape)

    def array(self) -> np.ndarray:
        """The numbers of all devices in order; UnsupportedError if there are more than MOST_LISTED."""
        if len(self) > MOST_LISTED or len(self.reshape) > 32:
            raise UnsupportedError(f"a list of {len(self)} devices is too long, the limit is {MOST_LISTED}")
        return np.arange(len(self)).reshape(self.reshape).transpose(self.order).reshape(-1)

    def simplified(self) -> IotaDevices:
        """An IotaDevices with the same devices in the same order, without dimensions of size 1, and with
        adjacent dimensions merged where possible.
        """
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
        permuted = self.order != tuple(range(len(self.order)))
        return brackets(self.reshape) + (f"T({','.join(map(str, self.order))})" if permuted else "")


DeviceOrder = IotaDevices | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes with their sizes, and the device at each coordinate, in row-major order (None: 0, 1, 2,
    ...).

    InvalidArgument if axis names are not unique, a size is not positive, or devices and coordinates do not
    correspond one to one.
    """

    axes: tuple[tuple[str, int], ...]
    devices: DeviceOrder | None = None

    def __post_init__(self) -> None:
        if len(dict(self.axes)) != len(self.axes) or min((n for _, n in self.axes), default=1) < 1:
            raise InvalidArgument(f"{self}: the axes of a mesh must have different names and positive sizes")
        given = self.devices
        if given is None:
            return
        if (
            len(given) != len(self)
            or isinstance(given, tuple)
            and (len(set(given)) != len(given) or min(given) < 0)
        ):
            raise InvalidArgument(f"{self}: a mesh of size {len(self)} needs as many devices, each once")

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
    """An axis of a mesh, or a sub-axis of it: a factor `size` of the axis, where the factors before it have
    the product `before`. The text 'y':(2)4 means before 2, size 4.
    """

    name: str
    before: int = 1
    size: int = 0  # 0: the whole axis

    def __str__(self) -> str:
        return f"'{self.name}'" + (f":({self.before}){self.size}" if self.size else "")


@dataclass(frozen=True, slots=True)
class IotaGroups:
    """Replica groups of equal size, each of consecutive entries of `devices`: [2,4]<=[8] has 2 groups of
    4.
    """

    count: int
    size: int
    devices: DeviceOrder

    def __post_init__(self) -> None:
        if min(self.count, self.size) < 1 or self.count * self.size != len(self.devices):
            raise InvalidArgument(f"{self}: {len(self.devices)} devices do not spread over the groups")

    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The groups, each as a tuple of devices."""
        return _rows(self.devices, self.size)

    def __str__(self) -> str:
        return f"[{self.count},{self.size}]<={self.devices}"


@lru_cache(maxsize=64)
def _rows(devices: DeviceOrder, size: int) -> tuple[tuple[int, ...], ...]:
    ids = devices.array() if isinstance(devices, IotaDevices) else np.array(devices)
    return tuple(map(tuple, ids.reshape(-1, size).tolist()))


@dataclass(frozen=True, slots=True)
class MeshAxes:
    """Replica groups of the devices of a mesh whose coordinates differ only along these axes:
    mesh['a'=2,'b'=2] {'b'}.

    InvalidArgument if the mesh does not have the axes, or they overlap.
    """

    mesh: Mesh
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        self.table()

    def table(self) -> IotaGroups:
        """The groups in the form of IotaGroups."""
        names = dict(self.mesh.axes)
        cuts = {name: {1, size} for name, size in self.mesh.axes}
        for axis in self.axes:
            if axis.name not in names:
                raise InvalidArgument(f"'{axis.name}' is not one of the mesh axes {', '.join(names)}")
            end = axis.before * (axis.size or names[axis.name])
            if end < 1 or names[axis.name] % end or axis.before < 1:
                raise InvalidArgument(f"{self}: sub-axes must divide {axis.name} of size {names[axis.name]}")
            cuts[axis.name] |= {axis.before, end}
        parts = [(name, begin, end) for name in names for begin, end in pairwise(sorted(cuts[name]))]
        chosen = [
            number
            for axis in self.axes
            for number, (name, begin, end) in enumerate(parts)
            if name == axis.name and axis.before <= begin and end <= axis.before * (axis.size or names[name])
        ]
        if len(set(chosen)) != len(chosen) or any(end % begin for _, begin, end in parts):
            raise InvalidArgument(f"{self}: the axes must be different, and sub-axes must not overlap")
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
    """The replica groups of a collective: {{0,1},{2,3}}, [2,2]<=[4] or mesh['a'=2,'b'=2] {'b'}."""

    listed: tuple[tuple[int, ...], ...] = ()
    form: IotaGroups | MeshAxes | None = None

    def __bool__(self) -> bool:
        return bool(self.listed) or self.form is not None

    @property
    def table(self) -> IotaGroups | None:
        """The groups in the form of IotaGroups; None if they are listed one by one."""
        return self.form.table() if isinstance(self.form, MeshAxes) else self.form

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """All groups as tuples of members; UnsupportedError if there are too many members to list."""
        return self.listed if self.table is None else self.table.rows()

    @property
    def sizes(self) -> set[int]:
        """The set of the sizes of the groups."""
        return {len(g) for g in self.listed} if self.table is None else {self.table.size}

    @property
    def members(self) -> int:
        """The number of members of all groups together."""
        return sum(map(len, self.listed)) if self.table is None else len(self.table.devices)

    @property
    def highest(self) -> int:
        """The highest number of a member; -1 if there are no groups."""
        if self.table is not None and isinstance(self.table.devices, IotaDevices):
            return self.members - 1
        return max((m for group in self.groups for m in group), default=-1)

    def group_of(self, member: int) -> tuple[int, ...] | None:
        """The group that contains a member; None if no group does."""
        return next((group for group in self.groups if member in group), None)

    def __str__(self) -> str:
        if self.form is not None:
            return str(self.form)
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in self.listed) + "}"
