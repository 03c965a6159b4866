"""Writes the entry of a program: `i32 axla_entry(ptr frame)`.

It runs the steps in order. Small values are registers, one per element, and loops carry them as phis; arrays
are slices of the frame's memory, updated in place. A small value is written to its slice only where a kernel
is about to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from axla.analysis.dataflow import leaf_count
from axla.codegen.function import Module, Ssa
from axla.codegen.index import Index
from axla.codegen.scatter import scatter_elements
from axla.codegen.value import Value, register_types
from axla.core.shape import Shape, TupleShape
from axla.cpu.custom_call import emit_custom_call
from axla.cpu.places import Leaf, Places, indices
from axla.hlo import (
    Call,
    Conditional,
    Constant,
    Fusion,
    GetTupleElement,
    Parameter,
    Reshape,
    RngGetAndUpdateState,
    Scatter,
    Tuple,
    While,
)  # fmt: skip
from axla.ir.graph import Computation, Instruction
from axla.ir.traverse import schedule_of
from axla.lowering.lower import FORWARDS
from axla.program import abi
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
from axla.program.memory import BufferSlice
from axla.target.machine import Target

ENTRY = "axla_entry"
"""The entry that the glue of this process calls; its parallel_for of nothing handles signals."""

UNPOLLED = 1000
"""Iterations that a loop may make without looking whether the run was cancelled."""

LONGEST_BLOCK = 500
"""Values in a row before the code polls, which ends a basic block: LLVM's time grows faster than a block's
length.
"""


def emit_entry(module: Module, program: Program, target: Target, name: str = ENTRY) -> None:
    """Adds the entry function to the module; the kernels are in it, or linked to it."""
    module.in_process = name == ENTRY
    _Entry(module, program, target, name).emit()


class _Entry(Places):
    def emit(self) -> None:
        f = self.f
        version = self.field("version", "i32")
        f.guard(f.icmp("ne", version, f.const("i32", abi.FRAME_VERSION)), f.const("i32", abi.WRONG_FRAME))
        entry = self.program.source.module.entry
        for parameter in entry.parameters:
            self.bind_memory(parameter)
        self.ends = self.own_places(entry.root)
        self.steps(self.program.steps)
        self.results(entry.root)
        f.ret(f.const("i32", 0))

    def own_places(self, root: Instruction) -> dict[Instruction, BufferSlice]:
        """The memory of results that have it to themselves from where they are made."""
        if not isinstance(root.op, Tuple) or not all(isinstance(o.shape, Shape) for o in root.operands):
            return {}
        pairs = zip(root.operands, self.buffers.results, strict=True)
        return {o: place for o, place in pairs if place is not None and self.buffers.slices(o)[0] == place}

    def results(self, root: Instruction) -> None:
        """Writes result leaves that are not in their place yet."""
        waiting: list[tuple[BufferSlice, Leaf]] = []
        places = self.buffers.results
        written = {place.allocation for place in places if place is not None}
        for leaf, place in zip(self.where[root], places, strict=True):
            if leaf is None or place is None or leaf.slice == place:
                continue
            # Small ones are read before any is written: a result may lie where a parameter is that another
            # result is.
            if leaf.slice is not None and leaf.shape.size <= self.tiny and leaf.slice.allocation in written:
                leaf = self.held(leaf.shape, self.elements_of(leaf))
            waiting.append((place, leaf))
        for place, leaf in waiting:
            self.write(place, leaf)
            self.pause()

    # -- steps -------------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            STEPS[type(step)](self, step)

    def scalar_step(self, step: ScalarStep) -> None:
        for inst in step.source:
            self.instruction(inst)
            self.pause()
            leaf = self.where[inst][0] if inst in self.ends else None
            if leaf is not None and leaf.slice is None:  # now, so that no register holds it to the end
                self.write(self.ends[inst], leaf)
                leaf.slice = self.ends[inst]

    def instruction(self, inst: Instruction) -> None:
        """A register instruction, or one that only passes values on."""
        op = inst.op
        if isinstance(op, FORWARDS) or (isinstance(op, Reshape) and self._is_memory(inst.operands[0])):
            self.forward(inst)
        elif isinstance(op, While):
            self.while_(inst, lambda: self.region(op.condition), lambda: self.region(op.body), None)
        elif isinstance(op, Conditional):
            self.conditional(inst, [lambda c=c: self.region(c) for c in op.computations()])
        elif isinstance(op, Call | Fusion):
            (computation,) = op.computations()
            self.call(inst, computation, lambda: self.region(computation))
        elif isinstance(op, Scatter):
            self.scatter(inst)
        elif isinstance(op, RngGetAndUpdateState):
            self.random_state(inst)
        else:
            self.compute(inst)

    def _is_memory(self, inst: Instruction) -> bool:
        leaf = self.where[inst][0]
        return leaf is not None and leaf.is_memory

    def compute(self, inst: Instruction) -> None:
        """All elements of an instruction, here and now: what it reads may be overwritten later."""
        shape = inst.shape
        if isinstance(shape, Shape):
            elements = [self.e(inst, index) for index in indices(shape)]
            self.bind(inst, [self.held(shape, elements)])
            return
        assert isinstance(shape, TupleShape)  # a variadic reduce or the like: leaves of equal dimensions
        leaves = [s for s in shape.leaves() if isinstance(s, Shape)]
        table = [self.e.all(inst, index) for index in indices(leaves[0])]
        self.bind(inst, [self.held(s, [row[n] for row in table]) for n, s in enumerate(leaves)])

    def forward(self, inst: Instruction) -> None:
        op = inst.op
        if isinstance(op, Parameter):
            if inst not in self.where:  # of a called computation: bound by its caller
                raise AssertionError(f"{inst!r} is not bound")
            return
        if isinstance(op, Constant):
            self.constant(inst)
            return
        if isinstance(op, Tuple):
            self.where[inst] = [leaf for o in inst.operands for leaf in self.where[o]]
            return
        if isinstance(op, GetTupleElement):
            self.bind_part(inst, op.index)
            return
        if not inst.operands or not (inst.shape.is_array or inst.shape.is_tuple):
            self.where[inst] = [None for _ in inst.shape.leaves()]
            return
        source = self.where[inst.operands[0]]
        if isinstance(inst.shape, Shape) and source[0] is not None and source[0].shape is not inst.shape:
            self.reshaped(inst, source[0])
        else:
            self.bind(inst, list(source))

    def reshaped(self, inst: Instruction, leaf: Leaf) -> None:
        """The same bytes under another shape."""
        shape = inst.shape
        assert isinstance(shape, Shape)
        if leaf.slice is not None:
            array = self.array(leaf.slice, shape)
            self.bind(inst, [Leaf(shape, lambda index: array.load(index, 1), leaf.slice)])
        else:
            self.bind(inst, [self.held(shape, self.elements_of(leaf))])

    def constant(self, inst: Instruction) -> None:
        leaves: list[Leaf | None] = []
        for number, literal in enumerate(inst.op.literal.leaves()):  # type: ignore[attr-defined]
            shape = literal.shape
            if not isinstance(shape, Shape):
                leaves.append(None)
            elif shape.size <= self.tiny:
                leaves.append(self.held(shape, [
                    self.values.constant(shape.dtype, literal.array[index]) for index in indices(shape)
                ]))  # fmt: skip
            else:
                leaves.append(self.memory_leaf(inst, number, shape))
        self.bind(inst, leaves)

    def bind_part(self, inst: Instruction, index: int) -> None:
        operand = inst.operands[0]
        shape = operand.shape
        assert isinstance(shape, TupleShape)
        first = shape.leaf_starts[index]
        part = self.where[operand][first : first + leaf_count(shape.elements[index])]
        self.bind(inst, part)

    def region(self, computation: Computation) -> None:
        """A computation that is all registers."""
        for inst in schedule_of(computation):
            self.instruction(inst)
            self.pause()

    # -- control -----------------------------------------------------------------------------------------

    def loop_step(self, step: LoopStep) -> None:
        self.while_(
            step.source, lambda: self.steps(step.condition), lambda: self.steps(step.body), step.trip_count
        )

    def while_(
        self,
        inst: Instruction,
        condition: Callable[[], None],
        body: Callable[[], None],
        trip_count: int | None,
    ) -> None:
        op, f = inst.op, self.f
        assert isinstance(op, While)
        places = self._places(inst)
        # Arrays lie where the loop has them; buffer assignment has put them there, or they are copied now.
        parts = self._passed(self.where[inst.operands[0]], places)
        with f.while_loop(parts) as loop:
            leaves = self._carried(inst, places, loop.carried)
            self.bind(op.condition.parameters[0], leaves)
            condition()
            root = op.condition.root
            loop.test(self.e(root, ()).ssa)
            if trip_count is None or trip_count > UNPOLLED:
                self.f.poll()
            self.bind(op.body.parameters[0], leaves)
            body()
            loop.yield_(self._passed(self.where[op.body.root], places))
        self.bind(inst, self._carried(inst, places, loop.results))

    def _places(self, inst: Instruction) -> list[BufferSlice | None]:
        """Where the leaves of a loop's or branch's state lie; None for those that are registers."""
        return [
            self.buffers.slice(inst, n) if isinstance(s, Shape) and s.size > self.tiny else None
            for n, s in enumerate(inst.shape.leaves())
        ]

    def _passed(self, leaves: Sequence[Leaf | None], places: Sequence[BufferSlice | None]) -> list[Ssa]:
        """The registers of a state; its arrays are put into their places."""
        parts: list[Ssa] = []
        for leaf, place in zip(leaves, places, strict=True):
            if leaf is not None and place is not None:
                self.write(place, leaf)
            elif leaf is not None:
                parts.extend(p for v in self.elements_of(leaf) for p in v.parts)
        return parts

    def _carried(
        self, inst: Instruction, places: Sequence[BufferSlice | None], parts: Sequence[Ssa]
    ) -> list[Leaf | None]:
        """The leaves of a state, from the registers it carries and the slices it updates."""
        rest = iter(parts)
        leaves: list[Leaf | None] = []
        for shape, place in zip(inst.shape.leaves(), places, strict=True):
            if not isinstance(shape, Shape):
                leaves.append(None)
            elif place is None:
                elements = [
                    Value(shape.dtype, 1, tuple(next(rest) for _ in register_types(shape.dtype, 1)))
                    for _ in range(shape.size)
                ]
                leaves.append(self.held(shape, elements))
            else:
                array = self.array(place, shape)
                leaves.append(Leaf(shape, lambda index, array=array: array.load(index, 1), place))
        return leaves

    def branch_step(self, step: BranchStep) -> None:
        self.conditional(step.source, [lambda b=b: self.steps(b) for b in step.branches])

    def conditional(self, inst: Instruction, branches: Sequence[Callable[[], None]]) -> None:
        computations = inst.op.computations()
        places = self._places(inst)
        selector = self.e(inst.operands[0], ())

        def side(number: int) -> list[Ssa]:
            computation = computations[number]
            operand = inst.operands[number + 1]
            self.bind(computation.parameters[0], self.where[operand])
            branches[number]()
            return self._passed(self.where[computation.root], places)

        def choose(first: int, last: int) -> list[Ssa]:
            """Code for branches first..last, picked by halving."""
            if first == last:
                return side(first)
            middle = (first + last) // 2
            if selector.dtype.is_pred:
                condition = selector.ssa  # branch 0 is the true one
            else:
                condition = self.f.icmp("sle", position, self.f.const(position.type, middle))
            branch = self.f.branch(condition)
            with branch.then():
                a = choose(first, middle)
            with branch.otherwise():
                b = choose(middle + 1, last)
            return branch.merge(list(zip(a, b, strict=True)))

        if not selector.dtype.is_pred:
            # Out of range, negative included, means the last branch.
            inside = self.e.in_range(Index(self.f, self.values.to_index(selector)), 0, len(computations))
            last = self.f.index(len(computations) - 1)
            known = self.values.to_index(selector)
            position = (
                self.f.select(inside.ssa, known, last)
                if isinstance(inside, Value)
                else (known if inside else last)
            )
        parts = choose(0, len(computations) - 1)
        self.bind(inst, self._carried(inst, places, parts))

    def call_step(self, step: CallStep) -> None:
        (computation,) = step.source.op.computations()
        self.call(step.source, computation, lambda: self.steps(step.body))

    def call(self, inst: Instruction, computation: Computation, body: Callable[[], None]) -> None:
        for parameter, operand in zip(computation.parameters, inst.operands, strict=True):
            self.bind(parameter, self.where[operand])
        body()
        self.bind(inst, self.where[computation.root])

    def pause(self) -> None:
        """Polls after many values: a new basic block begins."""
        if self.f.made - self.polled > LONGEST_BLOCK:
            self.f.poll()
            self.polled = self.f.made

    # -- memory ------------------------------------------------------------------------------------------

    def kernel_step(self, step: KernelStep) -> None:
        inst = step.source
        kernel = self.kernels[step.kernel]
        pointers = [
            self.in_memory(o, 0, place) for o, place in zip(inst.operands, step.operands, strict=True)
        ]
        pointers += [self.pointer(place) for place in step.results]
        if step.scratch is not None:
            pointers.append(self.pointer(step.scratch))
        args = self.arguments(pointers)
        for phase in kernel.plan.phases:
            if phase.count == 0:
                continue
            self.run_phase(phase, args, kernel.polls)
        self.bind_memory(inst)

    def arguments(self, pointers: Sequence[Ssa]) -> Ssa:
        """An array of pointers on the stack; the same memory serves all calls, one after the other."""
        f = self.f
        args = f.stack("ptr", len(pointers))
        for number, pointer in enumerate(pointers):
            f.store(pointer, f.gep("ptr", args, f.const("i64", number)), 8)
        return args

    def run_phase(self, phase, args: Ssa, may_stop: bool) -> None:
        f = self.f
        frame = f.params["frame"]
        if not phase.parallel:
            zero, count = f.const("i64", 0), f.const("i64", phase.count)
            code = f.call("i32", phase.symbol, (frame, args, zero, count), effect=True)
            if may_stop:
                f.guard(f.icmp("ne", code, f.const("i32", 0)), code)
            return
        self.parallel_for(Ssa(f"@{phase.symbol}", "ptr", None), args, phase.count, phase.grain)

    def parallel_for(self, kernel: Ssa, args: Ssa, count: int, grain: int) -> None:
        f = self.f
        ranges = f.const("i64", count), f.const("i64", grain)
        frame = f.params["frame"]
        code = f.call_pointer("i32", self.field("parallel_for"), (frame, kernel, args, *ranges))
        f.guard(f.icmp("ne", code, f.const("i32", 0)), code)

    def store_step(self, step: StoreStep) -> None:
        inst = step.source
        operand, update, *starts = inst.operands
        source = self.where[operand][0]
        assert source is not None and source.slice is not None
        if source.slice != step.target:
            self.write(step.target, source)
        shape, small = inst.shape, update.shape
        begin = self.e.window_start(starts, shape.dims, small.dims)
        elements = [self.e(update, index) for index in indices(small)]
        array = self.array(step.target, shape)
        for index, value in zip(indices(small), elements, strict=True):
            array.store(tuple(s + i for s, i in zip(begin, index, strict=True)), value)
        self.bind_memory(inst)

    def scatter(self, inst: Instruction) -> None:
        """A scatter into a small array in registers: each update goes, by comparison, to where it belongs."""
        leaves = scatter_elements(self.e, inst)
        shapes = [s for s in inst.shape.leaves() if isinstance(s, Shape)]
        self.bind(inst, [self.held(s, v) for s, v in zip(shapes, leaves, strict=True)])

    def random_state(self, inst: Instruction) -> None:
        """The 128 bits of the frame's state, which moves on."""
        f, shape = self.f, inst.shape
        assert isinstance(shape, Shape)
        frame, offset = f.params["frame"], abi.FRAME.offset("rng_state", self.pointer_bytes)
        addresses = [f.gep("i8", frame, f.const("i64", offset + 8 * n)) for n in range(2)]
        low, high = (f.load("i64", address, 8) for address in addresses)
        delta = inst.op.delta  # type: ignore[attr-defined]
        moved = f.add(low, f.const("i64", delta % (1 << 64)))
        carry = f.cast("zext", f.icmp("ult", moved, low), "i64")
        above = f.add(high, f.const("i64", (delta >> 64) % (1 << 64)))
        f.store(moved, addresses[0], 8)
        f.store(f.add(above, carry), addresses[1], 8)
        self.bind(inst, [self.held(shape, [Value(shape.dtype, 1, (word,)) for word in (low, high)])])

    def custom_call_step(self, step: CustomCallStep) -> None:
        emit_custom_call(self, step)
        self.bind_memory(step.source)


STEPS: dict[type, Callable] = {
    KernelStep: _Entry.kernel_step,
    ScalarStep: _Entry.scalar_step,
    StoreStep: _Entry.store_step,
    LoopStep: _Entry.loop_step,
    BranchStep: _Entry.branch_step,
    CallStep: _Entry.call_step,
    CustomCallStep: _Entry.custom_call_step,
}
