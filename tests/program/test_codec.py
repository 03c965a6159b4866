"""Dataclasses as text: every kind of field, equal texts, and refusals that say where."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

import pytest

from axla.core.dtypes import BF16, F32, DType
from axla.core.errors import InvalidArgument, ParseError
from axla.core.shape import TOKEN, AnyShape, Shape, TupleShape
from axla.program.codec import Format, TextCodec

Tree = int | tuple["Tree", ...]


class Colour(enum.Enum):
    DARK_RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0

    def __post_init__(self):
        if self.x > 99:
            raise InvalidArgument(f"x is {self.x}")


@dataclass(frozen=True)
class Text:
    body: str


@dataclass(frozen=True)
class WorkStep:
    name: str
    shape: Shape | None = None
    any_shape: AnyShape = TOKEN
    kind: DType = F32
    sizes: tuple[int, ...] = ()
    pairs: tuple[tuple[int, str], ...] = ()
    point: Point | None = None
    points: tuple[Point, ...] = ()
    colour: Colour = Colour.BLUE
    on: bool = True
    ratio: float = 0.5
    raw: bytes = b""
    tree: Tree = 0
    size: int | tuple[int, ...] | None = None


@dataclass(frozen=True)
class LoopStep:
    name: str
    body: tuple[Step, ...]
    branches: tuple[tuple[Step, ...], ...] = ()
    text: Text | None = None
    count: int | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


Step = WorkStep | LoopStep


def _read_tree(reader):
    return (
        tuple(reader.listed("(", lambda: _read_tree(reader), ")")) if reader.peek("(") else reader.integer()
    )


def _read_text(text):
    if "wrong" in text:
        line = text.splitlines().index("  wrong")
        raise ParseError("this is wrong", line + 1, 3)
    return Text(text)


CODEC = TextCodec(
    {
        "Tree": Format(lambda t: str(t).replace(",)", ")"), _read_tree),
        Text: Format(lambda t: t.body, _read_text, block=True),
    },
    (WorkStep, LoopStep),
)

FULL = WorkStep(
    "a.b-c", Shape(F32, (2, 3)), TupleShape((Shape(BF16, ()), TOKEN)), BF16, (1, -2),
    ((1, "x y"), (2, "none")), Point(3), (Point(1, 2), Point(4)), Colour.DARK_RED, False, 1e-30,
    b"\0\xff", (0, (1, 2), ()), (3, 4),
)  # fmt: skip
NESTED = LoopStep(
    "outer", (FULL, LoopStep("inner", (WorkStep("w"),), count=3)),
    ((), (WorkStep("v"), LoopStep("u", ())), (WorkStep("é\n\"'"),)),
    Text("one\n  two {\n}"), None, ("p", "q,"),
)  # fmt: skip


def test_a_tree_reads_back_and_prints_alike():
    text = CODEC.print(NESTED)
    assert CODEC.parse(LoopStep, text) == NESTED
    assert CODEC.print(CODEC.parse(LoopStep, text)) == text


def test_the_text_is_for_people():
    loop = LoopStep(
        "w.1", (replace(FULL, any_shape=TOKEN, pairs=()),), ((), (LoopStep("u", ()),)), Text("x {\n  y\n}"), 7
    )
    assert (
        CODEC.print(loop)
        == """\
loop name=w.1 count=7
  body:
    work name=a.b-c shape=f32[2,3]{1,0} kind=bf16 sizes=(1, -2) point=point(x=3) \
points=(point(x=1, y=2), point(x=4)) colour=dark-red on=false ratio=1e-30 raw="00ff" tree=(0, (1, 2), ()) \
size=(3, 4)
  branches:
    -
    -
      loop name=u
        body:
  text:
    x {
      y
    }
"""
    )


def test_every_shortened_text_is_refused_or_another_value():
    text = CODEC.print(NESTED)
    for cut in range(len(text) - 1):
        try:
            assert CODEC.parse(LoopStep, text[:cut]) != NESTED
        except ParseError as error:
            assert error.line > 0 and error.column > 0


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message"),
    [
        ("count=3", "count=many", 4, 27, "expected an integer, found 'many'"),
        ("count=3", "count=3 count=4", 4, 29, "loop has two fields 'count'"),
        ("count=3", "number=3", 4, 21, "loop has no field 'number' here"),
        ("loop name=inner", "branch name=inner", 4, 5, "expected one of work, loop; found 'branch'"),
        ("name=inner ", "", 4, 5, "loop has no 'name'"),
        ("point=point(x=3)", "point=point(x=300)", 3, 0, "point: x is 300"),
        ("point=point(x=3)", "point=point(x=3", 3, 0, "expected ')' or ',', found 'points'"),
        ("colour=dark-red", "colour=green", 3, 0, "'green' is no colour"),
        ("shape=f32[2,3]{1,0}", "shape=(f32[2])", 3, 0, "expected the shape of an array, found (f32[2]{0})"),
        ("sizes=(1, -2)", f"sizes=({2**70})", 3, 0, "does not fit in 64 bits"),
        ('raw="00ff"', 'raw="00f"', 3, 0, "expected bytes in hexadecimal"),
        ("\n  text:", "\n    text:", 15, 5, "expected the end of the line, found 'text'"),
        ("two {", "wrong", 17, 7, "this is wrong"),
        ("on=false", "on=false\n", 4, 2, "expected the end of the text"),
    ],
)  # fmt: skip
def test_refusals_say_where(old, new, line, column, message):
    text = CODEC.print(NESTED)
    assert text.count(old) == 1
    if new == "wrong":
        old, new = "two {", "wrong"
    with pytest.raises(ParseError) as caught:
        CODEC.parse(LoopStep, text.replace(old, new))
    assert message in caught.value.message
    assert caught.value.line == line or not column
    assert not column or caught.value.column == column


def test_nesting_is_bounded():
    deep = NESTED
    for _ in range(120):
        deep = LoopStep("l", (deep,))
    assert CODEC.parse(LoopStep, CODEC.print(deep)) == deep
    for _ in range(100):
        deep = LoopStep("l", (deep,))
    with pytest.raises(ParseError, match="nested more than 150 levels deep"):
        CODEC.parse(LoopStep, CODEC.print(deep))


def test_a_union_that_no_word_tells_apart_is_refused():
    @dataclass(frozen=True)
    class Both:
        value: int | str

    with pytest.raises(TypeError, match="cannot be told apart"):
        CODEC.node(int | str)
    with pytest.raises(TypeError, match="has no text form"):
        CODEC.node(dict[str, int])
