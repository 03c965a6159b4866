"""Wrong texts: the place and the message, bounds on nesting and size, and random damage."""

# ruff: noqa: E501  (lines of HLO)

from __future__ import annotations

import random
import re

import pytest

from axla.core.errors import AxlaError, InternalError, ParseError
from axla.text import parse_hlo

WRONG = [
    ("HloModule m\nENTRY e { a = f32[] foo() }", 2, 21, "'foo' is not an opcode"),
    ("ENTRY e { a = f32[] paramter(0) }", 1, 21, "did you mean parameter? (`axla ops` lists those of axla and of"),
    ("HloModule m\nENTRY e { a = f32[] add(b) }", 2, 25, "no instruction 'b'"),
    ("ENTRY e { a = f32[] parameter(0)\n b = f32[] add(a) }", 2, 12, "add takes 2 operands, found 1"),
    ("ENTRY e { a = f32[] parameter(0)\n a = f32[] negate(a) }", 2, 2, "an instruction 'a' already"),
    ("ENTRY e { a = f32[] parameter(0)\n b = f32[] negate(f32[2] a) }", 2, 19,
    "with the shape f32[2], but has the shape f32[]"),
    ("ENTRY e { a = f32[2] iota() }", 1, 22, "needs the attribute iota_dimension"),
    ("ENTRY e { a = f32[2] iota(), iota_dimension=0, iota_dimension=0 }", 1, 48, "two attributes"),
    ("ENTRY e { a = f32[2] iota(), iota_dimension={0} }", 1, 45, "expected an integer"),
    ("ENTRY e { a = f32[2] iota(), iota_dimension=0, dims=3 }", 1, 48, "has no attribute 'dims'"),
    ("ENTRY e { a = f32[2] iota(), iota_dimension=0, calls=x }", 1, 48, "has no attribute 'calls'"),
    ("ENTRY e { a = f32[2] iota() iota_dimension=0 }", 1, 22, "needs the attribute"),
    ("ENTRY e { a = f32[] parameter(0)\n ROOT a2 = negate(a)\n ROOT b = abs(a) }", 3, 2, "two roots"),
    ("ENTRY e { a = f32[] parameter(1) }", 1, 34, "no parameter 0"),
    ("ENTRY e { a = f32[] parameter(0)\n b = f32[] parameter(0) }", 2, 22, "a parameter 0 already"),
    ("ENTRY e { a = f32[] parameter(-1) }", 1, 31, "at least 0"),
    ("ENTRY e { a = parameter(0) }", 1, 15, "must be written"),
    ("ENTRY e { }", 1, 11, "no instructions"),
    ("ENTRY e { a = f32[] parameter(0) }\nENTRY f { a = f32[] parameter(0) }", 2, 1, "only one ENTRY"),
    ("e { a = f32[] parameter(0) }\ne { a = f32[] parameter(0) }", 2, 1, "a computation 'e' already"),
    ("ENTRY e (x: f32[3]) -> f32[3] { a = f32[2] parameter(0) }", 1, 7,
    "returns f32[3], but its root is f32[2]"),
    ("ENTRY e { a = f32[] parameter(0)\n b = f32[] call(a), to_apply=f }\nf { a = f32[] parameter(0) }", 2,
    30,
     "no computation 'f' before"),
    ("ENTRY e { a = f32[] parameter(0) } trailing", 1, 44, "expected '{'"),
    ("HloModule m, foo=3\nENTRY e { a = f32[] parameter(0) }", 1, 14, "a module has no attribute 'foo'"),
    ("HloModule m, input_output_alias={ {0, a}: (0, {0}) }", 1, 39, "expected an integer"),
    ("HloModule m, input_output_alias={ {0}: (0, {0}), (0, {1}) }", 1, 50, "expected '{'"),
    ("HloModule m, replica_count=0", 1, 28, "at least 1"),
    ("HloModule m", 1, 12, "expected a computation"),
    ("", 1, 1, "expected a computation"),
    ("ENTRY e { a = f32[] parameter(0), metadata={foo=1} }", 1, 45, "metadata have no 'foo'"),
    ("ENTRY e { a = f32[] parameter(0), metadata={op_name=1} }", 1, 53, "must be a string"),
    ("ENTRY e { a = f32[] parameter(0), sharding={foo} }", 1, 44, "sharding {foo}"),
    ("ENTRY e { a = f32[] parameter(0), backend_config=\"open }", 1, 50, "not closed"),
    ("ENTRY e { p = pred[2] parameter(0)\n c = pred[2] compare(p, p), direction=lt }", 2, 39,
    "EQ, NE, GE, GT, LE, LT"),
    ("ENTRY e { p = (f32[2], s32[]) parameter(0)\n r = f32[2] negate(f32[2] %p#2) }", 2, 28,
    "has 2 elements"),
    ("ENTRY e { p = f32[2] parameter(0)\n r = s32[] conditional(p, p, p), true_computation=p }", 2, 51,
    "computation"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), WRONG)
