"""Quantized types: every rule against the specification's formulas, computed by NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.errors import VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.importer.program import functions_of
from axla.stablehlo.modules import import_source
from axla.stablehlo.quantized import without_quantized
from axla.stablehlo.text import parse

BACKENDS = ("interpreter", "cpu")
A, B, C = "!quant.uniform<i8:f32, 0.5:-20>", "!quant.uniform<i8:f32, 0.25:7>", "!quant.uniform<i8:f32, 3.0:2>"


def run(
    body: str, arguments: str, result: str, *values: np.ndarray, backend: str = "interpreter"
) -> np.ndarray:
    """The only result of a program; quantized arguments and results are their stored integers."""
    text = f"func.func @main({arguments}) -> {result} {{\n{body}\n}}"
    compiled = axla.compile(axla.parse(text), backend=backend)
    (found,) = compiled.execute([np.asarray(v) for v in values])
    return np.asarray(found)


def names(text: str) -> list[str]:
    source = without_quantized(parse(text))
    block = functions_of(source)["main"].regions[0].blocks[0]
    return [op.name.removeprefix("stablehlo.") for op in block.operations if op.name != "stablehlo.constant"]


def real(stored, scale, zero, axis: int | None = None):
    """dequantize, in f64."""
    scale, zero = np.asarray(scale, np.float64), np.asarray(zero, np.float64)
    if axis is not None:
        shape = [-1 if d == axis else 1 for d in range(np.ndim(stored))]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (np.asarray(stored, np.float64) - zero) * scale


def stored(values, scale, zero, low=-128, high=127, dtype=np.int8):
    """quantize, in f64."""
    return np.rint(np.clip(np.asarray(values) / scale + zero, low, high)).astype(dtype)


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_quantize_rounds_to_even_and_stays_in_range(backend):
    x = np.array([-1e9, -5.25, -5.24, 0.25, 0.75, 1.26, 1e9, np.inf, -np.inf], np.float32)
    body = f"%0 = stablehlo.uniform_quantize %x : (tensor<9xf32>) -> tensor<9x{A}>\nreturn %0 : tensor<9x{A}>"
    found = run(body, "%x: tensor<9xf32>", f"tensor<9x{A}>", x, backend=backend)
    assert found.tolist() == [-128, -30, -30, -20, -18, -17, 127, 127, -128]
    narrow = "!quant.uniform<i8<-10:10>:f32, 0.5:-2>"
    found = run(body.replace(A, narrow), "%x: tensor<9xf32>", f"tensor<9x{narrow}>", x, backend=backend)
    assert found.tolist() == [-10, -10, -10, -2, 0, 1, 10, 10, -10]


@pytest.mark.parametrize(
    "kind, dtype, zero, low, high",
    [
        ("u8:f32, 0.5:128", np.uint8, 128, 0, 255),
        ("i16:f32, 0.5:-3000", np.int16, -3000, -(2**15), 2**15 - 1),
        ("i32:f64, 0.5:5", np.int32, 5, -(2**31), 2**31 - 1),
        ("i8:bf16, 0.5:5", np.int8, 5, -128, 127),
    ],
)
def test_storage_and_expressed_types(kind, dtype, zero, low, high):
    kind, to = f"!quant.uniform<{kind}>", kind.split(":")[1].split(",")[0]
    stored_values = np.array([low, low + 1, 0, zero, high - 1, high], dtype)
    body = f"""%0 = stablehlo.uniform_dequantize %x : (tensor<6x{kind}>) -> tensor<6x{to}>
    return %0 : tensor<6x{to}>"""
    found = run(body, f"%x: tensor<6x{kind}>", f"tensor<6x{to}>", stored_values)
    wanted = real(stored_values, 0.5, zero)
    assert np.allclose(found.astype(np.float64), wanted, rtol=0.01 if to == "bf16" else 1e-15)


def test_requantize():
    first, second = (
        "!quant.uniform<i8:f32:0, {0.1:-30, 0.5:-20}>",
        "!quant.uniform<i8:f32:0, {0.1:-20, 0.2:-30}>",
    )
    body = f"""%0 = stablehlo.uniform_quantize %x : (tensor<2x{first}>) -> tensor<2x{second}>
    return %0 : tensor<2x{second}>"""
    found = run(body, f"%x: tensor<2x{first}>", f"tensor<2x{second}>", np.array([10, 10], np.int8))
    assert found.tolist() == [20, 45]  # the example of the specification
    assert names(f"func.func @main(%x: tensor<2x{A}>) -> tensor<2x{A}> {{\n"
                 f"%0 = stablehlo.uniform_quantize %x : (tensor<2x{A}>) -> tensor<2x{A}>\n"
                 f"return %0 : tensor<2x{A}> }}") == ["func.return"]  # fmt: skip


def test_scales_of_blocks():
    kind = "!quant.uniform<i8:f32:{0:2, 1:2}, {{1.0:1, 2.0}, {4.0, 8.0:-1}}>"
    body = f"""%0 = stablehlo.uniform_dequantize %x : (tensor<4x4x{kind}>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>"""
    x = integers(4, 4)
    scales = np.array([[1, 2], [4, 8]]).repeat(2, 0).repeat(2, 1)
    zeros = np.array([[1, 0], [0, -1]]).repeat(2, 0).repeat(2, 1)
    for backend in BACKENDS:
        found = run(body, f"%x: tensor<4x4x{kind}>", "tensor<4x4xf32>", x, backend=backend)
        assert np.array_equal(found, (x.astype(int) - zeros) * scales)
    with pytest.raises(VerifyError, match="2:.*uniform_dequantize.*2 scales for a size 5"):
        run(body.replace("4x4", "5x4"), f"%x: tensor<5x4x{kind}>", "tensor<5x4xf32>", x)


def test_scales_must_be_as_many_as_the_axis_is_long():
    kind = "!quant.uniform<i8:f32:0, {0.1, 0.5}>"
    body = f"""%0 = stablehlo.uniform_dequantize %x : (tensor<3x{kind}>) -> tensor<3xf32>
    return %0 : tensor<3xf32>"""
    with pytest.raises(VerifyError, match="2:.*uniform_dequantize.*2 scales for a size 3"):
        run(body, f"%x: tensor<3x{kind}>", "tensor<3xf32>", np.zeros(3, np.int8))


def binary(name: str, left: str, right: str, result: str, *, shape="256x", **options) -> np.ndarray:
    body = f"""%0 = "stablehlo.{name}"(%x, %y) : (tensor<{shape}{left}>, tensor<{shape}{right}>) -> tensor<{shape}{result}>
    return %0 : tensor<{shape}{result}>"""  # noqa: E501
    arguments = f"%x: tensor<{shape}{left}>, %y: tensor<{shape}{right}>"
    return run(body, arguments, f"tensor<{shape}{result}>", integers(256), integers(256, seed=1), **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name, function", [
    ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("maximum", np.maximum),
    ("minimum", np.minimum),
])  # fmt: skip
def test_arithmetic_of_different_scales(name, function, backend):
    x, y = real(integers(256), 0.5, -20), real(integers(256, seed=1), 0.25, 7)
    found = binary(name, A, B, C, backend=backend)
    # 3.0 is not a power of two: a value just between two integers may go either way in f32.
    wanted = function(x, y) / 3 + 2
    exact = stored(function(x, y), 3, 2)
    tie = np.abs(wanted - np.floor(wanted) - 0.5) < 1e-5
    assert np.array_equal(found[~tie], exact[~tie]) and (~tie).sum() > 100


@pytest.mark.parametrize("name, function", [("add", np.add), ("subtract", np.subtract)])
def test_sums_of_one_scale_are_integers(name, function):
    left, right = "!quant.uniform<i8:f32, 0.3:-20>", "!quant.uniform<i8:f32, 0.3:7>"
    found = binary(name, left, right, left)
    whole = function(integers(256).astype(int) + 20, integers(256, seed=1).astype(int) - 7) - 20
    assert np.array_equal(found, np.clip(whole, -128, 127))
    text = f"func.func @main(%x: tensor<2x{left}>) -> tensor<2x{left}> {{\n"
    text += f"%0 = stablehlo.add %x, %x : tensor<2x{left}>\n"
    assert not {"multiply", "divide"} & set(names(f"{text}return %0 : tensor<2x{left}> }}"))


def test_order_of_one_type_is_that_of_the_integers():
    found = binary("maximum", A, A, A)
    assert np.array_equal(found, np.maximum(integers(256), integers(256, seed=1)))
    body = f"""%0 = stablehlo.compare LT, %x, %y, FLOAT : (tensor<4x{A}>, tensor<4x{A}>) -> tensor<4xi1>
    return %0 : tensor<4xi1>"""
    x, y = np.array([1, -3, 5, 5], np.int8), np.array([2, -4, 5, 6], np.int8)
    assert run(body, f"%x: tensor<4x{A}>, %y: tensor<4x{A}>", "tensor<4xi1>", x, y).tolist() == [1, 0, 0, 1]
    mixed = body.replace(
        f"%y, FLOAT : (tensor<4x{A}>, tensor<4x{A}>)", f"%y, FLOAT : (tensor<4x{A}>, tensor<4x{B}>)"
    )
    found = run(mixed, f"%x: tensor<4x{A}>, %y: tensor<4x{B}>", "tensor<4xi1>", x, y)
    assert found.tolist() == (real(x, 0.5, -20) < real(y, 0.25, 7)).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_is_computed_with_real_numbers(backend):
    body = f"%0 = stablehlo.tanh %x : (tensor<256x{A}>) -> tensor<256x{B}>\nreturn %0 : tensor<256x{B}>"
    x = integers(256)
    found = run(body, f"%x: tensor<256x{A}>", f"tensor<256x{B}>", x, backend=backend)
    assert np.array_equal(found, stored(np.tanh(real(x, 0.5, -20)), 0.25, 7))


DOT = """%0 = "stablehlo.dot_general"(%x, %y) {{dot_dimension_numbers = #stablehlo.dot<
  lhs_batching_dimensions = [0], rhs_batching_dimensions = [1],
  lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>}}
  : (tensor<2x3x40x{0}>, tensor<40x2x5x{1}>) -> tensor<2x3x5x{2}>
  return %0 : tensor<2x3x5x{2}>"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("axis", [None, 2, 1])
def test_products_of_matrices_are_sums_of_integers(axis, backend):
    x, y = integers(2, 3, 40), integers(40, 2, 5, seed=1)
    left = "!quant.uniform<i8:f32, 0.013:-20>"
    right, scales, zeros = "!quant.uniform<i8:f32, 0.7>", 0.7, 0
    if axis is not None:
        scales = [0.7, 0.9, 1.1, 1.3, 1.7][: y.shape[axis]]
        zeros = [0] * len(scales)
        right = f"!quant.uniform<i8:f32:{axis}, {{{', '.join(map(str, scales))}}}>"
    exact = np.einsum("bmk,kbn->bmn", real(x, 0.013, -20), real(y, scales, zeros, axis))
    for to, wanted in (
        ("!quant.uniform<i8:f32, 5.0:3>", stored(exact, 5.0, 3)),
        ("!quant.uniform<i32:f32, 0.001:3>", stored(exact, 0.001, 3, -(2**31), 2**31 - 1, np.int32)),
    ):
        body = DOT.format(left, right, to)
        found = run(body, f"%x: tensor<2x3x40x{left}>, %y: tensor<40x2x5x{right}>", f"tensor<2x3x5x{to}>",
                    x, y, backend=backend)  # fmt: skip
        assert np.array_equal(found, wanted)


def test_the_accumulator_is_an_integer():
    text = f"func.func @main(%x: tensor<2x3x40x{A}>, %y: tensor<40x2x5x{B}>) -> tensor<2x3x5x{C}> {{\n"
    source = without_quantized(parse(text + DOT.format(A, B, C) + "}"))
    (dot,) = [op for op in functions_of(source)["main"].regions[0].blocks[0].operations if "dot" in op.name]
    assert [v.type.element for v in (*dot.operands, *dot.results)] == [mlir.IntegerType(32)] * 3


def test_a_bounded_size_counts_with_its_bound():
    """A sum of so many products needs 64 bits."""
    left, right, to = (
        "!quant.uniform<i8:f32, 0.5:-20>",
        "!quant.uniform<i8:f32, 0.5>",
        "!quant.uniform<i32:f32, 1.0e3>",
    )
    types = (
        f"tensor<1x?x{left}, #stablehlo.bounds<?, 300000>>",
        f"tensor<?x1x{right}, #stablehlo.bounds<300000, ?>>",
    )
    body = f"""%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : ({types[0]}, {types[1]}) -> tensor<1x1x{to}>
    return %0 : tensor<1x1x{to}>"""
    x, y = np.full((1, 300_000), 127, np.int8), np.full((300_000, 1), -128, np.int8)
    found = run(body, f"%x: {types[0]}, %y: {types[1]}", f"tensor<1x1x{to}>", x, y)
    assert found.item() == 300_000 * 147 * -128 // 4 // 1000


CONVOLUTION = """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
    window = {{stride = [2], pad = [[1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<1x2x9x{0}>, tensor<3x2x3x{1}>) -> tensor<1x3x5x{2}>
  return %0 : tensor<1x3x5x{2}>"""


def convolved(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    windows = np.stack([padded[:, :, at : at + 3] for at in range(0, 9, 2)])
    return np.einsum("pbfw,ofw->bop", windows, k)


@pytest.mark.parametrize("backend", BACKENDS)
def test_convolutions(backend):
    x, k = integers(1, 2, 9), integers(3, 2, 3, seed=1)
    right = "!quant.uniform<i8:f32:0, {0.01:3, 0.02, 0.03}>"
    to = "!quant.uniform<i8:f32:1, {1.5:1, 2.5, 3.5:-9}>"
    exact = convolved(real(x, 0.5, -20), real(k, [0.01, 0.02, 0.03], [3, 0, 0], 0))
    wanted = [stored(exact[:, n], s, z) for n, (s, z) in enumerate(((1.5, 1), (2.5, 0), (3.5, -9)))]
    found = run(CONVOLUTION.format(A, right, to), f"%x: tensor<1x2x9x{A}>, %k: tensor<3x2x3x{right}>",
                f"tensor<1x3x5x{to}>", x, k, backend=backend)  # fmt: skip
    assert np.array_equal(found, np.stack(wanted, 1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_hybrid_operations_take_quantized_weights(backend):
    x, k = np.random.default_rng(0).normal(size=(1, 2, 9)).astype(np.float32), integers(3, 2, 3, seed=1)
    right = "!quant.uniform<i8:f32:0, {0.01:3, 0.02, 0.03}>"
    found = run(CONVOLUTION.format("f32", right, "f32"), f"%x: tensor<1x2x9xf32>, %k: tensor<3x2x3x{right}>",
                "tensor<1x3x5xf32>", x, k, backend=backend)  # fmt: skip
    assert np.allclose(found, convolved(x, real(k, [0.01, 0.02, 0.03], [3, 0, 0], 0)), rtol=1e-5, atol=1e-5)


def test_operations_of_one_type_share_its_scales():
    """A type can be as long as the file, and every operation of that type."""
    kind = f"!quant.uniform<i8:f32:0, {{{', '.join(f'0.{n}:{n}' for n in range(1, 6))}}}>"
    text = f"func.func @main(%x: tensor<5x{kind}>) -> tensor<5xf32> {{\n"
    text += f"%0 = stablehlo.uniform_dequantize %x : (tensor<5x{kind}>) -> tensor<5xf32>\n" * 2
    text = text.replace("%0", "%1", 1) + "return %0 : tensor<5xf32> }"
    source = without_quantized(parse(f"!q = {kind}\n" + text.replace(kind, "!q")))
    operations = functions_of(source)["main"].regions[0].blocks[0].operations
    assert [op.name.removeprefix("stablehlo.") for op in operations].count("constant") == 2


def test_movement_moves_integers():
    kind, moved = (
        "!quant.uniform<i8:f32:0, {0.1:-30, 0.5:-20}>",
        "!quant.uniform<i8:f32:1, {0.1:-30, 0.5:-20}>",
    )
    text = f"""func.func @main(%x: tensor<2x3x{kind}>) -> tensor<3x2x{moved}> {{
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3x{kind}>) -> tensor<3x2x{moved}>
    return %0 : tensor<3x2x{moved}> }}"""
    assert names(text) == ["transpose", "func.return"]


def test_select_takes_values_of_different_scales():
    text = f"""func.func @main(%p: tensor<2xi1>, %x: tensor<2x{A}>, %y: tensor<2x{B}>) -> tensor<2x{B}> {{
    %0 = stablehlo.select %p, %x, %y : (tensor<2xi1>, tensor<2x{A}>, tensor<2x{B}>) -> tensor<2x{B}>
    return %0 : tensor<2x{B}> }}"""
    compiled = axla.compile(import_source(parse(text)), backend="interpreter")
    x, y = np.array([-10, -10], np.int8), np.array([5, 6], np.int8)
    (found,) = compiled.execute([np.array([True, False]), x, y])
    assert np.asarray(found).tolist() == [27, 6]


def test_padding_is_a_quantized_value():
    body = f"""%p = stablehlo.constant dense<-3> : tensor<{A}>
    %0 = stablehlo.pad %x, %p, low = [1], high = [0], interior = [0]
      : (tensor<2x{A}>, tensor<{A}>) -> tensor<3x{A}>
    return %0 : tensor<3x{A}>"""
    assert run(body, f"%x: tensor<2x{A}>", f"tensor<3x{A}>", np.array([4, 5], np.int8)).tolist() == [-3, 4, 5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_regions_and_calls(backend):
    text = f"""module {{
    func.func @main(%x: tensor<4x{A}>, %zero: tensor<{A}>, %p: tensor<i1>) -> tensor<{A}> {{
      %0 = func.call @twice(%x) : (tensor<4x{A}>) -> tensor<4x{A}>
      %1 = "stablehlo.if"(%p) ({{
        stablehlo.return %0 : tensor<4x{A}> }}, {{ stablehlo.return %x : tensor<4x{A}> }})
        : (tensor<i1>) -> tensor<4x{A}>
      %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<4x{A}>, tensor<{A}>) -> tensor<{A}>
      return %2 : tensor<{A}>
    }}
    func.func private @twice(%x: tensor<4x{A}>) -> tensor<4x{A}> {{
      %0 = stablehlo.add %x, %x : tensor<4x{A}>
      return %0 : tensor<4x{A}>
    }} }}"""
    compiled = axla.compile(axla.parse(text), backend=backend)
    x = np.array([-19, -18, -25, -20], np.int8)
    for pred, wanted in ((True, -24), (False, -22)):
        (found,) = compiled.execute([x, np.int8(-20), np.bool_(pred)])
        assert np.asarray(found).item() == wanted


def test_quantized_tensors_of_open_sizes():
    text = f"""func.func @main(%x: tensor<?x{A}>) -> tensor<?xf32> {{
    %0 = stablehlo.add %x, %x : tensor<?x{A}>
    %1 = stablehlo.uniform_dequantize %0 : (tensor<?x{A}>) -> tensor<?xf32>
    return %1 : tensor<?xf32> }}"""
    compiled = axla.compile(axla.parse(text), backend="interpreter", arg_types=[f"tensor<3x{A}>"])
    (found,) = compiled.execute([np.array([-20, -19, 0], np.int8)])
    assert np.asarray(found).tolist() == [0, 1, 20]


def test_a_source_without_quantized_types_is_itself():
    source = parse("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }")
    assert without_quantized(source) is source


def test_the_given_source_is_not_changed():
    text = f"func.func @main(%x: tensor<2x{A}>) -> tensor<2x{A}> {{ return %x : tensor<2x{A}> }}"
    source = parse(text)
    assert without_quantized(source) is not source
    (function,) = functions_of(source).values()
    assert isinstance(function.regions[0].blocks[0].arguments[0].type.element, mlir.QuantizedType)
