"""Rules of algsimp for reduce-window and sort."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from axla.hlo import Map, Pad, Reduce, ReduceWindow, Sort
from axla.ir.attributes import Window
from axla.ir.graph import Instruction
from axla.ir.structure import Tuple
from axla.ir.typed import shape_of
from axla.kernels.scan import scan_geometry
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.algebra_reduce import is_identity
from axla.passes.simplify.match import combiner, dtype_of, same_shape, spread


def _is_single(root: Instruction) -> TypeGuard[Instruction[ReduceWindow]]:
    """Whether a reduce-window reduces one array that has elements, with a result of the array's element
    type.
    """
    if len(root.operands) != 2 or root.shape.is_tuple or not shape_of(root).size:
        return False
    x, start = root.operands
    return dtype_of(x) is dtype_of(start) is dtype_of(root) and shape_of(x).size > 0


def _is_plain(window: Window) -> bool:
    """Whether a window has neither padding nor dilation."""
    edges = (*window.low, *window.high)
    return not any(edges) and {*window.base_dilation, *window.window_dilation} <= {1}


@rule(ReduceWindow, where=_is_single)
def window_over_all(root: Instruction[ReduceWindow], x: Instruction, start: Instruction) -> Rewritten:
    """reduce-window(x) => reshape(reduce(x)), if it covers all elements or one along each dimension"""
    op, dims = root.op, shape_of(x).dims
    covered = tuple(d for d, n in enumerate(op.window.size) if n == dims[d] != 1)
    apart = all(op.window.size[d] == op.window.stride[d] == 1 for d in range(len(dims)) if d not in covered)
    if not covered or not apart or not _is_plain(op.window):
        return None
    return reshaped(Reduce(covered, op.to_apply)(x, start), shape_of(root).dims)


@rule(ReduceWindow, where=_is_single)
def window_of_one_element(root: Instruction[ReduceWindow], x: Instruction, start: Instruction) -> Rewritten:
    """reduce-window(x, v) => x, for a window of one element (combined with v if that is not the identity)"""
    op = root.op
    if not same_shape(x, root) or any(n != 1 for n in op.window.size) or not _is_plain(op.window):
        return None
    if is_identity(start, combiner(op.to_apply)):
        return x
    return Map(tuple(range(shape_of(root).rank)), op.to_apply)(spread(root, start), x)


@rule(ReduceWindow, of=Pad, where=_is_single)
def window_over_pad(
    root: Instruction[ReduceWindow], inner: Instruction[Pad], start: Instruction
) -> Rewritten:
    """reduce-window(pad(x, v), v) => reduce-window(x, v), with padding in the window, if v is the identity"""
    window, edges = root.op.window, inner.op.padding
    x, value = inner.operands
    plain = (
        not any(edges.interior)
        and {*window.base_dilation} == {1}
        and min((*edges.low, *edges.high), default=0) >= 0
    )
    if value is not start or not plain or not is_identity(start, combiner(root.op.to_apply)):
        return None
    if scan_geometry(root) is not None:  # with padding it would no longer be emitted as a scan
        return None
    low = tuple(m + n for m, n in zip(window.low, edges.low, strict=True))
    high = tuple(m + n for m, n in zip(window.high, edges.high, strict=True))
    return replace(root.op, window=replace(window, low=low, high=high))(x, start)


@rule(Sort)
def sort_of_one_element(root: Instruction[Sort], *operands: Instruction) -> Rewritten:
    """sort(x) => x, along a dimension of size 1 or 0"""
    dims = shape_of(operands[0]).dims
    if not dims or dims[root.op.dimension] > 1:
        return None
    return Tuple()(*operands) if root.shape.is_tuple else operands[0]
