"""Loads a Program from its text for a Target. The text is not trusted: every kernel is planned again and
compared.
"""

from __future__ import annotations

from dataclasses import replace

from axla.analysis.dataflow import in_place_parameters
from axla.analysis.inplace import overwritable_parameters
from axla.analysis.regions import is_tiny
from axla.core.errors import VerifyError
from axla.hlo import Parameter
from axla.ir.graph import Computation
from axla.kernels.access import accesses, kernel_body
from axla.lowering.lower import CustomCallee, called, is_long_running, kernel_name
from axla.program.kernels import Kernel, plan_kernel
from axla.program.memory import Allocation, AllocationKind, BufferSlice
from axla.program.program import Program, all_steps
from axla.program.steps import Branch, BranchStep, CustomCallStep, KernelStep, LoopStep, RegisterStep, Step
from axla.program.text import parse_program
from axla.target.identity import identity
from axla.target.machine import Limits, Target, aligned

REGISTERS = Limits()
MOST_WRITTEN = REGISTERS.line


def load_program(text: str, segment: bytes, target: Target) -> Program:
    """Parses and checks the text of a program for `target`; `segment` has the bytes of its constants.

    If the text was made for this target, its plans must equal those of the target's planners. If it was made
    for another target, its kernels are planned again, and their scratch memory is added at the end of the
    workspace. Raises the errors of `parse_program`, VerifyError, and UnsupportedError for features that the
    target lacks.
    """
    program = parse_program(text, segment)
    kernels = check_program(program, target)
    if program.target != identity(target):
        return _with_kernels(program, kernels, target)
    busy = is_long_running(program, kernels)
    if busy and not program.interface.long_running:
        raise VerifyError(f"program {program.name} is long running, but its text says that it is not")
    for kernel, planned in zip(program.kernels, kernels, strict=True):
        if kernel != planned:
            raise VerifyError(f"kernel {kernel.name}: its plan differs from the one for {target.name}")
    return program


def check_program(program: Program, target: Target) -> tuple[Kernel, ...]:
    """Checks what a program declares about registers, calls and kernels, and plans its kernels for `target`.
    Raises VerifyError where a declaration is wrong.
    """
    called: set[int] = {-1}
    for step in all_steps(program):
        _check(program, step, target)
        called |= {getattr(step, "function", -1), getattr(step, "report", -1)}
    if len(called) - 1 != len(program.interface.functions):
        raise VerifyError(f"program {program.name} has functions in its table that no step calls")
    return tuple(_planned(kernel, target) for kernel in program.kernels)


def _planned(kernel: Kernel, target: Target) -> Kernel:
    """Plans a kernel anew; raises VerifyError if it may not overwrite the operands that its `in_place`
    names.
    """
    computation, limits = kernel.computation, target.limits
    if _written(computation) > MOST_WRITTEN:
        raise VerifyError(f"kernel {kernel.name} has over {MOST_WRITTEN} instructions, with those it calls")
    accesses(kernel_body(computation))  # raises an error if an element is computed at too many indices
    forced = {(leaf, number) for leaf, number in in_place_parameters(computation, limits).items()}
    free = overwritable_parameters(computation, limits)
    shapes = list(computation.root.shape.leaves())
    needed = {(leaf, number) for leaf, number in forced if shapes[leaf].byte_size}
    allowed = forced | {(leaf, number) for leaf, numbers in free.items() for number in numbers}
    if not needed <= set(kernel.in_place) <= allowed:
        raise VerifyError(f"kernel {kernel.name}: its computation does not allow in_place={kernel.in_place}")
    if kernel.name != kernel_name(computation, kernel.in_place):
        raise VerifyError(f"kernel {kernel.name}: the name is not the hash of its computation")
    return plan_kernel(kernel.name, computation, kernel.in_place, target)


def _written(computation: Computation) -> int:
    """The number of instructions of a computation with those of the computations that it calls, once per
    call. Stops counting above MOST_WRITTEN.
    """
    count, stack = 0, [computation]
    while stack and count <= MOST_WRITTEN:
        one = stack.pop()
        count += len(one.instructions)
        stack += [called for inst in one.instructions for called in inst.op.computations()]
    return count


def _check(program: Program, step: Step, target: Target) -> None:
    """Checks two things that the verifier of programs cannot check: that registers can hold the values of a
    register step, and that a custom call has the callee that it should have on `target`. Raises VerifyError.
    """
    if isinstance(step, RegisterStep):
        root = step.computation.root
        for inst in step.computation.instructions:
            if inst is not root and not isinstance(inst.op, Parameter) and not is_tiny(inst, REGISTERS):
                raise VerifyError(f"step {step.name}: {inst!r} cannot be computed in registers")
    elif isinstance(step, CustomCallStep):
        table = dict(enumerate(program.interface.functions))
        said = CustomCallee(step.api, table.get(step.function), step.plan, table.get(step.report))
        if said != called(step.site, target):
            raise VerifyError(f"step {step.name}: the callee is not the one of {step.site}")


def _with_kernels(program: Program, kernels: tuple[Kernel, ...], target: Target) -> Program:
    """The program with newly planned kernels, whose scratch memory all begins at the end of the old
    workspace.
    """
    start = aligned(program.interface.workspace_bytes)
    sizes = {kernel.name: kernel.plan.scratch_bytes for kernel in kernels}
    workspace = Allocation(AllocationKind.WORKSPACE, 0, 0)

    def moved(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(map(one, steps))

    def one(step: Step) -> Step:
        if isinstance(step, KernelStep):
            size = sizes[step.kernel]
            return replace(step, scratch=BufferSlice(workspace, start, size) if size else None)
        if isinstance(step, LoopStep):
            return replace(step, condition=moved(step.condition), body=moved(step.body))
        if isinstance(step, BranchStep):
            return replace(step, branches=tuple(Branch(moved(b.steps), b.values) for b in step.branches))
        return step

    known = program.interface
    interface = replace(
        known,
        workspace_bytes=start + max(sizes.values(), default=0),
        long_running=known.long_running or is_long_running(program, kernels),
    )
    return replace(
        program, target=identity(target), interface=interface, kernels=kernels, steps=moved(program.steps)
    )
