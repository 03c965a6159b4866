"""Base classes for backends of other packages, in addition to `Backend` and `Executable` of `axla.backends`.

program, constants = kit.program_of(module, options)    a Program (axla.program), and its constants' bytes
class Mine(kit.HostExecutable): ...                     its runs read and write arrays in memory
data = kit.encode(kit.Packed(images, interface, constants))     an executable's payload; `kit.decode` reads it

class Mine(kit.OpByOp): ...                defines functions for some ops; NumPy evaluates the others
class MyBackend(kit.OpByOpBackend): ...    compiles to such executables and loads them
"""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from axla.backends.executable import Executable
from axla.backends.interface import Backend, Client
from axla.backends.interpreter import InterpretedExecutable, compiled_again, prepared_copy
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.core.errors import AxlaError, OutOfMemory, RuntimeFailure
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.interpreter import Interpreter
from axla.ir.graph import Instruction, Module
from axla.ir.op import Op
from axla.ir.places import located
from axla.lowering.donation import donate_parameters, row_major_boundary, work_of
from axla.lowering.pipeline import compile_program, constants_segment
from axla.passes import driver, pipelines
from axla.passes.expand.expanders import EXPANDERS
from axla.program import abi
from axla.program.packed import Packed, decode, encode
from axla.program.program import Program
from axla.runtime.arguments import converted, failed_call
from axla.runtime.array import Array, device_put
from axla.runtime.dynamic import DynamicCall
from axla.target.machine import Limits, ObjectForm, Target

__all__ = [
    "PLAIN", "HostExecutable", "Instruction", "OpByOp", "OpByOpBackend", "Packed", "decode", "encode",
    "program_of", "simplified",
]  # fmt: skip

PLAIN = Target(
    "plain", "", "", vector_bytes=8, max_lanes=1, blocks_products=False, limits=Limits(tiny=0, scans=False),
    form=ObjectForm("source"),
)  # fmt: skip
"""A machine without any known properties. Its programs keep all values in memory. So they have kernels,
copies, loops and branches, but no `RegisterStep` or `StoreStep` with an effect.
"""
_POLL = 0.01  # seconds
_Result = TypeVar("_Result")


def program_of(module: Module, options: CompileOptions, target: Target = PLAIN) -> tuple[Program, bytes]:
    """Returns (the program of a module, the bytes of its constants). All passes are run on a copy of the
    module: arrays at its boundary become row-major, and parameters that the options name are donated.

    Raises InvalidArgument for options that name a CPU, UnsupportedError for ops that no pass expands.
    """
    options.refuse_machine(target.name)
    constants: dict[Literal, int] = {}
    with located(module.file, module):
        work = work_of(module, options.donate)
        program = compile_program(work, target, constants)
    return program, constants_segment(constants)


class HostExecutable(Executable):
    """An executable whose runs read and write memory of this process. Derive from it, and define `_enter`.

    This class checks and converts arguments, and handles donation, dynamic sizes, deadlines, `cancel` and
    Ctrl-C. Each run ends before the call returns, even if `asynchronous`.
    """

    __slots__ = ("_running",)

    def __init__(self, interface: Any, **more: Any) -> None:
        super().__init__(interface, **more)
        self._running: dict[int, c.c_int32] = {}

    def _enter(self, arguments: list[np.ndarray], results: list[np.ndarray], stop: c.c_int32) -> None:
        """Runs the program once. All arrays are C-contiguous. If a result is aliased with an argument, both
        are the same array, which may be overwritten. Several threads may call this at the same time. It must
        return soon after `stop` becomes nonzero.
        """
        raise NotImplementedError

    def cancel(self) -> int:
        """Stops the runs in progress, which then raise Cancelled; returns their number."""
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
            failed: Any = self  # only its `interface` is used
            failed_call(failed, abi.CANCELLED, 0, 0, stop.value, 0)
        return [device_put(array) for array in results]

    def _entered(self, arguments: list[np.ndarray], results: list[np.ndarray], stop: c.c_int32) -> None:
        """Calls `_enter`. If the run may be long and this is the main thread, another thread does, so that
        Ctrl-C stops the run.
        """
        if not self.interface.long_running or threading.current_thread() is not threading.main_thread():
            return self._enter(arguments, results, stop)
        return apart(partial(self._enter, arguments, results, stop), partial(_set, stop, abi.INTERRUPTED))