def test_place_and_message(text, line, column, message):
    with pytest.raises(ParseError) as caught:
        parse_hlo(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.excerpt.endswith("^") or not text


def repeated(before: str, part: str, count: int, after: str = "") -> str:
    return before + part * count + after


MANY = 5_000
DEEP = {
    "instructions": repeated("ROOT a = f32[] ", "negate(", MANY, "f32[] parameter(0)" + ")" * MANY),
    "shapes": repeated("ROOT a = ", "(", MANY, "f32[]" + ")" * MANY + " parameter(0)"),
    "computations": repeated(
        "ENTRY e { ROOT a = f32[] call(), to_apply=", "{ ROOT a = f32[] call(), to_apply=", MANY
    ),
    "braces": repeated("ENTRY e { ROOT a = f32[2] constant({", "{", MANY),
    "brackets": repeated("ENTRY e { ROOT a = f32[2] parameter(0), statistics=", "{[(", MANY),
    "tuples of tuples": "ENTRY e { p0 = f32[] parameter(0)\n"
    + "\n".join(f"p{n + 1} = tuple(p{n})" for n in range(MANY)) + "}",
    "tuples that double": "ENTRY e { p0 = f32[] parameter(0)\n"
    + "\n".join(f"p{n + 1} = tuple(p{n}, p{n})" for n in range(60)) + "}",
    "comments": repeated("ENTRY e { a = f32[] ", "/* ", MANY),
    "quotes": repeated('ENTRY e { a = f32[] parameter(0), metadata={op_name="', '\\"', MANY),
    "blanks": repeated("ENTRY e { a = f32[2] ", " \n", 100_000, "x"),
    "devices": "ENTRY e { ROOT a = f32[2] parameter(0), "
               "sharding={devices=[4,3,9]<=[4,9223372036854775807]T(5)} }",
}  # fmt: skip


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_depth_and_size_are_bounded(text):
    with pytest.raises(ParseError):
        parse_hlo(text)


def test_long_chains_are_fine():
    lines = [f"p{n + 1} = f32[] negate(p{n})" for n in range(MANY)]
    module = parse_hlo("ENTRY e { p0 = f32[] parameter(0)\n" + "\n".join(lines) + "}")
    assert parse_hlo(module.to_string()).to_string() == module.to_string()
    calls = [
        f"c{n + 1} {{ a = f32[] parameter(0) ROOT b = f32[] call(a), to_apply=c{n} }}" for n in range(2_000)
    ]
    text = parse_hlo("c0 { ROOT a = f32[] parameter(0) }\n" + "\n".join(calls)).to_string()
    assert text.count("to_apply") == 2_000


SEEDS = [
    """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }, replica_count=2
add (x: f32[], y: f32[]) -> f32[] {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y), metadata={op_type="add" op_name="jit(f)/add" source_file="f.py" source_line=12}
}
ENTRY %main (p0: f32[8,<=128]) -> (f32[8], f32[8,128]) {
  %p0 = f32[8,<=128]{1,0:T(8,128)S(1)} parameter(0), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  %zero = f32[] constant(0), frontend_attributes={a="1",b={"k":[1]}}
  %r = f32[8]{0} reduce(f32[8,<=128] %p0, %zero), dimensions={1}, to_apply=%add, backend_config="x\\303\\251"
  %c = f32[8,128]{1,0} broadcast(%r), dimensions={0}, control-predecessors={%zero}
  ROOT %t = (f32[8]{0}, /*index=1*/f32[8,128]{1,0}) tuple(%r, %c)
}
""",
    """ENTRY e {
  a = c64[2,2] constant({ {(1, 2), (nan, -inf)}, {(0.5, 1e3), (-1, 0)} })
  b = s8[2,3] constant({{1,-128,127},{0,1,2}})
  s = s8[1,2] slice(b), slice={[0:2:2], [1:3]}
  d = s8[3,5] pad(s, s8[] constant(3)), padding=1_1x0_1_2
  p = pred[3,5] compare(d, d), direction=LT, type=SIGNED
  t = (c64[2,2], pred[3,5]) custom-call(a, p), custom_call_target="f", api_version=API_VERSION_TYPED_FFI,
    window={size=3x3 stride=2x2 pad=0_1x1_0 rhs_dilate=2x1}, dim_labels=b01f_01io->b01f,
    output_to_operand_aliasing={{0}: (0, {})}
  ROOT g = pred[3,5] get-tuple-element(t), index=1
}
""",
]
NUMBERS = (
    "0",
    "-1",
    "7",
    "9223372036854775807",
    "9223372036854775808",
    "1e400",
    "99999999999999999999999999",
)


def damaged(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 5))):
        kind, at = rng.randrange(6), rng.randrange(len(text))
        if kind == 0:
            text = text[:at] + chr(rng.choice((rng.randrange(127), rng.randrange(0xD000)))) + text[at + 1 :]
        elif kind == 1:
            lines = text.split("\n")
            lines.pop(rng.randrange(len(lines)))
            text = "\n".join(lines) or " "
        elif kind == 2 and (found := list(re.finditer(r"\d+", text))):
            place = rng.choice(found)
            text = text[: place.start()] + rng.choice(NUMBERS) + text[place.end() :]
        elif kind == 3:
            text = text[:at] + text[at + rng.randrange(1, 30) :] or " "
        elif kind == 4:
            text = text[:at] + rng.choice('{}()[],="%\\/*:#<>-?') + text[at + 1 :]
        elif found := list(re.finditer(r"[\w.\-]+", text)):
            place = rng.choice(found)
            text = text[: place.start()] + rng.choice(found)[0] + text[place.end() :]
    return text


def test_damaged_texts_parse_or_raise_our_errors():
    rng = random.Random(2)
    whole = 0
    for number in range(1_500):
        text = damaged(SEEDS[number % 2], rng)
        try:
            module = parse_hlo(text)
        except InternalError:
            raise
        except AxlaError:
            continue
        printed = module.to_string(print_large_constants=True)
        assert parse_hlo(printed).to_string(print_large_constants=True) == printed, text
        whole += 1
    assert whole > 50
