"""Rewrites convolutions into one of two forms that can be emitted, or into dots.

Base dilation, reversal and batch groups are written as pad, reverse and reshape. The remaining window has
strides, window dilation and padding; if the kernel of the target cannot handle the padding, it becomes a pad
as well:

    features last    b01f_01io->b01f    lanes run along features: of the result, or of groups of one feature
    features first   bf01_01io->bf01    lanes run along the last spatial dimension; no padding

A convolution whose window covers one element, or the whole input, is a dot. So is one whose kernel array does
not fit in the cache, if there are few window positions: a convolution reads the kernel array for each row of
positions, a dot of the patches reads it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import F32
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.hlo import Concatenate, Constant, Convolution, Dot, Pad, Reverse, Slice, Transpose
from axla.ir.attributes import ConvDims, PaddingConfig, SliceDims, Window
from axla.ir.graph import Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.kernels.convolution import by_channels
from axla.kernels.product import GemmSpec
from axla.passes.expand.expander import expand, full, scalar
from axla.passes.expand.winograd import winograd
from axla.passes.rewrite import fast_math
from axla.passes.simplify.algebra_movement import reshaped
from axla.passes.simplify.match import values_of
from axla.target.machine import Target

FEATURES = 8
"""The fewest output features of a group for lanes along features. With fewer, lanes run along the last
spatial dimension.
"""

PATCHES = 2
"""A convolution becomes a dot of its patches if it has at most PATCHES times as many window positions as
output features.
"""
EDGE = 8
"""The most padding of the last spatial dimension that a kernel handles itself, and only for windows of at
most 2 * EDGE + 1 elements. Other padding is written to memory, since a kernel has code for each position at
which the window covers padding.
"""
ROW_BYTES = 1 << 20
"""The most bytes of a row of the image for which a kernel handles padding itself."""


WINOGRAD = 32
"""The fewest features, and tiles of 2 by 2 results, for which Winograd's algorithm is faster."""


def convolution_canonicalize(module: Module, target: Target | None = None) -> None:
    """Brings every convolution into one of the two forms, or makes it a dot."""
    canonical = partial(_canonical, target=target)
    expand(module, "convolution-canonicalize", {Convolution: canonical})


def spatial_labels(rank: int) -> str:
    """The labels of `rank` spatial dimensions: 0, 1, 2..."""
    return "".join(chr(ord("0") + d) for d in range(rank))


def canonical_labels(rank: int, features_first: bool) -> ConvDims:
    """The dimension labels of the form with features first or last, for `rank` spatial dimensions."""
    spatial = spatial_labels(rank)
    data = f"bf{spatial}" if features_first else f"b{spatial}f"
    return ConvDims(data, f"{spatial}io", data)


@dataclass(frozen=True)
class _Parts:
    """A convolution [batch, spatial..., features] x [spatial..., inputs, outputs] whose window is not
    reversed. The fields are those of HLO's convolution, with feature groups only.
    """

    x: Instruction
    kernel: Instruction
    window: Window
    groups: int
    result: Shape  # [batch, spatial..., features]

    @property
    def places(self) -> tuple[int, ...]:
        return self.result.dims[1:-1]

    def padded(self) -> _Parts:
        """An equal convolution of a padded input, whose window has neither padding nor base dilation."""
        window = self.window
        interior = tuple(d - 1 for d in window.base_dilation)
        if not any((*window.low, *window.high, *interior)):
            return self
        config = PaddingConfig((0, *window.low, 0), (0, *window.high, 0), (0, *interior, 0))
        x = Pad(config)(self.x, scalar(self.x.computation, shape_of(self.x).dtype, 0))
        inside = Window(window.size, window.stride, window_dilation=window.window_dilation)
        return replace(self, x=x, window=inside)

    def keeps_edges(self, target: Target | None) -> bool:
        """Whether the emitted kernel handles the padding of the window itself."""
        window, dims = self.window, shape_of(self.x).dims
        edges, row = (*window.low, *window.high), prod(dims[-2:]) * shape_of(self.x).dtype.itemsize
        plain = min(edges) >= 0 and set(window.base_dilation) == {1} and min(dims) > 0
        edge = max(window.low[-1], window.high[-1])
        few = edge <= EDGE and (not edge or window.size[-1] <= 2 * EDGE + 1) and row <= ROW_BYTES
        return target is not None and not (target.local_bytes or target.launched) and plain and few


