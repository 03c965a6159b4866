"""Computations of their own: each is the entry of a new module, and nothing of it is in another one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from axla.core.shape import TupleShape
from axla.hlo import GetTupleElement, Parameter, Tuple
from axla.ir.clone import clone_computation
from axla.ir.graph import Computation, Instruction, Module, kernel_extra
from axla.ir.traverse import text_order


def new_computation(name: str) -> Computation:
    """An empty computation, the entry of a module of its own."""
    return Module(name).add_computation(name, entry=True)


def single(inst: Instruction) -> Computation:
    """The computation that is one instruction."""
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
    """`inst` in another computation, on other operands. What it calls is copied, and noted in `called`."""
    op = inst.op
    if op.computation_fields:
        for one in op.computations():
            if one not in called:
                clone_computation(one, computation.module, mapping=called)
        op = op.with_computations(called.__getitem__)
    return computation.add(op, operands, inst.shape.logical, name=inst.name, extra=kernel_extra(inst))


def leaf_of(inst: Instruction, leaf: int) -> Instruction:
    """A leaf of an instruction's result, taken out of its tuples."""
    while isinstance(inst.shape, TupleShape):
        starts = inst.shape.leaf_starts
        index = bisect_right(starts, leaf) - 1
        leaf -= starts[index]
        inst = inst.computation.add(GetTupleElement(index), [inst])
    return inst


def finish(computation: Computation, results: Sequence[Instruction]) -> None:
    """Makes a tuple of the results the root, and the order of the text the order of work."""
    computation.set_root(computation.add(Tuple(), results))
    module = computation.module
    module.set_schedule({c: text_order(c) for c in module.computations})
