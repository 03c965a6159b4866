"""Rules for products, convolutions, transforms, linear algebra and normalization."""

from __future__ import annotations

from typing import Any

from axla.stablehlo import mlir
from axla.stablehlo.verify.kinds import Sizes, elements_fit, fits, narrower, sizes_fit
from axla.stablehlo.verify.reducers import windows
from axla.stablehlo.verify.subject import Subject


def dot(s: Subject) -> None:
    """Checks that the result has the sizes of lhs without the last one, then those of rhs without the
    first.
    """
    lhs, rhs = s.operands
    s.follows("c2", lhs.dims[:-1] + rhs.dims[1:])


def dot_general(s: Subject) -> None:
    """Checks that the result has the batch dimensions, then the dimensions of lhs and those of rhs that are
    not contracted; also the specification's constraints C14 to C20, for quantized operands, and C21, for
    algorithms.
    """
    s.follows("c12", _product(s, ()))
    precise = any(p.value != "DEFAULT" for p in s.attribute("precision_config", ()))
    fit = s.attribute("algorithm") is None or not precise
    s.need(fit, "c21", "with an algorithm, precisions must be DEFAULT")
    lhs, rhs = s.operands
    if not any(facts.quantized for facts in (lhs, rhs, s.result)):
        return  # the element types may differ: accumulation in another one is common
    if rhs.quantized is not None:
        centred = not any(rhs.quantized.zero_points)
        s.need(centred, "c15", "zero points of the right side must be 0, found {}", rhs)
        apart = not set(rhs.axes) & set(s.known("rhs_contracting_dimensions"))
        s.need(apart, "c16", "the axis of quantization must not be contracted, found {}", rhs)
    _quantized_product(s, "c14 c17 c18 c19 c20")


def _product(s: Subject, dropped: tuple[int, ...]) -> Sizes:
    """The sizes of a product, without the rhs dimensions in `dropped`."""
    left, right = s.operands[0].dims, s.operands[1].dims
    batch = s.known("lhs_batching_dimensions"), s.known("rhs_batching_dimensions")
    inner = s.known("lhs_contracting_dimensions"), s.known("rhs_contracting_dimensions")
    shape = [narrower(left[i], right[j]) for i, j in zip(*batch, strict=True)]
    shape += [size for at, size in enumerate(left) if at not in {*batch[0], *inner[0]}]
    shape += [size for at, size in enumerate(right) if at not in {*batch[1], *inner[1], *dropped}]
    return tuple(shape)


def _quantized_product(s: Subject, labels: str) -> None:
    """Checks the five rules for the element types of a product with quantized operands; `labels` has their
    labels.
    """
    sides, storage, expressed, axes, hybrid = labels.split()
    lhs, rhs, result = s.operands[0].element, s.operands[1].element, s.result.element
    quantized = [isinstance(element, mlir.QuantizedType) for element in (lhs, rhs, result)]
    fit = quantized[1] and quantized[0] == quantized[2]
    s.need(fit, sides, "the right side must be quantized, and the left side and the result both or neither")
    if not quantized[0]:
        fit = lhs == rhs.expressed == result
        s.need(fit, hybrid, "the expressed type of the right side is wanted, found {} and {}", lhs, result)
        return
    s.need(lhs.storage == rhs.storage, storage, "one storage type is wanted, found {} and {}", lhs, rhs)
    fit = lhs.expressed == rhs.expressed == result.expressed
    s.need(fit, expressed, "one expressed type is wanted, found {}, {} and {}", lhs, rhs, result)
    fit = rhs.axes or not result.axes
    s.need(fit, axes, "the result must be per tensor like the right side, found {} and {}", rhs, result)


def ragged_dot(s: Subject) -> None:
    """Checks CHLO's product with groups of rows."""
    lhs, rhs, sizes = s.operands
    groups, at = s.known("rhs_group_dimensions"), s.known("lhs_ragged_dimensions")[0]
    batch, inner = s.known("lhs_batching_dimensions"), s.known("lhs_contracting_dimensions")
    if at in batch:
        prefix = batch[: batch.index(at)]
    elif at in inner:
        prefix = batch + inner[: inner.index(at)]
    else:
        prefix = batch + tuple([dim for dim in range(at) if dim not in batch and dim not in inner])
    wanted = tuple([lhs.sizes[dim] for dim in prefix])
    if sizes.rank != 1:
        fit = sizes.rank == len(wanted) + 1
        s.need(fit, "c13", "group_sizes must have rank {}, found {}", len(wanted) + 1, sizes)
        fit = sizes_fit(wanted, sizes.sizes[:-1])
        s.need(fit, "c14", "the shape of group_sizes must start with {}, found {}", wanted, sizes)
    count = sizes.sizes[-1]
    if at in batch or at in inner:
        message = "a batching or contracting ragged dimension allows no group dimensions, found {}"
        s.need(not groups, "c18", message, groups)
    else:
        s.need(len(groups) == 1, "c19", "one group dimension on the right is wanted, found {}", groups)
        fit = fits(count, rhs.sizes[groups[0]])
        s.need(fit, "c20", "the group dimension must have the size {}, found {}", count, rhs)
    s.follows("c21", ((count,) if at in inner else ()) + _product(s, groups))


# ---- Convolutions


