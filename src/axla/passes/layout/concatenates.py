"""A concatenation of very many pieces is done in groups.

A kernel chooses among its pieces at every element, or has a loop for each of them.
"""

from __future__ import annotations

from axla.hlo import Concatenate
from axla.ir.graph import Instruction, Module
from axla.ir.traverse import post_order
from axla.passes.rewrite import current_session

MANY = 64
GROUP = 32


def concatenate_canonicalize(module: Module) -> None:
    """Leaves no concatenation of more than 64 pieces: groups of 32 are concatenated first."""
    session = current_session()
    for computation in module.computations:
        for inst in post_order(computation):
            many = isinstance(inst.op, Concatenate) and len(inst.operands) > MANY
            if many and session.may_fire("concatenate-canonicalize", inst):
                computation.replace(inst, grouped(inst))
                computation.remove(inst)


def grouped(inst: Instruction) -> Instruction:
    """The concatenation as a tree."""
    op, add, pieces = inst.op, inst.computation.add, inst.operands
    while len(pieces) > GROUP:
        pieces = tuple(add(op, pieces[at : at + GROUP]) for at in range(0, len(pieces), GROUP))
    return add(op, pieces, inst.shape, extra=inst.extra)
