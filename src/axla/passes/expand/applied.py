"""Expands ops that apply computations that are not straight-line code (they contain loops, sorts, host
calls...): a loop calls the computation element by element, in the order of the interpreter.

A map becomes a loop over its elements. reduce, reduce-window and scatter become a loop that takes the values
in order and combines each with the element at its index. A sort merges runs of 1, 2, 4... elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from axla import hlo
from axla.builder import ops
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import PRED, S64
from axla.core.shape import Shape
from axla.ir.attributes import PaddingConfig, Window
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import computations_callees_first
from axla.ir.typed import shape_of
from axla.passes.expand.expander import expand, typed, written
from axla.passes.matrix import function, like, repeat, where
from axla.target.machine import Limits, Target

Apply = Callable[..., list[XlaOp]]


def application_expander(module: Module, target: Target) -> None:
    """Replaces by a loop every map, reduce, reduce-window, scatter and sort whose computation cannot be
    emitted in line.
    """
    version = -1
    while version != module.version:  # the calls in new loops may apply such computations themselves
        version = module.version
        called = _called(module)
        combining = called | {c for c in module.computations if _is_long(c, target.limits)}

        def expanded(
            inst: Instruction, called: set[Computation] = called, combining: set[Computation] = combining
        ) -> Instruction | None:
            loop, applied = _LOOPS[type(inst.op)], inst.op.computations()[0]
            loops = applied in (called if isinstance(inst.op, hlo.Map) else combining)
            return written(inst, loop, partial(_apply, applied)) if loops else None

        expand(module, "application-expander", dict.fromkeys(_LOOPS, expanded))


def _called(module: Module) -> set[Computation]:
    """The computations that cannot be emitted in line, because of an instruction or of a computation that
    they call.
    """
    found: set[Computation] = set()
    for computation in computations_callees_first(module):
        for inst in computation.instructions:
            op = inst.op
            in_line = op.elementwise or op.in_line or hasattr(op, "source")
            if not in_line or any(c in found for c in op.computations()):
                found.add(computation)
    return found


def _is_long(computation: Computation, limits: Limits) -> bool:
    """Whether the code of a computation that calls no others is too long to be emitted in line for each
    element.
    """
    inside = [inst.op for inst in computation.instructions]
    if any(op.computation_fields for op in inside):
        return False
    return sum(limits.line_function if op.elementwise and op.expensive else 1 for op in inside) > limits.line


def _apply(computation: Computation, *given: XlaOp) -> list[XlaOp]:
    """Calls a computation with scalars, which are converted to the types of its parameters."""
    values = [typed(x, p.shape.dtype) for x, p in zip(given, computation.parameters, strict=True)]
    found = ops.Call(given[0].builder, computation, values)
    return list(found) if found.shape.is_tuple else [found]


def _put(x: XlaOp, value: XlaOp, place: XlaOp) -> XlaOp:
    return ops.DynamicUpdateSlice(x, ops.Reshape(like(value, x), [1]), [place])


def flat(x: XlaOp) -> XlaOp:
    """The elements of an array as one dimension."""
    return ops.Reshape(x, [prod(x.dims)])


def numbered(builder: XlaBuilder, dims: Sequence[int]) -> XlaOp:
    """An array of the given dimensions in which every element is its own row-major index."""
    return ops.Reshape(ops.Iota(builder, S64, prod(dims)), dims)


def _map(inst: Instruction[hlo.Map], apply: Apply, *given: XlaOp) -> list[XlaOp]:
    shape = shape_of(inst)
    places = numbered(given[0].builder, shape.dims)
    nothing = ops.Broadcast(ops.Zero(places.builder, shape.dtype), shape.dims)
    return _folded(lambda _, *xs: apply(*xs), [nothing], places, given)


def _folded(apply: Apply, totals: Sequence[XlaOp], at: XlaOp, values: Sequence[XlaOp]) -> list[XlaOp]:
    """Combines values with the elements of `totals` at the row-major indices `at`, one after the other:
    `apply` returns the new elements for the old elements and the values. Values with a negative index are
    ignored. Returns the new totals.
    """
    count, dims = len(totals), totals[0].dims

    def taken(*state: XlaOp) -> list[XlaOp]:
        return [like(x, old) for x, old in zip(apply(*state), state, strict=False)]

    def step(k: XlaOp, at: XlaOp, *state: XlaOp) -> Sequence[XlaOp]:
        totals, values, place = state[:count], state[count:], at[k]
        start = ops.Tuple(at.builder, [*[t[place] for t in totals], *[v[k] for v in values]])
        branches = (function("taken", taken, start), function("left_out", lambda *s: s[:count], start))
        new = ops.Conditional(place >= 0, start, branches[0], start, branches[1])
        return at, *[_put(t, x, place) for t, x in zip(totals, new, strict=True)], *values

    state = [flat(x) for x in (at, *totals, *values)]
    return [ops.Reshape(t, dims) for t in repeat(prod(at.dims), state, step)[1 : 1 + count]]


def _windows(inst: Instruction[hlo.Reduce | hlo.ReduceWindow], apply: Apply, *given: XlaOp) -> list[XlaOp]:
    """Computes a reduce or reduce-window by listing the elements that the window covers at each of its
    positions. The window of a reduce covers all reduced dimensions. `apply` combines elements; `given` has
    the arrays, then their initial values.
    """
    op, half, builder, whole = inst.op, len(given) // 2, given[0].builder, given[0].dims
    results = list(inst.shape.arrays())
    if isinstance(op, hlo.Reduce):
        window = Window(tuple(n if d in op.dimensions else 1 for d, n in enumerate(whole)))
        dims = tuple(1 if d in op.dimensions else n for d, n in enumerate(whole))
    else:
        window, dims = op.window, results[0].dims
    totals = [ops.Broadcast(typed(x, s.dtype), dims) for x, s in zip(given[half:], results, strict=True)]
    every = Shape(S64, (*dims, *window.size))  # all covered elements, window position by window position
    if not every.size:
        return [ops.Reshape(x, results[0].dims) for x in totals]
    config = PaddingConfig(window.low, window.high, tuple(n - 1 for n in window.base_dilation))
    edges = [ops.Pad(x, ops.Zero(builder, x.dtype), config) for x in given[:half]]
    there = ops.Broadcast(ops.One(builder, PRED), whole)
    inside = ops.Pad(there, ops.Zero(builder, PRED), config)
    rank, seen = len(dims), ops.Broadcast(ops.Zero(builder, S64), every.dims)
    for d, n in enumerate(inside.dims):
        place, offset = ops.Iota(builder, every, d), ops.Iota(builder, every, rank + d)
        seen = seen * n + place * window.stride[d] + offset * window.window_dilation[d]
    at = ops.BroadcastInDim(numbered(builder, dims), every.dims, range(rank))
    at = where(taken_at(inside, seen), at, -1)
    found = _folded(apply, totals, at, [taken_at(x, seen) for x in edges])
    return [ops.Reshape(x, results[0].dims) for x in found]


def taken_at(x: XlaOp, places: XlaOp) -> XlaOp:
    """The elements of `x` at the given row-major indices."""
    take = hlo.Gather((), (0,), (0,), index_vector_dim=len(places.dims), slice_sizes=(1,))
    return x.builder.add(take, (flat(x), places))


def _scatter(inst: Instruction[hlo.Scatter], apply: Apply, *given: XlaOp) -> list[XlaOp]:
    op, half, builder = inst.op, len(given) // 2, given[0].builder
    totals, indices, updates = given[:half], given[half], given[half + 1 :]
    dims, whole = totals[0].dims, updates[0].dims
    sizes = op.window_sizes(len(dims), whole)
    if not prod(whole) or any(size > n for size, n in zip(sizes, dims, strict=True)):
        return list(totals)
    gather = hlo.Gather(
        op.update_window_dims, op.inserted_window_dims, op.scatter_dims_to_operand_dims,
        op.input_batching_dims, op.scatter_indices_batching_dims, op.index_vector_dim, sizes,
    )  # fmt: skip
    at = builder.add(gather, (numbered(builder, dims), indices))
    batch = [d for d in range(len(whole)) if d not in op.update_window_dims]
    vectors = indices.dims if op.index_vector_dim < len(indices.dims) else (*indices.dims, 1)
    indices = ops.Reshape(typed(indices, S64), vectors)
    for k, d in enumerate(op.scatter_dims_to_operand_dims):
        start = ops.SliceInDim(indices, k, k + 1, 1, op.index_vector_dim)
        inside = ops.Reshape((start >= 0) & (start <= dims[d] - sizes[d]), [whole[d] for d in batch])
        at = where(ops.BroadcastInDim(inside, whole, batch), at, -1)
    order = (*batch, *op.update_window_dims)  # window after window
    at, *values = [ops.Transpose(x, order) for x in (at, *updates)]
    return _folded(apply, totals, at, values)


def _sort(inst: Instruction[hlo.Sort], apply: Apply, *given: XlaOp) -> list[XlaOp]:
    dims, builder = given[0].dims, given[0].builder
    if not dims or not prod(dims):
        return list(given)
    last = inst.op.dimension
    length = dims[last]
    transposed = (*(d for d in range(len(dims)) if d != last), last)
    lines = [flat(ops.Transpose(x, transposed)) for x in given]

    def merged(_: XlaOp, width: XlaOp, order: XlaOp, *lines: XlaOp) -> Sequence[XlaOp]:
        start = [ops.ZerosLike(width), ops.ZerosLike(width), order, width, order, *lines]
        return width * 2, repeat(prod(dims), start, step)[2], *lines

    def step(
        k: XlaOp, left: XlaOp, right: XlaOp, made: XlaOp, width: XlaOp, order: XlaOp, *lines: XlaOp
    ) -> Sequence[XlaOp]:
        k = typed(k, S64)
        begin = k - k % length % (width * 2)
        end = k - k % length + length
        middle, end = ops.Min(begin + width, end), ops.Min(begin + width * 2, end)
        left, right = ops.Select(k == begin, begin, left), ops.Select(k == begin, middle, right)
        a, b = order[left], order[right]
        (before,) = apply(*[x[place] for x in lines for place in (b, a)])
        take = (right < end) & ((left >= middle) | before)
        moved = typed(take, S64)
        made = _put(made, ops.Select(take, b, a), k)
        return left + 1 - moved, right + moved, made, width, order, *lines

    start = [ops.One(builder, S64), numbered(builder, [prod(dims)]), *lines]
    order = repeat((length - 1).bit_length(), start, merged)[1]
    back = np.argsort(transposed).tolist()
    shape = [dims[d] for d in transposed]
    return [ops.Transpose(ops.Reshape(taken_at(x, order), shape), back) for x in lines]


_LOOPS: dict[type[Op], Callable[..., list[XlaOp]]] = {
    hlo.Map: _map,
    hlo.Reduce: _windows,
    hlo.ReduceWindow: _windows,
    hlo.Scatter: _scatter,
    hlo.Sort: _sort,
}
