"""Rules of products, convolutions, transforms, linear algebra and normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.verify.kinds import (
    Facts,
    Sizes,
    agree,
    constant,
    elements_fit,
    fits,
    narrower,
    sizes_fit,
)
from axla.stablehlo.verify.reducers import Labels, windows
from axla.stablehlo.verify.subject import Subject


def dot(s: Subject) -> None:
    _precisions(s, "i3")
    lhs, rhs = s.operands
    ranks = lhs.rank in (1, 2) and rhs.rank in (1, 2)
    fit = ranks and fits(lhs.sizes[-1], rhs.sizes[0])
    s.need(fit, "c1", "operands of rank 1 or 2 that share a dimension, found {} and {}", lhs, rhs)
    s.follows("c2", lhs.dims[:-1] + rhs.dims[1:])


def _precisions(s: Subject, rule: str) -> None:
    count = len(s.attribute("precision_config", ()))
    s.need(count <= 2, rule, "precision_config has at most 2 elements, found {}", count)


def dot_general(s: Subject) -> None:
    _precisions(s, "c11")
    fields: dict[str, Any] = s.attribute("dot_dimension_numbers").fields
    s.follows("c12", _product(s, fields, ()))
    precise = any(p.value != "DEFAULT" for p in s.attribute("precision_config", ()))
    fit = s.attribute("algorithm") is None or not precise
    s.need(fit, "c21", "with an algorithm precisions are DEFAULT")
    lhs, rhs = s.operands
    if not any(isinstance(f.element, mlir.QuantizedType) for f in (lhs, rhs, s.results[0])):
        return  # the element types may differ: accumulation in another one is common
    if isinstance(rhs.element, mlir.QuantizedType):
        s.need(not any(rhs.element.zero_points), "c15", "zero points of the right side are 0, found {}", rhs)
        apart = not set(rhs.element.axes) & set(fields["rhs_contracting_dimensions"])
        s.need(apart, "c16", "the axis of quantization is not contracted, found {}", rhs)
    _quantized_product(s, ("c14", "c17", "c18", "c19", "c20"))


def _product(s: Subject, fields: dict[str, Any], dropped: tuple[int, ...]) -> Sizes:
    """The rules for dimension numbers; the sizes of a product, less `dropped` on the right."""
    lhs, rhs = s.operands[:2]
    batch = fields["lhs_batching_dimensions"], fields["rhs_batching_dimensions"]
    inner = fields["lhs_contracting_dimensions"], fields["rhs_contracting_dimensions"]
    s.need(len(batch[0]) == len(batch[1]), "c1", "as many batching dimensions, found {} and {}", *batch)
    s.need(len(inner[0]) == len(inner[1]), "c2", "as many contracting dimensions, found {} and {}", *inner)
    s.unique("c3", "lhs_batching_dimensions with lhs_contracting_dimensions", batch[0] + inner[0])
    s.unique("c4", "rhs_batching_dimensions with rhs_contracting_dimensions", batch[1] + inner[1])
    s.in_range("c5", "lhs_batching_dimensions", batch[0], lhs.rank)
    s.in_range("c6", "lhs_contracting_dimensions", inner[0], lhs.rank)
    s.in_range("c7", "rhs_batching_dimensions", batch[1], rhs.rank)
    s.in_range("c8", "rhs_contracting_dimensions", inner[1], rhs.rank)
    left, right = lhs.dims, rhs.dims
    for rule, what, (of_left, of_right) in (("c9", "batching", batch), ("c10", "contracting", inner)):
        for i, j in zip(of_left, of_right, strict=True):
            fit = fits(lhs.sizes[i], rhs.sizes[j])
            s.need(fit, rule, "{} dimensions have one size, found {} and {}", what, left[i], right[j])
    shape = [narrower(left[i], right[j]) for i, j in zip(*batch, strict=True)]
    shape += [size for at, size in enumerate(left) if at not in {*batch[0], *inner[0]}]
    shape += [size for at, size in enumerate(right) if at not in {*batch[1], *inner[1], *dropped}]
    return tuple(shape)


def _quantized_product(s: Subject, labels: tuple[str, str, str, str, str]) -> None:
    """The five rules for element types of products with quantized operands."""
    lhs, rhs, result = s.operands[0].element, s.operands[1].element, s.results[0].element
    hybrid = not isinstance(lhs, mlir.QuantizedType)
    right = isinstance(rhs, mlir.QuantizedType)
    fit = right and hybrid != isinstance(result, mlir.QuantizedType)
    s.need(fit, labels[0], "the right side is quantized, left side and result both or none")
    if hybrid:
        fit = lhs == rhs.expressed == result
        s.need(fit, labels[4], "the expressed type of the right side, found {} and {}", lhs, result)
        return
    s.need(lhs.storage == rhs.storage, labels[1], "one storage type, found {} and {}", lhs, rhs)
    fit = lhs.expressed == rhs.expressed == result.expressed
    s.need(fit, labels[2], "one expressed type, found {}, {} and {}", lhs, rhs, result)
    fit = rhs.axes or not result.axes
    s.need(fit, labels[3], "quantized per tensor as the right side is, found {} and {}", rhs, result)


def ragged_dot(s: Subject) -> None:
    """CHLO's product of groups of rows."""
    _precisions(s, "i5")
    fields: dict[str, Any] = s.attribute("ragged_dot_dimension_numbers").fields
    groups = fields["rhs_group_dimensions"]
    lhs, rhs, sizes = s.operands
    shape = _product(s, fields, groups)
    ragged = fields["lhs_ragged_dimensions"]
    s.need(len(ragged) == 1, "c11", "one ragged dimension on the left, found {}", ragged)
    s.in_range("c12", "lhs_ragged_dimensions", ragged, lhs.rank)
    batch, inner = fields["lhs_batching_dimensions"], fields["lhs_contracting_dimensions"]
    at = ragged[0]
    if at in batch:
        prefix = batch[: batch.index(at)]
    elif at in inner:
        prefix = batch + inner[: inner.index(at)]
    else:
        prefix = batch + tuple([dim for dim in range(at) if dim not in batch and dim not in inner])
    wanted = tuple([lhs.sizes[dim] for dim in prefix])
    s.need(sizes.rank, "c13", "group_sizes have a rank of at least 1, found {}", sizes)
    if sizes.rank != 1:
        fit = sizes.rank == len(wanted) + 1
        s.need(fit, "c13", "group_sizes of rank {}, found {}", len(wanted) + 1, sizes)
        fit = sizes_fit(wanted, sizes.sizes[:-1])
        s.need(fit, "c14", "group_sizes that start with {}, found {}", wanted, sizes)
    count = sizes.sizes[-1]
    s.in_range("c15", "rhs_group_dimensions", groups, rhs.rank)
    s.unique(
        "c16", "rhs_group_dimensions with rhs_batching_dimensions", groups + fields["rhs_batching_dimensions"]
    )
    on_right = fields["rhs_contracting_dimensions"]
    s.unique("c17", "rhs_group_dimensions with rhs_contracting_dimensions", groups + on_right)
    if at in batch or at in inner:
        message = "no group dimension where the ragged one is batching or contracting, found {}"
        s.need(not groups, "c18", message, groups)
    else:
        s.need(len(groups) == 1, "c19", "one group dimension on the right, found {}", groups)
        fit = fits(count, rhs.sizes[groups[0]])
        s.need(fit, "c20", "a group dimension of the size {}, found {}", count, rhs)
    s.follows("c21", ((count,) if at in inner else ()) + shape)