def _canonical(inst: Instruction, target: Target | None) -> Instruction:
    op = op_of(inst, Convolution)
    op.check_dense()
    shape = shape_of(inst)
    labels = op.dim_labels
    order = [labels.output_batch, *labels.output_spatial, labels.output_feature]
    result = shape.with_dims([shape.dims[d] for d in order]).logical
    if not result.size or not shape_of(inst.operands[1]).size:
        return full(inst.computation, shape.logical, 0)
    found = _convolved(inst, _parts(inst, result), target)
    return transposed(found, [order.index(d) for d in range(shape.rank)])


def _parts(inst: Instruction, result: Shape) -> _Parts:
    op, (x, kernel) = op_of(inst, Convolution), inst.operands
    labels, window = op.dim_labels, op.window
    x, window = _with_padding(x, labels, window)
    x = transposed(x, [labels.input_batch, *labels.input_spatial, labels.input_feature])
    kernel = transposed(kernel, [*labels.kernel_spatial, labels.kernel_input, labels.kernel_output])
    groups = op.feature_group_count
    if op.batch_group_count > 1:
        groups = op.batch_group_count
        x = _groups_to_features(x, groups)
    backwards = tuple(d for d in range(window.rank) if window.reversal[d] and window.size[d] > 1)
    if backwards:
        kernel = Reverse(backwards)(kernel)
    forwards = replace(window, reversal=())
    return _Parts(x, kernel, forwards, groups, result)


def _with_padding(x: Instruction, labels: ConvDims, window: Window) -> tuple[Instruction, Window]:
    """Merges a pad with zeros into the window: returns the operand of the pad, and the window with more
    padding. Returns `x` and `window` as they are if `x` is not such a pad.
    """
    value = values_of(x.operands[1]) if isinstance(x.op, Pad) else None
    if value is None or value.any() or set(window.base_dilation) - {1}:
        return x, window
    config = op_of(x, Pad).padding
    edges = list(zip(config.low, config.high, strict=True))
    others = [edges[d] for d in (labels.input_batch, labels.input_feature)]
    if any(config.interior) or min(map(min, edges)) < 0 or any(map(any, others)):
        return x, window
    there = [edges[d] for d in labels.input_spatial]
    low = tuple(mine + more for mine, (more, _) in zip(window.low, there, strict=True))
    high = tuple(mine + more for mine, (_, more) in zip(window.high, there, strict=True))
    return x.operands[0], replace(window, low=low, high=high)


def transposed(x: Instruction, order: Sequence[int]) -> Instruction:
    """`x` transposed: dimension k of the result is dimension order[k] of x."""
    return x if list(order) == sorted(order) else Transpose(tuple(order))(x)


