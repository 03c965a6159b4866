"""Makes arrays over the memory of other libraries through DLPack, without copies."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from axla.codegen.native.structs import EXTERNAL, RECORD
from axla.core.errors import InvalidArgument, OutOfMemory
from axla.core.shape import Shape, strides
from axla.runtime import dlpack_capsule as capsules
from axla.runtime.array import Array, device_put
from axla.runtime.native import native, why_not
from axla.runtime.shape_info import shape_info


def from_dlpack(source: Any) -> Array:
    """Makes an Array over the memory of another library's array, which programs never write to. Strided or
    unaligned arrays are copied.
    """
    if not hasattr(source, "__dlpack__"):
        raise InvalidArgument(f"from_dlpack: {type(source).__name__} has no __dlpack__ method")
    device = source.__dlpack_device__()
    if device[0] not in (capsules.CPU, capsules.CUDA_HOST):
        raise InvalidArgument(
            f"from_dlpack: the array is on DLPack device {tuple(device)}, wanted the CPU, (1, 0)"
        )
    if why_not() is not None:
        return device_put(np.from_dlpack(source))
    try:
        capsule = source.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = source.__dlpack__()
    kind = next((k for k, name in capsules.NAMES.items() if capsules.valid(capsule, name)), None)
    if kind is None:
        raise InvalidArgument("from_dlpack: __dlpack__ returned no unused DLPack capsule")
    managed = capsules.STRUCTS[kind].from_address(capsules.pointer(capsule, capsules.NAMES[kind]))
    if kind == "versioned" and managed.major != 1:
        raise InvalidArgument(f"from_dlpack: DLPack version {managed.major}, wanted 1")
    return _import(capsule, kind, managed)


def _import(capsule: object, kind: str, managed: Any) -> Array:
    tensor = managed.tensor
    dtype = capsules.DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise InvalidArgument(
            f"from_dlpack: unknown DLPack type, code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes"
        )
    rank = tensor.ndim
    dims = tuple((c.c_int64 * rank).from_address(tensor.shape)) if rank else ()
    shape = Shape(dtype, dims)
    address = (tensor.data or 0) + tensor.byte_offset
    given = (
        tuple((c.c_int64 * rank).from_address(tensor.strides)) if rank and tensor.strides else strides(dims)
    )
    dense = all(d <= 1 or a == b for d, a, b in zip(dims, given, strides(dims), strict=True)) or 0 in dims
    alignment = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if not dense or address % alignment:
        return _copied(shape, address, given)
    n = native()
    record = n.record_over(address, shape.byte_size)
    if not record:
        raise OutOfMemory("from_dlpack: no memory for the record of the array")
    head = RECORD.ctypes().from_address(record)
    head.flags, head.context = EXTERNAL, c.addressof(managed)
    head.release = n.glue.addresses[f"dlpack_release_{kind}"]
    capsules.rename(capsule, capsules.USED[kind])
    info = shape_info(shape)
    return n.array_new(info.address, info, record)


def _copied(shape: Shape, address: int, given: tuple[int, ...]) -> Array:
    """Copies an array at `address`; `given` has its strides in elements. The DLPack capsule stays unused, so
    it frees the memory itself.
    """
    item = shape.dtype.itemsize
    view = _Strided(address, shape.dims, tuple(s * item for s in given), item)
    return device_put(np.asarray(view).view(np.dtype(f"V{item}")).copy().view(shape.dtype.numpy))


class _Strided:
    """Exposes foreign memory to NumPy as an array of raw items. `steps` are its strides in bytes."""

    def __init__(self, address: int, dims: tuple[int, ...], steps: tuple[int, ...], item: int) -> None:
        data = (address, True)
        self.__array_interface__ = {
            "version": 3,
            "shape": dims,
            "typestr": f"|V{item}",
            "strides": steps,
            "data": data,
        }