# ---- Convolutions

_WINDOW = Labels("c25", ("c2", "c3"), "c4", ("c5", "c6"), ("c7", "c8"), "c9")


def convolution(s: Subject) -> None:
    _convolution(s, None)


def dynamic_conv(s: Subject) -> None:
    rank = s.operands[0].rank
    shape = s.operands[2].shape
    fit = shape == (max(rank - 2, 0), 2)
    s.need(fit, "c4", "padding has the shape [{}, 2], found {}", rank - 2, shape or ())
    given = constant(s.operation.operands[2])
    pairs = None if given is None else [given[i : i + 2] for i in range(0, len(given), 2)]
    _convolution(s, pairs, given is not None)


def _convolution(s: Subject, padding: list[list[int]] | None, known: bool = True) -> None:
    """`padding` are pairs where it is an operand. Programs with computed padding (not `known`) are about
    with strides of another number: XLA never looks at them.
    """
    lhs, rhs = s.operands[:2]
    rank = lhs.rank
    s.need(rank >= 2, "c1", "operands of at least 2 dimensions, found {} and {}", lhs, rhs)
    s.need(rank == rhs.rank, "c1", "operands of one rank, found {} and {}", lhs, rhs)
    quantized = any(isinstance(f.element, mlir.QuantizedType) for f in (lhs, rhs, s.results[0]))
    fit = quantized or elements_fit(lhs.element, rhs.element)
    s.need(fit, "c27", "operands of one element type, found {} and {}", lhs, rhs)
    fields: dict[str, Any] = s.attribute("dimension_numbers").fields
    _dimension_numbers(s, fields, rank)
    left, right, extents = lhs.sizes, rhs.sizes, lhs.dims
    _groups(s, fields, left, right)
    whole = extents[fields["input_batch_dimension"]]
    batch = None if whole is None else whole // s.integer("batch_group_count", 1)
    _precisions(s, "c24")
    sizes = tuple([right[dim] for dim in fields["kernel_spatial_dimensions"]])
    shape: list[int | None] = [None] * rank
    if known:
        found = windows(s, _WINDOW, sizes, ("window_strides", "lhs_dilation", "rhs_dilation"), padding)
        spatial = fields["input_spatial_dimensions"], fields["output_spatial_dimensions"]
        for window, at, to in zip(found, *spatial, strict=True):
            shape[to] = window.count(extents[at])
    shape[fields["output_batch_dimension"]] = batch
    shape[fields["output_feature_dimension"]] = right[fields["kernel_output_feature_dimension"]]
    s.follows("c25", tuple(shape))
    if quantized:
        _quantized_convolution(s, fields)


