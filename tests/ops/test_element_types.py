"""Which element types elementwise ops take: what XLA's shape inference and StableHLO's specification say."""

from __future__ import annotations

import numpy as np
import pytest

import axla
import axla.hlo as hlo
from axla.core import dtypes as d
from axla.core.errors import ShapeError
from axla.core.shape import Shape
from axla.ir.attributes import Direction
from axla.ir.op import OPS

TYPES = {
    "p": (d.PRED,),
    "s": (d.S4, d.S8, d.S16, d.S32, d.S64),
    "u": (d.U4, d.U8, d.U16, d.U32, d.U64),
    "f": (d.F16, d.BF16, d.F32, d.F64, d.F8E5M2, d.F8E4M3FN),
    "c": (d.C64, d.C128),
}
UNARY = {
    "abs": "sfc", "sign": "sfc", "negate": "sufc",
    **dict.fromkeys(("ceil", "floor", "round-nearest-afz", "round-nearest-even", "is-finite", "erf"), "f"),
    "not": "psu", "popcnt": "su", "count-leading-zeros": "su",
    **dict.fromkeys(
        ("acos", "acosh", "asin", "asinh", "atanh", "cbrt", "cosh", "cosine", "exponential",
         "exponential-minus-one", "imag", "log", "log-plus-one", "logistic", "real", "rsqrt", "sine", "sinh",
         "sqrt", "tan", "tanh"), "fc"),
}  # fmt: skip
BINARY = {
    "add": "psufc", "multiply": "psufc",
    "subtract": "sufc", "divide": "sufc", "power": "sufc", "remainder": "suf",
    "maximum": "psuf", "minimum": "psuf",  # of complex numbers XLA and StableHLO say different things
    **dict.fromkeys(("and", "or", "xor"), "psu"),
    **dict.fromkeys(("mulhi", "shift-left", "shift-right-arithmetic", "shift-right-logical"), "su"),
    "atan2": "fc",
}  # fmt: skip


@pytest.mark.parametrize(("opcode", "kinds"), [*UNARY.items(), *BINARY.items()])
def test_what_an_op_takes(opcode, kinds):
    count = 1 if opcode in UNARY else 2
    for kind, types in TYPES.items():
        for dtype in types:
            operands = [Shape(dtype, (2,))] * count
            if kind in kinds:
                OPS[opcode]().infer(*operands)
            else:
                with pytest.raises(ShapeError, match=opcode):
                    OPS[opcode]().infer(*operands)


def test_what_ops_of_several_kinds_take():
    for dtype in [t for types in TYPES.values() for t in types]:
        x = Shape(dtype, (2,))
        assert hlo.Select().infer(Shape(d.PRED, (2,)), x, x) is x
        hlo.Compare(Direction.EQ).infer(x, x)
        for op, operands in ((hlo.Compare(Direction.LT), (x, x)), (hlo.Clamp(), (x, x, x))):
            if not dtype.is_complex:
                op.infer(*operands)
            else:
                with pytest.raises(ShapeError):
                    op.infer(*operands)


Z = np.array(
    [complex(a, b) for a in (0.0, -0.0, 1, -8, 1e30, np.inf) for b in (0.0, -0.0, 2, -1e-30, np.nan)], "c16"
)


@pytest.mark.parametrize("backend", ["interpreter", "cpu", "one-lane"])
@pytest.mark.parametrize("dtype", ["c64", "c128"])
def test_the_cube_root_of_complex_numbers(dtype, backend):
    z = Z.astype("c8" if dtype == "c64" else "c16")
    text = (
        f"HloModule m\nENTRY e {{ a = {dtype}[{len(z)}] parameter(0)\n ROOT r = {dtype}[{len(z)}] cbrt(a) }}"
    )
    found = np.asarray(axla.compile(axla.parse(text), backend=backend)(z))
    finite = np.isfinite(z) & (z != 0)
    wide = z[finite].astype("c16")
    np.testing.assert_allclose(found[finite], np.cbrt(abs(wide)) * np.exp(1j * np.angle(wide) / 3), 1e-6)
    zero = z == 0
    np.testing.assert_array_equal(found[zero], 0)
    np.testing.assert_array_equal(np.signbit(found[zero].imag), np.signbit(z[zero].imag))
    assert np.isnan(found[np.isnan(z)]).all()


def test_the_cube_root_of_stablehlo():
    text = """func.func @main(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %0 = "stablehlo.cbrt"(%a) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  return %0 : tensor<2xcomplex<f32>> }"""
    found = np.asarray(axla.compile(axla.parse(text))(np.array([8, 8j], "c8")))
    np.testing.assert_allclose(found, [2, 2 * np.exp(1j * np.pi / 6)], 1e-6)