def apart(work: Callable[[], _Result], stop: Callable[[], None]) -> _Result:
    """Runs `work` in another thread and returns its result. Ctrl-C calls `stop`, and is raised when the work
    has ended. A second Ctrl-C is raised at once: what the work uses must be kept alive by `work` itself.
    """
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # starts the thread: if Ctrl-C interrupted that, the pool would not join it
        try:
            run = pool.submit(work)
            while not run.done():
                wait([run], _POLL)
        except BaseException:
            stop()
            raise
        return run.result()


def _set(stop: c.c_int32, why: int) -> None:
    stop.value = why


_SIMPLIFIED = (
    pipelines.marker_removal, pipelines.layout_normalization, pipelines.defuse,
    *(p for p in EXPANDERS if p.name in ("async-unwrapper", "op-expander", "batchnorm-expander")),
    pipelines.call_inliner, pipelines.map_inliner, *pipelines.SIMPLIFY, pipelines.expand_barriers,
    pipelines.dot_canonicalize, pipelines.cse, pipelines.dce,
)  # fmt: skip


def simplified(module: Module, options: CompileOptions) -> Module:
    """Returns a copy of a module for backends that run it op by op: simplified, without calls, fusions and
    layouts.

    Dots are [m, k] x [k, n], or [b, m, k] x [b, k, n] with one leading batch dimension; the last two
    dimensions of either operand may be exchanged. A module with dynamic sizes is not simplified.
    """
    work = prepared_copy(module)
    if not _is_dynamic(work):
        with located(module.file, module):
            row_major_boundary(work)
            driver.run(work, _SIMPLIFIED, PLAIN, name="op-by-op")
    if options.donate:
        donate_parameters(work, options.donate)
    return work


def _is_dynamic(module: Module) -> bool:
    insts = (inst for computation in module.computations for inst in computation.instructions)
    return any(isinstance(s, Shape) and s.is_dynamic for inst in insts for s in inst.shape.leaves())


class OpByOp(InterpretedExecutable):
    """An executable that runs its module one instruction after the other. The device runs those for which the
    class has functions, also in loops and branches. The host evaluates the others, with the interpreter's
    NumPy functions.

    Derive from it, and define `ops`. Define `why_not` if not all instructions of an op are supported,
    `to_device` and `to_host` if the device has its own memory. `host_steps` lists the instructions that the
    host runs.
    """

    __slots__ = ("__dict__",)

    ops: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    """The device's functions by opcode: function(instruction, *operands) returns the value. Operands and
    value are objects as `to_device` returns them, with the shapes of the instruction; operands must not be
    written. Several threads may run the executable. A run can be stopped between two instructions. An
    exception of a function becomes a RuntimeFailure with the instruction, MemoryError an OutOfMemory.
    """

    def why_not(self, inst: Instruction) -> str:
        """The reason why the host runs an instruction although `ops` has its opcode, such as an element type
        or rank that the device lacks; "" if the device runs it.
        """
        return ""

    def to_device(self, array: np.ndarray) -> Any:
        """Copies an array to the memory of the device. Returns any object except a tuple, None or a NumPy
        array, or, by default, the array itself.
        """
        return array

    def to_host(self, value: Any) -> np.ndarray:
        """Copies a value from the device to an array. The array has the shape and element type of its
        instruction.
        """
        return value

    @cached_property
    def host_steps(self) -> Mapping[str, str]:
        """The instructions that the host runs, with the reasons. Constants, tuples and control flow are left
        out, since they compute nothing.
        """
        return {
            f"{inst.opcode} {inst.name}": why
            for inst in self._walked()
            if not _is_handed_on(inst.op) and inst.opcode != "constant" and (why := self.reason(inst))
        }

    def reason(self, inst: Instruction) -> str:
        """The reason why the host runs an instruction; "" if the device runs it."""
        if inst.opcode not in self.ops:
            return f"the device has no {inst.opcode}"
        return "the program has dynamic sizes" if self._dynamic else self.why_not(inst)

    @cached_property
    def _dynamic(self) -> bool:
        return _is_dynamic(self._work)

    def _walked(self) -> Iterator[Instruction]:
        """Yields the instructions of the entry and of its loops and branches."""
        stack, seen = [self._work.entry], {self._work.entry}
        while stack:
            for inst in stack.pop().instructions:
                yield inst
                called = inst.op.computations() if inst.op.control else ()
                stack += [c for c in called if c not in seen]
                seen.update(called)

    def _made(self, **limits: Any) -> Interpreter:
        return _Walker(self, **limits)


