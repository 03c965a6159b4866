"""Aliases of pairs of aliases stand for 2^n types: what they stand for is counted before it is looked at."""

import pytest

from axla.core.errors import ParseError
from axla.stablehlo.text import parse

ITSELF = "func.func @main(%x: T) -> T { return %x : T }"
SINE = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32> loc(L)
  return %0 : tensor<f32>
}"""


def aliases(mark: str, first: str, form: str, count: int) -> str:
    lines = [f"{mark}0 = {first}"]
    lines += [f"{mark}{n} = {form.replace('A', f'{mark}{n - 1}')}" for n in range(1, count)]
    return "\n".join(lines) + "\n"


def types(count, form="tuple<A, A>"):
    return aliases("!a", "tuple<i32, i32>", form, count) + ITSELF.replace("T", f"!a{count - 1}")


def attributes(count, form="[A, A]"):
    return aliases("#a", "[1, 2]", form, count) + ITSELF.replace("T", f"tensor<4xf32, #a{count - 1}>")


def locations(count, form="loc(fused[A, A])"):
    return aliases("#loc", 'loc("a")', form, count) + SINE.replace("L", f"#loc{count - 1}")


@pytest.mark.parametrize("text", [types, attributes, locations])
def test_aliases_that_double(text):
    parse(text(12))
    with pytest.raises(ParseError, match="aliases expand to far more than the text, at [!#]"):
        parse(text(59))


@pytest.mark.parametrize(
    ("text", "form", "deepest"),
    [
        (types, "tuple<A>", 100),
        (attributes, "[A]", 100),
        (locations, "loc(callsite(A at A))", None),
        (locations, 'loc("n"(A))', 1000),
    ],
)
def test_aliases_within_aliases(text, form, deepest):
    parse(text(12, form))
    with pytest.raises(ParseError, match=f"nested more than {deepest} deep" if deepest else "far more"):
        parse(text(3000, form))


def test_aliases_that_are_used_often():
    wide = "!wide = tuple<" + ", ".join(["i32"] * 200) + ">\n"
    functions = [ITSELF.replace("main", f"f{n}").replace("T", "!wide") for n in range(2000)]
    parse(wide + "\n".join(functions))
