"""Functions that XLA's builder composes from ops: no opcode stands for them.

f16 and bf16 are computed in f32. Sources: error functions after Cephes and M. Giles, the gamma functions by
the Lanczos approximation with g = 7; the errors stated were measured by the tests.
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

Function = Callable[..., XlaOp]


def floats(function: Function) -> Function:
    """For f32 and f64; f16 and bf16 through f32; others are refused. Several operands must be of one type and
    size; scalars fit every size.
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
    """x * x."""
    value, _ = array("Square", operand)
    return value * value


def Reciprocal(operand: object) -> XlaOp:
    """1 / x."""
    value, _ = array("Reciprocal", operand)
    return 1 / value


def Conj(operand: object) -> XlaOp:
    """The complex conjugate; a real number is its own."""
    value, shape = array("Conj", operand)
    return e.Complex(e.Real(value), -e.Imag(value)) if shape.dtype.is_complex else value


def Atan(operand: object) -> XlaOp:
    """The inverse tangent."""
    value, _ = array("Atan", operand)
    return e.Atan2(value, 1)


def _native(op: Op) -> Function:
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
    """Horner's scheme, the highest power first."""
    result = x * 0.0 + coefficients[0]
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


# Cephes: erfc(x) = exp(-x^2) P(x)/Q(x) for 1 <= x < 8, exp(-x^2) R(x)/S(x) above.
_P = (
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0, 4.86371970985681366614e1,
    1.96520832956077098242e2, 5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3,
    5.57535335369399327526e2,
)  # fmt: skip
_Q = (
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
    9.75708501743205489753e2,
    1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
_R = (
    5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0, 6.16021097993053585195e0,
    7.40974269950448939160e0, 2.97886665372100240670e0,
)  # fmt: skip
_S = (
    1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1,
    1.70814450747565897222e1,
    9.60896809063285878198e0, 3.36907645100081516050e0,
)  # fmt: skip


@floats
def Erfc(x: XlaOp) -> XlaOp:
    """1 - erf(x), without losing the small values at large x."""
    size = e.Clamp(1.0, abs(x), 40.0)  # above, the result is 0 in every type
    tail = e.Select(
        size < 8.0, polynomial(size, _P) / polynomial(size, _Q), polynomial(size, _R) / polynomial(size, _S)
    )
    tail = _exp_of_minus_square(size) * tail
    return e.Select(abs(x) < 1.0, 1.0 - e.Erf(x), e.Select(x < 0.0, 2.0 - tail, tail))


def _exp_of_minus_square(x: XlaOp) -> XlaOp:
    """exp(-x^2), the square in two parts: its rounding error would be a relative error of the result."""
    bits = (np.int32, 12) if x.dtype is F32 else (np.int64, 27)
    mask = np.array(-(1 << bits[1]), bits[0])
    high = e.BitcastConvertType(e.BitcastConvertType(x, bits[0]) & mask, x.dtype)
    return e.Exp(-(high * high)) * e.Exp(-((x - high) * (x + high)))


# M. Giles, Approximating the erfinv function: single precision, in w = -log(1 - x^2).
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
    """The y with erf(y) = x; infinite at -1 and 1."""
    w = -e.Log((1.0 - x) * (1.0 + x))  # exact near 1, where x * x would be rounded
    guess = x * e.Select(w < 5.0, polynomial(w - 2.5, _CENTRAL), polynomial(e.Sqrt(w) - 3.0, _TAIL))
    if x.dtype is F64:
        for _ in range(2):  # the guess has 7 digits, each of Halley's steps triples them
            guess = _erf_inv_step(x, guess)
    return e.Select(abs(x) == 1.0, x * math.inf, guess)


def _erf_inv_step(x: XlaOp, y: XlaOp) -> XlaOp:
    # erf(y) - x near 1 is taken from the complements: they are small and known exactly.
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
    """The logarithm of |gamma(x)|; infinite at 0 and the negative whole numbers."""
    reflect = x < 0.5
    z = e.Select(reflect, -x, x - 1.0)
    series, t = _lanczos(z), z + 7.5
    # log t = log 7.5 + log1p(z / 7.5) keeps the digits of small z.
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
    """The derivative of log(gamma(x)); NaN at 0 and the negative whole numbers."""
    reflect = x < 0.5
    z = e.Select(reflect, -x, x - 1.0)
    slope = full(z, 0.0)
    for k, coefficient in enumerate(_LANCZOS):
        term = z + float(k + 1)
        slope = slope - coefficient / (term * term)
    t = z + 7.5
    value = math.log(7.5) + e.Log1p(z / 7.5) + slope / _lanczos(z) - 7.0 / t
    # cot(pi x) from the distance to the nearest whole number: pi x itself would be rounded.
    distance = x - e.Floor(x + 0.5)
    reflected = value - math.pi * e.Cos(math.pi * distance) / e.Sin(math.pi * distance)
    result = e.Select(reflect, reflected, value)
    return e.Select((x <= 0.0) & (x == e.Floor(x)), math.nan, result)


def NextAfter(from_: object, to: object) -> XlaOp:
    """The next floating-point number after `from_` in the direction of `to`."""
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
    # Away from zero when the signs agree and |to| is larger; from zero the smallest number with the sign of
    # `to`.
    smallest = (target & sign_bit) | np.array(1, integer)
    shrink = ((bits & sign_bit) != (target & sign_bit)) | (magnitude > (target & ~sign_bit))
    moved = bits + e.Select(shrink, np.array(-1, integer), np.array(1, integer))
    moved = e.Select(x_is_zero, e.Select(to_zero, target, smallest), moved)
    result = e.BitcastConvertType(e.Select(x == y, target, moved), dtype)
    return e.Select((x == x) & (y == y), result, np.array(math.nan).astype(dtype.numpy))
