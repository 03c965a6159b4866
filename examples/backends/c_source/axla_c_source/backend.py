"""The backend `c-source`: what it takes and refuses, how C is built, and how a run calls it."""

from __future__ import annotations

import ctypes as c
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from axla import CompileError, InvalidArgument, Module, UnsupportedError
from axla.backends import Backend, Capabilities, Client, CompileOptions, Executable, effects
from axla.backends.kit import HostExecutable, Packed, decode, encode, program_of
from axla.core import dtypes
from axla.program.interface import Interface
from axla.target.machine import ALIGNMENT, aligned

from .program import source_of
from .writer import TYPES

FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-w")
COMPILER_SECONDS = 600
"""How long the compiler may take for a program."""
REFUSED = {
    "participants": "a program runs on one device",
    "complex": "it has no complex numbers", "custom-call": "C sources have no table of functions",
    "fft": "it has no complex numbers", "scatter": "it has no kernel for it",
    "select-and-scatter": "its pass ends in a scatter", "sort": "it has no kernel for it",
    "topk": "its pass ends in a sort",
    **{effect: "steps of a program are calls of kernels only" for effect in effects()},
    **{d.name: "C99 has no such type" for d in dtypes.ALL if d.name not in TYPES},
}  # fmt: skip


class CSource(Backend):
    """Compiles modules with the compiler that CC names, `cc` where it is not set."""

    name = "c-source"
    about = "an example: C99, built with the system's compiler"
    capabilities = Capabilities(1, REFUSED)

    def compile(self, client: Client, module: Module, options: CompileOptions) -> Executable:
        program, constants = program_of(module, options)
        source, workspace_bytes = source_of(program)
        face = replace(program.interface, workspace_bytes=workspace_bytes)
        return CExecutable(source, face, constants, client=client, module=module, options=options)

    def load(self, client: Client, payload: bytes, options: CompileOptions) -> Executable:
        """The payload has the source, which is built again: it runs on any machine with a compiler."""
        try:
            packed = decode(payload)
            (source,) = (image.decode() for image in packed.images)
        except ValueError as error:
            raise InvalidArgument(f"load: these are no programs as c-source writes them ({error})") from error
        return CExecutable(source, packed.interface, packed.constants, client=client, options=options)


class CExecutable(HostExecutable):
    """A program in C. Every run has a workspace of its own."""

    stages = ("hlo", "optimized", "c")

    def __init__(self, source: str, face: Interface, constants: bytes, **more: Any) -> None:
        super().__init__(face, **more)
        self.source = source
        self.constants = np.frombuffer(constants + b"\0", np.uint8)
        self._library = built(source)

    def _enter(self, arguments: list[np.ndarray], results: list[np.ndarray], stop: c.c_int32) -> None:
        workspace = np.empty(self.interface.workspace_bytes + ALIGNMENT, np.uint8)
        places = c.c_void_p(self.constants.ctypes.data), c.c_void_p(aligned(workspace.ctypes.data))
        self._library.run(addresses(arguments), addresses(results), *places, c.byref(stop))

    def _text(self, stage: str) -> str:
        return self.source if stage == "c" else super()._text(stage)

    def _code_bytes(self) -> int:
        return len(self.source)

    def _payload(self) -> bytes:
        return encode(Packed((self.source.encode(),), self.interface, self.constants.tobytes()[:-1]))


def addresses(arrays: list[np.ndarray]) -> c.Array:
    return (c.c_void_p * max(len(arrays), 1))(*[array.ctypes.data for array in arrays])


def compiler() -> list[str]:
    """The command of the C compiler; UnsupportedError where there is none."""
    command = os.environ.get("CC", "").split() or ["cc"]
    if shutil.which(command[0]) is None:
        raise UnsupportedError(f"c-source: there is no C compiler {command[0]!r}; the variable CC names one")
    return command


@lru_cache(maxsize=256)
def built(source: str) -> c.CDLL:
    """The library of a C source, built in a folder that only this user can enter, and which is removed."""
    with tempfile.TemporaryDirectory(prefix="axla-c-source-") as folder:
        file, library, errors = (Path(folder, name) for name in ("program.c", "program.so", "errors.txt"))
        file.write_text(source)
        command = [*compiler(), *FLAGS, "-o", str(library), str(file), "-lm"]
        status = run(command, folder, errors)
        said = errors.read_text(errors="replace").splitlines()
        if status or not library.exists():
            first = next((line for line in said if "error" in line), *said[:1] or ["it says nothing"])
            raise CompileError(f"c-source: {command[0]} failed with status {status}: {first}")
        try:
            return c.CDLL(str(library))
        except OSError as error:
            raise CompileError(f"c-source: what {command[0]} built cannot be loaded: {error}") from error


def run(command: list[str], folder: str, errors: Path) -> int:
    """The exit status of a command whose temporary files lie in `folder`. Nothing of it is left running."""
    with errors.open("w") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            env={**os.environ, "TMPDIR": folder},
        )  # fmt: skip
    try:
        return process.wait(COMPILER_SECONDS)
    except subprocess.TimeoutExpired:
        raise CompileError(f"c-source: {command[0]} took longer than {COMPILER_SECONDS} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
