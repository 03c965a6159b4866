"""Compiles modules for devices, and runs them."""

from __future__ import annotations

import ctypes as c
import itertools
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn
from warnings import warn
from weakref import WeakValueDictionary

import numpy as np

from axla.backends.devices import Device
from axla.backends.executable import Executable
from axla.backends.interface import Backend, Capabilities, Client
from axla.backends.kit import apart
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.codegen.host import host_target
from axla.codegen.native.image import Image
from axla.core import flags, locks
from axla.core.errors import CompileError, InvalidArgument, UnsupportedError
from axla.core.profile import Profile, Row
from axla.cpu.entry import ENTRY
from axla.device.compiler import Compiled, code_for, program_for, refused_kernels, rows_of, text_of
from axla.device.driver import Driver
from axla.device.memory import SHORT, DeviceArray, DeviceMemory, DeviceRun, put
from axla.device.runner import Runner, runner_of
from axla.ir.graph import Module
from axla.ir.places import located
from axla.lowering.donation import work_of
from axla.program import abi
from axla.program.packed import Packed, decode, encode
from axla.runtime.arguments import converted, failed_call
from axla.runtime.array import Array
from axla.runtime.dynamic import DynamicCall
from axla.runtime.functions import device_of, resolve_functions
from axla.runtime.native import native
from axla.target.identity import identity
from axla.target.machine import Target

_FRAME: Any = abi.FRAME.ctypes()
_ENTRY = c.CFUNCTYPE(c.c_int32, c.c_void_p)
_runs = itertools.count(1 << 48)


