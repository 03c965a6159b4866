"""Reinterprets bits as elements of another type, of the same width, narrower or wider: bitcast-convert.

Where lanes are neighbours, elements are split or joined a vector at a time; elsewhere bits are shifted and
masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index, delinearize, linear
from axla.codegen.position import index_value
from axla.codegen.types import lane_count, vector
from axla.codegen.value import Value
from axla.codegen.walk import Elements, Indices
from axla.core.dtypes import BY_NAME, U32, DType
from axla.ir.graph import Instruction


def bitcast_convert(e: Elements, inst: Instruction, index: Indices) -> Value:
    """An element of a `bitcast-convert`: it has the bits of an operand's element, some of its bits, or the
    bits of several elements.
    """
    operand = inst.operands[0]
    source, target = operand.shape.dtype, inst.shape.dtype
    if source.bits == target.bits:
        return e.values.bitcast_convert(e(operand, index), target)
    whole = _by_vectors(e, inst, index)
    if whole is not None:
        return whole
    if source.bits > target.bits:  # one element becomes several: the last index picks bits, low ones first
        return _pick_bits(e, e(operand, index[:-1]), target, index[-1])
    parts = [e(operand, (*index, k)) for k in range(target.bits // source.bits)]
    return _join_bits(e, parts, target)


def _by_vectors(e: Elements, inst: Instruction, index: Indices) -> Value | None:
    """Reinterprets a vector of neighbouring elements as elements of another width. Returns None where lanes
    do not cover whole elements.
    """
    operand = inst.operands[0]
    source, target = operand.shape.dtype, inst.shape.dtype
    offset, pieces, parts = (
        linear(index, inst.shape.dims),
        source.bits // target.bits,
        target.bits // source.bits,
    )
    if not _covers(offset, max(pieces, 1)) or min(source.bits, target.bits) < 8:
        return None
    if pieces:
        lanes, base = offset.lanes // pieces, e.f.udiv(offset.base, pieces)
        at = Index(e.f, base, 1, lanes, multiple=offset.multiple // pieces, limit=-(-offset.limit // pieces))
    else:
        first, lanes = offset * parts, offset.lanes * parts
        at = Index(e.f, first.base, 1, lanes, multiple=first.multiple, limit=first.limit + parts)
    bits = e.values.splat(e(operand, delinearize(at, operand.shape.dims)), lanes)
    return _recast(e, bits, target, offset.lanes)


def _covers(offset: AnyIndex, ratio: int) -> TypeGuard[Index]:
    """Whether the lanes of a linear index are consecutive elements in whole, aligned groups of `ratio`."""
    if isinstance(offset, int) or offset.vec is not None or offset.stride != 1:
        return False
    return offset.multiple % ratio == 0 and offset.lanes % ratio == 0


def _recast(e: Elements, value: Value, target: DType, lanes: int) -> Value:
    """Reinterprets the bits of a vector as `lanes` lanes of another type."""
    values = e.values
    bits = values.bitcast_convert(value, BY_NAME[f"u{value.dtype.bits}"]).ssa
    narrow = _low_first(e, bits, value.lanes // lanes)
    recast = _low_first(
        e, e.f.cast("bitcast", narrow, vector(f"i{target.bits}", lanes)), lanes // value.lanes
    )
    return values.bitcast_convert(Value(BY_NAME[f"u{target.bits}"], lanes, (recast,)), target)


def _low_first(e: Elements, parts: Ssa, count: int) -> Ssa:
    """Reorders groups of `count` parts of elements between memory order and lowest bits first, which is the
    order in which LLVM reads the bits of a vector.
    """
    if count < 2 or e.f.module.byte_order == "little":
        return parts
    return e.f.shuffle(parts, parts, [lane ^ (count - 1) for lane in range(lane_count(parts.type))])


def _pick_bits(e: Elements, value: Value, target: DType, position: AnyIndex) -> Value:
    """Part number `position` of the bits of a value (0: the lowest bits), as an element of a narrower
    type.
    """
    values = e.values
    whole = values.bitcast_convert(value, BY_NAME[f"u{value.dtype.bits}"])
    place = values.convert(index_value(e.values, position, U32), whole.dtype)
    amount = values.binary("multiply", place, values.constant(whole.dtype, target.bits))
    shifted = values.binary("shift-right-logical", whole, amount)
    narrow = values.binary("and", shifted, values.constant(whole.dtype, (1 << target.bits) - 1))
    return values.bitcast_convert(values.convert(narrow, BY_NAME[f"u{target.bits}"]), target)


def _join_bits(e: Elements, pieces: Sequence[Value], target: DType) -> Value:
    """An element of a wider type, from parts of its bits; the first part has the lowest bits."""
    values = e.values
    wide = BY_NAME[f"u{target.bits}"]
    total = values.constant(wide, 0)
    for number, piece in enumerate(pieces):
        bits = values.convert(values.bitcast_convert(piece, BY_NAME[f"u{piece.dtype.bits}"]), wide)
        amount = values.constant(wide, number * piece.dtype.bits)
        total = values.binary("or", total, values.binary("shift-left", bits, amount))
    return values.bitcast_convert(total, target)
