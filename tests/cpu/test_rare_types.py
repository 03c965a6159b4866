"""Types that lack what others have (a zero, a sign, integers of their width): what XLA:CPU gives for them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import axla
from axla.core.errors import VerifyError

BACKENDS = ["interpreter", "cpu", "one-lane"]
SCALES = np.array([0, 1, 2, 126, 127, 128, 129, 253, 254, 255], np.uint8).view(ml_dtypes.float8_e8m0fnu)
"""Powers of two, the least and the largest among them, and NaN."""


def run(text: str, *arguments: np.ndarray, backend: str) -> list[np.ndarray]:
    return [np.asarray(a) for a in axla.compile(axla.parse(text), backend=backend).execute(list(arguments))]


def scales(body: str, backend: str, x: np.ndarray = SCALES) -> list[np.ndarray]:
    """The result of `body`, of f8e8m0fnu[n] p, as bytes."""
    text = f"ENTRY e {{ p = f8e8m0fnu[{len(x)}] parameter(0)\n {body} }}"
    return [
        a.view(np.uint8) if a.itemsize == 1 and a.dtype != bool else a for a in run(text, x, backend=backend)
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("ROOT r = f8e8m0fnu[10] imag(p)", [255] * 10),
        ("ROOT r = f8e8m0fnu[10] real(p)", SCALES.view(np.uint8)),
        (
            "ROOT r = f8e8m0fnu[10] reduce-precision(p), exponent_bits=8, mantissa_bits=7",
            SCALES.view(np.uint8),
        ),
        (
            "ROOT r = f8e8m0fnu[10] reduce-precision(p), exponent_bits=4, mantissa_bits=3",
            [255, 255, 255, 126, 127, 128, 129, 255, 255, 255],
        ),
    ],
)  # fmt: skip
def test_without_zero_and_infinity_there_is_nan(backend, body, wanted):
    np.testing.assert_array_equal(scales(body, backend)[0], wanted)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["pred", "u8", "s4", "f32"])
def test_a_scale_is_never_zero(backend, name):
    body = f"""
ENTRY e {{ a = s32[3] parameter(0)
  b = {name}[3] convert(a)
  c = f8e8m0fnu[3] convert(b)
  ROOT r = u8[3] bitcast-convert(c) }}"""
    (found,) = run(body, np.array([0, 1, 0], np.int32), backend=backend)
    assert found.tolist() == [255, 127, 255]


@pytest.mark.parametrize("backend", BACKENDS)
def test_scales_have_no_sign_to_be_ordered_by(backend):
    body = "ROOT r = (f8e8m0fnu[10], s32[10]) topk(p), k=10, largest=true"
    values, places = scales(body, backend)
    np.testing.assert_array_equal(values, SCALES.view(np.uint8)[::-1])
    np.testing.assert_array_equal(places, np.arange(10)[::-1])
    total = "o = f8e8m0fnu[10] broadcast(c), dimensions={} ROOT r = pred[10] compare(p, o), direction=GT"
    found = scales(f"c = f8e8m0fnu[] constant(1) {total}, type=TOTALORDER", backend)[0]
    np.testing.assert_array_equal(found, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2fnuz"])
def test_the_only_nan_is_the_first_in_total_order(backend, name):
    """Of the bits of -0, and less than all others, whatever arithmetic made it."""
    order = [128, *range(255, 128, -1), *range(128)]
    body = f"""
