"""Writes CMakeLists.txt of a library, and the files for a Rust crate: `build.rs` and the module `P.rs`."""

from __future__ import annotations

from axla.aot import rust
from axla.aot.library import CompiledLibrary
from axla.core.templates import fill


def write(library: CompiledLibrary) -> dict[str, str | bytes]:
    """The files for building with CMake or Rust: {name: contents}."""
    return {
        "CMakeLists.txt": _cmake(library),
        "build.rs": rust.build_script(library),
        f"{library.prefix}.rs": rust.module(library),
    }


def _cmake(library: CompiledLibrary) -> str:
    prefix, target = library.prefix, library.target
    loader = ["", fill("aot/loader.cmake", PREFIX=prefix)] if library.has_loader else ()
    externals = f" ${{{prefix}_EXTERNALS}}" if library.externals else ""
    return fill(
        "aot/CMakeLists.txt", PREFIX=prefix, NAME=str(library.name), TARGET=target.name,
        TRIPLE=target.triple, CONFIG=f"{prefix}Config", EXTERNALS=externals, LOADER=loader,
    ) + "\n"  # fmt: skip
