"""The library of handlers for XLA's FFI (custom/handlers.cc), compiled once for all tests and processes."""

from __future__ import annotations

import ctypes as c
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "custom" / "handlers.cc"


@cache
def handlers_library() -> c.CDLL:
    """Compiles the library, if necessary, and loads it. Skips the test if there is no compiler."""
    jax = pytest.importorskip("jax")
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on the PATH")
    options = ["-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-pthread"]
    command = [compiler, *options, f"-I{jax.ffi.include_dir()}"]
    said = f"{command} {jax.__version__} {SOURCE.read_text()}"
    folder = Path(tempfile.gettempdir()) / f"axla-tests-{os.getuid()}"
    path = folder / f"handlers-{hashlib.blake2b(said.encode(), digest_size=12).hexdigest()}.so"
    if not path.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", made, SOURCE], check=True)
        made.rename(path)
    return c.CDLL(str(path))
