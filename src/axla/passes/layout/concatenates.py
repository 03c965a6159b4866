"""A concatenation of very many operands is done in groups.

A kernel selects among its operands for every element, or has a loop for each of them.
"""

from __future__ import annotations

from axla.hlo import Concatenate
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand
from axla.target.machine import Target


def concatenate_canonicalize(module: Module, target: Target) -> None:
    """Limits the number of operands of a concatenation to what a kernel takes: groups of half as many come
    first.
    """
    most = target.limits.pieces

    def cut(inst: Instruction) -> Instruction | None:
        return grouped(inst, max(2, most // 2)) if len(inst.operands) > most else None

    expand(module, "concatenate-canonicalize", {Concatenate: cut})


def grouped(inst: Instruction, count: int) -> Instruction:
    """The concatenation as a tree of concatenations with `count` operands each."""
    op, add, pieces = inst.op, inst.computation.add, inst.operands
    while len(pieces) > count:
        pieces = tuple(add(op, pieces[at : at + count]) for at in range(0, len(pieces), count))
    return add(op, pieces, inst.shape, extra=inst.extra)
