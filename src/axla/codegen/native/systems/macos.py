"""The functions of the glue for macOS on ARM64 and x86-64, written from its headers and not yet run there.

Objects are those of Linux: for 32- and 64-bit pointers and integers, its calling conventions are also those
of macOS. Register x18 is reserved for the system.
"""

from __future__ import annotations

import ctypes as c
import platform

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.systems import posix
from axla.codegen.native.systems.posix import Pages, address, at_fork, library
from axla.codegen.straight import Ssa

__all__ = ["FEATURES", "NEEDED", "TRIPLE", "Pages", "address", "at_fork", "emit", "flush", "library"]

TRIPLE, NEEDED = "{}-apple-linux-gnu", ()
FEATURES = ("+reserve-x18",) if platform.machine() == "arm64" else ()

_MONOTONIC, _SET_MASK, _ANONYMOUS = 6, 3, 0x1000
_COMPARE_AND_WAIT, _WAKE_ALL, _QUIET = 1, 0x100, 0x1000000  # flags of __ulock_wait and __ulock_wake

_FUNCTIONS = GlueFunctions()


def flush(start: int, size: int) -> None:
    """Makes code visible to the instruction cache, with `sys_icache_invalidate`."""
    library().sys_icache_invalidate(c.c_void_p(start), c.c_size_t(size))


def emit(m: GlueModule) -> None:
    """Emits the functions of the glue that depend on macOS: waiting on addresses, clock, signal mask,
    pages.
    """
    posix.emit(m, clock=_MONOTONIC, set_mask=_SET_MASK)
    posix.map_pages(m, "pages_new", _ANONYMOUS)
    _FUNCTIONS.emit(m)


def _wait(f: GlueFunction, place: Ssa, value: Ssa, microseconds: int) -> None:
    """Emits a wait while the word at the address `place` is `value`, for so many microseconds; 0: without
    limit.
    """
    how = f.i32(_COMPARE_AND_WAIT | _QUIET)
    f.call("i32", "__ulock_wait", how, place, value.cast("i64"), f.i32(microseconds))


@_FUNCTIONS("futex_wait", "void", "address:ptr, value:i32", exported=True)
def _futex_wait(f: GlueFunction, place: Ssa, value: Ssa) -> None:
    _wait(f, place, value, 0)


@_FUNCTIONS("futex_wait_briefly", "void", "address:ptr, value:i32", exported=True)
def _futex_wait_briefly(f: GlueFunction, place: Ssa, value: Ssa) -> None:
    _wait(f, place, value, 10_000)


@_FUNCTIONS("futex_wake", "void", "address:ptr, count:i64", exported=True)
def _futex_wake(f: GlueFunction, place: Ssa, count: Ssa) -> None:
    """Wakes one waiting thread, or all. Threads that are woken needlessly test their condition and sleep
    again.
    """
    one = f.i32(_COMPARE_AND_WAIT | _QUIET)
    how = f.select(count.eq(1), one, one | _WAKE_ALL)
    f.call("i32", "__ulock_wake", how, place, f.i64(0))
