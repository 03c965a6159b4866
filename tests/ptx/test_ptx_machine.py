"""The machine that executes PTX: instructions, threads that part and meet, memory, and what it refuses."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ptx.floats import BF16, fma, narrowed, to_integer
from ptx.instructions import meaning
from ptx.machine import Kernels
from ptx.memory import Memory
from ptx.text import PtxError
from ptx.traffic import Traffic

HEAD = ".version 7.8\n.target sm_90\n.address_size 64\n"


@pytest.fixture(scope="module")
def memory():
    return Memory(1 << 20, 1 << 20)


def launch(memory, text, arrays, *, blocks=1, threads=32):
    """Runs the kernel `k` on copies of arrays; gives these."""
    kernels = Kernels(HEAD + text, memory)
    places = [memory.allocate(array.nbytes) for array in arrays]
    try:
        for place, array in zip(places, arrays, strict=True):
            memory.view(place, array.nbytes)[:] = array.reshape(-1).view(np.uint8)
        kernels.launch("k", blocks, threads, places)
        return [
            memory.view(place, array.nbytes).copy().view(array.dtype).reshape(array.shape)
            for place, array in zip(places, arrays, strict=True)
        ]
    finally:
        for place in places:
            memory.free(place)
        kernels.close()


def kernel(body, parameters=1, before=""):
    """A kernel whose threads have their number in %r1 and buffers in %rd1, %rd2...; %rd10 is their place in
    the first one, of words.
    """
    given = ", ".join(f".param .u64 .ptr .align 1 k_param_{n}" for n in range(parameters))
    loads = "\n".join(f"ld.param.b64 %rd{n + 1}, [k_param_{n}];" for n in range(parameters))
    return f"""{before}
