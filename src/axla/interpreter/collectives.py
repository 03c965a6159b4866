"""Evaluates collectives: each participant's result from the operands of all participants in its group.

With several processes, a process waits for the others in its group (`members.py`, `processes.py`). If a run
has a single replica, it acts alone: as in XLA:CPU, participants that a group names but that do not exist
contribute nothing, except that constants count for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.core.errors import CollectiveFailure, UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.hlo.collective import Combining, equal_addends, moved_slices
from axla.interpreter.evaluate import HostValue, Interpreter
from axla.interpreter.members import pairs_of
from axla.interpreter.processes import Process
from axla.ir.clone import fingerprint
from axla.ir.collectives import CollectiveKind, group_mode, group_of
from axla.ir.families import Grouped, Paired
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.ir.typed import tuple_of

GroupValues = Sequence[HostValue]
Brought = Sequence[GroupValues]
"""The operands of every participant, in the order of the group."""
Meaning = Callable[[Interpreter, Instruction[Any], Brought], GroupValues]
"""A function that returns the results of the participants, in the order of the group."""
Rooted = hlo.CollectiveReduce | hlo.CollectiveBroadcast
Gathering = hlo.AllGather | hlo.AllGatherStart


def joined(inst: Instruction, values: GroupValues) -> HostValue:
    """The result of an instruction made of these values: a tuple of them, or the only one."""
    return tuple(values) if isinstance(inst.shape, TupleShape) else values[0]


def _zeros(inst: Instruction) -> HostValue:
    return joined(inst, [np.zeros(s.dims, s.dtype.numpy) for s in inst.shape.parts])


# Rendezvous


def _together(
    meaning: Meaning, interpreter: Interpreter, inst: Instruction[Grouped], *operands: HostValue
) -> HostValue:
    """Evaluates a collective for this process with the function `meaning`, after waiting for the other
    participants.
    """
    process = interpreter.process
    if process is None:
        return meaning(interpreter, inst, [operands])[0]
    members = group_of(inst.op, process.number, process.grid.replicas, process.grid.partitions)
    if members is None and inst.op.collective is CollectiveKind.ROOTED:
        return _zeros(inst)
    if members is None:
        raise CollectiveFailure(f"{inst!r}: {process} is not in any replica group")
    return _met(process, members, inst, operands, partial(meaning, interpreter, inst))


def _met(
    process: Process, members: Sequence[int], inst: Instruction[Grouped | Paired], brought: GroupValues,
    combine: Callable[[Brought], GroupValues],
) -> HostValue:  # fmt: skip
    op = inst.op
    shapes = (inst.shape.logical, *map(np.shape, brought))  # actual sizes, if dynamic
    opcode = op.opcode.removesuffix("-start")
    reducers = tuple(map(fingerprint, op.computations()))
    kind = opcode, shapes, getattr(op, "dimensions", None), getattr(op, "source_target_pairs", None), reducers
    name = f"{inst!r} in {inst.computation.module.name}"
    return process.meet(members, op.channel_id, kind, name, brought, combine)


def _alone(inst: Instruction[Grouped], brought: Brought) -> bool:
    """Whether the group has a single participant. UnsupportedError if a single replica runs, but the op needs
    other participants.
    """
    groups = inst.op.replica_groups
    if len(brought) == 1 and max(groups.sizes, default=1) > 1:
        raise UnsupportedError(
            f"one replica runs, but {inst!r} moves data between the participants of {groups}: set "
            "num_replicas or num_partitions of axla.compile"
        )
    return len(brought) == 1


# Reductions


def _total(interpreter: Interpreter, inst: Instruction[Combining], brought: Brought) -> GroupValues:
    """Combines the operands of all participants by the op's computation, in the order of the group."""
    if interpreter.process is None:
        count = equal_addends(inst)
        return brought[0] if count == 1 else [x * x.dtype.type(count) for x in brought[0]]
    to_apply = inst.op.to_apply
    total = list(brought[0])
    for operands in brought[1:]:
        interpreter.tick()
        if len(to_apply.parameters) == 2:
            pairs = zip(total, operands, strict=True)
            total = [interpreter.on_scalars(to_apply, (a, b), a.shape)[0] for a, b in pairs]
        else:
            total = interpreter.on_scalars(to_apply, [*total, *operands], total[0].shape)
    return total


def _reduced(interpreter: Interpreter, inst: Instruction[Combining], brought: Brought) -> GroupValues:
    return [joined(inst, _total(interpreter, inst, brought))] * len(brought)


def _scattered(
    interpreter: Interpreter, inst: Instruction[hlo.ReduceScatter], brought: Brought
) -> GroupValues:
    """Evaluates reduce-scatter: returns for each participant its slice, along the dimension, of the total."""
    at = inst.op.dimensions[0]
    sizes = [s.dims[at] for s in inst.shape.parts]
    total = _total(interpreter, inst, brought)
    if interpreter.process is not None:
        for x, size in zip(total, sizes, strict=True):
            _fits(inst, x.shape[at], size * len(brought), len(brought))
    rows = (slice(None),) * at
    return [
        joined(inst, [x[*rows, n * s : (n + 1) * s] for x, s in zip(total, sizes, strict=True)])
        for n in range(len(brought))
    ]


