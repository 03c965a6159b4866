"""Texts that are refused, with the position and the reason."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from test_forms import ARGUMENTS

from axla.core.errors import AxlaError, ParseError
from axla.stablehlo.text import parse, print_source
from mlir_sources import difference

HEAD = "func.func @f(%a: tensor<2xf32>, %p: tensor<i1>) {\n"
ERRORS = {
    "%0 = stablehlo.add %a, %b : tensor<2xf32>": ("%b is not defined here", 2, 24),
    "%0 = stablehlo.add %a, %a : tensor<3xf32>": (
        "%a is used as tensor<3xf32>, but it is tensor<2xf32>", 2, 20,
    ),
    "%a = stablehlo.abs %a : tensor<2xf32>": ("%a is defined twice", 2, 1),
    "%0 = stablehlo.abs %1 : tensor<2xf32>\n%1 = stablehlo.abs %a : tensor<2xf32>": (
        "%1 is used before it is defined", 2, 20,
    ),
    "%0:2 = stablehlo.abs %a : tensor<2xf32>": ("abs has 1 results, not as many as are named", 2, 8),
    "%0 = stablehlo.abs %a#1 : tensor<2xf32>": ("%a has no result number 1", 2, 20),
    "%0 = stablehlo.abs %a : (f32, f32) -> f32": ("1 operands present, but expected 2", 2, 25),
    "%0 = stablehlo.absolute %a : tensor<2xf32>": ("absolute is unknown or has no short form", 2, 6),
    "frobnicate": ("expected an operation, found 'frobnicate'", 2, 1),
    '"x.y"()[^bb1] : () -> ()': ("successors", 2, 8),
    '"x.y"(%a) : () -> ()': ("1 operands, but 0 types", 2, 1),
    '"x.y"() {a = 1, a = 2} : () -> ()': ("attribute 'a' occurs twice", 2, 17),
    '"x.y"() <{a = 1}> {a = 2} : () -> ()': ("an attribute is given twice", 2, 19),
    '"x.y"() : () -> () loc(#nowhere)': ("location alias #nowhere is not defined", 2, 24),
    '"x.y"() {a = "b\n"} : () -> ()': ("expected an attribute", 2, 14),
    "func.func @g() { %0 = stablehlo.abs %a : tensor<2xf32> }": ("%a is not defined here", 2, 37),
    '"x.y"() ({ %0 = "x.z"() : () -> i32 }) : () -> ()\n"x.y"(%0) : (i32) -> ()': (
        "%0 is not defined here", 3, 7,
    ),
    "%0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0], accuracy": (
        "expected 'precision'", 2, 66,
    ),
    "stablehlo.optimization_barrier (%a)": ("expected ')', found '%a'", 2, 33),
    "%0 = stablehlo.convolution(%a, %a) dim_numbers = [b, f]x[o, 0]->[b, f]": (
        "expected each of the dimensions i, o once, found o, 0", 2, 57,
    ),
    "%0 = stablehlo.reduce(%a init: %p) applies stablehlo.divide across dimensions = [0] : () -> ()": (
        "expected the inner-op to be a commutative binary-op", 2, 44,
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", ERRORS)
def test_errors_name_the_place(text):
    message, line, column = ERRORS[text]
    with pytest.raises(ParseError) as error:
        parse(f"{HEAD}{text}\nreturn\n}}")
    assert message in str(error.value)
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).endswith("^")


def test_errors_name_the_file():
    with pytest.raises(ParseError, match="^model.mlir: expected an operation, found '}' at line 1, column 1"):
        parse("}", name="model.mlir")


@pytest.mark.parametrize("before, opened, closed, after", [
    ("", '"stablehlo.if"(%p) ({\n', "}, {}) : (tensor<i1>) -> ()\n", ""), ("", "module {", "}", ""),
    ('"x.y"() {a = ', "[", "]", "} : () -> ()\n"), ('"x.y"() {a = ', "{a = ", "}", "} : () -> ()\n"),
    ('"x.y"() {a = ', "tuple<", ">", "} : () -> ()\n"),
    ('"x.y"() : () -> () loc(', '"a"(', ")", ")"),
])  # fmt: skip
def test_deep_nesting_ends(before, opened, closed, after):
    for count in (101, 100_000):
        inner = "unknown" if "loc" in before else ""
        with pytest.raises(ParseError, match="deep"):
            parse(f"{HEAD}{before}{opened * count}{inner}{closed * count}{after}return\n}}")


def test_chains_of_locations_are_read_in_any_order():
    lines = [f'#l{i} = loc("x{i}"(#l{i + 1}))' for i in range(50)] + ["#l50 = loc(unknown)"]
    operation = '"x.y"() : () -> () loc(#l0)'
    for text in ("\n".join([*lines, operation]), "\n".join([operation, *reversed(lines)])):
        location = parse(text).body[0].location
        for i in range(50):
            assert location.name == f"x{i}"
            location = location.child
    with pytest.raises(ParseError, match="not defined or contains itself"):
        parse('"x.y"() : () -> () loc(#a)\n#a = loc("x"(#a))')


def test_names_and_blocks():
    text = """
    %0, %1:2 = "x.y"() : () -> (i32, i1, i8)
    "x.z"(%1#1, %1#0, %1, %0, %0#0) ({
      %2 = "x.y"() : () -> i32
    ^bb1(%3: i32 loc("here"), %4: i1):
      "x.y"(%2, %3) : (i32, i32) -> ()
    }, {
      %2 = "x.y"() : () -> i8
    }, {}) : (i8, i1, i1, i32, i32) -> ()"""
    source = parse(text)
    first, second = source.body
    assert [(v.owner, v.index) for v in second.operands] == [(first, i) for i in (2, 1, 1, 0, 0)]
    blocks = second.regions[0].blocks
    assert [len(b.arguments) for b in blocks] == [0, 2] and blocks[1].locations[1] is None
    assert blocks[1].locations[0].name == "here" and second.position == (3, 5)
    assert second.regions[2].blocks == []
    assert difference(source, parse(print_source(source, locations=True)), locations=True) == ""


TOKEN = re.compile(r'[\w.]+|"[^"]*"|\s+|.')
PIECES = [
    *"<>(){}[]\"?*=:,-\\\0é", "->", "%a", "@x", "#loc", "!t", "^bb0", "-1", "9" * 30, "9" * 5000, "0x", "1.5",
    "dense", "tensor<", "complex<", "//", '"\\FF"', "i0", "unit", "{-#", "#-}", "attributes", "loc",
    "dense<1>", "tensor<9223372036854775807x9223372036854775807x0xf32>", 'dense<"0x00">',
    "{" * 300, "[" * 300, "loc(#x)",
]  # fmt: skip


TEXT = """
#loc1 = loc("a")
!t = tensor<2x1xf32>
module @m attributes {a = dense<[[1.0], [2.5]]> : tensor<2x1xf32>, b = -1 : i8, c = [@x, "y", unit, 2.0]} {
  func.func private @f(%a: !t {x.y}, %p: tensor<i1> loc(#loc1)) -> (!t {x.z = array<i64: 1>}) {
    %0:2 = "stablehlo.if"(%p) ({
      stablehlo.return %a, %a : !t, tensor<2x1xf32>
    }, {
      %1 = stablehlo.tanh %a : !t loc("b"("c":1:2))
      stablehlo.return %1, %1 : !t, tensor<2x1xf32>
    }) : (tensor<i1>) -> (!t, !t)
    return %0#1 : !t
  }
}
"""


def mutated(text: str, source: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(source.randint(1, 3)):
        place, how = source.randrange(len(tokens)), source.randrange(6)
        if how == 0:
            del tokens[place : place + source.randint(1, 4)]
        elif how == 1:
            tokens.insert(place, source.choice(PIECES))
        elif how == 2:
            tokens[place] = source.choice(PIECES)
        elif how == 3:
            tokens[place] = source.choice(tokens)
        elif how == 4:
            numbers = [i for i, token in enumerate(tokens) if token.isdigit()] or [0]
            tokens[source.choice(numbers)] = str(source.randrange(3))
        else:
            del tokens[place:]
        tokens = tokens or [""]
    return "".join(tokens)


def test_mutated_texts_are_read_or_refused():
    source = random.Random(20261121)
    cases = (Path(__file__).parent / "forms.mlir").read_text().split("\n\n")[1:]
    read = 0
    for _ in range(500):
        text = f"func.func @f({ARGUMENTS}) {{\n{source.choice(cases)}\nreturn\n}}"
        if source.randrange(2):
            text = TEXT
        try:
            print_source(parse(mutated(text, source)), locations=True)
            read += 1
        except AxlaError as error:
            assert str(error)
    assert 10 < read < 200
