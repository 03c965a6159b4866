"""Lowers a Module to a Program: a scheduled, fused module with buffers becomes kernels and steps over
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

import axla.hlo as hlo
from axla.analysis.buffers import Buffers
from axla.analysis.dataflow import LiveArray, find
from axla.analysis.regions import is_tiny, is_tiny_store
from axla.analysis.scratch import Scratch
from axla.analysis.trip_count import trip_count
from axla.core.dataclass import dataclass
from axla.core.dtypes import PRED
from axla.core.errors import UnsupportedError
from axla.core.shape import TOKEN, Shape, array
from axla.custom.plan import CallPlan
from axla.custom.registry import find_target
from axla.custom.routines import plan_of
from axla.custom.site import (
    CHECK,
    COLLECTIVE,
    EXTERNAL,
    LIBRARY,
    REPORT,
    STATUS,
    UNIFIED,
    CallSite,
    TableFunction,
)
from axla.hlo.collective import Combining
from axla.ir.clone import fingerprint, stand_alone
from axla.ir.collectives import CollectiveKind
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import computations_callees_first, schedule_of
from axla.ir.typed import applies
from axla.lowering.collectives import RendezvousKeys, folds_of, pairs_of, rendezvous_of, starts_of
from axla.lowering.computations import single
from axla.lowering.interface import interface_of
from axla.lowering.registers import register_step
from axla.lowering.values import DefinedValues, leaf_shapes
from axla.program import steps as kinds
from axla.program.interface import Alias, array_numbers
from axla.program.kernels import Kernel, plan_kernel
from axla.program.memory import BufferSlice
from axla.program.program import Program, all_steps
from axla.program.steps import ArrayValue, Branch, Carried, Step
from axla.target.identity import identity
from axla.target.machine import Target

Choose = Callable[[Kernel], Kernel]
"""A function that returns a kernel unchanged, or with another plan."""

MOST_NESTED = 100
"""The largest nesting of computations that can be compiled, as code generation is recursive. The interpreter
has the same limit.
"""


# Dataflow has already replaced the values of other ops by those of their operands.
def is_computed(op: Op) -> bool:
    """Whether an op needs a step, or becomes part of one. False if it only passes on values of its
    operands.
    """
    return not (op.passes_on or op.structural)


def lower(module: Module, buffers: Buffers, target: Target, choose: Choose | None = None) -> Program:
    """Lowers a module, on which the CPU pipeline has run, to a program in the memory `buffers`. `choose` may
    replace the plans of kernels.
    """
    _check_nesting(module)
    return _Lowering(module, buffers, target, choose).program()


def _check_nesting(module: Module) -> None:
    depth: dict[Computation, int] = {}
    for computation in computations_callees_first(module):
        called = (c for inst in computation.instructions for c in inst.op.computations())
        depth[computation] = 1 + max((depth[c] for c in called), default=0)
    if depth[module.entry] > MOST_NESTED:
        raise UnsupportedError(
            f"loops, branches and calls are nested {depth[module.entry]} deep; the limit is {MOST_NESTED}"
        )


def kernel_name(computation: Computation, in_place: tuple[tuple[int, int], ...]) -> str:
    """The name of a kernel: a hash of its computation and of `in_place`, the pairs of results and operands
    that share memory. So equal kernels of different programs have equal code.
    """
    return f"k{blake2b(f'{fingerprint(computation)}{in_place}'.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class CustomCallee:
    """The implementation of a custom call. `function` is an entry of the function table, `plan` the plan of
    the call if the function is a routine of a library, and `report` the function that records a failed
    status.
    """

    api: str
    function: TableFunction | None
    plan: CallPlan | None = None
    report: TableFunction | None = None


def called(site: CallSite, target: Target) -> CustomCallee:
    """The implementation of a custom call on a target; raises UnsupportedError if there is none."""
    if site.target in target.form.externals:
        return CustomCallee(EXTERNAL, None)
    if site.target == CHECK:
        if site.operand_leaves != (Shape(PRED),) or site.result_leaves != (TOKEN,):
            raise UnsupportedError(f"{site}: a check takes a pred[] and returns a token")
        return CustomCallee(CHECK, None)
    found = find_target(site)
    if found.api == LIBRARY:
        plan = plan_of(site)
        return CustomCallee(LIBRARY, TableFunction(plan.symbol, LIBRARY), plan)
    report = TableFunction(found.name, REPORT, site) if found.api in (STATUS, UNIFIED) else None
    return CustomCallee(found.api, TableFunction(found.name, found.api, site), None, report)


def is_long_running(program: Program, kernels: Sequence[Kernel]) -> bool:
    """Whether a run may take more than about 20 us, contain a loop, or call Python. `kernels` are the
    program's kernels as planned for the Target that it runs on.
    """
    busy = any(k.polls or any(phase.parallel for phase in k.plan.phases) for k in kernels)
    return busy or any(map(_takes_long, all_steps(program)))


def _takes_long(step: Step) -> bool:
    if not isinstance(step, kinds.RegisterStep):
        return isinstance(step, kinds.LoopStep | kinds.CustomCallStep | kinds.CollectiveStep)
    computations = step.computation.module.computations
    return any(isinstance(inst.op, hlo.While) for c in computations for inst in c.instructions)


class _Lowering:
    def __init__(self, module: Module, buffers: Buffers, target: Target, choose: Choose | None):
        self.module, self.choose = module, choose
        self.buffers = buffers
        self.target, self.limits = target, target.limits
        self.values = DefinedValues(buffers)
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[TableFunction, int] = {}
        self.rendezvous_keys: RendezvousKeys = {}
        self.messages: dict[str, None] = {}
        self.started: dict[Instruction, kinds.CollectiveStep] = {}
        self.participants = module.config.replica_count, module.config.num_partitions
        self.scratch = Scratch(buffers)
        self.users: dict[LiveArray, list[Instruction | None]] = {}  # None: the caller of the computation
        # The memory of those results that can be written there as soon as they are computed.
        self.ends: dict[LiveArray, BufferSlice] = {}

    def program(self) -> Program:
        buffers, values, entry = self.buffers, self.values, self.module.entry
        parameters = tuple(
            value and values.define_flow(value, value.shape, place)
            for value, place in zip(buffers.flow.parameters, buffers.parameters, strict=True)
        )
        places = zip(buffers.flow.results, buffers.results, buffers.slices(entry.root), strict=True)
        self.ends = {
            v: place for v, place, found in places if v is not None and place is not None and found == place
        }
        steps = self.steps(entry)
        results = self.results(entry.root, steps)
        given = (*buffers.parameters, *buffers.results)
        into, out = array_numbers(buffers.parameters), array_numbers(buffers.results)
        interface = interface_of(
            self.module, [Alias(out[result], into[parameter]) for result, parameter in buffers.aliases],
            padded=True, workspace_bytes=self.scratch.total, constants_bytes=buffers.constants_bytes,
            functions=tuple(self.functions), participants=self.participants,
            rendezvous_keys=tuple(self.rendezvous_keys), messages=tuple(self.messages),
        )  # fmt: skip
        program = Program(
            self.module.name, identity(self.target), interface,
            tuple(dict.fromkeys(p.allocation for p in given if p is not None)),
            tuple(values.constants[place] for place in sorted(values.constants)),
            tuple(self.kernels.values()), parameters, tuple(steps), results,
        )  # fmt: skip
        busy = is_long_running(program, program.kernels)
        return replace(program, interface=replace(interface, long_running=busy))

    def results(self, root: Instruction, steps: list[Step]) -> tuple[ArrayValue | None, ...]:
        """The leaves of the result in their final memory; None for leaves without memory. Appends the copies
        that move values there to `steps`.
        """
        places = {leaf: place for leaf, place in enumerate(self.buffers.results) if place is not None}
        written = {place.allocation for place in places.values()}
        found = {leaf: self.values.of(root, leaf) for leaf in places}
        # Small results are all read before any is written: one may be a parameter whose memory another result
        # takes.
        for leaf, value in found.items():
            place = None if value.place == places[leaf] else value.place
            if place is not None and place.allocation in written and value.shape.size <= self.limits.tiny:
                found[leaf] = ArrayValue(value.name, value.shape)
                steps.append(kinds.CopyStep(value, found[leaf]))
        for leaf, place in places.items():
            value = ArrayValue(found[leaf].name, found[leaf].shape, place)
            if found[leaf] != value:
                steps.append(kinds.CopyStep(found[leaf], value))
                found[leaf] = value
        return tuple(found.get(leaf) for leaf in range(len(self.buffers.results)))

    # -- Steps of a computation ------------------------------------------------------------------------------

    def steps(self, computation: Computation) -> list[Step]:
        self._note_users(computation)
        found: list[Step] = []
        tiny: list[Instruction] = []
        order = schedule_of(computation)
        starts = starts_of(order)
        for inst in order:
            computed = is_computed(inst.op)
            if computed and (is_tiny(inst, self.limits) or isinstance(inst.op, hlo.Constant)):
                tiny.append(inst)
            elif computed:
                self.registers(tiny, found)
                tiny = []
                self.step(inst, found)
            for collective in starts.get(inst, ()):
                self.registers(tiny, found)
                tiny = []
                self.collective(collective, found, starts=True)
        self.registers(tiny, found)
        return found

    def _note_users(self, computation: Computation) -> None:
        leaves = self.buffers.flow.leaves
        made = [inst for inst in computation.instructions if is_computed(inst.op)]
        uses = [(inst, operand) for inst in made for operand in inst.operands]
        for user, used in (*uses, (None, computation.root)):
            for value in leaves[used]:
                if value is not None:
                    self.users.setdefault(find(value), []).append(user)

    def registers(self, group: Sequence[Instruction], steps: list[Step]) -> None:
        """Adds the step for consecutive instructions that are computed in registers."""
        if group:
            inside = set(group)

            def wanted(value: LiveArray) -> bool:
                return any(user not in inside for user in self.users.get(value, ()))

            steps.append(register_step(group, self.values, wanted, self.ends))

    def step(self, inst: Instruction, steps: list[Step]) -> None:
        op = inst.op
        if isinstance(op, hlo.Call):
            steps += self.steps(op.to_apply)
        elif isinstance(op, hlo.While):
            self.loop(inst, op, steps)
        elif isinstance(op, hlo.Conditional):
            self.branches(inst, op, steps)
        elif isinstance(op, hlo.CustomCall):
            self.custom_call(inst, op, steps)
        elif op.collective is not None or isinstance(op, hlo.ReplicaId | hlo.PartitionId):
            self.collective(inst, steps)
        elif is_tiny_store(inst, self.limits):
            self.store(inst, steps)
        else:
            self.kernel_step(inst, steps)

    # -- Loops and branches ----------------------------------------------------------------------------------

    def own_places(self, inst: Instruction) -> dict[int, BufferSlice | None]:
        """The memory of each leaf that a loop or branch computes, by leaf number; None for a leaf in
        registers. Leaves that the loop or branch passes on unchanged are left out, as they keep their values.
        """
        return {
            leaf: None if value.is_tiny else self.buffers.slice(inst, leaf)
            for leaf, value in enumerate(self.buffers.flow.leaves[inst])
            if value is not None and value.inst is inst
        }

    def passed(
        self, inst: Instruction, places: Mapping[int, BufferSlice | None], steps: list[Step]
    ) -> list[ArrayValue]:
        """The values of the leaves of `inst` whose numbers are the keys of `places`. Adds steps that copy
        arrays to the slices in `places`, unless they are there already. A leaf with None stays in registers.
        """
        return [self.values.at(inst, leaf, place, steps) for leaf, place in places.items()]

    def defined(self, inst: Instruction, places: Mapping[int, BufferSlice | None]) -> list[ArrayValue]:
        shapes = leaf_shapes(inst.shape)
        return [self.values.define(inst, leaf, array(shapes[leaf]), place) for leaf, place in places.items()]

    def loop(self, inst: Instruction, op: hlo.While, steps: list[Step]) -> None:
        places = self.own_places(inst)
        initial = self.passed(inst.operands[0], places, steps)
        parameters = self.defined(op.body.parameters[0], places)
        self.values.enter()
        condition = self.steps(op.condition)
        body = self.steps(op.body)
        following = self.passed(op.body.root, places, body)
        test = self.values.of(op.condition.root)
        self.values.leave()
        carried = zip(initial, parameters, following, self.defined(inst, places), strict=True)
        steps.append(
            kinds.LoopStep(
                inst.name, tuple(Carried(*one) for one in carried), tuple(condition), test, tuple(body),
                trip_count(inst), inst.extra.location,
            )
        )  # fmt: skip

    def branches(self, inst: Instruction, op: hlo.Conditional, steps: list[Step]) -> None:
        if len(op.branches) == 1:
            steps += self.steps(op.branches[0])
            return
        places = self.own_places(inst)
        selector = self.values.of(inst.operands[0])
        branches: list[Branch] = []
        for computation in op.branches:
            self.values.enter()
            inside = self.steps(computation)
            values = self.passed(computation.root, places, inside)
            self.values.leave()
            branches.append(Branch(tuple(inside), tuple(values)))
        results = tuple(self.defined(inst, places))
        steps.append(kinds.BranchStep(inst.name, selector, tuple(branches), results, inst.extra.location))

    # -- Stores, custom calls, collectives and kernels -------------------------------------------------------

    def store(self, inst: Instruction, steps: list[Step]) -> None:
        operand, update, *starts = inst.operands
        array = self.values.at(operand, 0, self.buffers.slice(inst), steps)
        small, *at = map(self.values.of, (update, *starts))
        result = self.values.define(inst, 0, array.shape, array.place)
        steps.append(kinds.StoreStep(inst.name, array, small, tuple(at), result, inst.extra.location))

    def custom_call(self, inst: Instruction, op: hlo.CustomCall, steps: list[Step]) -> None:
        site = hlo.call_site(inst)
        call = called(site, self.target)
        if call.api == CHECK:
            self.messages.setdefault(site.config)
        scratch = self.scratch.slice(inst, call.plan.scratch_bytes) if call.plan is not None else None
        report = self.function(call.report) if call.report is not None else -1
        number = self.function(call.function) if call.function is not None else -1
        operands = tuple(
            self.values.in_memory(o, leaf, steps) if isinstance(shape, Shape) else None
            for o in inst.operands
            for leaf, shape in enumerate(leaf_shapes(o.shape))
        )
        results = self.values.define_leaves(inst)
        steps.append(
            kinds.CustomCallStep(
                inst.name, site, call.api, number, operands, results, report, call.plan, scratch,
                inst.extra.location,
            )
        )  # fmt: skip

    def collective(self, inst: Instruction, steps: list[Step], *, starts: bool = False) -> None:
        """Adds the step of a collective. With `starts`, the step only starts the collective. If the
        collective was started before, the step only finishes it.
        """
        op, participants = inst.op, self.participants
        started = self.started.get(inst)
        operands = tuple(self.values.in_memory(o, 0, steps) for o in inst.operands)
        results = tuple(value for value in self.values.define_leaves(inst) if value is not None)
        if started is not None:
            steps.append(replace(started, results=results, starts=False, begun=started.results))
            return
        rendezvous, pairs, folds, (dimension, *_) = (), (), (), getattr(op, "dimensions", None) or (None,)
        engine = -1
        if op.collective is not None:
            engine = self.function(TableFunction("axla.collective", COLLECTIVE))
            pair = len(self.started) + 1 if starts else 0
            rendezvous = rendezvous_of(inst, self.rendezvous_keys, participants, pair)
        if op.collective is CollectiveKind.PAIRED:
            pairs = pairs_of(inst, participants)
        if applies(inst, Combining):
            folds = tuple(self.fold(computation) for computation in folds_of(inst))
        step = kinds.CollectiveStep(
            inst.name, op.opcode, operands, results, rendezvous, pairs, dimension,
            getattr(op, "has_dynamic_root", False), folds, engine, starts, location=inst.extra.location,
        )  # fmt: skip
        steps.append(step)
        if starts:
            self.started[inst] = step

    def fold(self, computation: Computation) -> str:
        """Plans the kernel of a collective's reducer; its results overwrite the first half of its operands.
        Returns the name of the kernel.
        """
        arrays = len(computation.parameters) // 2
        shared = tuple((n, n) for n in range(arrays))
        name = kernel_name(computation, shared)
        if name not in self.kernels:
            self.kernels[name] = plan_kernel(name, stand_alone(computation, name), shared, self.target)
        return name

    def function(self, function: TableFunction) -> int:
        """The index of a function in the function table, to which it is added if it is new."""
        return self.functions.setdefault(function, len(self.functions))

    def kernel_step(self, inst: Instruction, steps: list[Step]) -> None:
        for shape in (*(o.shape for o in inst.operands), *inst.shape.parts):
            if not shape.is_array:
                raise UnsupportedError(
                    f"{inst!r}: the cpu backend does not compile {inst.opcode} here: "
                    f"{shape.to_string(layout=False)} is not an array"
                )
        operands = tuple(self.values.in_memory(o, 0, steps) for o in inst.operands)
        results = tuple(value for value in self.values.define_leaves(inst) if value is not None)
        shared = tuple(
            (number, k)
            for number, result in enumerate(results)
            for k, operand in enumerate(operands)
            if result.memory.size and result.memory.overlaps(operand.memory)
        )
        kernel = self.kernel(inst, shared)
        size = kernel.plan.scratch_bytes
        scratch = self.scratch.slice(inst, size) if size else None
        steps.append(
            kinds.KernelStep(inst.name, kernel.name, operands, results, scratch, inst.extra.location)
        )

    def kernel(self, inst: Instruction, shared: tuple[tuple[int, int], ...]) -> Kernel:
        """Plans the kernel of an instruction. `shared` has the pairs of results and operands that share
        memory. Instructions with equal computations and equal `shared` have one kernel.
        """
        computation = inst.op.calls if isinstance(inst.op, hlo.Fusion) else single(inst)
        name = kernel_name(computation, shared)
        found = self.kernels.get(name)
        if found is None:
            found = plan_kernel(name, stand_alone(computation, name), shared, self.target)
            self.kernels[name] = found = self.choose(found) if self.choose else found
        return found
