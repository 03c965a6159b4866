"""The differences of operating systems: memory for code, pages, threads, waiting, clocks, object formats.

`posix.py` has the functions that Linux and macOS share; each other file is for one system. `HERE` is the
module of the running system. Each module has

    TRIPLE, FEATURES         LLVM's, for objects that run here; `{}` stands for the architecture
    NEEDED                   functions of the system that any object may call
    library()                the C library
    address(name)            the address of a function of the C library or of the system
    Pages(bytes)             memory: `address`, `view` to fill it, `protect(start, end, code)`
    flush(address, bytes)    makes the instruction cache read code that was written
    at_fork(addresses)       registers functions to call before a fork, and after it in parent and child
    emit(module)             adds these functions of the glue:

    void futex_wait(ptr, i32)           sleeps while the word at the address has the value; may wake early
    void futex_wait_briefly(ptr, i32)   the same, for 10 ms at most
    void futex_wake(ptr, i64)           wakes this number of threads that sleep on the address, or all
    i32 thread_start(ptr, ptr)          runs a function of one pointer in a thread without signals; 0: done
    i64 thread_id()                     the number that Python's threading.get_ident() returns
    void sleep(i32)                     sleeps for this number of microseconds
    void yield()                        lets another thread use the core
    i64 now()                           the monotonic clock, in nanoseconds
    ptr pages_new(i64)                  zeroed pages, or null
    void pages_free(ptr, i64)
    ptr block_new(i64)                  memory at a multiple of 64, or null
    void block_free(ptr)

Objects are ELF on every system, in the calling convention of the system, and linked by `image.py`.
"""

from __future__ import annotations

import platform
import sys

if sys.platform == "win32":
    from axla.codegen.native.systems import windows as HERE
elif sys.platform == "darwin":
    from axla.codegen.native.systems import macos as HERE
else:
    from axla.codegen.native.systems import linux as HERE

__all__ = ["HERE", "machine", "runs", "triple"]

_SAME = {"amd64": "x86_64", "arm64": "aarch64"}


def machine() -> str:
    """The processor's architecture, by LLVM's name for it."""
    found = platform.machine().lower()
    return _SAME.get(found, found)


def triple() -> str:
    """The LLVM triple of objects that run in this process."""
    return HERE.TRIPLE.format(machine())


def runs(other: str) -> bool:
    """Whether objects for the triple `other` run in this process."""
    found, here = other.split("-"), triple().split("-")
    apart = "apple" in found + here and found[1:2] != here[1:2]
    return found[0] == here[0] and here[2] in found and not apart
