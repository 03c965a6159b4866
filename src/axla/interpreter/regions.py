"""The functions of the interpreter for ops that call computations or have effects. They are entered in the
table `REGIONS`.
"""

from __future__ import annotations

from functools import cmp_to_key
from math import prod

import numpy as np

import axla.hlo as hlo
from axla.core.dtypes import DType
from axla.core.shape import Shape, TupleShape
from axla.hlo.casting import convert, reinterpret
from axla.hlo.indexing import window_places
from axla.hlo.window import offsets, padded, places
from axla.interpreter.collectives import COLLECTIVES, joined
from axla.interpreter.custom_calls import custom_call
from axla.interpreter.evaluate import REGIONS, HostValue, Interpreter
from axla.interpreter.transfers import TRANSFERS
from axla.ir.attributes import RandomDistribution
from axla.ir.graph import Instruction
from axla.ir.op import by_op
from axla.ir.structure import GetTupleElement
from axla.ir.typed import tuple_of

TREE_ABOVE = 1024
"""Reductions of more elements are combined in a tree, which HLO allows, since a loop would take long.
"""


# Tuples and control flow


def _tuple(interpreter: Interpreter, inst: Instruction, *elements: HostValue) -> HostValue:
    return elements


def _get_tuple_element(
    interpreter: Interpreter, inst: Instruction[GetTupleElement], operand: HostValue
) -> HostValue:
    return operand[inst.op.index]


def _while(interpreter: Interpreter, inst: Instruction[hlo.While], value: HostValue) -> HostValue:
    """Evaluates a while loop. As XLA does, it assumes that a loop without effects ends. So if an iteration
    does not change the value, that is the result, whatever the condition returns.
    """
    look_at = 1
    iteration = 0
    while interpreter.host(interpreter.run(inst.op.condition, [value])):
        interpreter.tick()
        before, value = value, interpreter.run(inst.op.body, [value])
        iteration += 1
        if iteration == look_at:
            look_at *= 2
            if not interpreter.has_effect(inst) and _same_bits(interpreter, before, value):
                break
    return value


def _same_bits(interpreter: Interpreter, a: HostValue, b: HostValue) -> bool:
    if isinstance(a, tuple):
        return all(_same_bits(interpreter, x, y) for x, y in zip(a, b, strict=True))
    return a is b or interpreter.host(a).tobytes() == interpreter.host(b).tobytes()


def _conditional(
    interpreter: Interpreter, inst: Instruction[hlo.Conditional], index: HostValue, *operands: HostValue
) -> HostValue:
    number = inst.op.taken(interpreter.host(index))
    return interpreter.run(inst.op.branches[number], [operands[number]])


def _call(interpreter: Interpreter, inst: Instruction, *operands: HostValue) -> HostValue:
    return interpreter.run(inst.op.computations()[0], operands)


def _async_start(interpreter: Interpreter, inst: Instruction, *operands: HostValue) -> HostValue:
    contexts = [np.zeros(s.dims, s.dtype.numpy) for s in tuple_of(inst).elements[2:] if isinstance(s, Shape)]
    return (operands, _call(interpreter, inst, *operands), *contexts)


def _rng(
    interpreter: Interpreter, inst: Instruction[hlo.Rng], first: HostValue, second: HostValue
) -> HostValue:
    op = inst.op
    dims, low, high = op.shape.dims, first.astype(np.float64), second.astype(np.float64)
    if op.distribution is RandomDistribution.NORMAL:
        return convert(low + high * interpreter.random.standard_normal(dims), op.shape.dtype)
    unit = interpreter.random.random(dims)
    if op.shape.dtype.is_pred:
        return np.where(unit < 0.5, first, second)
    scale = 1.0 if np.isfinite(high - low) else 0.5
    numbers = (low * scale + unit * (high * scale - low * scale)) / scale
    found = convert(np.floor(numbers) if op.shape.dtype.is_integer else numbers, op.shape.dtype)
    return np.where(found < second, found, first)  # rounding may give `second`, which is excluded


def _rng_state(interpreter: Interpreter, inst: Instruction[hlo.RngGetAndUpdateState]) -> HostValue:
    state = interpreter.state
    interpreter.state += inst.op.delta
    return np.array([state & (2**64 - 1), state >> 64], np.uint64)


