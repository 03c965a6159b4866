"""Random arrays of every element type, and the comparison of results."""

from __future__ import annotations

import random

import numpy as np

from axla.core.dtypes import BY_NAME, DType
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.passes.simplify.match import limits

DTYPES = tuple(
    BY_NAME[name]
    for name in (
        "f32", "s32", "pred", "bf16", "u8", "f64", "c64", "f16", "s8", "u32", "f8e4m3fn", "s64", "f8e5m2",
        "u16", "c128", "s4", "f8e4m3", "u64", "f8e4m3b11fnuz", "s16", "u4", "f8e5m2fnuz", "s2", "f8e3m4",
        "u2", "f8e4m3fnuz", "f8e8m0fnu",
    )
)  # fmt: skip
"""The element types of mutants, in the order in which they are used."""

FLOATS = (
    0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, 8.0, -4.0, np.nan, -np.nan, np.inf, -np.inf, 1e30, 1e-30,
    2.5, -0.5,
)  # fmt: skip


ORDINARY = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.nan, np.inf, -np.inf)
"""Special values that do not overflow if a formula is transformed."""


def special(dtype: DType) -> list:
    """The values of a type at which rules go wrong; for a complex type, those of its parts."""
    if dtype.is_pred:
        return [False, True]
    if dtype.is_integer:
        low, high = limits(dtype)
        near = [0, 1, -1, 2, -2, 3, 4, 5, 7, 8, 16, dtype.bits - 1, dtype.bits, low + 1, high - 1, low, high]
        return [n for n in near if low <= n <= high]
    info = dtype.finfo
    edges = [info.max, info.min, info.tiny, info.smallest_subnormal, -info.smallest_subnormal]
    return [*FLOATS, *(float(n) for n in edges)]


def scalar(dtype: DType, value: object) -> np.ndarray:
    """An array of rank 0 with this value."""
    with np.errstate(all="ignore"):
        return np.asarray(np.asarray(value).astype(dtype.numpy))


def argument(shape: AnyShape, draw: random.Random, allows: str = "") -> Literal:
    """A random value of a shape. `allows` is an allowance of a `Rule`; for some of these the numbers are
    chosen so that sums are exact, or that nothing overflows.
    """
    if isinstance(shape, TupleShape):
        return Literal(shape, elements=[argument(e, draw, allows) for e in shape.elements])
    if not isinstance(shape, Shape):
        return Literal.token()
    shape = shape.logical
    flat = np.empty(shape.size, shape.dtype.numpy)
    if shape.dtype.is_complex:
        flat.real, flat.imag = (_parts(shape.dtype.real, shape.size, draw, allows) for _ in range(2))
    else:
        flat[:] = _parts(shape.dtype, shape.size, draw, allows)
    return Literal(shape, flat.reshape(shape.dims))


def _parts(dtype: DType, count: int, draw: random.Random, allows: str) -> np.ndarray:
    """Random numbers of a type that is not complex; `allows` as for `argument`."""
    kind = draw.choice(("special", "mixed", "mixed", "small", "few", "zeros"))
    if dtype.is_pred or dtype.is_integer:
        low, high = limits(dtype)
        near = range(max(int(low), -6), min(int(high), 8) + 1)
        pools = {
            "special": special(dtype),
            "mixed": [*near, *special(dtype)],
            "small": near,
            "few": near[:4],
            "zeros": near[:1],
        }
        if allows == "finite":
            kind = "small"  # sums with these are exact, in floats too
        values = [draw.choice(pools[kind]) for _ in range(count)]
        return np.array(values, object).astype(dtype.numpy)
    if allows in ("order", "finite"):  # sums and products of a few of these are exact in any order
        pool = [1.0, 0.0, -1.0, 2.0 if dtype.bits > 16 else 1.0, -0.0]
        if kind == "special" and allows == "order":
            pool += [np.nan, np.inf]
        few = dtype.bits < 16 and count > 3
        values = [draw.choice(pool) if not few or draw.random() < 2 / count else 0.0 for _ in range(count)]
    elif allows == "rounding" and kind != "special":
        values = [draw.uniform(-2, 2) for _ in range(count)]
    elif allows == "reals":
        values = [draw.choice((-1.0, 1.0)) * draw.uniform(0.5, 2) for _ in range(count)]
    else:
        chance = {"special": 1.0, "mixed": 0.4, "small": 0.1, "few": 0.0, "zeros": 1.0}[kind]
        pool = (
            ORDINARY
            if allows == "rounding"
            else special(dtype)
            if kind != "zeros"
            else (0.0, -0.0, 0.0, -0.0, -1.0)
        )
        small = (0.0, 1.0, -1.0, 2.0)
        values = [
            draw.choice(pool) if draw.random() < chance
            else draw.choice(small) if kind == "few" else draw.gauss(0, 4)
            for _ in range(count)
        ]  # fmt: skip
    with np.errstate(all="ignore"):
        return np.array(values, np.float64).astype(dtype.numpy)


def difference(wanted: Literal, found: Literal, allows: str = "", eps: float = 0.0) -> str:
    """The difference between two results; "" if they agree as far as `allows` demands. `eps` is the epsilon
    of the narrowest element type.
    """
    pairs = list(wanted.leaves()), list(found.leaves())
    if len(pairs[0]) != len(pairs[1]):
        return f"{len(pairs[1])} results, wanted {len(pairs[0])}"
    for number, (a, b) in enumerate(zip(*pairs, strict=True)):
        same = a.shape.is_array and b.shape.is_array and a.shape.dtype is b.shape.dtype
        if not same and a.shape.logical is not b.shape.logical:
            return f"result {number} is {b.shape}, wanted {a.shape}"
        if same and (why := _unequal(a.array, b.array, a.shape.dtype, allows, eps)):
            return f"result {number}: {why}"
    return ""


def _unequal(wanted: np.ndarray, found: np.ndarray, dtype: DType, allows: str, eps: float) -> str:
    if wanted.shape != found.shape:
        return f"sizes {found.shape}, wanted {wanted.shape}"
    if wanted.tobytes() == found.tobytes():
        return ""
    if dtype.is_complex:
        pairs = ((wanted.real, found.real), (wanted.imag, found.imag))
        return next(
            filter(None, (_unequal(a.copy(), b.copy(), dtype.real, allows, eps) for a, b in pairs)), ""
        )
    if not dtype.is_float:
        differ = wanted != found
    else:
        with np.errstate(all="ignore"):
            a, b = wanted.astype(np.float64), found.astype(np.float64)
            equal = (a == b) & ((np.signbit(a) == np.signbit(b)) | (allows in LOOSE))
            if allows in ("rounding", "reals"):
                scale = np.max(np.abs(a), initial=0.0, where=np.isfinite(a))
                equal |= np.abs(a - b) <= TOLERANCE * eps * np.maximum(np.abs(a), scale)
                equal |= ~(np.isfinite(a) & np.isfinite(b))  # another formula may overflow earlier
        differ = ~(equal | (np.isnan(a) & np.isnan(b)))
    places = np.argwhere(np.atleast_1d(differ))
    if not len(places):
        return ""
    at = tuple(int(i) for i in places[0])[: wanted.ndim]
    return f"element {at} is {found[at]}, wanted {wanted[at]} ({len(places)} of {wanted.size} differ)"


TOLERANCE = 64
"""The tolerance where rounding may differ, in units in the last place of the largest element."""

LOOSE = ("rounding", "reals", "zero", "order", "finite")
"""The allowances under which the sign of a zero may differ: the sign of a sum depends on its order too."""
