"""axla targets: lists the machines that `axla compile` compiles for.

axla targets                 a table: alias, triple, CPU, features, what is particular axla targets cortex-m4f
all about one target, given by its alias or by its LLVM triple
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from axla.target.machine import CpuTarget


_OTHERS = (
    "native is this machine. Any other triple that LLVM knows can be used, too, for a plain CPU:",
    "axla targets s390x-linux-gnu shows what is known of it, or why it cannot be used.",
)
_FORMATS = {"elf": "ELF", "coff": "COFF", "macho": "Mach-O", "wasm": "WebAssembly"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla targets`."""
    parser.add_argument("target", metavar="ALIAS", nargs="?", help="an alias or a triple, or `native`")


def execute(options: argparse.Namespace) -> int:
    """Runs `axla targets`; returns its exit status."""
    print(table() if options.target is None else detail(options.target))
    return 0


def table() -> str:
    """A table of all targets, one a line."""
    from axla.target.names import TARGETS

    rows = [("ALIAS", "TRIPLE", "CPU", "FEATURES", "PARTICULAR")]
    for name, found in TARGETS.items():
        rows.append((name, found.triple, found.cpu, _features(found), ", ".join(particular(found))))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
    return "\n".join(line.rstrip() for line in [*lines, "", *_OTHERS])


def particular(target: CpuTarget) -> list[str]:
    """The properties of a target that its users must allow for, such as big-endian memory or missing f64
    arithmetic.
    """
    form = target.form
    found = [] if form.format == "elf" else [_FORMATS[form.format]]
    if form.pointer_bytes == 4:
        found.append("32-bit addresses")
    if form.byte_order == "big":
        found.append("big-endian")
    if form.relocation == "static":
        found.append("no position independence")
    if not target.has_double:
        found.append("no f64 arithmetic")
    if target.max_lanes == 1:
        found.append("scalar")
    elif target.vector_bytes != 16:
        found.append(f"vectors of {target.vector_bytes * 8} bits")
    if not target.has_division:
        found.append("no integer division")
    return found


def detail(name: str) -> str:
    """The description of a target."""
    from axla.aot.machines import machine

    found = machine(name)
    form = found.form
    yes = {True: "instructions", False: "by generated code"}
    facts = [
        ("triple", found.triple), ("cpu", found.cpu or "that of the triple"),
        ("features", _features(found) or "those of the CPU"),
        ("objects", _FORMATS[form.format]), ("addresses", f"{form.pointer_bytes * 8} bits"),
        ("byte order", form.byte_order),
        ("ABI", form.abi or "that of the triple"), ("relocation", form.relocation),
        ("vectors", "none" if found.max_lanes == 1 else f"{found.vector_bytes * 8} bits"),
        ("fused multiply-add", "yes" if found.has_fma else "no"),
        ("rounding", yes[found.has_rounding]), ("f16 conversion", yes[found.has_half_conversion]),
        ("integer division", yes[found.has_division]), ("64-bit division", yes[found.has_wide_division]),
        ("f64", "instructions" if found.has_double else "refused, but with --allow-libgcc"),
    ]  # fmt: skip
    width = max(len(label) for label, _ in facts)
    return "\n".join([found.name, *(f"  {label:<{width}}  {value}" for label, value in facts)])


def _features(target: CpuTarget) -> str:
    return ",".join(sorted(target.features, key=lambda feature: feature[1:]))