.visible .entry k({given}) {{
  .reg .pred %p<20>; .reg .b16 %rs<20>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
  {loads}
  mov.u32 %r30, %ctaid.x;
  mov.u32 %r31, %ntid.x;
  mov.u32 %r32, %tid.x;
  mad.lo.s32 %r1, %r30, %r31, %r32;
  mul.wide.u32 %rd9, %r1, 4;
  add.s64 %rd10, %rd1, %rd9;
{body}
  ret;
}}"""


def computed(opcode, *operands):
    """The result of an instruction."""
    known = meaning(opcode)
    assert known is not None, opcode
    given = [np.atleast_1d(np.asarray(o, t)) for o, t in zip(operands, known.operands, strict=True)]
    with np.errstate(all="ignore"):
        found = np.asarray(known.compute(*given))
    assert found.dtype == known.results[0]
    return found[0].item() if found.size == 1 else found


# -- single instructions -------------------------------------------------------------------------------------

INTEGERS = [
    ("add.s32", (0x7FFFFFFF, 1), -0x80000000), ("sub.s64", (-(1 << 63), 1), (1 << 63) - 1),
    ("mul.lo.s16", (300, 300), 90000 - 65536), ("mul.hi.u32", (0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFE),
    ("mul.hi.s64", (-(1 << 62), 8), -2), ("mul.hi.u64", ((1 << 64) - 1, (1 << 64) - 1), (1 << 64) - 2),
    ("mul.wide.s16", (-300, 300), -90000), ("mad.lo.s32", (3, 4, 5), 17),
    ("mad.wide.u32", (1 << 31, 4, 1), (1 << 33) + 1), ("div.s32", (-7, 2), -3), ("rem.s32", (-7, 2), -1),
    ("div.s32", (-(1 << 31), -1), -(1 << 31)), ("div.u32", (7, 0), 0xFFFFFFFF), ("rem.u16", (7, 4), 3),
    ("abs.s32", (-5,), 5), ("neg.s16", (5,), -5), ("shl.b32", (1, 31), 1 << 31), ("shl.b32", (1, 32), 0),
    ("shr.u32", (1 << 31, 40), 0), ("shr.s32", (-8, 1), -4), ("shr.s32", (-8, 99), -1),
    ("shr.s64", (-8, 63), -1), ("shf.l.wrap.b32", (0x80000000, 1, 33), 3),
    ("shf.r.clamp.b32", (0x80000000, 1, 40), 1), ("bfe.u32", (0xABCD, 4, 8), 0xBC),
    ("bfe.s32", (0x00F0, 4, 4), -1), ("bfe.s32", (-1, 31, 5), -1), ("bfi.b32", (0xF, 0, 4, 4), 0xF0),
    ("prmt.b32", (0x03020100, 0x07060504, 0x7531), 0x07050301), ("prmt.b32", (0x80, 0, 0x8888), 0xFFFFFFFF),
    ("popc.b64", ((1 << 64) - 1,), 64), ("clz.b32", (1,), 31), ("clz.b64", (0,), 64),
    ("brev.b32", (1,), 1 << 31), ("lop3.b32", (0b1100, 0b1010, 0b0110, 0x96), 0b0000),
    ("not.b32", (0,), 0xFFFFFFFF), ("min.s32", (-1, 1), -1), ("max.u32", (0xFFFFFFFF, 1), 0xFFFFFFFF),
    ("selp.b32", (1, 2, False), 2), ("setp.lt.s32", (-1, 1), True), ("setp.lt.u32", (0xFFFFFFFF, 1), False),
    ("setp.lt.and.s32", (-1, 1, False), False), ("cvt.s16.s8", (-3,), -3),
    ("cvt.u16.u32", (0x12345,), 0x2345), ("cvt.s64.s32", (-1,), -1), ("cvt.sat.s8.s32", (300,), 127),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "operands", "wanted"), INTEGERS)
def test_integers(opcode, operands, wanted):
    assert computed(opcode, *operands) == wanted


NAN, INF = float("nan"), float("inf")
FLOATS = [
    ("min.f32", (NAN, 1.0), 1.0), ("min.NaN.f32", (NAN, 1.0), NAN), ("max.f64", (-0.0, 0.0), 0.0),
    ("min.f32", (0.0, -0.0), -0.0), ("neg.f32", (0.0,), -0.0), ("abs.f16", (-2.0,), 2.0),
    ("copysign.f32", (-1.0, 3.0), -3.0), ("rcp.rn.f32", (3.0,), np.float32(1) / np.float32(3)),
    ("div.rn.f32", (1.0, 0.0), INF), ("sqrt.rn.f64", (2.0,), 2.0**0.5), ("setp.ne.f32", (NAN, 1.0), False),
    ("setp.neu.f32", (NAN, 1.0), True), ("setp.leu.f32", (2.0, 1.0), False),
    ("setp.nan.f64", (NAN, 1.0), True), ("setp.num.f32", (1.0, 1.0), True),
    ("cvt.rzi.s32.f32", (-2.7,), -2), ("cvt.rzi.s32.f32", (3e9,), (1 << 31) - 1),
    ("cvt.rzi.s32.f32", (NAN,), 0), ("cvt.rzi.u32.f32", (-1.0,), 0),
    ("cvt.rzi.s64.f64", (NAN,), -(1 << 63)), ("cvt.rni.f32.f32", (2.5,), 2.0),
    ("cvt.rpi.f64.f64", (2.1,), 3.0), ("cvt.rni.s32.f32", (2.5,), 2),
    ("cvt.rn.f32.s32", ((1 << 24) + 1,), float(1 << 24)),
    ("cvt.rz.f32.f64", (1 - 2.0**-40,), float(np.float32(1 - 2.0**-24))),
    ("cvt.rp.f32.f64", (1 + 2.0**-40,), float(np.float32(1 + 2.0**-23))),
    ("cvt.rn.f16.f32", (65520.0,), INF), ("cvt.sat.f32.f32", (1.5,), 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("opcode", "operands", "wanted"), FLOATS)
def test_floats(opcode, operands, wanted):
    found = computed(opcode, *operands)
    assert found == wanted or (found != found and wanted != wanted)
    assert np.signbit(found) == np.signbit(wanted) or wanted != wanted


def exactly(dtype, a, b, c):
    """a * b + c of finite numbers, rounded once: the nearest float by fractions."""
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = np.array(float(exact)).astype(dtype)  # within two units of the last place
    candidates = [np.nextafter(near, dtype.type(side)) for side in (-np.inf, np.inf)] + [near[()]]
    finite = [x for x in candidates if np.isfinite(x)]
    errors = [abs(Fraction(float(x)) - exact) for x in finite]
    return [x for x, e in zip(finite, errors, strict=True) if e == min(errors)]


@pytest.mark.parametrize(
    "dtype", [np.dtype(np.float32), np.dtype(np.float16), BF16, np.dtype(np.float64)], ids=str
)
def test_fma_rounds_once(dtype):
    rng = np.random.default_rng(1)
    scale = {"float16": 3, "bfloat16": 30, "float32": 30, "float64": 300}[dtype.name]
    a, b, c = (rng.normal(size=400) * 2.0 ** rng.integers(-scale, scale, 400) for _ in range(3))
    near = rng.random(400) < 0.5
    c = np.where(near, -a * b * (1 + rng.normal(size=400) * 1e-3), c)  # that cancel nearly
    a, b, c = (x.astype(dtype) for x in (a, b, c))
    with np.errstate(all="ignore"):
        found = fma(a, b, c)
    for x, y, z, r in zip(a, b, c, found, strict=True):
        if np.isfinite(r):
            assert r in exactly(dtype, x, y, z), (x, y, z, r)


def test_doubles_become_bf16_in_one_rounding():
    half_way = 1 + 2.0**-8  # between two of bf16
    above = half_way + 2.0**-40  # in f32 it would be half-way
    assert narrowed(np.array([half_way, above, -above]), BF16).tolist() == [1.0, 1 + 2.0**-7, -1 - 2.0**-7]
    with np.errstate(over="ignore"):
        assert narrowed(np.array([np.inf, 1e300]), BF16).tolist() == [np.inf, np.inf]


def test_integers_of_64_bits_saturate():
    x = np.array([2.0**63, -(2.0**70), 2.0**64, 1e18])
    assert to_integer(x, np.dtype("i8"), "rzi").tolist() == [(1 << 63) - 1, -(1 << 63), (1 << 63) - 1, 10**18]
    assert to_integer(x, np.dtype("u8"), "rzi").tolist() == [1 << 63, 0, (1 << 64) - 1, 10**18]


def test_nans_of_32_bits_are_canonical(memory):
    body = """ld.global.b32 %r2, [%rd10];
  add.rn.f32 %r3, %r2, 0f3F800000;
  st.global.b32 [%rd10], %r3;"""
    (found,) = launch(memory, kernel(body), [np.full(32, 0xFFC12345, np.uint32)])
    assert (found == 0x7FFFFFFF).all()


# -- threads -------------------------------------------------------------------------------------------------


def test_threads_part_and_meet(memory):
    """Each thread counts the steps of its own Collatz sequence."""
    body = """  add.s32 %r2, %r1, 1;
  mov.b32 %r3, 0;
