"""Tensor cores on the PTX machine: mma.sync, ldmatrix and cp.async, by the fragments of the manual."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ptx.memory import Memory
from ptx.test_ptx_machine import kernel, launch
from ptx.text import PtxError


@pytest.fixture(scope="module")
def memory():
    return Memory(1 << 20, 1 << 20)


def words(array):
    return np.ascontiguousarray(array).view(np.uint32)


def halves(a, b):
    """Two neighbours as a word."""
    return words(np.stack([a, b]).view(np.uint16))[0]


def lanes():
    return [(lane // 4, lane % 4) for lane in range(32)]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_m16n8k16(memory, name):
    """Fragments as tables of the manual, element by element."""
    dtype = np.dtype(np.float16 if name == "f16" else ml_dtypes.bfloat16)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, shape).astype(dtype) for shape in ((2, 16, 16), (2, 16, 8)))
    c = rng.normal(size=(2, 16, 8)).astype(np.float32)
    given = np.zeros((2, 32, 10), np.uint32)
    for warp in range(2):
        for lane, (g, t) in enumerate(lanes()):
            x, y = a[warp], b[warp]
            given[warp, lane, :4] = [
                halves(x[row, column], x[row, column + 1])
                for column in (2 * t, 2 * t + 8) for row in (g, g + 8)
            ]  # fmt: skip
            given[warp, lane, 4:6] = [halves(y[k, g], y[k + 1, g]) for k in (2 * t, 2 * t + 8)]
            given[warp, lane, 6:] = words(c[warp, [g, g, g + 8, g + 8], [2 * t, 2 * t + 1] * 2])
    loads = "\n".join(f"  ld.global.b32 %r{n + 2}, [%rd12+{4 * n}];" for n in range(10))
    stores = "\n".join(f"  st.global.b32 [%rd12+{4 * n}], %r{20 + n};" for n in range(4))
    body = f"""  mul.wide.u32 %rd11, %r1, 40;
  add.s64 %rd12, %rd1, %rd11;
{loads}
  mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32 {{%r20, %r21, %r22, %r23}}, {{%r2, %r3, %r4, %r5}},
    {{%r6, %r7}}, {{%r8, %r9, %r10, %r11}};
{stores}"""
    (found,) = launch(memory, kernel(body), [given], threads=64)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    for warp in range(2):
        for lane, (g, t) in enumerate(lanes()):
            got = found[warp, lane, :4].view(np.float32)
            np.testing.assert_array_equal(
                got, wanted[warp, [g, g, g + 8, g + 8], [2 * t, 2 * t + 1] * 2].astype(np.float32)
            )


def test_m16n8k8_of_tf32(memory):
    """The lower 13 bits of operands do not count."""
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((16, 8), (8, 8)))
    given = np.zeros((32, 6), np.uint32)
    for lane, (g, t) in enumerate(lanes()):
        given[lane] = words(np.r_[a[[g, g + 8, g, g + 8], [t, t, t + 4, t + 4]], b[[t, t + 4], g]])
    loads = "\n".join(f"  ld.global.b32 %r{n + 2}, [%rd12+{4 * n}];" for n in range(6))
    body = f"""  mul.wide.u32 %rd11, %r1, 24;
  add.s64 %rd12, %rd1, %rd11;
{loads}
  mov.b32 %r10, 0f3F800000;
  mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%r20, %r21, %r22, %r23}}, {{%r2, %r3, %r4, %r5}},
    {{%r6, %r7}}, {{%r10, %r10, %r10, %r10}};
  st.global.v2.b32 [%rd12], {{%r20, %r21}};
  st.global.v2.b32 [%rd12+8], {{%r22, %r23}};"""
    (found,) = launch(memory, kernel(body), [given])
    short = [(words(x) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for x in (a, b)]
    wanted = (short[0] @ short[1] + 1).astype(np.float32)
    for lane, (g, t) in enumerate(lanes()):
        got = found[lane, :4].view(np.float32)
        np.testing.assert_allclose(got, wanted[[g, g, g + 8, g + 8], [2 * t, 2 * t + 1] * 2], rtol=1e-6)


def test_m8n8k4_of_doubles(memory):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(8, 4)), rng.normal(size=(4, 8))
    given = np.zeros((32, 2))
    for lane, (g, t) in enumerate(lanes()):
        given[lane] = a[g, t], b[t, g]
    body = """  mul.wide.u32 %rd11, %r1, 16;
  add.s64 %rd12, %rd1, %rd11;
  ld.global.v2.b64 {%rd13, %rd14}, [%rd12];
  mov.b64 %rd15, 0d0000000000000000;
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd16, %rd17}, {%rd13}, {%rd14}, {%rd15, %rd15};
  st.global.v2.b64 [%rd12], {%rd16, %rd17};"""
    (found,) = launch(memory, kernel(body), [given])
    for lane, (g, t) in enumerate(lanes()):
        np.testing.assert_allclose(found[lane], (a @ b)[g, [2 * t, 2 * t + 1]], rtol=1e-14)


SHARED = ".shared .align 16 .b8 box[1024];"


@pytest.mark.parametrize("turned", [False, True])
def test_ldmatrix(memory, turned):
    """Four matrices of 8 x 8, a row of 16 bytes for each thread."""
    given = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    body = f"""  mul.wide.u32 %rd11, %r32, 16;
  mov.b64 %rd12, box;
  add.s64 %rd13, %rd12, %rd11;
  add.s64 %rd14, %rd1, %rd11;
  ld.global.v4.b32 {{%r2, %r3, %r4, %r5}}, [%rd14];
  st.shared.v4.b32 [%rd13], {{%r2, %r3, %r4, %r5}};
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x4{".trans" if turned else ""}.shared.b16 {{%r6, %r7, %r8, %r9}}, [%rd13];
  st.global.v4.b32 [%rd14], {{%r6, %r7, %r8, %r9}};"""
    (found,) = launch(memory, kernel(body, before=SHARED), [given])
    pairs = found.reshape(32, 4, 2)
    matrices = given.swapaxes(1, 2) if turned else given
    for lane, (g, t) in enumerate(lanes()):
        np.testing.assert_array_equal(pairs[lane], matrices[:, g, 2 * t : 2 * t + 2])


COPY = """  mul.wide.u32 %rd11, %r32, 16;
  mov.b64 %rd12, box;
  add.s64 %rd13, %rd12, %rd11;
  add.s64 %rd14, %rd1, %rd11;
  cp.async.cg.shared.global [%rd13], [%rd14], 16;
  cp.async.commit_group;
  cp.async.ca.shared.global [%rd13+512], [%rd14], 16, 4;
  cp.async.commit_group;
  cp.async.wait_group LEFT;
  bar.sync 0;
  ld.shared.v2.b32 {%r2, %r3}, [%rd13];
  ld.shared.v2.b32 {%r4, %r5}, [%rd13+512];
  st.global.v4.b32 [%rd14], {%r2, %r3, %r4, %r5};"""


@pytest.mark.parametrize("left", [0, 1])
def test_copies_are_there_when_they_are_waited_for(memory, left):
    """Copies that nobody waited for are not there; behind a short source are zeros."""
    given = np.arange(128, dtype=np.uint32).reshape(32, 4)
    (found,) = launch(memory, kernel(COPY.replace("LEFT", str(left)), before=SHARED), [given])
    np.testing.assert_array_equal(found[:, :2], given[:, :2])
    nothing = np.uint32(0xA5A5A5A5)
    wanted = np.stack([given[:, 0], np.zeros(32, np.uint32)], 1) if left == 0 else np.full((32, 2), nothing)
    np.testing.assert_array_equal(found[:, 2:], wanted)


def test_a_part_of_a_warp_is_refused(memory):
    body = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd16, %rd17}, {%rd13}, {%rd14}, {%rd15, %rd15};"
    with pytest.raises(PtxError, match="threads that do not exist|whole warps"):
        launch(memory, kernel(body), [np.zeros(16, np.int32)], threads=16)
