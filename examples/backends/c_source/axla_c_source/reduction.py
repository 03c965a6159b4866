"""Ops of which every element is a loop: reduce, reduce-window and dot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from axla import Shape
from axla.core.dtypes import DType
from axla.ir.graph import Instruction

from .elementwise import convert
from .writer import Index, c_type

if TYPE_CHECKING:
    from .kernels import KernelWriter


def _variables(kernel: KernelWriter, inst: Instruction, inits: list[str]) -> list[str]:
    """Variables that change, one for each array of the result."""
    names = []
    for shape, init in zip(inst.shape.leaves(), inits, strict=True):
        names.append(kernel.out.name("s"))
        kernel.out.line(f"{c_type(shape.dtype)} {names[-1]} = {init};")
    return names


def _combine(kernel: KernelWriter, inst: Instruction, sums: list[str], values: list[str]) -> None:
    """Puts values into the variables, by the computation of the op."""
    dtypes = [shape.dtype for shape in inst.shape.leaves()]
    before = [kernel.out.value(dtype, name) for dtype, name in zip(dtypes, sums, strict=True)]
    for name, value in zip(sums, kernel.apply(inst.op.to_apply, [*before, *values]), strict=True):
        kernel.out.line(f"{name} = {value};")


def reduce(kernel: KernelWriter, inst: Instruction, index: Index) -> list[str]:
    count = len(inst.operands) // 2
    data, inits = inst.operands[:count], inst.operands[count:]
    dims, reduced = data[0].shape.dims, inst.op.dimensions
    sums = _variables(kernel, inst, [kernel.element(init, ()) for init in inits])
    with kernel.out.loops(tuple(dims[d] for d in reduced)) as inner:
        within, around = iter(inner), iter(index)
        by_dimension = dict(zip(reduced, within, strict=True))
        places = tuple(by_dimension[d] if d in by_dimension else next(around) for d in range(len(dims)))
        _combine(kernel, inst, sums, [kernel.element(array, places) for array in data])
    return sums


def reduce_window(kernel: KernelWriter, inst: Instruction, index: Index) -> list[str]:
    """Where the window lies over padding, the initial values are its elements."""
    count, window, out = len(inst.operands) // 2, inst.op.window, kernel.out
    data, inits = inst.operands[:count], inst.operands[count:]
    starts = [kernel.element(init, ()) for init in inits]
    sums = _variables(kernel, inst, starts)
    with out.loops(window.size) as inner:
        places, inside = window_places(kernel, inst, index, inner, data[0].shape.dims)
        values = _variables(kernel, inst, starts)
        with out.block(f"if ({inside})"):
            for name, array in zip(values, data, strict=True):
                out.line(f"{name} = {kernel.element(array, places)};")
        _combine(kernel, inst, sums, values)
    return sums


def window_places(
    kernel: KernelWriter, inst: Instruction, index: Index, inner: Index, dims: tuple[int, ...]
) -> tuple[Index, str]:  # fmt: skip
    """Where an element of a window comes from, and the test whether it is there."""
    window, places, inside = inst.op.window, [], []
    for d, (at, tap) in enumerate(zip(index, inner, strict=True)):
        tap = f"({window.size[d] - 1} - {tap})" if window.reversal[d] else tap
        moved = f"{at} * {window.stride[d]} + {tap} * {window.window_dilation[d]} - ({window.low[d]})"
        place, step = kernel.out.place(moved), window.base_dilation[d]
        inside.append(f"{place} >= 0 && {place} % {step} == 0 && {place} / {step} < {dims[d]}")
        places.append(kernel.out.place(f"{place} / {step}"))
    return tuple(places), " && ".join(inside) or "1"


def _add_product(kernel: KernelWriter, name: str, shape: Shape, pairs: list[tuple[str, DType]]) -> None:
    """Adds the product of two elements to a variable; of pred, whether both hold."""
    dtype = shape.dtype
    left, right = (kernel.out.value(dtype, convert(value, source, dtype)) for value, source in pairs)
    kernel.out.line(f"{name} |= {left} & {right};" if dtype.is_pred else f"{name} += {left} * {right};")


def dot(kernel: KernelWriter, inst: Instruction, index: Index) -> list[str]:
    (lhs, rhs), op = inst.operands, inst.op
    left_free, right_free = op.lhs_free(lhs.shape.rank), op.rhs_free(rhs.shape.rank)
    rest = index[len(op.lhs_batch_dims) + len(left_free) :]
    left = dict(zip((*op.lhs_batch_dims, *left_free), index, strict=False))
    right = dict(zip(op.rhs_batch_dims, index, strict=False))
    right |= dict(zip(right_free, rest, strict=True))
    sums = _variables(kernel, inst, ["0"])
    with kernel.out.loops(tuple(lhs.shape.dims[d] for d in op.lhs_contracting_dims)) as inner:
        left |= dict(zip(op.lhs_contracting_dims, inner, strict=True))
        right |= dict(zip(op.rhs_contracting_dims, inner, strict=True))
        values = [
            (
                kernel.element(operand, tuple(places[d] for d in range(operand.shape.rank))),
                operand.shape.dtype,
            )
            for operand, places in ((lhs, left), (rhs, right))
        ]
        _add_product(kernel, sums[0], inst.shape, values)
    return sums


NESTS: dict[str, Callable[[Any, Instruction, Index], list[str]]] = {
    "dot": dot, "reduce": reduce, "reduce-window": reduce_window,
}  # fmt: skip
