"""Templates: what is filled in, and what is refused."""

from __future__ import annotations

import pytest

from axla.core import templates
from axla.core.errors import InternalError
from axla.core.templates import fill


@pytest.fixture
def text(monkeypatch):
    def use(content: str) -> None:
        monkeypatch.setattr(templates, "_text", lambda name: content)

    return use


def test_places_within_words_and_lines(text):
    text("int FILL_SYMBOL_run(FILL_TYPE *FILL_SYMBOL);\n")
    assert fill("a/b.c", SYMBOL="f", TYPE="void") == "int f_run(void *f);"


def test_lines_replace_a_line_with_its_indent_and_none_take_it_away(text):
    text("{\n  FILL_BODY\n}\n")
    assert fill("a/b.c", BODY=["  a;", "    b;"]) == "{\n  a;\n    b;\n}"
    assert fill("a/b.c", BODY=()) == "{\n}"
    assert fill("a/b.c", BODY="c;") == "{\n  c;\n}"
    assert fill("a/b.c", BODY=iter(["d;"])) == "{\nd;\n}"


def test_what_is_filled_in_is_not_read_again(text):
    text("FILL_NAME FILL_TYPE\n")
    assert fill("a/b.c", NAME="FILL_TYPE", TYPE=r"\1") == r"FILL_TYPE \1"


@pytest.mark.parametrize(
    "places, message",
    [
        ({}, "template a/b.c: placeholder NAME has no value"),
        ({"NAME": "x", "TYPE": "y"}, "template a/b.c: there is no placeholder TYPE"),
        ({"NAME": ["x"]}, "template a/b.c: placeholder NAME is part of a line, so it must be a str"),
    ],
)
def test_refused(text, places, message):
    text("int FILL_NAME;\n")
    with pytest.raises(InternalError, match=message):
        fill("a/b.c", **places)
