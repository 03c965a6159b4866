"""The backend `interpreter`: evaluates modules with NumPy, for any number of replicas and partitions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from axla.analysis.cost import entry_costs
from axla.backends.executable import Executable
from axla.backends.interface import Backend, Capabilities, Client
from axla.backends.options import CompileOptions, ExecuteOptions
from axla.core.profile import Profile, Row
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.interpreter.custom_calls import Handlers, check_custom_call
from axla.interpreter.evaluate import Interpreter
from axla.interpreter.parallel import MOST, run_programs, run_replicated
from axla.ir.clone import clone_module
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.places import located
from axla.lowering.donation import donate_parameters
from axla.lowering.interface import declared_aliases, interface_of
from axla.passes import driver, pipelines
from axla.runtime.arguments import check_count, check_donation, convert
from axla.runtime.array import Array, device_put
from axla.runtime.ffi import HandlerCall

Handlers.make = HandlerCall


class InterpreterBackend(Backend):
    """The reference backend: evaluates a module op by op with NumPy, in one thread per participant."""

    name = "interpreter"
    about = "the reference: NumPy evaluates op by op, on as many devices as wanted"
    any_devices = True
    capabilities = Capabilities(MOST, {"participants": f"each is a thread, and there are at most {MOST}"})

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        """Prepares a copy of the module for evaluation. InvalidArgument for options that name a CPU."""
        options.refuse_machine(self.name)
        work = prepared_copy(module)
        if options.donate:
            donate_parameters(work, options.donate)
        return InterpretedExecutable(work, client=client, module=module, options=options)

    def execute_parallel(
        self, modules: Sequence[Module], rows: Sequence[Sequence[Any]], deadline: float | None = None
    ) -> list[list[Array]]:  # fmt: skip
        """Evaluates the modules at the same time, each in a thread with its own row of arguments; returns the
        results of each.
        """
        made = [InterpretedExecutable(prepared_copy(module), client=self.client) for module in modules]
        values = [one.values(list(row)) for one, row in zip(made, rows, strict=True)]
        with np.errstate(all="ignore"):
            found = run_programs(Interpreter(deadline=deadline), [one.entry for one in made], values)
        return [one.results(v, n) for n, (one, v) in enumerate(zip(made, found, strict=True))]

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """Reads, verifies and compiles the module in the payload. Nothing in the bytes is executed
        directly.
        """
        return compiled_again(client, payload, options)


def compiled_again(client: Client, payload: bytes, options: CompileOptions) -> Executable:
    """Compiles the module in the payload of an `InterpretedExecutable`, and returns the executable."""
    from axla import proto

    sized = replace(options, arg_types=None, dim_args=None)
    return client.compile(proto.read(payload), sized)


def prepared_copy(module: Module) -> Module:
    """Returns a copy of a module after the passes that every backend runs, since they decide values such as
    the contents of random numbers.
    """
    work = clone_module(module)
    with located(module.file, module):
        driver.run(work, pipelines.PREPARE, name="prepare")
    return work


class Clocks:
    """Measures the time and number of calls of the entry's instructions."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._sums: dict[Instruction, np.ndarray] = {}

    def timed(self, inst: Instruction, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the function that evaluates an instruction, so that its calls are measured."""
        sums = self._sums.setdefault(inst, np.zeros(2, np.int64))

        def run(*values: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                return function(*values)
            finally:
                sums[:] += (time.perf_counter_ns() - start, 1)

        return run

    def counts(self) -> Iterator[tuple[Row, int, int]]:
        """Yields (row of the instruction, nanoseconds, calls) for each measured instruction."""
        costs = entry_costs(self._module)
        for inst, sums in self._sums.items():
            cost = costs[inst]
            operations = cost.operations + cost.transcendentals
            row = Row(inst.name, inst.opcode, cost.bytes, operations, str(inst.extra.location or ""))
            yield row, *sums.tolist()


class InterpretedExecutable(Executable):
    """Evaluates a module with NumPy. The random numbers of `rng` differ from run to run, but those of the
    n-th run are always the same.
    """

    __slots__ = ("_work", "_seeds", "_running", "_clocks")

    def __init__(self, work: Module, **more: Any) -> None:
        super().__init__(interface_of(work, declared_aliases(work)), **more)
        self._work = work
        self._seeds = itertools.count(0, 1 << 64)  # each step is larger than the count that a run draws
        self._running: dict[Interpreter, None] = {}
        self._clocks: Clocks | None = None
        for inst in Interpreter().needed(work.entry):
            check_custom_call(inst)

    @property
    def entry(self) -> Computation:
        """The entry of the prepared copy of the module."""
        return self._work.entry

    def cancel(self) -> int:
        """Stops the runs in progress, which then raise Cancelled; returns their number."""
        running = list(self._running)
        for interpreter in running:
            interpreter.cancel()
        return len(running)

    def profiling(self, profile: Profile | None) -> None:
        """Starts measuring every instruction of the entry, or stops if `profile` is None."""
        self._clocks = Clocks(self._work) if profile is not None else None
        self._counted = None
        if profile is not None and self._clocks is not None:
            backend = self.client.backend_name if self.client is not None else "interpreter"
            self._counted = profile.run(self.name, backend, self._clocks.counts)

    def _run(self, inputs: list[Any], options: ExecuteOptions) -> list[Array]:
        (values,) = self._taken([inputs])
        with self._interpreter(options.deadline) as interpreter:
            return self.results(interpreter.host(interpreter.run(self._work.entry, values)))

    def _run_replicated(self, rows: list[list[Any]], options: ExecuteOptions) -> list[list[Array]]:
        values = self._taken(rows)
        with self._interpreter(options.deadline) as interpreter:
            results = run_replicated(interpreter, self._work.entry, values, *self.counts, self.device_ids)
        return [self.results(result, n) for n, result in zip(self.device_ids, results, strict=True)]

    def _taken(self, rows: list[list[Any]]) -> list[list[Any]]:
        """Converts the arguments of each participant to values of the interpreter. Donated arrays are
        deleted, even if the run fails.
        """
        values = [self.values(row, n) for n, row in enumerate(rows)]
        for array in [row[index] for row in rows for index in self.interface.donated]:
            if isinstance(array, Array):
                array.delete()
        return values

    def _made(self, **limits: Any) -> Interpreter:
        """Makes the interpreter for one run; `limits` are keyword arguments of `Interpreter`."""
        return Interpreter(**limits)

    @contextmanager
    def _interpreter(self, deadline: float | None) -> Iterator[Interpreter]:
        interpreter = self._made(
            deadline=deadline, seed=next(self._seeds), clock=self._clocks and self._clocks.timed
        )
        self._running[interpreter] = None
        try:
            with np.errstate(all="ignore"):
                yield interpreter
        finally:
            del self._running[interpreter]

    def values(self, inputs: list[Any], participant: int = 0) -> list[Any]:
        """Converts the inputs of a participant to the values of the parameters: nested tuples of NumPy
        arrays, with None for tokens.
        """
        interface = self.interface
        check_count(interface, len(inputs))
        check_donation(interface, inputs, interface.donated)
        first = participant * len(inputs)
        given = (
            np.asarray(convert(interface, first + index, spec, value))
            for index, (spec, value) in enumerate(zip(interface.parameters, inputs, strict=True))
        )
        return [_value(p.shape, given) for p in self._work.entry.parameters]

    def results(self, result: Any, device: int = 0) -> list[Array]:
        """Converts the value of the result to a list of its leaves, as arrays on a device."""
        leaves: list[Any] = []
        stack = [result]
        while stack:
            value = stack.pop()
            if isinstance(value, tuple):
                stack.extend(reversed(value))
            elif value is not None:
                leaves.append(value)
        return [
            device_put(np.asarray(leaf, spec.shape.dtype.numpy), device)
            for leaf, spec in zip(leaves, self.interface.results, strict=True)
        ]

    def _optimized(self) -> Module:
        return self._work

    def _payload(self) -> bytes:
        from axla import proto

        return proto.to_proto(self._source())


def _value(shape: AnyShape, leaves: Iterator[Any]) -> Any:
    if isinstance(shape, TupleShape):
        return tuple(_value(element, leaves) for element in shape.elements)
    return next(leaves) if isinstance(shape, Shape) else None