less {{ p = {name}[] parameter(0) q = {name}[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT, type=TOTALORDER }}
ENTRY e {{ u = u8[256] parameter(0)
  x = {name}[256] bitcast-convert(u)
  y = {name}[256] maximum(x, x)
  below = pred[256] compare(y, x), direction=NE, type=TOTALORDER
  sorted = {name}[256] sort(x), dimensions={{0}}, to_apply=less
  negative = {name}[256] negate(x)
  top = ({name}[3], s32[3]) topk(negative), k=3, largest=false
  first = {name}[3] get-tuple-element(top), index=0
  s = u8[256] bitcast-convert(sorted)
  f = u8[3] bitcast-convert(first)
  ROOT t = (pred[256], u8[256], u8[3]) tuple(below, s, f) }}"""
    below, ranked, first = run(
        body, np.random.default_rng(1).permutation(256).astype(np.uint8), backend=backend
    )
    assert not below.any()
    assert ranked.tolist() == order
    assert first.tolist() == order[:3]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["f8e5m2", "f8e3m4", "f8e4m3", "f8e4m3fn"])
def test_total_order_tells_nans_apart(backend, name):
    body = f"""
less {{ p = {name}[] parameter(0) q = {name}[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT, type=TOTALORDER }}
ENTRY e {{ u = u8[256] parameter(0)
  x = {name}[256] bitcast-convert(u)
  sorted = {name}[256] sort(x), dimensions={{0}}, to_apply=less
  ROOT s = u8[256] bitcast-convert(sorted) }}"""
    (found,) = run(body, np.random.default_rng(1).permutation(256).astype(np.uint8), backend=backend)
    assert found.tolist() == [*range(255, 127, -1), *range(128)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
def test_negative_numbers_of_narrow_floats_stand_before_positive_ones(backend, name):
    short = "f" + name.removeprefix("float").replace("_", "")
    x = np.array([1, -1, 0.5, -2, 0, 1.5, -0.5]).astype(getattr(ml_dtypes, name))
    found, _ = run(
        f"ENTRY e {{ p = {short}[7] parameter(0) ROOT r = ({short}[7], s32[7]) topk(p), k=7, largest=true }}",
        x, backend=backend,
    )  # fmt: skip
    np.testing.assert_array_equal(found.astype(np.float32), [1.5, 1, 0.5, 0, -0.5, -1, -2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_at_an_edge_are_summed_without_a_zero(backend):
    text = """add { a = f8e8m0fnu[] parameter(0)  b = f8e8m0fnu[] parameter(1)
      ROOT c = f8e8m0fnu[] add(a, b) }
    ENTRY e { p = f8e8m0fnu[4] parameter(0)  z = f8e8m0fnu[] parameter(1)
      ROOT r = f8e8m0fnu[5] reduce-window(p, z), window={size=2 pad=1_1}, to_apply=add }"""
    x = np.array([1, 2, 4, 4]).astype(ml_dtypes.float8_e8m0fnu)
    start = np.array(0.0625).astype(ml_dtypes.float8_e8m0fnu)
    found = run(text, x, start, backend=backend)[0].astype(np.float32)
    np.testing.assert_array_equal(found, [1, 4, 8, 8, 4])


@pytest.mark.parametrize("backend", BACKENDS)
def test_groups_are_multiplied_without_a_zero(backend):
    """Each row by its group's matrix; only what lies behind the last group is 0, which here is NaN."""
    text = """ENTRY e { x = f8e8m0fnu[4,2] parameter(0)  w = f8e8m0fnu[2,2,1] parameter(1)
      n = s32[2] parameter(2)
      ROOT r = f8e8m0fnu[4,1] ragged-dot(x, w, n), lhs_contracting_dims={1}, rhs_contracting_dims={1},
        lhs_ragged_dims={0}, rhs_group_dims={0} }"""
    x = np.array([[1, 1], [2, 2], [4, 4], [8, 8]]).astype(ml_dtypes.float8_e8m0fnu)
    w = np.array([[[1], [1]], [[2], [2]]]).astype(ml_dtypes.float8_e8m0fnu)
    found = run(text, x, w, np.int32([1, 2]), backend=backend)[0].astype(np.float32)
    np.testing.assert_array_equal(found, [[2], [8], [16], [np.nan]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_groups_without_a_zero(backend):
    text = """ENTRY e { x = f8e8m0fnu[1,4] parameter(0)  w = f8e8m0fnu[4,1] parameter(1)
      n = s32[2] parameter(2)
      ROOT r = f8e8m0fnu[2,1,1] ragged-dot(x, w, n), lhs_contracting_dims={1}, rhs_contracting_dims={0},
        lhs_ragged_dims={1} }"""
    x = np.array([[1, 2, 4, 4]]).astype(ml_dtypes.float8_e8m0fnu)
    w = np.array([[2], [4], [1], [1]]).astype(ml_dtypes.float8_e8m0fnu)
    found = run(text, x, w, np.int32([1, 3]), backend=backend)[0].astype(np.float32)
    np.testing.assert_array_equal(found, [[[2]], [[16]]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_bits_of_f4(backend):
    """The low bits of the words, as they are; recorded from XLA:CPU."""
    text = """ENTRY e { p = u64[2] parameter(0)
      ROOT r = (u64[2], f4e2m1fn[3,5]) rng-bit-generator(p), algorithm=rng_three_fry }"""
    found = run(text, np.array([1, 2], np.uint64), backend=backend)[1]
    wanted = [[4, 11, 3, 3, 3], [0, 4, 13, 5, 7], [0, 2, 5, 14, 2]]
    np.testing.assert_array_equal(found.view(np.uint8) & 15, wanted)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            """ENTRY e { p = u64[2] parameter(0)
            ROOT r = (u64[2], f6e2m3fn[3]) rng-bit-generator(p), algorithm=rng_three_fry }""",
            "rng_bit_generator_c3",
        ),
        (
            """ENTRY e { x = c64[2,8] parameter(0)  s = f32[2,2] parameter(1)
            ROOT r = f32[2,2] scaled-dot(x, x, s, s), lhs_contracting_dims={1}, rhs_contracting_dims={1} }""",
            "scaled_dot_c4",
        ),
    ],
)
def test_types_that_an_op_does_not_take_are_refused_by_rule(text, rule):
    with pytest.raises(axla.AxlaError, match=rule) as caught:
        axla.compile(axla.parse(text), backend="cpu")
    assert isinstance(caught.value, VerifyError) or "Shape" in type(caught.value).__name__


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [ml_dtypes.uint2, ml_dtypes.uint4])
def test_exponents_of_less_than_a_byte_have_no_sign(backend, dtype):
    top = int(ml_dtypes.iinfo(dtype).max)
    pairs = [(a, b) for a in range(top + 1) for b in range(top + 1)]
    x, y = (np.array(side).astype(dtype) for side in zip(*pairs, strict=True))
    kind, n = ("u2" if top == 3 else "u4"), len(pairs)
    parameters = f"p = {kind}[{n}] parameter(0) q = {kind}[{n}] parameter(1)"
    text = f"ENTRY e {{ {parameters} ROOT r = {kind}[{n}] power(p, q) }}"
    (found,) = run(text, x, y, backend=backend)
    assert found.astype(int).tolist() == [pow(a, b, top + 1) for a, b in pairs]