def _bitcast(interpreter: Interpreter, inst: Instruction, operand: HostValue) -> HostValue:
    """Evaluates a bitcast: reads the elements, in the order that the operand's layout has in memory, with the
    type and layout of the result.
    """
    of, to = inst.operands[0].shape, inst.shape
    if not isinstance(of, Shape) or not isinstance(to, Shape):
        return operand
    major = of.layout.minor_to_major[::-1]
    result_major = to.layout.minor_to_major[::-1]
    flat = operand.transpose(major)
    arranged = reinterpret(flat, to.with_dims([to.dims[d] for d in result_major]))
    return arranged.transpose(np.argsort(result_major, kind="stable")) if result_major else arranged


# Ops that apply a computation on scalars to arrays


def _map(interpreter: Interpreter, inst: Instruction[hlo.Map], *operands: HostValue) -> HostValue:
    return interpreter.on_scalars(inst.op.to_apply, operands, operands[0].shape)[0]


def result_types(inst: Instruction) -> list[DType]:
    """The element types of the arrays in an instruction's result."""
    return [s.dtype for s in inst.shape.parts]


def _reduce(interpreter: Interpreter, inst: Instruction[hlo.Reduce], *operands: HostValue) -> HostValue:
    op = inst.op
    count = len(operands) // 2
    data, inits = operands[:count], operands[count:]
    kept = [d for d in range(data[0].ndim) if d not in op.dimensions]
    dims = [data[0].shape[d] for d in kept]
    length = prod(data[0].shape[d] for d in op.dimensions)
    rows = [x.transpose([*sorted(op.dimensions), *kept]).reshape(length, *dims) for x in data]
    total = [np.broadcast_to(convert(i, t), dims) for i, t in zip(inits, result_types(inst), strict=True)]
    if length > TREE_ABOVE:
        rows = _tree(interpreter, op, rows, result_types(inst))
        length = 1
    for k in range(length):
        total = interpreter.on_scalars(op.to_apply, [*total, *[r[k] for r in rows]], dims)
        interpreter.tick()
    return joined(inst, total)


def _tree(
    interpreter: Interpreter, op: hlo.Reduce, rows: list[np.ndarray], types: list[DType]
) -> list[np.ndarray]:
    """Applies a reduce to arrays whose dimension 0 is reduced: combines neighbouring rows in order, level by
    level, until one row is left. `rows` has an array for each operand, `types` the element types of the
    results.
    """
    rows = [convert(r, t) for r, t in zip(rows, types, strict=True)]
    while len(rows[0]) > 1:
        even = len(rows[0]) // 2 * 2
        pairs = [*[r[0:even:2] for r in rows], *[r[1:even:2] for r in rows]]
        combined = interpreter.on_scalars(op.to_apply, pairs, pairs[0].shape)
        rows = [np.concatenate([c, r[even:]]) for c, r in zip(combined, rows, strict=True)]
        interpreter.tick()
    return rows


def _scatter(interpreter: Interpreter, inst: Instruction[hlo.Scatter], *operands: HostValue) -> HostValue:
    op = inst.op
    count = len(operands) // 2
    results = [o.copy() for o in operands[:count]]
    indices, updates = operands[count], operands[count + 1 :]
    dims = results[0].shape
    starts, _, sizes = op.windows(dims, indices, updates[0])
    windows = [op.windows(dims, indices, u)[1] for u in updates]
    inside = ((starts >= 0) & (starts + np.array(sizes, np.int64) <= np.array(dims, np.int64))).all(axis=1)
    starts, windows = starts[inside], [w[inside] for w in windows]
    if all(size in (1, dim) for size, dim in zip(sizes, dims, strict=True)):
        # Two windows are equal or disjoint. So the first windows of all positions can be applied together,
        # then the second ones, and so on.
        for chosen in _rounds(starts):
            _apply_windows(interpreter, op, results, windows, starts, sizes, chosen)
    else:
        for k in range(len(starts)):
            _apply_windows(interpreter, op, results, windows, starts, sizes, np.array([k]))
    return joined(inst, results)


