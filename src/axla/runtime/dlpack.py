"""DLPack both ways, without copies: the legacy capsule and the versioned one, which can be read-only."""

from __future__ import annotations

import ctypes as c
from typing import TYPE_CHECKING, Any

import numpy as np

from axla.codegen.native.objects import DLPACK_CONTEXT
from axla.codegen.native.structs import EXTERNAL, RECORD
from axla.core import dtypes
from axla.core.dtypes import DType
from axla.core.errors import InvalidArgument, OutOfMemory
from axla.core.shape import Shape, strides
from axla.runtime.native import native, why_not
from axla.runtime.shape_info import shape_info

if TYPE_CHECKING:
    from axla.runtime.array import Array

CPU, _CUDA_HOST = 1, 3
_READ_ONLY, _IS_COPIED = 1, 2

# DLPack type codes. Sub-byte integers have no code for one element per byte, so they do not travel.
_CODES = {"signed": 0, "unsigned": 1, "float": 2, "complex": 5, "pred": 6}
_SPECIAL = {
    "bf16": 4, "f8e3m4": 7, "f8e4m3": 8, "f8e4m3b11fnuz": 9, "f8e4m3fn": 10, "f8e4m3fnuz": 11, "f8e5m2": 12,
    "f8e5m2fnuz": 13, "f8e8m0fnu": 14,
}  # fmt: skip


class _Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.c_void_p),
        ("strides", c.c_void_p),
        ("byte_offset", c.c_uint64),
    ]


class _Legacy(c.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c.c_void_p), ("deleter", c.c_void_p)]


class _Versioned(c.Structure):
    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("context", c.c_void_p),
        ("deleter", c.c_void_p),
        ("flags", c.c_uint64),
        ("tensor", _Tensor),
    ]


_STRUCTS: dict[str, Any] = {"legacy": _Legacy, "versioned": _Versioned}
_NAMES = {"legacy": b"dltensor", "versioned": b"dltensor_versioned"}
_USED = {"legacy": b"used_dltensor", "versioned": b"used_dltensor_versioned"}
for _kind, _offset in DLPACK_CONTEXT.items():
    assert _STRUCTS[_kind].context.offset == _offset


def _api(name: str, result: Any, *parameters: Any) -> Any:
    function = getattr(c.pythonapi, name)
    function.restype, function.argtypes = result, list(parameters)
    return function


_capsule_new = _api("PyCapsule_New", c.py_object, c.c_void_p, c.c_char_p, c.c_void_p)
_capsule_pointer = _api("PyCapsule_GetPointer", c.c_void_p, c.py_object, c.c_char_p)
_capsule_valid = _api("PyCapsule_IsValid", c.c_int, c.py_object, c.c_char_p)
_capsule_rename = _api("PyCapsule_SetName", c.c_int, c.py_object, c.c_char_p)


def _type_code(dtype: DType) -> tuple[int, int]:
    if dtype.bits < 8:
        raise BufferError(f"DLPack has no {dtype.name} with one element per byte: use np.asarray")
    return _SPECIAL.get(dtype.name, _CODES[dtype.kind]), dtype.bits


_DTYPES = {_type_code(d): d for d in dtypes.ALL if d.bits >= 8}


def export(array: Array, max_version: Any, dl_device: Any, copy: bool | None) -> object:
    """A DLPack capsule over an array's memory; a deleted or donated array's memory outlives the capsule."""
    if dl_device is not None and tuple(dl_device) != (CPU, 0):
        raise BufferError(
            f"{array._text()} is on the CPU: it cannot be exported to DLPack device {tuple(dl_device)}"
        )
    if copy:
        from axla.runtime.array import device_put

        array = device_put(array)
    array.block_until_ready()
    code, bits = _type_code(array._info.shape.dtype)
    n = native()
    kind = "versioned" if max_version is not None and tuple(max_version)[0] >= 1 else "legacy"
    rank = len(array.shape)
    struct = _STRUCTS[kind]
    # One block of C memory: the struct, then sizes and strides. Its deleter is native: it needs no
    # interpreter lock.
    block = _malloc(c.sizeof(struct) + 16 * rank)
    dims = (c.c_int64 * (2 * rank)).from_address(block + c.sizeof(struct))
    dims[:] = [*array.shape, *strides(array.shape)]
    managed = struct.from_address(block)
    record = array._record
    n.record_hold(record)
    managed.context, managed.deleter = record, n.glue.addresses[f"dlpack_delete_{kind}"]
    if kind == "versioned":
        managed.major, managed.minor = 1, 0
        managed.flags = _IS_COPIED if copy else _READ_ONLY
    address = RECORD.ctypes().from_address(record).address
    at = c.addressof(dims)
    managed.tensor = _Tensor(address, CPU, 0, rank, code, bits, 1, at, at + 8 * rank, 0)
    return _capsule_new(block, _NAMES[kind], n.glue.addresses[f"dlpack_capsule_{kind}"])


def _malloc(size: int) -> int:
    allocate = c.CDLL(None).malloc
    allocate.restype, allocate.argtypes = c.c_void_p, [c.c_size_t]
    return allocate(size)


def from_dlpack(source: Any) -> Array:
    """An Array over another library's memory (copied where strided); programs never write to it."""
    from axla.runtime.array import device_put

    if not hasattr(source, "__dlpack__"):
        raise InvalidArgument(f"from_dlpack: {type(source).__name__} has no __dlpack__ method")
    device = source.__dlpack_device__()
    if device[0] not in (CPU, _CUDA_HOST):
        raise InvalidArgument(
            f"from_dlpack: the array is on DLPack device {tuple(device)}, wanted the CPU, (1, 0)"
        )
    if why_not() is not None:
        return device_put(np.from_dlpack(source))
    try:
        capsule = source.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = source.__dlpack__()
    kind = next((k for k, name in _NAMES.items() if _capsule_valid(capsule, name)), None)
    if kind is None:
        raise InvalidArgument("from_dlpack: __dlpack__ gave no unused DLPack capsule")
    managed = _STRUCTS[kind].from_address(_capsule_pointer(capsule, _NAMES[kind]))
    if kind == "versioned" and managed.major != 1:
        raise InvalidArgument(f"from_dlpack: DLPack version {managed.major}, wanted 1")
    return _import(capsule, kind, managed)


def _import(capsule: object, kind: str, managed: Any) -> Array:
    tensor = managed.tensor
    dtype = _DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
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
    _capsule_rename(capsule, _USED[kind])
    info = shape_info(shape)
    return n.array_new(info.address, info, record)


def _copied(shape: Shape, address: int, given: tuple[int, ...]) -> Array:
    """A copy of strided memory; the capsule, not renamed, frees its tensor."""
    from axla.runtime.array import device_put

    item = shape.dtype.itemsize
    view = _Strided(address, shape.dims, tuple(s * item for s in given), item)
    return device_put(np.asarray(view).view(np.dtype(f"V{item}")).copy().view(shape.dtype.numpy))


class _Strided:
    """Foreign memory for NumPy to look at."""

    def __init__(self, address: int, dims: tuple[int, ...], steps: tuple[int, ...], item: int) -> None:
        data = (address, True)
        self.__array_interface__ = {
            "version": 3,
            "shape": dims,
            "typestr": f"|V{item}",
            "strides": steps,
            "data": data,
        }
