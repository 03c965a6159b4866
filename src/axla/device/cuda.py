"""NVIDIA GPUs: a driver by the CUDA driver API.

With unified addressing, host and device addresses are distinct numbers, so a single function copies in all
directions.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import numpy as np

from axla.codegen.native.assembly import GlueFunction, GlueFunctions
from axla.codegen.straight import Ssa
from axla.core import flags
from axla.core.errors import CompileError, OutOfMemory, RuntimeFailure, UnsupportedError
from axla.device.driver import DRIVER, TRIES, Driver, Loaded, looked
from axla.program.abi import CField, Struct
from axla.runtime.native import native
from axla.target.machine import Target
from axla.target.nvptx import nvptx_target

ARCHITECTURES = (75, 80, 86, 87, 89, 90, 100, 103, 120, 121)
"""The compute capabilities that PTX is compiled for. A GPU with another one uses the next lower one in this
list.
"""
_CAPABILITY = (75, 76)  # attributes of a device: major and minor compute capability
_NON_BLOCKING, _TIMED, _UNTIMED = 1, 0, 2
_LOG, _LOG_BYTES = 5, 6  # options of the compiler
_BUFFER, _BUFFER_SIZE, _END = 1, 2, 0  # words of a launch whose arguments lie in one buffer
_OUT_OF_MEMORY, _NOT_READY, _STOPPED = 2, 600, -1
_NOT_BUILT = (200, 209, 218, 221, 222, 223, 300)
_STAGED = 64 << 10  # up to so many bytes, a copy from the host need not wait for the queue
_MOST_NOTES = 1 << 16  # the largest number of launches of a run that are timed
_FILLS = {1: ("cuMemsetD8Async", "i8"), 2: ("cuMemsetD16Async", "i16"), 4: ("cuMemsetD32Async", "i32")}
_DESTROY = "cuEventDestroy_v2"
_CALLED = (
    "cuCtxSetCurrent", "cuEventCreate", "cuEventRecord", "cuEventQuery", _DESTROY,
    "cuLaunchKernel", "cuMemcpyAsync", "cuStreamSynchronize", *(name for name, _ in _FILLS.values()),
)  # fmt: skip

CONTEXT = Struct(
    "axla_cuda",
    "The context of the driver's functions.",
    CField("context", "ptr", "CUDA's, which a thread makes its own before it calls anything"),
    CField("stream", "ptr", "the queue of the device"),
    CField("events", "ptr", "where launches note two events and their kernel; null: nowhere"),
    CField("noted", "i64", "how many launches wanted to"),
)
_FUNCTIONS = GlueFunctions()


def _try(f: GlueFunction, name: str, *arguments: Ssa) -> None:
    """Emits a call of a CUDA function; if it fails, the function being emitted returns its error code."""
    code = f.call("i32", name, *arguments)
    f.guard(code.ne(0), code)


def _entered(f: GlueFunction, context: Ssa) -> Ssa:
    """Makes a context current in the thread; returns its stream."""
    _try(f, "cuCtxSetCurrent", context.get(CONTEXT, "context"))
    return context.get(CONTEXT, "stream")


@_FUNCTIONS("cuda_event", "i32", "place:ptr, stream:ptr, how:i32")
def _event(f: GlueFunction, place: Ssa, stream: Ssa, how: Ssa) -> None:
    """Creates an event with the flags `how`, stores it at `place`, and records it in the stream."""
    _try(f, "cuEventCreate", place, how)
    code = f.call("i32", "cuEventRecord", place.load("ptr"), stream)
    with f.if_(code.ne(0)):
        f.call("i32", _DESTROY, place.load("ptr"))
    f.ret(code)


_LAUNCH = "context:ptr, kernel:ptr, addresses:ptr, blocks:i64, threads:i64, count:i64"


@_FUNCTIONS("cuda_launch", "i32", _LAUNCH, exported=True)
def _launch(f: GlueFunction, context: Ssa, kernel: Ssa, addresses: Ssa, *sizes: Ssa) -> None:
    """Launches a kernel in `blocks` thread blocks of `threads` threads. Its arguments are the `count`
    addresses at `addresses`.
    """
    stream, notes, none, one = _entered(f, context), context.get(CONTEXT, "events"), f.i32(0), f.i32(1)
    noted = f.slot(f.i64(_MOST_NOTES))
    with f.if_(notes.ne(f.null())):
        noted.store(context.field(CONTEXT, "noted").atomic("add", f.i64(1)))
    wanted, note = noted.load("i64").lt(_MOST_NOTES), notes.item(noted.load("i64") * 3)
    extra, size = f.space("[5 x i64]"), f.slot(sizes[2] * 8)
    for number, word in enumerate((f.i64(_BUFFER), addresses, f.i64(_BUFFER_SIZE), size, f.i64(_END))):
        extra.item(number).store(word)
    with f.if_(wanted):
        _try(f, "cuda_event", note, stream, f.i32(_TIMED))
    blocks, threads = (f.cast("trunc", size, "i32") for size in sizes[:2])
    grid = blocks, one, one, threads, one, one
    _try(f, "cuLaunchKernel", kernel, *grid, none, stream, f.null(), extra)
    with f.if_(wanted):
        _try(f, "cuda_event", note.at(8), stream, f.i32(_TIMED))
        note.at(16).store(kernel)
    f.ret(none)


@_FUNCTIONS("cuda_copy", "i32", "context:ptr, target:ptr, source:ptr, size:i64", exported=True)
def _copy(f: GlueFunction, context: Ssa, target: Ssa, source: Ssa, size: Ssa) -> None:
    f.guard(size.eq(0), f.i32(0))
    stream = _entered(f, context)
    f.ret(f.call("i32", "cuMemcpyAsync", target, source, size, stream))


@_FUNCTIONS("cuda_happened", "i32", "event:ptr, flag:ptr, tries:i64", exported=True)
def _happened(f: GlueFunction, event: Ssa, flag: Ssa, tries: Ssa) -> None:
    """Writes a function that waits for an event. It returns 0 when the event has happened, CUDA's code of an
    error, or -1 when the flag is set or after `tries` tests of the event.
    """

    def look() -> None:
        code = f.call("i32", "cuEventQuery", event)
        f.guard(code.ne(_NOT_READY), code)

    looked(f, flag, tries, look, _STOPPED)


_MOVE = "context:ptr, target:ptr, source:ptr, size:i64, flag:ptr"


@_FUNCTIONS("cuda_read", "i32", _MOVE, exported=True)
def _read(f: GlueFunction, context: Ssa, target: Ssa, source: Ssa, size: Ssa, flag: Ssa) -> None:
    """Copies bytes to the host after the work in the queue; copies nothing if the flag is set before that
    work is done.
    """
    stream, event = _entered(f, context), f.slot(f.null())
    _try(f, "cuda_event", event, stream, f.i32(_UNTIMED))
    code = f.call("i32", "cuda_happened", event.load("ptr"), flag, f.i64(1 << 62))
    f.call("i32", _DESTROY, event.load("ptr"))
    f.guard(code.eq(_STOPPED), f.i32(0))
    f.guard(code.ne(0), code)
    _try(f, "cuda_copy", context, target, source, size)
    f.ret(f.call("i32", "cuStreamSynchronize", stream))


@_FUNCTIONS("cuda_write", "i32", _MOVE, exported=True)
def _write(f: GlueFunction, context: Ssa, target: Ssa, source: Ssa, size: Ssa, flag: Ssa) -> None:
    """Writes to the device. 1, 2 or 4 bytes are written by a fill operation. CUDA copies up to _STAGED bytes
    before it returns. For more bytes, waits until the queue is empty; copies nothing if `flag` is set before
    that.
    """
    stream = _entered(f, context)
    for few, (fill, kind) in _FILLS.items():
        with f.if_(size.eq(few)):
            value = f.cast("zext", source.load(kind), "i32")
            f.ret(f.call("i32", fill, target, value, f.i64(1), stream))
    with f.if_(size.gt(_STAGED)):
        f.ret(f.call("i32", "cuda_read", context, target, source, size, flag))  # (copies in both directions)
    f.ret(f.call("i32", "cuda_copy", context, target, source, size))


@cache
def library(file: str) -> Any:
    """The CUDA driver library, initialised; UnsupportedError if it is missing or finds no device."""
    try:
        found = c.CDLL(file)
    except OSError:
        raise UnsupportedError(f"no CUDA driver was found ({file}); AXLA_CUDA sets its path") from None
    if code := found.cuInit(0):
        raise UnsupportedError(f"the CUDA driver finds no device (cuInit returns error {code})")
    return found


def devices() -> list[tuple[Any, int]]:
    """The GPUs of this machine, as pairs of the library and a number. UnsupportedError if there are none."""
    lib, count = library(flags.current().cuda or "libcuda.so.1"), c.c_int()
    if lib.cuDeviceGetCount(c.byref(count)) or not count.value:
        raise UnsupportedError("the CUDA driver finds no device")
    return [(lib, number) for number in range(count.value)]


class CudaHandle:
    """A CUDA object, released by the CUDA function `back` when it is no longer referenced."""

    def __init__(self, driver: Cuda, back: str, address: int | None = None) -> None:
        self._driver, self._back, self.address = driver, back, c.c_void_p(address)

    def __del__(self) -> None:
        if self.address:
            self._driver.drop(self._back, self.address)


class Cuda(Driver):
    """A GPU, with its primary context and a stream."""

    def __init__(self, lib: Any, number: int) -> None:
        self.lib, self._context, self.stream, buffer = (
            lib,
            c.c_void_p(),
            c.c_void_p(),
            c.create_string_buffer(256),
        )
        self._check("its name", lib.cuDeviceGetName(buffer, len(buffer), number))
        self.name = buffer.value.decode("utf-8", "replace")
        self.target: Target = nvptx_target(self._architecture(number))
        self._check("a context", lib.cuDevicePrimaryCtxRetain(c.byref(self._context), number))
        self.call("a queue", "cuStreamCreate", c.byref(self.stream), _NON_BLOCKING)
        functions = _functions(lib)
        look = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_int64)
        self._happened, self._none = look(functions["cuda_happened"]), c.c_int32(0)
        self._state: Any = CONTEXT.ctypes()(context=self._context, stream=self.stream)
        called = {name: functions[f"cuda_{name}"] for name in ("launch", "copy", "write", "read")}
        self._table = DRIVER.ctypes()(context=c.addressof(self._state), **called)

    def _architecture(self, number: int) -> str:
        parts = c.c_int(), c.c_int()
        for part, what in zip(parts, _CAPABILITY, strict=True):
            self._check("its capability", self.lib.cuDeviceGetAttribute(c.byref(part), what, number))
        own = 10 * parts[0].value + parts[1].value
        known = [one for one in ARCHITECTURES if one <= own]
        if not known:
            raise UnsupportedError(f"{self.name} is sm_{own}; wanted sm_{ARCHITECTURES[0]} or later")
        return f"sm_{known[-1]}"

    @property
    def table(self) -> int:
        """The address of a DRIVER, valid as long as the driver."""
        return c.addressof(self._table)

    def allocate(self, size: int) -> int:
        """Allocates device memory; OutOfMemory where there is too little."""
        found = c.c_uint64()
        self.call(f"{size} bytes", "cuMemAlloc_v2", c.byref(found), c.c_size_t(size))
        return found.value

    def free(self, address: int) -> None:
        """Frees memory that `allocate` returned."""
        self.drop("cuMemFree_v2", c.c_uint64(address))

    def write(self, address: int, values: np.ndarray) -> None:
        """Copies a contiguous host array to the device; returns when it has been read."""
        self._move(address, values.ctypes.data, values.nbytes)

    def read(self, values: np.ndarray, address: int) -> None:
        """Fills a contiguous host array from the device, after the work in the queue."""
        self._move(values.ctypes.data, address, values.nbytes)

    def _move(self, target: int, source: int, size: int) -> None:
        if not size:
            return
        self.call("a copy", "cuMemcpyAsync", *map(c.c_uint64, (target, source, size)), self.stream)
        self.call("a copy", "cuStreamSynchronize", self.stream)

    def mark(self) -> CudaHandle:
        """Records an event in the stream, after the work that is queued now; returns the event."""
        event = CudaHandle(self, _DESTROY)
        self.call("an event", "cuEventCreate", c.byref(event.address), _UNTIMED)
        self.call("an event", "cuEventRecord", event.address, self.stream)
        return event

    def happened(self, event: CudaHandle, flag: int = 0) -> bool:
        """Whether an event has happened. Tests it a limited number of times, or until the i32 at the address
        `flag` is set.
        """
        self._check("a run", self.lib.cuCtxSetCurrent(self._context))
        code = self._happened(event.address, flag or c.addressof(self._none), TRIES)
        self._check("a run", max(code, 0))
        return code == 0

    @contextmanager
    def timed(self) -> Iterator[dict[int, list[int]]]:
        """Collects the nanoseconds of every launch in the `with` block, by the kernel's handle."""
        found: dict[int, list[int]] = {}
        notes = self._notes
        self.wait()
        c.memset(notes, 0, c.sizeof(notes))
        self._state.noted, self._state.events = 0, c.addressof(notes)
        try:
            yield found
        finally:
            self._state.events = None
            self.wait()
            for number in range(min(self._state.noted, _MOST_NOTES)):
                first, last, kernel = notes[3 * number : 3 * number + 3]
                found.setdefault(kernel or 0, []).append(self._between(first, last))

    @cached_property
    def _notes(self) -> Any:
        """The buffer in which launches record data for `timed`. Kept, since threads may launch while a
        measurement ends.
        """
        return (c.c_void_p * (3 * _MOST_NOTES))()

    def _between(self, *events: int | None) -> int:
        """The nanoseconds between two events, which are released; 0 for a launch that failed."""
        first, last = (CudaHandle(self, _DESTROY, event) for event in events)
        if not last.address:
            return 0
        milliseconds = c.c_float()
        self.call("a time", "cuEventElapsedTime", c.byref(milliseconds), first.address, last.address)
        return int(milliseconds.value * 1e6)

    def build(self, kernels: Sequence[str], code: bytes) -> Loaded:
        """Loads PTX and looks up its kernels; CompileError with the log of the driver."""
        log, module, handles = c.create_string_buffer(1 << 13), CudaHandle(self, "cuModuleUnload"), []
        options, values = (c.c_int * 2)(_LOG, _LOG_BYTES), (c.c_void_p * 2)(c.addressof(log), len(log))
        self._check("a module", self.lib.cuCtxSetCurrent(self._context))
        failed = self.lib.cuModuleLoadDataEx(c.byref(module.address), code + b"\0", 2, options, values)
        if failed in _NOT_BUILT:
            said = log.value.decode("utf-8", "replace").strip()[:2000] or self.said(failed)
            raise CompileError(f"{self.name}: {kernels} could not be built: {said}")
        self._check("a module", failed)
        for kernel in kernels:
            handle = c.c_void_p()
            self.call(kernel, "cuModuleGetFunction", c.byref(handle), module.address, kernel.encode())
            handles.append(handle.value or 0)
        return Loaded(tuple(handles), module)

    def said(self, code: int) -> str:
        """The driver's text for an error code."""
        text = c.c_char_p()
        self.lib.cuGetErrorString(code, c.byref(text))
        return f"{(text.value or b'unknown').decode()} (error {code} of CUDA)"

    def error(self, what: str, code: int) -> RuntimeFailure:
        """The error for a call that failed with the error code `code`: OutOfMemory if the code means that,
        else DeviceError.
        """
        found = super().error(what, code)
        return OutOfMemory(str(found)) if code == _OUT_OF_MEMORY else found

    def call(self, what: str, name: str, *arguments: Any) -> None:
        """Calls a CUDA function in the device's context. If it fails, raises an error, in which `what`
        describes the call.
        """
        self._check(what, self.lib.cuCtxSetCurrent(self._context) or getattr(self.lib, name)(*arguments))

    def drop(self, name: str, *arguments: Any) -> None:
        """Calls the CUDA function `name`, which releases an object, once queued work has used the object;
        errors are ignored.
        """
        self.lib.cuCtxSetCurrent(self._context)
        if name != _DESTROY:  # events may be destroyed before they have happened
            self.lib.cuStreamSynchronize(self.stream)
        getattr(self.lib, name)(*arguments)

    def _check(self, what: str, code: int) -> None:
        if code:
            raise self.error(what, code)


@cache
def _functions(lib: Any) -> dict[str, int]:
    known = {name: c.cast(getattr(lib, name), c.c_void_p).value or 0 for name in _CALLED}
    return native().glue.extended(_FUNCTIONS.emit, known)
