"""Verifies that a program stays within its memory, and that every read finds the intended value.

The steps are simulated once. For every allocation it is known which value is in each slice; a write removes
the values that it overlaps. The slices that a loop writes are empty when it begins, except for carried
values; those that a branch writes are empty after it, except for its results. So a value that is read from
memory is there in every run. Whether the code of a kernel fits its HLO is checked where kernels are planned
(`axla.lowering.loading`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from axla.core.dtypes import S32
from axla.core.shape import AnyShape, Shape
from axla.core.shape_util import major_to_minor
from axla.custom.site import CHECK, COLLECTIVE, REPORT
from axla.ir.graph import Instruction
from axla.ir.traverse import schedule_of
from axla.program import steps as kinds
from axla.program.contents import WORKSPACE, AllocationContents, Contents
from axla.program.interface import ValueSpec, array_numbers, tree_leaves
from axla.program.memory import Allocation, AllocationKind, BufferSlice
from axla.program.program import Program, all_steps, nested_steps
from axla.program.steps import ArrayValue, Step
from axla.target.machine import ALIGNMENT

MOST_NESTED = 100  # depth of nested loops and branches


def verify_program(program: Program) -> None:
    """Raises VerifyError, with the step, if a program is inconsistent."""
    _Verifier(program).verify()


class _Verifier(Contents):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.kernels = {kernel.name: kernel for kernel in program.kernels}
        self.written: dict[int, list[BufferSlice]] = {}  # slices that a step writes, by its id
        self.nesting = 0
        self.started: dict[int, kinds.CollectiveStep] = {}  # not yet done, by rendezvous

    def verify(self) -> None:
        program = self.program
        self.require(len(self.kernels) == len(program.kernels), "two kernels have the same name")
        self.interface()
        for step in reversed(list(all_steps(program))):  # nested steps first
            self.written[id(step)] = _written(step, self.written)
        for value in program.parameters:
            if value is not None:
                self.define(value, keep=True)
        self.steps(program.steps)
        self.where = "the results"
        self.use(*(value for value in program.results if value is not None))

    def scratch(self, place: BufferSlice | None, size: int, values: Sequence[ArrayValue | None]) -> None:
        """Checks that a step's scratch memory is large enough, and separate from its operands and results."""
        if place is None:
            self.require(size == 0, f"the step needs {size} bytes of scratch memory, found none")
            return
        memory = self.of(place)
        right = place.size >= size and not place.offset % ALIGNMENT and memory is self.memory[WORKSPACE]
        self.require(right, f"scratch memory must be {size} aligned bytes of the workspace, found {place}")
        for value in values:
            apart = value is None or value.place is None or not value.place.overlaps(place)
            self.require(apart, f"scratch memory {place} overlaps a value")
        self.kill(place)

    # -- steps -------------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[Step]) -> None:
        self.nesting += 1
        self.require(self.nesting <= MOST_NESTED, f"steps are nested more than {MOST_NESTED} deep")
        started = dict(self.started)
        for step in steps:
            self.where = f"step {step.source.name if isinstance(step, kinds.CopyStep) else step.name}"
            _STEPS[type(step)](self, step)
        self.require(self.started == started, "a collective is started, but not done, in these steps")
        self.nesting -= 1

    def kernel(self, step: kinds.KernelStep) -> None:
        kernel = self.kernels.get(step.kernel)
        if kernel is None:
            self.fail(f"the program has no kernel {step.kernel}")
        self.read(step.operands, [p.shape for p in kernel.computation.parameters])
        self.scratch(step.scratch, kernel.plan.scratch_bytes, (*step.operands, *step.results))
        shared = _shared(step.results, step.operands)
        self.require(shared == set(kernel.in_place), "results share other memory than in its kernel")
        for number, operand in kernel.in_place:
            self.require(step.results[number].place == step.operands[operand].place, "shares parts of memory")
        self.write(step.results, list(kernel.computation.root.shape.leaves()))

    def fit(self, what: str, values: Sequence[ArrayValue], shapes: Sequence[AnyShape], memory: bool) -> None:
        """Checks that `values` have the `shapes` that the step needs, and, if `memory`, that they are in
        memory. `what` names them in error messages: operands or results.
        """
        self.require(len(values) == len(shapes), f"{len(shapes)} {what} are wanted, found {len(values)}")
        for value, shape in zip(values, shapes, strict=True):
            self.typed(value, shape)
            self.require(value.place is not None or not memory, f"{value.name} has to be in memory")

    def read(self, values: Sequence[ArrayValue], shapes: Sequence[AnyShape], *, memory: bool = True) -> None:
        self.fit("operands", values, shapes, memory=memory)
        self.use(*values)

    def write(self, values: Sequence[ArrayValue], shapes: Sequence[AnyShape], *, memory: bool = True) -> None:
        self.fit("results", values, shapes, memory=memory)
        self.define_all(values, keep=False)

    def registers(self, step: kinds.RegisterStep) -> None:
        computation = step.computation
        given = computation.root.operands
        values = computation.root.opcode == "tuple" and len(set(given)) == len(given)
        self.require(values, "the root must be a tuple of different values")
        self.read(step.operands, [p.shape for p in computation.parameters], memory=False)
        order = {inst: n for n, inst in enumerate(schedule_of(computation))}
        shared = _shared(step.results, step.operands)
        last = _last_uses(order) if shared else {}
        for result, operand in shared:
            # A result is written as soon as it is computed, and an operand is read where it is used.
            read = last.get(computation.parameters[operand], -1)
            self.require(read <= order[given[result]], f"{step.results[result].name} is written too early")
        self.write(step.results, [o.shape for o in given], memory=False)

    def copy(self, step: kinds.CopyStep | kinds.TransferStep) -> None:
        source, target = step.source, step.target
        self.use(source)
        self.typed(target, source.shape)
        self.require(target.name == source.name, f"the copy of {source.name} is named {target.name}")
        known = self.values[target.name]
        if target.place is not None:
            self.require(not _shared((target,), (source,)), "source and target of a copy overlap")
            self.put(target, known)
        elif not known.register:
            self.small(target)
            known.register = True
            self.undo.append((setattr, (known, "register", False)))

    def store(self, step: kinds.StoreStep) -> None:
        self.use(step.operand, step.update, *step.starts)
        operand, update = step.operand.shape, step.update.shape
        sizes = zip(update.dims, operand.dims, strict=False)
        fits = update.rank == operand.rank and all(small <= size for small, size in sizes)
        self.small(step.update)
        self.require(fits and update.dtype is operand.dtype, f"{update} does not fit into {operand}")
        starts = [s.shape for s in step.starts]
        each = len(starts) == operand.rank and all(s.is_scalar for s in starts)
        each |= len(starts) == 1 and starts[0].dims == (operand.rank,)
        self.require(each and all(s.dtype.is_integer for s in starts), "wrong number or type of starts")
        self.require(step.result.place == step.operand.place, "the result must have the operand's memory")
        self.typed(step.result, step.operand.shape)
        self.define(step.result)
        self.require(step.result.place is not None, "the result must be in memory")

    def loop(self, step: kinds.LoopStep) -> None:
        for carried in step.carried:
            self.use(carried.initial)
            place = carried.parameter.place
            for n, other in enumerate((carried.initial, carried.next, carried.parameter, carried.result)):
                self.typed(other, carried.initial.shape)
                if other.place != place and not (place is None and n < 2):
                    self.fail(f"{other.name} must be in the memory of {carried.parameter.name}")
        self.kill(*self.written[id(step)])
        with self.scope():
            self.define_all([c.parameter for c in step.carried])
            with self.scope():
                self.steps(step.condition)
                self.where = f"step {step.name}"
                self.use(step.test)
                scalar = step.test.shape.is_scalar and step.test.shape.dtype.is_pred
                self.require(scalar, "the test must be pred[]")
                self.use(*(c.parameter for c in step.carried))
            self.steps(step.body)
            self.where = f"step {step.name}"
            self.use(*(c.next for c in step.carried))
        self.define_all([c.result for c in step.carried])

    def define_all(self, values: Sequence[ArrayValue], *, keep: bool = True) -> None:
        """Defines the results `values` of a step, which must not overlap each other; `keep` as for `hold`."""
        for value in values:
            self.define(value, keep=keep)
        self.use(*values)

    def branch(self, step: kinds.BranchStep) -> None:
        self.use(step.selector)
        shape, count = step.selector.shape, len(step.branches)
        counts = count == 2 if shape.dtype.is_pred else count > 0 and shape.dtype is S32
        self.require(shape.is_scalar and counts, f"a selector {shape} does not fit {count} branches")
        for branch in step.branches:
            self.require(len(branch.values) == len(step.results), "a branch returns a wrong number of values")
            with self.scope():
                self.steps(branch.steps)
                self.where = f"step {step.name}"
                for value, result in zip(branch.values, step.results, strict=True):
                    self.use(value)
                    self.typed(value, result.shape)
                    if result.place not in (None, value.place):
                        self.fail(f"{value.name} must be in the memory of {result.name}")
        self.kill(*self.written[id(step)])
        self.define_all(step.results)

    def custom_call(self, step: kinds.CustomCallStep) -> None:
        site, functions = step.site, self.program.interface.functions
        for values, leaves in ((step.operands, site.operand_leaves), (step.results, site.result_leaves)):
            self.require(len(values) == len(leaves), f"{len(leaves)} leaves are wanted, found {len(values)}")
            for value, leaf in zip(values, leaves, strict=True):
                fits = not isinstance(leaf, Shape) if value is None else _is(value, leaf)
                self.require(fits, f"{leaf} in memory is wanted, found {value}")
        said = step.api != CHECK or site.config in self.program.interface.messages
        self.require(said, "the message of a check must be in the interface")
        for number, api in ((step.function, step.api), (step.report, REPORT)):
            found = functions[number] if 0 <= number < len(functions) else None
            right = number == -1 or found is not None and found.api == api
            self.require(right, f"function {number} must have the calling convention {api}")
        operands, results = ([v for v in values if v is not None] for values in (step.operands, step.results))
        self.use(*operands)
        leaves = dict(enumerate(step.results)), dict(enumerate(step.operands))
        aliases = [(leaves[0].get(r), leaves[1].get(o)) for r, o in site.aliases]
        fit = all(r and o and r.memory.size == o.memory.size for r, o in aliases)
        self.require(fit, "aliased leaves must be arrays of the same size")
        for r, o in _shared(results, operands):
            same = (results[r], operands[o]) in aliases and results[r].place == operands[o].place
            self.require(same, f"{results[r].name} overwrites {operands[o].name}")
        self.scratch(step.scratch, step.plan.scratch_bytes if step.plan else 0, (*operands, *results))
        self.write(results, [v.shape for v in results])

    def collective(self, step: kinds.CollectiveStep) -> None:
        functions, shapes = self.program.interface.functions, [v.shape for v in step.results]
        apis = [function.api for function in functions[max(step.function, 0) :][:1]]
        right = step.function == -1 or step.function >= 0 and apis == [COLLECTIVE]
        self.require(right, f"function {step.function} is not an engine of collectives")
        self.require(not _shared(step.results, step.operands), "results share memory with operands")
        self.use(*step.operands, *step.begun)
        if step.begun:  # the second step of an asynchronous collective must match the first
            said = replace(step, starts=True, begun=(), results=step.begun)
            same = [v.place for v in step.begun] == [v.place for v in step.results]
            same &= all(self.started.pop(number, None) == said for number in step.rendezvous_keys)
            self.require(same, "the collective was not started by a step with the same fields")
        self.require(self.started.keys().isdisjoint(step.rendezvous_keys), "its rendezvous is in use")
        self.started.update(dict.fromkeys(step.rendezvous_keys if step.starts else (), step))
        self.write(step.results, shapes)

    # -- the interface -----------------------------------------------------------------------------------

    def interface(self) -> None:
        """Checks allocations, parameters and results against the interface."""
        program, code = self.program, self.program.interface.of_code()
        becomes: dict[int, int] = {}
        for (kind, _), memory in self.memory.items():
            self.require(0 <= memory.size < 1 << 62, f"the size of {kind} is {memory.size} bytes")
        values = {(AllocationKind.PARAMETER, n): value for n, value in enumerate(program.parameters)}
        values |= {(AllocationKind.RESULT, n): value for n, value in enumerate(program.results)}
        for allocation in program.allocations:
            kind, number, result = allocation.kind, allocation.number, allocation.result
            value = values.get((kind, number))
            donated = kind is AllocationKind.PARAMETER and result >= 0 and result not in becomes
            writable = kind is AllocationKind.RESULT and result < 0 or donated
            size = None if value is None else value.shape.byte_size
            if value is None or allocation.size != size or allocation.writable is not writable:
                self.fail(f"allocation {allocation} does not fit {value and value.shape}")
            self.memory[kind, number] = AllocationContents(
                allocation.size, value.shape.dtype.real.itemsize, writable
            )
            if donated:
                becomes[result] = number
        own = {number for kind, number in self.memory if kind is AllocationKind.RESULT}
        into, out = array_numbers(program.parameters), array_numbers(program.results)
        aliases = {(out.get(result), into[number]) for result, number in becomes.items()}
        known = {(alias.result, alias.parameter) for alias in code.aliases} == aliases
        self.require(known and own.isdisjoint(becomes), "aliases of interface and allocations differ")
        self.border(program.parameters, code.parameters, AllocationKind.PARAMETER, {})
        self.border(program.results, code.results, AllocationKind.RESULT, becomes)
        trees = code.parameter_trees if code.parameter_trees is not None else tuple(into.values())
        leaves = [leaf for tree in trees for leaf in tree_leaves(tree)]
        self.require(leaves == list(into.values()), "wrong trees of the parameters")
        self.require(tree_leaves(code.result_tree) == list(out.values()), "wrong tree of the results")
        for constant in program.constants:
            inside = 0 <= constant.offset <= code.constants_bytes - constant.shape.byte_size
            self.require(inside and not constant.offset % ALIGNMENT, f"wrong constant at {constant.offset}")

    def border(
        self, values: Sequence[ArrayValue | None], specs: Sequence[ValueSpec], kind: AllocationKind,
        becomes: dict[int, int],
    ) -> None:  # fmt: skip
        """Checks the leaves of parameters or results, of allocation kind `kind`: their memory, and their
        description `specs` for callers. `becomes` maps the number of a result that reuses a parameter's
        memory to the number of the parameter.
        """
        arrays = [(n, v) for n, v in enumerate(values) if v is not None]
        self.require(len(arrays) == len(specs), f"{len(specs)} arrays are declared, found {len(arrays)}")
        for (number, value), spec in zip(arrays, specs, strict=True):
            laid = [spec.shape.dims[d] for d in major_to_minor(spec.shape)]  # in memory order
            self.typed(value, Shape(spec.shape.dtype, laid))
            place, where = value.place, (kind, number)
            if number in becomes:
                where = AllocationKind.PARAMETER, becomes[number]
            if place is None or place.offset or (place.allocation.kind, place.allocation.number) != where:
                self.fail(f"{value.name} must be at the start of its own allocation, found {place}")
            whole = spec.bytes == place.size == place.allocation.size
            self.require(whole, f"{spec.name} is declared with {spec.bytes} bytes, its allocation differs")


