"""The features of an AArch64 machine, in LLVM's names, as the operating system reports them.

LLVM names the CPU and detects few of its features; the operating system is also right where a virtual machine
hides some. Code is scheduled for LLVM's `generic`, a 64-bit ARM CPU with nothing beyond the first version.
"""

from __future__ import annotations

import ctypes as c
import functools
import sys

# Bit numbers in getauxval(AT_HWCAP), which is 16, and getauxval(AT_HWCAP2), 26, on Linux. /proc/cpuinfo is
# written from these bits.
_BITS = {
    16: {"aes": 3, "sha2": 6, "crc": 7, "lse": 8, "fullfp16": 10, "rdm": 12, "rcpc": 15, "dotprod": 20,
         "fp16fml": 23},
    26: {"i8mm": 13, "bf16": 14},
}  # fmt: skip
# The features of Apple's first processor for macOS, which all later ones have too.
_APPLE = frozenset({"aes", "sha2", "crc", "lse", "fullfp16", "rdm", "rcpc", "dotprod", "fp16fml"})

KNOWN = frozenset(name for bits in _BITS.values() for name in bits)
"""The features that are looked for; for a machine without them, code uses only the first version of the
architecture.
"""


@functools.cache
def features() -> frozenset[str]:
    """The features among `KNOWN` that this machine has."""
    if sys.platform == "darwin":
        return _APPLE
    if not sys.platform.startswith("linux"):
        return frozenset()
    ask = c.CDLL(None).getauxval
    ask.argtypes, ask.restype = [c.c_ulong], c.c_ulong
    words = {kind: ask(kind) for kind in _BITS}
    return frozenset(
        name for kind, bits in _BITS.items() for name, bit in bits.items() if words[kind] >> bit & 1
    )
