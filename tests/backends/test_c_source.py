"""The example of a backend that writes C: models, kinds of kernels, and what it refuses."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

import axla
from axla.backends.kit import decode, encode
from axla.runtime.serialized import pack, unpack

pytestmark = pytest.mark.skipif(
    shutil.which(os.environ.get("CC", "cc")) is None, reason="there is no C compiler: c-source builds with it"
)
COMPUTATIONS = """
maximum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
"""
SOFTMAX = f"""
HloModule softmax
{COMPUTATIONS}
ENTRY e {{ x = f32[6,20] parameter(0)
  w = f32[20,12] parameter(1)
  d = f32[6,12] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[6] reduce(d, least), dimensions={{1}}, to_apply=maximum
  ms = f32[6,12] broadcast(m), dimensions={{0}}
  away = f32[6,12] subtract(d, ms)
  e = f32[6,12] exponential(away)
  t = f32[6] reduce(e, zero), dimensions={{1}}, to_apply=sum
  ts = f32[6,12] broadcast(t), dimensions={{0}}
  ROOT p = f32[6,12] divide(e, ts) }}"""
LSTM = """
HloModule lstm
condition { s = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT more = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[3,4] get-tuple-element(s), index=1
  c = f32[3,4] get-tuple-element(s), index=2
  hs = f32[5,3,4] get-tuple-element(s), index=3
  xs = f32[5,3,6] get-tuple-element(s), index=4
  w = f32[10,16] get-tuple-element(s), index=5
  zero = s32[] constant(0)
  one = s32[] constant(1)
  xi = f32[1,3,6] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,3,6}
  x = f32[3,6] reshape(xi)
  xh = f32[3,10] concatenate(x, h), dimensions={1}
  g = f32[3,16] dot(xh, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g0 = f32[3,4] slice(g), slice={[0:3], [0:4]}
  g1 = f32[3,4] slice(g), slice={[0:3], [4:8]}
  g2 = f32[3,4] slice(g), slice={[0:3], [8:12]}
  g3 = f32[3,4] slice(g), slice={[0:3], [12:16]}
  forget = f32[3,4] logistic(g0)
  enter = f32[3,4] logistic(g1)
  new = f32[3,4] tanh(g2)
  leave = f32[3,4] logistic(g3)
  kept = f32[3,4] multiply(forget, c)
  added = f32[3,4] multiply(enter, new)
  c2 = f32[3,4] add(kept, added)
  shown = f32[3,4] tanh(c2)
  h2 = f32[3,4] multiply(leave, shown)
  row = f32[1,3,4] reshape(h2)
  hs2 = f32[5,3,4] dynamic-update-slice(hs, row, i, zero, zero)
  i2 = s32[] add(i, one)
  ROOT r = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) tuple(i2, h2, c2, hs2, xs, w) }
ENTRY e { xs = f32[5,3,6] parameter(0)
  w = f32[10,16] parameter(1)
  zero = s32[] constant(0)
  nothing = f32[] constant(0)
  h = f32[3,4] broadcast(nothing), dimensions={}
  hs = f32[5,3,4] broadcast(nothing), dimensions={}
  s = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) tuple(zero, h, h, hs, xs, w)
  l = (s32[], f32[3,4], f32[3,4], f32[5,3,4], f32[5,3,6], f32[10,16]) while(s), condition=condition, body=step
  c = f32[3,4] get-tuple-element(l), index=2
  found = f32[5,3,4] get-tuple-element(l), index=3
  ROOT r = (f32[3,4], f32[5,3,4]) tuple(c, found) }"""
MOVED = """
HloModule moved
ENTRY e { x = f32[4,6] parameter(0)
  i = s32[3,1] parameter(1)
  n = s32[] parameter(2)
  fill = f32[] constant(7)
  g = f32[3,6] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,6}
  p = f32[7,6] pad(g, fill), padding=1_1_1x0_0
  r = f32[7,6] reverse(p), dimensions={0}
  t = f32[6,7] transpose(r), dimensions={1,0}
  s = f32[3,7] slice(t), slice={[0:6:2], [0:7]}
  y = f32[6,4] reshape(x)
  z = s32[] constant(0)
  y1 = f32[2,4] dynamic-slice(y, z, z), dynamic_slice_sizes={2,4}
  y2 = f32[6,4] dynamic-update-slice(y, y1, n, z)
  k = s32[3,7] iota(), iota_dimension=1
  kf = f32[3,7] convert(k)
  total = f32[3,7] add(s, kf)
  ROOT both = (f32[3,7], f32[6,4]) tuple(total, y2) }"""
BRANCHES = f"""
HloModule branches
{COMPUTATIONS}
first {{ x = f32[4,8] parameter(0)
  ROOT r = f32[4,8] negate(x) }}
