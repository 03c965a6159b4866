"""A concatenation of very many pieces is done in groups.

A kernel chooses among its pieces at every element, or has a loop for each of them.
"""

from __future__ import annotations

from axla.hlo import Concatenate
from axla.ir.graph import Instruction, Module
from axla.ir.traverse import post_order
from axla.passes.rewrite import current_session
from axla.target.machine import Target


def concatenate_canonicalize(module: Module, target: Target) -> None:
    """Leaves no concatenation of more pieces than a kernel takes: groups of half as many come first."""
    session, most = current_session(), target.limits.pieces
    for computation in module.computations:
        for inst in post_order(computation):
            many = isinstance(inst.op, Concatenate) and len(inst.operands) > most
            if many and session.may_fire("concatenate-canonicalize", inst):
                computation.replace(inst, grouped(inst, most // 2))
                computation.remove(inst)


def grouped(inst: Instruction, count: int) -> Instruction:
    """The concatenation as a tree: of `count` pieces each."""
    op, add, pieces = inst.op, inst.computation.add, inst.operands
    while len(pieces) > count:
        pieces = tuple(add(op, pieces[at : at + count]) for at in range(0, len(pieces), count))
    return add(op, pieces, inst.shape, extra=inst.extra)
