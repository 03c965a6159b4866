"""The cost of a module: operations and bytes, counted by the conventions of XLA's cost analysis.

A multiplication with an addition counts as two operations. Transcendental functions are counted separately.
An instruction accesses the bytes of its operands and of its result; of a large operand that it reads only in
part, that part. A loop's body counts once per trip; if the trip count is unknown, once, and the cost is a
lower bound.
"""

from __future__ import annotations

from dataclasses import replace

import axla.hlo as hlo
from axla.analysis.trip_count import trip_count
from axla.core.dataclass import dataclass
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.traverse import computations_callees_first, post_order


@dataclass(frozen=True, slots=True)
class Cost:
    """Counts of operations, transcendental functions and accessed bytes. `exact` is False if the trip count
    of a loop is unknown.
    """

    operations: int = 0
    transcendentals: int = 0
    bytes: int = 0
    exact: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations, self.transcendentals + other.transcendentals,
            self.bytes + other.bytes, self.exact and other.exact,
        )  # fmt: skip

    def times(self, count: int) -> Cost:
        """This cost multiplied by `count`, for that many executions."""
        return Cost(self.operations * count, self.transcendentals * count, self.bytes * count, self.exact)


def cost(module: Module) -> Cost:
    """The cost of one run of a module."""
    return _costs(module)[module.entry]


def entry_costs(module: Module) -> dict[Instruction, Cost]:
    """The cost of each instruction of a module's entry."""
    known = _costs(module)
    return {inst: _of(inst, known) for inst in module.entry.instructions}


def instruction_costs(module: Module) -> dict[Instruction, Cost]:
    """The cost of one run of each instruction of a module."""
    known = _costs(module)
    return {inst: _of(inst, known) for c in module.computations for inst in c.instructions}


def _costs(module: Module) -> dict[Computation, Cost]:
    found: dict[Computation, Cost] = {}
    for computation in computations_callees_first(module):
        total = Cost()
        for inst in post_order(computation):
            total += _of(inst, found)
        found[computation] = total
    return found


def _of(inst: Instruction, known: dict[Computation, Cost]) -> Cost:
    op = inst.op
    if isinstance(op, hlo.While):
        trips = trip_count(inst)
        once = known[op.body] + known[op.condition]
        return replace(once, exact=False) if trips is None else once.times(trips)
    if isinstance(op, hlo.Conditional):
        return max((known[c] for c in op.computations()), key=lambda c: (c.operations, c.bytes))
    if isinstance(op, hlo.Call):
        return sum((known[c] for c in op.computations()), Cost())
    operands, shape = [operand.shape for operand in inst.operands], inst.shape
    moved = op.accessed(operands, shape)
    applied = sum((known[c] for c in op.computations()), Cost())
    if isinstance(op, hlo.Fusion):
        return replace(applied, bytes=moved)
    count = op.operations(operands, shape)
    if op.transcendental and shape.dtype.is_inexact:
        return Cost(0, count, moved)
    if not op.computations() or isinstance(op, hlo.Sort):
        return Cost(count, 0, moved)
    return replace(applied.times(count), bytes=moved)
