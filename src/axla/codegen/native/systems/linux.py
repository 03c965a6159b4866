"""The functions of the glue for Linux on x86-64 and AArch64."""

from __future__ import annotations

import ctypes as c
import mmap

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.native.systems import posix
from axla.codegen.native.systems.posix import Pages, address, at_fork, library
from axla.codegen.straight import Ssa

__all__ = ["FEATURES", "NEEDED", "TRIPLE", "Pages", "address", "at_fork", "emit", "flush", "library"]

TRIPLE, FEATURES, NEEDED = "{}-unknown-linux-gnu", (), ()

_MONOTONIC, _SET_MASK, _ANONYMOUS, _ADVISE_HUGE, _ADVISE_SMALL = 1, 2, 0x20, 14, 15
_FUTEX = {"x86_64": 202, "aarch64": 98}
_WAIT, _WAKE = 128, 129  # private futexes
# Blocks of at least this size are aligned to huge pages and advised for them: a page fault per 2 MB, not per
# 4 KB.
_HUGE = 4 * 1024 * 1024
_HUGE_PAGE = 2 * 1024 * 1024
# The first write to a huge page takes 0.2 ms, a fifth of the time for 512 small pages; where a virtual
# machine has given the page back to its host, 2 to 5 ms. If two writes take more than twice _DEAR
# nanoseconds, the next _SMALL_BLOCKS blocks have small pages.
_DEAR, _SMALL_BLOCKS = 400_000, 64
_PAGE = mmap.PAGESIZE  # 4 KB; 64 KB on some machines

_FUNCTIONS = GlueFunctions()


def flush(start: int, size: int) -> None:
    """Makes code visible to the instruction cache, with `__clear_cache` of libgcc."""
    clear = c.CDLL("libgcc_s.so.1")["__clear_cache"]
    clear.argtypes, clear.restype = [c.c_void_p, c.c_void_p], None
    clear(start, start + size)


def emit(m: GlueModule) -> None:
    """Emits the functions of the glue that depend on Linux: futex, clock, signal mask, pages."""
    posix.emit(m, clock=_MONOTONIC, set_mask=_SET_MASK)
    posix.map_pages(m, "pages_map", _ANONYMOUS)
    m.variable("pages_small", "i64")
    _FUNCTIONS.emit(m)


def _futex(f: GlueFunction, *arguments: Ssa) -> None:
    number = f.i64(_FUTEX[f.module.machine])
    f.module.declare("syscall", "declare i64 @syscall(i64, ...)")
    f.line(f"call i64 (i64, ...) @syscall({', '.join(map(repr, (number, *arguments)))})")


@_FUNCTIONS("futex_wait", "void", "address:ptr, value:i32", exported=True)
def _futex_wait(f: GlueFunction, place: Ssa, value: Ssa) -> None:
    _futex(f, place, f.i64(_WAIT), value.cast("i64"), f.null())


@_FUNCTIONS("futex_wait_briefly", "void", "address:ptr, value:i32", exported=True)
def _futex_wait_briefly(f: GlueFunction, place: Ssa, value: Ssa) -> None:
    time = f.space("[2 x i64]")
    time.store(f.i64(0))
    time.at(8).store(f.i64(10_000_000))
    _futex(f, place, f.i64(_WAIT), value.cast("i64"), time)


@_FUNCTIONS("futex_wake", "void", "address:ptr, count:i64", exported=True)
def _futex_wake(f: GlueFunction, place: Ssa, count: Ssa) -> None:
    _futex(f, place, f.i64(_WAKE), count)


@_FUNCTIONS("pages_new", "ptr", "size:i64")
def _pages_new(f: GlueFunction, size: Ssa) -> None:
    length = (size + (_PAGE - 1)) & -_PAGE
    huge = size.ge(_HUGE)
    extra = f.select(huge, f.i64(_HUGE_PAGE), f.i64(0))
    base = f.call("ptr", "pages_map", length + extra)
    f.guard(base.eq(0) | (huge ^ 1), base)
    start = (base.cast("i64") + (_HUGE_PAGE - 1)) & -_HUGE_PAGE
    head = start - base.cast("i64")
    with f.if_(head.ne(0)):
        f.call("void", "pages_free", base, head)
    tail = extra - head
    with f.if_(tail.ne(0)):
        f.call("void", "pages_free", (start + length).cast("ptr"), tail)
    block, small = start.cast("ptr"), f.glob("pages_small")  # a hint: updates by other threads may be lost
    left = small.load("i64")
    with f.if_(left.gt(0)):
        small.store(left - 1)
        f.call("i32", "madvise", block, length, f.i32(_ADVISE_SMALL))
        f.ret(block)
    f.call("i32", "madvise", block, length, f.i32(_ADVISE_HUGE))
    before = f.call("i64", "now")
    block.store(f.i64(0))
    block.at((length >> 1) & -_PAGE).store(f.i64(0))
    with f.if_((f.call("i64", "now") - before).gt(2 * _DEAR)):
        small.store(f.i64(_SMALL_BLOCKS))
        f.call("i32", "madvise", block, length, f.i32(_ADVISE_SMALL))
    f.ret(block)
