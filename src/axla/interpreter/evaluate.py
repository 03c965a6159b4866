"""Evaluates modules with NumPy: slow, but simple enough to be obviously correct.

A *value* is a NumPy array of the instruction's element type, a tuple of values, or None for a token. An array
with dynamic dimensions has its actual sizes. Every computation is planned once. A plan is a list of steps
that read and write numbered slots; each step lists the slots that can be freed after it. Ops without called
computations are evaluated by `Op.evaluate`, the others by functions in the table `REGIONS`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.core.errors import (
    AxlaError,
    Cancelled,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    OutOfMemory,
    UnsupportedError,
)
from axla.core.literal import Literal, why_no_array
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo.casting import convert
from axla.hlo.numeric import ArrayFunction
from axla.hlo.transfer import receives_last
from axla.interpreter.bounds import HostValue, by_bounds
from axla.interpreter.processes import Process
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op, is_own
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.ir.traverse import running_order
from axla.program import abi

REGIONS: dict[type[Op], Callable[..., HostValue]] = {}
"""The functions of ops that call computations or have effects. `regions.py` fills this table."""

CALL_DEPTH = 100
"""The limit of nested calls of computations, as each level uses frames of Python's stack."""

MEMORY_LIMIT = 1 << 34
"""The default limit of bytes for one value."""


def evaluate(
    module: Module,
    arguments: Sequence[Literal | np.ndarray | object] = (),
    *,
    step_limit: int | None = None,
    deadline: float | None = None,
    memory_limit: int = MEMORY_LIMIT,
    seed: int = 0,
    clock: StepTimer | None = None,
) -> Literal:
    """Evaluates the entry computation for these arguments, one per parameter, and returns its result.

    Raises DeadlineExceeded after `step_limit` instructions or `deadline` seconds. `seed` is the seed of
    `rng`. `clock` wraps the functions of the entry's instructions to measure them.
    """
    interpreter = Interpreter(
        step_limit=step_limit, deadline=deadline, memory_limit=memory_limit, seed=seed, clock=clock
    )
    entry = module.entry
    with np.errstate(all="ignore"):
        result = interpreter.run(entry, argument_values(entry, arguments))
    return as_literal(result, entry.root.shape)


def argument_values(entry: Computation, arguments: Sequence[object]) -> list[HostValue]:
    """Converts the arguments of the computation `entry` to values of the parameters' shapes."""
    if len(arguments) != len(entry.parameters):
        raise InvalidArgument(f"{entry.name} takes {len(entry.parameters)} arguments, found {len(arguments)}")
    pairs = zip(entry.parameters, arguments, strict=True)
    return [_leaf(parameter, parameter.shape, argument) for parameter, argument in pairs]


PlannedCall = tuple[Callable[..., HostValue], tuple[int, ...], int, tuple[int, ...], Instruction]
"""A step: (function, slots of the operands, slot of the result, slots that are not needed after it,
instruction)."""

StepTimer = Callable[[Instruction, Callable[..., HostValue]], Callable[..., HostValue]]
"""A function that wraps the function of an instruction, so that its calls are measured."""

SMALL = 4096
"""Values of at most this many bytes are not freed early, which would take more time than it is worth."""

SCARCE_RANK = 60
"""From this rank on, NumPy may be unable to evaluate an op that needs a few more dimensions."""

