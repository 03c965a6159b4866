"""Ops that move elements: from the index of an element to the place where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from axla.ir.graph import Instruction

from .writer import Index, c_type, flat

if TYPE_CHECKING:
    from .kernels import KernelWriter


def broadcast(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    return kernel.element(inst.operands[0], tuple(index[d] for d in inst.op.dimensions))


def transpose(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    places = dict(zip(inst.op.dimensions, index, strict=True))
    return kernel.element(inst.operands[0], tuple(places[d] for d in range(len(index))))


def reverse(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    sizes = inst.shape.dims
    turned = [
        kernel.out.place(f"{sizes[d] - 1} - {at}") if d in inst.op.dimensions else at
        for d, at in enumerate(index)
    ]
    return kernel.element(inst.operands[0], tuple(turned))


def reshape(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    source = inst.operands[0]
    rest = kernel.out.place(flat(index, inst.shape)) if index else "0"
    found: list[str] = []
    stride = source.shape.size
    for d, size in enumerate(source.shape.dims):
        stride //= max(size, 1)
        within = "" if d == 0 else f" % {size}"
        found.append("0" if size == 1 else kernel.out.place(f"{rest} / {stride}{within}"))
    return kernel.element(source, tuple(found))


def slice_(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    dims = inst.op.slice
    places = [
        kernel.out.place(f"{start} + {at} * {stride}")
        for at, start, stride in zip(index, dims.starts, dims.strides, strict=True)
    ]
    return kernel.element(inst.operands[0], tuple(places))


def pad(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    """The operand's element where there is one, else the padding value."""
    (source, fill), config, out = inst.operands, inst.op.padding, kernel.out
    inside, places = [], []
    for d, at in enumerate(index):
        step = config.interior[d] + 1
        place = out.place(f"{at} - {config.low[d]}" if config.low[d] >= 0 else f"{at} + {-config.low[d]}")
        inside.append(f"{place} >= 0 && {place} % {step} == 0 && {place} / {step} < {source.shape.dims[d]}")
        places.append(out.place(f"{place} / {step}"))
    return either(kernel, inst, " && ".join(inside), (source, tuple(places)), (fill, ()))


def either(
    kernel: KernelWriter, inst: Instruction, test: str, yes: tuple[Instruction, Index], no: Any
) -> str:  # fmt: skip
    """One of two elements; the other one is not read."""
    out, name = kernel.out, kernel.out.name()
    out.line(f"{c_type(inst.shape.dtype)} {name};")
    for head, (source, index) in ((f"if ({test or 1})", yes), ("else", no)):
        with out.block(head):
            out.line(f"{name} = {kernel.element(source, index)};")
    return name


def concatenate(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    (d,) = inst.op.dimensions
    out, name = kernel.out, kernel.out.name()
    out.line(f"{c_type(inst.shape.dtype)} {name};")
    start = 0
    for source in inst.operands:
        stop = start + source.shape.dims[d]
        with out.block(f"{'else ' if start else ''}if ({index[d]} < {stop})" if stop else "if (0)"):
            place = out.place(f"{index[d]} - {start}")
            out.line(f"{name} = {kernel.element(source, (*index[:d], place, *index[d + 1 :]))};")
        start = stop
    return name


def iota(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    return kernel.out.value(inst.shape.dtype, index[inst.op.iota_dimension])


def starts_of(
    kernel: KernelWriter, starts: list[Instruction], sizes: tuple[int, ...], dims: tuple[int, ...]
) -> list[str]:  # fmt: skip
    """Where a window of `sizes` in an array of `dims` starts: moved so that it lies inside."""
    if len(starts) == 1 and starts[0].shape.rank:
        found = [kernel.element(starts[0], (str(d),)) for d in range(len(dims))]
    else:
        found = [kernel.element(start, ()) for start in starts]
    rooms = [whole - size for whole, size in zip(dims, sizes, strict=True)]
    return [kernel.out.place(f"CLAMP({at}, {room})") for at, room in zip(found, rooms, strict=True)]


def dynamic_slice(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    source, *starts = inst.operands
    found = starts_of(kernel, starts, inst.shape.dims, source.shape.dims)
    places = [kernel.out.place(f"{start} + {at}") for start, at in zip(found, index, strict=True)]
    return kernel.element(source, tuple(places))


def dynamic_update_slice(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    source, update, *starts = inst.operands
    found = starts_of(kernel, starts, update.shape.dims, source.shape.dims)
    places = [kernel.out.place(f"{at} - {start}") for start, at in zip(found, index, strict=True)]
    sizes = update.shape.dims
    inside = [f"{place} >= 0 && {place} < {size}" for place, size in zip(places, sizes, strict=True)]
    return either(kernel, inst, " && ".join(inside), (update, tuple(places)), (source, index))


def update_in_place(kernel: KernelWriter, inst: Instruction, result: str) -> None:
    """Writes an update over the memory of its operand."""
    source, update, *starts = inst.operands
    found = starts_of(kernel, starts, update.shape.dims, source.shape.dims)
    with kernel.out.loops(update.shape.dims) as index:
        value = kernel.element(update, index)
        places = tuple(f"({start} + {at})" for start, at in zip(found, index, strict=True))
        kernel.out.line(f"{result}[{flat(places, inst.shape)}] = {value};")


def gather(kernel: KernelWriter, inst: Instruction, index: Index) -> str:
    (source, indices), op = inst.operands, inst.op
    outer = [at for d, at in enumerate(index) if d not in op.offset_dims]
    window = iter([at for d, at in enumerate(index) if d in op.offset_dims])
    vector = op.index_vector_dim
    # Dimensions of the indices, in order, without that of the vectors.
    batch = dict(zip([d for d in range(indices.shape.rank) if d != vector], outer, strict=True))
    places = []
    for d, size in enumerate(op.slice_sizes):
        start = "0"
        if d in op.start_index_map:
            at = {**batch, vector: str(op.start_index_map.index(d))}
            number = kernel.element(indices, tuple(at[k] for k in range(indices.shape.rank)))
            start = f"CLAMP({number}, {source.shape.dims[d] - size})"
        elif d in op.operand_batching_dims:
            start = batch[op.start_indices_batching_dims[op.operand_batching_dims.index(d)]]
        within = "0" if d in op.dropped else next(window)
        places.append(kernel.out.place(f"{start} + {within}"))
    return kernel.element(source, tuple(places))


ELEMENTS: dict[str, Callable[[Any, Instruction, Index], str]] = {
    "bitcast": reshape, "broadcast": broadcast,
    "concatenate": concatenate, "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice, "gather": gather, "iota": iota, "pad": pad,
    "reshape": reshape, "reverse": reverse, "slice": slice_, "transpose": transpose,
}  # fmt: skip
