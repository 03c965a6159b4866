"""The interface of backends: the classes `Backend`, `Client` and `Capabilities`.

The classes mean the same as in PJRT. A backend of another package derives from `Backend` and from
`Executable` (`executable.py`), and defines how a module becomes an executable and how that runs. All else is
common to the backends: names, options, nesting, checks of arguments, donation, replicas, texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

from axla.backends.devices import Device, Devices
from axla.backends.executable import Executable
from axla.backends.options import CompileOptions, options_of
from axla.backends.prepare import sized, verified
from axla.backends.registry import Registry
from axla.core import dtypes, flags
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.core.profile import watch
from axla.core.progress import shown
from axla.ir.graph import Module
from axla.ir.op import OPS
from axla.ir.verify.channels import verify_waits
from axla.runtime.array import Array, device_put
from axla.runtime.serialized import unpack


def effects() -> dict[str, list[str]]:
    """The side effects that a backend may not support, each with the opcodes that have it."""
    found: dict[str, list[str]] = {}
    for opcode, op in OPS.items():
        if op.effect:
            found.setdefault(op.effect, []).append(opcode)
    return found


class Client(Devices):
    """Compiles for the devices of a backend, and copies arrays to them.

    `backend` is a name or a Backend; `devices` is the number of devices. If it is None, there are as many as
    the flag `xla_force_host_platform_device_count` says, and more when a program needs them.
    """

    def __init__(self, backend: str | Backend = "cpu", devices: int | None = None) -> None:
        self.backend = BACKENDS.get(backend) if isinstance(backend, str) else backend
        if not isinstance(self.backend, Backend):
            raise InvalidArgument(f"Client: backend={backend!r}, wanted a name or a Backend")
        super().__init__(self.backend.name, devices, self.backend.device_kind, self.backend.memory_kinds)

    def compile(
        self, module: Module, options: CompileOptions | bytes | None = None, **keywords: Any
    ) -> Executable:
        """Compiles a module; the module itself is not changed. The options are those of `axla.compile`: an
        object, its proto, or keywords.
        """
        told = options_of(options, keywords)
        with flags.override(**dict(told.flags)), shown():
            module = sized(module, told)
            counts = told.participants(module)
            self.backend.check_participants(module.name, counts)
            self.check(module.name, counts, told)
            self._check_order(module, told)
            made = self.backend.made(self, module, told)
        watch(made)
        return made

    def load(self, data: bytes) -> Executable:
        """Loads an executable from the bytes of `Executable.serialize`. They may contain machine code: see
        the function `load`.
        """
        return load(data, self)

    def device_put(self, array: Any, device: Device | int | None = None) -> Array:
        """Copies an array-like to a device, which is a Device or its id; by default to the first device of
        this process. InvalidArgument for a device of another process.
        """
        given = self.local_devices[0] if device is None else device
        place = given if isinstance(given, Device) else self.device(given)
        if place.process_index != self.process_index:
            raise InvalidArgument(f"device_put: {place} is in another process, {place.process_index}")
        return self.backend.device_put(array, place)

    def _check_order(self, module: Module, options: CompileOptions) -> None:
        first = self.default_device_assignment(*options.participants(module))
        if options.device_assignment not in (None, first) and not self.backend.any_devices:
            what = f"{self.backend.name} supports only the first devices in order"
            raise UnsupportedError(f"compile: device_assignment={options.device_assignment}: {what}")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The programs that a backend supports. `refused` has the reason for each op, element type and effect
    that it does not support; and for "participants", the reason for their limit.
    """

    participants: int = 1
    """The largest number of participants: replicas times partitions."""
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def element_types(self) -> tuple[str, ...]:
        """The HLO names of the element types that the backend supports."""
        return tuple(d.name for d in dtypes.ALL if d.name not in self.refused)

    @property
    def ops(self) -> tuple[str, ...]:
        """The opcodes that the backend supports."""
        return tuple(opcode for opcode in OPS if opcode not in self.refused)

    @property
    def effects(self) -> tuple[str, ...]:
        """The kinds of side effects that the backend supports."""
        return tuple(effect for effect in effects() if effect not in self.refused)