CHUNK = 32
"""The number of steps after which the deadline is checked."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """A plan for a computation. `values` has the constants in their slots, and None in the others."""

    values: list[HostValue]
    parameters: tuple[int, ...]
    chunks: tuple[tuple[PlannedCall, ...], ...]
    root: int


class Interpreter:
    """Evaluates computations, one run at a time. Plans are kept between runs, so the graph must not be
    changed.
    """

    def __init__(
        self,
        *,
        step_limit: int | None = None,
        deadline: float | None = None,
        memory_limit: int = MEMORY_LIMIT,
        seed: int = 0,
        process: Process | None = None,
        clock: StepTimer | None = None,
    ):
        self.clock = clock
        self.process = process  # the process that it runs, if there are several
        self.step_limit = float("inf") if step_limit is None else step_limit
        self.stop_at = float("inf") if deadline is None else time.monotonic() + deadline
        self.deadline = deadline
        self.cancelled: list[bool] = []  # shared with `beside`; if not empty, stop
        self.memory_limit = memory_limit
        self.seed = seed
        self.random = np.random.Generator(np.random.Philox(seed))
        self.state = seed  # the state of rng-get-and-update-state
        self.mailbox: dict[int | None, deque[HostValue]] = {}  # by channel: values not yet received
        self.steps = 0
        self.depth = 0
        self._effects: dict[Computation, bool] = {}
        self._elementwise: dict[Computation, bool] = {}
        self._plans: dict[Computation, EvaluationPlan] = {}
        self._scalar_plans: dict[Computation, EvaluationPlan | None] = {}

    def beside(self, process: Process | None = None) -> Interpreter:
        """Makes a second interpreter with the same limits, for `process`, or, without one, for nested
        evaluation.
        """
        made = Interpreter(memory_limit=self.memory_limit, seed=self.seed, process=process)
        made.step_limit, made.steps = self.step_limit, self.steps
        made.stop_at, made.deadline, made.cancelled = self.stop_at, self.deadline, self.cancelled
        return made

    def cancel(self) -> None:
        """Makes the run, which is in another thread, end with Cancelled."""
        self.cancelled.append(True)

    def run(self, computation: Computation, arguments: Sequence[HostValue]) -> HostValue:
        """Evaluates a computation for these arguments; returns the value of its root."""
        plan = self._plans.get(computation)
        if plan is None:
            plan = self._plans[computation] = self._plan(computation)
        return self.run_plan(plan, arguments)

    def run_plan(self, plan: EvaluationPlan, arguments: Sequence[HostValue]) -> HostValue:
        """Evaluates a planned computation for these arguments. UnsupportedError if calls are nested too
        deeply.
        """
        if self.depth >= CALL_DEPTH:
            raise UnsupportedError(f"the interpreter runs calls up to {CALL_DEPTH} deep")
        values = plan.values.copy()
        for slot, argument in zip(plan.parameters, arguments, strict=True):
            values[slot] = argument
        self.depth += 1
        inst: Instruction | None = None
        try:
            for chunk in plan.chunks:
                self.tick(len(chunk))
                for function, operands, result, dead, inst in chunk:  # noqa: B007
                    values[result] = function(*[values[slot] for slot in operands])
                    for slot in dead:
                        values[slot] = None
        except AxlaError:
            raise
        except MemoryError as error:
            raise OutOfMemory(f"{inst!r}: out of memory") from error
        except Exception as error:
            if inst is not None and max(_rank(x) for x in (inst, *inst.operands)) >= SCARCE_RANK:
                raise UnsupportedError(f"{inst!r}: NumPy cannot do this at this rank: {error}") from error
            raise InternalError(f"interpreter: {inst!r} failed: {type(error).__name__}: {error}") from error
        finally:
            self.depth -= 1
        return values[plan.root]

    def tick(self, steps: int = 1) -> None:
        """Counts steps. Raises an exception if the limit of steps, the deadline or a cancellation ends the
        run.
        """
        self.steps += steps
        if self.steps > self.step_limit:
            raise DeadlineExceeded(f"the interpreter stopped at its limit of {self.step_limit} steps")
        if self.cancelled:
            raise Cancelled("the run was cancelled", abi.CANCELLED)
        if time.monotonic() > self.stop_at:
            raise DeadlineExceeded(f"the interpreter stopped at its deadline of {self.deadline} seconds")
        if self.process is not None:
            self.process.check()

    def wait(self) -> None:
        """Called repeatedly while the run waits for the host: checks the limits and lets other processes
        run.
        """
        self.tick()
        if self.process is not None:
            self.process.offer()

    def on_scalars(
        self, computation: Computation, arguments: Sequence[np.ndarray], dims: Sequence[int]
    ) -> list[np.ndarray]:
        """Applies a computation on scalars to every element of arrays, which are broadcast to the sizes
        `dims`. Returns an array for each result.

        A computation of only elementwise ops is applied to whole arrays, any other to one element after
        another.
        """
        dims = tuple(dims)
        parameters = [p.shape for p in computation.parameters]
        arguments = [convert(np.asarray(a), p.dtype) for a, p in zip(arguments, parameters, strict=True)]
        root = computation.root.shape
        shapes = list(root.elements) if isinstance(root, TupleShape) else [root]
        plan = self._scalar_plan(computation)
        if plan is not None:
            found = self.run_plan(plan, arguments)
            results = list(found) if isinstance(root, TupleShape) else [found]
            return [np.broadcast_to(r, dims) for r in results]
        arguments = [np.broadcast_to(a, dims) for a in arguments]
        results = [np.empty(dims, s.dtype.numpy) for s in shapes]
        for at in np.ndindex(*dims):
            found = self.run(computation, [np.asarray(a[at]) for a in arguments])
            for array, value in zip(
                results, found if isinstance(root, TupleShape) else (found,), strict=True
            ):
                array[at] = value
        return results

    def _plan(
        self, computation: Computation, evaluator: Callable[[Instruction], Callable] | None = None
    ) -> EvaluationPlan:
        order = self._needed(computation)
        slots = {inst: number for number, inst in enumerate(order)}
        root = slots[computation.root]
        last_use: dict[int, int] = {}
        for number, inst in enumerate(order):
            for operand in _inputs(inst):
                last_use[slots[operand]] = number
        dying: dict[int, list[int]] = {}
        for slot, number in last_use.items():
            if slot != root and not _is_small(order[slot].shape):
                dying.setdefault(number, []).append(slot)
        values: list[HostValue] = [None] * len(order)
        steps: list[PlannedCall] = []
        for number, inst in enumerate(order):
            if isinstance(inst.op, Parameter):
                continue
            if isinstance(inst.op, Constant):
                values[number] = as_value(inst.op.literal)
                continue
            self._check_size(inst)
            inputs = _inputs(inst)
            function = (evaluator or self.evaluator)(inst) if inputs is inst.operands else _same
            if self.clock is not None and not self.depth:
                function = self.clock(inst, function)
            operands = tuple(slots[o] for o in inputs)
            dead = tuple(s for s in dying.get(number, ()) if not isinstance(order[s].op, Constant))
            steps.append((function, operands, number, dead, inst))
        chunks = tuple(tuple(steps[k : k + CHUNK]) for k in range(0, len(steps), CHUNK))
        # Unused parameters get a common slot after the others.
        values.append(None)
        return EvaluationPlan(
            values, tuple(slots.get(p, len(order)) for p in computation.parameters), chunks, root
        )

    def _needed(self, computation: Computation) -> list[Instruction]:
        """The instructions with effects, and all instructions on which they or the root depend, in execution
        order. No other instruction is evaluated: dead code may contain an endless loop.
        """
        order = receives_last(running_order(computation))
        needed: set[Instruction] = set()
        for inst in reversed(order):
            if inst is computation.root or inst in needed or self.has_effect(inst):
                needed.add(inst)
                needed.update(_inputs(inst))
                needed.update(inst.extra.control_predecessors)
        return [inst for inst in order if inst in needed]

    def needed(self, computation: Computation) -> Iterator[Instruction]:
        """Yields the instructions that are evaluated, including those of called computations."""
        seen, stack = {computation}, [computation]
        while stack:
            for inst in self._needed(stack.pop()):
                yield inst
                calls = () if isinstance(inst.op, hlo.CustomCall) else inst.op.computations()
                for called in calls:
                    if called not in seen:
                        seen.add(called)
                        stack.append(called)

    def has_effect(self, inst: Instruction) -> bool:
        """Whether an instruction has a side effect, or calls a computation in which an instruction has
        one.
        """
        if inst.op.side_effect:
            return True
        return any([self._asked(self._effects, c, self._any_effect) for c in inst.op.computations()])

    def is_elementwise(self, computation: Computation) -> bool:
        """Whether all values of a computation are scalars, and all its ops can be applied to arrays element
        by element instead.
        """
        return self._asked(self._elementwise, computation, self._all_elementwise)

    def _asked(
        self, known: dict[Computation, bool], c: Computation, ask: Callable[[Computation], bool]
    ) -> bool:
        """A fact about the computation `c`: the result of `ask(c)`, which is computed once and stored in
        `known`. UnsupportedError if calls are nested too deeply.
        """
        if c not in known:
            if self.depth >= CALL_DEPTH:
                raise UnsupportedError(f"the interpreter runs calls up to {CALL_DEPTH} deep")
            self.depth += 1
            try:
                known[c] = ask(c)
            finally:
                self.depth -= 1
        return known[c]

    def _any_effect(self, computation: Computation) -> bool:
        return any(self.has_effect(inst) for inst in computation.instructions)

    def _all_elementwise(self, computation: Computation) -> bool:
        for inst in computation.instructions:
            op: Op = inst.op
            if any(not isinstance(leaf, Shape) or leaf.rank for leaf in inst.shape.leaves()):
                return False
            if (
                op.elementwise
                or isinstance(op, (Parameter, Constant, Tuple, GetTupleElement))
                or _moves_scalar(inst)
            ):
                continue
            if not isinstance(op, (hlo.Call, hlo.Fusion)) or not self.is_elementwise(op.computations()[0]):
                return False
        return True

    def _check_size(self, inst: Instruction) -> None:
        for leaf in inst.shape.leaves():
            if not isinstance(leaf, Shape):
                continue
            if leaf.byte_size > self.memory_limit:
                message = f"{inst!r}: {leaf.byte_size} bytes are more than the limit of {self.memory_limit}"
                raise OutOfMemory(message)
            why = why_no_array(leaf)
            if why is not None:
                raise UnsupportedError(f"{inst!r}: {why}")

    def host(self, value: HostValue) -> HostValue:
        """Returns a value as NumPy arrays. A subclass whose values may be on a device copies them to the
        host.
        """
        return value

    def evaluator(self, inst: Instruction) -> Callable[..., HostValue]:
        """The function that computes an instruction's value from the values of its operands."""
        region = REGIONS.get(type(inst.op))
        if region is not None:
            return by_bounds(inst, partial(region, self, inst))
        function = getattr(inst.op, "evaluate", None)
        if function is None:
            raise UnsupportedError(f"the interpreter does not implement {inst.op.opcode}: {inst!r}")
        native = _native_function(inst)
        if native is not None:
            return partial(_native, native)
        if not is_own(type(inst.op)):
            function = partial(_of_package, inst, function)
        if isinstance(inst.shape, Shape):
            function = partial(_checked, function, inst.shape.dtype.numpy, inst.shape.dtype)
        return by_bounds(inst, function)

    def _scalar_plan(self, computation: Computation) -> EvaluationPlan | None:
        """A plan that applies a computation on scalars to whole arrays; None unless all its ops are
        elementwise.
        """
        if computation not in self._scalar_plans:
            plan = (
                self._plan(computation, self._scalar_evaluator) if self.is_elementwise(computation) else None
            )
            self._scalar_plans[computation] = plan
        return self._scalar_plans[computation]

    def _scalar_evaluator(self, inst: Instruction) -> Callable[..., HostValue]:
        if inst.op.computation_fields:
            plan = self._scalar_plan(inst.op.computations()[0])
            assert plan is not None
            return lambda *arguments: self.run_plan(plan, arguments)
        if _moves_scalar(inst):
            return _same
        return self.evaluator(inst)


