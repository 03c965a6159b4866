"""Checks whether this machine has the instructions that code was compiled for. It asks the operating system,
so that LLVM need not be loaded.
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
# LLVM's names of features for which Linux has a different name.
_NAMES = {"sse3": "pni", "bmi": "bmi1", "lzcnt": "abm", "pclmul": "pclmulqdq"}
_SAME = frozenset(
    {"ssse3", "popcnt", "bmi2", "f16c", "fma", "fma4", "movbe", "gfni", "vaes", "vpclmulqdq", "adx"}
)
_FAMILIES = ("avx", "amx", "sse")
# Linux has no flags for sse and sse2, which all x86-64 machines have, nor for AVX10.1, which adds no
# instruction to AVX-512.
_WITHOUT_FLAG = {"sse", "sse2", "avx10.1"}


def refuse_foreign(cpu: str, features: Sequence[str], trust_cpu: bool) -> None:
    """Raises UnsupportedError if code needs instructions that this machine lacks. `cpu` and `features` are
    LLVM's names of what the code was compiled for.

    For a CPU other than an x86-64 level, or `generic` on AArch64, it is not known which features the name
    implies. So `features` must list them, or `trust_cpu` must assert that this machine has them.
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
        f"code for CPU {cpu!r}: cannot check whether this machine has its features; trust_cpu=True asserts it"
    )


def _refuse_missing(cpu: str, missing: Sequence[str]) -> NoReturn:
    raise UnsupportedError(f"code for CPU {cpu!r} needs {', '.join(missing)}, which this machine lacks")


def _plain(name: str) -> str:
    """Removes the punctuation in which names of Linux and LLVM differ, as in avx512_vnni and avx512vnni."""
    return re.sub("[-_.]", "", name)


@functools.cache
def _flags() -> frozenset[str]:
    """The features of this machine, by Linux's names; an empty set on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
