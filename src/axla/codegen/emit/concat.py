"""The concatenate emitter: each piece is a loop of its own over the elements it gives to the result."""

from __future__ import annotations

from axla.analysis.kernel_kinds import ConcatKind
from axla.codegen.element import Elements, Indices, reshape_index
from axla.codegen.emit.loop import mergeable, walk
from axla.codegen.function import Module
from axla.codegen.kernel import KernelTask, KernelWriter, Phase, Plan, Space, body_cost, cut, grain_of, widest
from axla.core.shape import Shape
from axla.ir.graph import Instruction
from axla.target.machine import Target


def _pieces(task: KernelTask, target: Target) -> list[tuple[Instruction, int, tuple[int, ...], Space]]:
    """(piece, where it starts, its dimensions, its space) for every piece that has elements."""
    kind = task.kind
    assert isinstance(kind, ConcatKind)
    lanes = target.lanes(widest(task.computation))
    merge = mergeable(task.computation, kind.dims)
    for d in (kind.dimension - 1, kind.dimension):
        if 0 <= d < len(merge):
            merge[d] = False
    found, start = [], 0
    for piece in kind.hero.operands:
        assert isinstance(piece.shape, Shape)
        dims = piece.shape.dims
        if piece.shape.size:
            # Along the dimension of the concatenation a piece is one stretch of the result.
            joined = [m or d == kind.dimension for d, m in enumerate(merge)]
            found.append((piece, start, dims, cut(dims, lanes, body_cost(task.computation), joined, target)))
        start += dims[kind.dimension]
    return found


def plan(task: KernelTask, target: Target) -> Plan:
    """How a concatenate kernel is called: a phase for each piece."""
    phases = []
    cost = body_cost(task.computation)
    for number, (_, _, _, space) in enumerate(_pieces(task, target)):
        grain, parallel = grain_of(space.count, cost * space.block)
        phases.append(Phase(f"{task.name}_{number}", space.count, grain, parallel, space.threads))
    return Plan(tuple(phases))


def emit(module: Module, task: KernelTask, target: Target) -> None:
    """Writes the kernels of a `ConcatKind`."""
    kind = task.kind
    assert isinstance(kind, ConcatKind)
    for number, (piece, start, dims, space) in enumerate(_pieces(task, target)):
        k = KernelWriter(module, task, target, f"{task.name}_{number}", threads=space.threads)

        def body(e: Elements, index: Indices, k=k, piece=piece, start=start) -> None:
            d = kind.dimension
            bound = k.elements(e.lanes)
            value = e(piece, index)
            bound.bind(kind.hero, value)
            at = (*index[:d], index[d] + start, *index[d + 1 :])
            k.write(
                bound, lambda s: at if s.dims == tuple(kind.dims) else reshape_index(at, kind.dims, s.dims)
            )

        walk(k, space, dims, body, once=bool(task.in_place))
        k.finish()
