"""The machines that packages are built for and run on: natively, under QEMU, in Node and wasmtime, or only
linked. What a machine needs is named, by program and by package of Debian or PyPI; a test skips without it.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from axla.codegen.host import host_target
from axla.target.machine import X86_LEVELS
from qemu import skip_where_qemu_fails

BARE = Path(__file__).resolve().parents[2] / "examples" / "bare"

# Memory as bad as the header allows; `build` has programs that include nothing else of the tests, too.
STRICT = (f'-DAXLA_TEST_MEMORY="{Path(__file__).with_name("strict_memory.h")}"', "-D_DEFAULT_SOURCE")
_MEMORY = str(BARE / "memory.c")
WARNINGS = ("-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True, slots=True)
class Machine:
    """Builds C programs for a target and runs them. `sources`: start code where there is no system."""

    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()
    packages: str = ""  # where the tools come from
    sources: tuple[str, ...] = ()
    embedded: bool = False  # no files, no standard library
    python: str = ""  # a module that the runner or compiler needs
    runs: bool = True  # False: a link is all that can be checked here


def _arm(cpu: str, fpu: str, board: str, code: str, data: str, inputs: str) -> Machine:
    return Machine(
        ("arm-none-eabi-gcc", f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=hard", f"-mfpu={fpu}",
         *_bare(code, data, inputs)),
        ("qemu-system-arm", "-M", board, *_SEMIHOSTING), "gcc-arm-none-eabi qemu-system-arm",
        (str(BARE / "start_arm.c"), _MEMORY, "-lgcc"), True,
    )  # fmt: skip


def _bare(code: str, data: str, inputs: str) -> tuple[str, ...]:
    """`inputs`: where memory for arguments is that nothing else uses."""
    places = (f"-Wl,--defsym=code={code}", f"-Wl,--defsym=data={data}")
    return (
        "-ffreestanding", "-nostdlib", "-fno-tree-loop-distribute-patterns", "-T", str(BARE / "bare.ld"),
        *places, f"-DSTRICT_INPUTS={inputs}u", "-Wl,-z,noexecstack", "-Wl,--fatal-warnings",
    )  # fmt: skip


_SEMIHOSTING = ("-nographic", "-semihosting-config", "enable=on,target=native", "-kernel")
_WASM = (
    "clang", "--target=wasm32-unknown-unknown", "-ffreestanding", "-fno-builtin", "-nostdlib",
    "-Wl,--no-entry", "-Wl,--export=main", "-Wl,-z,stack-size=1048576",
)  # fmt: skip
_NODE = ("node", str(BARE / "run.mjs"))
_WASMTIME = (sys.executable, str(BARE / "run_wasmtime.py"))
_RISCV = ("riscv64-linux-gnu-gcc", "-static")
_RISCV_PACKAGES = "gcc-riscv64-linux-gnu qemu-user-static"


def _zig(triple: str) -> Machine:
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", triple)
    return Machine(compiler, packages="pip: ziglang", python="ziglang", runs=False)


def _linux(triple: str, qemu: str, debian: str) -> Machine:
    packages = f"gcc-{debian} qemu-user-static"
    return Machine((f"{triple}-gcc", "-static"), (f"qemu-{qemu}-static",), packages)


def _wasm(runner: tuple[str, ...], python: str = "") -> Machine:
    return Machine(
        _WASM,
        runner,
        "clang lld nodejs" if not python else "clang lld, pip: wasmtime",
        (_MEMORY,),
        True,
        python,
    )


MACHINES: dict[str, tuple[Machine, ...]] = {
    **{level: (Machine(("cc",)),) for level in X86_LEVELS},
    "aarch64": (
        Machine(
            ("aarch64-linux-gnu-gcc", "-static"), ("qemu-aarch64-static",),
            "gcc-aarch64-linux-gnu qemu-user-static",
        ),
    ),
    "armv7hf": (
        Machine(
            ("arm-linux-gnueabihf-gcc", "-static"), ("qemu-arm-static",),
            "gcc-arm-linux-gnueabihf qemu-user-static",
        ),
    ),
    "riscv64gc": (Machine(_RISCV, ("qemu-riscv64-static",), _RISCV_PACKAGES),),
    "riscv64gcv": (
        Machine(_RISCV, ("qemu-riscv64-static", "-cpu", "rv64,v=true,vlen=128"), _RISCV_PACKAGES),
    ),
    "cortex-m4f": (_arm("cortex-m4", "fpv4-sp-d16", "mps2-an386", "0", "0x20000000", "0x21000000"),),
    "cortex-m7": (_arm("cortex-m7", "fpv5-d16", "mps2-an500", "0", "0x20000000", "0x60000000"),),
    "cortex-m33": (
        _arm("cortex-m33", "fpv5-sp-d16", "mps2-an505", "0x10000000", "0x38000000", "0x80000000"),
    ),
    "riscv32imafc": (
        Machine(
            ("riscv64-unknown-elf-gcc", "-march=rv32imafc", "-mabi=ilp32f",
             *_bare("0x80000000", "0x82000000", "0x86000000")),
            ("qemu-system-riscv32", "-M", "virt", "-bios", "none", *_SEMIHOSTING),
            "gcc-riscv64-unknown-elf qemu-system-misc", (str(BARE / "start_riscv.c"), _MEMORY, "-lgcc"), True,
        ),
    ),
    "wasm32": (_wasm(_NODE), _wasm(_WASMTIME, "wasmtime")),
    "wasm32-simd128": (_wasm(_NODE), _wasm(_WASMTIME, "wasmtime")),
    "windows-x86-64": (_zig("x86_64-windows-gnu"),),
    "windows-arm64": (_zig("aarch64-windows-gnu"),),
    "macos-x86-64": (_zig("x86_64-macos"),),
    "macos-arm64": (_zig("aarch64-macos"),),
    "s390x-linux-gnu": (_linux("s390x-linux-gnu", "s390x", "s390x-linux-gnu"),),
    "powerpc64le-linux-gnu": (_linux("powerpc64le-linux-gnu", "ppc64le", "powerpc64le-linux-gnu"),),
    "mips64-linux-gnuabi64": (_linux("mips64-linux-gnuabi64", "mips64", "mips64-linux-gnuabi64"),),
    "mips64el-linux-gnuabi64": (_linux("mips64el-linux-gnuabi64", "mips64el", "mips64el-linux-gnuabi64"),),
    "loongarch64-linux-gnu": (_zig("loongarch64-linux-gnu"),),
}  # fmt: skip
"""The machines of every target."""


def need(target: str, machine: Machine) -> None:
    """Skips a test whose machine is not at hand."""
    if target in X86_LEVELS:
        levels = [*X86_LEVELS]
        if platform.machine() != "x86_64" or levels.index(target) > levels.index(host_target().name):
            pytest.skip(f"this machine does not run {target}")
    programs = [machine.compiler[0], *machine.runner[:1]]
    missing = [tool for tool in programs if shutil.which(tool) is None]
    if machine.python and importlib.util.find_spec(machine.python) is None:
        missing.append(machine.python)
    if missing and target in os.environ.get("TEST_AOT_TARGETS", "").split():
        pytest.fail(f"{', '.join(missing)} is not there; packages: {machine.packages}")
    if missing:
        pytest.skip(f"{', '.join(missing)} is not there; packages: {machine.packages}")


def build(folder: Path, sources: list[str], target: str, machine: Machine) -> Path:
    """A program of C sources and objects of a folder."""
    need(target, machine)
    program = folder / ("program.wasm" if machine.compiler[0] == "clang" else "program.elf")
    flags = ["-std=c99", "-O1", *WARNINGS]
    flags += ["-DAXLA_TEST_EMBEDDED"] if machine.embedded else ["-pthread"]
    flags += STRICT if machine.runs else ()
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(Path(tempfile.gettempdir()) / "axla-zig-cache")}
    subprocess.run(
        [*machine.compiler, *flags, *sources, *machine.sources, "-o", str(program)], check=True, cwd=folder,
        env=environment,
    )  # fmt: skip
    return program


def run_test(folder: Path, prefix: str, target: str, machine: Machine) -> None:
    """Builds a package's self-test and runs it in `strict_memory.h`: it compares with recorded results and
    says so.
    """
    objects = [name for name in (f"{prefix}.o", f"{prefix}_weights.o") if (folder / name).exists()]
    program = build(folder, [f"{prefix}_test.c", *objects], target, machine)
    if not machine.runs:
        return
    done = subprocess.run(
        [*machine.runner, str(program)], cwd=folder, timeout=300, capture_output=True, text=True
    )
    skip_where_qemu_fails(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
