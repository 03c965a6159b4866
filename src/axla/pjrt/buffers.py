"""The functions of the API for buffers: transfers from and to the host, and between memories."""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from axla.codegen.native.structs import EXTERNAL, RECORD
from axla.core import dtypes
from axla.core.errors import InvalidArgument, OutOfMemory, UnsupportedError
from axla.core.python_api import incref
from axla.core.shape import Shape
from axla.core.status import CLASSES, Status
from axla.pjrt.client import devices, placed
from axla.pjrt.errors import StatusError
from axla.pjrt.functions import implements
from axla.pjrt.table import STRUCTS, integers, text_at, view
from axla.runtime.array import Array, device_put
from axla.runtime.native import native
from axla.runtime.queue import Failure
from axla.runtime.shape_info import ELEMENTS, ShapeInfo, shape_info

DELETED = "Array has been deleted or donated."
TOKEN = ELEMENTS["token"]
_TYPES = {ELEMENTS[d.name]: d for d in dtypes.ALL if d.name in ELEMENTS}
_Record: Any = RECORD.ctypes()
_TILED = 0


def array_at(handle: int) -> Array:
    """The array of a PJRT_Buffer, given the buffer's address."""
    return c.cast(handle, c.py_object).value


def handed_out(array: Array) -> int:
    """A PJRT_Buffer for an array; the caller owns a reference to the array."""
    incref(array)
    return id(array)


def shape_of(number: int, dims: int | None, rank: int) -> Shape:
    """The shape for the number of a PJRT element type, and `rank` sizes at the address `dims`."""
    dtype = _TYPES.get(number)
    if dtype is None:
        raise UnsupportedError(f"arrays of the PJRT element type {number} are not supported")
    return Shape(dtype, tuple(integers(dims, rank)))


def new_array(shape: Shape) -> Array:
    """An array with uninitialised contents."""
    info = shape_info(shape)
    record = native().record_new(info.bytes)
    if not record:
        raise OutOfMemory(f"{info.bytes} bytes are not available")
    return native().array_new(info.address, info, record)


_token_info: list[ShapeInfo] = []


def token() -> Array:
    """The array that represents a token; no program reads it."""
    if not _token_info:
        _token_info.append(ShapeInfo(Shape(dtypes.dtype("pred"), ()), TOKEN))
    [info] = _token_info
    return native().array_new(info.address, info, native().record_new(1))


def _copied(shape: Shape, address: int, steps: tuple[int, ...]) -> Array:
    """A copy of the elements at an address, as an array. `steps` has the stride of each dimension in bytes;
    strides may be negative.
    """
    item = shape.dtype.itemsize
    info = shape_info(shape)
    dense = _steps(shape, _row_major(len(shape.dims)))
    if not info.bytes or all(d <= 1 or a == b for d, a, b in zip(shape.dims, steps, dense, strict=True)):
        return native().array_copy(info.address, info, address)
    reach = [s * (d - 1) for s, d in zip(steps, shape.dims, strict=True)]
    first, last = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + item
    raw: Any = (c.c_char * (last - first)).from_address(address + first)
    return device_put(np.ndarray(shape.dims, shape.dtype.numpy, raw, -first, steps))


@implements("Client_BufferFromHostBuffer")
def _from_host(args: Any) -> None:
    shape = shape_of(args.type, args.dims, args.num_dims)
    check_row_major(args.device_layout, shape.rank)
    dense = _steps(shape, _row_major(shape.rank))
    steps = tuple(integers(args.byte_strides, args.num_byte_strides)) or dense
    try:
        array = _copied(shape, args.data or 0, steps)
    except MemoryError:
        raise OutOfMemory(f"{shape.byte_size} bytes are not available") from None
    placed(array, devices().place(args.memory, args.device))
    devices().know(array._info)
    args.buffer, args.done_with_host_buffer = handed_out(array), ready_event()


