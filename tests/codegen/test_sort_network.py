"""Short lines of 32-bit numbers, sorted by a network of comparisons: all lengths, both ways, on machines with
other vectors; zeros of both signs and NaN, which keys alone do not give back.
"""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.codegen.host import host_target
from axla.core import flags
from axla.lowering.pipeline import optimize, program_of
from sort_programs import GREATER, LESS, NOT_EQUAL, NOT_GREATER, OF_NEGATED, TOTAL, TOTAL_GREATER, sort_text

CANONICAL = """z = f32[] constant(0)
  e = pred[] compare(a0, z), direction=EQ
  x = f32[] select(e, z, a0)
  f = pred[] compare(b0, z), direction=EQ
  y = f32[] select(f, z, b0)
  ROOT c = pred[] compare(x, y), direction=LT, type=TOTALORDER"""


def lines(name: str, length: int) -> np.ndarray:
    """Lines of random numbers, of few different ones, of one, sorted either way; of floats with all kinds."""
    rng = np.random.default_rng(length)
    if name != "f32":
        limits = np.iinfo({"s32": np.int32, "u32": np.uint32}[name])
        x = rng.integers(limits.min, limits.max, (9, length), limits.dtype, endpoint=True)
        x[1] = rng.choice([limits.min, limits.max, 0], length)
        x[2], x[3], x[4] = 7, np.sort(x[3]), np.sort(x[4])[::-1]
        return x
    x = rng.standard_normal((9, length)).astype(np.float32)
    x[1] = rng.choice([-np.inf, np.inf, 0.0, 1e-40, -1e-40], length)
    x[2], x[3], x[4] = 7, np.sort(x[3]), np.sort(x[4])[::-1]
    x[5, rng.integers(0, length, 3)] = np.nan
    x[6] = rng.choice([0.0, -0.0, 1.0], length)
    x[7, -1], x[7, 0] = -0.0, 0.0
    x[8, rng.integers(0, length, 3)] = -np.inf
    x[8, -1] = np.nan
    return x


def network(text: str, target=None):
    module, target = axla.parse(text), target or host_target()
    optimize(module, target)
    (kernel,) = program_of(module, target).kernels
    return kernel.plan.network


def check(name: str, comparator: str, length: int, backend: str = "cpu") -> None:
    x = lines(name, length)
    if "TOTALORDER" not in comparator:  # which says nothing of NaN
        x[np.isnan(x)] = 1
    text = sort_text((name,), comparator, x.shape, 1)
    wanted, found = (
        axla.compile(axla.parse(text), backend=b).execute([x])[0] for b in ("interpreter", backend)
    )
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()


@pytest.mark.parametrize(
    "length", [9, 15, 16, 17, 31, 32, 33, 63, 64, 100, 128, 255, 256, 257, 300, 1000, 1024, 2049, 8192]
)
def test_all_lengths(length):
    check("f32", CANONICAL, length)


@pytest.mark.parametrize("name", ["f32", "s32", "u32"])
@pytest.mark.parametrize("comparator", [LESS, GREATER, NOT_GREATER, TOTAL, TOTAL_GREATER])
@pytest.mark.parametrize("length", [50, 300])
def test_types_and_orders(name, comparator, length):
    check(name, comparator if name == "f32" else comparator.replace(", type=TOTALORDER", ""), length)


@pytest.mark.parametrize("isa", ["SSE4_2", "AVX2"])
@pytest.mark.parametrize("length", [16, 40, 200, 1024, 1500])
def test_other_machines(isa, length):
    with flags.override(cpu_max_isa=isa):
        assert network(sort_text(("f32",), CANONICAL, (9, length), 1)) is not None
        check("f32", CANONICAL, length)


def test_in_place():
    x = lines("f32", 300)
    text = sort_text(("f32",), CANONICAL, x.shape, 1)
    wanted = axla.compile(axla.parse(text), backend="interpreter")(x)
    aliased = text.replace("sorts", "sorts, input_output_alias={ {}: (0, {}) }", 1)
    found = axla.compile(axla.parse(aliased)).execute([x])[0]
    assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()


@pytest.mark.parametrize(
    ("types", "comparator", "dims", "dimension"),
    [
        (("f32",), LESS, (40, 8), 1), (("f32",), LESS, (4, 8193), 1), (("f32",), LESS, (300, 4), 0),
        (("f64",), LESS, (4, 300), 1), (("f32", "s32"), LESS, (4, 300), 1),
        (("s32",), OF_NEGATED, (4, 300), 1), (("f32",), NOT_EQUAL, (4, 300), 1),
    ],
)  # fmt: skip
def test_others_have_none(types, comparator, dims, dimension):
    assert network(sort_text(("f32",), LESS, (4, 300), 1)) is not None
    assert network(sort_text(types, comparator, dims, dimension)) is None
