"""Where vectors go another way than single elements: strides, edges, pieces of elements, rows in order,
windows of a scatter. The interpreter and one lane say what is right.
"""

from __future__ import annotations

import numpy as np
import pytest
from three_ways import agree

RNG = np.random.default_rng(5)


def run(parameters: list[str], body: str, inputs: list[np.ndarray], before: str = "") -> np.ndarray:
    head = "".join(f" p{n} = {shape} parameter({n})\n" for n, shape in enumerate(parameters))
    return agree(f"HloModule m\n\n{before}\nENTRY main {{\n{head}{body}\n}}\n", inputs)[0]


def floats(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


@pytest.mark.parametrize("stride", [2, 3, 4, 5])
@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("s8", np.int8)])
def test_strided_slices(stride: int, kind: str, dtype: type) -> None:
    size, start = 331, 3
    x = (RNG.standard_normal((5, size)) * 50).astype(dtype)
    count = -(-(size - start) // stride)
    limits = f"slice={{[0:5], [{start}:{size}:{stride}]}}"
    found = run([f"{kind}[5,{size}]"], f" ROOT r = {kind}[5,{count}] slice(p0), {limits}", [x])
    np.testing.assert_array_equal(found, x[:, start::stride])


@pytest.mark.parametrize("padding", ["3_70", "0_5", "-4_9", "2_2_1", "33_-1"])
def test_padded_rows(padding: str) -> None:
    low, high, interior = (int(n) for n in (*padding.split("_"), "0")[:3])
    size = 75 + 74 * interior + low + high
    body = f" ROOT r = f32[6,{size}] pad(p0, p1), padding=1_2x{padding}"
    run(["f32[3,75]", "f32[]"], body, [floats(3, 75), np.float32(7)])


@pytest.mark.parametrize("padding", ["1_1_1x1_2_1x0_0", "0_0x2_3x0_0", "0_0x-1_4_2x0_0", "3_0x0_0x0_1"])
def test_pads_beside_a_dimension_that_is_kept(padding: str) -> None:
    edges = [[int(n) for n in (*part.split("_"), "0")[:3]] for part in padding.split("x")]
    dims = [
        n + low + high + (n - 1) * interior
        for n, (low, high, interior) in zip((3, 4, 37), edges, strict=True)
    ]
    shape = f"f32[{','.join(map(str, dims))}]"
    run(
        ["f32[3,4,37]", "f32[]"],
        f" ROOT r = {shape} pad(p0, p1), padding={padding}",
        [floats(3, 4, 37), np.float32(7)],
    )


def test_a_pad_of_what_is_padded() -> None:
    body = (
        " z = f32[] constant(1)\n e = f32[90] exponential(p0)\n a = f32[100] pad(e, z), padding=7_3\n"
        " b = f32[108] pad(a, z), padding=3_5\n ROOT r = f32[108] tanh(b)"
    )
    assert agree("HloModule m\nENTRY e {\n p0 = f32[90] parameter(0)\n" + body + "\n}\n", [floats(90)], 1e-6)


POOLS = [
    "window={size=1x3x3 stride=1x2x2 pad=0_0x0_1x0_1}",
    "window={size=1x3x3 stride=1x1x1 pad=0_0x1_1x1_1}",
    "window={size=1x2x5 stride=1x2x3 pad=0_0x0_0x9_4 rhs_dilate=1x1x2}",
    "window={size=1x3x3 pad=0_0x1_1x2_2 lhs_dilate=1x1x2}",
]


@pytest.mark.parametrize("window", POOLS)
def test_windows_over_edges(window: str) -> None:
    combine = "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"
    low = " low = f32[] constant(-inf)\n"
    text = f"HloModule m\n{combine}\nENTRY e {{\n p0 = f32[4,37,70] parameter(0)\n{low} ROOT r = @ " \
        f"reduce-window(p0, low), {window}, to_apply=max\n}}\n"  # fmt: skip
    fields = dict(f.split("=") for f in window.removeprefix("window={").rstrip("}").split())
    dims = []
    for d, size in enumerate((4, 37, 70)):
        at = {k: v.split("x")[d] for k, v in fields.items()}
        sides = [int(n) for n in at["pad"].split("_")]
        base = (size - 1) * int(at.get("lhs_dilate", 1)) + 1 + sum(sides)
        reach = (int(at["size"]) - 1) * int(at.get("rhs_dilate", 1)) + 1
        dims.append((base - reach) // int(at.get("stride", 1)) + 1)
    agree(text.replace("@", "f32[" + ",".join(map(str, dims)) + "]"), [floats(4, 37, 70)])


PIECES = [("f32", "u8", 4), ("f64", "u16", 4), ("f64", "f32", 2)]


@pytest.mark.parametrize(("wide", "narrow", "ratio"), PIECES)
@pytest.mark.parametrize("count", [3, 64, 77])
def test_elements_as_pieces_and_back(wide: str, narrow: str, ratio: int, count: int) -> None:
    x = RNG.standard_normal(count).astype({"f32": np.float32, "f64": np.float64}[wide])
    pieces = run([f"{wide}[{count}]"], f" ROOT r = {narrow}[{count},{ratio}] bitcast-convert(p0)", [x])
    back = f" ROOT r = {wide}[{count}] bitcast-convert(p0)"
    assert run([f"{narrow}[{count},{ratio}]"], back, [pieces]).tobytes() == x.tobytes()


SET = "second { a = f32[] parameter(0)\n ROOT b = f32[] parameter(1) }"
ADD = "second { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"


@pytest.mark.parametrize("combine", [SET, ADD])
@pytest.mark.parametrize("width", [1, 7, 16, 37])
def test_windows_of_a_scatter(combine: str, width: int) -> None:
    """Some windows stand where others stand, some reach over the edge and change nothing."""
    indices = np.array([[0, 0], [3, 2], [3, 2], [9, 0], [4, 90], [2, -1], [7, 1]], np.int32)
    body = (
        " ROOT r = f32[10,64] scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=second"
    )
    shapes = ["f32[10,64]", "s32[7,2]", f"f32[7,3,{width}]"]
    run(shapes, body, [floats(10, 64), indices, floats(7, 3, width)], combine)


def test_rows_in_order() -> None:
    """NaN and ties: the last NaN of a row hides what is before it."""
    pick = (
        "pick { a = f32[] parameter(0)\n b = f32[] parameter(1)\n g = pred[] compare(a, b), direction=GE\n"
        " ROOT r = f32[] select(g, a, b) }\n"
    )
    x = floats(75, 61)
    x[:, 20:].flat[:: 3 * 41] = np.nan
    body = " low = f32[] constant(-inf)\n ROOT r = f32[75] reduce(p0, low), dimensions={1}, to_apply=pick"
    found = run(["f32[75,61]"], body, [x], pick)
    assert np.isnan(found).sum() < 75
