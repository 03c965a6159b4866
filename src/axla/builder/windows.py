"""Builder functions that move windows over arrays: convolutions, reduce-window, select-and-scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import axla.hlo as hlo
from axla.builder.coerce import operands
from axla.builder.records import ConvolutionDimensionNumbers, PaddingType, PrecisionConfig, operand_precision
from axla.builder.values import booleans, element_type, instance, integer, integers, member, tuples
from axla.builder.xla_builder import XlaOp
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape
from axla.ir.attributes import CONVOLUTION_DIMENSIONS, ConvDims, Window
from axla.ir.op import reject

WindowPadding = Sequence[tuple[int, int]]


def window_padding_type_to_pad_values(
    padding_type: PaddingType, lhs_dims: Sequence[int], rhs_dims: Sequence[int],
    window_strides: Sequence[int],
) -> list[tuple[int, int]]:  # fmt: skip
    """The padding (low, high) per dimension, for SAME or VALID padding of a window of sizes `rhs_dims` over
    an array of sizes `lhs_dims`.
    """
    rhs_dims = integers(rhs_dims, "window_dimensions")
    if member(PaddingType, padding_type, "padding_type") is PaddingType.VALID:
        return [(0, 0)] * len(rhs_dims)
    lhs_dims = integers(lhs_dims, "lhs_dims")
    strides = integers(window_strides, "window_strides") or (1,) * len(rhs_dims)
    if not len(lhs_dims) == len(rhs_dims) == len(strides) or any(n < 1 for n in strides):
        found = f"window {list(rhs_dims)}, strides {list(strides)} for {list(lhs_dims)}"
        message = f"SAME padding needs a size and a stride of at least 1 per dimension, found {found}"
        reject("same_padding", message)
    pads = []
    for size, window, stride in zip(lhs_dims, rhs_dims, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + window - size, 0)
        pads.append((total // 2, total - total // 2))
    return pads


def _window(
    size: Sequence[int], strides: Sequence[int], padding: WindowPadding, base_dilations: Sequence[int] = (),
    window_dilations: Sequence[int] = (), reversal: Sequence[bool] | None = None,
) -> Window:  # fmt: skip
    pads = tuples(padding, "padding", "(low, high) per dimension", integer, integer)
    size = integers(size, "window_dimensions")
    if len(pads) != len(size):
        reject("window_padding", f"window: found {len(pads)} entries of padding, wanted {len(size)}")
    return Window(
        size,
        integers(strides, "window_strides"),
        tuple(low for low, _ in pads),
        tuple(high for _, high in pads),
        integers(base_dilations, "base_dilations"),
        integers(window_dilations, "window_dilations"),
        () if reversal is None else booleans(reversal, "window_reversal"),
    )


# Convolutions.


def ConvGeneralDilated(
    lhs: object, rhs: object, window_strides: Sequence[int], padding: WindowPadding,
    lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: ConvolutionDimensionNumbers,
    feature_group_count: int = 1, batch_group_count: int = 1, precision_config: PrecisionConfig | None = None,
    preferred_element_type: Any = None, window_reversal: Sequence[bool] | None = None,
) -> XlaOp:  # fmt: skip
    """The convolution of `lhs` with the kernel `rhs`. `lhs_dilation` and `rhs_dilation` put zeros between the
    elements of the operands. `window_reversal` says for each spatial dimension whether the kernel is
    reversed.
    """

    def window(spatial: Sequence[int], kernel: Sequence[int]) -> Window:
        return _window(kernel, window_strides, padding, lhs_dilation, rhs_dilation, window_reversal)

    groups = (feature_group_count, batch_group_count)
    return _convolution(lhs, rhs, window, dimension_numbers, groups, precision_config, preferred_element_type)


def ConvGeneral(
    lhs: object, rhs: object, window_strides: Sequence[int], padding: WindowPadding,
    dimension_numbers: ConvolutionDimensionNumbers, feature_group_count: int = 1, batch_group_count: int = 1,
    precision_config: PrecisionConfig | None = None, preferred_element_type: Any = None,
) -> XlaOp:  # fmt: skip
    """A convolution of operands without dilation."""
    return ConvGeneralDilated(
        lhs, rhs, window_strides, padding, (), (), dimension_numbers, feature_group_count, batch_group_count,
        precision_config, preferred_element_type,
    )  # fmt: skip


def ConvWithGeneralPadding(
    lhs: object, rhs: object, window_strides: Sequence[int], padding: WindowPadding,
    feature_group_count: int = 1, batch_group_count: int = 1, precision_config: PrecisionConfig | None = None,
    preferred_element_type: Any = None,
) -> XlaOp:  # fmt: skip
    """A convolution of operands whose dimensions have the default order: (batch, feature, spatial...) for
    `lhs`, (output feature, input feature, spatial...) for `rhs`.
    """
    left, right = operands("Conv", lhs, rhs)
    return ConvGeneral(
        left, right, window_strides, padding, _default_numbers(left), feature_group_count, batch_group_count,
        precision_config, preferred_element_type,
    )  # fmt: skip


def ConvWithGeneralDimensions(
    lhs: object, rhs: object, window_strides: Sequence[int], padding: PaddingType,
    dimension_numbers: ConvolutionDimensionNumbers, feature_group_count: int = 1, batch_group_count: int = 1,
    precision_config: PrecisionConfig | None = None, preferred_element_type: Any = None,
) -> XlaOp:  # fmt: skip
    """A convolution of operands without dilation, with SAME or VALID padding."""

    def window(spatial: Sequence[int], kernel: Sequence[int]) -> Window:
        pads = window_padding_type_to_pad_values(padding, spatial, kernel, window_strides)
        return _window(kernel, window_strides, pads)

    groups = (feature_group_count, batch_group_count)
    return _convolution(lhs, rhs, window, dimension_numbers, groups, precision_config, preferred_element_type)


def Conv(
    lhs: object, rhs: object, window_strides: Sequence[int], padding: PaddingType,
    feature_group_count: int = 1, batch_group_count: int = 1, precision_config: PrecisionConfig | None = None,
    preferred_element_type: Any = None,
) -> XlaOp:  # fmt: skip
    """As ConvWithGeneralPadding, with SAME or VALID padding."""
    left, right = operands("Conv", lhs, rhs)
    return ConvWithGeneralDimensions(
        left, right, window_strides, padding, _default_numbers(left), feature_group_count, batch_group_count,
        precision_config, preferred_element_type,
    )  # fmt: skip


def _default_numbers(lhs: XlaOp) -> ConvolutionDimensionNumbers:
    spatial = list(range(2, lhs.shape.rank)) if isinstance(lhs.shape, Shape) else []
    return ConvolutionDimensionNumbers(0, 1, spatial, 0, 1, spatial, 0, 1, spatial)


def _convolution(
    lhs: object, rhs: object, window: Callable[[Sequence[int], Sequence[int]], Window],
    numbers: ConvolutionDimensionNumbers, groups: tuple[int, int], precision: PrecisionConfig | None,
    dtype: Any,
) -> XlaOp:  # fmt: skip
    """Adds a convolution. `window` is called with the spatial sizes of `lhs` and of the kernel and returns
    the window. `groups` is (feature_group_count, batch_group_count); `dtype` is the element type of the
    result, None for that of the operands.
    """
    left, right = operands("convolution", lhs, rhs)
    a, b = left.shape, right.shape
    what = "convolution: dimension_numbers"
    instance(ConvolutionDimensionNumbers, numbers, what)
    with left.builder.checking("convolution", (left, right)):
        if not isinstance(a, Shape) or not isinstance(b, Shape):
            reject("convolution_array", "convolution: the operands must be arrays")
        if a.dtype is not b.dtype and dtype is None:
            message = f"convolution of {a.dtype} and {b.dtype} needs a preferred_element_type"
            reject("convolution_types", message)
        given: dict[str, Any] = {
            label: (integers if name.endswith("dimensions") else integer)(getattr(numbers, name), what)
            for name, label in CONVOLUTION_DIMENSIONS.items()
        }
        labels = ConvDims.of(**given)
        if len(labels.input) != a.rank or len(labels.kernel) != b.rank:
            found = f"{labels.input}_{labels.kernel}->{labels.output}"
            reject("convolution_c1", f"convolution: dim_labels {found} do not fit ranks {a.rank}, {b.rank}")
        op = hlo.Convolution.of(
            a, b, None if dtype is None else element_type(dtype, "preferred_element_type"),
            window=window(
                [a.dims[d] for d in labels.input_spatial], [b.dims[d] for d in labels.kernel_spatial]
            ),
            dim_labels=labels,
            feature_group_count=integer(groups[0], "feature_group_count"),
            batch_group_count=integer(groups[1], "batch_group_count"),
            operand_precision=operand_precision(precision),
        )  # fmt: skip
    return left.builder.add(op, (left, right))


# reduce-window and select-and-scatter.


def ReduceWindow(
    operand: Any, init_value: Any, computation: object, window_dimensions: Sequence[int],
    window_strides: Sequence[int], padding: PaddingType,
) -> XlaOp:  # fmt: skip
    """Combines the elements at each position of a window with the computation. SAME padding adds elements
    equal to the initial value.
    """
    values, count = _data_and_inits(operand, init_value)
    with values[0].builder.checking("reduce-window", values):
        dims = getattr(values[0].shape, "dims", ())
        pads = window_padding_type_to_pad_values(padding, dims, window_dimensions, window_strides)
    return ReduceWindowWithGeneralPadding(
        values[:count], values[count:], computation, window_dimensions, window_strides, (), (), pads
    )


def ReduceWindowWithGeneralPadding(
    operand: Any, init_value: Any, computation: object, window_dimensions: Sequence[int],
    window_strides: Sequence[int], base_dilations: Sequence[int], window_dilations: Sequence[int],
    padding: WindowPadding,
) -> XlaOp:  # fmt: skip
    """Combines the elements at each position of a window with the computation. `operand` may also be a list
    of arrays, whose elements are combined together.
    """
    values, _ = _data_and_inits(operand, init_value)
    builder = values[0].builder
    with builder.checking("reduce-window", values):
        window = _window(window_dimensions, window_strides, padding, base_dilations, window_dilations)
    return builder.add(
        hlo.ReduceWindow(window, builder.callee(computation, "ReduceWindow: computation")), values
    )


def _data_and_inits(operand: Any, init_value: Any) -> tuple[list[XlaOp], int]:
    """Returns (the arrays followed by their initial values, the number of arrays)."""
    several = isinstance(operand, (list, tuple))
    if several != isinstance(init_value, (list, tuple)) or several and len(operand) != len(init_value):
        message = "ReduceWindow: wanted as many initial values as operands, both lists or both single"
        raise InvalidArgument(message)
    arrays, inits = (list(operand), list(init_value)) if several else ([operand], [init_value])
    return operands("ReduceWindow", *arrays, *inits), len(arrays)


def SelectAndScatter(
    operand: object, select: object, window_dimensions: Sequence[int], window_strides: Sequence[int],
    padding: PaddingType, source: object, init_value: object, scatter: object,
) -> XlaOp:  # fmt: skip
    """As SelectAndScatterWithGeneralPadding, with SAME or VALID padding."""
    (value,) = operands("SelectAndScatter", operand)
    with value.builder.checking("select-and-scatter", (value,)):
        dims = getattr(value.shape, "dims", ())
        pads = window_padding_type_to_pad_values(padding, dims, window_dimensions, window_strides)
    return SelectAndScatterWithGeneralPadding(
        value, select, window_dimensions, window_strides, pads, source, init_value, scatter
    )


def SelectAndScatterWithGeneralPadding(
    operand: object, select: object, window_dimensions: Sequence[int], window_strides: Sequence[int],
    padding: WindowPadding, source: object, init_value: object, scatter: object,
) -> XlaOp:  # fmt: skip
    """For each position of a window over `operand`, `select` chooses one of its elements. `scatter` combines
    the element of `source` for this position with the result, at the index of the chosen element. The result
    begins as `init_value`.
    """
    values = operands("SelectAndScatter", operand, source, init_value)
    builder = values[0].builder
    with builder.checking("select-and-scatter", values):
        window = _window(window_dimensions, window_strides, padding)
    op = hlo.SelectAndScatter(
        window,
        builder.callee(select, "SelectAndScatter: select"),
        builder.callee(scatter, "SelectAndScatter: scatter"),
    )
    return builder.add(op, values)
