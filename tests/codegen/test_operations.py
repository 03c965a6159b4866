"""Elementwise operations.

Against XLA's recorded results, against exact arithmetic, and against the linker.
"""

from __future__ import annotations

import contextlib
import platform

import elementwise
import matrix
import numpy as np
import pytest

import axla.hlo  # noqa: F401  (declares the ops)
from axla.codegen import integer, llvm
from axla.codegen.function import LlvmFunction, LlvmModule
from axla.codegen.host import host_target, one_lane_target
from axla.codegen.math import tables
from axla.codegen.object_files import symbols
from axla.codegen.value import Values, forbidden_intrinsics
from axla.core import dtypes as D
from axla.core.errors import UnsupportedError
from axla.ir.op import OPS
from axla.target.machine import cpu_target

OPCODES = {"abs", "is-finite", "real", "imag", *tables.FLOATS, *tables.COMPLEX, *integer.INTEGERS}
UNARY = sorted({o for o in OPCODES if len(OPS[o].operand_names) == 1} | {"copy"})
BINARY = sorted(o for o in OPCODES if len(OPS[o].operand_names) == 2)
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
EXACT = {
    "convert",
    "bitcast-convert",
    "negate",
    "abs",
    "reduce-precision",
    "select",
    "clamp",
    "maximum",
    "minimum",
}


def agrees(program: matrix.Program, got: np.ndarray) -> np.ndarray:
    """Which elements equal XLA's: exactly, or within the corpus' tolerance; any NaN is NaN."""
    want = program.wanted
    if not program.result.is_inexact:
        return got == want
    real = program.result.real
    close = 0.0 if program.opcode in EXACT else TOLERANCE.get(real.name, 0.0)
    slack = 0.0 if program.opcode in EXACT else float(real.finfo.smallest_normal)
    result = np.ones(want.shape, bool)
    pairs = [(got.real, want.real), (got.imag, want.imag)] if program.result.is_complex else [(got, want)]
    for a, b in pairs:
        a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = abs(a - b) <= close * abs(b) + slack
        result &= near | (a == b) | (np.isnan(a) & np.isnan(b))
    return result


def sse_target():
    """The least of x86-64."""
    if platform.machine() != "x86_64":
        pytest.skip("it runs on x86-64")
    return cpu_target("x86-64")


TARGETS = {"host": host_target, "one": one_lane_target, "sse": sse_target}


@pytest.mark.corpus
@pytest.mark.parametrize("target", TARGETS.values(), ids=[*TARGETS])
def test_corpus(target):
    """At least 99.8 % of the elements are XLA's, and all of those that are not complex."""
    target = target()
    programs = matrix.programs()
    cases = [
        elementwise.Case(
            p.name, p.operands, p.result, min(target.lanes(kind) for kind in (*p.operands, p.result)), p.body
        )
        for p in programs
    ]
    compiled = elementwise.Compiled(cases, target)
    equal = {p.name: agrees(p, compiled.run(p.name, p.inputs)) for p in programs}
    wrong = [p.name for p in programs if not p.operands[0].is_complex and not equal[p.name].all()]
    assert wrong == []
    everything = np.concatenate([ok.ravel() for ok in equal.values()])
    assert everything.mean() >= 0.998


