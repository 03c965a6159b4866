"""The classes `Device`, `Memory`, and `Devices`: the devices of a backend."""

from __future__ import annotations

from typing import Any

from axla.backends.options import CompileOptions
from axla.core import flags, locks
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a device. `kind` is "device", "pinned_host" or "unpinned_host"."""

    id: int
    kind: str
    device_id: int


@dataclass(frozen=True, slots=True)
class Device:
    """A device that runs programs. `id` is unique in all processes of a job, `local_id` in its process."""

    id: int
    local_id: int
    process_index: int
    kind: str
    memories: tuple[Memory, ...]

    @property
    def default_memory(self) -> Memory:
        """The memory for arrays when none is named: the first one."""
        return self.memories[0]

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


job: list[Any] = []
"""Holds the job of several processes (`axla.distributed.Job`) that this process has joined, if any."""


_MOST = 4096
"""The largest number of devices of a client."""


class Devices:
    """The devices of a backend: `count` devices of this process. If `count` is None, they are those of all
    processes of a job; or, without a job, as many as the flag `xla_force_host_platform_device_count` says,
    and more when a program needs them."""

    def __init__(
        self, backend_name: str, count: int | None, kind: str, memory_kinds: tuple[str, ...]
    ) -> None:
        if count is not None and (type(count) is not int or not 1 <= count <= _MOST):
            raise InvalidArgument(f"Client: devices={count!r}, wanted a number from 1 to {_MOST}")
        self.backend_name = backend_name
        self._kind, self._memory_kinds = kind, memory_kinds
        self.job = job[0] if job and count is None and backend_name == "cpu" else None
        self.process_index = self.job.index if self.job is not None else 0
        self._grows = count is None and self.job is None
        self._devices: list[Device] = []
        self._lock = locks.new_lock()
        count = flags.current().host_device_count if count is None else count
        self._grow(count if self.job is None else self.job.count * self.job.local)

    @property
    def devices(self) -> list[Device]:
        """The devices in order of their ids, as a new list."""
        return list(self._devices)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return [device for device in self._devices if device.process_index == self.process_index]

    def device(self, number: int) -> Device:
        """The device with the id `number`; InvalidArgument if there is none."""
        if isinstance(number, int) and 0 <= number < len(self._devices):
            return self._devices[number]
        raise InvalidArgument(f"{self!r}: no device {number!r}; there are 0 to {len(self._devices) - 1}")

    def default_device_assignment(self, replicas: int, partitions: int = 1) -> tuple[tuple[int, ...], ...]:
        """The ids of the first devices, for each partition of each replica. A single participant gets the
        first device of this process.
        """
        if replicas == partitions == 1:
            return ((self.local_devices[0].id,),)
        return tuple(tuple(r * partitions + p for p in range(partitions)) for r in range(replicas))

    def check(self, name: str, counts: tuple[int, int], options: CompileOptions) -> None:
        """Raises InvalidArgument unless there are devices for a program `name`, with `counts` (replicas,
        partitions).
        """
        rows = options.device_assignment or self.default_device_assignment(*counts)
        if (len(rows), len(rows[0])) != counts:
            raise InvalidArgument(
                f"compile: device_assignment has {len(rows)} replicas of {len(rows[0])} partitions, "
                f"wanted {counts[0]} of {counts[1]} for {name}"
            )
        ids = [number for row in rows for number in row]
        if self._grows:
            self._grow(min(max(ids) + 1, _MOST))
        first, last = min(0, *ids), max(ids)
        if first < 0 or last >= len(self._devices):
            raise InvalidArgument(
                f"compile: {name} needs devices {first} to {last}, {self!r} has {len(self._devices)}"
            )

    def _grow(self, count: int) -> None:
        with self._lock:
            for n in range(len(self._devices), count):
                memories = tuple(
                    Memory(n * len(self._memory_kinds) + k, kind, n)
                    for k, kind in enumerate(self._memory_kinds)
                )
                process, local = divmod(n, self.job.local) if self.job is not None else (0, n)
                self._devices.append(Device(n, local, process, self._kind, memories))

    def __repr__(self) -> str:
        return f"<Client of {self.backend_name}: {len(self._devices)} devices>"
