"""Compiles the kernels of whole corpora for NVIDIA GPUs, and assembles their PTX with ptxas."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from axla.backends.executable import Executable
from axla.backends.interface import Backend, Client
from axla.backends.options import CompileOptions
from axla.codegen.child import CHILD
from axla.codegen.kernel import device_module, emit_kernel
from axla.core.dtypes import ALL
from axla.core.errors import AxlaError, UnsupportedError
from axla.ir.clone import clone_module
from axla.ir.graph import Module
from axla.lowering.donation import row_major_boundary
from axla.lowering.pipeline import compile_program
from axla.program.kernels import Kernel
from axla.target.nvptx import nvptx_target
from axla.tools.samples import modules_of, sample_target
from conformance_lib.section import Section

_USED = re.compile(
    r"Compiling entry function '(\w+)' for '\w+'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?",
    re.S,
)


@dataclass(frozen=True)
class Used:
    """The resources of a kernel that ptxas reports: registers per thread, bytes of shared memory per block,
    bytes of spilled registers.
    """

    registers: int
    shared: int
    spilled: int


def ptxas() -> str | None:
    """The path of the assembler, in the package nvidia-cuda-nvcc or on the PATH; None if there is none."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [str(path) for folder in folders for path in sorted(Path(folder).glob("*/bin/ptxas"))]
    return found[0] if found else shutil.which("ptxas")


class _Kernels(Backend):
    """A backend that collects the kernels of the modules to compile, and raises UnsupportedError instead of
    returning a program.
    """

    name = "ptx-kernels"

    def __init__(self) -> None:
        self.found: dict[str, Kernel] = {}

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        work = clone_module(module)
        row_major_boundary(work)
        for kernel in compile_program(work, nvptx_target(), {}).kernels:
            self.found.setdefault(kernel.plan.phases[0].symbol, kernel)
        raise UnsupportedError("its kernels are all that is wanted")


def modules(section: Section, cases: Iterable[str]) -> Iterator[tuple[str, Module]]:
    """Yields (case, module) for the modules of these cases."""
    with sample_target():
        for case in cases:
            if section.name == "samples":
                op, kind = case.split()
                for module, _ in modules_of(op, next(dtype for dtype in ALL if dtype.name == kind)):
                    yield case, module
                continue
            try:
                yield case, section.module(case)  # type: ignore[attr-defined]
            except AxlaError:
                continue  # scripts/conformance counts these errors


def kernels_of(pairs: Iterable[tuple[str, Module]]) -> tuple[dict[str, Kernel], list[str]]:
    """Returns all different kernels, by name, and a line for each module that could not be compiled."""
    backend, refused = _Kernels(), []
    client = Client(backend)
    for case, module in pairs:
        try:
            client.compile(module, replicas="first")
        except UnsupportedError as error:
            if "all that is wanted" not in str(error):
                refused.append(f"{case}: {error.message}")
        except AxlaError as error:
            refused.append(f"{case}: {type(error).__name__}: {error}")
    return backend.found, refused


def text_of(kernels: Sequence[Kernel], cpu: str) -> str:
    """The PTX of kernels for an architecture, such as sm_80."""
    target = nvptx_target(cpu)
    module = device_module(target)
    for kernel in kernels:
        emit_kernel(module, kernel, target)
    return CHILD.emit_object(module.text(), target).decode()


def assemble(text: str, cpu: str, level: int = 3) -> tuple[dict[str, Used], str]:
    """Assembles a PTX text. Returns the resources of every kernel, and the message of ptxas if it rejects the
    text.
    """
    command = ptxas()
    assert command is not None, "no ptxas (package nvidia-cuda-nvcc)"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.ptx"
        file.write_text(text)
        done = subprocess.run(
            [command, "-v", f"-arch={cpu}", f"-O{level}", str(file), "-o", str(file.with_suffix(".cubin"))],
            capture_output=True, text=True, timeout=900,
        )  # fmt: skip
    said = done.stdout + done.stderr
    if done.returncode:
        return {}, said.strip() or f"exit status {done.returncode}"
    return {m[1]: Used(int(m[4]), int(m[5] or 0), int(m[2]) + int(m[3])) for m in _USED.finditer(said)}, ""


def assembled(
    kernels: Mapping[str, Kernel], cpu: str, level: int = 3, batch: int = 40
) -> tuple[dict[str, Used], dict[str, str]]:
    """Assembles kernels in batches. Returns the resources by name, and the messages for rejected kernels; the
    kernels of a batch that is rejected are tried one by one.
    """
    used: dict[str, Used] = {}
    refused: dict[str, str] = {}
    names = list(kernels)
    pending = [names[n : n + batch] for n in range(0, len(names), batch)]
    while pending:
        some = pending.pop(0)
        try:
            found, why = assemble(text_of([kernels[name] for name in some], cpu), cpu, level)
        except AxlaError as error:
            found, why = {}, str(error)
        used |= found
        if why and len(some) > 1:
            pending[:0] = [[name] for name in some]
        elif why:
            refused[some[0]] = f"{kernels[some[0]].kind}: {why}"
    return used, refused