def _reduced_to_root(
    interpreter: Interpreter, inst: Instruction[hlo.CollectiveReduce], brought: Brought
) -> GroupValues:
    """Evaluates collective-reduce: returns the total of each operand for the operand's root, and zeros for
    all other participants.
    """
    dynamic = inst.op.has_dynamic_root
    _alone(inst, brought)
    data = [b[:-1] for b in brought] if dynamic else brought
    total = _total(interpreter, inst, data)
    found = []
    for n, operands in enumerate(brought):
        roots = _roots(inst, operands, len(brought))
        parts = [x if root == n else np.zeros_like(x) for x, root in zip(total, roots, strict=True)]
        found.append(joined(inst, parts))
    return found


def _roots(inst: Instruction[Rooted], operands: GroupValues, count: int) -> Sequence[int]:
    """The index in the group of the root of each operand: given by the last operand if the op has a dynamic
    root, else 0.
    """
    if not inst.op.has_dynamic_root:
        return [0] * len(operands)
    found = [int(root) for root in operands[-1]]
    if any(not 0 <= root < count for root in found):
        raise CollectiveFailure(f"{inst!r}: roots must be from 0 to {count - 1}, found {found}")
    return found


# Movement


def _fits(inst: Instruction, found: int, wanted: int, members: int) -> None:
    if found != wanted:
        raise CollectiveFailure(f"{inst!r}: {members} participants need the size {wanted}, found {found}")


def _gather(inst: Instruction[Gathering], brought: Brought, results: Sequence[Any]) -> list[HostValue]:
    at = inst.op.dimensions[0]
    found = [np.concatenate(column, at) for column in zip(*brought, strict=True)]
    for n, (x, shape) in enumerate(zip(found, results, strict=True)):
        missing = shape.dims[at] - x.shape[at]
        if len(brought) > 1:
            _fits(inst, shape.dims[at], x.shape[at], len(brought))
        elif missing:  # zeros for participants that do not exist
            found[n] = np.pad(x, [(0, missing if d == at else 0) for d in range(x.ndim)])
    return found


def _gathered(interpreter: Interpreter, inst: Instruction[Gathering], brought: Brought) -> GroupValues:
    return [joined(inst, _gather(inst, brought, inst.shape.parts))] * len(brought)


def _gather_begun(
    interpreter: Interpreter, inst: Instruction[hlo.AllGatherStart], brought: Brought
) -> GroupValues:
    shape = inst.shape.elements[1]
    found: HostValue = tuple(_gather(inst, brought, shape.parts))
    found = found if isinstance(shape, TupleShape) else found[0]
    return [(own[0] if len(own) == 1 else tuple(own), found) for own in brought]


