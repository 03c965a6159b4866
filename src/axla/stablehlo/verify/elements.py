"""Rules for constants, for elementwise operations, and for those that move elements: slices, gather,
scatter...
"""

from __future__ import annotations

from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.sizes import Bounded, Sizes
from axla.stablehlo.verify.kinds import Facts, fits, narrower, product, types_fit, width
from axla.stablehlo.verify.reducers import check_reducer
from axla.stablehlo.verify.subject import Subject


def add(s: Subject) -> None:
    """Checks element types: quantized types of operands and result may differ, other types must be equal."""
    facts = (*s.operands, s.results[0])
    elements = [value.element for value in facts]
    quantized = [value.quantized for value in facts if value.quantized is not None]
    if not quantized:
        one = elements[0] == elements[1] == elements[2]
        s.need(one, "c1", "all must have the same element type, found {}, {} and {}", *facts)
        return
    s.need(len(quantized) == 3, "c2", "all or none must be quantized, found {}, {} and {}", *elements)
    for label, part in (("c3", "storage"), ("c4", "expressed")):
        one = len({getattr(element, part) for element in quantized}) == 1
        s.need(one, label, "one {} type is wanted, found {}, {} and {}", part, *elements)
    lhs, rhs, result = quantized
    per_axis = bool(lhs.axes or rhs.axes) == bool(result.axes)
    message = "the result must be quantized per axis if an operand is, found {}, {} and {}"
    s.need(per_axis, "c5", message, *elements)
    for label, side in (("c6", lhs), ("c7", rhs)):
        s.need(not side.axes or side.axes == result.axes, label, "axes {} and {} must be equal", side, result)


def constant_(s: Subject) -> None:
    """Checks that the value has the type of the result."""
    held, written = s.attribute("value").type, s.result
    fit = isinstance(held, mlir.TensorType) and types_fit(s.types.of(held), written)
    if not fit and isinstance(held, mlir.TensorType) and written.quantized is not None:
        fit = held.element == written.quantized.storage and held.shape == written.shape
    s.need(fit, "c1", "the result must have the type of the constant, {}, found {}", held, written)


def rng(s: Subject) -> None:
    """Checks that a normal distribution has floating-point parameters."""
    fit = s.known("rng_distribution") != "NORMAL" or isinstance(s.operand.element, mlir.FloatType)
    s.need(fit, "c2", "mu and sigma must be floats, found {}", s.operand)


