"""Sorts by blocks of threads, as PTX and as work-groups of OpenCL, against the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from devices_of_blocks import same

import axla
from opencl_device import needs_opencl
from sort_programs import (
    LESS,
    NOT_EQUAL,
    NOT_GREATER,
    OF_NEGATED,
    OF_SECOND,
    TOTAL_GREATER,
    TWO_KEYS,
    sort_text,
)

CASES = [
    (("f32",), LESS, (700,), 0),
    (("f32",), TOTAL_GREATER, (5000,), 0),  # longer than local memory holds
    (("s32",), NOT_GREATER, (1,), 0),
    (("s32", "f32"), TWO_KEYS, (3, 2600), 1),
    (("u8", "f16", "s8"), LESS, (4, 21), 1),  # several lines in a tile
    (("s32", "u8"), OF_NEGATED, (2, 2100, 3), 1),
    (("u8", "s8"), OF_SECOND, (40, 3), 0),
    (("pred", "s64"), LESS, (4, 300), 1),
    (("f32",), LESS, (4, 0), 1),
    (("f32",), LESS, (), 0),
    (("c64", "u8"), "x = f32[] real(a0)\n  y = f32[] real(b0)\n  ROOT c = pred[] compare(x, y), direction=LT",
     (5, 30), 1),
]  # fmt: skip


def drawn(name: str, dims: tuple[int, ...]) -> np.ndarray:
    """Few different values, so that many are equal; zeros of both signs."""
    rng = np.random.default_rng(len(name) + sum(dims))
    x = np.round(np.asarray(rng.standard_normal(dims)) * 8) / 2
    types = {"f32": np.float32, "f16": np.float16, "s32": np.int32, "s8": np.int8, "s64": np.int64}
    if name == "c64":
        return (x + 1j * rng.standard_normal(dims)).astype(np.complex64)
    if name in ("u8", "pred"):
        return (np.abs(x) if name == "u8" else x > 0).astype(np.uint8 if name == "u8" else np.bool_)
    return x.astype(types[name])


@pytest.mark.parametrize(("types", "comparator", "dims", "dimension"), CASES)
def test_sorts_as_the_interpreter(client, types, comparator, dims, dimension):
    same(client, sort_text(types, comparator, dims, dimension), [drawn(t, dims) for t in types])


def test_total_order_places_every_nan(client):
    x = np.array([np.nan, 1, -np.inf, -0.0, 0.0, -np.nan, np.inf, -1] * 400, np.float32)
    same(client, sort_text(("f32",), TOTAL_GREATER, x.shape, 0), [x])


def test_not_a_number_is_last(client):
    """Without total order, too: as in long lines on a CPU, by the bits."""
    x = np.where(np.arange(3000) % 7 == 0, np.nan, np.arange(3000)[::-1]).astype(np.float32)
    (found,) = client.compile(axla.parse(sort_text(("f32",), LESS, x.shape, 0))).execute([x])
    np.testing.assert_array_equal(np.asarray(found), np.sort(x))


def test_a_comparator_that_orders_nothing_loses_nothing(client):
    x = np.where(np.arange(5000) % 3 == 0, np.nan, np.arange(5000)[::-1]).astype(np.float32)
    text = sort_text(("f32", "s32"), NOT_EQUAL, x.shape, 0)
    values, places = map(
        np.asarray, client.compile(axla.parse(text)).execute([x, np.arange(5000, dtype=np.int32)])
    )
    np.testing.assert_array_equal(np.sort(places), np.arange(5000))
    np.testing.assert_array_equal(values, x[places])


@pytest.mark.parametrize("groups", [pytest.param(None, marks=needs_opencl)], indirect=True)
def test_f64_is_sorted_on_the_host_where_the_device_has_none(groups, monkeypatch):
    """A plan for blocks of threads becomes one for the host; the report says so."""
    driver = groups.compile(axla.parse(sort_text(("f32",), LESS, (5,), 0))).driver
    monkeypatch.setattr(driver, "target", replace(driver.target, has_double=False))
    x = np.random.default_rng(8).standard_normal((3, 2500))
    program = groups.compile(axla.parse(sort_text(("f64",), LESS, x.shape, 1)))
    assert set(program.host_steps.values()) == {"it computes with f64, which the device does not have"}
    assert "in host[" in program.as_text("program")
    np.testing.assert_array_equal(np.asarray(program.execute([x])[0]), np.sort(x))
