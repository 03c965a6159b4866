"""Runs objects for other machines: ELF under qemu-user, WebAssembly in wasmtime. Skips, with the reason,
where the tools are not at hand.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from axla.aot.objects import ObjectCode
from axla.program import abi

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import c_driver  # noqa: E402

# Target: C compiler, emulator with its arguments.
CROSS = {
    "s390x-linux-gnu": ("s390x-linux-gnu-gcc", ("qemu-s390x-static",)),
    "powerpc64le-linux-gnu": ("powerpc64le-linux-gnu-gcc", ("qemu-ppc64le-static",)),
    "mips64-linux-gnuabi64": ("mips64-linux-gnuabi64-gcc", ("qemu-mips64-static",)),
    "mips64el-linux-gnuabi64": ("mips64el-linux-gnuabi64-gcc", ("qemu-mips64el-static",)),
}
"""Of triples without an alias."""
LINUX = {
    "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64-static",)),
    "armv7hf": ("arm-linux-gnueabihf-gcc", ("qemu-arm-static",)),
    "riscv64gc": ("riscv64-linux-gnu-gcc", ("qemu-riscv64-static",)),
    "riscv64gcv": ("riscv64-linux-gnu-gcc", ("qemu-riscv64-static", "-cpu", "rv64,v=true,vlen=128")),
}
WASM = ("wasm32", "wasm32-simd128")


def run(code: ObjectCode, inputs: Sequence[np.ndarray], folder: Path) -> list[np.ndarray]:
    """The results of a program on the machine it was compiled for."""
    if code.target.name in WASM:
        return _run_wasm(code, inputs, folder)
    return run_all({"program": (code, inputs)}, code.target.name, folder)["program"]


def run_all(
    programs: dict[str, tuple[ObjectCode, Sequence[np.ndarray]]], target: str, folder: Path
) -> dict[str, list[np.ndarray]]:
    """The results of programs, by their symbols, on the Linux machine that all were compiled for."""
    compiler, runner = (LINUX | CROSS)[target]
    for tool in (compiler, runner[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on the PATH")
    return c_driver.run_all(folder, programs, [compiler], runner)


def _run_wasm(code: ObjectCode, inputs: Sequence[np.ndarray], folder: Path) -> list[np.ndarray]:
    wasmtime = pytest.importorskip("wasmtime")
    if shutil.which("wasm-ld") is None:
        pytest.skip("wasm-ld is not on the PATH")
    (folder / "program.o").write_bytes(code.image)
    exports = [f"--export={name}" for name in ("program_run_frame", "__heap_base")]
    command = ["wasm-ld", "--no-entry", *exports, "program.o", "-o", "program.wasm"]
    subprocess.run(command, check=True, cwd=folder)
    store = wasmtime.Store()
    module = wasmtime.Module.from_file(store.engine, str(folder / "program.wasm"))
    assert not module.imports
    exports = wasmtime.Instance(store, module, []).exports(store)
    memory = exports["memory"]
    top = exports["__heap_base"].value(store)

    def place(data: bytes, size: int | None = None) -> int:
        nonlocal top
        at = -(-top // 64) * 64
        top = at + max(len(data), size or 0, 1)
        missing = top - memory.data_len(store)
        if missing > 0:
            memory.grow(store, -(-missing // 65536))
        if data:
            memory.write(store, data, at)
        return at

    interface = code.interface
    arguments = [place(np.ascontiguousarray(a).tobytes()) for a in inputs]
    alias = {a.result: a.parameter for a in interface.aliases}
    results = [
        arguments[alias[k]] if k in alias else place(b"", spec.bytes)
        for k, spec in enumerate(interface.results)
    ]
    fields = {
        "version": abi.FRAME_VERSION,
        "arguments": place(np.array(arguments, np.uint32).tobytes()),
        "results": place(np.array(results, np.uint32).tobytes()),
        "workspace": place(b"", interface.workspace_bytes),
    }
    frame = bytearray(abi.FRAME.size_on(4))
    for name, value in fields.items():
        at = abi.FRAME.offset(name, 4)
        frame[at : at + 4] = value.to_bytes(4, "little")
    assert exports["program_run_frame"](store, place(bytes(frame))) == 0
    found = []
    for at, spec in zip(results, interface.results, strict=True):
        data = bytes(memory.read(store, at, at + spec.bytes))
        array = np.frombuffer(data, spec.shape.dtype.numpy, spec.shape.size)
        found.append(array.reshape(spec.shape.dims))
    return found
