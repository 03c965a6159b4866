"""The concatenate emitter: each piece is a loop of its own over the elements it gives to the result."""

from __future__ import annotations

from axla.analysis.kernel_kinds import ConcatKind
from axla.codegen.element import Elements, Indices, reshape_index
from axla.codegen.emit.loop import mergeable, walk
from axla.codegen.kernel import KernelTask, KernelWriter, body_cost, cut, grain_of, widest
from axla.program.plans import ConcatPlan, Phase, Piece
from axla.target.machine import Target


def plan(task: KernelTask, kind: ConcatKind, target: Target) -> ConcatPlan:
    """How a concatenate kernel is called: a phase for each piece that has elements."""
    lanes, cost = target.lanes(widest(task.computation)), body_cost(task.computation, target.limits)
    merge = mergeable(task.computation, kind.dims)
    for d in (kind.dimension - 1, kind.dimension):
        if 0 <= d < len(merge):
            merge[d] = False
    # Along the dimension of the concatenation a piece is one stretch of the result.
    joined = [m or d == kind.dimension for d, m in enumerate(merge)]
    pieces, phases, start = [], [], 0
    for number, operand in enumerate(kind.hero.operands):
        dims = operand.shape.dims
        if operand.shape.size:
            space = cut(dims, lanes, cost, joined, target)
            grain, parallel = grain_of(space.count, cost * space.block, target.limits)
            symbol = f"{task.name}_{len(phases)}"
            phases.append(Phase(symbol, space.count, grain, parallel, space.threads))
            pieces.append(Piece(number, start, space))
        start += dims[kind.dimension]
    return ConcatPlan(kind.dims, kind.dimension, kind.hero.name, tuple(pieces), phases=tuple(phases))


def emit(k: KernelWriter, plan: ConcatPlan) -> None:
    """Writes the kernel of a piece of a `ConcatPlan`."""
    dims, d = plan.dims, plan.dimension
    piece, hero = plan.pieces[k.phase], k.named[plan.hero]
    operand = hero.operands[piece.operand]

    def body(e: Elements, index: Indices) -> None:
        bound = k.elements(e.lanes)
        bound.bind(hero, e(operand, index))
        at = (*index[:d], index[d] + piece.start, *index[d + 1 :])
        k.write(bound, lambda s: at if s.dims == dims else reshape_index(at, dims, s.dims))

    walk(k, piece.space, operand.shape.dims, body, once=bool(k.kernel.in_place))