def _is_small(shape: AnyShape) -> bool:
    """Whether a value of this shape is so small that it can be kept until its computation ends."""
    return isinstance(shape, Shape) and shape.byte_size <= SMALL


def _rank(inst: Instruction) -> int:
    return inst.shape.rank if isinstance(inst.shape, Shape) else 0


def _inputs(inst: Instruction) -> tuple[Instruction, ...]:
    """The instructions whose values an instruction reads: its operands. A get-tuple-element of a `tuple`
    instruction reads only the selected operand of the `tuple`.
    """
    operands = inst.operands
    if isinstance(inst.op, GetTupleElement) and isinstance(operands[0].op, Tuple):
        return (operands[0].operands[inst.op.index],)
    return operands


def _native_function(inst: Instruction) -> Callable[..., HostValue] | None:
    """The NumPy function of an elementwise op, if it computes in the element type that all operands have;
    else None.
    """
    kernel = getattr(type(inst.op), "function", None)
    types = {o.shape.dtype.numpy for o in inst.operands if isinstance(o.shape, Shape)}
    if not isinstance(kernel, ArrayFunction) or len(types) != 1 or not inst.op.elementwise:
        return None
    if any(isinstance(o.shape, Shape) and o.shape.is_dynamic for o in inst.operands):
        return None
    return kernel.native(types.pop())


