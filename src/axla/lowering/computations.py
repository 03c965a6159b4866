"""Builds computations that are each the entry of a new module and share nothing with other modules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from axla.core.shape import TupleShape
from axla.hlo import GetTupleElement, Parameter, Tuple
from axla.ir.clone import clone_computation
from axla.ir.graph import Computation, Instruction, Module, kernel_extra
from axla.ir.traverse import text_order


def new_computation(name: str) -> Computation:
    """Creates an empty computation that is the entry of a new module."""
    return Module(name).add_computation(name, entry=True)


def single(inst: Instruction) -> Computation:
    """A new computation that consists of a copy of `inst` and parameters for its operands."""
    computation = new_computation(inst.name)
    operands = [
        computation.add(Parameter(o.shape.logical, n), name=f"p{n}") for n, o in enumerate(inst.operands)
    ]
    computation.set_root(copy_instruction(inst, computation, operands, {}))
    return computation


def copy_instruction(
    inst: Instruction, computation: Computation, operands: Sequence[Instruction],
    called: dict[Computation, Computation],
) -> Instruction:  # fmt: skip
    """Adds a copy of `inst` with the given operands to a computation. Called computations are cloned once:
    `called` maps each to its clone.
    """
    op = inst.op
    if op.computation_fields:
        for one in op.computations():
            if one not in called:
                clone_computation(one, computation.module, mapping=called)
        op = op.with_computations(called.__getitem__)
    return computation.add(op, operands, inst.shape.logical, name=inst.name, extra=kernel_extra(inst))


def leaf_of(inst: Instruction, leaf: int) -> Instruction:
    """Returns an instruction whose value is leaf number `leaf` of the result of `inst`. Adds the
    get-tuple-elements that lead to the leaf.
    """
    while isinstance(inst.shape, TupleShape):
        starts = inst.shape.leaf_starts
        index = bisect_right(starts, leaf) - 1
        leaf -= starts[index]
        inst = inst.computation.add(GetTupleElement(index), [inst])
    return inst


def finish(computation: Computation, results: Sequence[Instruction]) -> None:
    """Makes a tuple of `results` the root, and schedules the module in the order of its text."""
    computation.set_root(computation.add(Tuple(), results))
    module = computation.module
    module.set_schedule({c: text_order(c) for c in module.computations})
