"""The first value inside of a program that two backends compute differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from axla.comparison import Tolerance, array_leaves, compare_output, run_flat
from axla.core.literal import why_no_array
from axla.core.shape import Shape
from axla.ir.clone import clone_module
from axla.ir.graph import Instruction, Module
from axla.ir.structure import Constant, Parameter, Tuple
from axla.ir.traverse import post_order
from axla.passes.simplify.dce import dce

Runner = Callable[[Module, str], list[np.ndarray]]
"""The result leaves of a module on a backend."""


def first_difference(
    module: Module, inputs: Sequence[np.ndarray], backend: str, reference: str, tolerance: Tolerance,
    before_run: Callable[[Module], object] = lambda _: None,
) -> str:  # fmt: skip
    """The first instruction of the entry whose value differs, with what differs and its operands, as text; ""
    where all agree.

    All values are results of one program first. Where fusion takes another course then, and all agree, one
    program after the other has one of them as its result.
    """

    def run(work: Module, name: str) -> list[np.ndarray]:
        return run_flat(work, inputs, name, None, None, before_run)

    names = [inst.name for inst in post_order(module.entry) if _is_value(inst)]
    work = with_results(module, names)
    found, wanted = run(work, backend), run(work, reference)
    at = 0
    for name in names:
        inst = _named(module, name)
        text = _compared(inst, found[at:], wanted[at:], tolerance)
        if text:
            return text
        at += len(array_leaves(inst.shape))
    low, high = 0, len(names)  # right before `low`; wrong from `high` on, perhaps
    if not names or not _alone(module, names[-1], run, backend, reference, tolerance):
        return ""
    while high - low > 1:
        middle = (low + high) // 2
        wrong = _alone(module, names[middle - 1], run, backend, reference, tolerance)
        low, high = (low, middle) if wrong else (middle, high)
    text = _alone(module, names[high - 1], run, backend, reference, tolerance)
    return f"{text}\n  (with all values as results they agree: another fusion)" if text else ""


def _alone(
    module: Module, name: str, run: Runner, backend: str, reference: str, tolerance: Tolerance
) -> str:  # fmt: skip
    """How a value differs when it is the only result."""
    work = with_results(module, [name])
    return _compared(_named(module, name), run(work, backend), run(work, reference), tolerance)


def with_results(module: Module, names: Sequence[str]) -> Module:
    """A copy whose result are the values of instructions of the entry."""
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


def _compared(
    inst: Instruction, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: Tolerance
) -> str:  # fmt: skip
    for number, shape in enumerate(array_leaves(inst.shape)):
        report = compare_output(number, shape, found[number], wanted[number], tolerance)
        if report.problem:
            place = f"\n  from {inst.extra.location}" if inst.extra.location else ""
            return f"{inst!r}: {report.problem}{place}"
    return ""