def _native(function: Callable[..., HostValue], *operands: HostValue) -> HostValue:
    return np.asarray(function(*operands))


def _checked(
    function: Callable[..., HostValue], wanted: np.dtype, dtype: Any, *operands: HostValue
) -> HostValue:
    """Evaluates an op and converts the result to the instruction's element type, `dtype`; `wanted` is its
    NumPy type. NumPy's result may have another type, for scalars or with mixed precision.
    """
    result = np.asarray(function(*operands))
    return result if result.dtype == wanted else convert(result, dtype)


def _of_package(inst: Instruction, function: Callable[..., HostValue], *operands: HostValue) -> HostValue:
    """Evaluates an op of another package. UnsupportedError unless the result has the sizes that the op
    infers. An `elementwise` op may be given arrays for scalar operands.
    """
    found = function(*operands)
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    arrays = [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]
    if any(not isinstance(s, Shape) or s.is_dynamic for s in (*shapes, *(o.shape for o in inst.operands))):
        return found
    scalars = np.broadcast_shapes(*(x.shape for x in operands)) if inst.op.elementwise else ()
    if [x.shape for x in arrays] != [s.dims or scalars for s in shapes]:
        given = ", ".join(f"{x.dtype}{list(x.shape)}" for x in arrays)
        raise UnsupportedError(f"{inst!r}: evaluate returned {given}, which are not the sizes of the op")
    arrays = [convert(x, s.dtype) for x, s in zip(arrays, shapes, strict=True)]
    return tuple(arrays) if isinstance(found, tuple) else arrays[0]


