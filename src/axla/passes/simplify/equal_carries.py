"""Finds elements of a loop that always have equal values, such as two counters with equal starts and
steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from axla.ir.graph import Computation, Instruction
from axla.ir.structure import GetTupleElement
from axla.ir.traverse import post_order
from axla.passes.simplify.carries import Loop

ROUNDS = 8


def equal_carries(loop: Loop) -> dict[int, int]:
    """Maps the number of each element that always equals an earlier element to the number of the
    earlier one.
    """
    begin: dict[Instruction, list[int]] = defaultdict(list)
    for number, value in enumerate(loop.init):
        begin[value].append(number)
    groups = tuple(tuple(numbers) for numbers in begin.values() if len(numbers) > 1)
    if not groups:
        return {}
    return loop.body.fact(("equal carries", groups), lambda body: _equal(body, groups))


def _equal(body: Computation, groups: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    """Assumes that elements with equal initial values (`groups`) stay equal, and splits a group when the body
    makes its elements differ. Returns the map of `equal_carries`.
    """
    after = body.root.operands
    for _ in range(ROUNDS):
        first = {number: group[0] for group in groups for number in group}
        numbers = _numbered(body, first)
        apart: dict[Hashable, list[int]] = defaultdict(list)
        for group in groups:
            for number in group:
                apart[group[0], numbers[after[number]]].append(number)
        finer = tuple(tuple(group) for group in apart.values() if len(group) > 1)
        if finer == groups or not finer:
            return {number: group[0] for group in finer for number in group[1:]}
        groups = finer
    return {}


def _numbered(body: Computation, first: dict[int, int]) -> dict[Instruction, Hashable]:
    """Numbers for the values of a body: equal numbers mean equal values, provided that each element n equals
    element `first[n]`.
    """
    keys: dict[Hashable, int] = {}
    numbers: dict[Instruction, Hashable] = {}
    for inst in post_order(body):
        op = inst.op
        key: Hashable
        if isinstance(op, GetTupleElement) and inst.operands[0] is body.parameters[0]:
            key = (GetTupleElement, first.get(op.index, op.index))
        elif op.side_effect or op.computation_fields:
            key = inst
        else:
            more = inst.extra.backend_config
            key = (op, tuple([numbers[o] for o in inst.operands]), inst.shape, more)
        numbers[inst] = keys.setdefault(key, len(keys))
    return numbers
