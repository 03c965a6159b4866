"""Ops of which every element is a loop: reduce, reduce-window, dot and convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .elementwise import convert
from .movement import either, spread
from .writer import Index, Node

if TYPE_CHECKING:
    from .kernels import KernelWriter


def variables(kernel: KernelWriter, inst: Node, inits: list[str]) -> list[str]:
    """Variables, one for each array of the result."""
    shapes = inst.shape.leaves()
    return [kernel.out.value(shape.dtype, init) for shape, init in zip(shapes, inits, strict=True)]


def combine(kernel: KernelWriter, inst: Node, sums: list[str], values: list[str]) -> None:
    """Puts values into the variables, by the computation of the op."""
    before = variables(kernel, inst, sums)
    for name, value in zip(sums, kernel.apply(inst.op.to_apply, [*before, *values]), strict=True):
        kernel.out.line(f"{name} = {value};")


def reduce(kernel: KernelWriter, inst: Node, index: Index) -> list[str]:
    count = len(inst.operands) // 2
    data, inits = inst.operands[:count], inst.operands[count:]
    dims, reduced = data[0].shape.dims, sorted(inst.op.dimensions)
    sums = variables(kernel, inst, [kernel.element(init, ()) for init in inits])
    with kernel.out.loops(tuple(dims[d] for d in reduced)) as inner:
        within, around = iter(inner), iter(index)
        places = tuple(next(within if d in reduced else around) for d in range(len(dims)))
        combine(kernel, inst, sums, [kernel.element(array, places) for array in data])
    return sums


def reduce_window(kernel: KernelWriter, inst: Node, index: Index) -> list[str]:
    """Where the window lies over padding, the initial values are its elements."""
    count, window = len(inst.operands) // 2, inst.op.window
    data, inits = inst.operands[:count], inst.operands[count:]
    sums = variables(kernel, inst, [kernel.element(init, ()) for init in inits])
    with kernel.out.loops(window.size) as inner:
        moved = window_places(kernel, window, index, inner)
        places, inside = spread(kernel, moved, window.base_dilation, data[0].shape.dims)
        pairs = zip(data, inits, strict=True)
        values = [either(kernel, x, [(inside, x, places), ("1", init, ())]) for x, init in pairs]
        combine(kernel, inst, sums, values)
    return sums


def window_places(kernel: KernelWriter, window: Any, index: Index, inner: Index) -> Index:
    """Where an element of a window lies in its base, spread and not padded."""
    places = []
    for d, (at, tap) in enumerate(zip(index, inner, strict=True)):
        tap = f"({window.size[d] - 1} - {tap})" if window.reversal[d] else tap
        moved = f"{at} * {window.stride[d]} + {tap} * {window.window_dilation[d]} - ({window.low[d]})"
        places.append(kernel.out.place(moved))
    return tuple(places)


def add_product(kernel: KernelWriter, inst: Node, name: str, places: list[dict[int, str]]) -> None:
    """Adds the product of an element of each operand to a variable; of pred, whether both hold."""
    dtype, factors = inst.shape.dtype, []
    for operand, place in zip(inst.operands, places, strict=True):
        value = kernel.element(operand, tuple(place[d] for d in range(operand.shape.rank)))
        factors.append(kernel.out.value(dtype, convert(inst, operand.shape.dtype, value)))
    sign, times = ("|", "&") if dtype.is_pred else ("+", "*")
    kernel.out.line(f"{name} {sign}= {factors[0]} {times} {factors[1]};")


def dot(kernel: KernelWriter, inst: Node, index: Index) -> list[str]:
    (lhs, rhs), op = inst.operands, inst.op
    left_free, right_free = op.lhs_free(lhs.shape.rank), op.rhs_free(rhs.shape.rank)
    rest = index[len(op.lhs_batch_dims) + len(left_free) :]
    left = dict(zip((*op.lhs_batch_dims, *left_free), index, strict=False))
    right = dict(zip(op.rhs_batch_dims, index, strict=False)) | dict(zip(right_free, rest, strict=True))
    sums = variables(kernel, inst, ["0"])
    with kernel.out.loops(tuple(lhs.shape.dims[d] for d in op.lhs_contracting_dims)) as inner:
        left |= dict(zip(op.lhs_contracting_dims, inner, strict=True))
        right |= dict(zip(op.rhs_contracting_dims, inner, strict=True))
        add_product(kernel, inst, sums[0], [left, right])
    return sums


def convolution(kernel: KernelWriter, inst: Node, index: Index) -> list[str]:
    """Passes have left two forms, without padding and batch groups: `bf01_01io->bf01`, `b01f_01io->b01f`."""
    filters, op = inst.operands[1], inst.op
    features = op.dim_labels.input.index("f")
    spatial = [d for d in range(len(index)) if d not in (0, features)]
    *sizes, inputs, outputs = filters.shape.dims
    group = f"{index[features]} / {outputs // op.feature_group_count}"
    sums = variables(kernel, inst, ["0"])
    with kernel.out.loops((*sizes, inputs)) as inner:
        places = window_places(kernel, op.window, tuple(index[d] for d in spatial), inner[:-1])
        left = dict(zip(spatial, places, strict=True))
        left |= {0: index[0], features: kernel.out.place(f"{group} * {inputs} + {inner[-1]}")}
        add_product(kernel, inst, sums[0], [left, dict(enumerate((*inner, index[features])))])
    return sums


NESTS: dict[str, Callable[[Any, Node, Index], list[str]]] = {
    "convolution": convolution, "dot": dot, "reduce": reduce, "reduce-window": reduce_window,
}  # fmt: skip