def _same(operand: HostValue) -> HostValue:
    return operand


def _moves_scalar(inst: Instruction) -> bool:
    """Whether an instruction returns its scalar operand unchanged."""
    if len(inst.operands) != 1 or not isinstance(inst.shape, Shape) or inst.shape.rank:
        return False
    operand = inst.operands[0].shape
    moves = hasattr(inst.op, "source") or inst.op.passes_on
    return moves and isinstance(operand, Shape) and operand.logical is inst.shape.logical


def as_value(literal: Literal) -> HostValue:
    """Converts a literal to a value of the interpreter."""
    if literal.shape.is_tuple:
        return tuple(as_value(e) for e in literal.elements)
    return literal.array if literal.shape.is_array else None


def as_literal(value: HostValue, shape: AnyShape) -> Literal:
    """Converts a value of the interpreter to a literal of `shape`, in the default layout. Dynamic dimensions
    get their actual sizes.
    """
    if isinstance(shape, TupleShape):
        parts = [as_literal(v, s) for v, s in zip(value, shape.elements, strict=True)]
        return Literal(TupleShape([p.shape for p in parts]), elements=parts)
    if not isinstance(shape, Shape):
        return Literal(shape)
    array = np.array(value, shape.dtype.numpy, order="C")
    return Literal(Shape(shape.dtype, array.shape), array)


def _leaf(parameter: Instruction, shape: AnyShape, argument: object) -> HostValue:
    """Converts `argument`, an argument for `parameter` or a part of one, to a value of a shape.
    InvalidArgument, with the parameter's name, if it does not fit.
    """
    if isinstance(shape, TupleShape):
        parts = argument.elements if isinstance(argument, Literal) else argument
        if not isinstance(parts, (tuple, list)) or len(parts) != len(shape.elements):
            wanted = shape.to_string(layout=False)
            message = f"parameter {parameter.name}: wanted a tuple {wanted}, found {argument!r:.200}"
            raise InvalidArgument(message)
        return tuple(_leaf(parameter, s, p) for s, p in zip(shape.elements, parts, strict=True))
    if not isinstance(shape, Shape):
        return None
    array = argument.array if isinstance(argument, Literal) else np.asarray(argument)
    if array.dtype != shape.dtype.numpy or not shape.admits(array.shape):
        found = f"{array.dtype}{list(array.shape)}"
        message = f"parameter {parameter.name}: wanted {shape.to_string(layout=False)}, found {found}"
        raise InvalidArgument(message)
    return array
