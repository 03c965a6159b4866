"""A pass over programs that makes transfers between host and device memory explicit.

After lowering, a program has a single memory. On a device, kernels use the device's memory; registers and the
operands of custom calls are in memory of the host. After this pass every step, except transfers, uses either
registers or the device's memory, and a `TransferStep` moves each value from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from axla.core.errors import InternalError
from axla.program.kernels import Kernel, plan_kernel
from axla.program.memory import Allocation, AllocationKind, BufferSlice, MemorySpace
from axla.program.program import Program
from axla.program.steps import (
    ArrayValue,
    Branch,
    BranchStep,
    Carried,
    CollectiveStep,
    CopyStep,
    CustomCallStep,
    KernelStep,
    LoopStep,
    RegisterStep,
    Step,
    StoreStep,
    TransferStep,
)
from axla.target.machine import Target, aligned

Steps = list[Step]


def with_transfers(
    program: Program, here: Collection[str] = (), host: Target | None = None
) -> tuple[Program, int]:
    """The program with all transfers as steps, and the number of bytes of host memory that it uses.

    Kernels named in `here` are planned for the target `host`, which runs them.
    """
    planned = {
        kernel.name: plan_kernel(kernel.name, kernel.computation, kernel.in_place, host)
        for kernel in program.kernels
        if kernel.name in here and host is not None
    }
    split = _Split(planned)
    steps = tuple(split.steps(program.steps))
    kernels = tuple(planned.get(kernel.name, kernel) for kernel in program.kernels)
    return replace(program, steps=steps, kernels=kernels), split.host_bytes


class _Split:
    def __init__(self, here: Mapping[str, Kernel]) -> None:
        self.here = here
        self.held: list[set[str]] = [set()]  # names of values in registers, in each open scope
        self.loops: list[tuple[Steps, set[str]]] = []  # of each open loop: steps before it, `held` there
        self.made: dict[str, int] = {}  # how many loops were open when a value was made or moved
        self.host_bytes = 0

    def steps(self, steps: Sequence[Step]) -> Steps:
        found: Steps = []
        for step in steps:
            self.made.update((name, len(self.loops)) for name in _made(step))
            _SPLITS[type(step)](self, step, found)
        return found

    def scope(self, steps: Sequence[Step]) -> Steps:
        """Converts the steps of a branch. Values moved to registers in it are not available after it."""
        self.held.append(set())
        return self.steps(steps)

    def fetched(self, value: ArrayValue, steps: Steps) -> ArrayValue:
        """Returns `value` in registers of the host. If it is in memory only, appends a transfer to `steps`,
        or adds it before the outermost open loop that does not change the value.
        """
        register, held = replace(value, place=None), self.held[-1]
        if value.place is not None and not any(value.name in names for names in self.held):
            depth = self.made.get(value.name, 0)
            if depth < len(self.loops):
                steps, held = self.loops[depth]
            steps.append(TransferStep(value.name, value, register))
        held.add(value.name)
        return register

    def kept(self, step: Step, steps: Steps) -> None:
        steps.append(step)

    def kernel(self, step: KernelStep, steps: Steps) -> None:
        """Adds a kernel. If the host runs it, it gets copies of its operands, and results written over
        operands are written over the copies.
        """
        kernel = self.here.get(step.kernel)
        if kernel is None:
            steps.append(step)
            return
        self.hosted(step, steps, dict(kernel.in_place), kernel.plan.scratch_bytes)

    def registers(self, step: RegisterStep, steps: Steps) -> None:
        operands = tuple(self.fetched(value, steps) for value in step.operands)
        results = tuple(replace(value, place=None) for value in step.results)
        steps.append(replace(step, operands=operands, results=results))
        self.held[-1].update(value.name for value in results)
        for register, value in zip(results, step.results, strict=True):
            if value.place is not None:
                steps.append(TransferStep(value.name, register, value))

    def copy(self, step: CopyStep, steps: Steps) -> None:
        if step.target.place is None:
            self.held[-1].add(step.target.name)
        if (step.source.place is None) == (step.target.place is None):
            steps.append(step)
        else:
            steps.append(TransferStep(step.source.name, step.source, step.target))

    def store(self, step: StoreStep, steps: Steps) -> None:
        raise InternalError(f"{step.name}: only kernels store elements into the memory of a device")

    def loop(self, step: LoopStep, steps: Steps) -> None:
        registers = [one.parameter.place is None for one in step.carried]
        initial = [
            self.fetched(one.initial, steps) if held else one.initial
            for one, held in zip(step.carried, registers, strict=True)
        ]
        self.loops.append((steps, self.held[-1]))
        self.made.update((one.parameter.name, len(self.loops)) for one in step.carried)
        self.held.append({one.parameter.name for one in step.carried if one.parameter.place is None})
        condition = self.steps(step.condition)
        test = self.fetched(step.test, condition)
        body = self.steps(step.body)
        following = [
            self.fetched(one.next, body) if held else one.next
            for one, held in zip(step.carried, registers, strict=True)
        ]
        self.held.pop()
        self.loops.pop()
        carried = tuple(
            Carried(first, one.parameter, later, one.result)
            for one, first, later in zip(step.carried, initial, following, strict=True)
        )
        self.held[-1].update(one.result.name for one in carried if one.result.place is None)
        steps.append(replace(step, carried=carried, condition=tuple(condition), test=test, body=tuple(body)))

    def branches(self, step: BranchStep, steps: Steps) -> None:
        selector = self.fetched(step.selector, steps)
        branches = []
        for branch in step.branches:
            inside = self.scope(branch.steps)
            values = tuple(
                self.fetched(value, inside) if result.place is None else value
                for result, value in zip(step.results, branch.values, strict=True)
            )
            self.held.pop()
            branches.append(Branch(tuple(inside), values))
        self.held[-1].update(result.name for result in step.results if result.place is None)
        steps.append(replace(step, selector=selector, branches=tuple(branches)))

    def custom_call(self, step: CustomCallStep, steps: Steps) -> None:
        """Adds a call on the host, with copies of its operands; its results are copied to the device."""
        self.hosted(step, steps, {}, step.scratch.size if step.scratch is not None else 0)

    def hosted(self, step: Any, steps: Steps, over: Mapping[int, int], scratch: int) -> None:
        """Adds a step that the host runs on copies of its operands; its results are copied to the device.
        `over` has, by the number of a result, the number of the operand that it is written over. `scratch` is
        the size of the step's scratch memory in bytes.
        """
        self.used = 0
        operands = tuple(value and self.on_host(value) for value in step.operands)
        results = tuple(
            replace(value, place=operands[over[n]].place) if n in over else value and self.on_host(value)
            for n, value in enumerate(step.results)
        )
        host_slice = self.host_slice(scratch) if scratch else None
        steps += self.moves(step, step.operands, operands)
        steps.append(replace(step, operands=operands, results=results, scratch=host_slice))
        steps += self.moves(step, results, step.results)

    def moves(self, step: Any, old: Sequence[ArrayValue | None], new: Sequence[ArrayValue | None]) -> Steps:
        pairs = zip(old, new, strict=True)
        return [
            TransferStep(a.name, a, b, step.location) for a, b in pairs if a is not None and b is not None
        ]

    def on_host(self, value: ArrayValue) -> ArrayValue:
        return replace(value, place=self.host_slice(value.memory.size))

    def host_slice(self, size: int) -> BufferSlice:
        """Reserves host memory for the current step. Each step uses the host memory from the beginning."""
        begin = self.used
        self.used = begin + aligned(size)
        self.host_bytes = max(self.host_bytes, self.used)
        return BufferSlice(HOST, begin, size)

    def collective(self, step: CollectiveStep, steps: Steps) -> None:
        raise InternalError(f"{step.name}: a program on one device cannot contain {step.kind}")


def _made(step: Step) -> list[str]:
    """The names of the values that a step computes, or copies."""
    if isinstance(step, LoopStep):
        return [one.result.name for one in step.carried]
    if isinstance(step, CopyStep | TransferStep):
        return [step.target.name]
    results = (step.result,) if isinstance(step, StoreStep) else step.results
    return [value.name for value in results if value is not None]


HOST = Allocation(AllocationKind.WORKSPACE, 0, 0, space=MemorySpace.HOST)
"""Memory of the host that custom calls and kernels of the host use, one after the other."""
_SPLITS: dict[type, Callable[[_Split, Any, Steps], None]] = {
    KernelStep: _Split.kernel, RegisterStep: _Split.registers, CopyStep: _Split.copy, StoreStep: _Split.store,
    LoopStep: _Split.loop, BranchStep: _Split.branches, CustomCallStep: _Split.custom_call,
    CollectiveStep: _Split.collective, TransferStep: _Split.kept,
}  # fmt: skip
