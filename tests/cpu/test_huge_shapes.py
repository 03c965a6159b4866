"""Arrays far larger than any memory: the work of the compiler depends on the program, not on its sizes."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np
import pytest

import axla
from axla.codegen.emit import pack
from axla.codegen.host import host_target
from axla.core.errors import OutOfMemory
from axla.cpu.compiler import llvm_modules
from axla.kernels.dot import piece_count
from axla.lowering.pipeline import optimize, program_of
from axla.passes.expand import fourier, triangular

N = 3_000_000_000
STEPS = 3_000_000  # lines of Python: twice what the largest of these programs takes

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
GE = "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=GE }\n"
CALLED = ADD + GE

PROGRAMS = {
    "dot wide": "p = f32[3,2] parameter(0)\n q = f32[2,#] parameter(1)\n"
    "ROOT r = f32[3,#] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot tall": "p = c64[#,2] parameter(0)\n q = c64[2,3] parameter(1)\n"
    "ROOT r = c64[#,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot deep": "p = s8[3,#] parameter(0)\n q = s8[#,3] parameter(1)\n"
    "ROOT r = s32[3,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "dot batch": "p = f32[#,3,4] parameter(0)\n q = f32[#,4,5] parameter(1)\n"
    "ROOT r = f32[#,3,5] dot(p, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
    "rhs_contracting_dims={1}",
    "ragged-dot": "p = f32[9,8] parameter(0)\n q = f32[#,8,6] parameter(1)\n g = s32[#] parameter(2)\n"
    "ROOT r = f32[9,6] ragged-dot(p, q, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "lhs_ragged_dims={0}, rhs_group_dims={0}",
    "convolution": "p = f32[1,#,3] parameter(0)\n k = f32[5,3,4] parameter(1)\n"
    "ROOT r = f32[1,#,4] convolution(p, k), window={size=5 pad=2_2}, dim_labels=b0f_0io->b0f",
    "convolution taps": "p = f32[1,#,3] parameter(0)\n k = f32[#,3,4] parameter(1)\n"
    "ROOT r = f32[1,1,4] convolution(p, k), window={size=#}, dim_labels=b0f_0io->b0f",
    "convolution groups": "p = f32[1,9,#] parameter(0)\n k = f32[3,1,#] parameter(1)\n"
    "ROOT r = f32[1,7,#] convolution(p, k), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=#",
    "reduce": "p = f32[3,#] parameter(0)\n z = f32[] constant(0)\n"
    "ROOT r = f32[3] reduce(p, z), dimensions={1}, to_apply=add",
    "reduce-window": "p = f32[#] parameter(0)\n z = f32[] constant(0)\n"
    "ROOT r = f32[8999999996] reduce-window(p, z), window={size=3 lhs_dilate=3}, to_apply=add",
    "cumulative sum": "p = f32[#] parameter(0)\n z = f32[] constant(0)\n"
    "ROOT r = f32[#] reduce-window(p, z), window={size=# pad=2999999999_0}, to_apply=add",
    "select-and-scatter": "p = f32[#] parameter(0)\n s = f32[1500000000] parameter(1)\n"
    "z = f32[] constant(0)\n"
    "ROOT r = f32[#] select-and-scatter(p, s, z), window={size=2 stride=2}, select=ge, scatter=add",
    "sort": "p = f32[#,7] parameter(0)\n ROOT r = f32[#,7] sort(p), dimensions={0}, to_apply=ge",
    "topk": "p = f32[#] parameter(0)\n"
    "ROOT r = (f32[1000000000], s32[1000000000]) topk(p), k=1000000000, largest=true",
    "folding": "i = s64[#] iota(), iota_dimension=0\n c = s64[] constant(3)\n"
    "b = s64[#] broadcast(c), dimensions={}\n m = s64[#] multiply(i, b)\n"
    "ROOT s = s64[1] slice(m), slice={[2999999999:3000000000]}",
    "gather": "p = f32[#,3] parameter(0)\n i = s32[#,1] iota(), iota_dimension=0\n"
    "ROOT r = f32[#,3] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,3}",
    "scatter": "p = f32[#,3] parameter(0)\n i = s32[#,1] parameter(1)\n u = f32[#,3] parameter(2)\n"
    "ROOT r = f32[#,3] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "fft": "p = c64[1073741824] parameter(0)\n"
    "ROOT r = c64[1073741824] fft(p), fft_type=FFT, fft_length={1073741824}",
    "fft of a prime": "p = c64[2999999929] parameter(0)\n"
    "ROOT r = c64[2999999929] fft(p), fft_type=FFT, fft_length={2999999929}",
    "rng": "s = u64[2] parameter(0)\nROOT r = (u64[2], u8[#]) rng-bit-generator(s), algorithm=rng_three_fry",
    "layout": "p = f32[#,3]{0,1} parameter(0)\n ROOT r = f32[#,3]{1,0} copy(p)",
    "sizes": "p = f32[#] parameter(0)\n n = s32[] parameter(1)\n"
    "d = f32[<=#] set-dimension-size(p, n), dimensions={0}\n ROOT r = f32[<=#] add(d, d)",
}


@contextmanager
def bounded(steps: int):
    """At most so many lines of Python, and 2 GiB more of address space."""
    left = steps

    def line(frame, event: str, argument: object) -> Callable:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise AssertionError(f"more than {steps} steps, the last in {frame.f_code.co_name}")
        return line

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), limits[1]))
    before = sys.gettrace()
    sys.settrace(line)
    try:
        yield
    finally:
        sys.settrace(before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def code(text: str) -> list[str]:
    """LLVM text of a program."""
    module = axla.parse(text)
    target = host_target()
    optimize(module, target)
    return llvm_modules(program_of(module, target), target)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_step_walks_elements(name):
    text = f"HloModule m\n{CALLED}\nENTRY e {{\n{PROGRAMS[name]}\n}}".replace("#", str(N))
    with bounded(STEPS):
        assert code(text)


@pytest.mark.parametrize(
    "op", ["cholesky(p), lower=true", "triangular-solve(p, p), left_side=true, lower=true"]
)
def test_matrices_are_cut_into_few_blocks(op, monkeypatch):
    monkeypatch.setattr(triangular, "MOST", 2)
    text = f"HloModule m\nENTRY e {{ p = f32[#,#] parameter(0)\n ROOT r = f32[#,#] {op} }}"
    with bounded(STEPS):
        assert code(text.replace("#", "100000"))


def test_what_cannot_be_addressed_is_refused():
    text = "HloModule m\nENTRY e { p = f32[#,#] parameter(0)\n ROOT r = f32[#,#] add(p, p) }"
    with pytest.raises(OutOfMemory, match="m, p: .*more than can be addressed"):
        axla.compile(axla.parse(text.replace("#", str(N))))


@pytest.mark.parametrize("lanes", [1, 4, 16])
def test_pieces_are_counted_without_listing_them(lanes):
    for count in range(70):
        assert piece_count(count, lanes) == len(pack.pieces(count, lanes))


@pytest.mark.parametrize("size", [200, 300])
def test_factors_by_larger_blocks_are_the_same(size, monkeypatch):
    monkeypatch.setattr(triangular, "MOST", 2)
    half = np.random.default_rng(1).standard_normal((size, size))
    matrix = half @ half.T + size * np.eye(size)
    text = f"HloModule m\nENTRY e {{ p = f64[{size},{size}] parameter(0)\n" + (
        f"c = f64[{size},{size}] cholesky(p), lower=true\n"
        f"ROOT r = f64[{size},{size}] triangular-solve(c, p), left_side=true, lower=true, "
        "unit_diagonal=false, transpose_a=NO_TRANSPOSE }"
    )
    factor = np.linalg.cholesky(matrix)
    np.testing.assert_allclose(np.asarray(axla.compile(axla.parse(text))(matrix)), factor.T, atol=1e-10)


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
@pytest.mark.parametrize("dtype, within", [("c64", 1e-6), ("c128", 1e-14)])
def test_long_lines_compute_their_factors(kind, dtype, within, monkeypatch):
    monkeypatch.setattr(fourier, "MOST_CONSTANT", 0)
    n = 1009
    text = f"HloModule m\nENTRY e {{ p = {dtype}[2,{n}] parameter(0)\n" + (
        f"ROOT r = {dtype}[2,{n}] fft(p), fft_type={kind}, fft_length={{{n}}} }}"
    )
    generator = np.random.default_rng(2)
    x = generator.standard_normal((2, n)) + 1j * generator.standard_normal((2, n))
    x = x.astype({"c64": np.complex64, "c128": np.complex128}[dtype])
    want = (np.fft.fft if kind == "FFT" else np.fft.ifft)(x.astype(np.complex128))
    found = np.asarray(axla.compile(axla.parse(text))(x))
    assert np.abs(found - want).max() < within * np.abs(want).max()
