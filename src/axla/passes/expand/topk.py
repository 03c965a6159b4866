"""topk, and the custom call of that name, as a sort of the elements with their positions."""

from __future__ import annotations

from axla.core.dtypes import S32
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.hlo import CustomCall, GetTupleElement, Iota, Slice, Sort, TopK, Tuple
from axla.ir.attributes import Direction, SliceDims
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand, key_comparator, shape_of

SMALL = 8
"""How many times as long as k a line must be for a heap to beat a sort."""


def topk_decomposer(module: Module) -> None:
    """Writes every topk of many elements as a stable sort and slices."""
    expand(module, "topk-decomposer", {TopK: _topk, CustomCall: _custom_call})


def _topk(inst: Instruction) -> Instruction | None:
    assert isinstance(inst.op, TopK)
    return None if _has_emitter(inst.operands[0], inst.op.k) else _sorted(inst, inst.op.k, inst.op.largest)


def _has_emitter(x: Instruction, k: int) -> bool:
    """Whether keeping the best so far is cheaper than sorting all, and done by an emitter of its own."""
    shape = shape_of(x)
    length = shape.dims[-1]
    return shape.dtype.bits <= 32 and SMALL * k <= length < 1 << 31


def _custom_call(inst: Instruction) -> Instruction | None:
    assert isinstance(inst.op, CustomCall)
    if inst.op.custom_call_target != "TopK" or len(inst.operands) != 1:
        return None
    x, parts = inst.operands[0].shape, list(inst.shape.leaves())
    values = parts[0] if parts else None
    if isinstance(x, Shape) and isinstance(values, Shape) and x.dims and values.dims:
        wanted = x.logical.with_dims((*x.dims[:-1], min(values.dims[-1], x.dims[-1])))
        if inst.shape.logical is TupleShape((wanted, wanted.with_dtype(S32))):
            k = values.dims[-1]
            return TopK(k)(inst.operands[0]) if _has_emitter(inst.operands[0], k) else _sorted(inst, k, True)
    raise UnsupportedError(f"{inst}: TopK of x[..., n] gives (x[..., k], s32[..., k]), k at most n")


def _sorted(inst: Instruction, k: int, largest: bool) -> Instruction:
    """The first k of the elements, the largest (or smallest) first, and of their positions."""
    (x,) = inst.operands
    shape, computation = shape_of(x), inst.computation
    positions = shape.with_dtype(S32).logical
    last = shape.rank - 1
    places = computation.add(Iota(positions, last))
    before = key_comparator(computation.module, [shape.dtype, S32], Direction.GT if largest else Direction.LT)
    both = Sort((last,), True, before)(x, places)
    window = SliceDims((0,) * shape.rank, (*shape.dims[:-1], k))
    parts = [Slice(window)(GetTupleElement(n)(both)) for n in range(2)]
    return computation.add(Tuple(), parts)
