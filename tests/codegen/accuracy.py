"""Measures the errors of vector math functions against the true values.

Samples, references, units in the last place, promised bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import elementwise
import numpy as np

from axla.core import dtypes as D
from axla.target.machine import Target

# The largest error in ulps that documentation promises, by operation: (f32, f64), on every target.
BOUNDS = {
    "exponential": (1.2, 1.2),
    "exponential-minus-one": (1.6, 2.0),
    "log": (1.0, 1.0),
    "log-plus-one": (1.0, 1.0),
    "logistic": (2.5, 2.5),
    "tanh": (5.5, 3.0),
    "erf": (7.0, 2.1),
    "sine": (2.0, 2.6),
    "cosine": (2.0, 2.6),
    "tan": (4.0, 4.5),
    "sqrt": (0.5, 0.5),
    "rsqrt": (1.6, 1.6),
    "cbrt": (1.0, 1.0),
    "sinh": (2.6, 2.6),
    "cosh": (2.0, 2.0),
    "asinh": (2.0, 2.0),
    "acosh": (2.6, 2.6),
    "atanh": (2.2, 2.2),
    "asin": (3.2, 3.4),
    "acos": (2.8, 3.2),
    "power": (0.6, 2.0),
    "atan2": (2.0, 2.6),
    "remainder": (0.0, 0.0),
}
_NUMPY = {
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "tanh": np.tanh,
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "power": np.power,
    "atan2": np.arctan2,
    "remainder": np.fmod,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
}
WIDE = np.longdouble
HAS_WIDE = np.finfo(WIDE).nmant >= 63


def reference(opcode: str, operands: list[np.ndarray]) -> np.ndarray:
    """The results, to more digits than the operands have."""
    single = operands[0].dtype == np.float32
    if opcode == "erf":
        from scipy import special

        return special.erf(operands[0].astype(np.float64)) if single else _erf(operands[0])
    if opcode == "remainder":
        return np.fmod(*operands).astype(WIDE)
    # f64 is wide enough for f32, except where functions of f64 themselves err by more than f64's half ulp
    # of f32's.
    wide = np.float64 if single and not HAS_WIDE else WIDE
    return _NUMPY[opcode](*[operand.astype(wide) for operand in operands]).astype(WIDE)


def _erf(x: np.ndarray) -> np.ndarray:
    import mpmath

    with mpmath.workdps(30):
        return np.array(
            [WIDE(mpmath.nstr(mpmath.erf(mpmath.mpf(float(v))), 25)) if v == v else np.nan for v in x]
        )


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units of the last place of the result.

    Infinite where one is NaN and the other is not.
    """
    kind = got.dtype.type
    with np.errstate(all="ignore"):
        near = want.astype(kind)
        unit = np.spacing(np.minimum(abs(near), np.finfo(kind).max)).astype(WIDE)
        error = abs(got.astype(WIDE) - want) / unit
    error = np.where((got == near) & ~np.isfinite(error), 0, error)
    error = np.where(np.isnan(got) & np.isnan(want), 0, error)
    return np.where(np.isnan(error), np.inf, error).astype(np.float64)


def _ranges(opcode: str, top: float) -> list[tuple[float, float]]:
    """Where a function is interesting, beside all exponents."""
    turns = [(-10, 10), (-1e3, 1e3), (-1e6, 1e6)]
    table = {
        "exponential": [(-1.17 * top, top), (-1, 1)], "exponential-minus-one": [(-40, top), (-1, 1)],
        "logistic": [(-1.17 * top, 20), (-4, 4)], "tanh": [(-20, 20), (-1, 1)], "erf": [(-6, 6), (-1, 1)],
        "sine": turns, "cosine": turns, "tan": turns, "log": [(0.5, 2)], "log-plus-one": [(-1, 2)],
        "sinh": [(-top, top), (-2, 2)], "cosh": [(-top, top)], "acosh": [(1, 3)], "atanh": [(-1, 1)],
        "asin": [(-1, 1)], "acos": [(-1, 1)],
    }  # fmt: skip
    return table.get(opcode, [(-4, 4)])


def samples(opcode: str, kind: D.DType, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Operands.

    Uniform in the interesting ranges, and bit patterns of all numbers, denormals and NaN included.
    """
    number = kind.numpy.type

    def any_bits() -> np.ndarray:
        return rng.integers(0, 2**kind.bits, count, dtype=np.uint64).astype(f"u{kind.itemsize}").view(number)

    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    if opcode == "power":
        x = [np.exp(rng.uniform(-10, 10, count)), any_bits(), rng.uniform(0.9, 1.1, count)]
        y = [rng.uniform(-8, 8, count), rng.uniform(-3, 3, count), rng.uniform(-800, 800, count)]
    elif opcode in ("atan2", "remainder"):
        x, y = ([any_bits(), rng.uniform(-9, 9, count)] for _ in range(2))
    else:
        top = 88.0 if kind.bits == 32 else 709.0
        inside = [rng.uniform(low, high, count) for low, high in _ranges(opcode, top)]
        small = np.exp(rng.uniform(np.log(1e-30), np.log(1e3), count)) * rng.choice([-1, 1], count)
        return [np.concatenate([*inside, any_bits(), small, special]).astype(number)]
    pairs = [(a, b) for a in special for b in [*special, 0.5, 2.0, -3.0]]
    x.append(np.array([a for a, _ in pairs]))
    y.append(np.array([b for _, b in pairs]))
    return [np.concatenate([part.astype(number) for part in parts]) for parts in (x, y)]


@dataclass(frozen=True)
class Measurement:
    opcode: str
    kind: D.DType
    worst: float
    mean: float
    operands: tuple[float, ...]  # where the worst error is


def measure(
    target: Target, count: int, kinds: tuple[D.DType, ...] = (D.F32, D.F64), seed: int = 1
) -> Iterator[Measurement]:
    """The errors of all functions on a target."""
    if not HAS_WIDE:
        kinds = tuple(kind for kind in kinds if kind is D.F32)
    cases = [_case(opcode, kind, target) for kind in kinds for opcode in BOUNDS]
    compiled = elementwise.Compiled(cases, target)
    rng = np.random.default_rng(seed)
    for case in cases:
        opcode, kind = case.name.rsplit("_", 1)[0], case.result
        # True values of erf come from a slow library.
        few = min(count, 3000) if opcode == "erf" and kind is D.F64 else count
        operands = samples(opcode, kind, few, rng)
        with np.errstate(all="ignore"):
            want = reference(opcode, operands)
        error = ulps(compiled.run(case.name, operands), want)
        worst = int(np.argmax(error))
        where = tuple(float(operand[worst]) for operand in operands)
        yield Measurement(opcode, kind, float(error[worst]), float(error.mean()), where)


def _case(opcode: str, kind: D.DType, target: Target) -> elementwise.Case:
    if opcode in ("power", "atan2", "remainder"):
        operands, body = (kind, kind), lambda values, a, b: values.binary(opcode, a, b)
    else:
        operands, body = (kind,), lambda values, x: values.unary(opcode, x)
    return elementwise.Case(f"{opcode}_{kind}", operands, kind, target.lanes(kind), body)
