"""What a backend of another package builds on, beside `Backend` and `Executable` of `axla.backends`.

program, constants = kit.program_of(module, options)    a Program (axla.program), and its constants' bytes
class Mine(kit.HostExecutable): ...                     says how one run reads and writes arrays in memory
data = kit.encode(kit.Packed(images, interface, constants))     an executable's payload; `kit.decode`
"""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from axla.backends.executable import Executable
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.core.errors import InvalidArgument
from axla.core.literal import Literal
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.ir.places import located
from axla.lowering.donation import donate_parameters, row_major_boundary
from axla.lowering.pipeline import compile_program, constants_segment
from axla.program import abi
from axla.program.packed import Packed, decode, encode
from axla.program.program import Program
from axla.runtime.arguments import converted, failed_call
from axla.runtime.array import Array, device_put
from axla.runtime.dynamic import DynamicCall
from axla.target.machine import Limits, ObjectForm, Target

__all__ = ["PLAIN", "HostExecutable", "Packed", "decode", "encode", "program_of"]

PLAIN = Target(
    "plain", "", "", vector_bytes=8, max_lanes=1, blocks_products=False, limits=Limits(tiny=0),
    form=ObjectForm("source"),
)  # fmt: skip
"""A machine of which nothing is known. Its programs have all values in memory, so no `RegisterStep` or
`StoreStep` that does anything: kernels, copies, loops and branches are left.
"""
_POLL = 0.01  # seconds


def program_of(
    module: Module, options: CompileOptions, target: Target = PLAIN
) -> tuple[Program, bytes]:  # fmt: skip
    """The program of a module, which stays as it is, and the bytes of its constants: row-major arrays at the
    boundary, the parameters donated that the options name, all passes run.

    InvalidArgument for options that name another machine; UnsupportedError for what no pass expands.
    """
    if options.target_cpu is not None or options.target_features is not None:
        raise InvalidArgument(f"compile: {target.name} takes no target_cpu and no target_features")
    work, constants = clone_module(module), dict[Literal, int]()
    with located(module.file, module):
        row_major_boundary(work)
        donate_parameters(work, options.donate or ())
        program = compile_program(work, target, constants)
    return program, constants_segment(constants)


class HostExecutable(Executable):
    """An executable whose runs read and write memory of this process: derive from it, and say `_enter`.

    Arguments are checked and converted, donation, sizes up to a bound, deadlines, `cancel` and Ctrl-C are
    taken care of. A run is over when the call ends, `asynchronous` or not.
    """

    __slots__ = ("_running",)

    def __init__(self, interface: Any, **more: Any) -> None:
        super().__init__(interface, **more)
        self._running: dict[int, c.c_int32] = {}

    def _enter(self, arguments: list[np.ndarray], results: list[np.ndarray], stop: c.c_int32) -> None:
        """One run, from arrays into arrays, C-contiguous; an aliased result is its argument, and may be
        written over. Other threads may be in it too. It ends early, and soon, once `stop` is not 0.
        """
        raise NotImplementedError

    def cancel(self) -> int:
        """Stops the runs in progress, which raise Cancelled; gives their number."""
        running = list(self._running.values())
        for stop in running:
            stop.value = stop.value or abi.CANCELLED
        return len(running)

    def _run(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        def start(*leaves: Any) -> tuple[Array, ...]:
            return tuple(self._start(leaves, options))

        call = DynamicCall(start, self.interface) if self.interface.is_dynamic else start
        found = call(*inputs)
        return [found] if isinstance(found, Array) else list(found)

    def _start(self, inputs: Sequence[Any], options: ExecuteOptions) -> list[Array]:
        face = self.interface.of_code()
        given = converted(face, inputs)
        arguments = [np.asarray(a) for a in given]
        results = [np.empty(spec.shape.dims, spec.shape.dtype.numpy) for spec in face.results]
        for alias in face.aliases:
            results[alias.result][...] = arguments[alias.parameter]
            arguments[alias.parameter] = results[alias.result]
            if isinstance(array := given[alias.parameter], Array):
                array.delete()
        stop = c.c_int32(0)
        self._running[id(stop)] = stop
        timer = threading.Timer(min(options.deadline or 0, threading.TIMEOUT_MAX), _set, [stop, abi.DEADLINE])
        timer.daemon = True
        try:
            if options.deadline is not None:
                timer.start()
            self._entered(arguments, results, stop)
        finally:
            timer.cancel()
            del self._running[id(stop)]
        if stop.value:
            failed: Any = self  # of a loaded program it is asked for the interface alone
            failed_call(failed, abi.CANCELLED, 0, 0, stop.value, 0)
        return [device_put(array) for array in results]

    def _entered(self, arguments: list[np.ndarray], results: list[np.ndarray], stop: c.c_int32) -> None:
        """A run; on another thread where it may be long, so that Ctrl-C stops it."""
        if not self.interface.long_running or threading.current_thread() is not threading.main_thread():
            return self._enter(arguments, results, stop)
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(self._enter, arguments, results, stop)
            try:
                while not run.done():
                    wait([run], _POLL)
            except BaseException:
                _set(stop, abi.INTERRUPTED)
                raise
            return run.result()


def _set(stop: c.c_int32, why: int) -> None:
    stop.value = why
