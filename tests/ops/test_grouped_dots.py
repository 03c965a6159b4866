"""ragged-dot and scaled-dot, against their definitions in NumPy, on all backends."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import axla

BACKENDS = ["cpu", "one-lane", "interpreter"]


def run(text, arguments, backend):
    return np.asarray(axla.compile(axla.parse(text), backend=backend).execute(arguments)[0])


def numbers(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", [[2, 0, 4], [3, 2, 0], [0, 0, 0], [9, 1, 1]])
def test_rows_of_groups(backend, sizes):
    text = """ENTRY e { x = f32[6,4] parameter(0)  w = f32[3,4,5] parameter(1)  n = s32[3] parameter(2)
      ROOT r = f32[6,5] ragged-dot(x, w, n), lhs_contracting_dims={1}, rhs_contracting_dims={1},
        lhs_ragged_dims={0}, rhs_group_dims={0} }"""
    x, w = numbers(1, 6, 4), numbers(2, 3, 4, 5)
    wanted, at = np.zeros((6, 5), np.float32), 0
    for group, size in enumerate(sizes):
        wanted[at : at + size] = x[at : at + size] @ w[group]
        at += size
    np.testing.assert_array_equal(run(text, [x, w, np.int32(sizes)], backend), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_infinities_of_one_group_do_not_reach_another(backend):
    text = """ENTRY e { x = f32[4,2] parameter(0)  w = f32[2,2,3] parameter(1)  n = s32[2] parameter(2)
      ROOT r = f32[4,3] ragged-dot(x, w, n), lhs_contracting_dims={1}, rhs_contracting_dims={1},
        lhs_ragged_dims={0}, rhs_group_dims={0} }"""
    x, w = numbers(1, 4, 2) + 5, numbers(2, 2, 2, 3)
    w[1] = np.inf
    found = run(text, [x, w, np.int32([3, 1])], backend)
    np.testing.assert_array_equal(found[:3], x[:3] @ w[0])
    assert np.isinf(found[3]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_groups_in_batches(backend, shared):
    """The groups behind the batch in rhs, and sizes of their own for every batch or the same for all."""
    dims = "3" if shared else "2,3"
    text = f"""ENTRY e {{ x = f32[2,6,4] parameter(0)  w = f32[2,3,4,5] parameter(1)
      n = u32[{dims}] parameter(2)
      ROOT r = f32[2,6,5] ragged-dot(x, w, n), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
        rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}, lhs_ragged_dims={{1}}, rhs_group_dims={{1}} }}"""
    x, w = numbers(3, 2, 6, 4), numbers(4, 2, 3, 4, 5)
    sizes = np.uint32([1, 2, 2]) if shared else np.uint32([[1, 2, 3], [4, 0, 1]])
    wanted = np.zeros((2, 6, 5), np.float32)
    for batch in range(2):
        at = 0
        for group, size in enumerate(np.broadcast_to(sizes, (2, 3))[batch]):
            wanted[batch, at : at + size] = x[batch, at : at + size] @ w[batch, group]
            at += size
    np.testing.assert_array_equal(run(text, [x, w, sizes], backend), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_groups(backend):
    text = """ENTRY e { x = f32[2,6,4] parameter(0)  w = f32[2,4,5] parameter(1)  n = s64[2,3] parameter(2)
      ROOT r = f32[3,2,6,5] ragged-dot(x, w, n), lhs_batch_dims={0}, lhs_contracting_dims={2},
        rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={2} }"""
    x, w, sizes = numbers(5, 2, 6, 4), numbers(6, 2, 4, 5), np.int64([[1, 2, 1], [0, 3, 0]])
    wanted = np.zeros((3, 2, 6, 5), np.float32)
    for batch in range(2):
        at = 0
        for group, size in enumerate(sizes[batch]):
            wanted[group, batch] = x[batch, :, at : at + size] @ w[batch, at : at + size]
            at += size
    np.testing.assert_array_equal(run(text, [x, w, sizes], backend), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_groups_of_a_batch_are_a_dot(backend):
    text = """ENTRY e { x = bf16[4,6,3] parameter(0)  w = bf16[4,3,5] parameter(1)  n = s32[2] parameter(2)
      ROOT r = f32[4,6,5] ragged-dot(x, w, n), lhs_batch_dims={0}, lhs_contracting_dims={2},
        rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={0} }"""
    x, w = numbers(7, 4, 6, 3, dtype=ml_dtypes.bfloat16), numbers(8, 4, 3, 5, dtype=ml_dtypes.bfloat16)
    wanted = x.astype(np.float32) @ w.astype(np.float32)
    np.testing.assert_array_equal(run(text, [x, w, np.int32([1, 3])], backend), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("result", ["f32", "bf16", "s32"])
def test_scales_of_blocks(backend, result):
    text = f"""ENTRY e {{ x = f8e4m3fn[3,8] parameter(0)  w = f8e4m3fn[8,5] parameter(1)
      s = f8e8m0fnu[3,2] parameter(2)  t = bf16[4,5] parameter(3)
      ROOT r = {result}[3,5] scaled-dot(x, w, s, t),
        lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    x, w = numbers(1, 3, 8, dtype=ml_dtypes.float8_e4m3fn), numbers(2, 8, 5, dtype=ml_dtypes.float8_e4m3fn)
    s = np.array([[1, 2], [4, 0.5], [8, 1]]).astype(ml_dtypes.float8_e8m0fnu)
    t = numbers(3, 4, 5, dtype=ml_dtypes.bfloat16)
    wide = x.astype(np.float32) * np.repeat(s.astype(np.float32), 4, 1)
    product = wide @ (w.astype(np.float32) * np.repeat(t.astype(np.float32), 2, 0))
    types = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s32": np.int32}
    np.testing.assert_array_equal(run(text, [x, w, s, t], backend), product.astype(types[result]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scalar_scale(backend):
    text = """ENTRY e { x = bf16[2,4] parameter(0)  w = f4e2m1fn[2,4] parameter(1)  s = bf16[] parameter(2)
      t = f32[1,2] parameter(3)
      ROOT r = f32[2,2] scaled-dot(x, w, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={1} }"""
    x, w = numbers(1, 2, 4, dtype=ml_dtypes.bfloat16), numbers(2, 2, 4, dtype=ml_dtypes.float4_e2m1fn)
    t = np.float32([[0.5, 3]])
    wanted = (2 * x.astype(np.float32)) @ (w.astype(np.float32) * np.repeat(np.repeat(t, 2, 1), 2, 0)).T
    np.testing.assert_array_equal(run(text, [x, w, np.array(2, ml_dtypes.bfloat16), t], backend), wanted)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("f32[2,6] c64[3,6,5] s32[3] lhs_ragged_dims={0}, rhs_group_dims={0}", "ragged_dot_c9"),
        ("f32[2,6] f32[3,6,5] s32[4] lhs_ragged_dims={0}, rhs_group_dims={0}", "ragged_dot_c7"),
        ("f32[2,6] f32[3,6,5] s32[3] lhs_ragged_dims={0}", "ragged_dot_c6"),
        ("f32[2,6] f32[3,6,5] s32[3] rhs_group_dims={0}", "ragged_dot_c1"),
        ("f32[2,6] f32[3,6,5] f32[3] lhs_ragged_dims={0}, rhs_group_dims={0}", "ragged_dot_c4"),
        ("f32[2,6] f32[3,6,5] s32[2,3] lhs_ragged_dims={0}, rhs_group_dims={0}", "ragged_dot_c5"),
        ("f32[2,6] f32[3,4,5] s32[3] lhs_ragged_dims={0}, rhs_group_dims={0}", "ragged_dot_c3"),
    ],
)
def test_ragged_dots_that_are_refused(text, rule):
    lhs, rhs, sizes, attributes = text.split(" ", 3)
    module = axla.parse(f"""ENTRY e {{
      x = {lhs} parameter(0)  w = {rhs} parameter(1)  n = {sizes} parameter(2)
      ROOT r = f32[2,5] ragged-dot(x, w, n), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}},
        {attributes} }}""")
    with pytest.raises(axla.AxlaError, match=rule):
        axla.compile(module, backend="interpreter")


@pytest.mark.parametrize(
    ("scales", "rule"),
    [
        ("f32[] f32[]", "scaled_dot_c1"),
        ("f32[2,6] f32[]", "scaled_dot_c3"),
        ("f32[2] f32[]", "scaled_dot_c2"),
    ],
)
def test_scaled_dots_that_are_refused(scales, rule):
    s, t = scales.split()
    module = axla.parse(f"""ENTRY e {{ x = f32[2,10] parameter(0)  w = f32[10,2] parameter(1)
      s = {s} parameter(2)  t = {t} parameter(3)
      ROOT r = f32[2,2] scaled-dot(x, w, s, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")
    with pytest.raises(axla.AxlaError, match=rule):
        axla.compile(module, backend="interpreter")
