"""Computes single elements of ops that are neither elementwise nor pure movement: the table `ELEMENT` has a
function per op, from an index of the result to a value for each result. `Elements`, in `walk.py`, calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import axla.hlo as hlo
from axla.codegen import integer
from axla.codegen.array import DenseArray
from axla.codegen.bitcast import bitcast_convert
from axla.codegen.index import AnyIndex, Index, delinearize, linear, placed
from axla.codegen.position import index_value, inside_everywhere
from axla.codegen.value import Value
from axla.codegen.walk import (
    ELEMENT,
    Elements,
    Indices,
    Making,
    accumulate,
    all_of,
    choose,
    dims_of,
    either,
    where_inside,
)
from axla.codegen.window import reduce_window
from axla.core.dtypes import PRED, DType
from axla.core.literal import bytes_in
from axla.ir.graph import Instruction
from axla.ir.op import by_op
from axla.kernels.plan import accumulation_type

WHOLE_PIECES = 3
"""The largest number of operands for which a concatenation has separate code per operand, for vectors that
lie inside it.
"""


def _constant(e: Elements, inst: Instruction[hlo.Constant], index: Indices) -> Value:
    literal = inst.op.literal
    dtype = inst.shape.dtype
    if literal.is_uniform():
        return e.values.constant(dtype, literal.array.flat[0])
    numbers = tuple(i for i in index if isinstance(i, int))
    if len(numbers) == len(index):
        return e.values.constant(dtype, literal.array[numbers])
    pointer = e.f.data(bytes(bytes_in(literal.array, e.f.module.byte_order)))
    return DenseArray(e.values, pointer, dtype, literal.array.shape).load(index, e.lanes)


def _get_tuple_element(e: Elements, inst: Instruction[hlo.GetTupleElement], index: Indices) -> Value:
    return e.all(inst.operands[0], index)[inst.op.index]


def _tuple(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    return tuple(e(o, index) for o in inst.operands)


def _iota(e: Elements, inst: Instruction[hlo.Iota], index: Indices) -> Value:
    dtype: DType = inst.shape.dtype
    position = index[inst.op.iota_dimension]
    return index_value(e.values, position, dtype)


def _broadcast(e: Elements, inst: Instruction[hlo.Broadcast], index: Indices) -> Value:
    dimensions = inst.op.dimensions
    return e(inst.operands[0], tuple(index[d] for d in dimensions))


def _reshape(e: Elements, inst: Instruction, index: Indices) -> Value:
    operand = inst.operands[0]
    return e(operand, reshape_index(index, inst.shape.dims, operand.shape.dims))


def reshape_index(index: Sequence[AnyIndex], result: Sequence[int], operand: Sequence[int]) -> Indices:
    """The operand's index for an index of the reshaped result, computed per group of dimensions, so that
    unchanged dimensions keep their simple form.
    """
    if tuple(result) == tuple(operand):
        return tuple(index)
    found: list[AnyIndex] = []
    r = o = 0
    while r < len(result) or o < len(operand):
        r_end, o_end = r, o
        r_size = o_size = 1
        while True:  # finds the smallest groups of equal size
            if r_size == o_size and (r_end > r or o_end > o):
                break
            if r_end < len(result) and (r_size <= o_size or o_end == len(operand)):
                r_size *= result[r_end]
                r_end += 1
            else:
                o_size *= operand[o_end]
                o_end += 1
        while r_end < len(result) and result[r_end] == 1:
            r_end += 1
        while o_end < len(operand) and operand[o_end] == 1:
            o_end += 1
        offset = linear(index[r:r_end], result[r:r_end])
        found.extend(delinearize(offset, operand[o:o_end]))
        r, o = r_end, o_end
    return tuple(found)


def _compare(e: Elements, inst: Instruction[hlo.Compare], index: Indices) -> Value:
    a, b = (e(o, index) for o in inst.operands)
    return e.values.compare(inst.op.direction, a, b, total_order=inst.op.is_total_order)


def _select(e: Elements, inst: Instruction, index: Indices) -> Value:
    condition, a, b = inst.operands
    at = () if condition.shape.dims == () else index
    x, y = e(a, index), e(b, index)
    tests = _sign_tests(condition, a, b)
    if tests is not None and y.lanes == 1:
        differ, is_some = (e(o, at) for o in tests)
        # With a jump, the CPU continues with y before the test is computed.
        if differ.lanes == 1 and integer.jumps(e.values.m.reg(differ.ssa)):
            return either(e, differ, lambda: (e.values.select(is_some, x, y),), lambda: (y,), likely=False)[0]
    return e.values.select(e(condition, at), x, y)


def _sign_tests(condition: Instruction, a: Instruction, b: Instruction) -> list[Instruction] | None:
    """Recognises the correction of a remainder `b` to the sign of its divisor, as in Python; `a` is b plus
    the divisor. Returns the operands of `condition`: whether the signs differ, which is rare, and whether b
    is not 0. Returns None for any other select.
    """
    if type(condition.op) is not hlo.And or type(b.op) is not hlo.Remainder or type(a.op) is not hlo.Add:
        return None
    tests = sorted(condition.operands, key=lambda test: b in test.operands)
    corrects = set(a.operands) == {b, b.operands[1]} and b.shape.dtype.is_integer
    return tests if corrects and b not in tests[0].operands and b in tests[1].operands else None


def _clamp(e: Elements, inst: Instruction, index: Indices) -> Value:
    low, x, high = inst.operands
    low_at, high_at = (() if o.shape.dims == () else index for o in (low, high))
    return e.values.clamp(e(low, low_at), e(x, index), e(high, high_at))


def _convert(e: Elements, inst: Instruction, index: Indices) -> Value:
    return e.values.convert(e(inst.operands[0], index), inst.shape.dtype)


def _reduce_precision(e: Elements, inst: Instruction[hlo.ReducePrecision], index: Indices) -> Value:
    return e.values.reduce_precision(e(inst.operands[0], index), inst.op.exponent_bits, inst.op.mantissa_bits)


def _copy(e: Elements, inst: Instruction, index: Indices) -> Value:
    return e(inst.operands[0], index)


def _pad(e: Elements, inst: Instruction[hlo.Pad], index: Indices) -> Value:
    operand = inst.operands[0]
    dims, edges = dims_of(operand) or (), pad_dims(inst)
    if any(interior for _, _, interior in edges):
        cases = _every_other(e, inst, index)
    else:
        moved = tuple(i - low for i, (low, _, _) in zip(index, edges, strict=True))
        cases = [(inside_everywhere(e.values, moved, dims), lambda: (e(operand, moved),))]
    (found,) = where_inside(e, cases, e.lanes_at(index), lambda: (_padded(e, inst, index),))
    return found


def _every_other(
    e: Elements, inst: Instruction[hlo.Pad], index: Indices
) -> list[tuple[Value | None, Making]]:
    """Cases, for `where_inside`, of a `pad` whose last dimension has interior padding 1, where lanes run
    along that dimension: either all lanes read padding, or every other lane does. Returns no cases for any
    other `pad`.
    """
    (operand, padding), f, values = inst.operands, e.f, e.values
    *outer, last = index
    *edges, (low, _, interior) = pad_dims(inst)
    *sizes, size = operand.shape.dims
    if isinstance(last, int) or last.stride != 1 or interior != 1 or last.lanes % 2 or size < last.lanes:
        return []
    places = [_place(e, i, n, edge) for i, n, edge in zip(outer, sizes, edges, strict=True)]
    here = all_of(values, [condition for condition, _ in places])
    if here is False or here is not True and here.lanes > 1:
        return []
    lanes, base = last.lanes, (last - low).base
    first = f.binary("ashr", f.add(base, 1), f.index(1))
    inside = f.binary("and", f.icmp("sge", first, 0), f.icmp("sle", f.add(first, lanes), size))

    def blank() -> Value:
        return values.splat(e(padding, ()), lanes)

    def spread() -> tuple[Value, ...]:
        x = values.splat(
            e(operand, (*(at for _, at in places), Index(f, first, 1, lanes, limit=size))), lanes
        )
        begins, filled = Value(PRED, 1, (f.icmp("eq", f.binary("and", base, f.index(1)), 0),)), blank()
        orders = ([n // 2 if n % 2 == odd else lanes for n in range(lanes)] for odd in (0, 1))
        return (values.select(begins, *(values.shuffle(x, filled, order) for order in orders)),)

    rows = [] if here is True else [(values.unary("not", here), lambda: (blank(),))]
    return [*rows, (Value(PRED, 1, (inside,)), spread)]


def _padded(e: Elements, inst: Instruction[hlo.Pad], index: Indices) -> Value:
    """An element of `pad` in the general case, with edge padding and interior padding."""
    operand, padding = inst.operands
    dims = zip(index, operand.shape.dims, pad_dims(inst), strict=True)
    places = [_place(e, i, size, edges) for i, size, edges in dims]
    condition, at = all_of(e.values, [here for here, _ in places]), tuple(at for _, at in places)
    return choose(e.values, condition, lambda: e(operand, at), lambda: e(padding, ()))


def _place(e: Elements, i: AnyIndex, size: int, edges: tuple[int, int, int]) -> tuple[Value | bool, AnyIndex]:
    """(whether index `i` of a padded dimension falls on an element of the operand, the index of that
    element). `size` is the operand's size; `edges` has the (low, high, interior) padding.
    """
    low, _, interior = edges
    if edges == (0, 0, 0):  # no test is needed, so lanes along it stay in order
        return True, i
    moved, step = i - low, interior + 1
    inside = e.in_range(moved, 0, (size - 1) * step + 1) if size else False
    if step > 1 and size:
        clamped = e.clamp_index(moved, (size - 1) * step + 1)
        return all_of(e.values, [inside, e.in_range(clamped % step, 0, 1)]), clamped // step
    return inside, moved if inside is True else e.clamp_index(moved, max(size, 1))


def pad_dims(inst: Instruction[hlo.Pad]) -> list[tuple[int, int, int]]:
    """(low, high, interior) padding of each dimension."""
    padding = inst.op.padding
    return list(zip(padding.low, padding.high, padding.interior, strict=True))


def _concatenate(e: Elements, inst: Instruction[hlo.Concatenate], index: Indices) -> Value:
    dimension = inst.op.dimensions[0]
    position = index[dimension]
    pieces, offset = [], 0
    for operand in inst.operands:
        size = operand.shape.dims[dimension]
        if size:
            pieces.append((operand, offset, size))
        offset += size

    def at(here: AnyIndex) -> Indices:
        return (*index[:dimension], here, *index[dimension + 1 :])

    def piece(number: int) -> Value:
        operand, start, size = pieces[number]
        return e(operand, at(e.clamp_index(position - start, size)))

    def inside(number: int) -> tuple[Value | None, Making]:
        operand, start, size = pieces[number]
        moved = position - start
        here = inside_everywhere(e.values, (moved,), (size,)) if size >= e.lanes else None
        return here, lambda: (e(operand, at(moved)),)

    def anywhere() -> tuple[Value, ...]:
        found = piece(len(pieces) - 1)
        for number in range(len(pieces) - 2, -1, -1):
            _, start, size = pieces[number]
            condition = e.in_range(position, 0, start + size)
            found = choose(e.values, condition, lambda n=number: piece(n), lambda found=found: found)
        return (found,)

    if isinstance(position, int):
        number = next(k for k, (_, start, size) in enumerate(pieces) if start <= position < start + size)
        operand, start, _ = pieces[number]
        return e(operand, at(position - start))
    cases = [inside(number) for number in range(len(pieces))] if len(pieces) <= WHOLE_PIECES else []
    (found,) = where_inside(e, cases, e.lanes_at(index), anywhere)
    return found


def _dynamic_slice(e: Elements, inst: Instruction, index: Indices) -> Value:
    operand, *starts = inst.operands
    dims, sizes = operand.shape.dims, inst.shape.dims
    at = [s + i for s, i in zip(e.window_start(starts, dims, sizes), index, strict=True)]
    return e(operand, tuple(at))


def dynamic_update_slice(e: Elements, inst: Instruction, index: Indices) -> Value:
    """An element of a `dynamic-update-slice`: from the update if the index is inside its window, else from
    the operand.
    """
    operand, update, *starts = inst.operands
    dims, sizes = operand.shape.dims, update.shape.dims
    conditions: list[Value | bool] = []
    at: list[AnyIndex] = []
    for start, i, size in zip(e.window_start(starts, dims, sizes), index, sizes, strict=True):
        moved: AnyIndex = start * -1 + i
        conditions.append(e.in_range(moved, 0, size))
        at.append(e.clamp_index(moved, max(size, 1)))
    condition = all_of(e.values, conditions)
    return choose(e.values, condition, lambda: e(update, tuple(at)), lambda: e(operand, index))


def _gather(e: Elements, inst: Instruction[hlo.Gather], index: Indices) -> Value:
    operand, starts = inst.operands
    at = gather_index(e, inst.op, operand.shape.dims, starts, index)
    return e(operand, at)


def gather_index(
    e: Elements, op: hlo.Gather, dims: Sequence[int], starts: Instruction, index: Indices
) -> Indices:
    """The index into the operand, an array of `dims`, that a gather reads for an index of its result.
    `starts` is the gather's operand with the start indices.
    """
    offset_dims = op.offset_dims
    batch = [index[d] for d in range(len(index)) if d not in offset_dims]
    offsets = [index[d] for d in offset_dims]
    vector_dim = op.index_vector_dim
    start: dict[int, AnyIndex] = {}
    for k, d in enumerate(op.start_index_map):
        where = list(batch)
        if vector_dim < starts.shape.rank:
            where.insert(vector_dim, k)
        size = op.slice_sizes[d]
        start[d] = e.start_index(e(starts, tuple(where)), dims[d] - size)
    found: list[AnyIndex] = []
    remaining = iter(offsets)
    batch_of = dict(zip(op.operand_batching_dims, op.start_indices_batching_dims, strict=True))
    for d in range(len(dims)):
        i = start.get(d, 0)
        if d in batch_of:
            position = batch_of[d] - (1 if batch_of[d] > vector_dim else 0)
            i = batch[position]
        elif d not in op.dropped:
            i = next(remaining) + i
        found.append(i)
    return tuple(found)


def _reduce(e: Elements, inst: Instruction[hlo.Reduce], index: Indices) -> tuple[Value, ...]:
    count = len(inst.operands) // 2
    inputs, inits = inst.operands[:count], inst.operands[count:]
    dims = inputs[0].shape.dims
    reduced = inst.op.dimensions
    kept = [d for d in range(len(dims)) if d not in reduced]

    def step(accumulators: tuple[Value, ...], at: Sequence[AnyIndex]) -> tuple[Value, ...]:
        full = placed(len(dims), (kept, index), (reduced, at))
        arguments = [e(x, full) for x in inputs]
        return e.apply(inst.op.to_apply, (*accumulators, *arguments))

    first = tuple(e(x, ()) for x in inits)
    return accumulate(e, inst, [dims[d] for d in reduced], first, step, e.lanes_at(index))


def _dot(e: Elements, inst: Instruction[hlo.Dot], index: Indices) -> Value:
    lhs, rhs = inst.operands
    op = inst.op
    out: DType = inst.shape.dtype
    batch = list(index[: len(op.lhs_batch_dims)])
    lhs_free, rhs_free = op.lhs_free(lhs.shape.rank), op.rhs_free(rhs.shape.rank)
    free = list(index[len(batch) :])
    accumulator = accumulation_type(out)

    def operand(x: Instruction, batch_dims, contracting, free_dims, free_index, at) -> Value:
        rank = x.shape.rank
        full = placed(rank, (batch_dims, batch), (contracting, at), (free_dims, free_index))
        return e.values.convert(e(x, full), accumulator)

    def step(accumulators: tuple[Value, ...], at: Sequence[AnyIndex]) -> tuple[Value, ...]:
        a = operand(lhs, op.lhs_batch_dims, op.lhs_contracting_dims, lhs_free, free[: len(lhs_free)], at)
        b = operand(rhs, op.rhs_batch_dims, op.rhs_contracting_dims, rhs_free, free[len(lhs_free) :], at)
        if accumulator is PRED:
            return (e.values.binary("or", accumulators[0], e.values.binary("and", a, b)),)
        product = e.values.binary("multiply", a, b)
        return (product if is_first(at) else e.values.binary("add", accumulators[0], product),)

    def is_first(at: Sequence[AnyIndex]) -> bool:
        """Whether `at` is the first term in unrolled code, where the sum starts with that term instead of 0:
        a sum of -0s is then -0.
        """
        return e.scalar and accumulator.is_float and not any(at)

    sizes = [lhs.shape.dims[d] for d in op.lhs_contracting_dims]
    (total,) = accumulate(e, inst, sizes, (e.values.constant(accumulator, 0),), step, e.lanes_at(index))
    return e.values.convert(total, out)


def _map(e: Elements, inst: Instruction[hlo.Map], index: Indices) -> tuple[Value, ...]:
    return e.apply(inst.op.to_apply, [e(o, index) for o in inst.operands])


def _call(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    (computation,) = inst.op.computations()
    return e.inline(computation, inst.operands).results(computation, index)


def _conditional(e: Elements, inst: Instruction, index: Indices) -> tuple[Value, ...]:
    """Computes a conditional inside a kernel or a combiner: by a branch if the condition has one lane, else
    by both sides and a select.
    """
    selector = e(inst.operands[0], ())
    computations = inst.op.computations()
    branches = zip(computations, inst.operands[1:], strict=True)
    results = [lambda c=c, o=o: e.inline(c, (o,)).results(c, index) for c, o in branches]

    def pick(condition: Value, a: Callable[[], tuple[Value, ...]], b: Callable[[], tuple[Value, ...]]):
        if condition.lanes == 1:
            return either(e, condition, a, b)
        pairs = zip(a(), b(), strict=True)
        return tuple(e.values.select(condition, x, y) for x, y in pairs)

    if selector.dtype.is_pred:
        return pick(selector, results[0], results[1])

    def among(first: int) -> tuple[Value, ...]:
        if first == len(results) - 1:  # also for selectors out of range
            return results[first]()
        condition = e.values.compare("EQ", selector, e.values.constant(selector.dtype, first))
        return pick(condition, results[first], lambda: among(first + 1))

    return among(0)


ELEMENT.update(by_op(
    _broadcast, _call, _clamp, _compare, _concatenate, _conditional, _constant, _convert, _copy, _dot,
    _dynamic_slice, _gather, _get_tuple_element, _iota, _map, _pad, _reduce, _reduce_precision, _reshape,
    _select, _tuple, bitcast_convert, dynamic_update_slice, reduce_window,
))  # fmt: skip
ELEMENT.update({hlo.Fusion: _call, hlo.OptBarrier: _copy})