$top:
  setp.eq.b32 %p1, %r2, 1;
  @%p1 bra $done;
  add.s32 %r3, %r3, 1;
  and.b32 %r4, %r2, 1;
  setp.ne.b32 %p2, %r4, 0;
  @%p2 bra $odd;
  shr.u32 %r2, %r2, 1;
  bra.uni $top;
$odd:
  mad.lo.s32 %r2, %r2, 3, 1;
  bra.uni $top;
$done:
  st.global.b32 [%rd10], %r3;"""
    (found,) = launch(memory, kernel(body), [np.zeros(90, np.int32)], blocks=3, threads=30)

    def steps(n):
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    assert found.tolist() == [steps(n + 1) for n in range(90)]


REVERSED = """  mul.wide.u32 %rd11, %r32, 4;
  mov.b64 %rd12, box;
  add.s64 %rd13, %rd12, %rd11;
  ld.global.b32 %r2, [%rd10];
  st.shared.b32 [%rd13], %r2;
  setp.gt.u32 %p1, %r32, LIMIT;
  @%p1 bra $out;
  bar.sync 0;
  sub.s32 %r3, LIMIT, %r32;
  mul.wide.u32 %rd14, %r3, 4;
  cvta.shared.u64 %rd15, %rd12;
  add.s64 %rd16, %rd15, %rd14;
  ld.b32 %r4, [%rd16];
  st.global.b32 [%rd10], %r4;