_STEPS: dict[type[Step], Callable[[_Verifier, Any], None]] = {
    kinds.KernelStep: _Verifier.kernel,
    kinds.RegisterStep: _Verifier.registers,
    kinds.CopyStep: _Verifier.copy,
    kinds.StoreStep: _Verifier.store,
    kinds.LoopStep: _Verifier.loop,
    kinds.BranchStep: _Verifier.branch,
    kinds.CustomCallStep: _Verifier.custom_call,
    kinds.TransferStep: _Verifier.copy,
    kinds.CollectiveStep: _Verifier.collective,
}


def _is(value: ArrayValue, leaf: AnyShape) -> bool:
    """Whether a value is in memory, with the element type and size of `leaf`, a leaf of a called
    computation's parameters or result.
    """
    same = isinstance(leaf, Shape) and leaf.dtype is value.shape.dtype
    return same and value.place is not None and value.place.size == leaf.byte_size


def _shared(results: Sequence[ArrayValue], operands: Sequence[ArrayValue]) -> set[tuple[int, int]]:
    """The pairs (number of a result, number of an operand) that have common bytes."""
    read: dict[Allocation, list[tuple[int, int, int]]] = {}
    longest = 0
    for k, operand in enumerate(operands):
        if operand.place is not None:
            at = operand.place.offset
            read.setdefault(operand.place.allocation, []).append((at, at + operand.place.size, k))
            longest = max(longest, operand.place.size)
    for places in read.values():
        places.sort()
    found = set()
    for n, result in enumerate(results):
        if result.place is None or not result.place.size:
            continue
        places, start = read.get(result.place.allocation, []), result.place.offset
        end = start + result.place.size
        near = places[bisect_right(places, (start - longest,)) : bisect_left(places, (end,))]
        found |= {(n, k) for first, last, k in near if first < end and start < last}
    return found


