"""The target machines for ahead-of-time compilation, by alias.

An alias stands for LLVM's triple, CPU and features, and for all facts that follow from them:
`target("armv7hf")`. Features that are added or removed (`+fma`, `-avx2`) change these facts, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axla.core.errors import InvalidArgument, did_you_mean
from axla.target.machine import AARCH64, X86_LEVELS, Caches, CpuTarget, ObjectForm, with_features

_POINTER32 = ObjectForm(pointer_bytes=4)
_BARE = replace(_POINTER32, relocation="static")

# On Windows, a stack frame of more than a page would call a stack probe. Object files for MSVC's triples need
# the symbol `_fltused`.
_COFF = ObjectForm("coff", attributes='"no-stack-arg-probe"')
_MACHO = ObjectForm("macho")

_SMALL = CpuTarget(
    "small", "", "", index_type="i32", vector_bytes=4, max_lanes=1, has_wide_division=False,
    blocks_products=False, unroll=(1, 2), registers=16, caches=Caches(16 << 10, 64 << 10),
    form=_BARE,
)  # fmt: skip

_CORTEX_M4F = replace(
    _SMALL,
    name="cortex-m4f",
    triple="thumbv7em-unknown-none-eabihf",
    cpu="cortex-m4",
    has_fma=True,
    has_double=False,
)
_CORTEX_M7 = replace(
    _CORTEX_M4F, name="cortex-m7", cpu="cortex-m7", has_rounding=True, has_double=True
)  # fmt: skip
_CORTEX_M33 = replace(
    _CORTEX_M4F,
    name="cortex-m33",
    triple="thumbv8m.main-unknown-none-eabihf",
    cpu="cortex-m33",
    has_rounding=True,
)
# No vectors, since NEON of 32-bit ARM flushes denormals to zero. Cores before Cortex-A7 and A15 have no
# division.
_ARMV7 = replace(
    _SMALL, name="armv7hf", triple="armv7-unknown-linux-gnueabihf", cpu="generic",
    features=frozenset({"+vfp3d16", "-neon"}), has_division=False,
    caches=Caches(32 << 10, 512 << 10), form=_POINTER32,
)  # fmt: skip

_RISCV64 = replace(
    _SMALL, name="riscv64gc", triple="riscv64-unknown-linux-gnu", cpu="generic-rv64", index_type="i64",
    features=frozenset({"+m", "+a", "+f", "+d", "+c"}), vector_bytes=8, has_fma=True, has_wide_division=True,
    registers=32, caches=Caches(32 << 10, 1 << 20),
    form=ObjectForm(abi="lp64d", code_model="medium"),
)  # fmt: skip
_RISCV32 = replace(
    _SMALL, name="riscv32imafc", triple="riscv32-unknown-none-elf", cpu="generic-rv32",
    features=frozenset({"+m", "+a", "+f", "+c"}), has_fma=True, has_double=False,
    form=replace(_BARE, abi="ilp32f"),
)  # fmt: skip

_WASM = replace(
    _SMALL, name="wasm32", triple="wasm32-unknown-unknown", cpu="generic", has_rounding=True,
    has_wide_division=True, caches=Caches(), form=replace(_BARE, format="wasm"),
)  # fmt: skip

_X86 = X86_LEVELS["x86-64"]
_ALL = (
    *X86_LEVELS.values(),
    AARCH64,
    _ARMV7,
    _CORTEX_M4F,
    _CORTEX_M7,
    _CORTEX_M33,
    _RISCV64,
    with_features(replace(_RISCV64, name="riscv64gcv"), ("+v",)),
    _RISCV32,
    _WASM,
    with_features(replace(_WASM, name="wasm32-simd128"), ("+simd128",)),
    replace(_X86, name="windows-x86-64", triple="x86_64-pc-windows-gnu", form=_COFF),
    replace(AARCH64, name="windows-arm64", triple="aarch64-pc-windows-gnu", form=_COFF),
    replace(_X86, name="macos-x86-64", triple="x86_64-apple-macosx10.15.0", form=_MACHO),
    replace(AARCH64, name="macos-arm64", triple="arm64-apple-macosx11.0.0", cpu="apple-m1", form=_MACHO),
)  # fmt: skip

TARGETS = {found.name: found for found in _ALL}
"""All targets, by alias."""


def target(alias: str, *, cpu: str | None = None, features: Sequence[str] = ()) -> CpuTarget:
    """The target of an alias. `cpu` is LLVM's name of a CPU that replaces the alias's own one in scheduling;
    `features` (`+fma`, `-avx2`) are added or removed. Raises InvalidArgument for an unknown alias.
    """
    found = TARGETS.get(alias)
    if found is None:
        hint = did_you_mean(alias, TARGETS)
        raise InvalidArgument(f"target {alias!r} is unknown{hint}; known: {', '.join(TARGETS)}")
    if cpu is not None:
        found = replace(found, cpu=cpu)
    return with_features(found, features)