def _dimension_numbers(s: Subject, fields: dict[str, Any], rank: int) -> None:
    count = len(fields["input_spatial_dimensions"])
    for rule, side, names in (
        ("c12 c13", "input", ("batch", "feature")),
        ("c17 c18", "kernel", ("input_feature", "output_feature")),
        ("c19 c20", "output", ("batch", "feature")),
    ):
        size_rule, range_rule = rule.split()
        spatial = fields[f"{side}_spatial_dimensions"]
        message = "{} spatial dimensions of the {}, found {}"
        s.need(len(spatial) == count, size_rule, message, count, side, spatial)
        dims = tuple([fields[f"{side}_{name}_dimension"] for name in names]) + spatial
        s.in_range(range_rule, f"{side} dimensions", dims, rank)
        s.unique(range_rule, f"{side} dimensions", dims)
    s.need(count == rank - 2, "c12", "{} spatial dimensions, found {}", rank - 2, count)


def _groups(s: Subject, fields: dict[str, Any], left: Sizes, right: Sizes) -> None:
    by_feature, by_batch = s.integer("feature_group_count", 1), s.integer("batch_group_count", 1)
    fit = by_feature == 1 or by_batch == 1
    s.need(fit, "c23", "groups of features or of the batch, found {} and {}", by_feature, by_batch)
    batch, features = left[fields["input_batch_dimension"]], left[fields["input_feature_dimension"]]
    taken = right[fields["kernel_input_feature_dimension"]]
    given = right[fields["kernel_output_feature_dimension"]]
    for rule, what, size, by in (
        ("c10", "input batch", batch, by_batch),
        ("c11", "input feature", features, by_feature),
        ("c15", "kernel output feature", given, by_batch),
        ("c16", "kernel output feature", given, by_feature),
    ):
        fit = size is None or size % by == 0
        s.need(fit, rule, "the {} dimension ({}) is a multiple of {} groups", what, size, by)
    fit = features is None or fits(features // by_feature, taken)
    s.need(fit, "c14", "{} input features in {} groups, found a kernel for {}", features, by_feature, taken)


def _quantized_convolution(s: Subject, fields: dict[str, Any]) -> None:
    for rule, facts, name in (
        ("c29", s.operands[1], "kernel_output_feature_dimension"),
        ("c30", s.results[0], "output_feature_dimension"),
    ):
        element = facts.element
        fit = not isinstance(element, mlir.QuantizedType) or element.axes in ((), (fields[name],))
        s.need(fit, rule, "the axis of quantization is {} {}, found {}", name, fields[name], facts)
    _quantized_product(s, ("c28", "c31", "c32", "c33", "c34"))


# ---- Transforms and linear algebra


def fft(s: Subject) -> None:
    operand, length = s.operands[0], s.integers("fft_length")
    kind, count = s.attribute("fft_type").value, len(length)
    s.need(1 <= count <= 3, "c3", "1 to 3 dimensions, found {}", length)
    element = operand.element
    is_complex = isinstance(element, mlir.ComplexType)
    real = isinstance(element, mlir.FloatType) and element.name in ("f32", "f64")
    fit = real if kind == "RFFT" else is_complex
    wanted = "f32 or f64" if kind == "RFFT" else "complex numbers"
    s.need(fit, "c2", "{} of {}, found {}", kind, wanted, operand)
    s.need(operand.rank >= count, "c1", "at least {} dimensions, found {}", count, operand)
    shape, last = list(operand.dims), operand.sizes[-count:]
    if kind == "RFFT":
        s.need(sizes_fit(tuple(last), length), "c4", "last sizes {}, found {}", length, operand)
        if length[-1]:
            shape[-1] = length[-1] // 2 + 1
        element = mlir.ComplexType(element)
    if kind == "IRFFT":
        fit = sizes_fit(tuple(last[:-1]), length[:-1])
        s.need(fit, "c4", "last sizes {} but in the last dimension, found {}", length, operand)
        size = last[-1]
        fit = size == length[-1] == 0 or fits(size, length[-1] // 2 + 1)
        s.need(fit, "c5", "the last dimension is {}, found {}", length[-1] // 2 + 1, operand)
        shape[-1] = length[-1]
        element = element.element if isinstance(element, mlir.ComplexType) else element
    s.follows("c5", tuple(shape), element)


def cholesky(s: Subject) -> None:
    operand = s.operands[0]
    s.need(operand.rank >= 2, "c2", "a rank of at least 2, found {}", operand)
    s.need(fits(*operand.sizes[-2:]), "c3", "square matrices, found {}", operand)
    s.follows("c1", operand.extents, operand.element)


def triangular_solve(s: Subject) -> None:
    a, b = s.operands
    s.need(a.rank >= 2 and a.rank == b.rank, "c2", "one rank of at least 2, found {} and {}", a, b)
    left, right = a.sizes, b.sizes
    s.need(fits(left[-2], left[-1]), "c3", "square matrices, found {}", a)
    shared = fits(left[-1], right[-2 if s.flag("left_side") else -1])
    s.need(shared, "c3", "a shared dimension of one size, found {} and {}", a, b)
    s.need(sizes_fit(left[:-2], right[:-2]), "c3", "batches of the same sizes, found {} and {}", a, b)
    option = s.attribute("transpose_a").value
    s.need(option != "TRANSPOSE_INVALID", "i6", "transpose_a is another one than {}", option)
    s.follows("c4", b.extents, b.element)


def batch_norm(s: Subject) -> None:
    large = [facts for facts in s.operands if facts is s.operands[0] or facts.rank != 1]
    if s.name == "batch_norm_grad":
        large = [s.operands[0], s.operands[4]]
        fit = sizes_fit(large[0].shape, large[1].shape)
        s.need(fit, "c3", "operand and grad_output of one shape, found {} and {}", *large)
    operand = s.operands[0]
    small = s.operands[1:4] if s.name == "batch_norm_grad" else s.operands[1:]
    at = s.integer("feature_index")
    s.in_range("c1", "feature_index", (at,), operand.rank)
    size = operand.sizes[at]
    for i, facts in enumerate(small):
        rule = f"c{4 if i else 5}" if s.name == "batch_norm_grad" else f"c{3 + i}"
        fit = fits(facts.sizes[0], size) and sizes_fit(small[0].shape, facts.shape)
        s.need(fit, rule, "{} values for the features of {}, found {}", size, operand, facts)
    rules = {"batch_norm_grad": ("c3", "c4", "c4"), "batch_norm_inference": ("c7",)}
    feature = operand.dims[at]
    for i, rule in enumerate(rules.get(s.name, ("c7", "c5", "c6"))):
        if i:
            s.follows(rule, (feature,), operand.element, i)
        else:
            s.follows(rule, operand.extents, operand.element)


# ---- CHLO


def top_k(s: Subject) -> None:
    operand, k = s.operands[0], s.integer("k")
    if operand.shape is None:
        return
    s.need(operand.rank >= 1, "c1", "a rank of at least 1, found {}", operand)
    last = operand.shape[-1]
    fit = k >= 0 and (last is None or last >= k)
    s.need(fit, "c2", "a last dimension of at least {}, found {}", k, operand)
    found = (*operand.dims[:-1], k)
    s.follows("c3", found, operand.element)
    s.follows("c4", found, mlir.IntegerType(32), 1)


def constant_like(s: Subject) -> None:
    value, result = s.attribute("value"), s.results[0]
    kind = getattr(value, "type", None)
    known = kind is None or kind == result.element
    s.need(known, "c2", "a value of the element type of {}, found {}", result, kind)


def broadcasting(s: Subject) -> None:
    """Two operands that broadcast, of one element type."""
    lhs, rhs = s.operands[:2]
    if s.name == "broadcast_select":
        lhs, rhs = s.operands[1:]
    fit = elements_fit(lhs.element, rhs.element)
    s.need(fit, "c1", "operands of one element type, found {} and {}", lhs, rhs)
    element: Any = lhs.element
    if s.name == "broadcast_compare":
        element = mlir.IntegerType(1)
    elif s.name == "broadcast_complex":
        element = mlir.ComplexType(element)
    s.follows("c2", _broadcast(s, s.operands), element)


def _broadcast(s: Subject, operands: list[Facts]) -> Sizes | None:
    """The sizes of operands that broadcast; None where they cannot be known or do not exist."""
    known = [facts.extents for facts in operands if facts.extents is not None]
    rank = max(map(len, known), default=0)
    dims = s.integers("broadcast_dimensions")
    found: list[int | None] = [1] * rank
    for sizes in known:
        # The smaller operand goes to the dimensions given, else both end together.
        places = dims if dims and len(sizes) == min(map(len, known)) else range(rank - len(sizes), rank)
        if len(places) != len(sizes) or max(places, default=-1) >= rank:
            return None
        for at, size in zip(places, sizes, strict=True):
            held = found[at]
            fit = 1 in (held, size) or agree(held, size)
            message = "operands with sizes that are equal or 1, found {} and {} in dimension {}"
            s.need(fit, "c2", message, held, size, at)
            found[at] = size if held == 1 else held if size == 1 else narrower(held, size)
    return tuple(found) if len(known) == len(operands) else None


_BROADCASTING = dict.fromkeys(
    [record.short for name, record in OPERATIONS.items() if name.startswith("chlo.broadcast_")], broadcasting
)
_BATCH_NORMS = dict.fromkeys(("batch_norm_grad", "batch_norm_inference", "batch_norm_training"), batch_norm)
RULES: dict[str, Callable[[Subject], None]] = {
    "dot": dot, "dot_general": dot_general, "convolution": convolution, "dynamic_conv": dynamic_conv,
    "fft": fft, "cholesky": cholesky, "triangular_solve": triangular_solve, "ragged_dot": ragged_dot,
    "top_k": top_k, "constant_like": constant_like, **_BATCH_NORMS, **_BROADCASTING,
}  # fmt: skip
