"""DLPack capsules in the legacy form and the versioned form, which can be marked read-only; and the export of
arrays as capsules.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

from axla.codegen.native.objects import DLPACK_CONTEXT
from axla.codegen.native.structs import RECORD
from axla.codegen.native.systems import HERE
from axla.core import dtypes
from axla.core.dtypes import DType
from axla.core.python_api import python_function
from axla.core.shape import Shape, strides
from axla.program.abi import structure
from axla.runtime.native import native

CPU, CUDA_HOST = 1, 3
_READ_ONLY, _IS_COPIED = 1, 2

# DLPack type codes. Integers narrower than a byte have no code for one element per byte, so they cannot be
# exported.
_CODES = {"signed": 0, "unsigned": 1, "float": 2, "complex": 5, "pred": 6}
_SPECIAL = {
    "bf16": 4, "f8e3m4": 7, "f8e4m3": 8, "f8e4m3b11fnuz": 9, "f8e4m3fn": 10, "f8e4m3fnuz": 11, "f8e5m2": 12,
    "f8e5m2fnuz": 13, "f8e8m0fnu": 14,
}  # fmt: skip


_TENSOR = structure(
    "DLTensor", data=c.c_void_p, device_type=c.c_int32, device_id=c.c_int32, ndim=c.c_int32, code=c.c_uint8,
    bits=c.c_uint8, lanes=c.c_uint16, shape=c.c_void_p, strides=c.c_void_p, byte_offset=c.c_uint64,
)  # fmt: skip
STRUCTS: dict[str, Any] = {
    "legacy": structure("DLManagedTensor", tensor=_TENSOR, context=c.c_void_p, deleter=c.c_void_p),
    "versioned": structure(
        "DLManagedTensorVersioned", major=c.c_uint32, minor=c.c_uint32, context=c.c_void_p,
        deleter=c.c_void_p, flags=c.c_uint64, tensor=_TENSOR,
    ),
}  # fmt: skip
NAMES = {"legacy": b"dltensor", "versioned": b"dltensor_versioned"}
USED = {"legacy": b"used_dltensor", "versioned": b"used_dltensor_versioned"}
for _kind, _offset in DLPACK_CONTEXT.items():
    assert STRUCTS[_kind].context.offset == _offset


_capsule_new = python_function("PyCapsule_New", c.py_object, c.c_void_p, c.c_char_p, c.c_void_p)
pointer = python_function("PyCapsule_GetPointer", c.c_void_p, c.py_object, c.c_char_p)
valid = python_function("PyCapsule_IsValid", c.c_int, c.py_object, c.c_char_p)
rename = python_function("PyCapsule_SetName", c.c_int, c.py_object, c.c_char_p)


def _type_code(dtype: DType) -> tuple[int, int]:
    if dtype.bits < 8:
        raise BufferError(f"DLPack has no {dtype.name} with one element per byte: use np.asarray")
    return _SPECIAL.get(dtype.name, _CODES[dtype.kind]), dtype.bits


DTYPES = {_type_code(d): d for d in dtypes.ALL if d.bits >= 8}


def export(array: Any, shape: Shape, *, versioned: bool, copied: bool) -> object:
    """Makes a capsule over the memory of an array. The memory is kept as long as the capsule exists. `copied`
    is whether the array was copied for this export.
    """
    code, bits = _type_code(shape.dtype)
    n = native()
    kind = "versioned" if versioned else "legacy"
    rank = shape.rank
    struct = STRUCTS[kind]
    # One block of C memory: the struct, then sizes and strides. Its deleter is native, so that it can run
    # without the GIL.
    block = _malloc(c.sizeof(struct) + 16 * rank)
    dims = (c.c_int64 * (2 * rank)).from_address(block + c.sizeof(struct))
    dims[:] = [*shape.dims, *strides(shape.dims)]
    managed = struct.from_address(block)
    record = array._hold("__dlpack__")
    managed.context, managed.deleter = record, n.glue.addresses[f"dlpack_delete_{kind}"]
    if versioned:
        managed.major, managed.minor = 1, 0
        managed.flags = _IS_COPIED if copied else _READ_ONLY
    address = RECORD.ctypes().from_address(record).address
    at = c.addressof(dims)
    managed.tensor = _TENSOR(address, CPU, 0, rank, code, bits, 1, at, at + 8 * rank, 0)
    return _capsule_new(block, NAMES[kind], n.glue.addresses[f"dlpack_capsule_{kind}"])


def _malloc(size: int) -> int:
    allocate = HERE.library().malloc
    allocate.restype, allocate.argtypes = c.c_void_p, [c.c_size_t]
    return allocate(size)
