"""LLVM types and constants as text: `float`, `<16 x float>`, `0x3FF0000000000000`."""

from __future__ import annotations

import contextlib
import functools
import struct


@functools.cache
def vector(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements: a plain scalar for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@functools.cache
def element_type(type_: str) -> str:
    """The LLVM type of an element of a vector type, or the scalar type itself."""
    return type_[type_.index("x") + 2 : -1] if type_[0] == "<" else type_


@functools.cache
def lane_count(type_: str) -> int:
    """The number of elements of an LLVM vector type; 1 for scalar types."""
    return int(type_[1 : type_.index("x") - 1]) if type_[0] == "<" else 1


def float_text(element: str, value: float) -> str:
    """A float constant exactly as LLVM reads it (hex; f32 is written as the double it equals)."""
    # Zeros bypass the cache, whose keys do not distinguish 0.0 from -0.0.
    return _float_text(element, value) if value else _float_text.__wrapped__(element, value)


@functools.lru_cache(maxsize=4096)
def _float_text(element: str, value: float) -> str:
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if element == "float":
        with contextlib.suppress(OverflowError):
            value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


_MANGLED = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}


@functools.cache
def mangle(type_: str) -> str:
    """The suffix of an overloaded intrinsic's name for a type: `v16f32` for <16 x float>."""
    element = element_type(type_)
    name = _MANGLED.get(element, element)
    return f"v{lane_count(type_)}{name}" if type_[0] == "<" else name
