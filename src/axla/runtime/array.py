"""`axla.Array`: an immutable array in the memory of a device. It shares its memory with NumPy and other
libraries.

`Array` is the class that users see; it has all methods, but no fields. Its instances have a native type
derived from it, which is created at its first use (`native`), or, on systems without native code, the type
`HostArray`. NumPy reads an Array through the buffer protocol, or through `__array__` for element types that
the protocol has no format for (bf16, 8-bit floats, types narrower than a byte).
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
_FOREVER = 1e9  # a timeout in seconds of at least this is no timeout

maker_of: list[Callable[[int], str]] = []
"""One function, set by `queue.py`: returns the name of the run that computes the record at an address."""


@array_class
class Array:
    """An immutable array on a device. `axla.device_put` makes one from an array-like; programs return
    them.
    """

    __slots__ = ()

    elsewhere: ClassVar[bool] = False
    """Whether the memory is not directly readable here: on another device or machine."""

    if TYPE_CHECKING:
        _record: int  # address of the RECORD struct, 0 when deleted
        _info: ShapeInfo

    def __new__(cls, *args: object, **kwargs: object) -> Array:
        """Raises InvalidArgument: only `device_put` and programs make arrays."""
        raise InvalidArgument("axla.Array has no constructor: use axla.device_put(array)")

    # Properties.

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return self._info.dims

    @property
    def dtype(self) -> np.dtype:
        """The element type, as a NumPy or ml_dtypes type."""
        return self._info.dtype

    @property
    def xla_shape(self) -> Shape:
        """The shape as an `axla.Shape`, which includes the element type."""
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
        """The total bytes of the elements."""
        return self._info.bytes

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self._info.dtype.itemsize

    @property
    def device(self) -> int:
        """The ordinal of the device that holds the array."""
        return self._head("device").device

    @property
    def is_deleted(self) -> bool:
        """Whether `delete` was called or the array was donated to a program, so that it cannot be read."""
        return not self._record

    def _head(self, what: str) -> Any:
        """Returns the native record of the array. Raises InvalidArgument, whose message begins with `what`,
        if the array is deleted.
        """
        record = self._record
        if not record:
            raise InvalidArgument(f"{what}: {self._text()} was deleted or donated")
        return _Record.from_address(record)

    def _hold(self, what: str) -> int:
        """Returns the address of the record after adding a reference to it. The reference protects it from
        deletion by other threads; the caller must release it. `what` begins the message if the array is
        deleted.
        """
        return native().array_hold(self, 0) or self._head(what)

    def _text(self) -> str:
        return f"Array {show(self._info.shape)}"

    # Waiting and deletion.

    def is_ready(self) -> bool:
        """Whether the run that computes the array has ended, successfully or not, so that reading the array
        does not wait.
        """
        head = self._head("is_ready")
        return head is None or head.ready > PENDING

    def block_until_ready(self, timeout: float | None = None) -> Array:
        """Waits until the array is computed, and returns it. Raises the error of the run that computes it,
        or, after `timeout` seconds, DeadlineExceeded, while the run continues. An exception from a signal
        handler, as for Ctrl-C, cancels the run.
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
        """Deletes the array. Its memory is freed once no view and no running program uses it."""
        native().array_delete(self)

    # Contents.

    def to_numpy(self) -> np.ndarray:
        """Returns a read-only NumPy array that shares the memory of this array."""
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
                raise ValueError(f"converting {self._text()} to {dtype} needs a copy, found copy=False")
            return view.astype(dtype)
        return view.copy() if copy else view

    @property
    def __array_interface__(self) -> dict[str, object]:
        head = self._head("__array_interface__")
        if not self._info.has_format or why_no_array(self._info.shape) is not None:
            raise AttributeError("__array_interface__")  # NumPy then calls __array__
        try:
            self.block_until_ready()
        except Cancelled as error:
            if error.code != INTERRUPTED:
                raise
            # Interrupted while waiting for the buffer. NumPy drops the signal handler's exception.
            raise KeyboardInterrupt from error
        # The reader keeps this object alive, but does not say when it stops reading. So the memory is kept
        # until this object is freed.
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
            raise TypeError("len() of an array of rank 0")
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
    """Makes a method of Array that calls NumPy's method of the same name. Its results are NumPy arrays."""

    def method(self: Array, *arguments: Any, **options: Any) -> Any:
        return getattr(self.to_numpy(), name)(*arguments, **options)

    method.__name__ = name
    return method


