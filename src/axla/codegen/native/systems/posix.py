"""Functions that Linux and macOS share; the file of each system calls them with its constants."""

from __future__ import annotations

import ctypes as c
import functools
import mmap
from collections.abc import Sequence
from typing import Any

from axla.codegen.native.assembly import GlueModule
from axla.core.errors import OutOfMemory, UnsupportedError

_READ, _WRITE, _EXECUTE, _PRIVATE = 1, 2, 4, 2


@functools.cache
def library() -> Any:
    """The C library of this process."""
    return c.CDLL(None, use_errno=True)


def address(name: str) -> int:
    """The address of a function of the C library."""
    return c.cast(library()[name], c.c_void_p).value or 0


class Pages:
    """Memory for code; it is unmapped when this object is freed."""

    def __init__(self, size: int) -> None:
        try:
            self._memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise OutOfMemory(f"cannot map {size} bytes for code and constants: {error.strerror}") from error
        self._anchor = c.c_char.from_buffer(self._memory)
        self.address, self.view = c.addressof(self._anchor), memoryview(self._memory)

    def protect(self, start: int, end: int, code: bool) -> None:
        """Makes pages read-only, and executable where they hold code."""
        protect = library().mprotect
        protect.argtypes = [c.c_void_p, c.c_size_t, c.c_int]
        if end > start and protect(self.address + start, end - start, _READ | _EXECUTE * code):
            raise UnsupportedError(f"mprotect cannot protect code: error {c.get_errno()}")


def at_fork(addresses: Sequence[int]) -> None:
    """Registers the addresses of three handlers: one is called before a fork, one after it in the parent, and
    one after it in the child.
    """
    # glibc has pthread_atfork only in its static library.
    register = getattr(library(), "pthread_atfork", None) or library()["__register_atfork"]
    register(*map(c.c_void_p, addresses), None)


def map_pages(m: GlueModule, name: str, anonymous: int) -> None:
    """Adds a function, `name`, that maps zeroed pages; `anonymous` is the system's MAP_ANONYMOUS."""
    f = m.function(name, "ptr", "size:i64")
    rights, kind = f.i32(_READ | _WRITE), f.i32(_PRIVATE | anonymous)
    base = f.call("ptr", "mmap", f.null(), f.params["size"], rights, kind, f.i32(-1), f.i64(0))
    f.ret(f.select(base.cast("i64").eq(-1), f.null(), base))


def emit(m: GlueModule, *, clock: int, set_mask: int) -> None:
    """Adds the functions of the glue that Linux and macOS share: all except `pages_new` and those that wait.
    `clock` is the system's CLOCK_MONOTONIC, `set_mask` its SIG_SETMASK.
    """
    f = m.function("pages_free", "void", "block:ptr, size:i64")
    f.call("i32", "munmap", *f.params.values())
    f.ret()

    f = m.function("block_new", "ptr", "size:i64")
    out = f.slot(f.null())
    status = f.call("i32", "posix_memalign", out, f.i64(64), f.params["size"])
    f.ret(f.select(status.eq(0), out.load("ptr"), f.null()))

    f = m.function("block_free", "void", "block:ptr")
    f.call("void", "free", f.params["block"])
    f.ret()

    f = m.function("now", "i64", exported=True)
    time = f.space("[2 x i64]")
    f.call("i32", "clock_gettime", f.i32(clock), time)
    f.ret(time.load("i64") * 1_000_000_000 + time.at(8).load("i64"))

    f = m.function("thread_id", "i64", exported=True)
    f.ret(f.call("i64", "pthread_self"))

    f = m.function("sleep", "void", "microseconds:i32", exported=True)
    f.call("i32", "usleep", f.params["microseconds"])
    f.ret()

    f = m.function("yield", "void", exported=True)
    f.call("i32", "sched_yield")
    f.ret()

    f = m.function("thread_start", "i32", "routine:ptr, argument:ptr", exported=True)
    all_signals, old = f.space("[128 x i8]"), f.space("[128 x i8]")
    thread = f.space("i64")
    f.call("i32", "sigfillset", all_signals)
    f.call("i32", "pthread_sigmask", f.i32(set_mask), all_signals, old)
    status = f.call("i32", "pthread_create", thread, f.null(), *f.params.values())
    with f.if_(status.eq(0), likely=True):
        f.call("i32", "pthread_detach", thread.load("i64"))
    f.call("i32", "pthread_sigmask", f.i32(set_mask), old, f.null())
    f.ret(status)
