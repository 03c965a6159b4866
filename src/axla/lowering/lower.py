"""Module -> Program: a scheduled, fused module with buffers becomes kernels and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from axla.analysis.buffers import Buffers
from axla.analysis.regions import is_tiny, is_tiny_store
from axla.analysis.scratch import Scratch
from axla.analysis.trip_count import trip_count
from axla.codegen.emit.kinds import plan_kernel
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.custom.registry import Target as CallTarget
from axla.custom.registry import find_target
from axla.custom.routines import plan_of
from axla.custom.site import EXTERNAL, LIBRARY, REPORT, STATUS, UNIFIED, Function
from axla.hlo import (
    AddDependency,
    AfterAll,
    Bitcast,
    Call,
    Conditional,
    Constant,
    CustomCall,
    Fusion,
    GetTupleElement,
    OptBarrier,
    Parameter,
    Reshape,
    Tuple,
    While,
    call_site,
)  # fmt: skip
from axla.ir.clone import fingerprint, stand_alone
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import computations_callees_first, schedule_of
from axla.program.graph_steps import (
    BranchStep,
    CallStep,
    CustomCallStep,
    KernelStep,
    LoopStep,
    Program,
    ScalarStep,
    Step,
    StoreStep,
)  # fmt: skip
from axla.program.interface import Alias, Interface, Tree, ValueSpec
from axla.program.kernels import Kernel
from axla.program.memory import BufferSlice
from axla.target.machine import Target

MOST_NESTED = 100
"""Computations that call each other: writing code for them recurses. The interpreter has the same limit."""

# What passes values on without work: the entry binds names, no code.
FORWARDS = (Parameter, Constant, Tuple, GetTupleElement, Bitcast, OptBarrier, AfterAll, AddDependency)


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """What the entry needs besides steps."""

    module: Module
    buffers: Buffers


def lower(module: Module, buffers: Buffers, target: Target) -> Program:
    """The program of a module after the CPU pipeline."""
    _check_nesting(module)
    return _Lowering(module, buffers, target).program()


def _check_nesting(module: Module) -> None:
    depth: dict[Computation, int] = {}
    for computation in computations_callees_first(module):
        called = (c for inst in computation.instructions for c in inst.op.computations())
        depth[computation] = 1 + max((depth[c] for c in called), default=0)
    if depth[module.entry] > MOST_NESTED:
        raise UnsupportedError(
            f"loops, branches and calls are nested {depth[module.entry]} deep, {MOST_NESTED} can be compiled"
        )


class _Lowering:
    def __init__(self, module: Module, buffers: Buffers, target: Target):
        self.module = module
        self.buffers = buffers
        self.target, self.limits = target, target.limits
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[Function, int] = {}
        self.scratch = Scratch(buffers)
        self.long_running = False

    def program(self) -> Program:
        buffers = self.buffers
        entry = self.module.entry
        steps = self.steps(entry)
        interface = self.interface(self.scratch.total)
        places = (*buffers.parameters, *buffers.results)
        allocations = dict.fromkeys(p.allocation for p in places if p is not None)
        return Program(
            self.module.name, interface, tuple(allocations), tuple(self.kernels.values()), steps,
            source=ProgramSource(self.module, buffers),
        )  # fmt: skip

    # -- steps -------------------------------------------------------------------------------------------

    def steps(self, computation: Computation) -> tuple[Step, ...]:
        found: list[Step] = []
        tiny: list[Instruction] = []

        def flush() -> None:
            if tiny:
                found.append(ScalarStep(tuple(map(repr, tiny)), source=tuple(tiny)))
                tiny.clear()

        for inst in schedule_of(computation):
            if self._forwards(inst):
                tiny.append(inst)  # binds a name where the order of steps needs it
            elif is_tiny(inst, self.limits):
                tiny.append(inst)
                self.long_running |= isinstance(inst.op, While)
            else:
                flush()
                found.append(self.step(inst))
        flush()
        return tuple(found)

    def _forwards(self, inst: Instruction) -> bool:
        return isinstance(inst.op, FORWARDS) or (
            isinstance(inst.op, Reshape) and not is_tiny(inst, self.limits)
        )

    def step(self, inst: Instruction) -> Step:
        op = inst.op
        if isinstance(op, While):
            self.long_running = True
            count = trip_count(inst)
            return LoopStep(inst.name, self.steps(op.condition), self.steps(op.body), count, source=inst)
        if isinstance(op, Conditional):
            return BranchStep(inst.name, tuple(self.steps(c) for c in op.computations()), source=inst)
        if isinstance(op, Call):
            return CallStep(inst.name, self.steps(op.to_apply), source=inst)
        if isinstance(op, CustomCall):
            return self.custom_call(inst, op)
        if is_tiny_store(inst, self.limits):
            return StoreStep(inst.name, self.buffers.slice(inst, 0), repr(inst), source=inst)
        return self.kernel_step(inst)

    def custom_call(self, inst: Instruction, op: CustomCall) -> Step:
        self.long_running = True
        site = call_site(inst)
        plan, report, scratch = None, -1, None
        external = site.target in self.target.form.externals
        target = CallTarget(site.target, EXTERNAL) if external else find_target(site)
        name = target.name
        if target.api == LIBRARY:
            plan = plan_of(site)
            name = plan.symbol
            scratch = self.scratch.slice(inst, plan.scratch_bytes)
        elif target.api in (STATUS, UNIFIED):
            report = self.function(Function(name, REPORT, site))
        function = Function(name, target.api, None if plan is not None else site)
        number = -1 if external else self.function(function)
        operands = tuple(place for o in inst.operands for place in self.leaf_slices(o))
        return CustomCallStep(
            inst.name, site, target.api, number, operands, self.leaf_slices(inst), report, plan, scratch,
            source=inst,
        )  # fmt: skip

    def function(self, function: Function) -> int:
        """The place of a function in the function table."""
        return self.functions.setdefault(function, len(self.functions))

    def leaf_slices(self, inst: Instruction) -> tuple[BufferSlice | None, ...]:
        return tuple(
            self.buffers.slice(inst, number) if isinstance(shape, Shape) else None
            for number, shape in enumerate(inst.shape.leaves())
        )

    # -- kernels -----------------------------------------------------------------------------------------

    def kernel_step(self, inst: Instruction) -> Step:
        given = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
        for shape in (*(o.shape for o in inst.operands), *given):
            if not shape.is_array:
                raise UnsupportedError(
                    f"{inst!r}: the cpu backend does not compile {inst.opcode} here: "
                    f"{shape.to_string(layout=False)} is no array"
                )
        computation = self.kernel_computation(inst)
        operands = tuple(self.buffers.slice(o, 0) for o in inst.operands)
        results = tuple(self.buffers.slice(inst, leaf) for leaf in _arrays(inst.shape))
        shared = tuple(
            (number, k)
            for number, result in enumerate(results)
            for k, operand in enumerate(operands)
            if result.size and result.overlaps(operand)
        )
        kernel = self.kernel(computation, shared)
        scratch = self.scratch.slice(inst, kernel.plan.scratch_bytes) if kernel.plan.scratch_bytes else None
        return KernelStep(inst.name, kernel.name, operands, results, scratch, source=inst)

    def kernel_computation(self, inst: Instruction) -> Computation:
        if isinstance(inst.op, Fusion):
            return inst.op.calls
        computation = Module(inst.name).add_computation(inst.name)
        parameters = [
            computation.add(Parameter(o.shape.logical, n), name=f"p{n}") for n, o in enumerate(inst.operands)
        ]
        computation.set_root(computation.add(inst.op, parameters, inst.shape.logical, name=inst.name))
        return computation

    def kernel(self, computation: Computation, shared: tuple[tuple[int, int], ...]) -> Kernel:
        """The kernel for a computation; equal computations get one kernel."""
        key = f"{fingerprint(computation)}{shared}"
        found = self.kernels.get(key)
        if found is None:
            # Named by what it is, so that equal kernels of different programs have equal code.
            name = f"k{blake2b(key.encode(), digest_size=8).hexdigest()}"
            found = plan_kernel(name, stand_alone(computation, name), shared, self.target)
            self.kernels[key] = found
        self.long_running |= found.polls or any(p.parallel for p in found.plan.phases)
        return found

    # -- interface ---------------------------------------------------------------------------------------

    def interface(self, workspace: int) -> Interface:
        entry, config = self.module.entry, self.module.config
        layout = config.entry_layout
        shapes = [p.shape for p in entry.parameters]
        result = entry.root.shape
        if layout is not None:
            shapes, result = list(layout.parameters), layout.result
            # The padder's: sizes stand behind parameters and result. To callers they belong to the arrays.
            shapes = shapes[: len(shapes) - sum(map(_dynamic_dimensions, shapes))]
            if isinstance(result, TupleShape) and _dynamic_dimensions(result):
                result = result.elements[0]
        parameters, trees = _specs(shapes, [p.name for p in entry.parameters[: len(shapes)]])
        results, (tree,) = _specs([result], ["result"])
        flat = all(not isinstance(t, tuple) for t in trees)
        into, out = leaf_numbers(self.buffers.parameters), leaf_numbers(self.buffers.results)
        aliases = tuple(Alias(out[result], into[parameter]) for result, parameter in self.buffers.aliases)
        return Interface(
            self.module.name, parameters, results, tree, None if flat else tuple(trees), aliases, workspace,
            self.buffers.constants_bytes, (), tuple(self.functions), self.long_running,
        )  # fmt: skip


def constants_segment(buffers: Buffers) -> bytes:
    """The contents of the constants segment."""
    parts: list[bytes | memoryview] = []
    at = 0
    for offset, literal in buffers.constants:  # by offset
        data = literal.array.reshape(-1).view(np.uint8).data
        parts += [bytes(offset - at), data]
        at = offset + len(data)
    parts.append(bytes(buffers.constants_bytes - at))
    return b"".join(parts)


def leaf_numbers(places: Sequence[BufferSlice | None]) -> dict[int, int]:
    """Leaf number -> number among the arrays, which is what callers count (tokens are no arguments)."""
    arrays = [leaf for leaf, place in enumerate(places) if place is not None]
    return {leaf: number for number, leaf in enumerate(arrays)}


def _arrays(shape: AnyShape) -> list[int]:
    """The numbers of the leaves that are arrays."""
    return [n for n, s in enumerate(shape.leaves()) if isinstance(s, Shape)]


def _dynamic_dimensions(shape: AnyShape) -> int:
    return sum(sum(leaf.dynamic) for leaf in shape.leaves() if isinstance(leaf, Shape))


def _specs(shapes: Sequence[AnyShape], names: Sequence[str]) -> tuple[tuple[ValueSpec, ...], list[Tree]]:
    """Leaf specifications, and the tree of leaf numbers of each shape. Tokens take no leaf."""
    specs: list[ValueSpec] = []

    def tree(shape: AnyShape, name: str) -> Tree:
        if isinstance(shape, Shape):
            specs.append(ValueSpec(name, shape, shape.byte_size))
            return len(specs) - 1
        if isinstance(shape, TupleShape):
            return tuple(
                tree(s, f"{name}.{k}") for k, s in enumerate(shape.elements) if s.is_array or s.is_tuple
            )
        return ()

    trees = [tree(shape, name) for shape, name in zip(shapes, names, strict=True)]
    return tuple(specs), trees
