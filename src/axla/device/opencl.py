"""OpenCL devices with SPIR-V and shared virtual memory: a driver by the C API."""

from __future__ import annotations

import ctypes as c
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.straight import Ssa
from axla.core import flags
from axla.core.errors import CompileError, OutOfMemory, UnsupportedError
from axla.device.driver import DRIVER, TRIES, Driver, Loaded, looked
from axla.program.abi import CField, Struct
from axla.runtime.native import native
from axla.target.machine import Target
from axla.target.spirv import spirv_cpu_target, spirv_target

_ALL_DEVICES = 0xFFFFFFFF
_NAME, _IL_VERSION, _SVM, _MOST_ITEMS = 0x102B, 0x105B, 0x1053, 0x1004
_TYPE, _CPU, _FLOATS, _DOUBLES = 0x1000, 2, 0x103A, 0x1032
_FINE_BUFFER, _FINE_MEMORY, _READ_WRITE = 2, 1 << 10, 1
_BUILD_LOG, _STATUS, _STARTED, _ENDED = 0x1183, 0x11D3, 0x1282, 0x1283
_QUEUE_PROPERTIES, _PROFILING = 0x1093, 2
_ALIGN = 64
_FILL = 64  # bytes of the longest fill pattern; slices are aligned to it
_SHORT = 10_000_000  # nanoseconds: while waits are shorter, the waiting thread works for the device
_MOST_NOTES = 1 << 18  # the largest number of launches of a run that are timed
_ERRORS = {
    -4: "the memory object could not be allocated", -5: "the device is out of resources",
    -6: "out of host memory", -11: "the program could not be built", -36: "the queue is not valid",
    -54: "the work-group is too large",
}  # fmt: skip

CONTEXT = Struct(
    "axla_opencl",
    "The context of the driver's functions.",
    CField("queue", "ptr", "the queue of the device"),
    CField("busy", "i32", "1 while a thread sets arguments of a kernel and launches it"),
    CField("waited", "i64", "nanoseconds that a program waited last"),
    CField("events", "ptr", "where launches note their event and kernel; null: nowhere"),
    CField("noted", "i64", "how many launches have"),
    CField("most", "i64", "how many there is buffer for"),
)
_FUNCTIONS = GlueFunctions()


def _emit(m: GlueModule) -> None:
    _FUNCTIONS.emit(m)


@_FUNCTIONS(
    "opencl_start", "i32", "context:ptr, kernel:ptr, addresses:ptr, blocks:i64, threads:i64, count:i64"
)
def _start(
    f: GlueFunction, context: Ssa, kernel: Ssa, addresses: Ssa, blocks: Ssa, threads: Ssa, count: Ssa
) -> None:
    with f.loop(0, count) as loop:
        address = addresses.item(loop.index).load("ptr")
        number = f.cast("trunc", loop.index, "i32")
        code = f.call("i32", "clSetKernelArgSVMPointer", kernel, number, address)
        f.guard(code.ne(0), code)
    queue, notes = context.get(CONTEXT, "queue"), context.get(CONTEXT, "events")
    noted = context.get(CONTEXT, "noted")
    note = notes.item(noted * 2)
    wanted = f.binary("and", notes.ne(f.null()), noted.lt(context.get(CONTEXT, "most")))
    items, group = f.slot(blocks * threads), f.slot(threads)
    sizes = f.i32(1), f.null(), items, group, f.i32(0), f.null()
    code = f.call("i32", "clEnqueueNDRangeKernel", queue, kernel, *sizes, f.select(wanted, note, f.null()))
    f.guard(code.ne(0), code)
    with f.if_(wanted):
        note.at(8).store(kernel)
        context.set(CONTEXT, "noted", noted + 1)
    f.ret(f.i32(0))


@_FUNCTIONS(
    "opencl_launch", "i32", "context:ptr, kernel:ptr, addresses:ptr, blocks:i64, threads:i64, count:i64",
    exported=True,
)  # fmt: skip
def _launch(f: GlueFunction, context: Ssa, *arguments: Ssa) -> None:
    """Launches a kernel. A kernel has a single set of arguments, so only one thread at a time launches."""
    busy = context.field(CONTEXT, "busy")
    with f.while_loop() as loop:
        with f.if_(busy.atomic("xchg", f.i32(1)).eq(0)):
            loop.leave()
        f.call("i32", "sched_yield")
    code = f.call("i32", "opencl_start", context, *arguments)
    busy.store(f.i32(0), "seq_cst")
    f.ret(code)


@_FUNCTIONS("opencl_copy", "i32", "context:ptr, target:ptr, source:ptr, size:i64", exported=True)
def _copy(f: GlueFunction, context: Ssa, target: Ssa, source: Ssa, size: Ssa) -> None:
    f.guard(size.eq(0), f.i32(0))
    queue, nothing = context.get(CONTEXT, "queue"), (f.i32(0), f.null(), f.null())
    f.ret(f.call("i32", "clEnqueueSVMMemcpy", queue, f.i32(0), target, source, size, *nothing))


