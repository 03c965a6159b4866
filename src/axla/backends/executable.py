"""`Executable`: a compiled program. All backends derive from this class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from operator import call
from typing import Any, ClassVar

from axla.backends.devices import Device, Devices
from axla.backends.nesting import flatten, nest
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.backends.whole import cuts_of
from axla.core import notebook
from axla.core.dataclass import dataclass
from axla.core.errors import DeadlineExceeded, InvalidArgument, OutOfMemory, UnsupportedError, did_you_mean
from axla.core.profile import Profile, ProfileRun
from axla.ir.graph import Module
from axla.program import abi
from axla.program.interface import Interface
from axla.runtime.arguments import check_count, check_donation
from axla.runtime.array import Array
from axla.runtime.serialized import Fingerprint, pack
from axla.target.machine import Target


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """The bytes that one run on one device uses: arguments, results (`aliased` bytes belong to both) and
    temporaries; and those that the executable keeps: constants and code.
    """

    arguments: int
    results: int
    aliased: int
    temporaries: int
    constants: int
    code: int


class Executable:
    """A compiled program on the devices of a client. Several threads may call it at the same time.

    If a parameter is aliased with a result, an Array passed for it is donated: the call deletes it. A backend
    implements `_run`. It may implement `_run_replicated`, `cancel`, `_payload` for `serialize`, and `stages`
    and `_text` for `as_text`.
    """

    __slots__ = (
        "interface", "client", "options", "counts", "device_ids", "_module", "_version", "_counted",
        "__weakref__",
    )  # fmt: skip

    stages: ClassVar[tuple[str, ...]] = ("hlo", "optimized")
    """The stages that `as_text` can show: "hlo" is the module as it was given, "optimized" is after all
    passes."""

    def __init__(
        self, interface: Interface, *, client: Devices | None = None, module: Module | None = None,
        options: CompileOptions | None = None,
    ) -> None:  # fmt: skip
        self.interface = interface
        self.client = client
        self.options = options or CompileOptions()
        self.counts = interface.participants if module is None else self.options.participants(module)
        self.device_ids = [device.id for device in self.devices] or [0]
        self._module, self._version = module, module.version if module is not None else 0
        self._counted: ProfileRun | None = None

    # Properties.

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.interface.name

    @property
    def num_replicas(self) -> int:
        """The number of replicas of the program."""
        return self.counts[0]

    @property
    def num_partitions(self) -> int:
        """The number of partitions of each replica."""
        return self.counts[1]

    @property
    def devices(self) -> list[Device]:
        """The devices that the program runs on. Device n is for partition n % num_partitions of replica n //
        num_partitions.
        """
        if self.client is None:
            return []
        rows = self.options.device_assignment or self.client.default_device_assignment(*self.counts)
        return [self.client.device(n) for row in rows for n in row]

    @property
    def local_participants(self) -> list[int]:
        """The participants on devices of this process. A call takes the inputs and returns the results of
        these only.
        """
        here = self.client.process_index if self.client is not None else 0
        devices = self.devices or [None]
        return [n for n, device in enumerate(devices) if device is None or device.process_index == here]

    @property
    def host_steps(self) -> Mapping[str, str]:
        """The instructions or kernels that the host runs because the device cannot, by name, each with the
        reason.
        """
        return {}

    # Calls.

    def __call__(self, *arguments: Any) -> Any:
        """Runs the program. Arguments and result are nested like the module's parameters and result."""
        return nest(self.interface.result_tree, self.execute(flatten(self.interface, arguments)))

    def execute(
        self, inputs: Iterable[Any], *, deadline: float | None = None, donate: Iterable[int] = (),
        asynchronous: bool = False,
    ) -> list[Array]:  # fmt: skip
        """Runs the program. `inputs` has an array for each leaf of the parameters; returns one for each leaf
        of the result.

        DeadlineExceeded is raised after `deadline` seconds. `donate` has the indices of further inputs to
        delete. If `asynchronous`, the run may continue after the call, if the backend has queues. Reading a
        result then waits for the run, and raises its error.
        """
        if self.counts != _ONE:
            return self._execute_whole(list(inputs), ExecuteOptions(deadline, tuple(donate), asynchronous))
        if deadline is None and not donate and self.device_ids == [0]:
            run = self._run if self._counted is None else partial(self._counted.measure, self._run)
            return run(list(inputs), _ASYNCHRONOUS if asynchronous else _PLAIN)
        return self._execute([list(inputs)], ExecuteOptions(deadline, tuple(donate), asynchronous))[0]

    def execute_replicated(
        self, inputs: Iterable[Iterable[Any]], options: ExecuteOptions | None = None, **keywords: Any
    ) -> list[list[Array]]:
        """Runs the program on all its devices. `inputs` has, for each device, an array for each leaf of the
        parameters; returns, for each device, an array for each leaf of the result. The options are those of
        `execute`, as an object or as keywords.
        """
        rows, count = [list(given) for given in inputs], len(self.local_participants)
        if len(rows) != count:
            raise InvalidArgument(f"{self.name}: inputs of {count} devices are wanted, found {len(rows)}")
        return self._execute(rows, options or ExecuteOptions(**keywords)) if rows else []

    def cancel(self) -> int:
        """Stops the runs in progress, which then raise Cancelled; returns their number."""
        raise UnsupportedError(f"{self.name}: its runs cannot be cancelled")

    def _execute_whole(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        """Runs a program for several partitions on whole arrays. They are partitioned, and the results
        joined, as the program's shardings say.
        """
        count = self.counts[1]
        cut = self._source().entry.fact(("cuts", count), lambda entry: cuts_of(entry, count))
        if cut is None or len(self.local_participants) < len(self.devices):
            raise self._not_whole()
        check_count(self.interface, len(inputs))
        donated = self._donated(inputs, options.donate) if options.donate else []
        rows = [[cut.part(k, a, p) for k, a in enumerate(inputs)] for p in range(self.counts[1])]
        found = self._execute(rows * self.counts[0], replace(options, donate=()))
        for array in donated:
            array.delete()
        return [cut.joined(k, column) for k, column in enumerate(zip(*found[: self.counts[1]], strict=True))]

    def _run(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        """Runs the program once on one device, with the deadline in the options. Donated Arrays are
        deleted.
        """
        raise NotImplementedError

    def _run_replicated(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        """Runs the program once on several devices; `rows` has the inputs for each."""
        raise NotImplementedError

    def _execute(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        deadline = options.deadline
        donated = [a for row in rows for a in self._donated(row, options.donate)] if options.donate else []
        if deadline is not None and not deadline > 0:
            raise DeadlineExceeded(
                f"{self.name}: the deadline of {deadline} s had passed before the run", abi.DEADLINE
            )
        measure = self._counted.measure if self._counted is not None else call
        if len(rows) > 1:
            self._check_rows(rows, options.donate)
        try:
            if self.device_ids == [0]:
                return [measure(self._run, rows[0], options)]
            return measure(self._run_replicated, rows, options)
        except (InvalidArgument, OutOfMemory):
            donated = []  # the run did not begin, so nothing is deleted
            raise
        finally:
            for array in donated:
                array.delete()

    def _check_rows(self, rows: list[list[Any]], donate: tuple[int, ...]) -> None:
        """Raises InvalidArgument if one participant donates an array that another one uses."""
        count, donated = len(self.interface.parameters), {*donate} | self.interface.donated
        for row in rows:
            check_count(self.interface, len(row))
        every = {k + count * n for n in range(len(rows)) for k in donated}
        check_donation(self.interface, [a for row in rows for a in row], every)

    def profiling(self, profile: Profile | None) -> None:
        """Starts recording calls in a profile, or stops if it is None. Backends that measure steps override
        this method.
        """
        backend = self.client.backend_name if self.client is not None else ""
        self._counted = profile.run(self.name, backend) if profile is not None else None

    def _not_whole(self) -> InvalidArgument:
        return InvalidArgument(
            f"{self.name}: it is for {self.counts[0]} replicas of {self.counts[1]} partitions: call "
            "execute_replicated, or compile with replicas='first' to run the first participant alone"
        )

    def _donated(self, inputs: list[Any], donate: tuple[int, ...]) -> list[Array]:
        """The arrays that `donate` names and that a run must delete in addition to the aliased ones.
        InvalidArgument for a wrong index or value.
        """
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
        check_donation(interface, inputs, {*donate} | interface.donated)
        return [inputs[index] for index in sorted({*donate} - interface.donated)]

    # Texts and numbers.

    def as_text(self, stage: str = "optimized") -> str:
        """The text of the program at one of its `stages`. If the text is not stored, the module is compiled
        again.

        Raises InvalidArgument for an unknown stage, or if the module was changed since it was compiled;
        UnsupportedError for an executable that was loaded from bytes, which has no module.
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
        """The cost of one run as an `axla.analysis.cost.Cost`: operations, transcendentals and bytes."""
        from axla.analysis.cost import cost

        return cost(self._optimized())

    def memory(self) -> MemoryStats:
        """The bytes that one run and the executable use."""
        face = self.interface
        return MemoryStats(
            sum(p.bytes for p in face.parameters), sum(r.bytes for r in face.results),
            sum(face.results[alias.result].bytes for alias in face.aliases), face.workspace_bytes,
            face.constants_bytes, self._code_bytes(),
        )  # fmt: skip

    def _source(self) -> Module:
        """The module that was compiled. UnsupportedError for a loaded executable, InvalidArgument if the
        module was changed.
        """
        if self._module is None:
            raise UnsupportedError(f"{self!r} was loaded from bytes, which contain no module")
        if self._module.version != self._version:
            raise InvalidArgument(f"{self!r}: its module was changed after it was compiled")
        return self._module

    def _optimized(self) -> Module:
        """The module after the passes."""
        return self._source()

    def _code_bytes(self) -> int:
        return 0

    # Serialization.

    def serialize(self) -> bytes:
        """Returns the executable as bytes, for `Executable.load` on a machine of the same kind."""
        if self.client is None:
            raise UnsupportedError(f"{self!r} belongs to no client")
        options = self.options.to_proto().hex()
        head = Fingerprint.of(self._target(), self.client.backend_name, options, *self.counts)
        return pack(self._payload(), head)

    def _target(self) -> Target | None:
        """The target of the machine code in the payload; None if there is no machine code."""
        return None

    def _payload(self) -> bytes:
        raise UnsupportedError(f"{self.name}: it cannot be serialized")

    load: ClassVar[Callable[..., Executable]]
    """The function `axla.backends.interface.load`."""

    def __reduce__(self) -> tuple:
        return Executable.load, (self.serialize(),)

    def _repr_html_(self) -> str | None:
        return notebook.html(self)

    def __repr__(self) -> str:
        interface = self.interface
        return f"<Executable {self.name}: {len(interface.parameters)} -> {len(interface.results)} arrays>"


_ONE = (1, 1)
_PLAIN, _ASYNCHRONOUS = ExecuteOptions(), ExecuteOptions(asynchronous=True)
