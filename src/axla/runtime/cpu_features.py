"""Checks whether this machine has the instructions that code was compiled for, by asking the system, not
LLVM.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from axla.codegen.native import arm, systems
from axla.core.errors import UnsupportedError

_V2 = ("ssse3", "sse4_1", "sse4_2", "popcnt", "cx16")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_LEVELS = {
    "x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3,
    "x86-64-v4": (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}  # fmt: skip
# LLVM's names of what generated code may use, where Linux has quite another one.
_NAMES = {"sse3": "pni", "bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq"}
_SAME = frozenset(
    {"ssse3", "popcnt", "bmi2", "f16c", "fma", "fma4", "movbe", "gfni", "vaes", "vpclmulqdq", "adx"}
)
_FAMILIES = ("avx", "amx", "sse")
# Linux has no flags for what all machines have, nor for AVX10.1, which adds no instruction to AVX-512.
_WITHOUT_FLAG = {"sse", "sse2", "avx10.1"}


def refuse_foreign(cpu: str, features: Sequence[str], trust_cpu: bool) -> None:
    """Raises UnsupportedError for code that needs instructions this machine lacks, by LLVM's CPU and
    features.

    The features of CPUs other than x86-64 levels and AArch64 are unknown: they must be listed, or the caller
    vouches for the CPU (`trust_cpu`).
    """
    listed = [name[1:] for name in features if name.startswith("+")]
    if systems.machine() == "aarch64":
        _refuse_arm(cpu, listed, trust_cpu)
        return
    if cpu not in _LEVELS and "sse2" not in listed and not trust_cpu:
        _refuse_unknown(cpu)
    known = [name for name in listed if name in _SAME or name in _NAMES or name.startswith(_FAMILIES)]
    needed = {_NAMES.get(name, name) for name in known if name not in _WITHOUT_FLAG}
    found = {_plain(flag) for flag in _flags()}
    missing = sorted(name for name in needed | set(_LEVELS.get(cpu, ())) if _plain(name) not in found)
    if missing:
        _refuse_missing(cpu, missing)


def _refuse_arm(cpu: str, listed: Sequence[str], trust_cpu: bool) -> None:
    if cpu != "generic" and not trust_cpu:
        _refuse_unknown(cpu)
    missing = sorted(set(listed) & arm.KNOWN - arm.features())
    if missing:
        _refuse_missing(cpu, missing)


def _refuse_unknown(cpu: str) -> NoReturn:
    raise UnsupportedError(
        f"code for CPU {cpu!r}: whether this machine is one is not known here; trust_cpu=True says it is"
    )


def _refuse_missing(cpu: str, missing: Sequence[str]) -> NoReturn:
    raise UnsupportedError(f"code for CPU {cpu!r} needs {', '.join(missing)}, which this machine lacks")


def _plain(name: str) -> str:
    """A name without the punctuation in which Linux and LLVM differ: avx512_vnni and avx512vnni."""
    return re.sub("[-_.]", "", name)


@functools.cache
def _flags() -> frozenset[str]:
    """The features of this machine in Linux' names."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
