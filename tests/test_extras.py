"""If a package of an extra is missing, every message says what needs it and how to install it."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

CASES = {
    "jax": (
        "import axla.jax",
        'ImportError axla.jax needs JAX, which is not installed: pip install "axla[jax]"',
    ),
    "scipy": (
        "from axla.custom.lapack import routine_address; routine_address('spotrf')",
        "UnsupportedError the LAPACK routine spotrf needs SciPy, which is not installed: "
        'pip install "axla[linalg]"',
    ),
    "mpi4py": (
        "import axla.distributed; axla.distributed.initialize()",
        'UnsupportedError axla.distributed needs MPI, which is not installed: pip install "axla[mpi]"',
    ),
    "flatbuffers": (
        "import axla.jax; axla.jax.to_module(b'bytes of an export')",
        "UnsupportedError to_module: a serialized export needs flatbuffers, which is not installed: "
        'pip install "axla[jax]"; exported.mlir_module_serialized is bytecode, which axla.parse takes '
        "without it",
    ),
}


@pytest.mark.parametrize("package", CASES)
def test_a_missing_package(package):
    statement, message = CASES[package]
    if package == "flatbuffers":
        pytest.importorskip("jax")
    text = f"""
        import sys
        sys.modules[{package!r}] = None
        if {package!r} == "scipy":
            sys.modules["scipy.linalg"] = None
        try:
            {statement}
        except Exception as error:
            print(type(error).__name__, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=100
    )
    assert done.stdout.strip() == message, done.stdout + done.stderr
