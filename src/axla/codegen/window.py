"""reduce-window inside of loops: the elements that each lane's place of the window sees, combined in order.

Edges that no place can reach are not tested for; steps of a place that reach over an edge change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axla.codegen.element import ELEMENT, Elements, Indices, accumulate, all_of, choose
from axla.codegen.index import AnyIndex, Index
from axla.codegen.value import Value
from axla.core.shape import Shape
from axla.hlo import ReduceWindow
from axla.ir.graph import Instruction


def reduce_window(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    """The values of a reduce-window at one index."""
    op = inst.op
    assert isinstance(op, ReduceWindow)
    count = len(inst.operands) // 2
    inputs, inits = inst.operands[:count], inst.operands[count:]
    window, shape = op.window, inputs[0].shape
    assert isinstance(shape, Shape)
    places = window_places(inst)
    # Along dimensions of one element only, there is nothing to step over.
    moving = [d for d in range(window.rank) if window.size[d] > 1]

    def step(totals: tuple[Value, ...], at: Sequence[AnyIndex]) -> tuple[Value, ...]:
        where: list[AnyIndex] = [0] * window.rank
        for d, position in zip(moving, at, strict=True):
            where[d] = position
        conditions: list[Value | bool] = []
        element: list[AnyIndex] = []
        for d, (place, position) in enumerate(zip(index, where, strict=True)):
            inside, found = _element(e, op, d, shape.dims[d], places[d], place, position)
            conditions.append(inside)
            element.append(found)
        condition = all_of(e.values, conditions)
        if condition is False:
            return totals
        new = e.apply(op.to_apply, (*totals, *(e(x, tuple(element)) for x in inputs)))
        pairs = zip(new, totals, strict=True)
        return tuple(choose(e.values, condition, lambda a=a: a, lambda b=b: b) for a, b in pairs)

    first = tuple(e(x, ()) for x in inits)
    lanes = max((i.lanes for i in index if isinstance(i, Index) and not i.uniform), default=1)
    if not shape.size:
        return first
    return accumulate(e, [window.size[d] for d in moving], first, step, lanes)


def window_places(inst: Instruction) -> tuple[int, ...]:
    """How many places the window has in each dimension."""
    shape = next(iter(inst.shape.leaves()))
    assert isinstance(shape, Shape)
    return shape.dims


def window_cost(inst: Instruction) -> int:
    """Elements that each place sees."""
    op = inst.op
    assert isinstance(op, ReduceWindow)
    return prod(op.window.size)


def _element(
    e: Elements, op: ReduceWindow, d: int, size: int, places: int, place: AnyIndex, position: AnyIndex
) -> tuple[Value | bool, AnyIndex]:
    """(whether there is an element, its index) of dimension `d` at a position in a place of the window."""
    window = op.window
    step, low, base = window.window_dilation[d], window.low[d], window.base_dilation[d]
    begin = position * step - low
    found: AnyIndex = (
        place * window.stride[d] + begin if isinstance(begin, int) else begin + place * window.stride[d]
    )
    reach = (size - 1) * base + 1
    nearest, farthest = (
        (begin, begin) if isinstance(begin, int) else (-low, (window.size[d] - 1) * step - low)
    )
    inside: Value | bool = True
    if nearest < 0 or farthest + (places - 1) * window.stride[d] >= reach:
        inside = e.in_range(found, 0, reach)
        found = e.clamp_index(found, reach)
    elif isinstance(found, Index):
        found.limit = min(found.limit, reach)
    if base > 1:
        inside = all_of(e.values, [inside, e.in_range(found % base, 0, 1)])
        found = found // base
    return inside, found


ELEMENT[ReduceWindow] = reduce_window
