"""The loop emitter: every root is computed element by element over one index space.

The space is collapsed as far as the kernel's broadcasts allow, so that lanes run along the longest contiguous
stretch.
Where its size is no multiple of the lanes, the last vector overlaps the one before it; outputs that share
memory with an input get one-lane code for the rest instead, since they must not be computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from axla.analysis.kernel_kinds import LoopKind
from axla.codegen.element import Elements, reshape_index
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index
from axla.codegen.kernel import (
    KernelTask,
    KernelWriter,
    block_of,
    body_cost,
    cut,
    dims_index,
    grain_of,
    widest,
)
from axla.core.shape import Shape
from axla.hlo import Broadcast, Concatenate, Iota, ReduceWindow, Reverse, Transpose
from axla.ir.graph import Computation, Instruction
from axla.program.plans import LoopPlan, Phase, Space
from axla.target.machine import Limits, Target

SMALL_BODY = 12
"""Instructions up to which a loop body is written twice per iteration."""

Indices = tuple[AnyIndex, ...]


def plan(task: KernelTask, kind: LoopKind, target: Target) -> LoopPlan:
    """How a loop kernel is called."""
    space = loop_space(task, kind.dims, target)
    return LoopPlan(kind.dims, space, phases=(loop_phase(task, space, target.limits, kind.inner),))


def loop_phase(task: KernelTask, space: Space, limits: Limits, inner: Sequence[Instruction] = ()) -> Phase:
    cost = body_cost(task.computation, limits) * space.block
    for inst in inner:
        cost *= _inner_cost(inst)
    grain, parallel = grain_of(space.count, cost, limits)
    return Phase(task.name, space.count, grain, parallel, space.threads)


def _inner_cost(inst: Instruction) -> int:
    if isinstance(inst.op, ReduceWindow):
        return prod(inst.op.window.size) + 1
    shape = inst.shape
    result = max(1, sum(s.size for s in shape.leaves() if isinstance(s, Shape)))
    return max(1, inst.operands[0].shape.size // result) + 1


def loop_space(task: KernelTask, dims: Sequence[int], target: Target) -> Space:
    cost = body_cost(task.computation, target.limits)
    return cut(dims, target.lanes(widest(task.computation)), cost, mergeable(task.computation, dims), target)


def emit(k: KernelWriter, plan: LoopPlan) -> None:
    """Writes the kernel of a `LoopPlan`."""
    dims = plan.dims

    def body(e: Elements, index: Indices) -> None:
        k.write(e, lambda s: index if s.dims == dims else reshape_index(index, dims, s.dims))

    walk(k, plan.space, dims, body, once=bool(k.kernel.in_place))


def walk(
    k: KernelWriter,
    space: Space,
    dims: Sequence[int],
    body: Callable[[Elements, Indices], None],
    *,
    once: bool,
) -> None:
    """Runs `body` at every index of the kernel's range; `once`: no index twice."""
    f = k.f
    with k.share.steps() as step:
        outer, low, high = block_of(f, space, step)
        vectors(k, space, low, high, lambda e, i: body(e, dims_index(space, dims, outer, i)), once)


def vectors(
    k: KernelWriter, space: Space, low: Ssa, high: Ssa, body: Callable[[Elements, AnyIndex], None],
    once: bool, copies: int = 4,
) -> None:  # fmt: skip
    """Runs `body` with vectors of indices that cover [low, high) of the space's inner dimension.

    `copies`: how often it may stand in a loop.
    """
    f, lanes, inner = k.f, space.lanes, space.inner
    rest = inner % lanes
    e = k.elements(lanes)
    if lanes == 1:
        with k.walk(low, high, 1, nonempty=True) as loop:
            body(e, Index(f, loop.index, limit=inner))
        return
    if rest and once:
        _main_then_single(k, space, low, high, body)
        return
    if inner == lanes:
        body(e, Index(f, f.index(0), 1, lanes, limit=inner))
        return
    unroll = 1 if rest else min(copies, _unroll(k.kernel.computation, space))
    with k.walk(low, high, lanes * unroll, nonempty=True) as loop:
        for part in range(unroll):
            base = f.add(loop.index, f.index(part * lanes))
            multiple = lanes
            if rest:
                base = f.smin(base, f.index(inner - lanes))
                multiple = 1
            body(e, Index(f, base, 1, lanes, multiple=multiple, limit=inner))