$out:"""


@pytest.mark.parametrize("last", [63, 40])
def test_a_barrier_waits_for_those_that_live(memory, last):
    """Blocks turn their words around in shared memory; threads beyond `last` leave before the barrier."""
    text = kernel(REVERSED.replace("LIMIT", str(last)), before=".shared .align 4 .b8 box[256];")
    given = np.arange(192, dtype=np.int32)
    (found,) = launch(memory, text, [given], blocks=3, threads=64)
    wanted = given.reshape(3, 64).copy()
    wanted[:, : last + 1] = wanted[:, last::-1]
    np.testing.assert_array_equal(found.reshape(3, 64), wanted)


@pytest.mark.parametrize(
    ("mode", "lane", "bounds", "wanted"),
    [
        ("down", 4, 31, lambda n: n + 4 if n + 4 < 32 else n), ("up", 4, 0, lambda n: n - 4 if n >= 4 else n),
        ("bfly", 5, 31, lambda n: n ^ 5), ("idx", 3, 31, lambda n: 3),
        ("idx", 3, 24 << 8 | 31, lambda n: n & 24 | 3),  # in eighths
        ("down", 2, 24 << 8 | 31, lambda n: n + 2 if n % 8 < 6 else n),
    ],
)  # fmt: skip
def test_shuffles(memory, mode, lane, bounds, wanted):
    body = f"""  shfl.sync.{mode}.b32 %r2|%p1, %r1, {lane}, {bounds}, -1;
  st.global.b32 [%rd10], %r2;"""
    (found,) = launch(memory, kernel(body), [np.zeros(64, np.int32)], blocks=1, threads=64)
    assert found.tolist() == [n // 32 * 32 + wanted(n % 32) for n in range(64)]


def test_a_shuffle_waits_for_those_it_names(memory):
    """Odd threads come to the shuffle by another way, later."""
    body = """  mov.b32 %r2, %r1;
  and.b32 %r3, %r1, 1;
  setp.eq.b32 %p1, %r3, 0;
  @%p1 bra $meet;
  mul.lo.s32 %r2, %r1, 10;
  bra.uni $turn;
$meet:
  shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;
  st.global.b32 [%rd10], %r4;
  ret;
$turn:
  bra.uni $meet;"""
    (found,) = launch(memory, kernel(body), [np.zeros(32, np.int32)])
    assert found.tolist() == [10 * (n + 1) if n % 2 == 0 else n - 1 for n in range(32)]


def test_functions_are_called_from_several_places(memory):
    before = """.func (.param .align 8 .b8 func_retval0[8]) f(.param .b32 f_param_0, .param .b32 f_param_1) {
  .reg .pred %p<2>; .reg .b32 %r<5>;
  ld.param.b32 %r1, [f_param_0];
  ld.param.b32 %r2, [f_param_1];
  setp.lt.s32 %p1, %r1, %r2;
  @%p1 bra $low;
  st.param.v2.b32 [func_retval0], {%r2, %r1};
  ret;
$low:
  st.param.v2.b32 [func_retval0], {%r1, %r2};
  ret;
}"""

    def call(first, second):
        return f"""  {{ .param .b32 param0; .param .b32 param1; .param .align 8 .b8 retval0[8];
  st.param.b32 [param0], {first};
  st.param.b32 [param1], {second};
  call.uni (retval0), f, (param0, param1);
  ld.param.v2.b32 {{%r11, %r12}}, [retval0];
  }}"""

    body = f"""  setp.gt.s32 %p1, %r1, 9;
  @%p1 bra $other;
{call("%r1", "5")}
  bra.uni $end;
