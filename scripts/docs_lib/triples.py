"""The table of docs/targets/any-triple.md: each architecture of LLVM, and whether a network for handwritten
digits compiles for it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import axla
from axla.aot.machines import machine
from axla.aot.objects import compile_object
from axla.core.errors import AxlaError
from axla.ir.graph import Module
from axla.target.machine import CpuTarget

PAGE = Path(__file__).resolve().parents[2] / "docs" / "targets" / "any-triple.md"
HEADING = "## Every architecture\n"

# The architectures in LLVM's `Triple`, each with a common triple. Those with several systems or levels have
# several.
TRIPLES = (
    "aarch64-linux-gnu", "aarch64-linux-android", "aarch64-unknown-freebsd", "aarch64-apple-ios",
    "aarch64-none-elf", "aarch64_be-linux-gnu", "aarch64_32-apple-watchos", "arm64ec-pc-windows-msvc",
    "amdgcn-amd-amdhsa", "arc-linux-gnu", "arm-linux-gnueabi", "arm-linux-gnueabihf", "armv6-linux-gnueabihf",
    "armv7-linux-androideabi", "armv7-apple-ios", "armeb-linux-gnueabihf", "avr-none-elf", "bpfel-linux-gnu",
    "bpfeb-linux-gnu", "csky-linux-gnuabiv2", "hexagon-linux-musl", "i386-linux-gnu", "i686-linux-android",
    "i686-pc-windows-msvc", "lanai-unknown-elf", "loongarch32-linux-gnu", "loongarch64-linux-gnu",
    "m68k-linux-gnu", "mips-linux-gnu", "mipsel-linux-gnu", "mipsisa32r6-linux-gnu", "mips64-linux-gnuabi64",
    "mips64el-linux-gnuabi64", "mips64-linux-gnuabin32", "mipsisa64r6-linux-gnuabi64", "msp430-none-elf",
    "nvptx-nvidia-cuda", "nvptx64-nvidia-cuda", "powerpc-linux-gnu", "powerpcle-linux-gnu",
    "powerpc64-linux-gnu", "powerpc64le-linux-gnu", "powerpc64-ibm-aix", "r600-mesa-mesa3d",
    "riscv32-linux-gnu", "riscv32-none-elf", "riscv32be-linux-gnu", "riscv64-linux-musl",
    "riscv64-unknown-freebsd", "riscv64-none-elf", "riscv64be-linux-gnu", "s390x-linux-gnu", "s390x-ibm-zos",
    "sparc-linux-gnu", "sparcel-linux-gnu", "sparc64-linux-gnu", "spirv-unknown-vulkan",
    "spirv32-unknown-unknown", "spirv64-unknown-unknown", "thumbv6m-none-eabi", "thumbv7m-none-eabi",
    "thumbv7em-none-eabihf", "thumbeb-none-eabi", "ve-unknown-linux", "wasm32-wasi", "wasm64-unknown-unknown",
    "x86_64-unknown-freebsd", "x86_64-linux-android", "x86_64-apple-ios", "x86_64-pc-windows-msvc",
    "xcore-unknown-elf", "xtensa-none-elf",
)  # fmt: skip


def digits() -> Module:
    """A network with layers of 64, 32 and 10 units for images of handwritten digits; its weights are
    constants.
    """
    rng = np.random.default_rng(19)
    b = axla.XlaBuilder("digits")
    x = axla.ops.Parameter(b, 0, axla.Shape(axla.dtypes.F32, (1, 64)))
    for inputs, outputs in ((64, 32), (32, 10)):
        weights = rng.normal(0, 0.1, (inputs, outputs)).astype(np.float32)
        x = axla.ops.Tanh(axla.ops.Dot(x, axla.ops.ConstantLiteral(b, weights)))
    return b.build(axla.ops.Exp(x)).module


def row(triple: str) -> str:
    """The line of the table for a triple."""
    try:
        target = machine(triple)
        compile_object(digits(), target)
    except AxlaError as error:
        reason = error.message.removeprefix(f"target {triple}: ")
        if reason.startswith(f"target {triple!r} is unknown"):
            reason = "this LLVM has no code for it"
        return f"| `{triple}` | | | | refused: {reason} |\n"
    form = target.form
    order = f"{8 * form.pointer_bytes} bits | {form.byte_order}"
    return f"| `{triple}` | {order} | {', '.join(lacking(target)) or 'nothing'} | compiles |\n"


def lacking(target: CpuTarget) -> list[str]:
    """The features and instructions that a target lacks."""
    facts = {
        "vectors": target.max_lanes > 1, "f64": target.has_double, "fused multiply-add": target.has_fma,
        "division": target.has_division, "square roots": target.has_square_root,
        "64-bit division": target.has_wide_division or not target.has_division,
    }  # fmt: skip
    return [name for name, there in facts.items() if not there]


def page() -> str:
    """The text of the page, with a new table."""
    words, _, _ = PAGE.read_text(encoding="utf-8").partition(HEADING)
    head = "| triple | addresses | byte order | missing | digits |\n| --- | --- | --- | --- | --- |\n"
    about = (
        "Made by `python scripts/docs`: LLVM's architectures, and whether a network for handwritten\n"
        "digits compiles for them. A triple with an alias means that alias.\n"
    )
    return f"{words}{HEADING}\n{about}\n{head}{''.join(map(row, TRIPLES))}"
