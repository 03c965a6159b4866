"""Reads and writes operands of instructions for a group of threads: registers, constants, addresses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ptx.code import WARP, Block, Code, Group
from ptx.instructions import TYPES
from ptx.text import PtxError

_ADDRESS = re.compile(r"\[([^+\]]+?)\s*(?:\+\s*(-?\w+))?\]")
_SPECIAL = {
    "%tid.x": lambda run: run.thread, "%ctaid.x": lambda run: run.block,
    "%laneid": lambda run: run.thread % WARP,
    "%ntid.x": lambda run: run.threads, "%nctaid.x": lambda run: run.blocks,
    "%warpid": lambda run: run.thread // WARP,
    **dict.fromkeys(("%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z"), lambda run: 0),
    **dict.fromkeys(("%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z"), lambda run: 1),
}  # fmt: skip


def reader(code: Code, block: Block, words: str, dtype: np.dtype) -> Callable[[Group], Any]:
    """A function that gives an operand as an array of a type, or as one number for all threads."""
    if words in _SPECIAL:
        read = _SPECIAL[words]

        def special(group: Group) -> Any:
            found = read(group.run)
            return dtype.type(found) if isinstance(found, int) else group.of(found).astype(dtype)

        return special
    if words.startswith("%"):
        return _register(block, words, dtype)
    constant = _constant(code, words, dtype)
    return lambda group: constant


def _register(block: Block, name: str, dtype: np.dtype) -> Callable[[Group], Any]:
    key, bits = block.key(name), block.width(name)
    if bits == 1 or bits == 8 * dtype.itemsize:
        if bits == 1 and dtype != TYPES["pred"]:
            raise PtxError(f"{name} is a predicate")
        return lambda group: group.values[key].view(dtype)
    if bits < 8 * dtype.itemsize:
        raise PtxError(f"{name} has {bits} bits; {8 * dtype.itemsize} are wanted")
    narrow = np.dtype(f"u{dtype.itemsize}")
    return lambda group: group.values[key].astype(narrow).view(dtype)


def _constant(code: Code, words: str, dtype: np.dtype) -> Any:
    address = code.address(words)
    if address is not None:
        return np.uint64(address).astype(dtype)
    if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", words):
        number = int(words[2:], 16)
        if len(words) != 2 + 2 * dtype.itemsize:
            raise PtxError(f"{words} is not of {8 * dtype.itemsize} bits")
    else:
        number = int(words.rstrip("U"), 0)
    if dtype == TYPES["pred"]:
        return np.bool_(number)
    mask = (1 << 8 * dtype.itemsize) - 1
    return np.array(number & mask, f"u{dtype.itemsize}").view(dtype)[()]


def writer(block: Block, name: str, dtype: np.dtype) -> Callable[[Group, Any], None]:
    """A function that puts values into a register."""
    if name == "_":
        return lambda group, value: None
    key, bits = block.key(name), block.width(name)
    block.writes.add(key)
    if bits == 1:
        kept, wide = TYPES["pred"], TYPES["pred"]
    else:
        kept, wide = np.dtype(f"u{bits // 8}"), np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{bits // 8}")

    def put(group: Group, value: Any) -> None:
        value = np.asarray(value, dtype)
        if not value.shape:
            value = np.full(group.count, value)
        if value.dtype.itemsize != wide.itemsize:
            value = value.view(f"{'i' if dtype.kind == 'i' else 'u'}{dtype.itemsize}").astype(wide)
        group.values[key] = value.view(kept)

    return put


def address_of(code: Code, block: Block, words: str) -> tuple[Callable[[Group], Any], int, str]:
    """The base of an address as a function, its offset, and the name that it is of."""
    found = _ADDRESS.fullmatch(words)
    if found is None:
        raise PtxError(f"no address: {words}")
    offset = int(found[2], 0) if found[2] else 0
    if found[1].startswith("%"):
        return (
            reader(code, block, found[1], TYPES["u64" if block.width(found[1]) == 64 else "u32"]),
            offset,
            "",
        )
    number = code.address(found[1])
    if number is None and re.fullmatch(r"-?\d\w*", found[1]):
        number = int(found[1], 0)
    constant = np.uint64(number or 0)
    return (lambda group: constant), offset, "" if number is not None else found[1]
