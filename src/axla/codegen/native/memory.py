"""Emits the caching allocator: 64-byte-aligned blocks in size classes, which are cached when freed.

Fresh pages cost 2-3 times the work of an elementwise kernel that fills them, so reuse matters more than fit.
There are eight size classes for each power of two, so at most an eighth is wasted. Free blocks form a list
through their first word. A spin lock guards the lists, since threads without the interpreter lock free
blocks, too.

    ptr axla_allocate(i64 bytes)          null: out of memory
    void axla_free(ptr, i64 bytes)        bytes as requested
    void axla_trim()                      returns all cached blocks to the system

The global `memory_state` is a struct STATE.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction, GlueFunctions, GlueModule
from axla.codegen.straight import Ssa
from axla.program.abi import CField, Struct

STATE = Struct(
    "axla_memory",
    "State of the allocator.",
    CField("in_use", "i64", "bytes in allocated blocks"),
    CField("cached", "i64", "bytes in free blocks"),
    CField("limit", "i64", "limit of in_use"),
    CField("cache_limit", "i64", "limit of cached"),
    CField("fresh", "i64", "blocks taken from the system so far"),
)

_CLASSES = 8 * 42 + 1
_LARGEST = 1 << 47
# Smaller blocks come from malloc, which packs them. Others have their own pages, which `axla_trim` returns to
# the system.
_MAPPED = 512 * 1024


_FUNCTIONS = GlueFunctions()


def emit(m: GlueModule) -> None:
    """Adds the functions and variables of the allocator to the module."""
    m.variable("memory_state", f"[{STATE.size} x i8]")
    m.variable("memory_lists", f"[{_CLASSES} x ptr]")
    _FUNCTIONS.emit(m)


@_FUNCTIONS("memory_class", "i64", "bytes:i64")
def _class_of(f: GlueFunction, size: Ssa) -> None:
    """The size class of a number of bytes, which is the index of its list: up to 64 bytes, then eight classes
    for each power of two.
    """
    f.guard(size.le(64), f.i64(0))
    last = size - 1
    exponent = f.i64(63) - f.call("i64", "llvm.ctlz.i64", last, f.const("i1", 1))
    step = (last >> (exponent - 3)) & 7
    f.ret((exponent - 6) * 8 + step + 1)


@_FUNCTIONS("memory_class_bytes", "i64", "index:i64")
def _size_of_class(f: GlueFunction, index: Ssa) -> None:
    f.guard(index.eq(0), f.i64(64))
    at = index - 1
    f.ret(((at & 7) + 9) << ((at >> 3) + 3))


@_FUNCTIONS("memory_from_system", "ptr", "size:i64")
def _memory_from_system(f: GlueFunction, size: Ssa) -> None:
    with f.if_(size.ge(_MAPPED)):
        f.ret(f.call("ptr", "pages_new", size))
    f.ret(f.call("ptr", "block_new", size))


@_FUNCTIONS("memory_to_system", "void", "block:ptr, size:i64")
def _memory_to_system(f: GlueFunction, block: Ssa, size: Ssa) -> None:
    with f.if_(size.lt(_MAPPED)):
        f.call("void", "block_free", block)
        f.ret()
    f.call("void", "pages_free", block, size)


@_FUNCTIONS("axla_trim", "void", exported=True)
def _trim(f: GlueFunction) -> None:
    state = f.glob("memory_state")
    with f.loop(0, _CLASSES) as classes:
        size = f.call("i64", "memory_class_bytes", classes.index)
        head = f.glob("memory_lists").item(classes.index)
        f.call("void", "memory_acquire")
        block = f.slot(head.load("ptr"))
        head.store(f.null())
        f.call("void", "memory_release")
        freed = f.slot(f.i64(0))
        with f.while_loop() as loop:
            first = block.load("ptr")
            with f.if_(first.eq(0)):
                loop.leave()
            block.store(first.load("ptr"))
            f.call("void", "memory_to_system", first, size)
            freed.store(freed.load("i64") + size)
        f.call("void", "memory_acquire")
        state.set(STATE, "cached", state.get(STATE, "cached") - freed.load("i64"))
        f.call("void", "memory_release")


@_FUNCTIONS("memory_fresh", "ptr", "size:i64")
def _fresh(f: GlueFunction, size: Ssa) -> None:
    """Takes a block from the system. If the limit does not allow it, returns null and changes nothing."""
    state = f.glob("memory_state")
    limit = state.get(STATE, "limit")
    f.call("void", "memory_acquire")
    wanted = state.get(STATE, "in_use") + size
    with f.if_(wanted.gt(limit), likely=False):
        f.call("void", "memory_release")
        f.ret(f.null())
    state.set(STATE, "in_use", wanted)
    state.set(STATE, "fresh", state.get(STATE, "fresh") + 1)
    crowded = (wanted + state.get(STATE, "cached")).gt(limit)
    f.call("void", "memory_release")
    with f.if_(crowded, likely=False):
        f.call("void", "axla_trim")
    block = f.call("ptr", "memory_from_system", size)
    f.guard(block.ne(0), block)
    f.call("void", "axla_trim")
    block = f.call("ptr", "memory_from_system", size)
    with f.if_(block.eq(0)):
        f.call("void", "memory_acquire")
        state.set(STATE, "in_use", state.get(STATE, "in_use") - size)
        f.call("void", "memory_release")
    f.ret(block)


@_FUNCTIONS("axla_allocate", "ptr", "bytes:i64", exported=True)
def _allocate(f: GlueFunction, size: Ssa) -> None:
    f.guard(size.ugt(_LARGEST), f.null())
    index = f.call("i64", "memory_class", size)
    block_size = f.call("i64", "memory_class_bytes", index)
    head = f.glob("memory_lists").item(index)
    f.call("void", "memory_acquire")
    block = head.load("ptr")
    with f.if_(block.ne(0), likely=True):
        head.store(block.load("ptr"))
        state = f.glob("memory_state")
        state.set(STATE, "cached", state.get(STATE, "cached") - block_size)
        state.set(STATE, "in_use", state.get(STATE, "in_use") + block_size)
        f.call("void", "memory_release")
        f.ret(block)
    f.call("void", "memory_release")
    f.ret(f.call("ptr", "memory_fresh", block_size))


@_FUNCTIONS("axla_free", "void", "block:ptr, bytes:i64", exported=True)
def _free(f: GlueFunction, block: Ssa, size: Ssa) -> None:
    index = f.call("i64", "memory_class", size)
    block_size = f.call("i64", "memory_class_bytes", index)
    state = f.glob("memory_state")
    f.call("void", "memory_acquire")
    state.set(STATE, "in_use", state.get(STATE, "in_use") - block_size)
    with f.if_((state.get(STATE, "cached") + block_size).gt(state.get(STATE, "cache_limit")), likely=False):
        # The cache is full of blocks of other sizes; the size that was just freed is more likely to be needed
        # again.
        f.call("void", "memory_release")
        f.call("void", "axla_trim")
        with f.if_(block_size.gt(state.get(STATE, "cache_limit"))):
            f.call("void", "memory_to_system", block, block_size)
            f.ret()
        f.call("void", "memory_acquire")
    _push(f, block, index, block_size)
    f.call("void", "memory_release")


def _push(f: GlueFunction, block: Ssa, index: Ssa, size: Ssa) -> None:
    head = f.glob("memory_lists").item(index)
    block.store(head.load("ptr"))
    head.store(block)
    state = f.glob("memory_state")
    state.set(STATE, "cached", state.get(STATE, "cached") + size)
