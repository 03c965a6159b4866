"""Writes loops in which every root is computed element by element over one index space. Each operand of a
concatenation gets its own loop, over the elements that it contributes.

The index space is collapsed as far as the kernel's broadcasts allow, so that lanes run along the longest
contiguous range. If its size is not a multiple of the lane count, the last vector overlaps the one before;
if an output shares memory with an input, the rest gets one-lane code instead, since elements must not be
computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from axla.codegen.element import Elements, Indices, reshape_index
from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex, Index
from axla.codegen.kernel import KernelWriter, least, span_of
from axla.ir.graph import Computation
from axla.kernels.loop import ConcatPlan, LoopPlan
from axla.kernels.plan import Space

SMALL_BODY = 12
"""Loop bodies of at most so many instructions are unrolled twice; those of half as many, four times."""

MOST_VECTORS, MOST_WRITTEN = 8, 96
"""A loop over at most so many vectors, with at most so many instructions for all of them, is unrolled
completely.
"""


def emit(k: KernelWriter, plan: LoopPlan) -> None:
    """Writes the kernel of a `LoopPlan`."""

    def body(e: Elements, index: Indices) -> None:
        if plan.by_rows:
            _write_rows(k, e, index, plan.dims)
        else:
            k.write(e, index, plan.dims)

    dims = plan.dims[:-1] if plan.by_rows else plan.dims
    walk(k, plan.space, dims, body, once=bool(k.kernel.in_place))


def _write_rows(k: KernelWriter, e: Elements, row: Indices, dims: Sequence[int]) -> None:
    """Computes a whole row per lane, column by column, and stores the rows in memory order."""
    columns = [k.computed(e, (*row, column), dims) for column in range(dims[-1])]
    for column in zip(*columns, strict=True):
        output, at, _ = column[0]
        output.store_rows(at, [k.values.splat(value, e.lanes_at(row)) for _, _, value in column])


def emit_concat(k: KernelWriter, plan: ConcatPlan) -> None:
    """Writes a phase of a `ConcatPlan`: the elements that one operand of the concatenation contributes."""
    d = plan.dimension
    piece, hero = plan.pieces[k.phase], k.named[plan.hero]
    operand = hero.operands[piece.operand]

    def body(e: Elements, index: Indices) -> None:
        bound = k.elements(e.lanes)
        bound.bind(hero, e(operand, index))
        at = (*index[:d], index[d] + piece.start, *index[d + 1 :])
        k.write(bound, at, plan.dims)

    walk(k, piece.space, operand.shape.dims, body, once=bool(k.kernel.in_place))


def walk(
    k: KernelWriter,
    space: Space,
    dims: Sequence[int],
    body: Callable[[Elements, Indices], None],
    *,
    once: bool,
) -> None:
    """Writes code that runs `body` at every index of the kernel's range; `once`: at no index twice."""
    sizes = (*space.outer, space.inner)
    if not space.count:  # without elements, `sizes` and `dims` need not match
        return
    with k.steps(*space.outer, space.blocks) as (*outer, block):
        low, high = span_of(k.f, space, block)
        vectors(k, space, low, high, lambda e, i: body(e, reshape_index((*outer, i), sizes, dims)), once)


def vectors(
    k: KernelWriter, space: Space, low: Ssa, high: Ssa, body: Callable[[Elements, AnyIndex], None],
    once: bool, copies: int = 4,
) -> None:  # fmt: skip
    """Writes code that runs `body` with vectors of indices that cover [low, high) of the space's inner
    dimension.

    `once`: no index may be in two vectors. `copies`: the largest unroll factor of the loop.
    """
    f, lanes, inner, threads = k.f, space.lanes, space.inner, k.share.threads
    rest = inner % lanes
    e = k.elements(lanes)
    if lanes == threads == 1:
        with k.walk(low, high, 1, nonempty=True) as loop:
            body(e, Index(f, loop.index, limit=inner))
        return
    if rest and (once or threads > 1):
        _main_then_single(k, space, low, high, body)
        return
    if inner == lanes and threads == 1:
        body(e, Index(f, f.index(0), 1, lanes, limit=inner))
        return
    count, written = inner // lanes, len(k.kernel.computation.instructions)
    known = low.constant == 0 and high.constant == inner and not rest and threads == 1
    if known and count <= MOST_VECTORS and count * written <= MOST_WRITTEN:
        for number in range(count):
            body(e, Index(f, f.index(number * lanes), 1, lanes, multiple=lanes, limit=inner))
        return
    unroll = 1 if rest else min(copies, _unroll(k.kernel.computation, space, threads, once))
    beyond = rest != 0 or unroll > 1 and inner % (lanes * threads * unroll) != 0
    with k.walk(low, high, lanes, nonempty=True, blocks=unroll) as loop:
        for part in range(unroll):
            base = least(f, f.add(loop.index, part * lanes * threads), inner - lanes, needed=beyond)
            body(e, Index(f, base, 1, lanes, multiple=1 if rest else lanes, limit=inner))


def _unroll(computation: Computation, space: Space, threads: int, once: bool) -> int:
    size = gcd(space.block, space.inner)  # divides the sizes of a full block and of the last block
    # Threads that share a row may write its last element several times.
    free = threads > 1 and space.lanes == 1 and not once
    for unroll in (4, 2):
        together = space.lanes * threads * unroll
        fits = size % together == 0 or free and space.block >= together
        if fits and len(computation.instructions) * unroll <= 2 * SMALL_BODY:
            return unroll
    return 1


def _main_then_single(
    k: KernelWriter, space: Space, low: Ssa, high: Ssa, body: Callable[[Elements, AnyIndex], None]
) -> None:
    """Runs `body` for whole vectors of indices in [low, high), then for one remaining index at a time."""
    f, lanes, inner = k.f, space.lanes, space.inner
    whole = inner - inner % lanes
    with k.walk(low, f.smin(high, whole), lanes) as loop:
        body(k.elements(lanes), Index(f, loop.index, 1, lanes, multiple=lanes, limit=inner))
    with k.walk(f.smax(low, whole), high, 1) as loop:
        body(k.elements(1), Index(f, loop.index, limit=inner))