def _is_handed_on(op: Op) -> bool:
    """Whether an op returns values of its operands unchanged, wherever they are stored."""
    return op.structural or op.control or (op.passes_on and not op.moves)


class _Walker(Interpreter):
    """Runs an OpByOp once. An interpreter evaluates the instructions of the host, and the computations that
    an op applies to elements.
    """

    def __init__(self, program: OpByOp, **limits: Any) -> None:
        super().__init__(**limits)
        self._program = program
        self._host = self.beside()

    def host(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.host, value))
        if value is None or isinstance(value, (np.ndarray, np.generic)):
            return value
        with _blamed(self._program.to_host):
            return np.asarray(self._program.to_host(value))

    def evaluator(self, inst: Instruction) -> Callable[..., Any]:
        if inst.op.structural or inst.op.control:
            return super().evaluator(inst)
        if _is_handed_on(inst.op):
            return _first
        if self._program.reason(inst):
            return partial(self._on_host, self._host.evaluator(inst))
        return partial(self._on_device, inst, self._program.ops[inst.opcode])

    def _on_host(self, function: Callable[..., Any], *operands: Any) -> Any:
        return function(*map(self.host, operands))

    def _on_device(self, inst: Instruction, function: Callable[..., Any], *operands: Any) -> Any:
        put, wanted = self._program.to_device, inst.shape
        with _blamed(inst):
            value = function(inst, *[put(x) if isinstance(x, np.ndarray) else x for x in operands])
        found = getattr(value, "dtype", None), tuple(getattr(value, "shape", ()))
        if isinstance(wanted, Shape) and found[0] is not None and found != (wanted.dtype.numpy, wanted.dims):
            raise RuntimeFailure(f"{inst!r}: its function returned {found[0]}{list(found[1])}, not {wanted}")
        return value


@contextmanager
def _blamed(what: object) -> Iterator[None]:
    """A context manager for calls of a backend's functions: exceptions other than AxlaError become
    RuntimeFailure, MemoryError becomes OutOfMemory.
    """
    try:
        yield
    except AxlaError:
        raise
    except Exception as error:
        kind = OutOfMemory if isinstance(error, MemoryError) else RuntimeFailure
        raise kind(f"{what!r}: the device's function failed: {type(error).__name__}: {error}") from error


def _first(operand: Any, *_: Any) -> Any:
    return operand


class OpByOpBackend(Backend):
    """A backend that compiles to OpByOp executables. Derive from it, and set `executable` to the class of
    these executables.
    """

    executable: ClassVar[type[OpByOp]] = OpByOp

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Simplifies a copy of the module, and makes an executable of the class `executable`."""
        options.refuse_machine(self.name)
        return self.executable(simplified(module, options), client=client, module=module, options=options)

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """Compiles the module in the payload again."""
        return compiled_again(client, payload, options)
