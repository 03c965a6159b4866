"""Collectives as steps: the participants that meet, and the kernels that combine elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import axla.hlo as hlo
from axla.core.shape import Shape, array
from axla.hlo.collective import Combining
from axla.ir.clone import clone_computation
from axla.ir.collectives import CollectiveKind, group_mode, group_of, is_asynchronous, processes
from axla.ir.families import Paired
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import GetTupleElement, Parameter, Tuple
from axla.ir.typed import op_of
from axla.program.interface import RendezvousKey

RendezvousKeys = dict[RendezvousKey, int]
"""Maps rendezvous keys to their numbers, which count from 0 in the order in which the keys were found."""
Pairs = tuple[tuple[int, int], ...]


def starts_of(order: Sequence[Instruction]) -> dict[Instruction, list[Instruction]]:
    """The asynchronous collectives of a computation, grouped by the instruction after which they can start:
    the one that computes their last operand.
    """
    place = {inst: n for n, inst in enumerate(order)}
    found: dict[Instruction, list[Instruction]] = {}
    for inst in filter(is_asynchronous, order):
        found.setdefault(max(inst.operands, key=place.__getitem__), []).append(inst)
    return found


def rendezvous_of(
    inst: Instruction, keys: RendezvousKeys, participants: tuple[int, int], pair: int = 0
) -> tuple[int, ...]:
    """The numbers of the rendezvous that a collective takes part in. `keys` maps rendezvous keys to their
    numbers; new keys are added to it. `participants` is (replicas, partitions). `pair` is the number, from 1,
    of an asynchronous collective; it is 0 for a synchronous one.
    """
    op: Any = inst.op
    rows: dict[tuple[int, ...] | None, None] = {}
    for number in range(participants[0] * participants[1]):
        if op.collective is CollectiveKind.PAIRED:
            pairs = _pairs(inst, number, participants)
            rows[tuple(sorted({member for pair in pairs for member in pair}))] = None
        else:
            rows[group_of(op, number, *participants)] = None
    return tuple(keys.setdefault(RendezvousKey(row, op.channel_id, pair), len(keys)) for row in rows if row)


def pairs_of(inst: Instruction, participants: tuple[int, int]) -> Pairs:
    """All (source, target) pairs of a collective-permute, as participant numbers."""
    found: dict[tuple[int, int], None] = {}
    for number in range(participants[0] * participants[1]):
        found.update(((a, b), None) for a, b in _pairs(inst, number, participants))
    return tuple(found)


def _pairs(inst: Instruction, number: int, participants: tuple[int, int]) -> list[tuple[int, ...]]:
    mode, partitions = group_mode(inst.op), participants[1]
    pairs = op_of(inst, Paired).source_target_pairs.pairs
    return [processes(mode, pair, *divmod(number, partitions), partitions) for pair in pairs]


def folds_of(inst: Instruction[Combining]) -> list[Computation]:
    """The kernels that combine two values of a collective's results element by element: one kernel per
    result, or one for all results if the reducer takes all of them together.
    """
    shapes = [array(leaf) for leaf in inst.shape.leaves()]
    to_apply = inst.op.to_apply
    if len(to_apply.parameters) == 2 * len(shapes):
        return [_fold(to_apply, shapes)]
    return [_fold(to_apply, [shape]) for shape in shapes]


def _fold(to_apply: Computation, shapes: Sequence[Shape]) -> Computation:
    computation = Module("fold").add_computation("fold", entry=True)
    flat = [Shape(shape.dtype, (max(shape.size, 1),)) for shape in shapes]
    parameters = [computation.add(Parameter(shape, n), name=f"p{n}") for n, shape in enumerate(flat * 2)]
    results = [
        computation.add(hlo.Map((0,), reducer), parameters)
        for reducer in _parts(to_apply, computation.module)
    ]
    computation.set_root(results[0] if len(results) == 1 else computation.add(Tuple(), results))
    return computation


def _parts(to_apply: Computation, module: Module) -> list[Computation]:
    """Copies of a reducer in `module`, each of which returns one element of the reducer's result."""
    if not to_apply.root.shape.is_tuple:
        return [clone_computation(to_apply, module)]
    parts = []
    for n in range(len(to_apply.root.shape.elements)):
        part = clone_computation(to_apply, module, name=f"{to_apply.name}.{n}")
        part.set_root(part.add(GetTupleElement(n), [part.root]))
        parts.append(part)
    return parts
