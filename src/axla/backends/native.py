"""`NativeExecutable`: a program of machine code that runs in this process."""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

from axla.backends.executable import Executable
from axla.backends.nesting import flatten, is_flat_call, nest
from axla.backends.options import ExecuteOptions
from axla.core.errors import UnsupportedError
from axla.core.profile import Profile, Row
from axla.program import abi
from axla.program.interface import Interface
from axla.program.packed import Packed
from axla.runtime.arguments import converted
from axla.runtime.array import Array, device_put
from axla.runtime.dynamic import DynamicCall
from axla.runtime.grid import Grid, launch, watch
from axla.runtime.native import native
from axla.runtime.profiled import ProfiledCall
from axla.runtime.program import LoadedProgram
from axla.runtime.queue import Task, own_queue

ObjectFiles = bytes | Sequence[bytes]


def run_together(
    programs: Sequence[LoadedProgram], rows: Sequence[Sequence[Any]], grid: Grid, options: ExecuteOptions
) -> list[list[Array]]:
    """Runs all participants of a grid once: `programs` has the program of each, `rows` its arguments. Returns
    the results of each.
    """
    given = [converted(p.interface, row, n) for n, (p, row) in enumerate(zip(programs, rows, strict=True))]
    arrays = [[a if isinstance(a, Array) else device_put(a) for a in row] for row in given]
    tasks: list[Task] = []
    try:
        for program, row in zip(programs, arrays, strict=True):
            tasks.append(Task(program, row, grid))
    except BaseException:
        for task, row in zip(tasks, arrays, strict=False):
            task.undo(row)
        raise
    results = [task.results() for task in tasks]
    try:
        with launch:
            for task in tasks:
                task.loaded.queue.hand_over(task, options.deadline)
    except BaseException:
        grid.stop(abi.INTERRUPTED)  # stops the participants that have begun
        raise
    if options.asynchronous:
        watch(grid, tasks)
    else:
        grid.wait(tasks)
        grid.mailbox.finish()
    return results


class NativeExecutable(Executable):
    """A program of machine code. `image` is one object file, or several that refer to each other."""

    __slots__ = ("_images", "_loaded", "_others", "_engine", "_native_call", "_flat", "_places")

    def __init__(
        self, image: ObjectFiles, interface: Interface, constants: bytes | memoryview | None = None,
        functions: Mapping[str, int] | None = None, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(interface, **more)
        self._images = (bytes(image),) if isinstance(image, bytes | bytearray | memoryview) else tuple(image)
        code, mine = interface.of_code(), self.local_participants
        devices = self.devices
        self._engine = self._join(code, constants) if 0 < len(mine) < len(devices) else None
        if self._engine is not None:
            functions = {**(functions or {}), "axla.collective": self._engine.address}
        places = self._places = [(devices[n].id if devices else 0, n) for n in mine] or [(0, 0)]
        self._loaded = LoadedProgram(self._images, code, constants, functions, *places[0])
        self._others = [
            LoadedProgram((), code, constants, functions, *place, self._loaded) for place in places[1:]
        ]
        self._native_call: Any = native().callable_new(self._loaded.address, self._loaded)
        if interface.is_dynamic:
            self._native_call = DynamicCall(self._native_call, interface)
        self._flat = is_flat_call(interface) and self.device_ids == [0]

    def _join(self, code: Interface, constants: bytes | memoryview | None) -> Any:
        """Returns the engine for collectives between processes. All processes must have loaded the same
        program.
        """
        assert self.client is not None and self.client.job is not None
        digest = blake2b(code.to_text().encode(), digest_size=32)
        for part in (*self._images, constants or b""):
            digest.update(part)
        return self.client.job.engine(code, self.device_ids, digest.digest())

    def __call__(self, *arguments: Any) -> Any:
        """Runs the program. Arguments and result are nested like the module's parameters and result."""
        if self._flat:
            return self._native_call(*arguments)
        return nest(self.interface.result_tree, self.execute(flatten(self.interface, arguments)))

    def profiling(self, profile: Profile | None) -> None:
        """Starts recording, or stops if `profile` is None. Meanwhile calls run a program that reads the
        clock. Runs on several processes are only counted.
        """
        if self._engine is not None:
            return super().profiling(profile)
        call = self._native_call
        self._native_call = call.plain if isinstance(call, ProfiledCall) else call
        if profile is not None:
            backend = self.client.backend_name if self.client is not None else ""
            given = self._native_call, self.name, backend, profile, self._timed, self._places
            self._native_call = ProfiledCall(*given)

    def _timed(self) -> tuple[Packed, Sequence[Row]] | None:
        """Returns (the program that reads the clock, a row for each step); None if the module is not
        available.
        """
        return None

    def cancel(self) -> int:
        """Stops the runs in progress, which then raise Cancelled; returns their number."""
        call, programs = self._native_call, [self._loaded, *self._others]
        programs += call.loaded if isinstance(call, ProfiledCall) else []
        handed = max(program.queue.cancel(program) for program in programs)  # stops other participants too
        return handed + sum(native().cancel(program.address, abi.CANCELLED) for program in programs)

    def _run(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        deadline, call = options.deadline, self._native_call
        # A profiled call measures its steps on this thread, so it is not asynchronous.
        if options.asynchronous and not isinstance(call, ProfiledCall):
            if isinstance(call, DynamicCall):
                return call.dispatch(self._loaded, inputs, deadline)
            return self._loaded.queue.dispatch(call, self._loaded, inputs, deadline)
        found = call(*inputs) if deadline is None else self._run_until(deadline, inputs)
        return [found] if isinstance(found, Array) else list(found)

    def _run_replicated(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        """Puts a task for each device into the device's queue; all runs begin together."""
        if own_queue() is not None:
            raise UnsupportedError(
                f"{self.name}: a program for several devices cannot be run by a function that a run on a "
                "device calls: the devices may be busy with that run"
            )
        grid = Grid(*self.counts, self.device_ids)
        if self._engine is not None:
            self._engine.join(grid)
        call, programs, run = self._native_call, [self._loaded, *self._others], run_together
        plain = call.plain if isinstance(call, ProfiledCall) else call
        if isinstance(plain, DynamicCall):
            run = partial(plain.together, run)
        if isinstance(call, ProfiledCall):
            run = partial(call.together, run)
        return run(programs, rows, grid, options)

    def _run_until(self, deadline: float, inputs: list[Any]) -> Any:
        flags = (c.c_int32 * 2)()

        def expire() -> None:
            flags[0] = abi.DEADLINE

        timer = threading.Timer(min(deadline, threading.TIMEOUT_MAX), expire)
        timer.daemon = True
        timer.start()
        try:
            return self._native_call.with_flag(c.addressof(flags), *inputs)
        finally:
            timer.cancel()

    def _code_bytes(self) -> int:
        return sum(map(len, self._images))

    def __reduce__(self) -> tuple:
        if self.client is not None:
            return super().__reduce__()
        return NativeExecutable, (self._images, self.interface, bytes(self._loaded.constants() or b""))
