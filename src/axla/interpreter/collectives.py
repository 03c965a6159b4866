"""Collectives as the only replica of a run sees them: its own operands are all there are.

As on XLA:CPU, members that a group names and that do not exist contribute nothing, but constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from axla.core.errors import UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.hlo.collective import (
    AllGather,
    AllGatherDone,
    AllGatherStart,
    AllReduce,
    AllReduceDone,
    AllReduceStart,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    CollectivePermuteDone,
    CollectivePermuteStart,
    PartitionId,
    RaggedAllToAll,
    ReduceScatter,
    ReplicaId,
    equal_addends,
)  # fmt: skip
from axla.ir.graph import Instruction
from axla.ir.op import Op

Value = Any


def _alone(inst: Instruction, groups: tuple[tuple[int, ...], ...]) -> None:
    if any(len(g) > 1 for g in groups):
        raise UnsupportedError(
            f"the interpreter runs one replica; {inst!r} moves data between members of {groups}"
        )


def _joined(inst: Instruction, values: Sequence[Value]) -> Value:
    return tuple(values) if isinstance(inst.shape, TupleShape) else values[0]


def _reduced(interpreter: object, inst: Instruction, *operands: Value) -> Value:
    return _joined(inst, _added(inst, operands))


def _added(inst: Instruction, operands: Sequence[Value]) -> Sequence[Value]:
    count = equal_addends(inst)
    return operands if count == 1 else [x * x.dtype.type(count) for x in operands]


def _scattered(interpreter: object, inst: Instruction, *operands: Value) -> Value:
    """The first part of every operand."""
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    parts = [x[tuple(map(slice, s.dims))] for x, s in zip(_added(inst, operands), shapes, strict=True)]  # type: ignore[attr-defined]
    return _joined(inst, parts)


def _exchanged(interpreter: object, inst: Instruction, *operands: Value) -> Value:
    _alone(inst, inst.op.replica_groups.groups)  # type: ignore[attr-defined]
    return _joined(inst, operands)


def _gather_start(interpreter: object, inst: Instruction, *operands: Value) -> Value:
    _alone(inst, inst.op.replica_groups.groups)  # type: ignore[attr-defined]
    own: Value = operands[0] if len(operands) == 1 else operands
    return (own, own)


def _permuted(inst: Instruction, operand: Value) -> Value:
    pairs = inst.op.source_target_pairs.pairs  # type: ignore[attr-defined]
    return operand if (0, 0) in pairs else np.zeros_like(operand)


def _permute(interpreter: object, inst: Instruction, *operands: Value) -> Value:
    if inst.op.slice_sizes:  # type: ignore[attr-defined]
        raise UnsupportedError(f"the interpreter does not permute slices in place: {inst!r}")
    return _joined(inst, [_permuted(inst, operand) for operand in operands])


def _permute_start(interpreter: object, inst: Instruction, *operands: Value) -> Value:
    if inst.op.slice_sizes:  # type: ignore[attr-defined]
        raise UnsupportedError(f"the interpreter does not permute slices in place: {inst!r}")
    assert isinstance(inst.shape, TupleShape)
    contexts = [np.zeros(s.dims, s.dtype.numpy) for s in inst.shape.elements[2:] if isinstance(s, Shape)]
    results = [_permuted(inst, operand) for operand in operands]
    if len(operands) == 1:
        return (operands[0], results[0], *contexts)
    return (operands, tuple(results), *contexts)


def _ragged(
    interpreter: object, inst: Instruction, data: Value, output: Value, starts: Value, sizes: Value,
    places: Value, received: Value,
) -> Value:  # fmt: skip
    """Rows of the data go to places in the output of the same replica; what does not fit is left out."""
    _alone(inst, inst.op.replica_groups.groups)  # type: ignore[attr-defined]
    result = output.copy()
    for start, size, place in zip(starts.flat, sizes.flat, places.flat, strict=True):
        rows = range(max(0, -int(start), -int(place)), int(size))
        rows = rows[: max(0, min(len(data) - int(start), len(output) - int(place)) - rows.start)]
        result[int(place) + rows.start : int(place) + rows.start + len(rows)] = data[
            int(start) + rows.start : int(start) + rows.start + len(rows)
        ]
    return result


def _done(interpreter: object, inst: Instruction, operand: Value) -> Value:
    return operand[1]


def _same(interpreter: object, inst: Instruction, operand: Value) -> Value:
    return operand


def _zero(interpreter: object, inst: Instruction) -> Value:
    return np.zeros((), np.uint32)


COLLECTIVES: dict[type[Op], Callable[..., Value]] = {
    AllReduce: _reduced,
    AllReduceStart: _reduced,
    AllReduceDone: _same,
    AllGather: _exchanged,
    AllGatherStart: _gather_start,
    AllGatherDone: _done,
    ReduceScatter: _scattered,
    AllToAll: _exchanged,
    CollectiveBroadcast: _exchanged,
    CollectivePermute: _permute,
    CollectivePermuteStart: _permute_start,
    CollectivePermuteDone: _done,
    RaggedAllToAll: _ragged,
    ReplicaId: _zero,
    PartitionId: _zero,
}
