"""Removes collectives of a single replica, and other ops without effect on one device.

Group members that do not exist contribute nothing, except for constants, as on XLA:CPU. Operations that need
another member stay; the code generator rejects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

import axla.hlo as hlo
from axla.core.dtypes import PRED, S32, S64, U64
from axla.core.shape import AnyShape, Shape, TupleShape, array
from axla.hlo.collective import Combining, equal_addends, moved_slices
from axla.hlo.family import joined
from axla.ir.attributes import PaddingConfig, SliceDims, SourceTargetPairs
from axla.ir.families import Grouped, Paired
from axla.ir.graph import Extra, Instruction, Module
from axla.ir.op import Op
from axla.ir.typed import shape_of, tuple_of
from axla.passes.expand.expander import Expansion, converted, expand, full, packed, scalar, spread


def collectives_removal(module: Module) -> None:
    """Removes asynchronous copies and domains, and collectives of one participant. For several participants,
    replaces the start and done forms that `async-unwrapper` has kept by synchronous collectives.
    """
    alone = module.config.replica_count * module.config.num_partitions == 1
    for kinds in (_HALVES, _IN_PLACE, _ALONE if alone else _TOGETHER):
        expand(module, "single-replica-collectives", kinds)


def _operands(inst: Instruction) -> Instruction:
    """The operands, packed as the result of the instruction."""
    return packed(inst.shape, inst.operands)


def _reduced(inst: Instruction[Combining]) -> Instruction:
    return packed(inst.shape, _added(inst))


def _added(inst: Instruction[Combining]) -> Sequence[Instruction]:
    """The operands of a collective that adds. If n members of a group contribute equal values
    (`equal_addends`), each operand is multiplied by n.
    """
    count = equal_addends(inst)
    if count == 1:
        return inst.operands
    factors = [full(inst.computation, shape_of(x), count) for x in inst.operands]
    return [hlo.Multiply()(x, factor) for x, factor in zip(inst.operands, factors, strict=True)]


def _first_part(inst: Instruction[hlo.ReduceScatter]) -> Instruction:
    """The first part of every operand, of the size of the result."""
    parts = []
    for x, shape in zip(_added(inst), inst.shape.parts, strict=True):
        same = shape.dims == shape_of(x).dims
        parts.append(x if same else hlo.Slice(SliceDims((0,) * shape.rank, shape.dims))(x))
    return packed(inst.shape, parts)


def _exchanged(inst: Instruction[hlo.AllToAll]) -> Instruction | None:
    return _operands(inst) if _alone(inst) and _same(inst.shape, inst.operands) else None


def _rooted(inst: Instruction[hlo.CollectiveBroadcast | hlo.CollectiveReduce]) -> Instruction | None:
    """The operands, since the only member of the group is the root; None if there are other members."""
    dynamic = inst.op.has_dynamic_root
    return packed(inst.shape, inst.operands[: len(inst.operands) - dynamic]) if _alone(inst) else None


def _alone(inst: Instruction[Grouped]) -> bool:
    return max(inst.op.replica_groups.sizes, default=1) <= 1


def _same(shape: AnyShape, operands: Sequence[Instruction]) -> bool:
    return [s.logical for s in shape.parts] == [o.shape.logical for o in operands]


def _nothing(x: Instruction, shape: Shape) -> Instruction:
    """An array of zero bytes for a participant that receives nothing, even for element types without a
    zero.
    """
    zero = hlo.Constant.of(np.zeros((), shape.dtype.numpy), shape.dtype)
    return spread(x.computation.add(zero), shape)


def _gathered(inst: Instruction) -> Instruction:
    """The result of an all-gather: the operand first, then zeros for members that do not exist."""
    parts = []
    for x, shape in zip(inst.operands, inst.shape.parts, strict=True):
        own = shape_of(x)
        high = tuple(n - m for n, m in zip(shape.dims, own.dims, strict=True))
        if any(high):
            zero = _nothing(x, Shape(own.dtype))
            x = hlo.Pad(PaddingConfig((0,) * own.rank, high))(x, zero)
        parts.append(x)
    return packed(inst.shape, parts)


def _permuted(inst: Instruction[hlo.CollectivePermute]) -> Instruction | None:
    return packed(inst.shape, [_sent(inst, x) for x in inst.operands])


def _sent(inst: Instruction[Paired], x: Instruction) -> Instruction:
    """The operand if the only replica sends it to itself, else zeros."""
    pairs = inst.op.source_target_pairs.pairs
    return x if (0, 0) in pairs else _nothing(x, shape_of(x))


def _slices_moved(inst: Instruction[hlo.CollectivePermute]) -> Instruction | None:
    """Writes a collective-permute that updates slices of its output as one permute per slice; None for other
    permutes. A flag is sent with each slice: it is true only on participants that receive a slice.
    """
    if not inst.op.slice_sizes:
        return None
    computation, (data, output, *starts) = inst.computation, inst.operands
    results: dict[tuple[int, ...], Instruction] = {}
    for pairs, buffer, offset, sizes in moved_slices(inst):
        here, old = scalar(computation, PRED, True), results.get(buffer) or _element(output, buffer)
        taken, place = (
            [hlo.GetTupleElement(d)(_element(s, offset)) for d in range(len(sizes))] for s in starts
        )
        part, kept = hlo.DynamicSlice(sizes), hlo.DynamicSlice(sizes)(old, *place)
        op = hlo.CollectivePermute(inst.op.channel_id, SourceTargetPairs(tuple(pairs)))
        sent = computation.add(op, [part(_element(data, buffer), *taken), here])
        moved, flag = hlo.GetTupleElement(0)(sent), hlo.GetTupleElement(1)(sent)
        new = hlo.Select()(spread(flag, shape_of(moved).with_dtype(PRED)), moved, kept)
        results[buffer] = hlo.DynamicUpdateSlice()(old, new, *place)
    return packed(inst.shape, list(results.values()))


def _element(value: Instruction, path: Sequence[int]) -> Instruction:
    for n in path:
        value = hlo.GetTupleElement(n)(value)
    return value


def _copy_start(inst: Instruction) -> Instruction:
    (x,), context = inst.operands, tuple_of(inst).elements[2]
    return inst.computation.add(hlo.Tuple(), [x, x, full(inst.computation, array(context), 0)])


def _operand(inst: Instruction) -> Instruction:
    return inst.operands[0]


def _copied(inst: Instruction) -> Instruction:
    return hlo.GetTupleElement(0)(inst.operands[0])


def _result(inst: Instruction) -> Instruction:
    return hlo.GetTupleElement(1)(inst.operands[0])


def _first(inst: Instruction) -> Instruction:
    return scalar(inst.computation, shape_of(inst).dtype, 0)


def at_once(
    inst: Instruction, kind: type[Op], shape: AnyShape | None = None, extra: Extra | None = None
) -> Instruction:
    """Adds the synchronous collective of class `kind` that corresponds to the start instruction `inst`.
    `shape` is the result shape for an op that has it as a field; `extra` replaces the extra attributes of
    `inst`.
    """
    names = {field.name for field in fields(kind)}
    given = {field.name: getattr(inst.op, field.name) for field in fields(inst.op) if field.name in names}
    if shape is not None:
        given["shape"] = shape
    return inst.computation.add(kind(**given), inst.operands, extra=extra or inst.extra)


def _reduce_begun(inst: Instruction) -> Instruction:
    return at_once(inst, hlo.AllReduce)


def _gather_begun(inst: Instruction) -> Instruction:
    own, result, *rest = tuple_of(inst).elements
    return _begun(inst, at_once(inst, hlo.AllGather, result), rest)


def _permute_begun(inst: Instruction) -> Instruction:
    return _begun(inst, at_once(inst, hlo.CollectivePermute), tuple_of(inst).elements[2:])


def _begun(inst: Instruction, result: Instruction, contexts: Sequence[AnyShape]) -> Instruction:
    """The result tuple of the start instruction `inst`: its operands, `result`, and zeros of the shapes
    `contexts`.
    """
    computation, own = inst.computation, inst.operands[0]
    if isinstance(tuple_of(inst).elements[0], TupleShape) and not isinstance(own.shape, TupleShape):
        own = computation.add(hlo.Tuple(), inst.operands)
    zeros = [full(computation, s, 0) for s in contexts if isinstance(s, Shape)]
    return computation.add(hlo.Tuple(), [own, result, *zeros])


def _scattered_first(inst: Instruction[hlo.ReduceScatter]) -> Instruction | None:
    """Writes a reduce-scatter as one along the first dimension, between transposes; None if its dimension
    already is the first one.
    """
    at = inst.op.dimensions[0]
    if at == 0:
        return None
    orders = [(at, *(d for d in range(shape_of(x).rank) if d != at)) for x in inst.operands]
    transposed = [hlo.Transpose(order)(x) for order, x in zip(orders, inst.operands, strict=True)]
    parts = [
        Shape(shape.dtype, [shape.dims[d] for d in order])
        for order, shape in zip(orders, inst.shape.parts, strict=True)
    ]
    op = replace(inst.op, shape=joined(parts), dimensions=(0,))
    found = inst.computation.add(op, transposed, extra=inst.extra)
    leaves = [found] if len(parts) == 1 else [hlo.GetTupleElement(n)(found) for n in range(len(parts))]
    backs = [hlo.Transpose(tuple(map(order.index, range(len(order))))) for order in orders]
    return packed(inst.shape, [back(leaf) for back, leaf in zip(backs, leaves, strict=True)])


def _numbers_widened(inst: Instruction[hlo.RaggedAllToAll]) -> Instruction | None:
    """A ragged-all-to-all with s64 offsets and sizes; None if all are s32 or all s64. u64 values above the
    largest s64 become that number, as both are beyond any array.
    """
    data, output, *numbers = inst.operands
    kinds = {shape_of(x).dtype for x in numbers}
    if len(kinds) == 1 and kinds <= {S32, S64}:
        return None
    wide = [converted(_in_s64(x), S64) for x in numbers]
    return inst.computation.add(inst.op, [data, output, *wide], extra=inst.extra)


def _in_s64(x: Instruction) -> Instruction:
    """The numbers `x`, limited to the largest s64 if they are u64."""
    shape = shape_of(x)
    return hlo.Minimum()(x, full(x.computation, shape, (1 << 63) - 1)) if shape.dtype is U64 else x


_HALVES: dict[type[Op], Expansion] = {
    hlo.AllReduceStart: _reduce_begun,
    hlo.AllGatherStart: _gather_begun,
    hlo.CollectivePermuteStart: _permute_begun,
    hlo.AllReduceDone: _operand,
    hlo.AllGatherDone: _result,
    hlo.CollectivePermuteDone: _result,
    hlo.CopyStart: _copy_start,
    hlo.CopyDone: _copied,
    hlo.Domain: _operand,
}
_IN_PLACE: dict[type[Op], Expansion] = {hlo.CollectivePermute: _slices_moved}
_TOGETHER: dict[type[Op], Expansion] = {
    hlo.ReduceScatter: _scattered_first,
    hlo.RaggedAllToAll: _numbers_widened,
}
_ALONE: dict[type[Op], Expansion] = {
    hlo.AllReduce: _reduced,
    hlo.AllGather: _gathered,
    hlo.ReduceScatter: _first_part,
    hlo.AllToAll: _exchanged,
    hlo.CollectiveBroadcast: _rooted,
    hlo.CollectiveReduce: _rooted,
    hlo.CollectivePermute: _permuted,
    hlo.ReplicaId: _first,
    hlo.PartitionId: _first,
}
