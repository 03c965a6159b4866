"""Builder functions that are composed of several ops, as no HLO opcode exists for them.

f16 and bf16 are computed in f32. The error functions follow Cephes and M. Giles; the gamma functions use the
Lanczos approximation with g = 7. The tests measure their errors.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence

import numpy as np

import axla.hlo as hlo
from axla.builder import elementwise as e
from axla.builder.broadcasting import full, scalars_to
from axla.builder.coerce import array, operands
from axla.builder.values import boolean
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BF16, F16, F32, F64
from axla.hlo.family import show
from axla.ir.op import Op

OpFunction = Callable[..., XlaOp]


def floats(function: OpFunction) -> OpFunction:
    """A decorator for functions of f32 and f64 arrays. f16 and bf16 operands are computed in f32, other
    element types are refused. Operands must have the same element type and sizes; scalars are broadcast.
    """
    name, signature = function.__name__, inspect.signature(function)

    @functools.wraps(function)
    def wrapped(*given: object, **named: object) -> XlaOp:
        values = _alike(name, signature.bind(*given, **named).args)
        value = values[0]
        dtype = value.dtype
        if dtype in (F16, BF16):
            return e.ConvertElementType(function(*[e.ConvertElementType(v, F32) for v in values]), dtype)
        if dtype not in (F32, F64):
            value.builder.fail(name, values, f"{name}: wanted f16, bf16, f32 or f64, found {dtype}")
        return function(*values)

    return wrapped


def _alike(name: str, given: Sequence[object]) -> list[XlaOp]:
    if len(given) == 1:
        return [array(name, given[0])[0]]
    values = [array(name, v)[0] for v in operands(name, *given)]
    sized = next((v for v in values if v.shape.rank), values[0])
    values = [scalars_to(sized, v) for v in values]
    if any(v.shape.logical is not values[0].shape.logical for v in values):
        found = ", ".join(show(v.shape) for v in values)
        sized.builder.fail(name, values, f"{name}: wanted arrays of one type and size, found {found}")
    return values


def Square(operand: object) -> XlaOp:
    """Returns x * x."""
    value, _ = array("Square", operand)
    return value * value


def Reciprocal(operand: object) -> XlaOp:
    """Returns 1 / x."""
    value, _ = array("Reciprocal", operand)
    return 1 / value


def Conj(operand: object) -> XlaOp:
    """The complex conjugate; a real operand is returned unchanged."""
    value, shape = array("Conj", operand)
    return e.Complex(e.Real(value), -e.Imag(value)) if shape.dtype.is_complex else value


def Atan(operand: object) -> XlaOp:
    """The inverse tangent of each element."""
    value, _ = array("Atan", operand)
    return e.Atan2(value, 1)


def _native(op: Op) -> OpFunction:
    name = type(op).__name__

    def function(operand: object, result_accuracy: object = None, expand: bool = False) -> XlaOp:
        e.check_accuracy(name, result_accuracy)
        boolean(expand, f"{name}: expand")
        value, _ = array(name, operand)
        return value.builder.add(op, (value,))

    return e.named(function, name, op)


Acos = _native(hlo.Acos())
Acosh = _native(hlo.Acosh())
Asin = _native(hlo.Asin())
Asinh = _native(hlo.Asinh())
Atanh = _native(hlo.Atanh())
Cosh = _native(hlo.Cosh())
Sinh = _native(hlo.Sinh())


def polynomial(x: XlaOp, coefficients: Sequence[float]) -> XlaOp:
    """Evaluates a polynomial in x with Horner's scheme. `coefficients` begin with that of the highest power;
    at least two.
    """
    first, second, *rest = coefficients
    result = x * first + second
    for coefficient in rest:
        result = result * x + coefficient
    return result


# By dtype: k, s and the coefficients of a polynomial in x k / (x + k) - s that approximates exp(x^2) erfc(x)
# (x + k) / k. It holds for x below 10.1 (f32) or 27.4 (f64); above, erfc(x) rounds to 0.
_ERFC = {
    F32: (1.5, 0.0, (
        -0.000923708, 0.005128659, -0.010680067, 0.012161261, -0.010977061, 0.002090887, 0.0014032426,
        0.021052176, 0.039521128, -0.06006056, -0.4617125, 1.0,
    )),
    F64: (4.0, 2.0, (
        -3.9147733638863076e-16, -3.5962085933613714e-15, 4.886815972788643e-15, 1.2184854163967164e-13,
        -1.6469955448242821e-13, -3.252161188985601e-12, 1.0917715851778958e-11, 7.170658910790771e-11,
        -5.756661538656275e-10, -2.220072245881744e-10, 2.158366553479383e-08, -1.1109670319676881e-07,
        -1.3718698205481265e-07, 5.968804258700145e-06, -5.1504010420742204e-05, 0.0002983652926486929,
        -0.0013594604471878777, 0.005169556060587504, -0.01690168222853864, 0.04832554389157779,
        -0.12206859113511025, 0.27399891525012277,
    )),
}  # fmt: skip


@floats
def Erfc(x: XlaOp) -> XlaOp:
    """Computes 1 - erf(x), without the loss of digits where erf(x) is near 1."""
    k, shift, coefficients = _ERFC[x.dtype]
    size = e.Select(abs(x) > 40.0, 40.0, abs(x))  # a NaN stays NaN
    part = k / (size + k)
    tail = _exp_of_minus_square(size) * (polynomial(size * part - shift, coefficients) * part)
    return e.Select(x < 0.0, 2.0 - tail, tail)


def _exp_of_minus_square(x: XlaOp) -> XlaOp:
    """Computes exp(-x^2). The rounding error of x^2 would become a relative error of the result, so it is
    computed from exact products of the upper and lower half of x, and corrected.
    """
    bits = (np.int32, 12) if x.dtype is F32 else (np.int64, 27)
    mask = np.array(-(1 << bits[1]), bits[0])
    high = e.BitcastConvertType(e.BitcastConvertType(x, bits[0]) & mask, x.dtype)
    square = x * x
    error = (high * high - square) + (x + high) * (x - high)
    found = e.Exp(-square)
    return found - found * error


# Coefficients of M. Giles, Approximating the erfinv function: single precision; polynomials in w - 2.5 and
# sqrt(w) - 3, where w = -log(1 - x^2).
_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


@floats
def ErfInv(x: XlaOp) -> XlaOp:
    """The inverse of erf: the y with erf(y) = x. Infinite at x = -1 and 1."""
    w = -e.Log((1.0 - x) * (1.0 + x))  # near |x| = 1, 1 - x * x would lose digits
    guess = x * e.Select(w < 5.0, polynomial(w - 2.5, _CENTRAL), polynomial(e.Sqrt(w) - 3.0, _TAIL))
    if x.dtype is F64:
        for _ in range(2):  # the guess has 7 digits; each step of Halley's method triples them
            guess = _erf_inv_step(x, guess)
    return e.Select(abs(x) == 1.0, x * math.inf, guess)


def _erf_inv_step(x: XlaOp, y: XlaOp) -> XlaOp:
    # For |x| near 1, erf(y) - x is computed as (1 - x) - erfc(y): both terms are small and have all their
    # digits.
    size = abs(y)
    error = e.Select(abs(x) < 0.5, e.Erf(size) - abs(x), (1.0 - abs(x)) - Erfc(size))
    step = error / ((2.0 / math.sqrt(math.pi)) * _exp_of_minus_square(size))
    refined = size - step / (1.0 + size * step)
    return e.Select(x < 0.0, -refined, refined)


_LANCZOS = (
    676.520368121885098567, -1259.13921672240287047, 771.323428777653078849, -176.615029162140599066,
    12.5073432786869048145, -0.138571095265720116896, 9.98436957801957085957e-6, 1.50563273514931155834e-7,
)  # fmt: skip
_BASE = 0.999999999999809932277


@floats
def Lgamma(x: XlaOp) -> XlaOp:
    """Computes log|gamma(x)|; infinite at 0 and the negative integers."""
    reflect = x < 0.5
    z = e.Select(reflect, -x, x - 1.0)
    series, t = _lanczos(z), z + 7.5
    # log t is computed as log 7.5 + log1p(z / 7.5), which keeps the digits of small z.
    log_t = math.log(7.5) + e.Log1p(z / 7.5)
    value = 0.5 * math.log(2 * math.pi) + (z + 0.5 - t / log_t) * log_t + e.Log(series)
    size = abs(x)
    fraction = size - e.Floor(size)
    sine = e.Sin(math.pi * e.Select(fraction > 0.5, 1.0 - fraction, fraction))
    reflected = math.log(math.pi) - e.Log(sine) - value
    result = e.Select(reflect, e.Select(e.IsFinite(e.Log(sine)), reflected, -e.Log(sine)), value)
    result = e.Select((x == 1.0) | (x == 2.0), 0.0, result)
    return e.Select(size == math.inf, math.inf, result)


def _lanczos(z: XlaOp) -> XlaOp:
    series = full(z, _BASE)
    for k, coefficient in enumerate(_LANCZOS):
        series = series + coefficient / (z + float(k + 1))
    return series


@floats
def Digamma(x: XlaOp) -> XlaOp:
    """The derivative of log(gamma(x)); NaN at 0 and the negative integers."""
    reflect = x < 0.5
    z = e.Select(reflect, -x, x - 1.0)
    slope = full(z, 0.0)
    for k, coefficient in enumerate(_LANCZOS):
        term = z + float(k + 1)
        slope = slope - coefficient / (term * term)
    t = z + 7.5
    value = math.log(7.5) + e.Log1p(z / 7.5) + slope / _lanczos(z) - 7.0 / t
    # cot(pi x) is computed from the distance of x to the nearest integer, since pi x would be rounded.
    distance = x - e.Floor(x + 0.5)
    reflected = value - math.pi * e.Cos(math.pi * distance) / e.Sin(math.pi * distance)
    result = e.Select(reflect, reflected, value)
    return e.Select((x <= 0.0) & (x == e.Floor(x)), math.nan, result)


def NextAfter(from_: object, to: object) -> XlaOp:
    """The nearest floating-point number to `from_` in the direction of `to`; `to` itself if both are
    equal.
    """
    x, y = operands("NextAfter", from_, to)
    dtype = array("NextAfter", x)[1].dtype
    if not dtype.is_float or dtype.bits not in (16, 32, 64) or array("NextAfter", y)[1].dtype is not dtype:
        wanted = "two arrays of one type f16, bf16, f32 or f64"
        x.builder.fail("NextAfter", (x, y), f"NextAfter: wanted {wanted}, found {x.dtype} and {y.dtype}")
    integer = np.dtype(f"int{dtype.bits}")
    bits, sign_bit = e.BitcastConvertType(x, integer), np.array(1 << (dtype.bits - 1)).astype(integer)
    magnitude = bits & ~sign_bit
    target = e.BitcastConvertType(y, integer)
    x_is_zero, to_zero = magnitude == 0, (target & ~sign_bit) == 0
    # The magnitude of x grows if the signs agree and |to| is larger, else it shrinks. From zero, the result
    # is the smallest number with the sign of `to`.
    smallest = (target & sign_bit) | np.array(1, integer)
    shrink = ((bits & sign_bit) != (target & sign_bit)) | (magnitude > (target & ~sign_bit))
    moved = bits + e.Select(shrink, np.array(-1, integer), np.array(1, integer))
    moved = e.Select(x_is_zero, e.Select(to_zero, target, smallest), moved)
    result = e.BitcastConvertType(e.Select(x == y, target, moved), dtype)
    return e.Select((x == x) & (y == y), result, np.array(math.nan).astype(dtype.numpy))
