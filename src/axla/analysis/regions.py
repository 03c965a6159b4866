"""Tiny values and scalar regions: what the entry computes in registers instead of in kernels.

An instruction is *tiny* when every array it gives has at most 16 elements and what is written out to compute
it is little: it may become straight-line code. A *scalar region* is a computation of tiny instructions only,
so a loop over one is a machine loop without memory. Elsewhere neighbours that would be long code together are
*crowded*: a kernel computes them, as vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from axla.core.shape import AnyShape, Shape
from axla.hlo import (
    AddDependency,
    AfterAll,
    Bitcast,
    BitcastConvert,
    Broadcast,
    Call,
    Concatenate,
    Conditional,
    Constant,
    Copy,
    Dot,
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
    GetTupleElement,
    Iota,
    Map,
    OptBarrier,
    Pad,
    Parameter,
    Reduce,
    Reshape,
    Reverse,
    RngGetAndUpdateState,
    Scatter,
    Select,
    Slice,
    Transpose,
    Tuple,
    While,
)  # fmt: skip
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op

TINY = 16  # elements that registers hold
EXPENSIVE = 60  # operations that exp, tanh and their like count for: their code is that long
TINY_WORK = 256  # operations on elements that stay straight-line code; a kernel and its call are as long
REGION_LIMIT = 4000  # a basic block of 8,000 operations takes LLVM 0.5 s, one of 32,000 takes 3.7 s

_PLAIN = {
    Parameter, Constant, Tuple, GetTupleElement, Iota, BitcastConvert, Bitcast, Broadcast, Reshape, Transpose,
    Reverse,
    Slice, DynamicSlice, DynamicUpdateSlice, Pad, Concatenate, Select, Gather, Copy, OptBarrier, AfterAll,
    AddDependency, RngGetAndUpdateState,
}  # fmt: skip
_FREE = {Parameter, Constant, Tuple, GetTupleElement, OptBarrier, AfterAll, AddDependency, Bitcast, Reshape}
_CHOOSING = {Gather, DynamicSlice, DynamicUpdateSlice}  # by index, at run time: among all registers
CONTROL: tuple[type[Op], ...] = (While, Conditional, Call)


def is_tiny_shape(shape: AnyShape) -> bool:
    """Whether every array in a shape has at most 16 elements."""
    if isinstance(shape, Shape):
        return shape.size <= TINY
    return all(leaf.size <= TINY for leaf in shape.leaves() if isinstance(leaf, Shape))


def is_tiny(inst: Instruction) -> bool:
    """Whether an instruction is computed in registers."""
    called = inst.op.computations() if isinstance(inst.op, CONTROL) else ()
    return _cost(inst) is not None and all(map(is_scalar_region, called))


def is_tiny_store(inst: Instruction) -> bool:
    """Whether an instruction writes at most 16 elements into a bigger array in place: a store."""
    return (
        isinstance(inst.op, DynamicUpdateSlice)
        and not is_tiny(inst)
        and is_tiny_shape(inst.operands[1].shape)
    )


def crowded(order: Iterable[Instruction]) -> set[Instruction]:
    """Elementwise instructions of 2 to 16 elements whose neighbours of the same size, themselves included,
    write out more than `TINY_WORK` operations together. `order`: operands first.
    """
    group: dict[Instruction, list[Instruction]] = {}
    for inst in order:
        shape, op = inst.shape, inst.op
        if not isinstance(shape, Shape) or not 1 < shape.size <= TINY:
            continue
        if not op.elementwise and not isinstance(op, Reshape | BitcastConvert):
            continue
        mine = group[inst] = [inst]
        for operand in inst.operands:
            other = group.get(operand, mine)
            if other is not mine and operand.shape.size == shape.size:  # type: ignore[union-attr]
                mine, other = (mine, other) if len(mine) > len(other) else (other, mine)
                mine += other
                group.update(dict.fromkeys(other, mine))
    groups = {id(mine): mine for mine in group.values()}.values()
    return {inst for mine in groups if sum(map(_written, mine)) > TINY_WORK for inst in mine}


def _written(inst: Instruction) -> int:
    """Operations on elements that an elementwise instruction writes out."""
    size = inst.shape.size  # type: ignore[union-attr]
    return 0 if isinstance(inst.op, Reshape) else size * (EXPENSIVE if inst.op.expensive else 1)


def too_long(order: Iterable[Instruction], elsewhere: set[Instruction]) -> set[Instruction]:
    """Dots, gathers and the like that registers are not for, because the computation is long code already."""
    costs = {i: _cost(i) or 0 for i in order if i not in elsewhere and not isinstance(i.op, CONTROL)}
    return {i for i, cost in costs.items() if cost > TINY} if sum(costs.values()) > REGION_LIMIT else set()


def machine_loops(computations: Sequence[Computation]) -> set[Computation]:
    """Those of `computations` (callees first) that loops run in registers."""
    found: set[Computation] = set()
    for computation in reversed(computations):
        for inst in _calls(computation):
            if computation in found or isinstance(inst.op, While) and is_tiny(inst):
                found.update(inst.op.computations())
    return found


def cost(computation: Computation) -> int | None:
    """The operations on elements that a scalar region emits, those of the regions it calls included; None if
    it is none.
    """
    total = 0
    for number, region in enumerate(_reachable(computation)):
        own = _own_cost(region)
        if own is None or number >= REGION_LIMIT:
            return None
        total += own
    return total


def is_scalar_region(computation: Computation) -> bool:
    """Whether all of a computation, and all it calls, can be computed in registers, in bounded code."""
    found = cost(computation)
    return found is not None and found <= REGION_LIMIT


def _reachable(computation: Computation) -> Iterator[Computation]:
    """The computation and those that its control ops call, once per call: each is emitted there."""
    stack = [computation]
    while stack:
        region = stack.pop()
        yield region
        for inst in _calls(region):
            stack.extend(inst.op.computations())


def _summary(computation: Computation) -> tuple[int | None, tuple[Instruction, ...]]:
    """The cost without called regions, and the control instructions."""
    total: int | None = 0
    calls = []
    for inst in computation.instructions:
        if isinstance(inst.op, CONTROL):
            calls.append(inst)
        one = _cost(inst)
        total = None if total is None or one is None else total + one
    return total, tuple(calls)


def _own_cost(computation: Computation) -> int | None:
    return computation.fact("region cost", _summary)[0]


def _calls(computation: Computation) -> tuple[Instruction, ...]:
    return computation.fact("region cost", _summary)[1]


def _cost(inst: Instruction) -> int | None:
    """Operations on elements for one instruction, called regions not counted; None when it is not tiny by
    itself.
    """
    op = inst.op
    cls = type(op)
    if not is_tiny_shape(inst.shape):
        return None
    if cls in _FREE:
        return 0
    if op.side_effect and cls is not RngGetAndUpdateState:
        return None
    shape = inst.shape
    leaves = (shape,) if isinstance(shape, Shape) else shape.leaves()
    size = sum(s.size for s in leaves if isinstance(s, Shape))
    if op.elementwise or cls in _PLAIN:
        if op.expensive and size * EXPENSIVE > TINY_WORK:
            return None
        chosen = inst.operands[cls is DynamicUpdateSlice].shape if cls in _CHOOSING else inst.shape
        return size * chosen.size if cls in _CHOOSING and is_tiny_shape(chosen) else size  # type: ignore[union-attr]
    if not all(is_tiny_shape(o.shape) for o in inst.operands):
        return None
    if cls in CONTROL:
        return 1
    shapes: list = [o.shape for o in inst.operands]
    if isinstance(op, Dot) and not op.sparsity:
        work = size * prod(shapes[0].dims[d] for d in op.lhs_contracting_dims)
    elif isinstance(op, Reduce | Map | Scatter):
        work = len(op.to_apply.instructions) * max(s.size for s in shapes if isinstance(s, Shape))
    else:
        return None
    return work if work <= TINY_WORK else None
