"""Tiny values and scalar regions: the instructions that the entry computes in registers instead of in
kernels.

An instruction is *tiny* when every array that it returns has few elements (`Limits.tiny`) and it takes little
code: it may become straight-line code. A *scalar region* is a computation of tiny instructions only, so a
loop over one is a machine loop without memory. Tiny elementwise instructions outside of scalar regions are
*crowded* when they would be much code together: a kernel computes them, as vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import axla.hlo as hlo
from axla.core.shape import AnyShape, Shape
from axla.ir.graph import Computation, Instruction
from axla.target.machine import Limits

_CHOOSING = {hlo.Gather, hlo.DynamicSlice, hlo.DynamicUpdateSlice}  # a run-time index chooses among registers
_PLAIN = {hlo.DynamicUpdateSlice, hlo.Iota, hlo.Copy, hlo.RngGetAndUpdateState}


def is_tiny_shape(shape: AnyShape, limits: Limits) -> bool:
    """Whether every array in a shape is small enough for registers."""
    if isinstance(shape, Shape):
        return shape.size <= limits.tiny
    return all(array.size <= limits.tiny for array in shape.arrays())


def is_tiny(inst: Instruction, limits: Limits) -> bool:
    """Whether an instruction is computed in registers."""
    called = inst.op.computations() if inst.op.control else ()
    return _cost(inst, limits) is not None and all(is_scalar_region(c, limits) for c in called)


def is_tiny_store(inst: Instruction, limits: Limits) -> bool:
    """Whether an instruction writes a few elements into a bigger array in place, so that it becomes a store
    step.
    """
    return (
        limits.reads_elements
        and isinstance(inst.op, hlo.DynamicUpdateSlice)
        and not is_tiny(inst, limits)
        and is_tiny_shape(inst.operands[1].shape, limits)
    )


def crowded(order: Iterable[Instruction], limits: Limits) -> set[Instruction]:
    """Elementwise instructions that a kernel should compute although they are tiny. Each has several
    elements; together with the connected instructions of the same size, it takes more code than a kernel and
    its call. `order` has operands before their users.
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
    """The number of operations on single elements in the straight-line code of an elementwise instruction."""
    size = inst.shape.size
    if isinstance(inst.op, hlo.Reshape):
        return 0
    return size * (limits.line_function if inst.op.expensive else 1)


def too_long(order: Iterable[Instruction], elsewhere: set[Instruction], limits: Limits) -> set[Instruction]:
    """The tiny instructions of more than `Limits.tiny` operations (dots, gathers...), if the code of all tiny
    instructions of `order` is too long: they should not be computed in registers. `elsewhere` has
    instructions that kernels compute in any case.
    """
    costs = {i: _cost(i, limits) or 0 for i in order if i not in elsewhere and not i.op.control}
    long = sum(costs.values()) > limits.line
    return {i for i, cost in costs.items() if long and cost > limits.tiny}


def machine_loops(computations: Sequence[Computation], limits: Limits) -> set[Computation]:
    """The conditions and bodies of loops that run in registers, and the computations that they call.
    `computations` has the computations that are examined, callees first.
    """
    found: set[Computation] = set()
    for computation in reversed(computations):
        for inst in _summary(computation, limits)[1]:
            if computation in found or isinstance(inst.op, hlo.While) and is_tiny(inst, limits):
                found.update(inst.op.computations())
    return found


def cost(computation: Computation, limits: Limits) -> int | None:
    """The number of operations on single elements in the code of a scalar region, with those of the regions
    it calls; None if the computation is not a scalar region.
    """
    total = 0
    stack = [computation]  # A region is counted once per call, since its code is emitted at each.
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
    """Whether a computation and all computations that it calls can be computed in registers with code of
    bounded length.
    """
    found = cost(computation, limits)
    return found is not None and found <= limits.line


def _summary(computation: Computation, limits: Limits) -> tuple[int | None, tuple[Instruction, ...]]:
    """The cost of a computation without the regions that it calls, None if an instruction is not tiny; and
    the instructions that call regions (loops, branches, calls).
    """
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
    """The number of operations on single elements of one instruction, without those of called regions; None
    if the instruction is not tiny.
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
