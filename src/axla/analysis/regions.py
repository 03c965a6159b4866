"""Tiny values and scalar regions: what the entry computes in registers instead of in kernels.

An instruction is *tiny* when every array it gives has few elements (`Limits.tiny`) and what is written out
to compute it is little: it may become straight-line code. A *scalar region* is a computation of tiny
instructions only, so a loop over one is a machine loop without memory. Elsewhere neighbours that would be
long code together are *crowded*: a kernel computes them, as vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import axla.hlo as hlo
from axla.core.shape import AnyShape, Shape
from axla.ir.graph import Computation, Instruction
from axla.target.machine import Limits

_CHOOSING = {hlo.Gather, hlo.DynamicSlice, hlo.DynamicUpdateSlice}  # by index, at run time, among registers
_PLAIN = {hlo.DynamicUpdateSlice, hlo.Iota, hlo.Copy, hlo.RngGetAndUpdateState}


def is_tiny_shape(shape: AnyShape, limits: Limits) -> bool:
    """Whether registers hold every array in a shape."""
    if isinstance(shape, Shape):
        return shape.size <= limits.tiny
    return all(array.size <= limits.tiny for array in shape.arrays())


def is_tiny(inst: Instruction, limits: Limits) -> bool:
    """Whether an instruction is computed in registers."""
    called = inst.op.computations() if inst.op.control else ()
    return _cost(inst, limits) is not None and all(is_scalar_region(c, limits) for c in called)


def is_tiny_store(inst: Instruction, limits: Limits) -> bool:
    """Whether an instruction writes a few elements into a bigger array in place: a store."""
    return (
        limits.reads_elements
        and isinstance(inst.op, hlo.DynamicUpdateSlice)
        and not is_tiny(inst, limits)
        and is_tiny_shape(inst.operands[1].shape, limits)
    )


def crowded(order: Iterable[Instruction], limits: Limits) -> set[Instruction]:
    """Elementwise instructions of a few elements, but not one, whose neighbours of the same size, themselves
    included, write out more than a kernel and its call together. `order`: operands first.
    """
    group: dict[Instruction, list[Instruction]] = {}
    for inst in order:
        shape, op = inst.shape, inst.op
        if not isinstance(shape, Shape) or not 1 < shape.size <= limits.tiny:
            continue
        if not op.elementwise and not isinstance(op, hlo.Reshape | hlo.BitcastConvert):
            continue
        mine = group[inst] = [inst]
        for operand in inst.operands:
            other = group.get(operand, mine)
            if other is not mine and operand.shape.size == shape.size:
                mine, other = (mine, other) if len(mine) > len(other) else (other, mine)
                mine += other
                group.update(dict.fromkeys(other, mine))
    groups = {id(mine): mine for mine in group.values()}.values()
    long = (m for m in groups if sum(_written(i, limits) for i in m) > limits.line_kernel)
    return {inst for mine in long for inst in mine}


def _written(inst: Instruction, limits: Limits) -> int:
    """Operations on elements that an elementwise instruction writes out."""
    size = inst.shape.size
    if isinstance(inst.op, hlo.Reshape):
        return 0
    return size * (limits.line_function if inst.op.expensive else 1)


def too_long(order: Iterable[Instruction], elsewhere: set[Instruction], limits: Limits) -> set[Instruction]:
    """Dots, gathers and the like that registers are not for, because the computation is long code already."""
    costs = {i: _cost(i, limits) or 0 for i in order if i not in elsewhere and not i.op.control}
    long = sum(costs.values()) > limits.line
    return {i for i, cost in costs.items() if long and cost > limits.tiny}


def machine_loops(computations: Sequence[Computation], limits: Limits) -> set[Computation]:
    """The computations among `computations` (callees first) that loops run in registers."""
    found: set[Computation] = set()
    for computation in reversed(computations):
        for inst in _summary(computation, limits)[1]:
            if computation in found or isinstance(inst.op, hlo.While) and is_tiny(inst, limits):
                found.update(inst.op.computations())
    return found


def cost(computation: Computation, limits: Limits) -> int | None:
    """The operations on elements that a scalar region emits, those of the regions it calls included; None if
    it is none.
    """
    total = 0
    stack = [computation]  # once per call: each is emitted there
    regions = 0
    while stack:
        own, calls = _summary(stack.pop(), limits)
        if own is None or regions >= limits.line:
            return None
        total += own
        regions += 1
        stack.extend(called for inst in calls for called in inst.op.computations())
    return total


def is_scalar_region(computation: Computation, limits: Limits) -> bool:
    """Whether all of a computation, and all it calls, can be computed in registers, in bounded code."""
    found = cost(computation, limits)
    return found is not None and found <= limits.line


def _summary(computation: Computation, limits: Limits) -> tuple[int | None, tuple[Instruction, ...]]:
    """The cost without called regions, and the control instructions."""
    return computation.fact(("region cost", limits), lambda c: _summed(c, limits))


def _summed(computation: Computation, limits: Limits) -> tuple[int | None, tuple[Instruction, ...]]:
    total: int | None = 0
    calls = []
    for inst in computation.instructions:
        if inst.op.control:
            calls.append(inst)
        one = _cost(inst, limits)
        total = None if total is None or one is None else total + one
    return total, tuple(calls)


def _cost(inst: Instruction, limits: Limits) -> int | None:
    """Operations on elements for one instruction, called regions not counted; None when it is not tiny by
    itself.
    """
    op = inst.op
    cls = type(op)
    if not is_tiny_shape(inst.shape, limits):
        return None
    passes = op.passes_on or op.structural
    if not (passes or limits.reads_elements or all(is_tiny_shape(o.shape, limits) for o in inst.operands)):
        return None
    if passes or cls is hlo.Constant:
        return 0
    if op.side_effect and cls is not hlo.RngGetAndUpdateState:
        return None
    size = sum(array.size for array in inst.shape.arrays())
    if op.elementwise or op.moves or cls in _PLAIN:
        if op.expensive and size * limits.line_function > limits.line_kernel:
            return None
        chosen = inst.operands[cls is hlo.DynamicUpdateSlice].shape if cls in _CHOOSING else inst.shape
        choosing = cls in _CHOOSING and is_tiny_shape(chosen, limits)
        return size * chosen.size if choosing else size
    if not all(is_tiny_shape(o.shape, limits) for o in inst.operands):
        return None
    if op.control:
        return 1
    shapes: list = [o.shape for o in inst.operands]
    if isinstance(op, hlo.Dot) and not op.sparsity:
        work = size * prod(shapes[0].dims[d] for d in op.lhs_contracting_dims)
    elif isinstance(op, hlo.Reduce | hlo.Map | hlo.Scatter):
        work = len(op.to_apply.instructions) * max(s.size for s in shapes if isinstance(s, Shape))
    else:
        return None
    return work if work <= limits.line_kernel else None
