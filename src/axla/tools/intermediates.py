"""Finds the first value inside a program that two backends compute differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from axla.comparison import Tolerance, array_leaves, compare_output, run_flat
from axla.core.dataclass import dataclass
from axla.core.literal import why_no_array
from axla.core.shape import Shape
from axla.hlo.control import Call, Conditional, Fusion, While
from axla.ir.clone import clone_module, stand_alone
from axla.ir.graph import Instruction, Module
from axla.ir.structure import Constant, Parameter, Tuple
from axla.ir.traverse import post_order
from axla.passes.simplify.dce import dce

MOST_TRIPS = 1000
"""The most iterations of a loop that are searched."""


def first_difference(
    module: Module, inputs: Sequence[np.ndarray], backend: str, reference: str, tolerance: Tolerance,
    before_run: Callable[[Module], object] = lambda _: None,
) -> str:  # fmt: skip
    """The first instruction whose value differs, with the difference and its operands, as text; "" if all
    values agree. For a loop, a branch or a call, further lines name the instruction inside that differs; the
    computations inside run with the values that the reference computes.

    First, all values are results of a single program. If all agree there, which fusion may cause, single
    values become the results of programs of their own.
    """
    return _Search(backend, reference, tolerance, before_run).first(module, inputs)


@dataclass(frozen=True)
class _Search:
    backend: str
    reference: str
    tolerance: Tolerance
    before_run: Callable[[Module], object]

    def run(self, module: Module, inputs: Sequence[np.ndarray], backend: str) -> list[np.ndarray]:
        return run_flat(module, inputs, backend, before_run=self.before_run)

    def both(self, module: Module, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return self.run(module, inputs, self.backend), self.run(module, inputs, self.reference)

    def first(self, module: Module, inputs: Sequence[np.ndarray]) -> str:
        names = [inst.name for inst in post_order(module.entry) if _is_value(inst)]
        found, wanted = self.both(with_results(module, names), inputs)
        at = 0
        for name in names:
            inst = _named(module, name)
            text = self.compared(inst, found[at:], wanted[at:])
            if text:
                return text + self.inside(module, inst, inputs)
            at += len(array_leaves(inst.shape))
        low, high = 0, len(names)  # the first `low` values agree, the one before `high` differs
        if not names or not self.alone(module, names[-1], inputs):
            return ""
        while high - low > 1:
            middle = (low + high) // 2
            wrong = self.alone(module, names[middle - 1], inputs)
            low, high = (low, middle) if wrong else (middle, high)
        text = self.alone(module, names[high - 1], inputs)
        return f"{text}\n  (with all values as results they agree: another fusion)" if text else ""

    def alone(self, module: Module, name: str, inputs: Sequence[np.ndarray]) -> str:
        """Text about the difference of the value `name` when it is the only result of a program; "" if it
        does not differ.
        """
        return self.compared(_named(module, name), *self.both(with_results(module, [name]), inputs))

    def compared(
        self, inst: Instruction, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]
    ) -> str:  # fmt: skip
        for number, shape in enumerate(array_leaves(inst.shape)):
            report = compare_output(number, shape, found[number], wanted[number], self.tolerance)
            if report.problem:
                place = f"\n  from {inst.extra.location}" if inst.extra.location else ""
                return f"{inst!r}: {report.problem}{place}"
        return ""

    def inside(self, module: Module, inst: Instruction, inputs: Sequence[np.ndarray]) -> str:
        """Text about the first difference inside the computations of `inst`, whose value differs. `inputs`
        are the inputs of the module.
        """
        op = inst.op
        if not isinstance(op, While | Conditional | Call | Fusion):
            return ""
        given = [self.run(with_results(module, [o.name]), inputs, self.reference) for o in inst.operands]
        if isinstance(op, While):
            return self.trips(op, given[0])
        called, arguments = op.computations()[0], [array for row in given for array in row]
        if isinstance(op, Conditional):
            number = op.taken(given[0][0])
            called, arguments = op.branches[number], given[1 + number]
        text = self.first(stand_alone(called, called.name).module, arguments)
        return f"\n  in {called.name}: {text}" if text else ""

    def trips(self, loop: While, carried: list[np.ndarray]) -> str:
        """Text about the first iteration of a loop in which the backends differ. `carried` are the values
        before the loop; each iteration begins with the values that the reference computes.
        """
        condition, body = (stand_alone(c, c.name).module for c in (loop.condition, loop.body))
        for trip in range(MOST_TRIPS):
            found, wanted = self.both(condition, carried)
            text = self.compared(condition.entry.root, found, wanted)
            if not text and not wanted[0]:
                return f"\n  each of its {trip} iterations, alone, agrees"
            found, wanted = self.both(body, carried)
            if text or self.compared(body.entry.root, found, wanted):
                text = text or self.first(body, carried)
                return f"\n  in iteration {trip}: {text}"
            carried = wanted
        return f"\n  each of its first {MOST_TRIPS} iterations, alone, agrees"


def with_results(module: Module, names: Sequence[str]) -> Module:
    """A copy of a module whose results are the values of the entry's instructions `names`."""
    work = clone_module(module)
    work.file = module.file
    named = {inst.name: inst for inst in work.entry.instructions}
    values = [named[name] for name in names]
    work.entry.set_root(values[0] if len(values) == 1 else work.entry.add(Tuple(), values))
    work.set_config(aliases=(), entry_layout=None)
    dce(work)
    return work


def _is_value(inst: Instruction) -> bool:
    if isinstance(inst.op, Parameter | Constant) or inst.op.structural:
        return False
    return all(isinstance(leaf, Shape) and why_no_array(leaf) is None for leaf in inst.shape.leaves())


def _named(module: Module, name: str) -> Instruction:
    return next(inst for inst in module.entry.instructions if inst.name == name)