class DeviceExecutable(Executable):
    """A program on one device. `asynchronous` runs return as soon as their work is in the device's queue."""

    __slots__ = (
        "compiled", "driver", "ordinal", "_runner", "_image", "_entry", "_kernels", "_constants", "_table",
        "_keep", "_code", "_donors", "_rng", "_long", "_running",
    )  # fmt: skip

    def __init__(self, compiled: Compiled, driver: Driver, runner: Runner, **more: Any) -> None:
        super().__init__(compiled.interface, **more)
        self.compiled, self.driver, self._runner = compiled, driver, runner
        self.ordinal = self.device_ids[0]
        self._code = face = compiled.interface.of_code()
        self._kernels = driver.build(compiled.symbols, compiled.code) if compiled.symbols else None
        self._image = Image([(face.name, image) for image in compiled.images], [ENTRY])
        self._entry = _ENTRY(self._image.addresses[ENTRY])
        self._constants = DeviceMemory(driver, len(compiled.constants))
        if compiled.constants:
            driver.write(self._constants.address, np.frombuffer(compiled.constants, np.uint8))
        handles = _addresses(self._kernels.handles if self._kernels is not None else ())
        table, owners = resolve_functions(face.functions, None)
        self._table = [*table, driver.table, c.addressof(handles)]
        self._keep = owners, handles
        self._donors = {alias.result: alias.parameter for alias in face.aliases}
        self._rng, self._long = abi.RNG_SEED, face.long_running
        self._running: WeakValueDictionary[int, DeviceRun] = WeakValueDictionary()

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of `as_text`; the last is the format of kernels, such as `ptx`."""
        return "hlo", "optimized", "program", "llvm", self.driver.target.form.format

    @property
    def host_steps(self) -> Mapping[str, str]:
        """The kernels that the host runs, on copies of operands and results, and the reasons."""
        return self.compiled.host_steps

    def _run(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        if not self.interface.is_dynamic:
            return self._start(inputs, options)

        def start(*inner: Any) -> tuple[Array, ...]:
            return tuple(self._start(list(inner), options))

        found = DynamicCall(start, self.interface, partial(put, self.driver))(*inputs)
        return [found] if isinstance(found, Array) else list(found)

    def _run_replicated(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        return [self._run(row, options) for row in rows]

    def _start(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        """Queues a run; unless it is asynchronous, waits for its end."""
        face, driver = self._code, self.driver
        given = converted(face, inputs, here=False)
        arrays = [self._there(array) for array in given]
        memories = [array.memory(spec.name) for array, spec in zip(arrays, face.parameters, strict=True)]
        donors = self._donors
        made = [
            memories[donors[number]] if number in donors else DeviceMemory(driver, spec.bytes)
            for number, spec in enumerate(face.results)
        ]
        workspace = DeviceMemory(driver, face.workspace_bytes)
        for number in donors.values():
            if isinstance(array := given[number], Array):
                array.delete()
        before = [array.run for array in arrays if array.run is not None]
        run = self._call(memories, made, workspace, before, options)
        results = zip(face.results, made, strict=True)
        return [DeviceArray(spec.shape, memory, self.ordinal, run) for spec, memory in results]

    def _there(self, value: Array | np.ndarray) -> DeviceArray:
        """The array in the memory of this device: `value` itself, or a copy."""
        if isinstance(value, DeviceArray) and value.memory("argument").driver is self.driver:
            return value
        return put(self.driver, value, self.ordinal)

    def _call(
        self, arguments: list[DeviceMemory], results: list[DeviceMemory], workspace: DeviceMemory,
        before: list[DeviceRun], options: ExecuteOptions,
    ) -> DeviceRun:  # fmt: skip
        """Makes a run, which is queued here or handed to the runner's thread. `before` are the runs that
        compute its arguments.
        """
        driver, runner = self.driver, self._runner
        given, made = (_addresses(memory.address for memory in each) for each in (arguments, results))
        host = np.empty(self.compiled.host_bytes + 64, np.uint8)
        table = _addresses([*self._table, (host.ctypes.data + 63) & ~63])
        frame = _FRAME(
            version=abi.FRAME_VERSION, arguments=c.addressof(given), results=c.addressof(made),
            constants=self._constants.address, workspace=workspace.address, functions=c.addressof(table),
            parallel_for=native().glue.addresses["axla_parallel_for"], run_id=next(_runs),
        )  # fmt: skip
        run = DeviceRun(
            f"{self.name} on {driver.name}", driver, partial(self._stopped, frame), options.deadline
        )
        frame.cancel = c.addressof(run.flag)
        self._running[frame.run_id] = run
        going = False
        held = given, made, host, table, arguments, results, workspace
        try:
            if runner.is_busy() or (options.asynchronous and self.compiled.waits and self._counted is None):
                runner.add(run, partial(self._enter, frame, run, before, held))
            else:
                self._enter(frame, run, before, held)
            going = options.asynchronous
            if not going:
                run.wait()
        finally:
            if not going:
                run.stop(abi.INTERRUPTED)  # if an exception ended the wait
                self._running.pop(frame.run_id, None)
        return run

    def _enter(self, frame: Any, run: DeviceRun, before: list[DeviceRun], held: object) -> None:
        """Queues the work of a run; `held` is kept alive until then. Raises the error of an argument."""
        for other in before:
            other.check()
        frame.rng_state, device_of[frame.run_id] = self._rng, self.ordinal
        try:
            with run.until_late():
                code = self._entered(frame, run, held)
        finally:
            del device_of[frame.run_id]
        self._rng = tuple(frame.rng_state)
        if code:
            self._failed(frame, run, code)
        run.event = self.driver.mark()

    def _entered(self, frame: Any, run: DeviceRun, held: object) -> int:
        """Executes the host's part of a run, on another thread if it may take long, so that Ctrl-C stops it.
        Returns its error code. A thread that a second Ctrl-C leaves behind keeps `held` alive.
        """
        begin = time.monotonic()
        enter = partial(lambda *kept: self._entry(c.addressof(frame)), frame, run, held)
        here = threading.current_thread() is not threading.main_thread() or not self._long
        code = enter() if here else apart(enter, partial(run.stop, abi.INTERRUPTED))
        self._long = time.monotonic() - begin > SHORT
        return code

    def _failed(self, frame: Any, run: DeviceRun, code: int) -> NoReturn:
        if code == abi.DEVICE:
            raise self.driver.error(self.name, c.c_int32(frame.error_detail).value)
        self._stopped(frame, run.flag[0], code)

    def _stopped(self, frame: Any, flag: int, code: int = abi.CANCELLED) -> NoReturn:
        failed: Any = self  # only its interface is used
        failed_call(failed, code, frame.error_step, frame.error_detail, flag, c.addressof(frame))

    def cancel(self) -> int:
        """Stops the runs in progress, which raise Cancelled; returns their number."""
        found = [reference() for reference in self._running.valuerefs()]
        running = [run for run in found if run is not None and not run.is_done()]
        for run in running:
            run.stop(abi.CANCELLED)
        return len(running)

    def profiling(self, profile: Profile | None) -> None:
        """Makes the device measure every launch from now on, and record it in a profile; None stops that."""
        self._counted = None
        if profile is not None:
            backend = self.client.backend_name if self.client is not None else ""
            times: dict[int, list[int]] = {}
            measured: Any = _TimedRun(
                profile.run(self.name, backend, partial(self._counts, times)), self.driver, times
            )
            self._counted = measured

    def _counts(self, times: Mapping[int, list[int]]) -> Iterator[tuple[Row, int, int]]:
        """For each measured kernel: its profile row, the nanoseconds on the device, the number of calls."""
        rows = rows_of(self._program()) if self._module is not None else {}
        handles = self._kernels.handles if self._kernels is not None else ()
        for symbol, handle in zip(self.compiled.symbols, handles, strict=True):
            if found := times.get(handle):
                yield rows.get(symbol, Row(symbol, "kernel")), sum(found), len(found)

    # Texts, sizes and the serialized form.

    def _text(self, stage: str) -> str:
        if stage in ("hlo", "optimized"):
            return super()._text(stage)
        program, here = self._program(), self.compiled.host_steps
        return text_of(program, self.driver.target, here, stage)

    def _program(self) -> Any:
        with flags.override(**dict(self.options.flags)):
            return program_for(self._work(), self.driver.target)[0]

    def _optimized(self) -> Module:
        from axla.lowering.pipeline import optimize

        work = self._work()
        with flags.override(**dict(self.options.flags)):
            optimize(work, self.driver.target)
        return work

    def _work(self) -> Module:
        return work_of(self._source(), self.options.donate)

    def _code_bytes(self) -> int:
        return len(self.compiled.code) + sum(map(len, self.compiled.images))

    def _target(self) -> Target:
        return host_target()

    def _payload(self) -> bytes:
        made = self.compiled
        head = {
            "target": identity(self.driver.target), "symbols": made.symbols, "host_bytes": made.host_bytes,
            "waits": made.waits, "host_steps": dict(made.host_steps),
        }  # fmt: skip
        images = (json.dumps(head).encode(), made.code, *made.images)
        return encode(Packed(images, made.interface, made.constants))


class _TimedRun:
    """Measures calls of an executable while a profile is recorded: the device times the launches of one call
    at a time. Launches of calls nested in, or concurrent with, a measured call are not timed.
    """

    def __init__(self, run: Any, driver: Driver, times: dict[int, list[int]]) -> None:
        self._run, self._driver, self._times = run, driver, times

    def measure(self, function: Any, *arguments: Any) -> Any:
        if not _timing.acquire(blocking=False):
            return self._run.measure(function, *arguments)
        try:
            with self._driver.timed() as found:
                result = self._run.measure(function, *arguments)
        finally:
            _timing.release()
        for handle, each in found.items():
            self._times.setdefault(handle, []).extend(each)
        return result


_timing = locks.new_lock()


def _addresses(values: Iterable[int]) -> Any:
    found = list(values)
    return (c.c_void_p * max(len(found), 1))(*found)


class DeviceBackend(Backend):
    """A backend over drivers: derive from it, and define `driver`. A program runs on one device, by default
    the first.
    """

    device_kind = "device"
    any_devices = True
    capabilities = Capabilities(1, {"participants": "a program runs on one device"})

    def driver(self, number: int) -> Driver:
        """The driver of a device by number; always the same object."""
        raise NotImplementedError

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Compiles kernels for the device and the entry for the host. Kernels that the driver cannot build
        run on the host, with a warning. Raises CompileError if the driver builds each kernel alone, but not
        all together.
        """
        options.refuse_machine(self.name)
        driver, runner = self._queue_for(client, options)
        more = {"client": client, "module": module, "options": options}
        with located(module.file, module):
            program, segment = program_for(work_of(module, options.donate), driver.target)
            try:
                return DeviceExecutable(code_for(program, segment, driver.target), driver, runner, **more)
            except CompileError:
                refused = refused_kernels(program, driver)
                if not refused:
                    raise
                reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
                warn(f"{module.name}: the host runs what {driver.name} refuses: {reasons}", RuntimeWarning, 2)
            return DeviceExecutable(
                code_for(program, segment, driver.target, refused), driver, runner, **more
            )

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """Loads machine code for the host, which runs in this process with all its rights, and code for the
        device.
        """
        driver, runner = self._queue_for(client, options)
        try:
            packed = decode(payload)
            text, code, *images = packed.images
            head = json.loads(text)
            target = head["target"]
            made = Compiled(
                tuple(images), packed.interface, bytes(packed.constants), tuple(head["symbols"]), code,
                head["host_bytes"], head["waits"], head["host_steps"],
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgument(f"load: these bytes are not programs of axla ({error})") from error
        if target != identity(driver.target):
            raise UnsupportedError(f"load: a program for {target}, this device is {identity(driver.target)}")
        return DeviceExecutable(made, driver, runner, client=client, options=options)

    def _queue_for(self, client: Client, options: CompileOptions) -> tuple[Driver, Runner]:
        """The driver of a program's device, and the queue of its runs' host parts."""
        ((number,),) = options.device_assignment or client.default_device_assignment(1)
        driver = self.driver(client.device(number).local_id)
        return driver, runner_of(driver)

    def device_put(self, array: Any, device: Device) -> Array:
        """Copies an array-like to a device; InvalidArgument if `array` cannot be converted to an array."""
        try:
            return put(self.driver(device.local_id), array, device.local_id)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"device_put: {error}") from error