@_FUNCTIONS("opencl_happened", "i32", "event:ptr, flag:ptr, tries:i64", exported=True)
def _happened(f: GlueFunction, event: Ssa, flag: Ssa, tries: Ssa) -> None:
    """Writes a function that waits for an OpenCL event. It returns 0 when the event has happened, a negative
    code if it failed, and 1 when the flag is set or after `tries` tests of the event.
    """
    status = f.slot(f.i32(0))

    def look() -> None:
        code = f.call("i32", "clGetEventInfo", event, f.i32(_STATUS), f.i64(4), status, f.null())
        f.guard(code.ne(0), code)
        f.guard(status.load("i32").le(0), status.load("i32"))

    looked(f, flag, tries, look, 1)


@_FUNCTIONS("opencl_wait", "i32", "context:ptr, flag:ptr")
def _wait(f: GlueFunction, context: Ssa, flag: Ssa) -> None:
    """Waits for the work in the queue. While waits are short, this thread works for the device, as OpenCL
    does on a CPU; such a wait cannot be stopped.
    """
    queue, event, code = context.get(CONTEXT, "queue"), f.slot(f.null()), f.slot(f.i32(0))
    code.store(f.call("i32", "clEnqueueMarkerWithWaitList", queue, f.i32(0), f.null(), event))
    f.guard(code.load("i32").ne(0), code.load("i32"))
    begin = f.call("i64", "now")
    short = context.get(CONTEXT, "waited").lt(_SHORT)
    with f.if_(short):
        code.store(f.call("i32", "clWaitForEvents", f.i32(1), event))
    with f.if_(short ^ 1):
        f.call("i32", "clFlush", queue)
        code.store(f.call("i32", "opencl_happened", event.load("ptr"), flag, f.i64(1 << 62)))
    context.set(CONTEXT, "waited", f.call("i64", "now") - begin)
    f.call("i32", "clReleaseEvent", event.load("ptr"))
    f.ret(code.load("i32"))


@_FUNCTIONS("opencl_read", "i32", "context:ptr, target:ptr, source:ptr, size:i64, flag:ptr", exported=True)
def _read(f: GlueFunction, context: Ssa, target: Ssa, source: Ssa, size: Ssa, flag: Ssa) -> None:
    """Reads by copying memory when the device is done, since the device shares its memory with the host."""
    f.guard(size.eq(0), f.i32(0))
    code = f.call("i32", "opencl_wait", context, flag)
    f.guard(code.eq(1), f.i32(0))
    f.guard(code.ne(0), code)
    f.call("ptr", "memcpy", target, source, size)
    f.ret(f.i32(0))


@_FUNCTIONS("opencl_write", "i32", "context:ptr, target:ptr, source:ptr, size:i64, flag:ptr", exported=True)
def _write(f: GlueFunction, context: Ssa, target: Ssa, source: Ssa, size: Ssa, flag: Ssa) -> None:
    """Writes to the device. Fewer than 128 bytes are written as fill patterns, which OpenCL copies at once.
    For more, waits until the queue is empty or `flag` is set.
    """
    with f.if_(size.ge(2 * _FILL)):
        f.ret(f.call("i32", "opencl_read", context, target, source, size, flag))
    queue, nothing = context.get(CONTEXT, "queue"), (f.i32(0), f.null(), f.null())
    few = _FILL
    while few:
        with f.if_((size & few).ne(0)):
            at = size & -2 * few
            place, piece = target.at(at), source.at(at)
            code = f.call("i32", "clEnqueueSVMMemFill", queue, place, piece, f.i64(few), f.i64(few), *nothing)
            f.guard(code.ne(0), code)
        few //= 2
    f.ret(f.i32(0))


@cache
def devices() -> list[tuple[Any, int]]:
    """The devices that axla can use, of the first library that has any, as pairs of library and handle.
    UnsupportedError if there are none.
    """
    beside = os.path.join(sys.prefix, "lib", "libintelocl.so")
    named = flags.current().opencl
    tried = [named] if named else ["libOpenCL.so.1", beside]
    libraries = _libraries(tried)
    if not libraries:
        raise UnsupportedError(
            f"no OpenCL library was found (tried {', '.join(tried)}); AXLA_OPENCL sets its path, "
            "`pip install axla[opencl]` installs Intel's for CPUs"
        )
    for lib in libraries:
        if found := [(lib, device) for device in _devices(lib) if _is_usable(lib, device)]:
            return found
    raise UnsupportedError("no OpenCL device here takes SPIR-V and shares virtual memory with the host")