# Operations outside of a compiled program are computed by NumPy.
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
    """Exposes the bytes of an array to NumPy. It holds a reference to the array's record until it is
    freed.
    """

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
    """Returns a donated record to its array, which can then be read again. `record` is the record's
    address.
    """
    c.c_void_p.from_address(id(array) + ARRAY.offset("record")).value = record


def _retain(array: Array) -> None:
    """Keeps the memory of an array until the Array object is freed, even if the array is deleted or
    donated.
    """
    slot = c.c_void_p.from_address(id(array) + ARRAY.offset("retained"))
    if not slot.value:
        slot.value = array._hold("__array_interface__")


class HostArray(Array):
    """An array on systems without native code. It holds a NumPy array."""

    __slots__ = ("_info", "_values")

    def __new__(cls, values: np.ndarray) -> HostArray:
        """Makes an array that holds `values`, and makes `values` read-only."""
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
        """Returns 0, the ordinal of the only device."""
        return 0

    def _head(self, what: str) -> Any:
        if self._values is None:
            raise InvalidArgument(f"{what}: {self._text()} was deleted or donated")
        return self._values

    def block_until_ready(self, timeout: float | None = None) -> HostArray:
        """Returns the array, which is always ready. InvalidArgument if it is deleted."""
        self._head("block_until_ready")
        return self

    def delete(self) -> None:
        """Drops the values, so that the array cannot be read any more."""
        self._values = None

    def to_numpy(self) -> np.ndarray:
        """Returns the values as a read-only NumPy array, without a copy."""
        return self._head("to_numpy")

    @property
    def __array_interface__(self) -> dict[str, object]:
        raise AttributeError("__array_interface__")

    def __dlpack__(self, **options: Any) -> object:
        return self.to_numpy().__dlpack__(**options)


class DistantArray(Array):
    """An array outside of this process's memory, on a device or a server. The first read copies its values
    here. `place` identifies its memory there, and frees it when no longer referenced. `run` is the run that
    computes it; it has `name`, `is_done()` and `wait(timeout)`. Subclasses define `_read`.
    """

    __slots__ = ("_info", "_place", "_ordinal", "_values", "_run", "__weakref__")

    elsewhere: ClassVar[bool] = True

    def __new__(cls, shape: Shape, place: Any, ordinal: int, run: Any = None) -> Self:
        """Makes an array of a shape, with memory `place` on the device of this ordinal. `run` computes it, if
        it is not ready yet.
        """
        self = object.__new__(cls)
        self._info, self._place, self._ordinal, self._values = shape_info(shape), place, ordinal, None
        self._run = run
        return self

    def _read(self, place: Any, values: np.ndarray) -> None:
        """Copies the elements of the array in memory `place` to `values`."""
        raise NotImplementedError

    @property
    def _record(self) -> int:
        return 0 if self._place is None else 1

    @property
    def device(self) -> int:
        """The ordinal of the device that holds the array. InvalidArgument if it is deleted."""
        self._head("device")
        return self._ordinal

    def _head(self, what: str) -> Any:
        if self._place is None:
            raise InvalidArgument(f"{what}: {self._text()} was deleted or donated")
        return self._place

    def is_ready(self) -> bool:
        """Whether the run that computes the array has ended, successfully or not."""
        self._head("is_ready")
        return self._run is None or self._run.is_done()

    def block_until_ready(self, timeout: float | None = None) -> Self:
        """Waits until the run that computes the array has ended. DeadlineExceeded after `timeout` seconds."""
        self._head("block_until_ready")
        run = self._run
        if run is not None and not run.wait(timeout):
            raise DeadlineExceeded(f"{self._text()} is not ready after {timeout} s: {run.name} has not ended")
        return self

    def delete(self) -> None:
        """Drops the references to the remote memory and to the local copy of the values."""
        self._place = self._values = None

    def to_numpy(self) -> np.ndarray:
        """Returns the values as a read-only NumPy array. The first call copies them to this process."""
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
    """Returns (an array with undefined contents, its memory as a NumPy array). The caller writes the contents
    before others use the array.
    """
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
    """Copies an array-like (NumPy array, scalar, nested list, another Array) to a device, given by its
    ordinal.
    """
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
