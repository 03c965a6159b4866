"""Rules of operations that move elements: shapes, slices, padding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from axla.stablehlo import mlir
from axla.stablehlo.sizes import Bounded
from axla.stablehlo.tables import by_name
from axla.stablehlo.verify.elementwise import shape_operand_follows
from axla.stablehlo.verify.kinds import Facts, agree, constant, elements_fit, fits, narrower
from axla.stablehlo.verify.subject import Subject

I32 = mlir.IntegerType(32)


def broadcast(s: Subject) -> None:
    sizes = s.integers("broadcast_sizes")
    s.need(min(sizes, default=0) >= 0, "c1", "sizes are not negative, found {}", sizes)
    s.follows("c2", sizes + s.operands[0].sizes, s.operands[0].element)


def broadcast_in_dim(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    _same_scale(s, "c1", operand, result)
    dims = _broadcast_dimensions(s, operand, result)
    for at, (size, dim) in enumerate(zip(operand.sizes, dims, strict=True)):
        wanted = result.sizes[dim]
        fit = size in (1, wanted) or size is None
        s.need(fit, "c5", "dimension {} of {} is 1 or dimension {} of {}", at, operand, dim, result)
    _broadcast_axis(s, operand, result, dims)


def dynamic_broadcast_in_dim(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    _same_elements(s, operand, result)
    s.need(result.rank >= operand.rank, "c3", "a rank of at least {}, found {}", operand.rank, result)
    dims = _broadcast_dimensions(s, operand, result)
    given = constant(s.operation.operands[1])
    for at, (size, dim) in enumerate(zip(operand.sizes, dims, strict=True)):
        wanted = result.sizes[dim]
        fit = (
            size == 1 or fits(size, wanted) and (given is None or dim >= len(given) or fits(size, given[dim]))
        )
        s.need(fit, "c5", "dimension {} of {} is 1 or dimension {} of {}", at, operand, dim, result)
    shape_operand_follows(s, "c7", 1)
    growing = s.integers("known_expanding_dimensions")
    staying = s.integers("known_nonexpanding_dimensions")
    s.unique("c8", "what is known of expansion", growing + staying)
    s.in_range("c9", "known_expanding_dimensions", growing, operand.rank)
    s.in_range("c10", "known_nonexpanding_dimensions", staying, operand.rank)
    _broadcast_axis(s, operand, result, dims)


def _broadcast_dimensions(s: Subject, operand: Facts, result: Facts) -> tuple[int, ...]:
    dims = s.integers("broadcast_dimensions")
    s.need(len(dims) == operand.rank, "c2", "{} broadcast_dimensions, found {}", operand.rank, dims)
    s.unique("c4", "broadcast_dimensions", dims)
    s.in_range("c3", "broadcast_dimensions", dims, result.rank)
    return dims


def _broadcast_axis(s: Subject, operand: Facts, result: Facts, dims: tuple[int, ...]) -> None:
    """The axis of quantization moves along; one scale is the scale of all."""
    before, after = operand.element, result.element
    if not (isinstance(after, mlir.QuantizedType) and after.axes and isinstance(before, mlir.QuantizedType)):
        return
    s.need(before.axes, "c1", "both are quantized per axis, found {} and {}", operand, result)
    axis = before.axes[0]
    message = "the axis of quantization is {}, found {}"
    s.need(after.axes[0] == dims[axis], "c6", message, dims[axis], result)
    if operand.sizes[axis] == 1:
        same = set(after.scales) <= {before.scales[0]} and set(after.zero_points) <= {before.zero_points[0]}
        s.need(same, "c6", "scales and zero points are those of {}, found {}", operand, result)


def _same_elements(s: Subject, operand: Facts, result: Facts) -> None:
    """Element types are equal, up to the parameters of a quantized one."""
    fit = elements_fit(operand.element, result.element)
    s.need(fit, "c1", "all have the same element type, found {} and {}", operand, result)
    _same_scale(s, "c1", operand, result)


def _same_scale(s: Subject, rule: str, a: Facts, b: Facts) -> None:
    """Types quantized per tensor are equal."""
    if isinstance(a.element, mlir.QuantizedType) and not a.element.axes:
        s.need(a.element == b.element, rule, "one scale and zero point, found {} and {}", a, b)


def _same_scales(s: Subject, rule: str, a: Facts, b: Facts) -> None:
    """The same for types quantized per axis; the axis may differ."""
    _same_scale(s, rule, a, b)
    x, y = a.element, b.element
    if isinstance(x, mlir.QuantizedType) and isinstance(y, mlir.QuantizedType) and x.axes and y.axes:
        same = (x.scales, x.zero_points) == (y.scales, y.zero_points)
        s.need(same, rule, "the same scales and zero points, found {} and {}", a, b)


def reshape(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    if operand.is_static and result.is_static:
        fit = math.prod(operand.sizes) == math.prod(result.sizes)  # type: ignore[arg-type]
        s.need(fit, "c2", "as many elements, found {} and {}", operand, result)
    _same_scales(s, "c1", operand, result)
    x, y = operand.element, result.element
    if isinstance(x, mlir.QuantizedType) and isinstance(y, mlir.QuantizedType) and x.axes and y.axes:
        before, after = operand.sizes, result.sizes
        at, to = x.axes[0], y.axes[0]
        fit = fits(before[at], after[to])
        s.need(fit, "c3", "the quantized dimension keeps its size, found {} and {}", operand, result)
        for outer, inner in ((before[:at], after[:to]), (before[at + 1 :], after[to + 1 :])):
            if None not in outer and None not in inner:
                same = math.prod(outer) == math.prod(inner)  # type: ignore[arg-type]
                message = "as many elements around each quantized one, found {} and {}"
                s.need(same, "c3", message, operand, result)


def dynamic_reshape(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    fit = elements_fit(operand.element, result.element)
    s.need(fit, "c1", "all have the same element type, found {} and {}", operand, result)
    shape_operand_follows(s, "c4", 1)
    given = constant(s.operation.operands[1])
    if operand.is_static and given is not None:
        same = math.prod(operand.sizes) == math.prod(given)  # type: ignore[arg-type]
        s.need(same, "c2", "as many elements as {}, found {}", operand, tuple(given))
    reshape(s)


def transpose(s: Subject) -> None:
    operand, result = s.operands[0], s.results[0]
    order = s.integers("permutation")
    fit = sorted(order) == list(range(operand.rank))
    s.need(fit, "c2", "a permutation of {} dimensions, found {}", operand.rank, order)
    _same_scales(s, "c1", operand, result)
    after, before = result.element, operand.element
    shape = operand.dims
    s.follows("c3", tuple([shape[dim] for dim in order]), operand.element)
    if isinstance(after, mlir.QuantizedType) and after.axes and isinstance(before, mlir.QuantizedType):
        fit = before.axes and before.axes[0] == order[after.axes[0]]
        s.need(fit, "c4", "the axis of quantization moves along, found {} and {}", operand, result)


def reverse(s: Subject) -> None:
    dims = s.integers("dimensions")
    s.unique("c2", "dimensions", dims)
    s.in_range("c3", "dimensions", dims, s.operands[0].rank)
    s.follows("c1", s.operands[0].extents, s.operands[0].element)


def concatenate(s: Subject) -> None:
    s.need(s.operands, "c3", "at least one operand")
    first = s.operands[0]
    at = s.integer("dimension")
    s.need(first.rank, "c4", "scalars cannot be concatenated, found {}", first)
    s.in_range("c4", "dimension", (at,), first.rank)
    shape: list[int | None] = list(first.dims)
    for other in s.operands[1:]:
        sizes = other.dims
        s.need(len(sizes) == len(shape), "c2", "operands of one rank, found {} and {}", first, other)
        for dim, (known, size) in enumerate(zip(shape, sizes, strict=True)):
            if dim == at:
                shape[dim] = None if known is None or size is None else known + size
                continue
            fit = agree(known, size)
            s.need(fit, "c2", "shapes match but in dimension {}, found {} and {}", at, first, other)
            shape[dim] = narrower(known, size)
    s.follows("c6", tuple(shape), first.element)


def slice_(s: Subject) -> None:
    operand = s.operands[0]
    starts, limits, strides = [s.integers(n) for n in ("start_indices", "limit_indices", "strides")]
    sizes = [len(starts), len(limits), len(strides)]
    s.need(sizes == [operand.rank] * 3, "c2", "{} starts, limits and strides, found {}", operand.rank, sizes)
    shape: list[int] = []
    rows = zip(operand.dims, starts, limits, strides, strict=True)
    for at, (end, start, limit, stride) in enumerate(rows):
        fit = 0 <= start <= limit and (end is None or limit <= end)
        s.need(fit, "c3", "0 <= start <= limit <= {}, found {} and {} in dimension {}", end, start, limit, at)
        s.need(stride > 0, "c4", "a stride is positive, found {} in dimension {}", stride, at)
        shape.append(-(-(limit - start) // stride))
    s.follows("c5", tuple(shape), operand.element)


def real_dynamic_slice(s: Subject) -> None:
    operand, start, limit, stride = s.operands
    s.need(start.type == limit.type == stride.type, "c1", "starts, limits and strides of one type")
    rank = start.sizes[0]
    s.need(rank == operand.rank, "c2", "{} starts, limits and strides, found {}", operand.rank, start)
    same = operand.element == s.results[0].element and operand.rank == s.results[0].rank
    s.need(same, "c3", "the result has rank and elements of {}, found {}", operand, s.results[0])
    given = [constant(value) for value in s.operation.operands[1:]]
    if all(values is not None for values in given):
        for at, (low, high, step) in enumerate(zip(*[v or [] for v in given], strict=True)):
            size = operand.sizes[at]
            fit = 0 <= low <= high and (size is None or high <= size) and step > 0
            s.need(fit, "c4", "0 <= start <= limit <= {}, found {} and {} by {}", size, low, high, step)


def dynamic_slice(s: Subject) -> None:
    operand, starts = s.operands[0], s.operands[1:]
    sizes = s.integers("slice_sizes")
    message = "{} starts and sizes, found {} and {}"
    counts = len(starts) == len(sizes) == operand.rank
    s.need(counts, "c2", message, operand.rank, len(starts), len(sizes))
    _one_index_type(s, "c3", starts)
    for at, size in enumerate(sizes):
        end = operand.sizes[at]
        fit = size >= 0 and (end is None or size <= end)
        s.need(fit, "c4", "0 <= size <= {}, found {} in dimension {}", end, size, at)
    s.need(operand.element == s.results[0].element, "c1", "elements of {}, found {}", operand, s.results[0])
    s.follows("c5", sizes, operand.element)


def _one_index_type(s: Subject, rule: str, starts: list[Facts]) -> None:
    for start in starts[1:]:
        same = start.element == starts[0].element
        s.need(same, rule, "starts of one type, found {} and {}", starts[0], start)


def dynamic_update_slice(s: Subject) -> None:
    operand, update, starts = s.operands[0], s.operands[1], s.operands[2:]
    s.need(update.element == operand.element, "c2", "elements of {}, found {}", operand, update)
    s.need(update.rank == operand.rank, "c3", "an update of rank {}, found {}", operand.rank, update)
    s.need(len(starts) == operand.rank, "c4", "{} starts, found {}", operand.rank, len(starts))
    _one_index_type(s, "c5", starts)
    for size, end in zip(update.sizes, operand.sizes, strict=True):
        fit = size is None or end is None or size <= end
        s.need(fit, "c6", "an update no larger than {}, found {}", operand, update)
    s.need(operand.element == s.results[0].element, "c1", "elements of {}, found {}", operand, s.results[0])
    s.follows("c1", operand.extents, operand.element)


def pad(s: Subject) -> None:
    operand = s.operands[0]
    low, high, inner = [
        s.integers(f"{n}") for n in ("edge_padding_low", "edge_padding_high", "interior_padding")
    ]
    sizes = [len(low), len(high), len(inner)]
    s.need(sizes == [operand.rank] * 3, "c2", "padding of {} dimensions, found {}", operand.rank, sizes)
    _padded(s, low, high, inner)


def _padded(s: Subject, low: Sequence[int], high: Sequence[int], inner: Sequence[int]) -> None:
    """The sizes that follow."""
    operand, shape = s.operands[0], list[int | None]()
    for at, size in enumerate(operand.dims):
        s.need(inner[at] >= 0, "c3", "interior padding is not negative, found {}", inner)
        padded = None if size is None else size + low[at] + high[at] + max(size - 1, 0) * inner[at]
        fit = padded is None or padded >= 0
        s.need(fit, "c4", "a size not negative, found {} in dimension {}", padded, at)
        shape.append(padded)
    s.follows("c4", tuple(shape), operand.element)


def dynamic_pad(s: Subject) -> None:
    operand, value, low, high, inner = s.operands
    result = s.results[0]
    same = operand.element == value.element == result.element
    s.need(same, "c1", "all have one element type, found {}, {} and {}", operand, value, result)
    same = low.type == high.type == inner.type
    s.need(same, "c2", "padding of one type, found {}, {} and {}", low, high, inner)
    fit = low.sizes[0] == operand.rank == result.rank
    s.need(fit, "c2", "padding of {} dimensions, found {} for {}", operand.rank, low, result)
    given = [constant(v) for v in s.operation.operands[2:]]
    interior = given[2]
    least = min(interior or (), default=0)
    s.need(least >= 0, "c3", "interior padding is not negative, found {}", interior)
    if None not in given:
        _padded(s, *[values or [] for values in given])


def get_dimension_size(s: Subject) -> None:
    s.in_range("c1", "dimension", (s.integer("dimension"),), s.operands[0].rank)
    s.follows("result_type", (), I32)


def set_dimension_size(s: Subject) -> None:
    operand, size = s.operands
    s.need(size.shape == () and size.element == I32, "i2", "a size is tensor<i32>, found {}", size)
    at = s.integer("dimension")
    s.in_range("c1", "dimension", (at,), operand.rank)
    shape = list(operand.dims)
    given = constant(s.operation.operands[1])
    known = shape[at]
    if known is not None:  # as large as it was, or smaller
        shape[at] = int(known) if given == [known] else Bounded(known)
    s.follows("c2", tuple(shape), operand.element)


RULES: dict[str, Callable[[Subject], None]] = by_name(
    "", broadcast, broadcast_in_dim, reshape, slice_, dynamic_broadcast_in_dim, dynamic_reshape, pad,
    transpose, reverse, concatenate, dynamic_slice, real_dynamic_slice, dynamic_update_slice, dynamic_pad,
    get_dimension_size, set_dimension_size,
)  # fmt: skip
