"""Vector math stays within its documented errors, special values included, on every kind of target."""

from __future__ import annotations

import accuracy
import elementwise
import numpy as np
import pytest

import axla
from axla.codegen.host import host_target, one_lane_target
from axla.core import dtypes as D
from axla.target.machine import cpu_target

pytest.importorskip("mpmath")
pytest.importorskip("scipy")

TARGETS = {"host": host_target, "one-lane": one_lane_target, "x86-64": lambda: cpu_target("x86-64")}


@pytest.mark.parametrize("target", TARGETS)
def test_errors_are_as_documented(target):
    found = list(accuracy.measure(TARGETS[target](), 6000))
    assert len(found) >= len(accuracy.BOUNDS)
    bound = {D.F32: 0, D.F64: 1}
    wrong = [m for m in found if not m.worst <= accuracy.BOUNDS[m.opcode][bound[m.kind]]]
    assert wrong == []


@pytest.mark.parametrize("kind", [D.F32, D.F64], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_trigonometry_of_multiples_of_a_quarter_turn(target, kind):
    """Where most digits of the argument cancel: near k pi / 2 for k of all sizes."""
    import mpmath

    target = TARGETS[target]()
    rng = np.random.default_rng(5)
    top = 120 if kind is D.F32 else 1000
    with mpmath.workprec(1300):
        near = [float(mpmath.pi / 2 * int(2 ** float(p))) for p in rng.uniform(0, top, 300)]
        x = np.array(near).astype(kind.numpy)
        true = {
            "sine": [float(mpmath.sin(mpmath.mpf(float(v)))) for v in x],
            "cosine": [float(mpmath.cos(mpmath.mpf(float(v)))) for v in x],
        }
    cases = [
        elementwise.Case(op, (kind,), kind, target.lanes(kind), lambda values, x, op=op: values.unary(op, x))
        for op in true
    ]
    compiled = elementwise.Compiled(cases, target)
    for op, want in true.items():
        error = accuracy.ulps(compiled.run(op, [x]), np.array(want, accuracy.WIDE))
        assert error.max() <= 3.0, (op, x[np.argmax(error)])


def test_power_at_special_operands():
    """C's table.

    Every pair of zeros, ones, infinities, NaN, odd, even and fractional numbers, of both signs.
    """
    special = [0.0, 1.0, np.inf, np.nan, 0.5, 2.0, 3.0, 1e30, 1e-30]
    special += [-v for v in special]
    for kind in (D.F32, D.F64):
        x = np.repeat(np.array(special, kind.numpy), len(special))
        y = np.tile(np.array(special, kind.numpy), len(special))
        for target in (host_target(), cpu_target("x86-64")):
            case = elementwise.Case(
                "pow",
                (kind, kind),
                kind,
                target.lanes(kind),
                lambda values, a, b: values.binary("power", a, b),
            )
            got = elementwise.Compiled([case], target).run("pow", [x, y])
            with np.errstate(all="ignore"):
                want = np.power(x, y)
            same = (np.isnan(got) & np.isnan(want)) | (
                np.isclose(got, want, rtol=1e-6) & (np.signbit(got) == np.signbit(want))
            )
            assert same.all(), [(x[k], y[k], got[k], want[k]) for k in np.flatnonzero(~same)[:5]]


def test_signed_zeros_and_denormals_survive():
    """Odd functions keep -0 and tiny numbers, which they equal there."""
    odd = [
        "exponential-minus-one",
        "log-plus-one",
        "tanh",
        "sine",
        "tan",
        "cbrt",
        "sinh",
        "asinh",
        "atanh",
        "asin",
        "erf",
    ]
    for target in (host_target(), one_lane_target()):
        cases = [
            elementwise.Case(
                f"{op}_{kind}",
                (kind,),
                kind,
                target.lanes(kind),
                lambda values, x, op=op: values.unary(op, x),
            )
            for op in odd
            for kind in (D.F32, D.F64)
        ]
        compiled = elementwise.Compiled(cases, target)
        for kind in (D.F32, D.F64):
            tiny = np.finfo(kind.numpy).smallest_subnormal
            x = np.array([-0.0, 0.0, tiny, -tiny, 5 * tiny], kind.numpy)
            for op in odd:
                got = compiled.run(f"{op}_{kind}", [x])
                assert (np.signbit(got) == np.signbit(x)).all(), (op, kind)
                assert (got[:2] == 0).all(), (op, kind)
                if op not in ("cbrt", "erf"):
                    assert (got == x).all(), (op, kind, got)


def test_complex_functions_against_numpy():
    rng = np.random.default_rng(2)
    z = (rng.normal(size=200) * 3 + 1j * rng.normal(size=200) * 3).astype(np.complex128)
    w = (rng.normal(size=200) + 1j * rng.normal(size=200)).astype(np.complex128)
    unary = {
        "exponential": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "sine": np.sin,
        "cosine": np.cos,
        "tan": np.tan,
        "tanh": np.tanh,
        "sinh": np.sinh,
        "cosh": np.cosh,
        "sign": lambda v: v / abs(v),
        "exponential-minus-one": np.expm1,
        "log-plus-one": np.log1p,
        "logistic": lambda v: 1 / (1 + np.exp(-v)),
        "cbrt": lambda v: np.exp(np.log(v) / 3),
    }
    binary = {"divide": np.divide, "multiply": np.multiply, "power": np.power}
    for target in (host_target(), cpu_target("x86-64")):
        lanes = target.lanes(D.C128)
        cases = [
            elementwise.Case(op, (D.C128,), D.C128, lanes, lambda v, x, op=op: v.unary(op, x)) for op in unary
        ]
        cases += [
            elementwise.Case(op, (D.C128, D.C128), D.C128, lanes, lambda v, x, y, op=op: v.binary(op, x, y))
            for op in binary
        ]
        cases.append(elementwise.Case("abs", (D.C128,), D.F64, lanes, lambda v, x: v.unary("abs", x)))
        compiled = elementwise.Compiled(cases, target)
        for op, want in unary.items():
            np.testing.assert_allclose(compiled.run(op, [z]), want(z), rtol=2e-13, err_msg=op)
        for op, want in binary.items():
            np.testing.assert_allclose(compiled.run(op, [z, w]), want(z, w), rtol=2e-13, err_msg=op)
        np.testing.assert_allclose(compiled.run("abs", [z]), abs(z), rtol=1e-15)


def test_complex_modulus_and_root_do_not_overflow():
    target = host_target()
    cases = [
        elementwise.Case("abs", (D.C64,), D.F32, 8, lambda v, x: v.unary("abs", x)),
        elementwise.Case("sqrt", (D.C64,), D.C64, 8, lambda v, x: v.unary("sqrt", x)),
        elementwise.Case("log", (D.C64,), D.C64, 8, lambda v, x: v.unary("log", x)),
    ]
    compiled = elementwise.Compiled(cases, target)
    z = np.array(
        [2e38 + 2e38j, 3e-45 - 4e-45j, 1e-30 + 1e-30j, 0.6 + 0.8j, 3.4e38 - 3.4e38j, -1e-40 + 0j],
        np.complex64,
    )
    wide = z.astype(np.complex128)
    np.testing.assert_allclose(compiled.run("abs", [z]), np.abs(wide).astype(np.float32), rtol=3e-7)
    np.testing.assert_allclose(compiled.run("sqrt", [z]), np.sqrt(wide).astype(np.complex64), rtol=5e-7)
    log = compiled.run("log", [z])
    np.testing.assert_allclose(log.real, np.log(abs(wide)), rtol=1e-6)
    np.testing.assert_allclose(log.imag, np.angle(wide), rtol=5e-7)


INF, NAN = float("inf"), float("nan")
# What XLA:CPU (jaxlib 0.10.2) gives. A NaN in a part: that part is NaN, or the other one.
COMPLEX_CORNERS = [
    ("power", (0j, 1 + 1j), complex(NAN, NAN)),
    ("power", (0j, 2 + 0j), 0j),
    ("power", (1 + 0j, complex(INF, NAN)), 1 + 0j),
    ("power", (complex(INF, 0), -2 + 0j), 0j),
    ("power", (complex(INF, 0), 0.5 + 0j), complex(INF, 0)),
    ("divide", (complex(1, INF), 0j), complex(INF, INF)),
    ("divide", (complex(INF, 1), complex(-0.0, 0.0)), complex(-INF, -INF)),
    ("atan2", (1e30 + 0j, 0j), complex(NAN, INF)),
    ("exponential", (complex(-INF, INF),), complex(NAN, NAN)),
    ("exponential", (complex(-INF, 1),), 0j),
    ("exponential-minus-one", (complex(INF, 0),), complex(INF, 0)),
    ("rsqrt", (complex(INF, NAN),), 0j),
    ("cosine", (complex(0, INF),), complex(INF, 0)),
    ("cosine", (complex(-0.0, -INF),), complex(INF, 0)),
    ("cosine", (complex(INF, 1),), complex(NAN, NAN)),
    ("sine", (complex(0, INF),), complex(0, INF)),
    ("tan", (complex(1, -INF),), complex(0, -1)),
    ("tanh", (complex(-1e30, INF),), complex(NAN, NAN)),
]


@pytest.mark.parametrize(("opcode", "operands", "wanted"), COMPLEX_CORNERS)
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_complex_functions_at_infinities(backend, opcode, operands, wanted):
    names = [f"p{k}" for k in range(len(operands))]
    parameters = "".join(f"{n} = c64[1] parameter({k})\n" for k, n in enumerate(names))
    program = axla.compile(
        axla.parse(f"ENTRY e {{\n{parameters}ROOT r = c64[1] {opcode}({', '.join(names)})\n}}"),
        backend=backend,
    )
    found = np.asarray(program.execute([np.array([z], np.complex64) for z in operands])[0])[0]
    if np.isnan(wanted.real) or np.isnan(wanted.imag):
        assert np.isnan(found.real) or np.isnan(found.imag)
    else:
        assert (found.real, found.imag) == (wanted.real, wanted.imag)


# Zeros have the signs of C's annex G on both backends: conjugates go to conjugates. XLA:CPU takes -0 for 0 in
# places, which costs it the branch of sqrt(-1-0i).
SIGNED_ZEROS = [
    ("exponential", complex(-INF, -1), complex(0.0, -0.0)),
    ("exponential", complex(-INF, 2), complex(-0.0, 0.0)),
    ("exponential", complex(1, -0.0), complex(np.e, -0.0)),
    ("cosine", complex(0, INF), complex(INF, -0.0)),
    ("cosine", complex(-0.0, INF), complex(INF, 0.0)),
    ("cosine", complex(0, 1), complex(np.cosh(1), -0.0)),
    ("sine", complex(-0.0, 1), complex(-0.0, np.sinh(1))),
    ("tanh", complex(1, -0.0), complex(np.tanh(1), -0.0)),
    ("sqrt", complex(-1, -0.0), complex(0.0, -1)),
]


@pytest.mark.parametrize(("opcode", "operand", "wanted"), SIGNED_ZEROS)
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_signs_of_zeros_of_complex_functions(backend, opcode, operand, wanted):
    text = f"ENTRY e {{ p = c128[1] parameter(0)\n ROOT r = c128[1] {opcode}(p) }}"
    found = np.asarray(axla.compile(axla.parse(text), backend=backend)(np.array([operand])))[0]
    for one, other in ((found.real, wanted.real), (found.imag, wanted.imag)):
        assert np.isclose(one, other, rtol=1e-15) and np.signbit(one) == np.signbit(other)


def test_exp_where_no_number_is_left():
    """Down to the smallest number, and 0 from there on: below, nothing is computed."""
    for target in (host_target(), cpu_target("x86-64")):
        for kind, least in ((D.F32, 104), (D.F64, 745.5)):
            case = elementwise.Case(
                "exp", (kind,), kind, target.lanes(kind), lambda v, x: v.unary("exponential", x)
            )
            below = -least - np.array([-0.6, -0.2, -0.03, 0, 0.03, 1, 100, 1e9, np.inf])
            x = np.array([*below, np.nan, 0, -87.5], kind.numpy)
            found = elementwise.Compiled([case], target).run("exp", [x])
            with np.errstate(under="ignore"):
                wanted = np.exp(x.astype(np.longdouble)).astype(kind.numpy)
            tiny = np.finfo(kind.numpy).smallest_subnormal
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=tiny)
            assert (found[5:9] == 0).all()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("opcode", ["sine", "cosine", "tan"])
def test_a_number_alone_has_the_bits_that_it_has_in_a_vector(opcode, dtype):
    kind = np.float32 if dtype == "f32" else np.float64
    near = np.pi / 4 + np.array([-1e-3, -1e-7, 0, 1e-7, 1e-3])
    given = [0.0, 1e-30, 0.5, 0.785, np.nextafter(kind(0.785), kind(1)), *near, 2.0, 31.4, 1e5, 1e22, np.inf]
    given = np.array([*given, *np.negative(given), np.nan], kind)
    text = "ENTRY e {{ x = {0}{1} parameter(0)  ROOT y = {0}{1} {2}(x) }}"
    vector, number = (
        axla.compile(axla.parse(text.format(dtype, dims, opcode))) for dims in (f"[{given.size}]", "[]")
    )
    wanted = np.asarray(vector(given))
    found = np.array([np.asarray(number(x)) for x in given])
    np.testing.assert_array_equal(found.view(f"u{kind().itemsize}"), wanted.view(f"u{kind().itemsize}"))
