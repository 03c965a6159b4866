"""`axla.Array`: an immutable array in the memory of a device, shared with NumPy and others without copies.

`Array` is the class that users see: all behaviour, no fields. Its instances are of a native type derived from
it, created on first use (`native`), or of `HostArray` where there is no native code. NumPy reads an Array
through the buffer protocol; element types without a format there (bf16, 8-bit floats, sub-byte types) go
through `__array__`.
"""

from __future__ import annotations

import ctypes as c
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from axla.codegen.native.structs import ARRAY, PENDING, RECORD
from axla.core import dtypes
from axla.core.errors import Cancelled, DeadlineExceeded, InvalidArgument, OutOfMemory, UnsupportedError
from axla.core.literal import why_no_array
from axla.core.shape import Shape, show
from axla.program.abi import INTERRUPTED
from axla.runtime.dlpack_capsule import CPU, export
from axla.runtime.native import array_class, native, why_not
from axla.runtime.shape_info import ShapeInfo, shape_info

_Record = RECORD.ctypes()
_FOREVER = 1e9  # seconds from which on a wait has no end

maker_of: list[Callable[[int], str]] = []
"""Says which run makes the record at an address; filled by the queue."""


@array_class
class Array:
    """An array on a device. Make one with `axla.device_put`; programs return them."""

    __slots__ = ()

    elsewhere: ClassVar[bool] = False
    """Whether it lies in memory that code of this machine does not read."""

    if TYPE_CHECKING:
        _record: int  # address of the RECORD, 0 when deleted
        _info: ShapeInfo

    def __new__(cls, *args: object, **kwargs: object) -> Array:
        """Raises InvalidArgument: arrays are made by `device_put` and by programs."""
        raise InvalidArgument("axla.Array has no constructor: use axla.device_put(array)")

    # Facts.

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims of the array."""
        return self._info.dims

    @property
    def dtype(self) -> np.dtype:
        """The NumPy (or ml_dtypes) type."""
        return self._info.dtype

    @property
    def xla_shape(self) -> Shape:
        """The shape as an `axla.Shape`."""
        return self._info.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._info.dims)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._info.shape.size

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self._info.bytes

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._info.dtype.itemsize

    @property
    def device(self) -> int:
        """The ordinal of the device that holds the array."""
        return self._head("device").device

    @property
    def is_deleted(self) -> bool:
        """Whether the memory was released, by `delete` or by donating the array to a program."""
        return not self._record

    def _head(self, what: str) -> Any:
        """The native record; `what` is used in the InvalidArgument for a deleted array."""
        record = self._record
        if not record:
            raise InvalidArgument(f"{what}: {self._text()} was deleted or donated")
        return _Record.from_address(record)

    def _hold(self, what: str) -> int:
        """The record with an additional reference, which the caller releases, since other threads may delete
        the array.
        """
        return native().array_hold(self, 0) or self._head(what)

    def _text(self) -> str:
        return f"Array {show(self._info.shape)}"

    # Life.

    def is_ready(self) -> bool:
        """Whether the run that computes the array has ended, successfully or not: reading it does not
        wait.
        """
        head = self._head("is_ready")
        return head is None or head.ready > PENDING

    def block_until_ready(self, timeout: float | None = None) -> Array:
        """Waits until the array is computed; returns it. Raises the error of the run that computes it, and
        DeadlineExceeded, which names the run, after `timeout` seconds (None: no limit); the run continues. An
        exception from a signal handler, as for Ctrl-C, cancels the run.
        """
        limit = _FOREVER if timeout is None else max(timeout, 0)
        until = time.monotonic_ns() + int(limit * 1e9) if limit < _FOREVER else 0
        record = self._hold("block_until_ready")
        try:
            if native().record_wait(record, until) > 0:
                run = maker_of[0](record)
                raise DeadlineExceeded(f"{self._text()} is not ready after {timeout} s: {run} has not ended")
        finally:
            native().record_release(record)
        return self

    def delete(self) -> None:
        """Deletes the array; its memory is freed as soon as no view and no running program uses it."""
        native().array_delete(self)

    # Contents.

    def to_numpy(self) -> np.ndarray:
        """The contents as a read-only NumPy array over the same memory."""
        self._head("to_numpy")
        why = why_no_array(self._info.shape)
        if why is not None:
            raise UnsupportedError(f"{self._text()}: {why}")
        if self._info.has_format:
            return np.asarray(memoryview(self))  # type: ignore[arg-type]
        return np.asarray(_Pinned(self)).view(self._info.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        view = self.to_numpy()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"{self._text()} to {dtype} needs a copy, which copy=False forbids")
            return view.astype(dtype)
        return view.copy() if copy else view

    @property
    def __array_interface__(self) -> dict[str, object]:
        head = self._head("__array_interface__")
        if not self._info.has_format or why_no_array(self._info.shape) is not None:
            raise AttributeError("__array_interface__")  # NumPy then asks __array__
        try:
            self.block_until_ready()
        except Cancelled as error:
            if error.code != INTERRUPTED:
                raise
            # In a wait for the buffer; NumPy has dropped what the handler of the signal raised.
            raise KeyboardInterrupt from error
        # Whoever asks keeps this object, but need not tell when it is done: the memory stays until the object
        # goes.
        _retain(self)
        return {
            "version": 3,
            "shape": self._info.dims,
            "typestr": self._info.dtype.str,
            "data": (head.address, True),
        }

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> object:
        if dl_device is not None and tuple(dl_device) != (CPU, 0):
            raise BufferError(
                f"{self._text()} is on the CPU: it cannot be exported to DLPack device {tuple(dl_device)}"
            )
        array = device_put(self) if copy else self
        array.block_until_ready()
        versioned = max_version is not None and tuple(max_version)[0] >= 1
        return export(array, array._info.shape, versioned=versioned, copied=bool(copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return np

    def __jax_array__(self) -> np.ndarray:
        return self.to_numpy()

    def __format__(self, form: str) -> str:
        return format(self.to_numpy(), form) if form else str(self)

    def __len__(self) -> int:
        if not self._info.dims:
            raise TypeError("len() of an array without dimensions")
        return self._info.dims[0]

    def __repr__(self) -> str:
        if self.is_deleted:
            return f"{self._text()} (deleted)"
        try:
            self.block_until_ready()
        except Exception as error:
            return f"{self._text()} (failed: {error})"
        return f"{self._text()}\n{self.to_numpy()}"

    def __reduce__(self) -> tuple:
        return device_put, (np.array(self.to_numpy()),)


def _of_numpy(name: str) -> Callable[..., Any]:
    """A method of Array that calls NumPy's method of this name; the result is NumPy's."""

    def method(self: Array, *arguments: Any, **options: Any) -> Any:
        return getattr(self.to_numpy(), name)(*arguments, **options)

    method.__name__ = name
    return method


# What is computed one by one, outside a compiled program, is NumPy's work.
_BINARY = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
_OTHERS = "eq ne lt le gt ge neg pos abs invert iter getitem float int bool complex index"
_METHODS = (
    "all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod "
    "cumsum diagonal dot flatten item max mean min nonzero prod ravel repeat reshape round "
    "searchsorted squeeze std sum swapaxes take tobytes tolist trace transpose var view"
)
_OPERATORS = [*_BINARY.split(), *(f"r{name}" for name in _BINARY.split()), *_OTHERS.split()]
for _name in [*(f"__{operator}__" for operator in _OPERATORS), *_METHODS.split()]:
    setattr(Array, _name, _of_numpy(_name))
for _name in ("T", "real", "imag"):
    setattr(Array, _name, property(lambda array, name=_name: getattr(array.to_numpy(), name)))


class _Pinned:
    """The bytes of an array for NumPy: holds a reference to the record as long as it lives."""

    def __init__(self, array: Array) -> None:
        self._native, self._record, self._array = native(), 0, array
        array.block_until_ready()
        self._record = array._hold("to_numpy")
        item = array.itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": f"<u{item}" if item > 1 else "|u1",
            "data": (_Record.from_address(self._record).address, True),
        }

    def __del__(self) -> None:
        self._native.record_release(self._record)


def give_back(array: Array, record: int) -> None:
    """Returns a record to the array from which it was taken."""
    c.c_void_p.from_address(id(array) + ARRAY.offset("record")).value = record


def _retain(array: Array) -> None:
    """Keeps the memory alive as long as the object, even if the array is deleted or donated."""
    slot = c.c_void_p.from_address(id(array) + ARRAY.offset("retained"))
    if not slot.value:
        slot.value = array._hold("__array_interface__")


class HostArray(Array):
    """An array where there is no native code, which holds a NumPy array."""

    __slots__ = ("_info", "_values")

    def __new__(cls, values: np.ndarray) -> HostArray:
        """Makes an array of NumPy values, which become read-only."""
        self = object.__new__(cls)
        values.flags.writeable = False
        self._info = shape_info(Shape(dtypes.from_numpy(values.dtype), values.shape))
        self._values = values
        return self

    @property
    def _record(self) -> int:
        return 0 if self._values is None else 1

    @property
    def device(self) -> int:
        """0, the only device."""
        return 0

    def _head(self, what: str) -> Any:
        if self._values is None:
            raise InvalidArgument(f"{what}: {self._text()} was deleted or donated")
        return self._values

    def block_until_ready(self, timeout: float | None = None) -> HostArray:
        """Returns the array, which is always ready; InvalidArgument when it is deleted."""
        self._head("block_until_ready")
        return self

    def delete(self) -> None:
        """Drops the values; the array cannot be read any more."""
        self._values = None

    def to_numpy(self) -> np.ndarray:
        """Returns the values, read-only, without a copy."""
        return self._head("to_numpy")

    @property
    def __array_interface__(self) -> dict[str, object]:
        raise AttributeError("__array_interface__")

    def __dlpack__(self, **options: Any) -> object:
        return self.to_numpy().__dlpack__(**options)


class DistantArray(Array):
    """An array that is not in this process's memory, on a device or a server. Reading copies it here, once.
    `place` says where it is, and releases it when it is no longer referenced; `run` computes it: it has
    `name`, `is_done()` and `wait(timeout)`. Subclasses define `_read`.
    """

    __slots__ = ("_info", "_place", "_ordinal", "_values", "_run", "__weakref__")

    elsewhere: ClassVar[bool] = True

    def __new__(cls, shape: Shape, place: Any, ordinal: int, run: Any = None) -> Self:
        """Makes an array of a shape at a place on the device with this ordinal."""
        self = object.__new__(cls)
        self._info, self._place, self._ordinal, self._values = shape_info(shape), place, ordinal, None
        self._run = run
        return self

    def _read(self, place: Any, values: np.ndarray) -> None:
        """Copies the array to this process."""
        raise NotImplementedError

    @property
    def _record(self) -> int:
        return 0 if self._place is None else 1

    @property
    def device(self) -> int:
        """The ordinal of the device that holds the array; InvalidArgument when it is deleted."""
        self._head("device")
        return self._ordinal

    def _head(self, what: str) -> Any:
        if self._place is None:
            raise InvalidArgument(f"{what}: {self._text()} was deleted or donated")
        return self._place

    def is_ready(self) -> bool:
        """Whether the run that makes the array has ended, well or not."""
        self._head("is_ready")
        return self._run is None or self._run.is_done()

    def block_until_ready(self, timeout: float | None = None) -> Self:
        """Waits until the run that makes the array has ended; DeadlineExceeded after `timeout` seconds."""
        self._head("block_until_ready")
        run = self._run
        if run is not None and not run.wait(timeout):
            raise DeadlineExceeded(f"{self._text()} is not ready after {timeout} s: {run.name} has not ended")
        return self

    def delete(self) -> None:
        """Gives up the place of the array and the copy of its values."""
        self._place = self._values = None

    def to_numpy(self) -> np.ndarray:
        """Returns the values, read-only; they are copied here at the first read."""
        place = self._head("to_numpy")
        why = why_no_array(self._info.shape)
        if why is not None:
            raise UnsupportedError(f"{self._text()}: {why}")
        self.block_until_ready()
        if self._values is None:
            made, values = new_array(self._info.shape)
            self._read(place, values)
            self._values = made.to_numpy()
        return self._values

    @property
    def __array_interface__(self) -> dict[str, object]:
        raise AttributeError("__array_interface__")

    def __dlpack__(self, **options: Any) -> object:
        return self.to_numpy().__dlpack__(**options)


def new_array(shape: Shape, device: int = 0) -> tuple[Array, np.ndarray]:
    """An array with contents still to be written, and its memory, for exclusive use."""
    if why_not() is not None:
        values = np.empty(shape.dims, shape.dtype.numpy)
        return HostArray(values.view()), values
    info, n = shape_info(shape), native()
    record = n.record_new(info.bytes)
    if not record:
        raise OutOfMemory(f"{show(shape)} needs {info.bytes} bytes, which are not available")
    head = _Record.from_address(record)
    head.device = device
    memory: Any = (c.c_char * info.bytes).from_address(head.address)
    values = np.frombuffer(memory, info.dtype).reshape(info.dims)
    return n.array_new(info.address, info, record), values


def device_put(array: Any, device: int = 0) -> Array:
    """A copy of an array-like (NumPy array, scalar, nested list, another Array) on a device."""
    try:
        source = array.to_numpy() if isinstance(array, Array) else np.asarray(array)
        dtype = dtypes.from_numpy(source.dtype)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"device_put: {error}") from error
    if why_not() is not None:
        return HostArray(np.array(source, dtype.numpy, order="C"))
    info = shape_info(Shape(dtype, source.shape))
    try:
        flat = np.ascontiguousarray(source, dtype.numpy)
        made = native().array_copy(info.address, info, flat.__array_interface__["data"][0])
    except MemoryError:
        text = show(info.shape)
        raise OutOfMemory(f"device_put: {text} needs {info.bytes} bytes, which are not available") from None
    if device:
        _Record.from_address(made._record).device = device
    return made
