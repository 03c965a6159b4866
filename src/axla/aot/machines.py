"""The machine selected by a user: an alias, an LLVM triple, or `native`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from axla.codegen.host import host_target
from axla.codegen.triples import known, triple_target
from axla.core.errors import InvalidArgument, did_you_mean
from axla.target.machine import X86_LEVELS, CpuTarget, with_features
from axla.target.names import TARGETS, target

NATIVE = "native"

# Other spellings of the parts of triples. The system of WebAssembly makes no difference to objects.
_ARCHITECTURES = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "arm64": "aarch64",
    "armv7l": "armv7",
    "armv7a": "armv7",
}
_IGNORED = frozenset({"unknown", "pc", "none", "w64", "wasi", "wasip1", "wasip2", "emscripten"})
_SYSTEMS = (
    (r"(darwin|macosx?|apple)[\d.]*", "macos"), (r"(windows|win32|mingw32|msvc|windows-gnu)", "windows"),
    (r"musl", "gnu"), (r"musleabihf", "gnueabihf"),
)  # fmt: skip


def machine(name: str, cpu: str | None = None, features: Sequence[str] = ()) -> CpuTarget:
    """The target for the name `name`, with the LLVM CPU `cpu` (None: the target's own), and with LLVM
    features added or removed.

    Raises InvalidArgument, with similar names, for an unknown name.
    """
    if not isinstance(name, str):
        raise InvalidArgument(f"target: wanted an alias or a triple, found {type(name).__name__}")
    for feature in features:
        if not re.fullmatch(r"[+-][\w.-]+", feature):
            raise InvalidArgument(f"target_features: {feature!r}: wanted + or - and an LLVM feature")
    if name == NATIVE:
        found = with_features(host_target(), features)
        if cpu is not None:
            raise InvalidArgument(f"target_cpu={cpu!r}: target 'native' always means this machine's CPU")
        return found
    alias = name if name in TARGETS else alias_of(name)
    if alias is None:
        hint = did_you_mean(name, [NATIVE, *TARGETS])  # `riscv64-gc` may be a mistyped alias
        if known(name) and (name.count("-") > 1 or not hint):
            return triple_target(name, cpu, tuple(features))
        hint = hint or did_you_mean(name, dict.fromkeys(t.triple for t in TARGETS.values())) or "."
        others = "and triples of LLVM's"
        raise InvalidArgument(
            f"target {name!r} is unknown{hint} There are {NATIVE}, {', '.join(TARGETS)}, {others}"
        )
    if alias == "x86-64" and cpu in X86_LEVELS:  # a level has a target of its own
        return target(cpu, features=features)
    return target(alias, cpu=cpu, features=features)


def alias_of(triple: str) -> str | None:
    """The alias for a triple, in any spelling; the first one if several aliases have it, None if none has."""
    if "-" not in triple:
        return None
    wanted = _parts(triple)
    return next((name for name, found in TARGETS.items() if _parts(found.triple) == wanted), None)


def _parts(triple: str) -> tuple[str, ...]:
    first, *rest = triple.lower().split("-")
    parts = [_ARCHITECTURES.get(first, first)]
    for part in rest:
        for pattern, ours in _SYSTEMS:
            if re.fullmatch(pattern, part):
                part = ours
        parts.append(part)
    kept = [part for part in dict.fromkeys(parts) if part not in _IGNORED]
    if "windows" in kept or kept[0].startswith("wasm"):
        kept = [part for part in kept if part != "gnu"]
    return (*kept, "gnu") if kept[-1] == "linux" else tuple(kept)