$other:
{call("12", "%r1")}
$end:
  mad.lo.s32 %r13, %r11, 100, %r12;
  st.global.b32 [%rd10], %r13;"""
    (found,) = launch(memory, kernel(body, before=before), [np.zeros(20, np.int32)], threads=20)
    pairs = [(n, 5) if n <= 9 else (12, n) for n in range(20)]
    assert found.tolist() == [100 * min(p) + max(p) for p in pairs]


def test_atomics(memory):
    body = """  mov.b32 %r2, 3;
  atom.global.add.u32 %r3, [%rd2], %r2;
  st.global.b32 [%rd10], %r3;
  red.global.max.s32 [%rd2+4], %r1;"""
    order, totals = launch(
        memory, kernel(body, 2), [np.zeros(64, np.int32), np.zeros(2, np.int32)], threads=64
    )
    assert totals.tolist() == [192, 63] and sorted(order) == [3 * n for n in range(64)]


def test_vectors_and_constants(memory):
    body = """  mul.wide.u32 %rd11, %r1, 16;
  add.s64 %rd12, %rd2, %rd11;
  ld.global.nc.v4.b32 {%r2, %r3, %r4, %r5}, [%rd12];
  mov.b64 %rd13, table;
  ld.global.b8 %rs1, [table+1];
  ld.global.s8 %rs2, [%rd13+2];
  cvt.s32.s16 %r6, %rs2;
  add.s32 %r7, %r2, %r5;
  add.s32 %r7, %r7, %r6;
  cvt.u32.u16 %r8, %rs1;
  add.s32 %r7, %r7, %r8;
  st.global.b32 [%rd10], %r7;"""
    text = kernel(body, 2, ".global .align 1 .b8 table[3] = {1, 200, 253};")
    given = np.arange(32, dtype=np.int32)
    found, _ = launch(memory, text, [np.zeros(8, np.int32), given], threads=8)
    assert found.tolist() == [8 * n + 3 + 200 - 3 for n in range(8)]


# -- what it refuses -----------------------------------------------------------------------------------------

REFUSED = {
    r"unknown instruction: frobnicate\.b32 %r2, %r1": "frobnicate.b32 %r2, %r1;",
    r"unknown instruction: add\.rz\.f32": "add.rz.f32 %r2, %r1, %r1;",
    "which is not aligned": "ld.global.b32 %r2, [%rd1+2];",
    "not allocated": "ld.global.b32 %r2, [%rd10+128];",
    "the same launch|one launch": "ld.global.nc.b32 %r2, [%rd10]; st.global.b32 [%rd10], %r1;",
    "shared memory at 64, of 64 bytes": "mov.b64 %rd11, box; st.shared.b32 [%rd11+64], %r1;",
    "others do not come to": "setp.eq.b32 %p1, %r1, 3; @%p1 bra $x; bar.sync 0; ret; "
    "$x: shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;",
    "came to a trap": "trap;",
    "is not a register": "add.s32 %q1, %r1, 1;",
    "a call of g": "call.uni g;",
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(memory, message):
    with pytest.raises(PtxError, match=message):
        launch(
            memory, kernel(REFUSED[message], before=".shared .align 4 .b8 box[64];"), [np.zeros(32, np.int32)]
        )
    assert memory.allocations == 0


def test_launches_are_checked(memory):
    text = HEAD + kernel("").replace(") {", ") .reqntid 64 {", 1)
    kernels = Kernels(text, memory)
    with pytest.raises(PtxError, match="wants 64"):
        kernels.launch("k", 1, 32, [0])
    with pytest.raises(PtxError, match="1 parameters, not 2"):
        kernels.launch("k", 1, 64, [0, 0])
    with pytest.raises(PtxError, match="no kernel other"):
        kernels.launch("other", 1, 64, [0])


def test_memory_is_given_again():
    memory = Memory(4096, 256)
    places = [memory.allocate(1000) for _ in range(4)]
    assert None not in places and memory.allocate(1) is None
    memory.free(places[1])
    assert memory.allocate(700) == places[1]
    with pytest.raises(PtxError, match="not allocated"):
        memory.view(places[1], 701)


def test_types_have_their_own_arithmetic():
    assert computed("add.bf16", 256, 1) == 256 and computed("add.f16", 2048, 1) == 2048
    one = ml_dtypes.bfloat16(1)
    assert computed("fma.rn.bf16", one, one, ml_dtypes.bfloat16(2.0**-9)) == 1


# -- what it counts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stride", "sectors"), [(4, 4), (8, 8), (64, 32), (0, 1)])
def test_sectors_of_a_warp(memory, stride, sectors):
    """Two warps read words that lie a stride apart; a store follows."""
    body = f"""  mul.wide.u32 %rd11, %r32, {stride};
  add.s64 %rd12, %rd2, %rd11;
  ld.global.b32 %r2, [%rd12];
  st.global.b32 [%rd10], %r2;"""
    count = memory.traffic = Traffic(memory.size)
    try:
        launch(memory, kernel(body, 2), [np.zeros(64, np.int32), np.zeros(1024, np.int32)], threads=64)
    finally:
        memory.traffic = None
    assert count.sectors == 2 * (sectors + 4) and count.asked == 2 * 64 * 4
    assert (count.loads, count.loaded) == (2, 64 * 4)
    assert count.footprint("st") == 256
    assert count.instructions == 2 * (2 + 6 + 4 + 1)  # parameters and place, the body, ret


@pytest.mark.parametrize(("stride", "wavefronts"), [(4, 1), (8, 2), (128, 32), (132, 1), (0, 1)])
def test_wavefronts_of_shared_memory(memory, stride, wavefronts):
    body = f"""  mul.wide.u32 %rd11, %r32, {stride};
  mov.b64 %rd12, box;
  add.s64 %rd13, %rd12, %rd11;
  st.shared.b32 [%rd13], %r1;"""
    count = memory.traffic = Traffic(memory.size)
    try:
        launch(memory, kernel(body, before=".shared .align 16 .b8 box[8192];"), [np.zeros(32, np.int32)])
    finally:
        memory.traffic = None
    assert count.wavefronts == wavefronts and count.sectors == 0
