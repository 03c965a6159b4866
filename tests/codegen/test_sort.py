"""Sorts in generated code against the interpreter: both ways, all strides, several operands."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.core.dtypes import BY_NAME
from axla.lowering.pipeline import optimize, program_of
from sort_programs import (
    GREATER,
    LESS,
    NOT_EQUAL,
    NOT_GREATER,
    OF_MAGNITUDE,
    OF_NEGATED,
    OF_SECOND,
    TOTAL,
    TOTAL_GREATER,
    TWO_KEYS,
    sort_text,
)

TYPES = {
    "f32": np.float32, "s32": np.int32, "u8": np.uint8, "f64": np.float64, "s64": np.int64, "s8": np.int8,
    "f16": np.float16, "u64": np.uint64, "s16": np.int16, "pred": np.bool_,
}  # fmt: skip
CASES = [
    (("f32",), LESS), (("f32",), TOTAL), (("s32",), GREATER), (("f32", "s32"), LESS),
    (("s32", "f32"), TWO_KEYS), (("u8", "f64", "s8"), NOT_GREATER), (("pred", "s64"), GREATER),
    (("f16", "u8"), TOTAL), (("u64", "s16"), LESS), (("s32", "u8"), OF_NEGATED), (("u8", "s8"), OF_SECOND),
]  # fmt: skip
DIMS = [
    ((5,), 0),
    ((3, 300), 1),
    ((40, 3), 0),
    ((2, 300, 3), 1),
    ((1,), 0),
    ((4, 0), 0),
    ((2, 3, 21), 2),
    ((), 0),
    ((600, 40), 1),
]


def numbers(rng: np.random.Generator, name: str, dims: tuple[int, ...], few: bool) -> np.ndarray:
    dtype = np.dtype(TYPES[name])
    if dtype.kind == "b":
        return rng.integers(0, 2, dims).astype(dtype)
    if dtype.kind == "f":
        x = np.asarray(rng.standard_normal(dims)).astype(dtype)
        zero = np.copysign(np.zeros(dims, dtype), x)
        return np.where(rng.random(dims) < (0.8 if few else 0.1), zero, x).astype(dtype)
    low, high = (0, 5) if few else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.asarray(rng.integers(low, high, dims, dtype, endpoint=True))


def check(text: str, arguments: list[np.ndarray]) -> None:
    wanted = axla.compile(axla.parse(text), backend="interpreter").execute(arguments)
    for backend in ("cpu", "one-lane"):
        found = axla.compile(axla.parse(text), backend=backend).execute(arguments)
        for a, b in zip(found, wanted, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), backend


@pytest.mark.parametrize(("types", "comparator"), CASES)
def test_sorts_as_the_interpreter(types, comparator):
    rng = np.random.default_rng(0)
    for number, (dims, dimension) in enumerate(DIMS):
        check(
            sort_text(types, comparator, dims, dimension),
            [numbers(rng, t, dims, few=number % 2 == 0) for t in types],
        )


@pytest.mark.parametrize(("types", "comparator"), CASES)
def test_sorts_in_place(types, comparator):
    """Each result lies in the memory of its operand."""
    rng = np.random.default_rng(1)
    for number, (dims, dimension) in enumerate(DIMS):
        arrays = [numbers(rng, t, dims, few=number % 2 == 0) for t in types]
        text = sort_text(types, comparator, dims, dimension)
        wanted = axla.compile(axla.parse(text), backend="interpreter").execute(arrays)
        aliases = ", ".join(f"{{{n if len(types) > 1 else ''}}}: ({n}, {{}})" for n in range(len(types)))
        aliased = text.replace("sorts", f"sorts, input_output_alias={{ {aliases} }}", 1)
        module, target = axla.parse(aliased), host_target()
        optimize(module, target)
        program = program_of(module, target)
        places = tuple((n, n) for n in range(len(types)))
        assert prod(dims) <= target.limits.tiny or [k.in_place for k in program.kernels] == [places], dims
        for backend in ("cpu", "one-lane"):
            found = axla.compile(axla.parse(aliased), backend=backend).execute(arrays)
            for a, b in zip(found, wanted, strict=True):
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), (backend, dims)


def test_total_order_places_every_nan():
    x = np.array([np.nan, 1, -np.inf, -0.0, 0.0, -np.nan, np.inf, -1] * 70, np.float32)
    x[8:16] *= -1
    check(sort_text(("f32",), TOTAL, (560,), 0), [x])
    check(sort_text(("f32",), TOTAL, (56, 10), 1), [x.reshape(56, 10)])


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("comparator", [LESS, GREATER, TOTAL, TOTAL_GREATER, OF_MAGNITUDE])
@pytest.mark.parametrize("length", [600, 1027])
def test_long_lines_of_floats(name, comparator, length):
    """Of three lines one has zeros of both signs, whose key is one, and one has NaN with several bits."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, length)).astype(TYPES[name])
    x[1] = np.where(rng.random(length) < 0.3, np.copysign(0, x[1]), x[1])
    if comparator in (TOTAL, TOTAL_GREATER):
        bits = x.view(f"u{x.itemsize}")
        bits[2, ::50] = np.array(np.nan, x.dtype).view(bits.dtype) + np.arange(length)[::50].astype(
            bits.dtype
        )
        x[2, ::70] *= -1
    check(sort_text((name,), comparator, x.shape, 1).replace("f32[] abs", f"{name}[] abs"), [x])


def test_a_comparator_that_orders_nothing_loses_nothing():
    x = np.where(np.arange(1000) % 3 == 0, np.nan, np.arange(1000)[::-1]).astype(np.float32)
    text = sort_text(("f32", "s32"), NOT_EQUAL, (1000,), 0)
    for backend in ("cpu", "one-lane"):
        executable = axla.compile(axla.parse(text), backend=backend)
        values, places = map(np.asarray, executable.execute([x, np.arange(1000, dtype=np.int32)]))
        np.testing.assert_array_equal(np.sort(places), np.arange(1000))
        np.testing.assert_array_equal(values, x[places])


@pytest.mark.parametrize("name", ["f8e8m0fnu", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn", "f8e5m2fnuz"])
def test_narrow_floats(name):
    """Also those without a sign, and with as many bits as no integer has."""
    numbers = 2.0 ** np.random.default_rng(1).integers(-1, 2, (3, 300))
    x = numbers.astype(BY_NAME[name].numpy)
    check(sort_text((name,), LESS, x.shape, 1), [x])
    check(sort_text((name,), GREATER, x.shape, 1), [x])


@pytest.mark.parametrize("comparator", [LESS, TOTAL, NOT_GREATER])
@pytest.mark.parametrize("name", ["f8e5m2", "bf16", "f8e4m3b11fnuz"])
def test_elements_are_compared_in_the_type_of_the_comparator(name, comparator):
    """Elements that are equal there keep their order; too large ones are infinite or NaN there."""
    rng = np.random.default_rng(3)
    for length in (6, 60, 1027):
        x = rng.uniform(1, 1.3, (3, length)).astype(np.float32)
        if comparator == TOTAL:
            x[:, 1], x[:, 3] = 3e38, np.nan
        text = sort_text(("f32",), comparator, x.shape, 1)
        check(text.replace("f32[] parameter", f"{name}[] parameter"), [x])
