"""Convolutions in generated code against the interpreter, on small integers, of which all sums are exact."""

from __future__ import annotations

import random

import numpy as np
import pytest

import axla
from axla.core.dtypes import BY_NAME, DType
from axla.core.shape import Shape
from axla.hlo import Convolution
from axla.ir.attributes import ConvDims, Window
from axla.ir.graph import Module
from axla.ir.structure import Parameter

TYPES = ("f32", "f32", "bf16", "s32", "f64", "c64", "s8", "f16")


def convolution_module(lhs: Shape, rhs: Shape, **attributes) -> Module:
    module = Module("convolution")
    entry = module.add_computation("main", entry=True)
    operands = [entry.add(Parameter(shape, n)) for n, shape in enumerate((lhs, rhs))]
    entry.set_root(entry.add(Convolution.of(lhs, rhs, lhs.dtype, **attributes), operands))
    return module


def numbers(rng: np.random.Generator, dtype: DType, dims: tuple[int, ...]) -> np.ndarray:
    real = rng.integers(-3, 4, dims)
    return (real + 1j * rng.integers(-3, 4, dims) if dtype.is_complex else real).astype(dtype.numpy)


def check(module: Module, arguments: list[np.ndarray]) -> None:
    wanted = np.asarray(axla.compile(module, backend="interpreter").execute(arguments)[0])
    for backend in ("cpu", "one-lane"):
        found = np.asarray(axla.compile(module, backend=backend).execute(arguments)[0])
        np.testing.assert_array_equal(found, wanted, err_msg=backend)


def sizes(pick: random.Random, kind: str) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Sizes of the input and the kernel by label, and the groups."""
    groups, batch = pick.choice([2, 3]), pick.randint(1, 3)
    inputs, outputs = pick.choice([1, 2, 3, 5, 17]), pick.choice([1, 2, 4, 7, 16, 33, 40])
    if kind == "feature groups":
        grouped = {"feature_group_count": groups}
        return {"b": batch, "f": inputs * groups}, {"i": inputs, "o": outputs * groups}, grouped
    if kind == "batch groups":
        grouped = {"batch_group_count": groups}
        return {"b": batch * groups, "f": inputs}, {"i": inputs, "o": outputs * groups}, grouped
    if kind == "channels":
        channels = pick.choice([4, 16, 21, 64])
        each = pick.choice([1, 2])
        return {"b": batch, "f": channels}, {"i": 1, "o": channels * each}, {"feature_group_count": channels}
    return {"b": batch, "f": inputs}, {"i": inputs, "o": outputs}, {}


@pytest.mark.parametrize("kind", ["plain", "feature groups", "batch groups", "channels"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolves_as_the_interpreter(kind, rank):
    pick, rng = random.Random(f"{kind}{rank}"), np.random.default_rng(rank)
    spatial = "".join(map(str, range(rank)))

    def shuffled(labels: str) -> str:
        return "".join(pick.sample(labels, len(labels)))

    for _ in range(4):
        dtype = BY_NAME[pick.choice(TYPES)]
        data, kernel, groups = sizes(pick, kind)
        data |= {d: pick.randint(3, 11) for d in spatial}
        kernel |= {d: pick.randint(1, 4) for d in spatial}
        some = {
            name: tuple(pick.choice(choices) for _ in spatial)
            for name, choices in {
                "stride": [1, 1, 2, 3], "low": [-1, 0, 1, 3], "high": [-1, 0, 1, 3],
                "base_dilation": [1, 1, 2], "window_dilation": [1, 1, 2], "reversal": [False, True],
            }.items()
        }  # fmt: skip
        window = Window(tuple(kernel[d] for d in spatial), **some)
        labels = ConvDims(shuffled("bf" + spatial), shuffled("io" + spatial), shuffled("bf" + spatial))
        lhs = Shape(dtype, [data[c] for c in labels.input])
        rhs = Shape(dtype, [kernel[c] for c in labels.kernel])
        module = convolution_module(lhs, rhs, window=window, dim_labels=labels, **groups)
        check(module, [numbers(rng, dtype, lhs.dims), numbers(rng, dtype, rhs.dims)])


@pytest.mark.parametrize(
    ("lhs", "rhs", "window"),
    [
        ((2, 12, 12, 8), (1, 1, 8, 16), Window((1, 1), (2, 3))),  # a dot of some places
        ((3, 5, 6, 4), (5, 6, 4, 7), Window((5, 6))),  # a dot of all places
        ((2, 40, 40, 3), (3, 3, 3, 64), Window((3, 3), (1, 1), (1, 1), (1, 1))),  # tiles of features
        ((2, 40, 40, 3), (5, 5, 3, 2), Window((5, 5), (1, 1), (2, 2), (2, 2))),  # tiles of places
        ((2, 3, 40, 0), (3, 3, 0, 4), Window((3, 3))),  # sums of nothing
        ((0, 5, 5, 2), (3, 3, 2, 4), Window((3, 3))),
        ((1, 2, 2, 2), (3, 3, 2, 4), Window((3, 3))),  # no place
    ],
)
def test_shapes_of_each_way(lhs, rhs, window):
    rng = np.random.default_rng(0)
    f32 = BY_NAME["f32"]
    module = convolution_module(
        Shape(f32, lhs), Shape(f32, rhs), window=window, dim_labels=ConvDims("b01f", "01io", "b01f")
    )
    check(module, [numbers(rng, f32, lhs), numbers(rng, f32, rhs)])


def test_narrow_operands_of_a_wide_result():
    text = """HloModule wide
    ENTRY main {
      x = s8[1,6,6,16] parameter(0)
      w = s8[3,3,16,32] parameter(1)
      ROOT c = s32[1,4,4,32] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
    }"""
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-128, 128, d).astype(np.int8) for d in ((1, 6, 6, 16), (3, 3, 16, 32))]
    check(axla.parse(text), arguments)


@pytest.mark.parametrize("kind", ["f32", "bf16", "s8"])
def test_kernels_that_no_cache_holds(kind):
    """They are dots of what the windows see."""
    rng, dtype = np.random.default_rng(1), BY_NAME[kind]
    lhs = Shape(dtype, (2, 9, 5, 300))
    rhs = Shape(dtype, (3, 2, 300, 4 * 300 // dtype.numpy.itemsize))
    window = Window((3, 2), (2, 1), (1, 0), (1, 2), window_dilation=(2, 3), reversal=(False, True))
    labels = ConvDims("b01f", "01io", "b01f")
    module = convolution_module(lhs, rhs, window=window, dim_labels=labels)
    check(module, [numbers(rng, s.dtype, s.dims) for s in (lhs, rhs)])
    assert " dot(" in axla.compile(module).as_text()
