"""Writes reduce-window in loops: combines, in order, the elements that the window covers at each lane's
position.

Edges that no position can reach are not tested; steps of the window beyond an edge change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from axla.codegen.index import AnyIndex, Index
from axla.codegen.position import inside_everywhere
from axla.codegen.value import Value
from axla.codegen.walk import Elements, Indices, accumulate, all_of, choose, where_inside
from axla.hlo import ReduceWindow
from axla.ir.graph import Instruction


def reduce_window(e: Elements, inst: Instruction[ReduceWindow], index: Indices) -> tuple[Value, ...]:
    """The values of a reduce-window at one index."""
    op = inst.op
    count = len(inst.operands) // 2
    inputs, inits = inst.operands[:count], inst.operands[count:]
    window, shape = op.window, inputs[0].shape
    places = window_places(inst)
    lanes = e.lanes_at(index)
    # Dimensions along which the window has one element need no loop.
    moving = [d for d in range(window.rank) if window.size[d] > 1]

    def step(inside: bool, totals: tuple[Value, ...], at: Sequence[AnyIndex]) -> tuple[Value, ...]:
        where: list[AnyIndex] = [0] * window.rank
        for d, position in zip(moving, at, strict=True):
            where[d] = position
        conditions: list[Value | bool] = []
        element: list[AnyIndex] = []
        for d, (place, position) in enumerate(zip(index, where, strict=True)):
            there, found = _element(e, op, d, shape.dims[d], None if inside else places[d], place, position)
            conditions.append(there)
            element.append(found)
        condition = all_of(e.values, conditions)
        if condition is False:
            return totals
        new = e.apply(op.to_apply, (*totals, *(e(x, tuple(element)) for x in inputs)))
        pairs = zip(new, totals, strict=True)
        return tuple(choose(e.values, condition, lambda a=a: a, lambda b=b: b) for a, b in pairs)

    first = tuple(e(x, ()) for x in inits)
    if not shape.size:
        return first
    sizes = [window.size[d] for d in moving]
    inside = _all_inside(e, op, shape.dims, places, index)
    case = (inside, lambda: accumulate(e, inst, sizes, first, partial(step, True), lanes))
    return where_inside(
        e, [case], lanes, lambda: accumulate(e, inst, sizes, first, partial(step, False), lanes)
    )


def _all_inside(
    e: Elements, op: ReduceWindow, dims: Sequence[int], places: Sequence[int], index: Indices
) -> Value | None:
    """Whether the windows of all lanes are inside the array; None where that is always so, or not worth
    testing.
    """
    window = op.window
    if any(n > 1 for n in window.base_dilation):
        return None
    reaches = [(n - 1) * step for n, step in zip(window.size, window.window_dilation, strict=True)]
    edges = [
        low > 0 or reach - low + (n - 1) * stride >= size
        for low, reach, n, stride, size in zip(window.low, reaches, places, window.stride, dims, strict=True)
    ]
    starts: list[AnyIndex] = []
    sizes: list[int] = []
    for d, i in enumerate(index):
        if edges[d]:
            starts.append(i * window.stride[d] - window.low[d])
            sizes.append(dims[d] - reaches[d])
    if min(sizes, default=0) < 1:
        return None
    return inside_everywhere(e.values, starts, sizes)


def window_places(inst: Instruction) -> tuple[int, ...]:
    """The number of window positions in each dimension."""
    return next(iter(inst.shape.leaves())).dims


def _element(
    e: Elements, op: ReduceWindow, d: int, size: int, places: int | None, place: AnyIndex, position: AnyIndex
) -> tuple[Value | bool, AnyIndex]:
    """(whether the operand has an element at a position of the window, the index of the element) along
    dimension `d`, in which the operand has `size` elements. `place` is the window position, `position` the
    number of the element in the window. `places` is the number of window positions; if it is None, the window
    is known to be inside the array, and edges are not tested.
    """
    window = op.window
    step, low, base = window.window_dilation[d], window.low[d], window.base_dilation[d]
    begin = position * step - low
    found: AnyIndex = begin + place * window.stride[d]
    reach = (size - 1) * base + 1
    nearest, farthest = (
        (begin, begin) if isinstance(begin, int) else (-low, (window.size[d] - 1) * step - low)
    )
    inside: Value | bool = True
    if places is not None and (nearest < 0 or farthest + (places - 1) * window.stride[d] >= reach):
        inside = e.in_range(found, 0, reach)
        found = e.clamp_index(found, reach)
    elif isinstance(found, Index):
        found.limit = min(found.limit, reach)
    if base > 1:
        inside = all_of(e.values, [inside, e.in_range(found % base, 0, 1)])
        found = found // base
    return inside, found