def bitcast_convert(s: Subject) -> None:
    """Checks that both types have the same number of bits. If widths differ, the type with the narrower
    elements has one more dimension, whose size is the ratio of the widths.
    """
    operand, result = s.operand, s.result
    kinds = [isinstance(facts.element, mlir.ComplexType) for facts in (operand, result)]
    s.need(kinds[0] == kinds[1], "c2", "both or neither must be complex, found {} and {}", operand, result)
    bits, to_bits = width(operand.element), width(result.element)
    small, large = sorted((bits, to_bits))
    message = "one element must consist of whole elements of the other type, found {} and {}"
    s.need(large % small == 0, "c1", message, operand, result)
    shape: Sizes = operand.dims
    if bits < to_bits:
        s.need(shape, "c1", "{} must have one dimension more than {}", operand, result)
        fit = shape[-1] in (None, large // small)
        s.need(fit, "c1", "the last dimension of {} must have the bits of an element of {}", operand, result)
        shape = shape[:-1]
    elif bits > to_bits:
        shape = (*shape, large // small)
    s.follows("c1", shape)


# ---- Shapes and slices


def broadcast_in_dim(s: Subject) -> None:
    """Checks broadcast_in_dim, and its dynamic form, where sizes of the result may be unknown."""
    operand, result = s.operand, s.result
    dims, given = s.known("broadcast_dimensions"), s.known("output_dimensions")
    for at, (size, dim) in enumerate(zip(operand.sizes, dims, strict=True)):
        wanted = result.sizes[dim] if given is None else given[dim]
        fit = size in (None, 1, wanted) or wanted is None and s.name != "broadcast_in_dim"
        s.need(fit, "c5", "dimension {} of {} must be 1 or dimension {} of {}", at, operand, dim, result)
    before, after = operand.quantized, result.quantized
    if before is None or after is None or not after.axes:
        return
    # The axis of quantization moves with its dimension; if that has the size 1, its one scale is the scale of
    # all.
    s.need(before.axes, "c1", "both must be quantized per axis, found {} and {}", operand, result)
    axis = before.axes[0]
    message = "the axis of quantization must be {}, found {}"
    s.need(after.axes[0] == dims[axis], "c6", message, dims[axis], result)
    if operand.sizes[axis] == 1:
        same = set(after.scales) <= {before.scales[0]} and set(after.zero_points) <= {before.zero_points[0]}
        s.need(same, "c6", "scales and zero points must be those of {}, found {}", operand, result)


def reshape(s: Subject) -> None:
    """Checks that both shapes have the same number of elements, also before and after a quantized
    dimension.
    """
    operand, result, given = s.operand, s.result, s.known("output_shape")
    fit = fits(product(operand.shape), product(result.shape if given is None else given))
    s.need(fit, "c2", "wanted as many elements as {}, found {}", result if given is None else given, operand)
    if not operand.axes or not result.axes:
        return
    before, at, after, to = operand.sizes, operand.axes[0], result.sizes, result.axes[0]
    fit = fits(before[at], after[to])
    s.need(fit, "c3", "the quantized dimension must keep its size, found {} and {}", operand, result)
    for outer, inner in ((before[:at], after[:to]), (before[at + 1 :], after[to + 1 :])):
        message = "the quantized dimension must keep the elements around it, found {} and {}"
        s.need(fits(product(outer), product(inner)), "c3", message, operand, result)


def transpose(s: Subject) -> None:
    """Checks that the quantized dimension is permuted like the others."""
    if s.result.axes and s.operand.quantized is not None:
        fit = s.operand.axes[:1] == (s.known("permutation")[s.result.axes[0]],)
        s.need(fit, "c4", "the axis of quantization must move along, found {} and {}", s.operand, s.result)


def concatenate(s: Subject) -> None:
    """Checks that shapes agree except in the concatenated dimension, along which sizes add up."""
    first, at = s.operand, s.known("dimension")
    shape: list[int | None] = list(first.dims)
    for other in s.operands[1:]:
        s.need(other.rank == first.rank, "c2", "operands must have one rank, found {} and {}", first, other)
        for dim, (known, size) in enumerate(zip(shape, other.dims, strict=True)):
            if dim == at:
                shape[dim] = None if known is None or size is None else known + size
                continue
            fit = fits(known, size)
            s.need(fit, "c2", "shapes may differ in dimension {} only, found {} and {}", at, first, other)
            shape[dim] = narrower(known, size)
    s.follows("c6", tuple(shape))


def slice_(s: Subject) -> None:
    """Checks that each size is the number of steps of `stride` from start to limit."""
    rows = zip(*[s.known(name) for name in ("start_indices", "limit_indices", "strides")], strict=True)
    s.follows("c5", tuple([-(-(limit - start) // stride) for start, limit, stride in rows]))


def pad(s: Subject) -> None:
    """Checks pad, and dynamic_pad if its padding is known."""
    given = [s.known(name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")]
    if None in given:
        return
    shape: list[int | None] = []
    for at, (size, low, high, inner) in enumerate(zip(s.operand.dims, *given, strict=True)):
        padded = None if size is None else size + low + high + max(size - 1, 0) * inner
        fit = padded is None or padded >= 0
        s.need(fit, "c4", "no size can be negative, found {} in dimension {}", padded, at)
        shape.append(padded)
    s.follows("c4", tuple(shape))


def set_dimension_size(s: Subject) -> None:
    """Checks that the result has the operand's shape, with a bounded size in the dimension."""
    shape, at = list(s.operand.dims), s.known("dimension")
    known = shape[at]
    if known is not None:  # the new size is at most the old one
        shape[at] = int(known) if s.known("size") == (known,) else Bounded(known)
    s.follows("c2", tuple(shape), s.operand.element)


# ---- Gather and scatter


def _batch(s: Subject, rule: str, indices: Facts, name: str) -> list[int | None]:
    """The sizes of the indices without the dimension of index vectors. Checks that an index vector has as
    many elements as the list `name`.
    """
    at, said = s.known("index_vector_dim"), s.known(name)
    size = 1 if at == indices.rank else indices.sizes[at]
    s.need(fits(size, len(said)), rule, "{} must have {} elements, found {}", name, size, said)
    return [size for dim, size in enumerate(indices.dims) if dim != at]


def gather(s: Subject) -> None:
    """Checks the shape of the result: window sizes at offset_dims, sizes of the indices elsewhere."""
    rank, offset = s.operand.rank, s.known("offset_dims")
    outer = _batch(s, "c3", s.operands[1], "start_index_map")
    sizes = s.known("slice_sizes") or (None,) * rank
    dropped = {*s.known("collapsed_slice_dims"), *s.known("operand_batching_dims")}
    batch, inner = iter(outer), iter([sizes[dim] for dim in range(rank) if dim not in dropped])
    shape = [next(inner if dim in offset else batch, None) for dim in range(len(offset) + len(outer))]
    s.follows("c22", tuple(shape))


def scatter(s: Subject) -> None:
    """Checks that updates have the batch and window dimensions that the dimension numbers describe, and that
    the reducer combines scalars.
    """
    inputs, updates = s.values("inputs"), s.values("updates")
    check_reducer(s, "c23", 0, inputs, updates, scalars=True)
    outer = _batch(s, "c19", s.values("scatter_indices")[0], "scatter_dims_to_operand_dims")
    inside = s.known("update_window_dims")
    dropped = {*s.known("inserted_window_dims"), *s.known("input_batching_dims")}
    for i, (operand, update, returned) in enumerate(zip(inputs, updates, s.returned(0), strict=True)):
        rank = len(outer) + len(inside)
        s.need(update.rank == rank, "c4", "updates must have rank {}, found {}", rank, update)
        batch = iter(outer)
        windows = iter([size for dim, size in enumerate(operand.sizes) if dim not in dropped])
        for dim, size in enumerate(update.sizes):
            within = dim in inside
            wanted: Any = next(windows if within else batch)
            fit = fits(wanted, size) or within and size < wanted
            what = "window of at most" if within else "size"
            s.need(fit, "c4", "a {} {} in dimension {} is wanted, found {}", what, wanted, dim, update)
        s.follows("c24 c25", operand.extents, returned.element, i)


dynamic_broadcast_in_dim, dynamic_reshape = broadcast_in_dim, reshape
dynamic_pad, dynamic_gather = pad, gather