def check_row_major(layout: int | None, rank: int) -> None:
    """Raises UnsupportedError unless the layout at the address `layout` is row-major. Null means
    row-major.
    """
    if _order_of(layout, rank) != _row_major(rank):
        raise UnsupportedError("the layout of the buffer is not row-major")


def _row_major(rank: int) -> list[int]:
    return list(reversed(range(rank)))


def _order_of(address: int | None, rank: int) -> list[int]:
    """The dimensions of the layout at an address, minor to major; row-major if there is none."""
    if not address:
        return _row_major(rank)
    with view(STRUCTS["MemoryLayout"], address) as layout:
        if layout.type != _TILED or layout.tiled_num_tiles:
            raise UnsupportedError("layouts with tiles or strides are not supported")
        found = integers(layout.tiled_minor_to_major, layout.tiled_minor_to_major_size)
        return found or _row_major(rank)


def _steps(shape: Shape, order: list[int]) -> tuple[int, ...]:
    """The strides in bytes of dense elements whose dimensions are in the order `order`, minor to major."""
    found, step = [0] * len(order), shape.dtype.itemsize
    for dimension in order:
        found[dimension] = step
        step *= shape.dims[dimension]
    return tuple(found)


def ready_event() -> int:
    """The address of an event that is always ready."""
    return event_ready[0]


event_ready: list[int] = []
"""The address of the event that is always ready; filled when the plugin is made."""


_ALIGNMENT = 16
"""The alignment in bytes that memory of the caller must have, as in XLA."""


_thread = threading.local()


@contextmanager
def copying(always: bool) -> Iterator[None]:
    """A context in which views that this thread creates become copies: all views if `always`, else only those
    of memory that is not aligned. Outside of such a context, a view of memory that is not aligned is an
    error.
    """
    _thread.copies = [always]
    try:
        yield
    finally:
        _thread.copies = []


@implements("Client_CreateViewOfDeviceBuffer")
def _view_of(args: Any) -> None:
    """Makes an array over memory of the caller; a copy if the layout is not row-major, or in the context
    `copying`.
    """
    shape = shape_of(args.element_type, args.dims, args.num_dims)
    address, done = args.device_buffer_ptr or 0, args.on_delete_callback
    copies = getattr(_thread, "copies", [])
    aligned = address % _ALIGNMENT == 0
    if not aligned and not copies:
        text = f"a view needs an alignment of {_ALIGNMENT} bytes, found memory at {address:#x}"
        raise InvalidArgument(text)
    order = _order_of(args.layout, len(shape.dims))
    if not aligned or any(copies) or order != _row_major(len(order)):
        array = _copied(shape, address, _steps(shape, order))
        if done:
            c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)(done)(address, args.on_delete_callback_arg)
    else:
        info = shape_info(shape)
        record = native().record_over(address, info.bytes)
        _Record.from_address(record).flags = EXTERNAL
        if done:
            native_view[0](record, done, address, args.on_delete_callback_arg)
        array = native().array_new(info.address, info, record)
    args.buffer = handed_out(placed(array, devices().place(args.memory, args.device)))


native_view: list[Any] = []
"""The native function that registers a callback for when a record is freed; filled when the plugin is made.
"""
native_watched: list[Any] = []
"""The native function that returns an event for an array's contents; filled when the plugin is made."""


@implements("Client_CreateUninitializedBuffer")
def _uninitialized(args: Any) -> None:
    array = new_array(shape_of(args.shape_element_type, args.shape_dims, args.shape_num_dims))
    args.buffer = handed_out(placed(array, devices().place(args.memory, args.device)))


@implements("Client_CreateErrorBuffer")
def _error_buffer(args: Any) -> None:
    """Makes an array whose contents are an error that the caller reports."""
    array = new_array(shape_of(args.shape_element_type, args.shape_dims, args.shape_num_dims))
    failure = failure_of(args.error_code, text_at(args.error_message, args.error_message_size))
    placed(array, devices().place(args.memory, None))
    failure.publish(array._record)
    args.buffer = handed_out(array)