def _libraries(paths: list[str]) -> list[Any]:
    """The OpenCL libraries of this machine with at least one platform."""
    libraries = []
    for path in paths:
        try:
            found = c.CDLL(path)
        except OSError:
            continue
        for name in _POINTERS:
            getattr(found, name).restype = c.c_void_p
        if _platforms(found):
            libraries.append(found)
    return libraries


_POINTERS = (
    "clCreateContext", "clCreateCommandQueueWithProperties", "clCreateProgramWithIL", "clCreateKernel",
    "clSVMAlloc",
)  # fmt: skip


def _platforms(lib: Any) -> list[int]:
    return _listed(lib.clGetPlatformIDs)


def _listed(ask: Any) -> list[int]:
    count = c.c_uint()
    if ask(0, None, c.byref(count)) or not count.value:
        return []
    buffer = (c.c_void_p * count.value)()
    return [] if ask(count.value, buffer, None) else [found or 0 for found in buffer]


def _devices(lib: Any) -> Iterator[int]:
    for platform in _platforms(lib):
        yield from _listed(partial(lib.clGetDeviceIDs, c.c_void_p(platform), c.c_uint64(_ALL_DEVICES)))


def _is_usable(lib: Any, device: int) -> bool:
    """Whether a device takes SPIR-V and shares virtual memory with the host."""
    return "SPIR-V" in _text(lib, device, _IL_VERSION) and bool(_number(lib, device, _SVM) & _FINE_BUFFER)


def _text(lib: Any, device: int, what: int) -> str:
    return _told(lib.clGetDeviceInfo, c.c_void_p(device), what)


def _told(function: Any, *about: Any) -> str:
    """The text that an OpenCL query returns; empty where it has none."""
    size = c.c_size_t()
    if function(*about, 0, None, c.byref(size)):
        return ""
    buffer = c.create_string_buffer(size.value)
    function(*about, size, buffer, None)
    return buffer.value.decode("utf-8", "replace")


def _number(lib: Any, device: int, what: int) -> int:
    found = c.c_uint64()
    lib.clGetDeviceInfo(c.c_void_p(device), what, c.sizeof(found), c.byref(found), None)
    return found.value


def _target(lib: Any, device: int) -> Target:
    if _number(lib, device, _TYPE) & _CPU:
        found = spirv_cpu_target(max(1, _number(lib, device, _FLOATS)))
    else:
        found = spirv_target(1 << min(64, _number(lib, device, _MOST_ITEMS)).bit_length() - 1)
    return replace(found, has_double=bool(_number(lib, device, _DOUBLES)))