CODE_TARGETS = [
    one_lane_target,
    *(lambda name=name: cpu_target(name) for name in ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64")),
]


@pytest.mark.parametrize(
    "target", CODE_TARGETS, ids=["one-lane", "x86-64", "x86-64-v3", "x86-64-v4", "aarch64"]
)
def test_no_library_calls(target):
    """Every operation on every element type, and every conversion, is an object that needs nobody."""
    target = target()
    module = LlvmModule(target.index_type)
    written = 0
    for kind in D.ALL:
        f = LlvmFunction(module, f"all_{kind}", "void", [("ptr", "a"), ("ptr", "b"), ("ptr", "out")])
        values = Values(f, target)
        lanes = target.lanes(kind)
        x, y = (values.load(kind, f.params[name], lanes) for name in "ab")
        results = [values.convert(x, other) for other in D.ALL]
        # Bytes that are floats are computed as f32: one function stands for all.
        narrow = kind.is_float and kind.bits < 16
        for opcode in (*UNARY, *BINARY):
            if narrow and opcode not in ("exponential", "negate", "add", "maximum"):
                continue
            with contextlib.suppress(UnsupportedError):
                results.append(values.binary(opcode, x, y) if opcode in BINARY else values.unary(opcode, x))
        for result in results:
            values.store(result, f.gep("[4096 x i8]", f.params["out"], f.index(written)))
            written += 1
        f.ret()
    assert written > 1400
    assert forbidden_intrinsics(list(module.declared), target) == []
    assert not symbols(llvm.emit_object(module.text(), target)).needed


INTEGERS = [kind for kind in D.ALL if kind.is_integer]
CORNERS = ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor"]
CORNERS += ["shift-left", "shift-right-logical", "shift-right-arithmetic"]


def bounds(kind: D.DType) -> tuple[int, int]:
    low = -(2 ** (kind.bits - 1)) if kind.is_signed else 0
    return low, low + 2**kind.bits - 1


def wrapped(number: int, kind: D.DType) -> int:
    low, _ = bounds(kind)
    return (number - low) % 2**kind.bits + low


def exact(opcode: str, a: int, b: int, kind: D.DType) -> int:
    """HLO's integer operations on Python's integers."""
    low, _ = bounds(kind)
    raw, amount = a % 2**kind.bits, b % 2**kind.bits
    signed = raw - 2**kind.bits if raw >> (kind.bits - 1) else raw
    if opcode in ("divide", "remainder"):
        if b == 0:
            return wrapped(-1, kind) if opcode == "divide" else a
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return wrapped(quotient if opcode == "divide" else a - quotient * b, kind)
    table = {
        "add": lambda: a + b,
        "subtract": lambda: a - b,
        "multiply": lambda: a * b,
        "maximum": lambda: max(a, b),
        "minimum": lambda: min(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "shift-left": lambda: raw << amount if amount < kind.bits else 0,
        "shift-right-logical": lambda: raw >> amount if amount < kind.bits else 0,
        "shift-right-arithmetic": lambda: signed >> min(amount, kind.bits - 1),
    }
    return wrapped(table[opcode](), kind)


@pytest.fixture(scope="module", params=TARGETS.values(), ids=[*TARGETS])
def integers(request):
    target = request.param()
    cases = [
        elementwise.Case(
            f"{op}_{kind}",
            (kind, kind),
            kind,
            target.lanes(kind),
            lambda values, a, b, op=op: values.binary(op, a, b),
        )
        for op in CORNERS
        for kind in INTEGERS
    ]
    return elementwise.Compiled(cases, target)


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integer_corners(integers, kind):
    low, high = bounds(kind)
    rng = np.random.default_rng(11)
    interesting = {
        low,
        low + 1,
        high,
        high - 1,
        0,
        1,
        min(high, 2),
        min(high, 3),
        max(low, -1),
        min(high, kind.bits),
    }
    interesting |= {wrapped(int(v), kind) for v in rng.integers(-(2**62), 2**62, 12)}
    interesting = {number for number in interesting if low <= number <= high}
    pairs = [(a, b) for a in sorted(interesting) for b in sorted(interesting)]
    base = np.int64 if kind.is_signed else np.uint64
    x, y = (np.array([pair[k] for pair in pairs], base).astype(kind.numpy) for k in (0, 1))
    for opcode in CORNERS:
        got = [int(v) for v in integers.run(f"{opcode}_{kind}", [x, y])]
        want = [exact(opcode, a, b, kind) for a, b in pairs]
        assert got == want, (
            opcode,
            [(p, g, w) for p, g, w in zip(pairs, got, want, strict=True) if g != w][:5],
        )


def test_total_order_sorts_all_floats():
    """-NaN < -inf < numbers < -0 < +0 < numbers < inf < NaN, at one lane and many."""
    order = np.array([-np.nan, -np.inf, -1.0, -1e-310, -0.0, 0.0, 1e-310, 1.0, np.inf, np.nan])
    directions = {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
    }
    for target in (host_target(), one_lane_target()):
        cases = [
            elementwise.Case(
                name, (D.F64, D.F64), D.PRED, target.lanes(D.F64),
                lambda values, a, b, name=name: values.compare(name, a, b, total_order=True),
            )
            for name in directions
        ]  # fmt: skip
        compiled = elementwise.Compiled(cases, target)
        i, j = (index.ravel() for index in np.meshgrid(range(10), range(10), indexing="ij"))
        for name, compare in directions.items():
            assert (compiled.run(name, [order[i], order[j]]) == compare(i, j)).all(), name


def test_maximum_and_minimum_of_zeros_and_nan():
    target = host_target()
    x = np.array([-0.0, 0.0, np.nan, 1.0, np.nan, -np.inf], np.float32)
    y = np.array([0.0, -0.0, 1.0, np.nan, np.nan, np.inf], np.float32)
    cases = [
        elementwise.Case(op, (D.F32, D.F32), D.F32, 16, lambda values, a, b, op=op: values.binary(op, a, b))
        for op in ("maximum", "minimum")
    ]
    compiled = elementwise.Compiled(cases, target)
    largest, least = compiled.run("maximum", [x, y]), compiled.run("minimum", [x, y])
    np.testing.assert_array_equal(largest, np.array([0, 0, np.nan, np.nan, np.nan, np.inf], np.float32))
    np.testing.assert_array_equal(least, np.array([0, 0, np.nan, np.nan, np.nan, -np.inf], np.float32))
    assert not np.signbit(largest[:2]).any()
    assert np.signbit(least[:2]).all()


def test_a_uniform_operand_meets_a_vector():
    """One lane is splatted to many in every kind of operation, complex included."""
    target = host_target()

    def body(values: Values, x):
        two = values.constant(D.C64, 2 - 1j)
        half = values.complex(values.constant(D.F32, 0.5), values.constant(D.F32, 0.0))
        product = values.binary("multiply", two, x)
        chosen = values.select(values.constant(D.PRED, True), product, half)
        return values.select(values.compare("NE", x, two), chosen, half)

    compiled = elementwise.Compiled([elementwise.Case("f", (D.C64,), D.C64, 16, body)], target)
    x = (np.arange(32) + 1j * np.arange(32)[::-1]).astype(np.complex64)
    np.testing.assert_allclose(compiled.run("f", [x]), x * np.complex64(2 - 1j), rtol=1e-6)


def test_an_operation_on_the_wrong_type_is_refused_by_name():
    target = host_target()
    f = LlvmFunction(LlvmModule(), "f", "void", [("ptr", "a")])
    values = Values(f, target)
    x, z = values.load(D.F32, f.params["a"], 4), values.load(D.C64, f.params["a"], 4)
    with pytest.raises(UnsupportedError, match="popcnt.*f32"):
        values.unary("popcnt", x)
    with pytest.raises(UnsupportedError, match="remainder.*c64"):
        values.binary("remainder", z, z)
    with pytest.raises(UnsupportedError, match="f32 and c64"):
        values.binary("add", x, z)
    with pytest.raises(UnsupportedError, match="GT.*c64"):
        values.compare("GT", z, z)
    with pytest.raises(UnsupportedError, match="f32 to f64"):
        values.bitcast_convert(x, D.F64)
