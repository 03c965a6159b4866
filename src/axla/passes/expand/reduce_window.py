"""Rewrites reduce-window into cheaper forms: padding replaces checks of edges, and long windows are combined
by doubling.

For a window that reaches over an edge, every step would check the position. So the operand is padded with the
identity of the combiner (zero for a sum). A window of n elements along one dimension takes about 2 log2(n)
combinations of whole arrays: [x(i) x(i+1)] from x, [x(i) ... x(i+3)] from these, and so on. Dimensions are
handled one after the other.
"""

from __future__ import annotations

from math import prod
from typing import Any

import axla.hlo as hlo
from axla.core.dataclass import dataclass
from axla.core.shape import Shape
from axla.ir.attributes import PaddingConfig, SliceDims, Window
from axla.ir.graph import Instruction, Module
from axla.ir.op import Op
from axla.ir.typed import op_of, shape_of
from axla.kernels.scan import ScanKind
from axla.passes.expand.expander import expand, full, packed, scalar, spread
from axla.passes.simplify.match import combiner, neutral, uniform
from axla.target.machine import Target

LONG = 16
"""The fewest elements of a window whose dimensions are handled one by one."""


def reduce_window_rewriter(module: Module, target: Target | None = None) -> None:
    """Rewrites reduce-windows: pads arrays whose windows reach over edges, replaces a window over the whole
    array by a reduce, and applies long windows along one dimension after the other. Windows that are scans
    stay if the target has kernels for scans.
    """

    def rewritten(inst: Instruction) -> Instruction | None:
        is_scan = target is not None and ScanKind.form(inst, target.limits) is not None
        return None if is_scan else _rewritten(inst)

    expand(module, "reduce-window-rewriter", {hlo.ReduceWindow: rewritten})


@dataclass(frozen=True)
class _Window:
    """A window without padding over `x`, whose elements are combined by ops of the class `op`."""

    x: Instruction
    window: Window
    op: type[Op]


def _rewritten(inst: Instruction) -> Instruction | None:
    op = op_of(inst, hlo.ReduceWindow)
    shape = inst.shape
    if not all(s.size for s in shape.arrays()):
        return packed(shape, [full(inst.computation, s.logical, 0) for s in shape.arrays()])
    found = combiner(op.to_apply)
    if len(inst.operands) != 2 or not isinstance(shape, Shape) or found is None:
        return None
    x, init = inst.operands
    if not shape_of(x).size or {shape_of(x).dtype, shape_of(init).dtype} != {shape.dtype}:
        return None
    own, value = neutral(found, shape.dtype), uniform(init)
    if own is None or shape.dtype.is_pred and found in (hlo.Add, hlo.Multiply):
        return None
    starts_neutral = value is not None and bool(value == own)
    window = op.window
    if any(window.low) or any(window.high) or any(n > 1 for n in window.base_dilation):
        x = _padded(x, window, own)
        window = Window(window.size, window.stride, window_dilation=window.window_dilation)
    elif prod(window.size) < LONG:
        return None  # the loop kernel computes it
    if _sees_all(x, window, shape):
        whole = hlo.Reduce(tuple(range(window.rank)), op.to_apply)(x, init)
        return hlo.Reshape(shape.logical)(whole) if shape.rank else whole
    if prod(window.size) < LONG:
        return hlo.ReduceWindow(window, op.to_apply)(x, init)
    total = _by_dimensions(_Window(x, window, found), shape)
    return total if starts_neutral else found()(spread(init, shape.logical), total)


def _padded(x: Instruction, window: Window, fill: Any) -> Instruction:
    config = PaddingConfig(window.low, window.high, tuple(n - 1 for n in window.base_dilation))
    return hlo.Pad(config)(x, scalar(x.computation, shape_of(x).dtype, fill))


def _sees_all(x: Instruction, window: Window, result: Shape) -> bool:
    """Whether the window has a single position, at which it covers the whole array."""
    dense = all(n == 1 or size == 1 for n, size in zip(window.window_dilation, window.size, strict=True))
    return dense and result.size == 1 and window.size == shape_of(x).dims


def _by_dimensions(whole: _Window, result: Shape) -> Instruction:
    """Applies the window along one dimension after the other. `result` is the shape of the whole result."""
    x, window = whole.x, whole.window
    for d in range(window.rank):
        x = _line(whole, x, d, result.dims[d])
    return x


def _line(whole: _Window, x: Instruction, d: int, places: int) -> Instruction:
    """`x` with every element combined with those elements after it, along dimension `d`, that the window
    covers if it begins there. Only the elements for the window's `places` positions are computed.
    """
    window = whole.window
    size, step, stride = window.size[d], window.window_dilation[d], window.stride[d]
    total: Instruction | None = None
    start, length = 0, 1  # `total` combines `start` elements, `x` combines `length`
    reach = (places - 1) * stride + 1
    while True:
        if size & length:
            part = _slice(x, d, start * step, reach, stride)
            total = part if total is None else whole.op()(total, part)
            start += length
        length *= 2
        if length > size:
            break
        count = shape_of(x).dims[d] - length // 2 * step
        x = whole.op()(_slice(x, d, 0, count, 1), _slice(x, d, length // 2 * step, count, 1))
    assert total is not None
    return total


def _slice(x: Instruction, d: int, start: int, reach: int, stride: int) -> Instruction:
    """The elements of dimension `d` with the indices start, start + stride, ... below start + reach."""
    dims = shape_of(x).dims
    if start == 0 and reach == dims[d] and stride == 1:
        return x
    starts = tuple(start if k == d else 0 for k in range(len(dims)))
    ends = tuple(start + reach if k == d else n for k, n in enumerate(dims))
    return hlo.Slice(SliceDims(starts, ends, tuple(stride if k == d else 1 for k in range(len(dims)))))(x)