def _rounds(starts: np.ndarray) -> list[np.ndarray]:
    """Groups the indices of the rows of `starts`: the first occurrence of every row, then the second
    occurrences, and so on. So no group has two equal rows.
    """
    if not len(starts):
        return []
    if not starts.shape[1]:
        return [np.array([k]) for k in range(len(starts))]
    _, group = np.unique(starts, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], group[order])
    occurrence = np.arange(len(order)) - first
    by_round = np.argsort(occurrence, kind="stable")
    cuts = np.searchsorted(occurrence[by_round], np.arange(1, occurrence.max() + 1))
    return [np.sort(order[part]) for part in np.split(by_round, cuts)]


def _apply_windows(
    interpreter: Interpreter,
    op: hlo.Scatter,
    results: list[np.ndarray],
    windows: list[np.ndarray],
    starts: np.ndarray,
    sizes: tuple[int, ...],
    chosen: np.ndarray,
) -> None:
    """Combines the windows of updates with the indices `chosen` with the results, in place. Each window has
    `sizes` and begins at its row of `starts`; the chosen windows must not overlap.
    """
    at = window_places(starts[chosen], sizes)
    old = [r[at] if at else r[None] for r in results]
    new = interpreter.on_scalars(op.to_apply, [*old, *[w[chosen] for w in windows]], old[0].shape)
    for result, value in zip(results, new, strict=True):
        result[at] = convert(value, _dtype_of(result)) if at else value[0]
    interpreter.tick()


def _reduce_window(
    interpreter: Interpreter, inst: Instruction[hlo.ReduceWindow], *operands: HostValue
) -> HostValue:
    """Evaluates reduce-window: combines one offset in the window after another, for all positions of the
    window at once. Elements outside of the operand are ignored.
    """
    op = inst.op
    count = len(operands) // 2
    data, inits = operands[:count], operands[count:]
    dims = places(op, data[0].shape, op.window)
    total = [np.broadcast_to(convert(i, t), dims) for i, t in zip(inits, result_types(inst), strict=True)]
    if not prod(dims):
        return joined(inst, total)
    edges = [padded(x, op.window, 0) for x in data]
    inside = padded(np.ones(data[0].shape, np.bool_), op.window, False)
    for _, where in offsets(op.window, dims):
        seen = inside[where]
        if seen.any():
            new = interpreter.on_scalars(op.to_apply, [*total, *[x[where] for x in edges]], dims)
            total = [np.where(seen, n, t) for n, t in zip(new, total, strict=True)]
        interpreter.tick()
    return joined(inst, total)


def _select_and_scatter(
    interpreter: Interpreter, inst: Instruction[hlo.SelectAndScatter], operand: HostValue, source: HostValue,
    init: HostValue,
) -> HostValue:  # fmt: skip
    op = inst.op
    dims = source.shape
    result = np.full(operand.shape, init, source.dtype)
    if not source.size:
        return result
    edges = padded(operand, op.window, 0)
    inside = padded(np.ones(operand.shape, np.bool_), op.window, False)
    number = padded(np.arange(operand.size).reshape(operand.shape), op.window, 0)
    chosen, at, any_yet = np.zeros(dims, operand.dtype), np.zeros(dims, np.int64), np.zeros(dims, np.bool_)
    for _, where in offsets(op.window, dims):
        (keep,) = interpreter.on_scalars(op.select, [chosen, edges[where]], dims)
        taken = inside[where] & ~(any_yet & keep)
        chosen, at = np.where(taken, edges[where], chosen), np.where(taken, number[where], at)
        any_yet = any_yet | inside[where]
        interpreter.tick()
    flat, values, where_to = result.reshape(-1), source[any_yet], at[any_yet]
    for round_ in _rounds(where_to.reshape(-1, 1)):
        places_now = where_to[round_]
        (flat[places_now],) = interpreter.on_scalars(
            op.scatter, [flat[places_now], values[round_]], (len(round_),)
        )
    return result


def _scan(interpreter: Interpreter, inst: Instruction[hlo.Scan], *operands: HostValue) -> HostValue:
    op = inst.op
    inputs, carries = (
        operands[: len(operands) - op.num_carries],
        list(operands[len(operands) - op.num_carries :]),
    )
    at = op.dimensions[0]
    length = op.length([o.shape for o in inst.operands])
    shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
    outputs = shapes[: len(shapes) - op.num_carries]
    results = [np.zeros(s.dims, s.dtype.numpy) for s in outputs]
    for k in reversed(range(length)) if op.is_reverse else range(length):
        interpreter.tick()
        slices = [x.take(k, axis=at) for x in inputs]
        found = interpreter.run(op.to_apply, [*slices, *carries])
        found = found if isinstance(found, tuple) else (found,)
        carries = list(found[len(results) :])
        for result, value in zip(results, found, strict=False):
            result[(slice(None),) * at + (k,)] = value
    return joined(inst, [*results, *carries])


