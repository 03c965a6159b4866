"""Buffers that a caller receives before their bytes have arrived, as in `jax.experimental.transfer`."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any

from axla.codegen.native.structs import PENDING, READY, RECORD
from axla.core import locks
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape
from axla.pjrt.buffers import check_row_major, failure_of, handed_out, new_array, ready_event, shape_of
from axla.pjrt.client import devices, placed
from axla.pjrt.functions import implements
from axla.pjrt.table import STRUCTS, integers, text_at, view
from axla.runtime.native import native

_NAME = "AsyncHostToDeviceTransferManager"
_Record: Any = RECORD.ctypes()
_interrupted = c.c_int32()
"""The flag that a wait sets when a signal ends it. Nothing reads it: there is no run to stop."""


class Transfers:
    """Arrays in one memory, each pending until its last bytes, or an error, have arrived."""

    def __init__(self, shapes: Sequence[Shape], place: tuple[int, int]) -> None:
        self.device = place[0]
        self.arrays = [placed(new_array(shape), place) for shape in shapes]
        self._records = [array._record for array in self.arrays]
        self._lock = locks.new_lock()
        for record in self._records:
            native().record_hold(record)  # even if the caller deletes its array
            head = _Record.from_address(record)
            head.ready, head.context = PENDING, c.addressof(_interrupted)

    def write(self, number: int, offset: int, data: int, size: int, is_last: bool) -> None:
        """Copies `size` bytes into buffer `number` at an offset; the last bytes make the buffer ready."""
        record = self._records[number]
        head = _Record.from_address(record)
        if not 0 <= offset <= offset + size <= head.bytes:
            raise InvalidArgument(f"bytes {offset} to {offset + size}: the buffer has {head.bytes} bytes")
        with self._lock:
            c.memmove(head.address + offset, data, size)
            if is_last and head.ready <= PENDING:
                native().record_publish(record, READY, c.py_object())

    def fail(self, number: int, code: int, text: str) -> None:
        """Ends a pending buffer with an error."""
        with self._lock:
            if _Record.from_address(self._records[number]).ready <= PENDING:
                failure_of(code, text).publish(self._records[number])

    def __del__(self) -> None:
        for record in self._records:
            native().record_release(record)


_alive: dict[int, Transfers] = {}


def _transfers(args: Any) -> Transfers:
    return _alive[args.transfer_manager]


@implements("Client_CreateBuffersForAsyncHostToDevice")
def _create(args: Any) -> None:
    shapes, at = [], args.shape_specs
    for _ in range(args.num_shape_specs):
        with view(STRUCTS["ShapeSpec"], at) as spec:
            shapes.append(shape_of(spec.element_type, spec.dims, spec.num_dims))
            at += -(-spec.struct_size // 8) * 8  # struct_size has no padding at the end
    layouts = integers(args.device_layouts, args.num_device_layouts, c.c_void_p)
    for shape, layout in zip(shapes, layouts, strict=False):
        check_row_major(layout, shape.rank)
    made = Transfers(shapes, devices().place(args.memory, None))
    _alive[id(made)] = made
    args.transfer_manager = id(made)


@implements(f"{_NAME}_Destroy")
def _destroy(args: Any) -> None:
    del _alive[args.transfer_manager]


@implements(f"{_NAME}_TransferData")
def _transfer(args: Any) -> None:
    found, size = _transfers(args), args.transfer_size
    found.write(args.buffer_index, args.offset, args.data, size, bool(args.is_last_transfer))
    args.done_with_h2d_transfer = ready_event()


@implements(f"{_NAME}_RetrieveBuffer")
def _buffer(args: Any) -> None:
    args.buffer_out = handed_out(_transfers(args).arrays[args.buffer_index])


@implements(f"{_NAME}_Device")
def _device(args: Any) -> None:
    args.device_out = c.addressof(devices().devices[_transfers(args).device])


@implements(f"{_NAME}_BufferCount")
def _count(args: Any) -> None:
    args.buffer_count = len(_transfers(args).arrays)


@implements(f"{_NAME}_BufferSize")
def _size(args: Any) -> None:
    args.buffer_size = _transfers(args).arrays[args.buffer_index].nbytes


@implements(f"{_NAME}_SetBufferError")
def _fail(args: Any) -> None:
    text = text_at(args.error_message, args.error_message_size)
    _transfers(args).fail(args.buffer_index, args.error_code, text)


@implements(f"{_NAME}_AddMetadata")
def _ignore(args: Any) -> None:
    """Does nothing: hints have no effect."""
