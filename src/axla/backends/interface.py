"""What a backend is to everybody else: `Backend`, `Client`, `Device`, `Memory`, `Executable`.

The objects and their meanings are PJRT's. A backend of another package derives from `Backend` and from
`Executable`, and says what differs: how a module becomes an executable, and how one run is done. Everything
else is here: names and options, nesting, checks of arguments, donation, replicas, texts, sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, ClassVar

from axla.backends.nesting import flatten, nest
from axla.backends.options import CompileOptions, ExecuteOptions, options_of
from axla.backends.prepare import prepared
from axla.backends.registry import Registry
from axla.core import dtypes, flags, locks
from axla.core.errors import DeadlineExceeded, InvalidArgument, OutOfMemory, UnsupportedError, did_you_mean
from axla.core.profile import Profile, Run, watch
from axla.ir.graph import Module
from axla.ir.op import OPS
from axla.program import abi
from axla.program.interface import Interface
from axla.runtime.arguments import check_count, check_donation
from axla.runtime.array import Array, device_put

MAGIC = b"axla-executable for "
_HEAD = re.compile(MAGIC + rb"([\w.\-]+) ((?:[0-9a-f]{2})*) ([0-9a-f]{32})\n")

EFFECTS: dict[str, tuple[str, ...]] = {
    "infeed": ("infeed",),
    "outfeed": ("outfeed",),
    "transfers": ("send", "send-done", "recv", "recv-done"),
    "random state": ("rng", "rng-get-and-update-state"),
    "custom calls": ("custom-call",),
}
"""Effects, and the ops that have them."""


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes of one run on one device: of arguments and results (`aliased` of them are both), of scratch
    memory, and of what the executable itself keeps, constants and code.
    """

    arguments: int
    results: int
    aliased: int
    temporaries: int
    constants: int
    code: int