class OpenCL(Driver):
    """A device of OpenCL, with a context and a queue."""

    build_options = b"-cl-fp32-correctly-rounded-divide-sqrt"

    def __init__(self, lib: Any, device: int) -> None:
        self.lib, self._device = lib, c.c_void_p(device)
        self.name = _text(lib, device, _NAME)
        self.target = _target(lib, device)
        self._context = self._made(
            "a context", lib.clCreateContext, None, 1, c.byref(self._device), None, None
        )
        timed = (c.c_uint64 * 3)(_QUEUE_PROPERTIES, _PROFILING, 0)
        create = lib.clCreateCommandQueueWithProperties
        self._queue = self._made("a queue", create, self._context, self._device, timed)
        functions = _functions(lib)
        kind = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_int64)
        self._happened = kind(functions["opencl_happened"])
        self._none = c.c_int32(0)
        self._state: Any = CONTEXT.ctypes()(queue=self._queue)
        self._table = DRIVER.ctypes()(
            context=c.addressof(self._state),
            **{name: functions[f"opencl_{name}"] for name in ("launch", "copy", "write", "read")},
        )

    @property
    def table(self) -> int:
        """The address of a DRIVER, valid as long as the driver."""
        return c.addressof(self._table)

    def allocate(self, size: int) -> int:
        """Allocates fine-grained shared memory; OutOfMemory where there is too little."""
        kind = c.c_uint64(_READ_WRITE | _FINE_MEMORY)
        found = self.lib.clSVMAlloc(self._context, kind, c.c_size_t(size), _ALIGN)
        if not found:
            raise OutOfMemory(f"{self.name}: out of memory: {size} bytes are not available")
        return found

    def free(self, address: int) -> None:
        """Queues the release of memory, after the work that uses it."""
        pointer = (c.c_void_p * 1)(address)
        self.lib.clEnqueueSVMFree(self._queue, 1, pointer, None, None, 0, None, None)

    def write(self, address: int, values: np.ndarray) -> None:
        """Waits until the queue is empty, then copies an array to shared memory."""
        self.wait()
        c.memmove(address, values.ctypes.data, values.nbytes)

    def read(self, values: np.ndarray, address: int) -> None:
        """Waits until the queue is empty, then copies shared memory to an array."""
        self.wait()
        c.memmove(values.ctypes.data, address, values.nbytes)

    def mark(self) -> Event:
        """Queues a marker and starts the queued work; returns the marker's event."""
        event = c.c_void_p()
        code = self.lib.clEnqueueMarkerWithWaitList(self._queue, 0, None, c.byref(event))
        self._check("an event", code)
        self.lib.clFlush(self._queue)
        return Event(self.lib, event.value or 0)

    def happened(self, event: Event, flag: int = 0) -> bool:
        """Whether an event has happened. Tests it a limited number of times, or until the i32 at the address
        `flag` is set.
        """
        code = self._happened(event.address, flag or c.addressof(self._none), TRIES)
        if code < 0:
            raise self.error("a run", code)
        return code == 0

    def join(self, event: Event) -> None:
        """Blocks until an event has happened."""
        address = c.c_void_p(event.address)
        self.lib.clWaitForEvents(1, c.byref(address))

    @contextmanager
    def timed(self) -> Iterator[dict[int, list[int]]]:
        """Collects the nanoseconds of every launch in the `with` block, by the kernel's handle."""
        found: dict[int, list[int]] = {}
        notes = self._notes
        self.wait()
        self._state.noted, self._state.most, self._state.events = 0, _MOST_NOTES, c.addressof(notes)
        try:
            yield found
        finally:
            self._state.events = None
            self.wait()
            for number in range(self._state.noted):
                event, kernel = notes[2 * number : 2 * number + 2]
                found.setdefault(kernel or 0, []).append(self._taken(event))
                self.lib.clReleaseEvent(c.c_void_p(event))

    @cached_property
    def _notes(self) -> Any:
        """The buffer in which launches record data for `timed`. Kept, since threads may launch while a
        measurement ends.
        """
        return (c.c_void_p * (2 * _MOST_NOTES))()

    def _taken(self, event: int | None) -> int:
        """The nanoseconds of a launch on the device."""
        times = c.c_uint64(), c.c_uint64()
        for what, time in zip((_STARTED, _ENDED), times, strict=True):
            self.lib.clGetEventProfilingInfo(c.c_void_p(event), what, c.c_size_t(8), c.byref(time), None)
        return times[1].value - times[0].value

    def build(self, kernels: Sequence[str], code: bytes) -> Loaded:
        """Builds SPIR-V and looks up its kernels; CompileError with the log of the build."""
        buffer, size = c.create_string_buffer(code, len(code)), c.c_size_t(len(code))
        program = self._made("a program", self.lib.clCreateProgramWithIL, self._context, buffer, size)
        owner = _Program(self.lib, program)
        if self.lib.clBuildProgram(program, 1, c.byref(self._device), self.build_options, None, None):
            log = _told(self.lib.clGetProgramBuildInfo, program, self._device, _BUILD_LOG)
            raise CompileError(f"{self.name}: {kernels} could not be built: {log.strip()[:2000]}")
        for kernel in kernels:
            made = self._made(kernel, self.lib.clCreateKernel, program, kernel.encode())
            owner.handles.append(made.value or 0)
        return Loaded(tuple(owner.handles), owner)

    def _made(self, what: str, function: Any, *arguments: Any) -> c.c_void_p:
        """The object created by an OpenCL function that returns its error through its last argument."""
        code = c.c_int()
        made = c.c_void_p(function(*arguments, c.byref(code)))
        self._check(what, code.value)
        return made

    def said(self, code: int) -> str:
        """The meaning of an error code, as text."""
        return _ERRORS.get(code, f"error {code} of OpenCL")

    def _check(self, what: str, code: int) -> None:
        if code:
            raise self.error(what, code)


class Event:
    """An event of OpenCL for a point in the queue; released with this object."""

    def __init__(self, lib: Any, address: int) -> None:
        self.lib, self.address = lib, address

    def __del__(self) -> None:
        self.lib.clReleaseEvent(c.c_void_p(self.address))


class _Program:
    """A program and its kernels. OpenCL keeps them until queued work is done."""

    def __init__(self, lib: Any, program: c.c_void_p) -> None:
        self.lib, self.program = lib, program
        self.handles: list[int] = []

    def __del__(self) -> None:
        for handle in self.handles:
            self.lib.clReleaseKernel(c.c_void_p(handle))
        self.lib.clReleaseProgram(self.program)


@cache
def _functions(lib: Any) -> dict[str, int]:
    names = (
        "clSetKernelArgSVMPointer", "clEnqueueNDRangeKernel", "clEnqueueSVMMemcpy", "clEnqueueSVMMemFill",
        "clEnqueueMarkerWithWaitList", "clFlush", "clWaitForEvents", "clGetEventInfo", "clReleaseEvent",
    )  # fmt: skip
    known = {name: c.cast(getattr(lib, name), c.c_void_p).value or 0 for name in names}
    return native().glue.extended(_emit, known)