def convolution(s: Subject) -> None:
    """Checks a convolution, static or dynamic. The dynamic form may have the wrong number of strides if its
    padding is computed: existing programs do, and XLA does not check it.
    """
    lhs, rhs = s.operands[:2]
    quantized = any(facts.quantized for facts in (lhs, rhs, s.result))
    fit = quantized or elements_fit(lhs.element, rhs.element)
    s.need(fit, "c27", "operands must have one element type, found {} and {}", lhs, rhs)
    fields: dict[str, Any] = s.attribute("dimension_numbers").fields
    right, extents = rhs.sizes, lhs.dims
    whole = extents[fields["input_batch_dimension"]]
    sizes = tuple([right[dim] for dim in fields["kernel_spatial_dimensions"]])
    shape: list[int | None] = [None] * lhs.rank
    if s.name == "convolution" or s.known("padding") is not None:
        names = ("window_strides", "lhs_dilation", "rhs_dilation")
        found = windows(s, "c25 c4 c9 c2 c3 c5 c6 c7 c8", sizes, names)
        spatial = fields["input_spatial_dimensions"], fields["output_spatial_dimensions"]
        for window, at, to in zip(found, *spatial, strict=True):
            shape[to] = window.count(extents[at])
    shape[fields["output_batch_dimension"]] = None if whole is None else whole // s.known("batch_group_count")
    shape[fields["output_feature_dimension"]] = right[fields["kernel_output_feature_dimension"]]
    s.follows("c25", tuple(shape))
    if quantized:
        for rule, facts, name in (
            ("c29", rhs, "kernel_output_feature_dimension"),
            ("c30", s.result, "output_feature_dimension"),
        ):
            fit = facts.axes in ((), (fields[name],))
            s.need(fit, rule, "the axis of quantization must be {} {}, found {}", name, fields[name], facts)
        _quantized_product(s, "c28 c31 c32 c33 c34")


# ---- Transforms and linear algebra


def fft(s: Subject) -> None:
    """Checks that the transformed sizes agree with `fft_length`; in real transforms the last one is
    halved.
    """
    operand, length = s.operand, s.known("fft_length")
    kind, element = s.known("fft_type"), operand.element
    real = isinstance(element, mlir.FloatType) and element.name in ("f32", "f64")
    fit = real if kind == "RFFT" else isinstance(element, mlir.ComplexType)
    wanted = "f32 or f64" if kind == "RFFT" else "complex numbers"
    s.need(fit, "c2", "{} takes {}, found {}", kind, wanted, operand)
    shape, last = list(operand.dims), operand.sizes[-len(length) :]
    if kind == "RFFT":
        s.need(sizes_fit(last, length), "c4", "the last sizes must be {}, found {}", length, operand)
        if length[-1]:
            shape[-1] = length[-1] // 2 + 1
        element = mlir.ComplexType(element)
    if kind == "IRFFT":
        fit = sizes_fit(last[:-1], length[:-1])
        s.need(fit, "c4", "the last sizes must be {} except in the last dimension, found {}", length, operand)
        fit = last[-1] == length[-1] == 0 or fits(last[-1], length[-1] // 2 + 1)
        s.need(fit, "c5", "the last dimension must be {}, found {}", length[-1] // 2 + 1, operand)
        shape[-1], element = length[-1], getattr(element, "element", element)
    s.follows("c5", tuple(shape), element)


def triangular_solve(s: Subject) -> None:
    """Checks that `a` is a batch of square matrices that fits `b`."""
    a, b = s.operands
    shared = fits(a.sizes[-1], b.sizes[-2 if s.flag("left_side") else -1])
    s.need(shared, "c3", "the shared dimension must have one size, found {} and {}", a, b)
    s.need(sizes_fit(a.sizes[:-2], b.sizes[:-2]), "c3", "batches must be equal, found {} and {}", a, b)
    option = s.known("transpose_a")
    s.need(option != "TRANSPOSE_INVALID", "i6", "transpose_a must not be {}", option)


# ---- CHLO


def top_k(s: Subject) -> None:
    """Checks that the last dimension becomes `k`, and that the second result has i32 elements."""
    operand, k = s.operand, s.known("k")
    if operand.shape is None:
        return
    s.need(operand.rank >= 1, "c1", "the rank must be at least 1, found {}", operand)
    last = operand.shape[-1]
    fit = k >= 0 and (last is None or last >= k)
    s.need(fit, "c2", "the last dimension must be at least {}, found {}", k, operand)
    for i, (rule, element) in enumerate((("c3", operand.element), ("c4", mlir.IntegerType(32)))):
        s.follows(rule, (*operand.dims[:-1], k), element, i)


def constant_like(s: Subject) -> None:
    """Checks that the value has the element type of the result."""
    value, result = s.attribute("value"), s.result
    kind = getattr(value, "type", None)
    known = kind is None or kind == result.element
    s.need(known, "c2", "the value must have the element type of {}, found {}", result, kind)


def broadcasting(s: Subject) -> None:
    """Checks that operands have sizes that are equal or 1, and the result the broadcast sizes, as far as
    sizes are known.
    """
    known = [facts.extents for facts in s.operands if facts.extents is not None]
    rank = max(map(len, known), default=0)
    dims = s.known("broadcast_dimensions")
    found: list[int | None] = [1] * rank
    for sizes in known:
        # The smaller operand has the dimensions that are given, or else the last ones.
        places = dims if dims and len(sizes) == min(map(len, known)) else range(rank - len(sizes), rank)
        if len(places) != len(sizes) or max(places, default=-1) >= rank:
            return
        for at, size in zip(places, sizes, strict=True):
            held = found[at]
            fit = 1 in (held, size) or fits(held, size)
            message = "sizes of operands must be equal or 1, found {} and {} in dimension {}"
            s.need(fit, "c2", message, held, size, at)
            found[at] = size if held == 1 else held if size == 1 else narrower(held, size)
    if len(known) == len(s.operands):
        s.follows("c2", tuple(found))


dynamic_conv = convolution