def _groups_to_features(x: Instruction, groups: int) -> Instruction:
    """Moves groups of the batch to the features: [groups * batch, spatial..., features] becomes [batch,
    spatial..., groups * features].
    """
    batch, *spatial, features = shape_of(x).dims
    split = reshaped(x, [groups, batch // groups, *spatial, features])
    last = len(spatial) + 2
    moved = transposed(split, [*range(1, last), 0, last])
    return reshaped(moved, [batch // groups, *spatial, groups * features])


def _convolved(inst: Instruction, parts: _Parts, target: Target | None) -> Instruction:
    window = parts.window
    steps = {*window.stride, *window.window_dilation}
    if set(window.base_dilation) - {1} and not steps - {1} and target:
        return _by_phases(inst, parts, target)
    if all(n == 1 for n in window.size):
        parts = parts.padded()
        return _dot(parts, _elements_of(parts, (0,) * window.rank))
    if all(n == 1 for n in parts.places) and parts.groups == 1:
        return _at_only_place(parts.padded())
    if fast_math() and _suits_winograd(parts, target):
        return winograd(parts.x, parts.kernel, parts.window, parts.places)
    if _reads_kernel_often(parts, target):
        parts = parts.padded()
        return _dot(parts, _patches(parts))
    return _window(inst, parts, target)


def _at_only_place(parts: _Parts) -> Instruction:
    """A convolution with a single window position, as a dot of the input that the window covers and the
    kernel array.
    """
    x, kernel, window = parts.x, parts.kernel, parts.window
    dims, is_transpose = shape_of(x).dims, isinstance(x.op, Transpose)
    if window.size != dims[1:-1]:
        limits, steps = (dims[0], *window.dilated_size, dims[-1]), (1, *window.window_dilation, 1)
        order = op_of(x, Transpose).dimensions if is_transpose else tuple(range(len(dims)))
        back = [order.index(d) for d in range(len(dims))]
        limits, steps = (tuple(values[d] for d in back) for values in (limits, steps))
        bounds = SliceDims((0,) * len(dims), limits, steps)
        x = transposed(Slice(bounds)(x.operands[0] if is_transpose else x), order)
    rank = window.rank + 1
    op = Dot.of(
        lhs=shape_of(x), rhs=shape_of(kernel), dtype=parts.result.dtype,
        lhs_contracting_dims=tuple(range(1, rank + 1)), rhs_contracting_dims=tuple(range(rank)),
    )  # fmt: skip
    return reshaped(op(x, kernel), parts.result.dims)


def _by_phases(inst: Instruction, parts: _Parts, target: Target) -> Instruction:
    """A convolution with base dilation n in a dimension, as n convolutions without it. Output positions that
    are n apart read input elements at the same offsets in the window; each convolution computes the outputs
    at such positions.
    """
    window, places = parts.window, parts.places
    d = next(d for d, by in enumerate(window.base_dilation) if by > 1)
    by, low, size = window.base_dilation[d], window.low[d], shape_of(parts.x).dims[d + 1]
    count = -(-places[d] // by)
    dims = (*parts.result.dims[: d + 1], count, *parts.result.dims[d + 2 :])
    result = parts.result.with_dims(dims).logical
    phases = []
    for phase in range(by):
        first = (low - phase) % by
        seen = len(range(first, window.size[d], by))
        if not seen:
            phases.append(full(inst.computation, result, 0))
            continue
        before = (low - phase - first) // by
        there = {
            "size": seen, "low": before, "high": count - 1 + seen - size - before, "base_dilation": 1,
        }  # fmt: skip
        changed = {name: _with(getattr(window, name), d, value) for name, value in there.items()}
        kernel = shape_of(parts.kernel).dims
        start, stride = _with((0,) * len(kernel), d, first), _with((1,) * len(kernel), d, by)
        some = Slice(SliceDims(start, kernel, stride))(parts.kernel)
        new = replace(parts, kernel=some, window=replace(window, **changed), result=result)
        phases.append(_convolved(inst, new, target))
    apart = [reshaped(found, [*dims[: d + 2], 1, *dims[d + 2 :]]) for found in phases]
    found = reshaped(Concatenate((d + 2,))(*apart), [*dims[: d + 1], count * by, *dims[d + 2 :]])
    if count * by > places[d]:
        found = Slice(SliceDims((0,) * len(dims), parts.result.dims, (1,) * len(dims)))(found)
    return found


def _with(values: Sequence[int], d: int, value: int) -> tuple[int, ...]:
    """The tuple of `values` with the entry at index `d` replaced by `value`."""
    return (*values[:d], value, *values[d + 1 :])


def _elements_of(parts: _Parts, at: Sequence[int]) -> Instruction:
    """The input elements that are at offset `at` of the window, for all window positions."""
    dims, window = shape_of(parts.x).dims, parts.window
    first = [n * d for n, d in zip(at, window.window_dilation, strict=True)]
    limits = [f + (n - 1) * s + 1 for f, n, s in zip(first, parts.places, window.stride, strict=True)]
    if list(parts.places) == list(dims[1:-1]):
        return parts.x
    bounds = SliceDims((0, *first, 0), (dims[0], *limits, dims[-1]), (1, *window.stride, 1))
    return Slice(bounds)(parts.x)


def _reads_kernel_often(parts: _Parts, target: Target | None) -> bool:
    """Whether the kernel array does not fit in the cache, while the patches do."""
    if target is None or target.local_bytes or parts.groups > 1:
        return False
    kernel, places = shape_of(parts.kernel), prod(parts.result.dims[:-1])
    some = places <= PATCHES * kernel.dims[-1] and prod(parts.window.size) <= target.limits.pieces
    return some and kernel.size * kernel.dtype.bits > 4 * 8 * target.caches.l2


def _patches(parts: _Parts) -> Instruction:
    """The input elements of each window, as [batch, positions..., window * features]."""
    seen = [_elements_of(parts, at) for at in product(*map(range, parts.window.size))]
    return Concatenate((len(parts.places) + 1,))(*seen)


def _dot(parts: _Parts, x: Instruction) -> Instruction:
    """The convolution as a dot of the patches `x`, one per group: [positions, groups * inputs] x [inputs,
    groups * outputs].
    """
    *seen, outputs = shape_of(parts.kernel).dims
    inputs = prod(seen)
    groups, rows = parts.groups, shape_of(x).size // (parts.groups * inputs)
    dtype = parts.result.dtype
    if groups == 1:
        left, right = reshaped(x, [rows, inputs]), reshaped(parts.kernel, [inputs, outputs])
        batch: tuple[int, ...] = ()
    else:
        left = transposed(reshaped(x, [rows, groups, inputs]), [1, 0, 2])
        right = transposed(reshaped(parts.kernel, [inputs, groups, outputs // groups]), [1, 0, 2])
        batch = (0,)
    op = Dot.of(
        lhs=shape_of(left), rhs=shape_of(right), dtype=dtype, lhs_batch_dims=batch, rhs_batch_dims=batch,
        lhs_contracting_dims=(len(batch) + 1,), rhs_contracting_dims=(len(batch),),
    )  # fmt: skip
    product = op(left, right)
    if groups > 1:
        product = transposed(product, [1, 0, 2])
    return reshaped(product, parts.result.dims)


def _window(inst: Instruction, parts: _Parts, target: Target | None) -> Instruction:
    op = op_of(inst, Convolution)
    rank = parts.window.rank
    features = shape_of(parts.kernel).dims[-1] // parts.groups
    inputs = shape_of(parts.kernel).dims[-2]
    by_channel = by_channels(target, parts.result.dtype, parts.groups, inputs, features)
    if features == 1 and not by_channel and parts.groups >= FEATURES and target:
        return _inputs_in_window(inst, parts, target)
    first = not by_channel and features < FEATURES and parts.places[-1] > features
    if first or not parts.keeps_edges(target):
        parts = parts.padded()
    if target and not (first or by_channel):
        parts = _whole_words(parts, target)
    x, result = parts.x, parts.result
    if first:
        order = [0, rank + 1, *range(1, rank + 1)]
        x = transposed(x, order)
        result = result.with_dims([result.dims[d] for d in order]).logical
    new = replace(
        op, shape=result, window=parts.window, dim_labels=canonical_labels(rank, first),
        feature_group_count=parts.groups, batch_group_count=1,
    )  # fmt: skip
    found = new(x, parts.kernel)
    return transposed(found, [0, *range(2, rank + 2), 1]) if first else found


def _suits_winograd(parts: _Parts, target: Target | None) -> bool:
    """Whether Winograd's algorithm makes a convolution faster."""
    window, dims = parts.window, shape_of(parts.kernel).dims
    tiles = prod(-(-n // 2) for n in parts.places) * parts.result.dims[0]
    one_by_one = {*window.stride, *window.window_dilation, *window.base_dilation} == {1}
    enough = target is not None and target.blocks_products and min(*dims[-2:], tiles) >= WINOGRAD
    plain = {shape_of(parts.x).dtype, shape_of(parts.kernel).dtype, parts.result.dtype} == {F32}
    return window.size == (3, 3) and one_by_one and parts.groups == 1 and plain and enough


def _whole_words(parts: _Parts, target: Target) -> _Parts:
    """Pads the input features with zeros, so that they fill whole words of several short numbers. Does so
    only if the kernel array is a constant, which is padded in the same way; else returns `parts`.
    """
    x, dtype, values = parts.x, shape_of(parts.x).dtype, values_of(parts.kernel)
    *window, inputs, outputs = shape_of(parts.kernel).dims
    missing = GemmSpec(dtype, parts.result.dtype, 1, 1, outputs, inputs).by_words(target).missing
    if parts.groups > 1 or not missing or values is None:
        return parts
    none = (0,) * x.shape.rank
    x = Pad(PaddingConfig(none, (*none[1:], missing), none))(x, scalar(x.computation, dtype, 0))
    edges = [(0, 0)] * len(window) + [(0, missing), (0, 0)]
    literal = Literal(Shape(dtype, (*window, inputs + missing, outputs)), np.pad(values, edges))
    return replace(parts, x=x, kernel=x.computation.add(Constant(literal.shape, literal)))


def _inputs_in_window(inst: Instruction, parts: _Parts, target: Target) -> Instruction:
    """Computes groups with several inputs and one output feature each as channels: the inputs of a group
    become a dimension of the window.
    """
    (batch, *spatial, _), window, groups = shape_of(parts.x).dims, parts.window, parts.groups
    inputs, rank = shape_of(parts.kernel).dims[-2], window.rank
    x = reshaped(parts.x, [batch, *spatial, groups, inputs])
    x = transposed(x, [0, rank + 2, *range(1, rank + 2)])
    kernel = transposed(parts.kernel, [rank, *range(rank), rank + 1])
    kernel = reshaped(kernel, [inputs, *window.size, 1, groups])
    wider = Window(
        (inputs, *window.size), (1, *window.stride), (0, *window.low), (0, *window.high),
        (1, *window.base_dilation), (1, *window.window_dilation),
    )  # fmt: skip
    result = parts.result.with_dims([batch, 1, *parts.places, groups]).logical
    found = _window(inst, _Parts(x, kernel, wider, groups, result), target)
    return reshaped(found, parts.result.dims)
