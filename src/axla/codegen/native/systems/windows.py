"""The functions of the glue for Windows on x86-64, by kernel32, KernelBase and the universal C runtime."""

from __future__ import annotations

import ctypes as c
import functools
from collections.abc import Sequence
from typing import Any

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.straight import Ssa
from axla.core.errors import OutOfMemory, UnsupportedError

TRIPLE, FEATURES = "{}-pc-windows-msvc-elf", ()
NEEDED = ("__chkstk",)  # touches the pages of a big stack frame in order

_TAKE, _RELEASE = 0x3000, 0x8000  # of VirtualAlloc and VirtualFree: reserve and commit; release
_READ, _READ_WRITE, _EXECUTE = 2, 4, 0x20  # rights of pages
_FOREVER = -1

_FUNCTIONS = GlueFunctions()


@functools.cache
def library() -> Any:
    """The C library of Windows."""
    return c.CDLL("ucrtbase")


@functools.cache
def _libraries() -> list[Any]:
    return [library(), *map(c.CDLL, ("kernel32", "kernelbase", "ntdll"))]


def address(name: str) -> int:
    """The address of a function of the C library or of Windows; AttributeError if there is none."""
    for one in _libraries():
        found = getattr(one, name, None)
        if found is not None:
            return c.cast(found, c.c_void_p).value or 0
    raise AttributeError(f"Windows has no function {name}")


def _call(name: str, result: Any, *arguments: Any) -> Any:
    return c.CFUNCTYPE(result, *map(type, arguments))(address(name))(*arguments)


class Pages:
    """Memory for code; it is unmapped when this object is freed."""

    def __init__(self, size: int) -> None:
        asked = c.c_void_p(), c.c_size_t(max(size, 1)), c.c_uint32(_TAKE), c.c_uint32(_READ_WRITE)
        self.address = _call("VirtualAlloc", c.c_void_p, *asked) or 0
        if not self.address:
            raise OutOfMemory(f"cannot map {size} bytes for code and constants: VirtualAlloc failed")
        self._free = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_size_t, c.c_uint32)(address("VirtualFree"))
        memory = (c.c_char * max(size, 1)).from_address(self.address)
        self.view = memoryview(memory).cast("B")

    def protect(self, start: int, end: int, code: bool) -> None:
        """Makes pages read-only, and executable where they hold code."""
        if end > start:
            rights, old = c.c_uint32(_EXECUTE if code else _READ), c.c_uint32()
            place = c.c_void_p(self.address + start), c.c_size_t(end - start)
            if not _call("VirtualProtect", c.c_int, *place, rights, c.pointer(old)):
                raise UnsupportedError("VirtualProtect cannot protect code")

    def __del__(self) -> None:
        if self.address:
            self._free(self.address, 0, _RELEASE)


def flush(start: int, size: int) -> None:
    """Makes code visible to the instruction cache, with `FlushInstructionCache`."""
    own = c.c_void_p(-1)  # the pseudo handle of this process
    _call("FlushInstructionCache", c.c_int, own, c.c_void_p(start), c.c_size_t(size))


def at_fork(addresses: Sequence[int]) -> None:
    """Does nothing: Windows has no fork."""


def emit(m: GlueModule) -> None:
    """Emits the functions of the glue that depend on Windows: waiting on addresses, threads, clock, pages."""
    _FUNCTIONS.emit(m)


def _wait(f: GlueFunction, place: Ssa, value: Ssa, milliseconds: int) -> None:
    compared = f.slot(value)
    f.call("i32", "WaitOnAddress", place, compared, f.i64(4), f.i32(milliseconds))


@_FUNCTIONS("futex_wait", "void", "address:ptr, value:i32", exported=True)
def _futex_wait(f: GlueFunction, place: Ssa, value: Ssa) -> None:
    _wait(f, place, value, _FOREVER)


@_FUNCTIONS("futex_wait_briefly", "void", "address:ptr, value:i32", exported=True)
def _futex_wait_briefly(f: GlueFunction, place: Ssa, value: Ssa) -> None:
    _wait(f, place, value, 10)


@_FUNCTIONS("futex_wake", "void", "address:ptr, count:i64", exported=True)
def _futex_wake(f: GlueFunction, place: Ssa, count: Ssa) -> None:
    """Wakes one waiting thread, or all. Threads that are woken needlessly test their condition and sleep
    again.
    """
    with f.if_(count.eq(1)):
        f.call("void", "WakeByAddressSingle", place)
    with f.if_(count.ne(1)):
        f.call("void", "WakeByAddressAll", place)


@_FUNCTIONS("thread_start", "i32", "routine:ptr, argument:ptr", exported=True)
def _thread_start(f: GlueFunction, routine: Ssa, argument: Ssa) -> None:
    none = f.null()
    thread = f.call("ptr", "CreateThread", none, f.i64(0), routine, argument, f.i32(0), none)
    f.guard(thread.eq(0), f.i32(1))
    f.call("i32", "CloseHandle", thread)
    f.ret(f.i32(0))


@_FUNCTIONS("thread_id", "i64", exported=True)
def _thread_id(f: GlueFunction) -> None:
    f.ret(f.call("i32", "GetCurrentThreadId").cast("i64"))


@_FUNCTIONS("sleep", "void", "microseconds:i32", exported=True)
def _sleep(f: GlueFunction, microseconds: Ssa) -> None:
    f.call("void", "Sleep", (microseconds + 999).udiv(f.i32(1000)))


@_FUNCTIONS("yield", "void", exported=True)
def _yield(f: GlueFunction) -> None:
    f.call("i32", "SwitchToThread")


@_FUNCTIONS("now", "i64", exported=True)
def _now(f: GlueFunction) -> None:
    ticks, rate = f.space("i64"), f.space("i64")
    f.call("i32", "QueryPerformanceCounter", ticks)
    f.call("i32", "QueryPerformanceFrequency", rate)
    second, count = f.i64(1_000_000_000), ticks.load("i64")
    whole = count.udiv(rate.load("i64"))
    rest = count - whole * rate.load("i64")
    f.ret(whole * second + (rest * second).udiv(rate.load("i64")))


@_FUNCTIONS("pages_new", "ptr", "size:i64")
def _pages_new(f: GlueFunction, size: Ssa) -> None:
    f.ret(f.call("ptr", "VirtualAlloc", f.null(), size, f.i32(_TAKE), f.i32(_READ_WRITE)))


@_FUNCTIONS("pages_free", "void", "block:ptr, size:i64")
def _pages_free(f: GlueFunction, block: Ssa, size: Ssa) -> None:
    f.call("i32", "VirtualFree", block, f.i64(0), f.i32(_RELEASE))


@_FUNCTIONS("block_new", "ptr", "size:i64")
def _block_new(f: GlueFunction, size: Ssa) -> None:
    f.ret(f.call("ptr", "_aligned_malloc", size, f.i64(64)))


@_FUNCTIONS("block_free", "void", "block:ptr")
def _block_free(f: GlueFunction, block: Ssa) -> None:
    f.call("void", "_aligned_free", block)