class Backend:
    """Compiles modules and runs them. Another package derives a class from it. It either registers a function
    without arguments that returns an instance (`axla.backends.register`), or has an entry point of the group
    `axla.backends` that is a function of this kind.
    """

    name: str = ""
    version: str = "0"
    about: str = ""
    """A description of one line, for the command `axla backends`."""
    any_devices: bool = False
    """Whether programs may be assigned to devices other than the first ones in order."""
    copies_constants: bool = False
    """Whether an executable keeps copies of its module's constants in addition to the module."""
    device_kind: str = "cpu"
    memory_kinds: tuple[str, ...] = ("device",)
    capabilities: Capabilities = Capabilities()

    @cached_property
    def client(self) -> Client:
        """The client that `axla.compile` uses for this backend."""
        return Client(self)

    def made(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Returns an executable for a module with known sizes, of which only the graph was verified
        (`verify_graph`).
        """
        return self.compile(client, self.verified(module, options), options)

    def verified(self, module: Module, options: CompileOptions) -> Module:
        """Verifies a module, and returns it in the form for `compile`. UnsupportedError for anything that the
        capabilities exclude.
        """
        module = verified(module, options)
        self.check(module, options)
        verify_waits(module, *options.participants(module))
        return module

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Compiles a verified module with known sizes. The module must not be changed."""
        raise NotImplementedError

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """Makes an executable from bytes that `Executable._payload` returned."""
        raise UnsupportedError(f"{self.name}: this backend cannot load executables")

    def execute_parallel(
        self, modules: Sequence[Module], rows: Sequence[Sequence[Any]], deadline: float | None = None
    ) -> list[list[Array]]:  # fmt: skip
        """Runs verified modules at the same time, each as one replica with its own row of arguments; returns
        the results of each. `deadline` limits the runs, in seconds.
        """
        raise UnsupportedError(f"{self.name}: this backend cannot run several programs together")

    def device_put(self, array: Any, device: Device) -> Array:
        """Copies an array-like to a device."""
        return device_put(array, device.id)

    def check(self, module: Module, options: CompileOptions) -> None:
        """Raises UnsupportedError, with the op and the reason, for anything that the capabilities exclude."""
        self.check_participants(module.name, options.participants(module))
        reasons = {name: why for name, why in self.capabilities.refused.items() if name != "participants"}
        if not reasons:
            return
        known = effects()
        ops = {op: why for name, why in reasons.items() for op in known.get(name, (name,))}
        for inst in [i for c in module.computations for i in c.instructions]:
            names: Sequence[str] = (inst.opcode, *(s.dtype.name for s in inst.shape.leaves() if s.is_array))
            for name in names:
                if name in ops:
                    raise UnsupportedError(f"{inst!r}: {self.name} does not run {name}: {ops[name]}")

    def check_participants(self, name: str, counts: tuple[int, int]) -> None:
        """Raises UnsupportedError if a program `name`, with `counts` (replicas, partitions), has too many
        participants.
        """
        most = self.capabilities.participants
        if counts[0] * counts[1] > most:
            reason = self.capabilities.refused.get("participants", "its limit")
            raise UnsupportedError(
                f"compile: {name} is for {counts[0]} replicas of {counts[1]} partitions, {self.name} runs "
                f"at most {most}: {reason}"
            )


BACKENDS: Registry[Backend] = Registry(
    "backend", Backend, "axla.backends",
    {
        "cpu": "axla.backends.cpu:cpu",
        "one-lane": "axla.backends.cpu:one_lane",
        "interpreter": "axla.backends.interpreter:InterpreterBackend",
        "cuda": "axla.device.executable:CudaBackend",
        "opencl": "axla.device.executable:OpenCLBackend",
        "remote": "axla.service.remote:from_environment",
    },
)  # fmt: skip


def load(data: bytes, client: Client | None = None) -> Executable:
    """Loads an executable from the bytes of `Executable.serialize`, for a client; by default for that of the
    backend named in the bytes.

    The bytes may contain machine code, which runs in this process with all its permissions: load only what
    you trust as a program. Raises InvalidArgument for bytes that are not an executable, or one of another
    backend, and UnsupportedError for machine code of another version of axla or LLVM, or for another machine.
    """
    payload, head = unpack(data)
    client = client or BACKENDS.get(head.backend).client
    if client.backend.name != head.backend:
        raise InvalidArgument(f"load: an executable of {head.backend!r}, wanted {client.backend.name!r}")
    made = client.backend.load(client, payload, CompileOptions.from_proto(bytes.fromhex(head.options)))
    watch(made)
    return made


Executable.load = staticmethod(load)