second {{ x = f32[4,8] parameter(0)
  zero = f32[] constant(0)
  w = f32[4,8] reduce-window(x, zero), window={{size=1x3 pad=0_0x1_1}}, to_apply=sum
  ROOT r = f32[4,8] sqrt(w) }}
ENTRY e {{ n = s32[] parameter(0)
  x = f32[4,8] parameter(1)
  ROOT r = f32[4,8] conditional(n, x, x), branch_computations={{first, second}} }}"""
RNG = np.random.default_rng(5)


def drawn(*dims):
    return RNG.uniform(0.1, 1, dims).astype(np.float32)


PROGRAMS = {
    "softmax": (SOFTMAX, [drawn(6, 20), drawn(20, 12)]),
    "lstm": (LSTM, [drawn(5, 3, 6), drawn(10, 16)]),
    "movement": (MOVED, [drawn(4, 6), np.int32([[3], [-2], [9]]), np.int32(9)]),
    "first branch": (BRANCHES, [np.int32(0), drawn(4, 8)]),
    "last branch": (BRANCHES, [np.int32(-1), drawn(4, 8)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_cpu_gives(name):
    text, arguments = PROGRAMS[name]
    module = axla.parse(text)
    program = axla.compile(module, backend="c-source")
    wanted = axla.compile(module, backend="cpu").execute(arguments)
    for again in (program, axla.Executable.load(program.serialize())):
        for found, cpu in zip(again.execute(arguments), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(cpu), rtol=2e-5, atol=1e-6)


def mutations(payload: bytes) -> dict[bytes, str]:
    """Bytes that are not a payload of c-source, with what the error says."""
    packed = decode(payload)

    def of_images(*images: bytes) -> bytes:
        return encode(replace(packed, images=images))

    return {
        b"": "0 is not a possible number of parts",
        bytes(8): "0 is not a possible number of parts",
        b"void run(void) {} " * 9: "parts",
        payload[:-1]: f"{len(payload) - 1} bytes, wanted {len(payload)}",
        payload + b"}": f"{len(payload) + 1} bytes, wanted {len(payload)}",
        payload.replace(b'{"Interface":', b'{"ValueSpec":', 1): "the interface cannot be read",
        payload.replace(b'{"Interface":', b'["Interface",', 1): "delimiter",
        of_images(): "not enough values",
        of_images(*packed.images * 2): "too many values",
        of_images(b"\xff\xfe"): "can't decode",
    }


def test_payloads_that_it_did_not_write_are_refused():
    module = axla.parse("HloModule m\nENTRY e { a = f32[3] parameter(0)\n ROOT r = f32[3] negate(a) }")
    payload, head = unpack(axla.compile(module, backend="c-source").serialize())
    assert len(mutations(payload)) == 10
    for wrong, reason in mutations(payload).items():
        with pytest.raises(axla.InvalidArgument, match=f"no programs as c-source writes them .*{reason}"):
            axla.Executable.load(pack(wrong, head))


def whole(text: str, *arguments):
    """A program of one array on c-source."""
    return np.asarray(axla.compile(axla.parse(text), backend="c-source")(*arguments))


def test_integers_divide_and_convert_as_xla_says():
    text = "HloModule m\nENTRY e { a = s32[5] parameter(0)\n  b = s32[5] parameter(1)\n"
    text += "  ROOT r = s32[5] %s(a, b) }"
    least = np.iinfo(np.int32).min
    a, b = np.int32([7, -7, least, 5, least]), np.int32([2, 2, -1, 0, 3])
    assert whole(text % "divide", a, b).tolist() == [3, -3, least, -1, -715827882]
    assert whole(text % "remainder", a, b).tolist() == [1, -1, 0, 5, -2]
    text = "HloModule m\nENTRY e { a = f32[4] parameter(0)\n  ROOT r = s8[4] convert(a) }"
    assert whole(text, np.float32([np.nan, 1e9, -1e9, -3.7])).tolist() == [0, 127, -128, -3]


def test_nan_is_the_largest_and_the_smallest():
    text = "HloModule m\nENTRY e { a = f32[3] parameter(0)\n  b = f32[3] parameter(1)\n"
    text += "  ROOT r = f32[3] %s(a, b) }"
    a, b = np.float32([np.nan, 1, 2]), np.float32([1, np.nan, 3])
    np.testing.assert_array_equal(whole(text % "maximum", a, b), [np.nan, np.nan, 3])
    np.testing.assert_array_equal(whole(text % "minimum", a, b), [np.nan, np.nan, 2])


REFUSED = {
    "sort": "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
    " ROOT c = pred[] compare(a, b), direction=LT }\n"
    "ENTRY e { a = f32[4] parameter(0)\n ROOT r = f32[4] sort(a), dimensions={0}, to_apply=less }",
    "bf16": "ENTRY e { a = bf16[4] parameter(0)\n ROOT r = bf16[4] negate(a) }",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_does_not_run_is_refused_by_name(name):
    reason = axla.backends.get("c-source").capabilities.refused[name]
    with pytest.raises(axla.UnsupportedError, match=f"c-source does not run {name}: {reason}"):
        axla.compile(axla.parse(f"HloModule m\n{REFUSED[name]}"), backend="c-source")


def negated(size: int):
    """A program that no other test has: what was built once is not built again."""
    text = f"HloModule m\nENTRY e {{ a = f32[{size}] parameter(0)\n ROOT r = f32[{size}] negate(a) }}"
    return axla.compile(axla.parse(text), backend="c-source")


def test_a_compiler_that_is_not_there(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(axla.UnsupportedError, match="there is no C compiler 'no-such-compiler'"):
        negated(31)


FAILING = {
    "echo 'warning: odd'; echo 'a.c:1: error: no'; exit 3": "failed with status 3: a.c:1: error: no",
    "exit 0": "failed with status 0: it says nothing",
    """for last; do case "$last" in *.so) echo no > "$last";; esac; done""": "cannot be loaded",
    "echo x > $TMPDIR/left; sleep 60 & wait": "took longer than 0.3 s",
}


@pytest.mark.parametrize("script", FAILING)
def test_a_compiler_that_fails_leaves_nothing_behind(monkeypatch, tmp_path, script):
    compiler, folder = tmp_path / "compiler", tmp_path / "temporary"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o700)
    folder.mkdir()
    axla.backends.get("c-source")
    monkeypatch.setattr("axla_c_source.backend.COMPILER_SECONDS", 0.3 if "sleep" in script else 60)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(axla.CompileError, match=FAILING[script]):
        negated(33)
    assert not list(folder.iterdir())


CORNERS = {
    "shifts": (
        "a = s32[4] parameter(0)\n b = s32[4] parameter(1)\n l = s32[4] shift-left(a, b)\n"
        " r = s32[4] shift-right-logical(a, b)\n s = s32[4] shift-right-arithmetic(a, b)\n"
        " ROOT t = (s32[4], s32[4], s32[4]) tuple(l, r, s)",
        [np.int32([-5, -5, 7, -1]), np.int32([32, -1, 40, 3])],
    ),
    "zeros": (
        "a = f32[3] parameter(0)\n b = f32[3] parameter(1)\n l = f32[3] maximum(a, b)\n"
        " r = f32[3] minimum(a, b)\n s = f32[3] negate(a)\n q = f32[3] sign(a)\n"
        " ROOT t = (f32[3], f32[3], f32[3], f32[3]) tuple(l, r, s, q)",
        [np.float32([0, -0.0, -0.0]), np.float32([-0.0, 0, -0.0])],
    ),
    "largest integers": (
        "a = f64[5] parameter(0)\n l = s64[5] convert(a)\n r = u64[5] convert(a)\n s = u32[5] convert(a)\n"
        " ROOT t = (s64[5], u64[5], u32[5]) tuple(l, r, s)",
        [np.float64([1e30, -1e30, np.nan, np.inf, -0.5])],
    ),
    "powers and halves": (
        "a = s64[4] parameter(0)\n b = s64[4] parameter(1)\n l = s64[4] power(a, b)\n"
        " r = s64[4] mulhi(a, b)\n s = s64[4] count-leading-zeros(a)\n q = s64[4] popcnt(b)\n"
        " ROOT t = (s64[4], s64[4], s64[4], s64[4]) tuple(l, r, s, q)",
        [np.int64([-1, 3, 2**62, -(2**63)]), np.int64([-3, 41, 2**61 + 5, -7])],
    ),
    "fewer bits": (
        "a = f64[5] parameter(0)\n l = f64[5] reduce-precision(a), exponent_bits=5, mantissa_bits=3\n"
        " b = u8[5,8] bitcast-convert(a)\n c = s16[5,4] bitcast-convert(a)\n"
        " ROOT t = (f64[5], u8[5,8], s16[5,4]) tuple(l, b, c)",
        [np.float64([1.0625, 1e9, -1e-9, np.nan, 1.9999])],
    ),
    "a total order": (
        "a = f32[4] parameter(0)\n b = f32[4] parameter(1)\n"
        " ROOT t = pred[4] compare(a, b), direction=LT, type=TOTALORDER",
        [np.float32([-0.0, np.nan, 1, -np.nan]), np.float32([0, np.inf, np.nan, -np.inf])],
    ),
    "places outside": (
        "x = f32[4,6] parameter(0)\n i = s64[3,1] parameter(1)\n n = u64[] parameter(2)\n"
        " g = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={1},"
        " index_vector_dim=1, slice_sizes={1,2}\n"
        " y = f32[2,2] dynamic-slice(x, n, n), dynamic_slice_sizes={2,2}\n"
        " z = f32[4,6] dynamic-update-slice(x, y, n, n)\n"
        " ROOT t = (f32[3,2], f32[2,2], f32[4,6]) tuple(g, y, z)",
        [np.arange(24, dtype=np.float32).reshape(4, 6), np.int64([[-(2**63)], [2**63 - 1], [3]]),
         np.uint64(2**64 - 1)],
    ),
    "nothing": (
        "x = f32[0,3] parameter(0)\n z = f32[] constant(2)\n p = f32[2,3] pad(x, z), padding=1_1x0_0\n"
        " s = f32[3] reduce(x, z), dimensions={0}, to_apply=sum\n"
        " c = f32[2,3] concatenate(x, p), dimensions={0}\n"
        " r = f32[3,0] reshape(x)\n e = f32[3,0] exponential(r)\n"
        " ROOT t = (f32[2,3], f32[3], f32[2,3], f32[3,0]) tuple(p, s, c, e)",
        [np.zeros((0, 3), np.float32)],
    ),
    "two dimensions in any order": (
        "x = s32[2,3,4] parameter(0)\n z = s32[] constant(-7)\n"
        " ROOT r = s32[3] reduce(x, z), dimensions={2,0}, to_apply=total",
        [np.arange(24, dtype=np.int32).reshape(2, 3, 4)],
    ),
}  # fmt: skip
TOTAL = "total { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] add(a, b) }"


@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_those_of_the_interpreter(name):
    body, arguments = CORNERS[name]
    module = axla.parse(f"HloModule m\n{COMPUTATIONS}{TOTAL}\nENTRY e {{ {body} }}")
    found = axla.compile(module, backend="c-source").execute(arguments)
    wanted = axla.compile(module, backend="interpreter").execute(arguments)
    for a, b in zip(map(np.asarray, found), map(np.asarray, wanted), strict=True):
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def test_a_reduce_of_two_arrays_gives_both():
    text = """HloModule m
both { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  c = pred[] compare(b, a), direction=GT
  m = f32[] select(c, b, a)
  n = s32[] select(c, j, i)
  ROOT t = (f32[], s32[]) tuple(m, n) }
ENTRY e { x = f32[3,7] parameter(0)
  k = s32[3,7] iota(), iota_dimension=1
  least = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[3], s32[3]) reduce(x, k, least, zero), dimensions={1}, to_apply=both }"""
    x = drawn(3, 7)
    most, where = axla.compile(axla.parse(text), backend="c-source").execute([x])
    np.testing.assert_array_equal(np.asarray(most), x.max(1))
    np.testing.assert_array_equal(np.asarray(where), x.argmax(1))
