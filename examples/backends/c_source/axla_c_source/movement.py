"""Ops that move elements: from the index of an element to the place where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .writer import Index, Node, c_type, flat, leaf

if TYPE_CHECKING:
    from .kernels import KernelWriter

Sizes = tuple[int, ...]
"""A number for each dimension."""


def broadcast(kernel: KernelWriter, inst: Node, index: Index) -> str:
    return kernel.element(inst.operands[0], tuple(index[d] for d in inst.op.dimensions))


def transpose(kernel: KernelWriter, inst: Node, index: Index) -> str:
    places = tuple(index[inst.op.dimensions.index(d)] for d in range(len(index)))
    return kernel.element(inst.operands[0], places)


def reverse(kernel: KernelWriter, inst: Node, index: Index) -> str:
    places = list(index)
    for d in inst.op.dimensions:
        places[d] = kernel.out.place(f"{inst.shape.dims[d] - 1} - {index[d]}")
    return kernel.element(inst.operands[0], tuple(places))


def reshape(kernel: KernelWriter, inst: Node, index: Index) -> str:
    source = inst.operands[0]
    rest = kernel.out.place(flat(index, inst.shape))
    found: list[str] = []
    for size in reversed(source.shape.dims):
        found.append(kernel.out.place(f"{rest} % {size}"))
        rest = kernel.out.place(f"{rest} / {size}")
    return kernel.element(source, tuple(reversed(found)))


def bitcast(kernel: KernelWriter, inst: Node, index: Index) -> str:
    """The bytes of the operand, which has an array, as another type."""
    source, name, kind = inst.operands[0], kernel.out.name(), c_type(inst.shape.dtype)
    if inst.shape.dtype is source.shape.dtype:
        return reshape(kernel, inst, index)
    kernel.out.line(f"{kind} {name};")
    start = f"({kind} *){kernel.arrays[leaf(source)]} + {flat(index, inst.shape)}"
    kernel.out.line(f"memcpy(&{name}, {start}, sizeof {name});")
    return name


def slice_(kernel: KernelWriter, inst: Node, index: Index) -> str:
    window = zip(index, inst.op.slice.starts, inst.op.slice.strides, strict=True)
    places = tuple(kernel.out.place(f"{start} + {at} * {stride}") for at, start, stride in window)
    return kernel.element(inst.operands[0], places)


def spread(kernel: KernelWriter, places: Index, steps: Sizes, sizes: Sizes) -> tuple[Index, str]:
    """The index in an array whose elements lie `steps` apart, and the test whether one is there."""
    found, inside = [], ["1"]
    for place, step, size in zip(places, steps, sizes, strict=True):
        inside.append(f"{place} >= 0 && {place} % {step} == 0 && {place} / {step} < {size}")
        found.append(kernel.out.place(f"{place} / {step}"))
    return tuple(found), " && ".join(inside)


def either(kernel: KernelWriter, inst: Node, cases: Sequence[tuple[str, Node, Index]]) -> str:
    """The element of the first case whose test holds; the others are not read."""
    out, name = kernel.out, kernel.out.name()
    out.line(f"{c_type(inst.shape.dtype)} {name};")
    for number, (test, source, index) in enumerate(cases):
        with out.block(f"{'else ' if number else ''}if ({test})"):
            out.line(f"{name} = {kernel.element(source, index)};")
    return name


def pad(kernel: KernelWriter, inst: Node, index: Index) -> str:
    (source, fill), config = inst.operands, inst.op.padding
    places = tuple(kernel.out.place(f"{at} - ({low})") for at, low in zip(index, config.low, strict=True))
    found, inside = spread(kernel, places, tuple(gap + 1 for gap in config.interior), source.shape.dims)
    return either(kernel, inst, [(inside, source, found), ("1", fill, ())])


def concatenate(kernel: KernelWriter, inst: Node, index: Index) -> str:
    (d,) = inst.op.dimensions
    cases, start = [], 0
    for source in inst.operands:
        places = (*index[:d], f"({index[d]} - {start})", *index[d + 1 :])
        start += source.shape.dims[d]
        cases.append((f"{index[d]} < {start}", source, places))
    return either(kernel, inst, cases)


def iota(kernel: KernelWriter, inst: Node, index: Index) -> str:
    return kernel.out.value(inst.shape.dtype, index[inst.op.iota_dimension])


def starts_of(kernel: KernelWriter, starts: list[Node], sizes: Sizes, dims: Sizes) -> list[str]:
    """Where a window of `sizes` in an array of `dims` starts: moved so that it lies inside."""
    return [
        kernel.out.place(f"CLAMP({kernel.element(start, ())}, {whole - size})")
        for start, whole, size in zip(starts, dims, sizes, strict=True)
    ]


def dynamic_slice(kernel: KernelWriter, inst: Node, index: Index) -> str:
    source, *starts = inst.operands
    found = starts_of(kernel, starts, inst.shape.dims, source.shape.dims)
    places = [kernel.out.place(f"{start} + {at}") for start, at in zip(found, index, strict=True)]
    return kernel.element(source, tuple(places))


def dynamic_update_slice(kernel: KernelWriter, inst: Node, index: Index) -> str:
    source, update, *starts = inst.operands
    found = starts_of(kernel, starts, update.shape.dims, source.shape.dims)
    moved = tuple(kernel.out.place(f"{at} - {start}") for start, at in zip(found, index, strict=True))
    places, inside = spread(kernel, moved, (1,) * len(moved), update.shape.dims)
    return either(kernel, inst, [(inside, update, places), ("1", source, index)])


def update_in_place(kernel: KernelWriter, inst: Node, result: str) -> None:
    """Writes an update over the memory of its operand."""
    source, update, *starts = inst.operands
    found = starts_of(kernel, starts, update.shape.dims, source.shape.dims)
    with kernel.out.loops(update.shape.dims, polls=True) as index:
        value = kernel.element(update, index)
        places = tuple(f"({start} + {at})" for start, at in zip(found, index, strict=True))
        kernel.out.line(f"{result}[{flat(places, inst.shape)}] = {value};")


def gather(kernel: KernelWriter, inst: Node, index: Index) -> str:
    (source, indices), op = inst.operands, inst.op
    window = iter([at for d, at in enumerate(index) if d in op.offset_dims])
    outer = iter([at for d, at in enumerate(index) if d not in op.offset_dims])
    batch = ["" if d == op.index_vector_dim else next(outer) for d in range(indices.shape.rank)]
    places = []
    for d, size in enumerate(op.slice_sizes):
        start = "0"
        if d in op.start_index_map:
            at = tuple(place or str(op.start_index_map.index(d)) for place in batch)
            start = f"CLAMP({kernel.element(indices, at)}, {source.shape.dims[d] - size})"
        elif d in op.operand_batching_dims:
            start = batch[op.start_indices_batching_dims[op.operand_batching_dims.index(d)]]
        within = "0" if d in op.dropped else next(window)
        places.append(kernel.out.place(f"{start} + {within}"))
    return kernel.element(source, tuple(places))


ELEMENTS: dict[str, Callable[[KernelWriter, Any, Index], str]] = {
    "bitcast": bitcast, "bitcast-convert": bitcast, "broadcast": broadcast, "concatenate": concatenate,
    "dynamic-slice": dynamic_slice, "dynamic-update-slice": dynamic_update_slice, "gather": gather,
    "iota": iota, "pad": pad, "reshape": reshape, "reverse": reverse, "slice": slice_, "transpose": transpose,
}  # fmt: skip
