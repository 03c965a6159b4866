"""Objects stand alone where the JIT calls LAPACK, on this machine and for others."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from axla.aot.objects import compile_object
from axla.codegen.object_files import symbols
from axla.core.errors import UnsupportedError
from axla.target.names import target
from axla.text.parser import parse_hlo
from lapack_calls import attributes, h, random

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from conformance_lib.corpora import corpus  # noqa: E402

MODELS = corpus("models-open")
CALL = """
  {name} = {result} custom-call(a), custom_call_target="lapack_{routine}_ffi", backend_config={{{config}}},
    operand_layout_constraints={{{layouts}}}, api_version=API_VERSION_TYPED_FFI"""
MATRIX = "f32[2,5,5]{1,2,0}"


def decompositions():
    """The text of a program with a routine of each kind, for matrices of five rows."""
    calls = [
        ("evd", "ssyevd", f"({MATRIX}, f32[2,5], s32[2])", attributes(mode="V", uplo="L")),
        ("svd", "sgesdd", f"({MATRIX}, f32[2,5], {MATRIX}, {MATRIX}, s32[2])", attributes(mode="A")),
        ("lu", "sgetrf", f"({MATRIX}, s32[2,5], s32[2])", ""),
        ("qr", "sgeqrf", f"({MATRIX}, f32[2,5])", ""),
        ("schur", "sgees", f"({MATRIX}, {MATRIX}, f32[2,5], f32[2,5], s32[2], s32[2])",
         attributes(mode="V", sort="N")),
        ("cholesky", "spotrf", f"({MATRIX}, s32[2])", attributes(uplo="L")),
    ]  # fmt: skip
    lines = [
        CALL.format(name=name, result=result, routine=routine, layouts=MATRIX, config=config)
        for name, routine, result, config in calls
    ]
    wanted = {"v": ("evd", 0), "w": ("evd", 1), "s": ("svd", 1), "u": ("svd", 2), "vh": ("svd", 3),
              "lu1": ("lu", 0), "pivots": ("lu", 1), "r": ("qr", 0), "t": ("schur", 0), "z": ("schur", 1),
              "l": ("cholesky", 0)}  # fmt: skip
    shapes = {"w": "f32[2,5]", "s": "f32[2,5]", "pivots": "s32[2,5]"}
    parts = [
        f"  {name} = {shapes.get(name, 'f32[2,5,5]')} get-tuple-element({call}), index={index}"
        for name, (call, index) in wanted.items()
    ]
    result = ", ".join(shapes.get(name, "f32[2,5,5]") for name in wanted)
    return "\n".join(
        ["HloModule m", "ENTRY e {", "  a = f32[2,5,5] parameter(0)", *lines, *parts,
         f"  ROOT all = ({result}) tuple({', '.join(wanted)})", "}"]
    )  # fmt: skip


def aligned(size: int) -> np.ndarray:
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


def run_here(code, inputs, folder) -> list[np.ndarray]:
    """The results of an object for this machine, linked by the C compiler, called as C would."""
    (folder / "program.o").write_bytes(code.image)
    command = ["cc", "-shared", "-nostdlib", "-o", "program.so", "program.o"]
    subprocess.run(command, check=True, cwd=folder)
    arguments = [aligned(spec.bytes) for spec in code.interface.parameters]
    for memory, array in zip(arguments, inputs, strict=True):
        memory[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    results = [aligned(spec.bytes) for spec in code.interface.results]
    tables = [(ctypes.c_void_p * len(x))(*[a.ctypes.data for a in x]) for x in (arguments, results)]
    workspace = aligned(code.interface.workspace_bytes)
    run = ctypes.CDLL(str(folder / "program.so")).program_run
    assert run(*tables, ctypes.c_void_p(workspace.ctypes.data)) == 0
    specs = code.interface.results
    return [
        memory.view(spec.shape.dtype.numpy).reshape(spec.shape.dims)
        for memory, spec in zip(results, specs, strict=True)
    ]


@pytest.mark.cc
def test_decompositions_without_the_library(tmp_path):
    x = random("s", 2, 5, 5)
    a = x @ h(x) + np.eye(5, dtype=np.float32)
    code = compile_object(parse_hlo(decompositions()), target("x86-64"))
    v, w, s, u, vh, lu, pivots, r, t, z, lower = run_here(code, [a], tmp_path)

    def near(found, wanted):
        np.testing.assert_allclose(
            found, wanted, rtol=0, atol=50 * np.finfo(np.float32).eps * np.abs(a).max()
        )

    near(v * w[:, None] @ h(v), a)
    near(u * s[:, None] @ vh, a)
    near(h(np.triu(r)) @ np.triu(r) / np.abs(a).max(), h(a) @ a / np.abs(a).max())
    near(z @ t @ h(z), a)
    near(np.tril(lower) @ h(np.tril(lower)), a)
    for matrix, factors, order in zip(a, lu, pivots - 1, strict=True):
        rows = np.arange(5)
        for k, other in enumerate(order):
            rows[[k, other]] = rows[[other, k]]
        near((np.tril(factors, -1) + np.eye(5)) @ np.triu(factors), matrix[rows])


@pytest.mark.cc
@pytest.mark.corpus
def test_a_model_of_jax(tmp_path):
    if MODELS is None:
        pytest.skip("the corpus models-open is not at hand")
    folder = MODELS / "gp_regression_lapack"
    data = np.load(folder / "data.npz")
    code = compile_object(parse_hlo((folder / "module.hlo.txt").read_text()), target("x86-64"))
    inputs = [data[f"in{k}"] for k in range(len(code.interface.parameters))]
    for k, found in enumerate(run_here(code, inputs, tmp_path)):
        np.testing.assert_allclose(found, data[f"out{k}"], rtol=1e-3, atol=1e-3)  # what its meta.json says


@pytest.mark.parametrize("machine", ["armv7hf", "riscv64gc", "wasm32", "cortex-m4f"])
def test_objects_for_other_machines_need_nothing(machine):
    code = compile_object(parse_hlo(decompositions()), target(machine))
    assert not symbols(code.image).needed


def test_numbers_that_the_machine_lacks_are_refused():
    text = decompositions().replace("f32", "f64").replace("lapack_s", "lapack_d")
    with pytest.raises(UnsupportedError, match="cortex-m4f has no f64 arithmetic"):
        compile_object(parse_hlo(text), target("cortex-m4f"))