class Executable:
    """A compiled program, on devices of a client. Calls from several threads may overlap.

    An Array passed for a parameter that a result takes the place of (an alias of the interface) is donated:
    the call deletes it. A backend says `_run`, and what else it can: `_run_replicated`, `cancel`, `_payload`
    for `serialize`, `stages` and `_text` for `as_text`.
    """

    __slots__ = ("interface", "client", "options", "counts", "_module", "_version", "_counted", "__weakref__")

    stages: ClassVar[tuple[str, ...]] = ("hlo", "optimized")
    """What `as_text` shows: the module as it was given, after passes..."""

    def __init__(
        self, interface: Interface, *, client: Client | None = None, module: Module | None = None,
        options: CompileOptions | None = None,
    ) -> None:  # fmt: skip
        self.interface = interface
        self.client = client
        self.options = options or CompileOptions()
        self.counts = self.options.participants(module) if module is not None else (1, 1)
        self._module, self._version = module, module.version if module is not None else 0
        self._counted: Run | None = None

    # Facts.

    @property
    def name(self) -> str:
        return self.interface.name

    @property
    def num_replicas(self) -> int:
        return self.counts[0]

    @property
    def num_partitions(self) -> int:
        return self.counts[1]

    @property
    def devices(self) -> list[Device]:
        """The devices that it runs on: device n is partition n % num_partitions of replica
        n // num_partitions.
        """
        count = self.counts[0] * self.counts[1]
        rows = self.options.device_assignment or (tuple(range(count)),)
        return [self.client.device(n) for row in rows for n in row] if self.client is not None else []

    # Calls.

    def __call__(self, *arguments: Any) -> Any:
        """Runs the program; arguments and result are nested as the program's parameters and result are."""
        self._check_one_device()
        return nest(self.interface.result_tree, self.execute(flatten(self.interface, arguments)))

    def execute(
        self, inputs: Iterable[Any], *, deadline: float | None = None, donate: Iterable[int] = (),
        asynchronous: bool = False,
    ) -> list[Array]:  # fmt: skip
        """Runs the program on its parameter leaves; gives its result leaves.

        `deadline` is in seconds; DeadlineExceeded when it passes. `donate` names leaves to delete besides the
        aliased. `asynchronous`: the run may go on after the call, where the backend has queues. Whoever reads
        a result waits for it, and gets the error of its run.
        """
        if self.counts != _ONE:
            self._check_one_device()
        if deadline is None and not donate:
            run = self._run if self._counted is None else partial(self._counted.measure, self._run)
            return run(list(inputs), _ASYNCHRONOUS if asynchronous else _PLAIN)
        return self._execute([list(inputs)], ExecuteOptions(deadline, tuple(donate), asynchronous))[0]

    def execute_replicated(
        self, inputs: Iterable[Iterable[Any]], options: ExecuteOptions | None = None, **keywords: Any
    ) -> list[list[Array]]:
        """Runs the program on all its devices, with parameter leaves for each; gives the result leaves of
        each. Options are those of `execute`: an object, or keywords.
        """
        rows, count = [list(given) for given in inputs], self.counts[0] * self.counts[1]
        if len(rows) != count:
            raise InvalidArgument(f"{self.name}: inputs of {count} devices are wanted, found {len(rows)}")
        return self._execute(rows, options or ExecuteOptions(**keywords))

    def cancel(self) -> int:
        """Stops the runs in progress, which raise Cancelled; gives their number."""
        raise UnsupportedError(f"{self.name}: its runs cannot be cancelled")

    def _run(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        """One run on one device, for the deadline of the options; aliased Arrays are deleted by it."""
        raise NotImplementedError

    def _run_replicated(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        """One run on several devices."""
        raise NotImplementedError

    def _execute(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        deadline = options.deadline
        donated = [a for row in rows for a in self._donated(row, options.donate)] if options.donate else []
        if deadline is not None and not deadline > 0:
            raise DeadlineExceeded(
                f"{self.name}: the deadline of {deadline} s had passed before the run", abi.DEADLINE
            )
        measure = self._counted.measure if self._counted is not None else _called
        try:
            if len(rows) == 1:
                return [measure(self._run, rows[0], options)]
            return measure(self._run_replicated, rows, options)
        except (InvalidArgument, OutOfMemory):
            donated = []  # the run did not begin
            raise
        finally:
            for array in donated:
                array.delete()

    def profiling(self, profile: Profile | None) -> None:
        """Counts calls in a profile from now on, or no more. A backend that measures steps overrides it."""
        backend = self.client.backend.name if self.client is not None else ""
        self._counted = profile.run(self.name, backend) if profile is not None else None

    def _check_one_device(self) -> None:
        if self.counts != _ONE:
            raise InvalidArgument(
                f"{self.name}: it is for {self.counts[0]} replicas of {self.counts[1]} partitions; "
                "execute_replicated runs it, and compile with replicas='first' its first participant alone"
            )

    def _donated(self, inputs: list[Any], donate: tuple[int, ...]) -> list[Array]:
        """The arrays that a run deletes besides the aliased."""
        interface = self.interface
        check_count(interface, len(inputs))
        for index in sorted(donate):
            if index not in range(len(inputs)):
                raise InvalidArgument(f"{self.name}: donate names parameter {index}; there are {len(inputs)}")
            if not isinstance(inputs[index], Array):
                name, found = interface.parameters[index].name, type(inputs[index]).__name__
                raise InvalidArgument(
                    f"{self.name}, parameter {index} ({name}): only an Array can be donated, not {found}"
                )
        aliased = {alias.parameter for alias in interface.aliases}
        check_donation(interface, inputs, {*donate} | aliased)
        return [inputs[index] for index in sorted({*donate} - aliased)]

    # Texts and numbers.

    def as_text(self, stage: str = "optimized") -> str:
        """The program at one of its `stages`, made again from the module where it is not kept.

        InvalidArgument for another stage, or when the module was changed since; UnsupportedError for an
        executable that was loaded, where no module is.
        """
        if stage not in self.stages:
            known = ", ".join(self.stages)
            raise InvalidArgument(
                f"{self.name}: stage {stage!r}; there are {known}{did_you_mean(stage, self.stages)}"
            )
        return self._text(stage)

    def _text(self, stage: str) -> str:
        module = self._source() if stage == "hlo" else self._optimized()
        return module.to_string(print_large_constants=True)

    def cost(self) -> Any:
        """What one run has to do, as `axla.analysis.cost.Cost`: operations, transcendentals, bytes."""
        from axla.analysis.cost import cost

        return cost(self._optimized())

    def memory(self) -> MemoryStats:
        """The bytes that a run and the executable take."""
        face = self.interface
        return MemoryStats(
            sum(p.bytes for p in face.parameters), sum(r.bytes for r in face.results),
            sum(face.results[alias.result].bytes for alias in face.aliases), face.workspace_bytes,
            face.constants_bytes, self._code_bytes(),
        )  # fmt: skip

    def _source(self) -> Module:
        """The module that was compiled."""
        if self._module is None:
            raise UnsupportedError(f"{self!r} was loaded: there is no module")
        if self._module.version != self._version:
            raise InvalidArgument(f"{self!r}: its module was changed after it was compiled")
        return self._module

    def _optimized(self) -> Module:
        """The module after passes."""
        return self._source()

    def _code_bytes(self) -> int:
        return 0

    # Bytes.

    def serialize(self) -> bytes:
        """The executable as bytes, for `Executable.load` on a machine of the same kind."""
        if self.client is None:
            raise UnsupportedError(f"{self!r} belongs to no client")
        head = f"{self.client.backend.name} {self.options.to_proto().hex()}".encode()
        payload = self._payload()
        return MAGIC + head + b" " + _digest(head, payload) + b"\n" + payload

    def _payload(self) -> bytes:
        raise UnsupportedError(f"{self.name}: it cannot be serialized")

    @staticmethod
    def load(data: bytes, client: Client | None = None) -> Executable:
        """The executable that `serialize` wrote, on a client, or on that of the backend that it says.

        The bytes may hold machine code, which runs in this process with all its rights: load only what you
        trust as a program. InvalidArgument for bytes that are no executable, or another backend's.
        """
        found = _HEAD.match(data) if isinstance(data, bytes) else None
        if found is None:
            raise InvalidArgument("load: these bytes are no executable of axla's")
        payload, name = data[found.end() :], found[1].decode()
        if _digest(found[1] + b" " + found[2], payload) != found[3]:
            raise InvalidArgument(
                "load: this executable is damaged or not complete: its digest does not match"
            )
        client = client or BACKENDS.get(name).client
        if client.backend.name != name:
            raise InvalidArgument(f"load: an executable of {name!r}, not {client.backend.name!r}")
        options = CompileOptions.from_proto(bytes.fromhex(found[2].decode()))
        made = client.backend.load(client, payload, options)
        watch(made)
        return made

    def __reduce__(self) -> tuple:
        return Executable.load, (self.serialize(),)

    def __repr__(self) -> str:
        interface = self.interface
        return f"<Executable {self.name}: {len(interface.parameters)} -> {len(interface.results)} arrays>"


_ONE = (1, 1)
_PLAIN, _ASYNCHRONOUS = ExecuteOptions(), ExecuteOptions(asynchronous=True)


def _digest(head: bytes, payload: bytes) -> bytes:
    return blake2b(payload, key=blake2b(head, digest_size=32).digest(), digest_size=16).hexdigest().encode()


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a device; `kind` is "device", "pinned_host" or "unpinned_host"."""

    id: int
    kind: str
    device_id: int


@dataclass(frozen=True, slots=True)
class Device:
    """What programs run on. `id` is unique among all processes, `local_id` within its process."""

    id: int
    local_id: int
    process_index: int
    kind: str
    memories: tuple[Memory, ...]

    @property
    def default_memory(self) -> Memory:
        return self.memories[0]

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


class Client:
    """The devices of a backend in this process, and what is done with them.

    `backend` is a name or a Backend. It has `devices` devices; None: as many as the flag
    `xla_force_host_platform_device_count` says, and more when a program wants them.
    """

    process_index = 0

    def __init__(self, backend: str | Backend = "cpu", devices: int | None = None) -> None:
        self.backend = BACKENDS.get(backend) if isinstance(backend, str) else backend
        if not isinstance(self.backend, Backend):
            raise InvalidArgument(f"Client: backend={backend!r}, wanted a name or a Backend")
        if devices is not None and (type(devices) is not int or devices < 1):
            raise InvalidArgument(f"Client: devices={devices!r}, wanted a number of at least 1")
        self._grows = devices is None
        self._devices: list[Device] = []
        self._lock = locks.new_lock()
        self._grow(flags.current().host_device_count if devices is None else devices)

    @property
    def devices(self) -> list[Device]:
        return list(self._devices)

    local_devices = devices

    def device(self, number: int) -> Device:
        """The device of an id; InvalidArgument when there is none."""
        for found in self._devices[number : number + 1] if number >= 0 else ():
            return found
        raise InvalidArgument(f"{self!r}: no device {number}; there are 0 to {len(self._devices) - 1}")

    def default_device_assignment(self, replicas: int, partitions: int = 1) -> tuple[tuple[int, ...], ...]:
        """The first devices in order, for each partition of each replica."""
        return tuple(tuple(r * partitions + p for p in range(partitions)) for r in range(replicas))

    def compile(
        self, module: Module, options: CompileOptions | bytes | None = None, **keywords: Any
    ) -> Executable:
        """An executable of a module, which stays as it is. Options are those of `axla.compile`: an object,
        its proto, or keywords.
        """
        told = options_of(options, keywords)
        with flags.override(**dict(told.flags)):
            module = prepared(module, told)
            self.backend.check(module, told)
            self._check_devices(module, told)
            made = self.backend.compile(self, module, told)
        watch(made)
        return made

    def load(self, data: bytes) -> Executable:
        """An executable from `Executable.serialize`. It may hold machine code: see `Executable.load`."""
        return Executable.load(data, self)

    def device_put(self, array: Any, device: Device | None = None) -> Array:
        """A copy of an array-like on a device, the first by default."""
        return self.backend.device_put(array, device or self._devices[0])

    def _check_devices(self, module: Module, options: CompileOptions) -> None:
        counts = options.participants(module)
        rows = options.device_assignment
        if rows is not None and (len(rows), len(rows[0])) != counts:
            raise InvalidArgument(
                f"compile: device_assignment has {len(rows)} replicas of {len(rows[0])} partitions, "
                f"{module.name} is for {counts[0]} of {counts[1]}"
            )
        ids = [number for row in rows for number in row] if rows is not None else []
        wanted = max(ids, default=counts[0] * counts[1] - 1) + 1
        if self._grows:
            self._grow(counts[0] * counts[1])
        if wanted > len(self._devices) or min(ids, default=0) < 0:
            raise InvalidArgument(
                f"compile: {module.name} needs devices 0 to {wanted - 1}, {self!r} has {len(self._devices)}"
            )

    def in_order(self, module: Module, options: CompileOptions) -> None:
        """UnsupportedError unless a program is for the first devices in order; for backends that know no
        other.
        """
        first = self.default_device_assignment(*options.participants(module))
        if options.device_assignment not in (None, first):
            what = f"{self.backend.name} takes the first devices in order"
            raise UnsupportedError(f"compile: device_assignment={options.device_assignment}: {what}")

    def _grow(self, count: int) -> None:
        with self._lock:
            for n in range(len(self._devices), count):
                memories = tuple(
                    Memory(n * len(self.backend.memory_kinds) + k, kind, n)
                    for k, kind in enumerate(self.backend.memory_kinds)
                )
                self._devices.append(Device(n, n, self.process_index, self.backend.device_kind, memories))

    def __repr__(self) -> str:
        return f"<Client of {self.backend.name}: {len(self._devices)} devices>"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend runs. `refused` has a reason for each op, element type, effect and for "participants"
    that it does not take.
    """

    participants: int = 1
    """How many replicas and partitions together."""
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def element_types(self) -> tuple[str, ...]:
        return tuple(d.name for d in dtypes.ALL if d.name not in self.refused)

    @property
    def ops(self) -> tuple[str, ...]:
        return tuple(opcode for opcode in OPS if opcode not in self.refused)

    @property
    def effects(self) -> tuple[str, ...]:
        return tuple(effect for effect in EFFECTS if effect not in self.refused)


class Backend:
    """What compiles modules and runs them: derive from it, and register it (`axla.backends.register`) or name
    a function without arguments that gives one as an entry point of the group `axla.backends`.
    """

    name: str = ""
    version: str = "0"
    about: str = ""
    """A line for `axla backends`."""
    device_kind: str = "cpu"
    memory_kinds: tuple[str, ...] = ("device",)
    capabilities: Capabilities = Capabilities()

    @cached_property
    def client(self) -> Client:
        """The client that `axla.compile` takes."""
        return Client(self)

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """An executable. The module is verified, of known sizes, and not to be changed."""
        raise NotImplementedError

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """An executable from what its `_payload` gave."""
        raise UnsupportedError(f"{self.name}: executables cannot be loaded")

    def device_put(self, array: Any, device: Device) -> Array:
        """A copy of an array-like on a device."""
        return device_put(array, device.local_id)

    def check(self, module: Module, options: CompileOptions) -> None:
        """UnsupportedError for what the capabilities exclude; it names the op and says why."""
        refused = self.capabilities.refused
        counts = options.participants(module)
        if counts[0] * counts[1] > self.capabilities.participants:
            raise UnsupportedError(
                f"compile: {module.name} is for {counts[0]} replicas of {counts[1]} partitions, {self.name} "
                f"runs {self.capabilities.participants}: {refused.get('participants', 'no more')}"
            )
        ops = {op: why for effect, why in refused.items() for op in EFFECTS.get(effect, (effect,))}
        ops.pop("participants", None)
        if not ops:
            return
        for inst in [i for c in module.computations for i in c.instructions]:
            names: Sequence[str] = (inst.opcode, *(s.dtype.name for s in inst.shape.leaves() if s.is_array))  # type: ignore[attr-defined]
            for name in names:
                if name in ops:
                    raise UnsupportedError(f"{inst!r}: {self.name} does not run {name}: {ops[name]}")


BACKENDS: Registry[Backend] = Registry(
    "backend", Backend, "axla.backends",
    {
        "cpu": "axla.backends.cpu:cpu",
        "one-lane": "axla.backends.cpu:one_lane",
        "interpreter": "axla.backends.interpreter:InterpreterBackend",
    },
)  # fmt: skip
