"""Constant folding, limited in the size of results and in work.

A loop with constant initial values is constant, too. It is evaluated if all loops in it have a known trip
count, so that its cost is known before.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from axla.analysis.trip_count import trip_count
from axla.core.errors import AxlaError
from axla.core.literal import Literal, why_no_array
from axla.core.shape import Shape
from axla.hlo import (
    Broadcast,
    Constant,
    CustomCall,
    Dot,
    Fusion,
    OptBarrier,
    PartitionId,
    Reduce,
    ReplicaId,
    Tuple,
    While,
)
from axla.hlo.casting import convert
from axla.interpreter.evaluate import REGIONS, Interpreter
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import post_order
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite
from axla.passes.simplify.match import constant, values_of

SMALL = 4096
"""The largest size in bytes of a result that is always folded. A larger one is folded only if it is no larger
than the constants from which it is computed.
"""

LARGEST = 1 << 22
"""The largest size in bytes of a folded constant."""

WORK = 1 << 24
"""The most elements computed per module, which take some tenths of a second."""

LOOP = 1 << 22
"""The most elements computed for one loop, which the compiled program would run in a few microseconds."""

STEP = 1000
"""The overhead of the interpreter per instruction, as a number of elements that could be computed in that
time.
"""


DEEPEST = 10  # the most nested loops that are evaluated


def constant_folding(module: Module) -> None:
    """Replaces instructions with constant operands by their values, if these are small and fast to
    compute.
    """
    folder = _Folder()
    for computation in module.computations:
        folder.fold(computation)


class _Folder:
    def __init__(self) -> None:
        self.left = WORK
        self.known: dict[Computation, int | None] = {}
        self.session = rewrite.current_session()

    def fold(self, computation: Computation) -> None:
        bound = rewrite.control_bound(computation)
        forward: dict[Instruction, Instruction] = {}
        for inst in post_order(computation):
            if type(inst.op) is While and inst not in bound:
                self.loop(inst, forward)
            if _is_left(inst.op) or not inst.operands or inst in bound:
                continue
            operands = [forward.get(o, o) for o in inst.operands]
            if why_not_fold(inst, operands) is not None:
                continue
            cost = work(inst)
            if cost > self.left or not self.session.may_fire("constant-folding", inst):
                continue
            self.left -= cost
            literal = self.value(inst, operands)
            if literal is None:
                continue
            folded = constant(computation, literal)
            if folded.shape is not inst.shape:
                computation.set_shape(folded, inst.shape)
            forward[inst] = folded
        if forward:
            rewrite.replace_all(computation, forward)
            rewrite.sweep(computation, forward)

    def value(self, inst: Instruction, constants: list[Instruction]) -> Literal | None:
        """The value of an instruction with constant operands; None if it cannot be computed."""
        shape = shape_of(inst)
        operands = [_array(o) for o in constants]
        region = REGIONS.get(type(inst.op))
        try:
            with np.errstate(all="ignore"):
                if region is not None:
                    result = region(Interpreter(memory_limit=LARGEST), inst, *operands)
                else:
                    result = inst.op.evaluate(*operands)  # type: ignore[attr-defined]
                return _literal(shape, result)
        except (AxlaError, MemoryError):
            return None  # if it is an error of the program, it is raised when the program runs

    def loop(self, inst: Instruction, forward: dict[Instruction, Instruction]) -> None:
        """Evaluates a loop with constant initial values, and records its results in `forward` as the loop's
        replacement.
        """
        (start,) = inst.operands
        parts = [start] if start.shape.is_array else start.operands
        constants = [forward.get(o, o) for o in parts]
        if not constants or len(constants) != len(inst.shape.parts) or not all(map(_is_known, constants)):
            return
        cost = loop_work(inst, self.known)
        if cost is None or cost > min(LOOP, self.left) or not self.session.may_fire("constant-folding", inst):
            return
        self.left -= cost
        values = [_array(o) for o in constants]
        try:
            with np.errstate(all="ignore"):
                runs = Interpreter(memory_limit=LARGEST)
                result = REGIONS[While](runs, inst, values[0] if start.shape.is_array else tuple(values))
        except (AxlaError, MemoryError):
            return
        results = [result] if start.shape.is_array else result
        shapes = [shape_of(o) for o in constants]
        made = [constant(inst.computation, _literal(*one)) for one in zip(shapes, results, strict=True)]
        forward[inst] = made[0] if start.shape.is_array else inst.computation.add(Tuple(), made, inst.shape)


def _literal(shape: Shape, value: Any) -> Literal:
    array = np.ascontiguousarray(convert(np.asarray(value), shape.dtype))
    return Literal(shape.logical, array.reshape(shape.dims))


def _is_known(inst: Instruction) -> bool:
    shape, source = inst.shape, inst.operands[0] if type(inst.op) is Broadcast else inst
    if not isinstance(shape, Shape) or shape.byte_size > SMALL or why_no_array(shape) is not None:
        return False
    return values_of(source) is not None


def loop_work(loop: Instruction, known: dict[Computation, int | None], depth: int = 0) -> int | None:
    """The approximate number of elements that a loop computes; None if it is unknown, or if the loop must not
    be evaluated. `known` caches the number per computation; `depth` is the number of loops around this one.
    """
    trips = trip_count(loop)
    if trips is None or trips > LOOP // STEP or depth > DEEPEST:
        return None
    total = 0
    for computation in loop.op.computations():
        if computation not in known:
            known[computation] = _trip_work(computation, known, depth)
        work = known[computation]
        if work is None:
            return None
        total += work
    return trips * total


def _trip_work(computation: Computation, known: dict[Computation, int | None], depth: int) -> int | None:
    total = 0
    for inst in computation.instructions:
        if inst.op.structural or type(inst.op) is Constant:
            continue
        if type(inst.op) is While:
            inner = loop_work(inst, known, depth + 1)
        else:
            inner = STEP + work(inst) if _may_run(inst) else None
        if inner is None:
            return None
        total += inner
    return total


def _may_run(inst: Instruction) -> bool:
    op = inst.op
    beyond = op.side_effect or op.control or op.collective is not None or op.ends is not None
    # the ids depend on the participant
    left = isinstance(op, Fusion | CustomCall | OptBarrier | ReplicaId | PartitionId)
    if beyond or left or not inst.shape.is_array:
        return False
    return shape_of(inst).byte_size <= LARGEST and (hasattr(op, "evaluate") or type(op) in REGIONS)


def _is_left(op: Op) -> bool:
    """Whether an op is never folded: structural ops, loops and calls, fusions, custom calls, and ops that
    cost nothing in a kernel (`Op.free`).
    """
    made = op.structural or op.free and not op.passes_on
    return made or op.control or isinstance(op, Fusion | CustomCall | OptBarrier)


def why_not_fold(inst: Instruction, operands: list[Instruction]) -> str | None:
    """The reason not to fold an instruction with these operands; None if it may be folded."""
    op, shape = inst.op, inst.shape
    if not isinstance(shape, Shape) or shape.is_dynamic:
        return "its result is not an array of static size"
    known = 0
    for operand in operands:
        values = values_of(operand)
        if values is None and type(operand.op) is Broadcast:
            values = values_of(operand.operands[0])
        if values is None:
            return "an operand is not constant"
        known += values.nbytes
    if op.side_effect or (not hasattr(op, "evaluate") and type(op) not in REGIONS):
        return f"{op.opcode} cannot be evaluated at compile time"
    if shape.byte_size > min(LARGEST, max(SMALL, known)):
        return f"its {shape.byte_size} bytes are more than the {known} of its operands"
    reasons = (why_no_array(shape_of(o)) for o in (inst, *operands))
    return next((reason for reason in reasons if reason is not None), None)


def work(inst: Instruction) -> int:
    """The approximate number of elements that are computed for an instruction's value."""
    result = inst.shape.size
    read = sum(o.shape.size for o in inst.operands)
    op = inst.op
    if isinstance(op, Dot):
        lhs = inst.operands[0].shape
        return result * prod(lhs.dims[d] for d in op.lhs_contracting_dims) + read
    if op.computation_fields:
        # Computations on scalars may run element by element in Python.
        return 1000 * (result + read) if not isinstance(op, Reduce) else 100 * read
    return result + read


def _array(operand: Instruction) -> np.ndarray:
    values = values_of(operand)
    if values is None:
        inner = values_of(operand.operands[0])
        assert inner is not None
        return op_of(operand, Broadcast).evaluate(inner)
    return values
