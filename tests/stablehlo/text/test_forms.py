"""Every operation that has a short form: it says what jaxlib says that it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.text import parse, print_source
from mlir_sources import difference, jaxlib_generic

FORMS = {name: record.form for name, record in OPERATIONS.items() if record.form}
ARGUMENTS = (
    "%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %i: tensor<4x4xi32>, %p: tensor<4x4xi1>, %s: tensor<f32>,"
    " %n: tensor<i32>, %sh: tensor<2xi64>, %c: tensor<4x4xcomplex<f32>>, %t: !stablehlo.token,"
    " %u: tuple<tensor<f32>, tensor<i32>>, %k: tensor<2xui64>, %one: tensor<1xi64>, %w: tensor<1x4x4x1xf32>,"
    " %v: tensor<2x2x1x3xf32>, %q: tensor<i1>"
)
M = "tensor<4x4xf32>"


def _cases() -> dict[str, str]:
    sections = re.split(r"^// (\w+\.\w+)\n", (Path(__file__).parent / "forms.mlir").read_text(), flags=re.M)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


CASES = _cases()
# What a form of several operations is tried on, where it is not floats.
OPERANDS = {
    **dict.fromkeys(
        ["and", "or", "xor", "not", "popcnt", "count_leading_zeros", "shift_left", "shift_right_arithmetic"]
        + ["shift_right_logical", "mulhi", "broadcast_and", "broadcast_or", "broadcast_xor"]
        + ["broadcast_shift_left", "broadcast_shift_right_arithmetic", "broadcast_shift_right_logical"],
        ("i", "tensor<4x4xi32>", "tensor<4x4xi32>"),
    ),
    **dict.fromkeys(["real", "imag"], ("c", "tensor<4x4xcomplex<f32>>", M)),
    **dict.fromkeys(["is_finite", "is_inf", "is_neg_inf", "is_pos_inf"], ("a", M, "tensor<4x4xi1>")),
}
ELSEWHERE = {"builtin.module", "func.func", "func.return", "sdy.return", "sdy.mesh"}
NOT_IN_JAXLIB = {"chlo._asin_acos_kernel", "stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"}


def of_family(name: str) -> str:
    """The operation in the form that its family shares."""
    operand, kind, result = OPERANDS.get(name.split(".")[1], ("a", M, M))
    form = FORMS[name]
    if form == "% {} : @same":
        return f"%0 = {name} %{operand} : " + (kind if kind == result else f"({kind}) -> {result}")
    texts = {
        "% , % {} : @same": f"{name} %{operand}, %{operand} {{x.y = 1 : i8}} : {kind}",
        "% {} : @types -> @result": f"{name} %{operand} : {kind} -> {result}",
        "% , % {} : @types -> @result": f"{name} %{operand}, %{operand} : {kind}, {kind} -> {result}",
        "% , % {} : @function": f"{name} %{operand}, %{operand} : ({kind}, {kind}) -> {result}",
    }
    return f"%0 = {texts[form]}"


def program(body: str) -> str:
    return f"""module @m attributes {{x.y = "z"}} {{
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main({ARGUMENTS}) {{
    {body}
    return
  }}
  func.func private @other(%a: {M} {{x.y}}) -> ({M} {{x.z = 1 : i32}}) attributes {{x.w = unit}} {{
    func.return %a : {M}
  }}
  func.func private @declared(tensor<?xi32>, i1) -> i32
}}
"""


NAMES = sorted(n for n in FORMS if n.split(".")[0] not in ("check", "interpreter") and n not in ELSEWHERE)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NOT_IN_JAXLIB])
def test_short_form_says_what_jaxlib_says(name):
    text = program(CASES[name] if name in CASES else of_family(name))
    source = parse(text)
    assert difference(source, parse(jaxlib_generic(text))) == ""
    assert difference(source, parse(jaxlib_generic(print_source(source)))) == ""


def test_cases_are_of_forms():
    assert CASES.keys() <= FORMS.keys()