def _dtype_of(x: np.ndarray) -> DType:
    from axla.core.dtypes import from_numpy

    return from_numpy(x.dtype)


def _sort(interpreter: Interpreter, inst: Instruction[hlo.Sort], *operands: HostValue) -> HostValue:
    if not operands[0].ndim:
        return joined(inst, operands)
    columns = [np.moveaxis(o, inst.op.dimension, 0) for o in operands]
    order = sorted_order(interpreter, inst.op, columns)
    results = [np.moveaxis(np.take_along_axis(c, order, 0), 0, inst.op.dimension) for c in columns]
    return joined(inst, results)


def sorted_order(interpreter: Interpreter, op: hlo.Sort, columns: list[np.ndarray]) -> np.ndarray:
    """For every line along axis 0 of the sort's operands `columns`, the indices of its elements in sorted
    order. Equal elements keep their order.
    """
    length, lines = columns[0].shape[0], columns[0].shape[1:]
    order = np.broadcast_to(np.arange(length).reshape(-1, *[1] * len(lines)), columns[0].shape).copy()
    if interpreter._scalar_plan(op.to_apply) is None:
        _sort_lines(interpreter, op, columns, order)
        return order
    columns = [c.copy() for c in columns]
    # Batcher's merge exchange (Knuth 5.2.2 M) is a sorting network, so all lines can be sorted at once. Equal
    # elements are ordered by index.
    step = top = 1 << max(0, (length - 1).bit_length() - 1)
    while step:
        reach, offset, distance = top, 0, step
        while True:
            first = np.arange(max(0, length - distance))
            first = first[(first & step) == offset]
            if len(first):
                _exchange(interpreter, op, columns, order, first, first + distance)
            if reach == step:
                break
            distance, reach, offset = reach - step, reach // 2, step
        step //= 2
    return order


def _exchange(
    interpreter: Interpreter,
    op: hlo.Sort,
    columns: list[np.ndarray],
    order: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Swaps the elements of `columns` and `order` at the indices `first` and `second` of axis 0 where the
    elements are in the wrong order. `order` has the original index of each element; it decides between equal
    elements.
    """
    dims = (len(first), *order.shape[1:])
    forward = [side for c in columns for side in (c[first], c[second])]
    backward = [side for c in columns for side in (c[second], c[first])]
    (in_order,) = interpreter.on_scalars(op.to_apply, forward, dims)
    (out_of_order,) = interpreter.on_scalars(op.to_apply, backward, dims)
    swap = out_of_order & ~in_order | (out_of_order == in_order) & (order[second] < order[first])
    for c in (*columns, order):
        low, high = c[first], c[second]
        c[first], c[second] = np.where(swap, high, low), np.where(swap, low, high)
    interpreter.tick()


def _sort_lines(interpreter: Interpreter, op: hlo.Sort, columns: list[np.ndarray], order: np.ndarray) -> None:
    for line in np.ndindex(*order.shape[1:]):
        values = [c[(slice(None), *line)] for c in columns]

        def before(a: int, b: int, values: list[np.ndarray] = values) -> int:
            def asked(i: int, j: int) -> bool:
                return bool(interpreter.run(op.to_apply, [np.asarray(v[k]) for v in values for k in (i, j)]))

            return -1 if asked(a, b) else int(asked(b, a))

        order[(slice(None), *line)] = sorted(range(len(order)), key=cmp_to_key(before))


REGIONS.update(by_op(
    _async_start, _bitcast, _call, _conditional, _get_tuple_element, _map, _reduce, _reduce_window, _rng,
    _scan, _scatter, _select_and_scatter, _sort, _tuple, _while, custom_call,
))  # fmt: skip
REGIONS.update({**COLLECTIVES, **TRANSFERS, hlo.Fusion: _call, hlo.RngGetAndUpdateState: _rng_state})