_LAZY = {"tuple", "get-tuple-element", "bitcast", "opt-barrier", "add-dependency", "call", "fusion"}


def _last_uses(order: dict[Instruction, int]) -> dict[Instruction, int]:
    """The position of the last use of each value, given the instructions with their positions. A use through
    instructions that only pass the value on counts too.
    """
    last: dict[Instruction, int] = {}
    for inst, now in reversed(order.items()):
        for operand in inst.operands:
            used = max(now, last.get(inst, -1) if inst.opcode in _LAZY else -1)
            last[operand] = max(last.get(operand, -1), used)
    return last


def _written(step: Step, inside: dict[int, list[BufferSlice]]) -> list[BufferSlice]:
    """The slices that a step writes on any path; `inside` has the slices of each of its nested steps, by the
    step's id.
    """
    found = [slice_ for nested in nested_steps(step) for slice_ in inside[id(nested)]]
    if isinstance(step, kinds.CopyStep | kinds.TransferStep):
        results: Sequence[ArrayValue | None] = (step.target,)
    elif isinstance(step, kinds.StoreStep):
        results = (step.result,)
    else:
        results = () if isinstance(step, kinds.LoopStep | kinds.BranchStep) else step.results
    places = [v.place for v in results if v is not None] + [getattr(step, "scratch", None)]
    return found + [place for place in places if place is not None]