def _exchanged(interpreter: Interpreter, inst: Instruction[hlo.AllToAll], brought: Brought) -> GroupValues:
    """Evaluates all-to-all. Each participant gets a part from every participant of the group: a slice along
    the dimension, or one of its operands.
    """
    count, dimensions = len(brought), inst.op.dimensions
    if _alone(inst, brought):
        return [joined(inst, brought[0])]
    if dimensions is None:
        _fits(inst, len(brought[0]), count, count)
        return [tuple(member[n] for member in brought) for n in range(count)]
    (at,) = dimensions
    for x in brought[0]:
        _fits(inst, x.shape[at], x.shape[at] // count * count, count)
    parts = [[np.split(x, count, at) for x in column] for column in zip(*brought, strict=True)]
    return [
        joined(inst, [np.concatenate([member[n] for member in column], at) for column in parts])
        for n in range(count)
    ]


def _broadcast(interpreter: Interpreter, inst: Instruction[Rooted], brought: Brought) -> GroupValues:
    _alone(inst, brought)
    roots = [_roots(inst, operands, len(brought)) for operands in brought]
    return [joined(inst, [brought[root][n] for n, root in enumerate(own)]) for own in roots]


def _permuted(interpreter: Interpreter, inst: Instruction[Paired], operands: GroupValues) -> GroupValues:
    """Evaluates collective-permute: returns the results for this participant."""
    if not inst.op.slice_sizes:
        return _sent(interpreter, inst, inst.op.source_target_pairs.pairs, operands)
    data, output, *starts = operands
    results: dict[tuple[int, ...], HostValue] = {}
    for pairs, buffer, offset, sizes in moved_slices(inst):
        own, old = _at(data, buffer), results.get(buffer, _at(output, buffer))
        taken, place = (_window(x, _at(s, offset), sizes) for x, s in zip((own, old), starts, strict=True))
        moved, here = _sent(interpreter, inst, pairs, [own[taken], np.array(True)])
        results[buffer] = new = old.copy()
        if here:
            new[place] = moved
    found = list(results.values())
    return found if not isinstance(inst.operands[1].shape, TupleShape) else [tuple(found)]


def _at(value: HostValue, path: Sequence[int]) -> HostValue:
    for n in path:
        value = value[n]
    return value


def _window(x: HostValue, start: GroupValues, sizes: Sequence[int]) -> tuple[slice, ...]:
    """The slices that select `sizes` elements of `x` from the index `start` on. The start is clamped so that
    the selection lies inside `x`.
    """
    first = [min(max(int(s), 0), n - size) for s, n, size in zip(start, x.shape, sizes, strict=True)]
    return tuple(slice(s, s + size) for s, size in zip(first, sizes, strict=True))


def _sent(
    interpreter: Interpreter,
    inst: Instruction[Paired],
    pairs: Sequence[tuple[int, int]],
    operands: GroupValues,
) -> GroupValues:
    """The operands of the participant that sends to this one, by the (source, target) pairs `pairs`; zeros if
    none sends to it.
    """
    process, own = interpreter.process, 0
    if process is not None:
        pairs, own = pairs_of(inst, process, pairs, group_mode(inst.op)), process.number
    source_of = {target: source for source, target in pairs}
    members = sorted({m for pair in pairs for m in pair})

    def combine(brought: Brought) -> GroupValues:
        given = dict(zip(members, brought, strict=True))
        return [
            given[source_of[m]] if m in source_of else [np.zeros_like(x) for x in given[m]] for m in members
        ]

    if process is None or own not in members:
        return operands if source_of.get(own) == own else [np.zeros_like(x) for x in operands]
    return _met(process, members, inst, operands, combine)


def _permute(interpreter: Interpreter, inst: Instruction[Paired], *operands: HostValue) -> HostValue:
    found = _permuted(interpreter, inst, operands)
    return found[0] if inst.op.slice_sizes else joined(inst, found)


def _permute_start(interpreter: Interpreter, inst: Instruction[Paired], *operands: HostValue) -> HostValue:
    results = _permuted(interpreter, inst, operands)
    contexts = [np.zeros(s.dims, s.dtype.numpy) for s in tuple_of(inst).elements[2:] if isinstance(s, Shape)]
    if len(operands) == 1 or inst.op.slice_sizes:
        return (operands[0], results[0], *contexts)
    return (operands, tuple(results), *contexts)


def _ragged(interpreter: Interpreter, inst: Instruction[Grouped], brought: Brought) -> GroupValues:
    """Evaluates ragged-all-to-all: copies rows of every participant's data to rows of the participants'
    outputs. Rows that do not fit are ignored.

    The start and number of rows in the data, and their start in the output (`starts`, `sizes`, `places`),
    have the same number of entries for each receiving participant.
    """
    _alone(inst, brought)
    results = [member[1].copy() for member in brought]
    for data, _, starts, sizes, places, _ in brought:
        each = max(1, starts.size // len(brought))
        for n, (start, size, place) in enumerate(zip(starts.flat, sizes.flat, places.flat, strict=True)):
            output = results[min(n // each, len(brought) - 1)]
            rows = range(max(0, -int(start), -int(place)), int(size))
            rows = rows[: max(0, min(len(data) - int(start), len(output) - int(place)) - rows.start)]
            output[int(place) + rows.start : int(place) + rows.start + len(rows)] = data[
                int(start) + rows.start : int(start) + rows.start + len(rows)
            ]
    return results


# Ops without a rendezvous


def _done(interpreter: Interpreter, inst: Instruction, operand: HostValue) -> HostValue:
    return operand[1]


def _same(interpreter: Interpreter, inst: Instruction, operand: HostValue) -> HostValue:
    return operand


def _replica(interpreter: Interpreter, inst: Instruction) -> HostValue:
    return np.array(interpreter.process.replica if interpreter.process else 0, np.uint32)


def _partition(interpreter: Interpreter, inst: Instruction) -> HostValue:
    return np.array(interpreter.process.partition if interpreter.process else 0, np.uint32)


COLLECTIVES: dict[type[Op], Callable[..., HostValue]] = {
    hlo.AllReduce: partial(_together, _reduced),
    hlo.AllReduceStart: partial(_together, _reduced),
    hlo.AllReduceDone: _same,
    hlo.AllGather: partial(_together, _gathered),
    hlo.AllGatherStart: partial(_together, _gather_begun),
    hlo.AllGatherDone: _done,
    hlo.ReduceScatter: partial(_together, _scattered),
    hlo.AllToAll: partial(_together, _exchanged),
    hlo.CollectiveBroadcast: partial(_together, _broadcast),
    hlo.CollectiveReduce: partial(_together, _reduced_to_root),
    hlo.CollectivePermute: _permute,
    hlo.CollectivePermuteStart: _permute_start,
    hlo.CollectivePermuteDone: _done,
    hlo.RaggedAllToAll: partial(_together, _ragged),
    hlo.ReplicaId: _replica,
    hlo.PartitionId: _partition,
}
