"""Shapes for native code: each shape in use has one memory block, so that native code compares shapes by
address.
"""

from __future__ import annotations

import ctypes as c
import weakref
from functools import lru_cache

import numpy as np

from axla.codegen.native.structs import SHAPE_INFO
from axla.core import locks
from axla.core.shape import Shape, strides

# Formats of the buffer protocol in native sizes and order. bf16, 8-bit floats and types narrower than a byte
# have none. C's long has 64 bits on Linux and macOS, but 32 on Windows, so the formats of s64 and u64 come
# from NumPy.
_FORMATS = {
    "pred": b"?", "s8": b"b", "u8": b"B", "s16": b"h", "u16": b"H", "s32": b"i", "u32": b"I",
    "s64": np.dtype(np.int64).char.encode(), "u64": np.dtype(np.uint64).char.encode(), "f16": b"e",
    "f32": b"f", "f64": b"d", "c64": b"Zf", "c128": b"Zd",
}  # fmt: skip
_ELEMENTS = (
    "pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz "
    "f8e4m3fnuz s4 u4 token s2 u2 f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn s1 u1 f6e2m3fn f6e3m2fn"
)
ELEMENTS = {name: number for number, name in enumerate(_ELEMENTS.split(), 1)}
"""The numbers of element types in the PJRT C API."""
_Block = SHAPE_INFO.ctypes()


class ShapeInfo:
    """A shape and its native description, which is at `address`."""

    __slots__ = (
        "shape", "dims", "dtype", "bytes", "address", "has_format", "element", "_keep",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, shape: Shape, element: int | None = None) -> None:
        """Makes the native description. `element`, if given, replaces the PJRT number of the shape's element
        type.
        """
        rank = len(shape.dims)
        item = shape.dtype.itemsize
        text = _FORMATS.get(shape.dtype.name)
        dims = (c.c_int64 * max(rank, 1))(*shape.dims)
        steps = (c.c_int64 * max(rank, 1))(*(s * item for s in strides(shape.dims)))
        block = _Block(
            rank=rank,
            item_bytes=item,
            bytes=shape.byte_size,
            format=c.cast(c.c_char_p(text), c.c_void_p) if text else None,
            descr=id(shape.dtype.numpy),
            dims=c.addressof(dims),
            strides=c.addressof(steps),
            element=ELEMENTS.get(shape.dtype.name, 0) if element is None else element,
        )
        self.shape = shape
        self.dims: tuple[int, ...] = shape.dims
        self.dtype: np.dtype = shape.dtype.numpy
        self.bytes: int = shape.byte_size
        self.has_format = text is not None
        self.element: int = block.element
        self.address = c.addressof(block)
        self._keep = (block, dims, steps)  # the formats are module constants


_infos: weakref.WeakValueDictionary[Shape, ShapeInfo] = weakref.WeakValueDictionary()
_lock = locks.new_lock()


# The cache only keeps recent objects alive; the table above makes them unique.
@lru_cache(maxsize=256)
def shape_info(shape: Shape) -> ShapeInfo:
    """The description of a shape in its default layout. It is the same object as long as it is referenced."""
    shape = shape.logical
    info = _infos.get(shape)
    if info is None:
        with _lock:
            info = _infos.get(shape)
            if info is None:
                info = _infos[shape] = ShapeInfo(shape)
    return info