def failure_of(code: int, text: str) -> Failure:
    """The failure of a buffer, for an error code and text that the caller reports."""
    failure = Failure(CLASSES.get(Status(code), InvalidArgument)(text), "a buffer that was made so")
    failure.struct.code, failure.struct.read = code, 1
    return failure


def alive(handle: int) -> Array:
    """The array of a PJRT_Buffer; StatusError if it was deleted."""
    array = array_at(handle)
    if array.is_deleted:
        raise StatusError(Status.INVALID_ARGUMENT, DELETED)
    return array


@implements("Buffer_ToHostBuffer")
def _to_host(args: Any) -> None:
    array = alive(args.src)
    if not args.dst:
        args.dst_size = array.nbytes
        return
    found = array.to_numpy()
    found = found.transpose(_order_of(args.host_layout, array.ndim)[::-1])
    if args.dst_size < array.nbytes:
        raise InvalidArgument(f"the destination has {args.dst_size} bytes, the array needs {array.nbytes}")
    c.memmove(args.dst, np.ascontiguousarray(found).ctypes.data, array.nbytes)
    args.event = ready_event()


def _raw(handle: int, offset: int, size: int) -> int:
    """The address of `size` bytes of a buffer, from `offset` on; waits until they are computed."""
    array = alive(handle).block_until_ready()
    if not 0 <= offset <= offset + size <= array.nbytes:
        raise InvalidArgument(f"bytes {offset} to {offset + size}: the array has only {array.nbytes} bytes")
    return _Record.from_address(array._record).address + offset


@implements("Buffer_CopyRawToHost")
def _copy_raw(args: Any) -> None:
    c.memmove(args.dst, _raw(args.buffer, args.offset, args.transfer_size), args.transfer_size)
    args.event = ready_event()


@implements("Buffer_CopyToMemory")
def _copy_to_memory(args: Any) -> None:
    args.dst_buffer = _copy_of(args.buffer, devices().places[args.dst_memory])


@implements("Buffer_CopyToDevice")
def _copy_to_device(args: Any) -> None:
    args.dst_buffer = _copy_of(args.buffer, (devices().numbers[args.dst_device], 0))


def _copy_of(handle: int, place: tuple[int, int]) -> int:
    array = alive(handle)
    return handed_out(placed(copy_of(array), place))


def copy_of(array: Array) -> Array:
    """A copy of an array; waits until its contents are computed."""
    array.block_until_ready()
    if array._info.element == TOKEN:
        return token()
    info, head = array._info, _Record.from_address(array._record)
    return native().array_copy(info.address, info, head.address)


@implements("Buffer_GetMemoryLayout")
def _layout(args: Any) -> None:
    """Returns the row-major layout, which all arrays have."""
    rank = array_at(args.buffer).ndim
    order = _orders.setdefault(rank, (c.c_int64 * max(rank, 1))(*reversed(range(rank))))
    args.layout_type = _TILED
    args.tiled_minor_to_major, args.tiled_minor_to_major_size = c.addressof(order), rank
    args.tiled_tile_dims = args.tiled_tile_dim_sizes = None
    args.tiled_num_tiles = 0


_orders: dict[int, Any] = {}


@implements("Buffer_Bitcast")
def _bitcast(args: Any) -> None:
    """Makes an array of another shape with the same bytes."""
    array = alive(args.buffer)
    shape = shape_of(args.element_type, args.dims, args.num_dims)
    if shape.byte_size != array.nbytes:
        raise InvalidArgument(f"a bitcast cannot change {array.nbytes} bytes to {shape.byte_size}")
    info = shape_info(shape)
    made = native().array_copy(info.address, info, _raw(args.buffer, 0, array.nbytes))
    args.out_buffer = handed_out(placed(made, (array.device, 0)))
