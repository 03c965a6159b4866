"""The two cursors over text, with small languages."""

from __future__ import annotations

import re

import pytest

from axla.core.cursor import Cursor, TokenCursor, always
from axla.core.errors import ParseError

_NUMBER = re.compile(r"\s*(\d+)")


class Lists(Cursor):
    """(1, (2, 3)), with comments up to the end of the line."""

    blanks = always(re.compile(r"(?:\s|#[^\n]*)*"))
    next_token = re.compile(r"(?:\s|#[^\n]*)*(?P<mark>\w+|\S)").match
    most_levels = 3

    def value(self):
        if not self.peek("("):
            return int(self.take(_NUMBER, "a number")[1])
        with self.inside("lists"):
            return self.listed("(", self.value, ")")


class Words(TokenCursor):
    next_token = always(re.compile(r"\s*(?:(?P<word>\w+)|(?P<mark>\S)|(?P<end>\Z))"))


def test_what_is_wanted_is_read():
    cursor = Lists("(1, # one\n (2, 3)) ")
    assert cursor.value() == [1, [2, 3]]
    assert cursor.at_end() and cursor.depth == 0
    cursor.end("the list")


@pytest.mark.parametrize("text, message, line, column", [
    ("(1,\n x)", "expected a number, found 'x'", 2, 2),
    ("(1\n2)", "expected ')' or ',', found '2'", 2, 1),
    ("(1, ", "expected a number, found the end of the text", 1, 5),
    ("((((1))))", "lists are nested more than 3 levels deep", 1, 4),
    ("(" + "x" * 50 + ")", f"expected a number, found '{'x' * 37}...'", 1, 2),
    ("1 2", "expected the end of the list, found '2'", 1, 3),
])  # fmt: skip
def test_errors_have_their_place(text, message, line, column):
    cursor = Lists(text)
    with pytest.raises(ParseError) as error:
        cursor.value()
        cursor.end("the list")
    assert error.value.message == message
    assert (error.value.line, error.value.column) == (line, column)


def test_tokens_one_after_the_other():
    cursor = Words("let x = 1")
    assert cursor.accept("let") and not cursor.accept("=")
    assert (cursor.kind, cursor.token, cursor.start, cursor.end) == ("word", "x", 4, 5)
    assert cursor.take("word", "a name") == "x"
    cursor.expect("=")
    cursor.seek(4)
    assert cursor.advance() == "x"
    for wanted, message in (("(", "expected '(', found '='"), (")", "expected ')', found '='")):
        with pytest.raises(ParseError, match=re.escape(message)) as error:
            cursor.expect(wanted)
        assert error.value.column == 7
    assert cursor.advance() == "=" and cursor.advance() == "1"
    assert cursor.kind == "end"
    with pytest.raises(ParseError, match="expected a name, found the end of the text"):
        cursor.take("word", "a name")