class QueueBackend(DeviceBackend):
    """A backend whose drivers are created on first use, as queues of the devices that are found. If there are
    fewer devices than queues, several queues share a device.
    """

    def __init__(self) -> None:
        self._lock = locks.new_lock()
        self._drivers: dict[int, Driver] = {}

    def driver(self, number: int) -> Driver:
        """The queue of a device by its local id, opened at the first use."""
        with self._lock:
            if number not in self._drivers:
                self._drivers[number] = self.opened(number)
            return self._drivers[number]

    def opened(self, number: int) -> Driver:
        """A new queue of a device; UnsupportedError if there is no device."""
        raise NotImplementedError


class OpenCLBackend(QueueBackend):
    """Compiles to SPIR-V and runs on the OpenCL devices of this machine."""

    name = "opencl"
    about = "OpenCL devices that take SPIR-V"

    def opened(self, number: int) -> Driver:
        """Opens a queue of a device. Numbers beyond the last device begin again with the first one."""
        from axla.device.opencl import OpenCL, devices

        found = devices()
        return OpenCL(*found[number % len(found)])


class CudaBackend(QueueBackend):
    """Compiles to PTX and runs on the NVIDIA GPUs of this machine."""

    name = "cuda"
    about = "NVIDIA GPUs"

    def opened(self, number: int) -> Driver:
        """Opens a queue of a device. Numbers beyond the last device begin again with the first one."""
        from axla.device.cuda import Cuda, devices

        found = devices()
        return Cuda(*found[number % len(found)])
