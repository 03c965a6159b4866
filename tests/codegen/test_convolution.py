"""Convolutions in generated code against the interpreter, on small integers, of which all sums are exact."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pytest

import axla
from axla.backends.binding import with_constants
from axla.codegen.host import host_target
from axla.core.dtypes import BY_NAME, DType
from axla.core.shape import Shape
from axla.hlo import Convolution
from axla.ir.attributes import ConvDims, Window
from axla.ir.graph import Module
from axla.ir.structure import Parameter
from axla.kernels.convolution import panels_wanted
from axla.kernels.product import BYTES, HALVES
from axla.lowering.pipeline import compile_program
from axla.program.text import print_program
from axla.target.names import target as find_target

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
@pytest.mark.parametrize("share", [1200, 2400])
def test_kernels_that_no_cache_holds(kind, share):
    """Tiles of the same features come one after the other; still bigger ones are dots of what windows see.
    `share`: bytes of output features by MiB of the machine's L2.
    """
    rng, dtype = np.random.default_rng(1), BY_NAME[kind]
    bytes_of_outputs = share * host_target().caches.l2 >> 20
    lhs = Shape(dtype, (2, 9, 5, 300))
    rhs = Shape(dtype, (3, 2, 300, bytes_of_outputs // dtype.numpy.itemsize))
    window = Window((3, 2), (2, 1), (1, 0), (1, 2), window_dilation=(2, 3), reversal=(False, True))
    labels = ConvDims("b01f", "01io", "b01f")
    module = convolution_module(lhs, rhs, window=window, dim_labels=labels)
    check(module, [numbers(rng, s.dtype, s.dims) for s in (lhs, rhs)])
    assert (" dot(" in axla.compile(module).as_text()) == (share == 2400)


# Image, kernel, window and groups of convolutions whose kernels see to their edges and to what follows them.
FOLLOWED = {
    "features": ("2,9,11,20", "3,3,20,70", "size=3x3 pad=1_1x1_1", 1),
    "long edges": ("1,5,40,6", "3,9,6,33", "size=3x9 stride=1x2 pad=4_4x7_8", 1),
    "groups": ("2,8,8,24", "3,2,12,32", "size=3x2 stride=2x2 pad=1_0x0_2", 2),
    "dilated": ("1,9,13,8", "3,3,8,16", "size=3x3 pad=2_2x3_3 rhs_dilate=2x3", 1),
    "channels": ("2,9,40,35", "3,3,1,35", "size=3x3 pad=1_1x1_1", 35),
    "channels, strides": ("1,15,30,48", "5,5,1,48", "size=5x5 stride=2x2 pad=2_2x1_2", 48),
    "channels, one dimension": ("3,50,16", "4,1,16", "size=4 pad=3_0", 16),
    "groups of four": ("2,7,9,36", "3,3,4,36", "size=3x3 stride=1x2 pad=1_1x1_1", 9),
    "groups of two, long window": ("1,3,30,32", "2,11,2,32", "size=2x11 pad=1_1x5_4", 16),
    "groups of eight, no edges": ("1,6,20,64", "3,3,8,64", "size=3x3", 8),
    "a sum over groups": ("1,9,9,64", "7,7,4,16", "size=7x7 pad=1_1x1_1", 16),
}


@pytest.mark.parametrize("case", FOLLOWED)
@pytest.mark.parametrize("function", ["maximum", "tanh"])
def test_edges_and_what_follows_are_in_the_kernel(case, function):
    image, kernel, window, groups = FOLLOWED[case]
    spatial = "01"[: image.count(",") - 1]
    labels = f"b{spatial}f_{spatial}io->b{spatial}f"
    rng = np.random.default_rng(4)
    dims = [tuple(map(int, text.split(","))) for text in (image, kernel)]
    convolution = f"convolution(x, w), window={{{window}}}, dim_labels={labels}, feature_group_count={groups}"
    head = f"x = f32[{image}] parameter(0)\n w = f32[{kernel}] parameter(1)"
    infer = axla.parse(f"HloModule m\nENTRY e {{ {head}\n ROOT c = {convolution} }}")
    result = infer.entry.root.shape.dims
    r, last = ",".join(map(str, result)), len(result) - 1
    then = "ROOT r = f32[R] maximum(a, y)" if function == "maximum" else "ROOT r = f32[R] tanh(a)"
    text = f"""HloModule m
    ENTRY e {{ {head}
      bias = f32[{result[-1]}] parameter(2)
      y = f32[R] parameter(3)
      c = f32[R] {convolution}
      b = f32[R] broadcast(bias), dimensions={{{last}}}
      a = f32[R] add(c, b)
      {then} }}""".replace("[R]", f"[{r}]")
    module = axla.parse(text)
    arguments = [rng.integers(-3, 4, d).astype(np.float32) for d in (*dims, result[-1:], result)]
    wanted = np.asarray(axla.compile(module, backend="interpreter").execute(arguments)[0])
    program = axla.compile(module)
    np.testing.assert_allclose(np.asarray(program.execute(arguments)[0]), wanted, rtol=1e-6)
    assert " pad(" not in program.as_text() and program.as_text().count(" fusion(") == 1


@pytest.mark.parametrize(
    ("kernel", "window"),
    [
        ("3,3,5,16", "size=3x3 pad=1_2x1_2 lhs_dilate=2x2"),
        ("1,1,5,16", "size=1x1 pad=0_1x0_1 lhs_dilate=2x2"),
        ("4,2,5,16", "size=4x2 pad=-1_3x2_0 lhs_dilate=3x1"),
    ],
)
def test_dilated_inputs_are_convolutions_of_the_input(kernel, window):
    """No kernel multiplies the zeros between their elements."""
    module = axla.parse(f"""HloModule m
    ENTRY e {{ x = f32[2,7,6,5] parameter(0)
      w = f32[{kernel}] parameter(1)
      ROOT c = convolution(x, w), window={{{window}}}, dim_labels=b01f_01io->b01f }}""")
    rng = np.random.default_rng(5)
    check(
        module, [numbers(rng, BY_NAME["f32"], d) for d in ((2, 7, 6, 5), tuple(map(int, kernel.split(","))))]
    )
    assert "lhs_dilate" not in axla.compile(module).as_text()


@pytest.mark.parametrize("groups", [1, 16])
def test_edges_are_multiplied(groups):
    """A factor that is not finite makes them NaN, as in XLA."""
    text = f"""HloModule m
    ENTRY e {{ x = f32[1,5,20,16] parameter(0)
      w = f32[3,3,{16 // groups},16] parameter(1)
      ROOT c = convolution(x, w), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f,
        feature_group_count={groups} }}"""
    x, w = np.ones((1, 5, 20, 16), np.float32), np.ones((3, 3, 16 // groups, 16), np.float32)
    w[0, 2, 0, 3] = np.inf
    found = np.asarray(axla.compile(axla.parse(text)).execute([x, w])[0])
    assert np.isnan(found[0, 0, :, 3]).all() and np.isnan(found[0, :, -1, 3]).all()
    assert np.isnan(found).sum() == 20 + 5 - 1


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "pad"), [(1, 1), (2, 0)])
def test_a_kernel_that_is_a_constant_lies_in_panels_and_gives_the_same_bits(groups, stride, pad):
    """Lanes of 3 x 3 x 48 x 128 features; `panels_wanted` says how many a tile has."""
    rng = np.random.default_rng(groups)
    window = Window((3, 3), (stride,) * 2, (pad,) * 2, (pad,) * 2)
    shapes = Shape(BY_NAME["f32"], (2, 9, 9, 48 * groups)), Shape(BY_NAME["f32"], (3, 3, 48, 128 * groups))
    module = convolution_module(
        *shapes, window=window, dim_labels=ConvDims("b01f", "01io", "b01f"), feature_group_count=groups
    )
    sizes = panels_wanted(module.entry.root, host_target())
    assert sizes is None or 128 % sizes[0] == 0 and sizes[1] == 1
    x, kernel = (rng.standard_normal(shape.dims, dtype=np.float32) for shape in shapes)
    wanted = axla.compile(module).execute([x, kernel])[0]
    found = axla.compile(module, constant=[(1, kernel)]).execute([x])[0]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("dtype", "result"), [("s8", "s32"), ("u8", "u32"), ("bf16", "f32"), ("bf16", "bf16")]
)
@pytest.mark.parametrize(
    ("size", "inputs", "groups", "stride", "pad"),
    [(9, 16, 1, 1, 1), (16, 16, 2, 2, 0), (5, 16, 1, 1, 2), (9, 3, 1, 2, 1)],
)
def test_kernels_of_short_numbers_lie_in_panels_of_words(dtype, result, size, inputs, groups, stride, pad):
    """Words of a place's inputs are multiplied; edges count as zeros. Small integers are exact in bf16."""
    rng = np.random.default_rng(size)
    places = (size + 2 * pad - 3) // stride + 1
    text = f"""HloModule m
    ENTRY e {{ x = {dtype}[2,{size},{size},{inputs * groups}] parameter(0)
      w = {dtype}[3,3,{inputs},{64 * groups}] parameter(1)
      ROOT c = {result}[2,{places},{places},{64 * groups}] convolution(x, w),
        window={{size=3x3 stride={stride}x{stride} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels=b01f_01io->b01f,
        feature_group_count={groups} }}"""
    module = axla.parse(text)
    low, high = {"s8": (-128, 128), "u8": (0, 256), "bf16": (-3, 4)}[dtype]
    x, kernel = (
        rng.integers(low, high, p.shape.dims).astype(p.shape.dtype.numpy) for p in module.entry.parameters
    )
    wanted = np.asarray(axla.compile(module, backend="interpreter")(x, kernel))
    flags = {"xla_cpu_ftz": True}
    for features in (None, ["-avx512bf16", "-avx512vnni"], ["-avx512f"]):
        program = axla.compile(module, constant={1: kernel}, flags=flags, target_features=features)
        np.testing.assert_array_equal(np.asarray(program(x)), wanted)
    target = replace(find_target("x86-64-v4"), intrinsics=frozenset({BYTES, HALVES}), flushes=True)
    program = print_program(compile_program(with_constants(module, {"w": kernel}), target, {}))
    word = 2 if dtype == "bf16" else 4
    assert re.search(rf" {dtype}\[[0-9]+,3,3,{-(-inputs // word)},[0-9]+,{word}\]\S* parameter", program)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("panel", [3, 4, 12, 16, 24])
@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "bf01_01io->bf01"])
def test_panels_of_a_program_may_have_any_width(labels, panel, groups):
    """A kernel that the program itself turns as `unpacked` does: of a parameter, and of a constant."""
    rng = np.random.default_rng(panel)
    image, kernel = (2, 9, 9, 4 * groups), (2 * groups, 3, 3, 4, panel)
    if labels.startswith("bf"):
        image = (2, 4 * groups, 9, 9)
    x, w = (rng.integers(-3, 4, dims).astype(np.float32) for dims in (image, kernel))
    text = f"""HloModule m
    ENTRY e {{ x = f32[{",".join(map(str, image))}] parameter(0)
      p = f32[{",".join(map(str, kernel))}] parameter(1)
      t = f32[3,3,4,{2 * groups},{panel}] transpose(p), dimensions={{1,2,3,0,4}}
      k = f32[3,3,4,{2 * groups * panel}] reshape(t)
      ROOT c = convolution(x, k), window={{size=3x3 pad=0_0x0_0}}, dim_labels={labels},
        feature_group_count={groups} }}"""
    module = axla.parse(text)
    check(module, [x, w])
    wanted = np.asarray(axla.compile(module, backend="interpreter")(x, w))
    flags = {"xla_disable_hlo_passes": "constant-folding,constant-layout"}
    found = axla.compile(axla.parse(text), constant=[(1, w)], flags=flags)(x)
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize(("lhs", "rhs", "result"), [
    ("s8", "f32", "s8"), ("f32", "f64", "u8"), ("u2", "f32", "u2"), ("f16", "s8", "s4"), ("s8", "f32", "s32"),
    ("s4", "s4", "pred"), ("s8", "s8", "pred"), ("f32", "s8", "pred"),
])  # fmt: skip
def test_factors_have_the_type_of_the_result(lhs, rhs, result):
    """Floats saturate in it, and what is not zero is one in pred."""
    rng = np.random.default_rng(6)
    values = [0, 1, -1, 2.5, -3.5, 5, 9, 200, -200, 300, -60000, np.nan, np.inf]
    shapes = [Shape(BY_NAME[lhs], (2, 6, 6, 3)), Shape(BY_NAME[rhs], (3, 3, 3, 4))]
    arrays = [
        rng.choice(values, s.dims).astype(s.dtype.numpy)
        if s.dtype.is_float
        else rng.integers(-2, 2, s.dims).astype(s.dtype.numpy)
        for s in shapes
    ]
    module = Module("factors")
    entry = module.add_computation("main", entry=True)
    operands = [entry.add(Parameter(shape, n)) for n, shape in enumerate(shapes)]
    op = Convolution.of(
        *shapes, BY_NAME[result], window=Window((3, 3), low=(1, 1), high=(1, 1)),
        dim_labels=ConvDims("b01f", "01io", "b01f"),
    )  # fmt: skip
    entry.set_root(entry.add(op, operands))
    found, wanted = (
        np.asarray(axla.compile(module, backend=b).execute(arrays)[0]) for b in ("cpu", "interpreter")
    )
    np.testing.assert_array_equal(found, wanted)
