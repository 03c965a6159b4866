"""Splits concatenations of very many operands.

The kernel of a concatenation selects among its operands for every element, or has a loop for each of them.
"""

from __future__ import annotations

from axla.hlo import Concatenate
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand
from axla.target.machine import Target


def concatenate_canonicalize(module: Module, target: Target) -> None:
    """Limits the operands of a concatenation to the number that a kernel takes, by concatenating groups of
    half that number first.
    """
    most = target.limits.pieces

    def cut(inst: Instruction) -> Instruction | None:
        return grouped(inst, max(2, most // 2)) if len(inst.operands) > most else None

    expand(module, "concatenate-canonicalize", {Concatenate: cut})


def grouped(inst: Instruction, count: int) -> Instruction:
    """Builds a concatenation as a tree of concatenations with at most `count` operands each."""
    op, add, pieces = inst.op, inst.computation.add, inst.operands
    while len(pieces) > count:
        pieces = tuple(add(op, pieces[at : at + count]) for at in range(0, len(pieces), count))
    return add(op, pieces, inst.shape, extra=inst.extra)
