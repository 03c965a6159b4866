"""The target of the running machine: its level, and the CPU and features that LLVM detects."""

from __future__ import annotations

import functools
import json
from contextlib import suppress
from dataclasses import replace

from axla.codegen.native import arm, systems
from axla.core import cache, flags
from axla.target.machine import AARCH64, X86_LEVELS, CpuTarget, MathKnobs, with_features

# The features that a host of each level must have, by LLVM's names. A host has the highest level all of whose
# features it has.
_LEVEL_FEATURES = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v2": ("sse4.2", "popcnt", "cx16"),
}


# The x86-64 level that the flag `cpu_max_isa` allows; there is no level for AVX alone.
_LEVEL_OF_ISA = {"SSE4_2": "x86-64-v2", "AVX": "x86-64-v2", "AVX2": "x86-64-v3"}
# For each ISA: the beginnings of the names of features above it, as in XLA, where avx512fp16 is not above
# AVX512.
_BEYOND_ISA = {
    "AVX512": ("avx512vnni", "avx512bf16", "amx"),
    "AVX512_VNNI": ("avx512bf16", "amx"),
    "AVX512_BF16": ("amx",),
    "AMX": ("amx-fp16",),
}


def host_target() -> CpuTarget:
    """The target of this machine, with its level and exact features, or with the level to which the flag
    `cpu_max_isa` limits it.

    `cpu` is the CPU's own name, for scheduling; `features` alone determine which instructions exist.
    """
    given = flags.current()
    found = _host_target(given.cpu_max_isa.upper())
    return replace(found, flushes=True) if given.flush_denormals else found


@functools.cache
def _host_target(limit: str) -> CpuTarget:
    cpu, features = _description()
    triple = systems.triple()
    if systems.machine() == "aarch64":
        found = sorted(f"+{name}" for name in arm.features())
        return with_features(replace(AARCH64, triple=triple), [*found, *systems.HERE.FEATURES])
    level = X86_LEVELS[_x86_level(features)]
    names = list(X86_LEVELS)
    most = _LEVEL_OF_ISA.get(limit)
    if most and names.index(most) < names.index(level.name):
        return replace(X86_LEVELS[most], triple=triple)
    exact = {("+" if on else "-") + name for name, on in features.items()}
    host = replace(level, triple=triple, cpu=cpu)
    above = _BEYOND_ISA.get(limit, ())
    beyond = [f"-{name}" for name, on in features.items() if on and name.startswith(above)]
    found = with_features(host, [*sorted(exact), *beyond, *level.features])
    # Zen's gathers are microcode: loads and inserts take 0.5 to 0.9 of the time of a gather, without stalls
    # 0.1.
    return replace(found, has_fast_gather=found.has_fast_gather and not cpu.startswith("znver"))


@functools.cache
def _description() -> tuple[str, dict[str, bool]]:
    """(the name of the CPU, whether it has each feature by name) of this machine, as LLVM detects them;
    cached.
    """
    key = cache.key_of(cache.compiler(), cache.machine()) if cache.machine() else ""
    known = cache.get("host", key) if key else None
    if known is not None:
        with suppress(ValueError):
            cpu, features = json.loads(known)
            return cpu, features
    from axla.codegen import llvm

    found = llvm.host_cpu(), llvm.host_features()
    if key:
        cache.put("host", key, json.dumps(found).encode())
    return found


def one_lane_target() -> CpuTarget:
    """The host's target restricted to one lane, 32-bit indices and no masks: like small devices and GPU
    threads.
    """
    return _one_lane_target(host_target())


@functools.cache
def _one_lane_target(host: CpuTarget) -> CpuTarget:
    return replace(
        host, name="one-lane", index_type="i32", max_lanes=1, has_fast_gather=False, has_masked=False,
        math=MathKnobs(), unroll=(1, 1), intrinsics=frozenset(),
    )  # fmt: skip


def _x86_level(features: dict[str, bool]) -> str:
    """The highest x86-64 level whose features, and those of all lower levels, are present."""
    level = "x86-64"
    for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        if not all(features.get(feature, False) for feature in _LEVEL_FEATURES[name]):
            break
        level = name
    return level
