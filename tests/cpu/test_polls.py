"""Long kernels look whether the run is cancelled: counted, never timed."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest

import axla
from axla.codegen import llvm
from axla.codegen.host import host_target
from axla.codegen.kernel import emit_kernel
from axla.codegen.native.image import Image
from axla.core.errors import DeadlineExceeded
from axla.cpu.compiler import checked_text, compile_module, llvm_module
from axla.cpu.entry import ENTRY, emit_entry
from axla.lowering.pipeline import optimize, program_of
from axla.program import abi

PARALLEL_FOR = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64)
KERNEL = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_int64, c.c_int64)
LOOK = 1 << 32  # the upper half of a run's flags: a signal waits

COMPUTATION = "c {{ a = f32[] parameter(0)  b = f32[] parameter(1)  {}  ROOT r = {} }}\n"
LESS = COMPUTATION.format("", "pred[] compare(a, b), direction=LT")
NO_KEY = COMPUTATION.format(
    "d = pred[] compare(a, b), direction=LT  e = pred[] compare(a, b), direction=NE", "pred[] and(d, e)"
)
SORT = "ENTRY e {{ x = f32[{0}] parameter(0)  ROOT s = f32[{0}] sort(x), dimensions={{{1}}}, to_apply=c }}"
TEXTS = {
    "digits": LESS + SORT.format("600000", 0),
    "digits of columns": LESS + SORT.format("400000,1,2", 0),
    "merging": NO_KEY + SORT.format("300000", 0),
    "fft": "ENTRY e { x = c64[2097152] parameter(0)\n"
    "  ROOT r = c64[2097152] fft(x), fft_type=FFT, fft_length={2097152} }",
    "scatter": COMPUTATION.format("", "f32[] add(a, b)")
    + """ENTRY e { x = f32[1000] parameter(0)  i = s32[700000,1] parameter(1)  u = f32[700000] parameter(2)
  ROOT r = f32[1000] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c }""",
    "reduction in order": COMPUTATION.format("", "f32[] divide(b, a)")
    + """ENTRY e { x = f32[1000000] parameter(0)  z = f32[] constant(1)
  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=c }""",
    "dot": """ENTRY e { x = f32[300,4096] parameter(0)  y = f32[4096,300] parameter(1)
  ROOT r = f32[300,300] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""",
}  # fmt: skip


def arguments(text: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = []
    for parameter in axla.parse(text).entry.parameters:
        x = rng.standard_normal(parameter.shape.dims, np.float32)
        integer = parameter.shape.dtype.is_integer
        arrays.append((x * 300 % 1000).astype(np.int32) if integer else x.astype(parameter.shape.dtype.numpy))
    return arrays


def in_process(text: str):
    compiled = compile_module(axla.parse(text))
    return Image([("code", image) for image in compiled.images], [ENTRY]), ENTRY, compiled.interface


def ahead(text: str):
    """The same as code for C has it: it knows the cancel flag alone."""
    module, target = axla.parse(text), host_target()
    optimize(module, target)
    program = program_of(module)
    code = llvm_module(target)
    emit_entry(code, program, target, "ahead_entry")
    for kernel in program.kernels:
        emit_kernel(code, kernel, target)
    image = llvm.emit_object(checked_text(code, target), target)
    return Image([("code", image)], ["ahead_entry"]), "ahead_entry", program.interface


def run(loaded, inputs: list[np.ndarray], flags: int, most: int = 0) -> tuple[int, int, np.ndarray]:
    """(code, polls, the first result) of a run whose poll number `most` stops it."""
    library, name, interface = loaded
    polls = 0

    def parallel_for(frame, kernel, args, count, grain):
        nonlocal polls
        if count == 0:
            polls += 1
            return abi.INTERRUPTED if polls == most else 0
        codes = (KERNEL(kernel)(frame, args, k, min(k + grain, count)) for k in range(0, count, grain))
        return next(filter(None, codes), 0)

    shape = interface.results[0].shape
    result = np.empty(shape.dims, shape.dtype.numpy)
    workspace = np.empty(interface.workspace_bytes + 64, np.uint8)
    callback, flag = PARALLEL_FOR(parallel_for), c.c_int64(flags)
    frame = abi.FRAME.ctypes()(
        version=abi.FRAME_VERSION,
        arguments=c.addressof(given := (c.c_void_p * len(inputs))(*(x.ctypes.data for x in inputs))),
        results=c.addressof(taken := (c.c_void_p * 1)(result.ctypes.data)),
        workspace=workspace.ctypes.data + -workspace.ctypes.data % 64,
        parallel_for=c.cast(callback, c.c_void_p).value,
        cancel=c.addressof(flag),
    )
    code = c.CFUNCTYPE(c.c_int32, c.c_void_p)(library.addresses[name])(c.addressof(frame))
    assert given and taken
    return code, polls, result


@pytest.mark.parametrize("name", TEXTS)
def test_long_kernels_poll(name):
    loaded, inputs = in_process(TEXTS[name]), arguments(TEXTS[name])
    code, polls, plain = run(loaded, inputs, 0)
    assert (code, polls) == (0, 0)
    code, polls, found = run(loaded, inputs, LOOK)
    assert code == 0 and polls >= 8 and np.array_equal(found, plain, equal_nan=True)
    if "sort" in TEXTS[name]:
        assert np.array_equal(plain, np.sort(inputs[0], axis=0))
    for most in (1, polls // 2, polls):
        assert run(loaded, inputs, LOOK, most)[:2] == (abi.INTERRUPTED, most)


@pytest.mark.parametrize("name", TEXTS)
def test_long_kernels_ahead_of_time_see_the_cancel_flag(name):
    loaded, inputs = ahead(TEXTS[name]), arguments(TEXTS[name])
    code, polls, found = run(loaded, inputs, LOOK)  # not theirs: the flag is the lower half
    assert (code, polls) == (0, 0)
    assert np.array_equal(found, run(in_process(TEXTS[name]), inputs, 0)[2], equal_nan=True)
    assert run(loaded, inputs, abi.DEADLINE)[:2] == (abi.DEADLINE, 0)


def test_small_kernels_do_not_poll():
    text = LESS + SORT.format("100000", 0)
    assert run(in_process(text), arguments(text), LOOK)[:2] == (0, 0)
    assert run(ahead(text), arguments(text), abi.CANCELLED)[:2] == (0, 0)


def test_a_kernel_that_computes_more_than_it_moves_is_stopped():
    """The factors of each element are computed, not read from memory."""
    text = """mul { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] multiply(x, y) }
    of { a = f32[] parameter(0)  one = f32[] constant(1)
      u = f32[2,9223372036854775807] broadcast(a), dimensions={}
      ROOT r = f32[] reduce(u, one), dimensions={0,1}, to_apply=mul }
    ENTRY e { p = f32[100] parameter(0)  ROOT r = f32[100] map(p), dimensions={0}, to_apply=of }"""
    with pytest.raises(DeadlineExceeded):
        axla.compile(axla.parse(text)).execute([np.ones(100, np.float32)], deadline=0.1)