def _unroll(computation: Computation, space: Space) -> int:
    size = space.inner if space.blocks == 1 else _common(space)
    for unroll in (4, 2):
        if size % (space.lanes * unroll) == 0 and len(computation.instructions) * unroll <= 2 * SMALL_BODY:
            return unroll
    return 1


def _common(space: Space) -> int:
    """A size of which both a full block and the last one are multiples."""
    last = space.inner % space.block
    size = space.block
    while last:
        size, last = last, size % last
    return size


def _main_then_single(
    k: KernelWriter, space: Space, low: Ssa, high: Ssa, body: Callable[[Elements, AnyIndex], None]
) -> None:
    """Full vectors, then one element at a time."""
    f, lanes, inner = k.f, space.lanes, space.inner
    whole = inner - inner % lanes
    with k.walk(low, f.smin(high, f.index(whole)), lanes) as loop:
        body(k.elements(lanes), Index(f, loop.index, 1, lanes, multiple=lanes, limit=inner))
    with k.walk(f.smax(low, f.index(whole)), high, 1) as loop:
        body(k.elements(1), Index(f, loop.index, limit=inner))


def mergeable(computation: Computation, dims: Sequence[int]) -> list[bool]:
    """For each pair of neighbouring dimensions of `dims`: whether accesses stay simple with both as one."""
    dims = tuple(dims)
    found = [True] * max(0, len(dims) - 1)
    for inst in computation.instructions:
        shape = inst.shape
        if not isinstance(shape, Shape) or shape.dims != dims or inst.op.elementwise:
            continue
        test = _MERGE.get(inst.op.opcode)
        if test is not None:
            for d in range(len(found)):
                found[d] = found[d] and test(inst, d)
    return found


def _broadcast_merges(inst: Instruction[Broadcast], d: int) -> bool:
    dimensions = inst.op.dimensions
    first, second = d in dimensions, d + 1 in dimensions
    if first != second:
        return inst.shape.dims[d if not first else d + 1] == 1
    return not first or dimensions.index(d + 1) == dimensions.index(d) + 1


def _iota_merges(inst: Instruction[Iota], d: int) -> bool:
    return inst.op.iota_dimension not in (d, d + 1)


def _transpose_merges(inst: Instruction[Transpose], d: int) -> bool:
    dimensions = inst.op.dimensions
    return dimensions[d + 1] == dimensions[d] + 1


def _same_sizes(inst: Instruction, d: int) -> bool:
    source = inst.operands[0].shape.dims
    result = inst.shape.dims
    return source[d] == result[d] and source[d + 1] == result[d + 1]


def _others_merge(inst: Instruction[Reverse | Concatenate], d: int) -> bool:
    dimensions = inst.op.dimensions
    return d not in dimensions and d + 1 not in dimensions


def _window_merges(inst: Instruction[ReduceWindow], d: int) -> bool:
    window = inst.op.window
    steps = zip(window.size, window.stride, window.base_dilation, strict=True)
    still = [size == stride == dilation == 1 for size, stride, dilation in steps]
    return all(still[k] and not window.low[k] and not window.high[k] for k in (d, d + 1))


_MERGE: dict[str, Callable[[Instruction[Any], int], bool]] = {
    "broadcast": _broadcast_merges,
    "iota": _iota_merges,
    "transpose": _transpose_merges,
    "slice": _same_sizes,
    "dynamic-slice": _same_sizes,
    "pad": _same_sizes,
    "reverse": _others_merge,
    "concatenate": _others_merge,
    "gather": lambda inst, d: False,
    "reduce": lambda inst, d: False,
    "reduce-window": _window_merges,
    "dot": lambda inst, d: False,
}
