"""Reads HLO text: a compiled regex matches each token, a `HloCursor` moves over the text.

Blanks and comments may occur between any two tokens. The regexes use possessive quantifiers, so every match
takes time linear in the length of the match.
"""

from __future__ import annotations

import re
from typing import NoReturn

from axla.core import cursor
from axla.core.errors import ParseError
from axla.core.regex import ascii_regex

BLANK = r"\s*+(?:(?:/\*[\s\S]*?\*/|//[^\n]*+)\s*+)*+"
NAME = r"[A-Za-z_][\w.\-]*+"
STRING = r'"(?:[^"\\]|\\[\s\S])*+"'

TOKEN = ascii_regex(
    BLANK
    + rf"""(?:(?P<string>{STRING})
    |(?P<name>%?{NAME})
    |(?P<number>-?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+|-inf\b|-nan\b)
    |(?P<mark>->|<=|[^\s"]))""".replace("\n", "").replace("    ", "")
)
_INTEGER = ascii_regex(BLANK + r"(-?\d++)")
_REAL = ascii_regex(BLANK + r"(-?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+|-?inf\b|-?nan\b)")
_NAME = ascii_regex(BLANK + f"({NAME})")
_PERCENT_NAME = ascii_regex(BLANK + f"%?({NAME})")
_STRING = ascii_regex(BLANK + f"({STRING})")
_INTEGERS = ascii_regex(BLANK + r"\{\s*+(?:(-?\d++\s*+(?:,\s*+-?\d++\s*+)*+))?\}")
_NESTING = ascii_regex(rf"{STRING}|[{{}}()\[\],]|->|//[^\n]*+|/\*[\s\S]*?\*/|[^{{}}()\[\],\"\s/]++|/|\s++")

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_CLOSING = {"{": "}", "(": ")", "[": "]"}


class Refusal:
    """The part of a reader that normal forms need: a method that raises ParseError."""

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError with a message; a reader of text adds the line and column of the position
        `at`.
        """
        raise ParseError(message)


class HloCursor(cursor.Cursor, Refusal):
    """A position in an HLO text, with methods to read words, numbers, strings and other common elements."""

    blanks = cursor.always(ascii_regex(BLANK))
    next_token = TOKEN.match

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._counted = (0, 1)  # an offset and its line

    def line_of(self, at: int) -> int:
        """The line number of an offset; the time is linear in the distance from the previous offset."""
        before, line = self._counted
        count = self.text.count
        line += count("\n", before, at) if at >= before else -count("\n", at, before)
        self._counted = (at, line)
        return line

    # Words and numbers.

    def word(self, what: str = "a name") -> str:
        """Reads a name; `what` names the wanted text in the error message."""
        return self.take(_NAME, what)[1]

    def name(self, what: str = "a name") -> str:
        """Reads a name, with or without %."""
        return self.take(_PERCENT_NAME, what)[1]

    def integer(self, what: str = "an integer") -> int:
        """Reads a signed integer of 64 bits."""
        found = self.take(_INTEGER, what)
        return self.as_int64(found[1], found.start(1))

    def as_int64(self, digits: str, at: int) -> int:
        """Returns the value of digits; raises ParseError for the position `at` if it does not fit in 64
        bits.
        """
        # int() is called for short texts only: for a long one it takes quadratic time, and Python limits the
        # length.
        if not digits.removeprefix("-").isdigit():
            self.fail(f"expected an integer, found '{digits[:40]}'", at)
        value = int(digits) if len(digits) < 40 else INT64_MAX + 1
        if not INT64_MIN <= value <= INT64_MAX:
            self.fail(f"{digits[:40]} does not fit in 64 bits", at)
        return value

    def real(self) -> float:
        """Reads a number as a float; a point, an exponent, `inf` and `nan` are allowed."""
        return float(self.take(_REAL, "a number")[1])

    def boolean(self) -> bool:
        """Reads `true`, `false`, `0` or `1`."""
        at = self.skip()
        found = self.word("true or false") if not self.text[at : at + 1].isdigit() else str(self.integer())
        if found not in ("true", "false", "0", "1"):
            self.fail(f"expected true or false, found '{found}'", at)
        return found in ("true", "1")

    def quoted(self) -> str:
        """Reads a string in double quotes; returns it with escapes replaced."""
        return unescape(self.take(_STRING, "a string in quotes")[1][1:-1])

    def integers(self) -> tuple[int, ...]:
        """Reads integers in braces, such as {1,0,2}."""
        found = self.match(_INTEGERS)
        if found is not None:
            inside = found[1]
            if not inside:
                return ()
            if len(inside) < 18:  # none can be out of range
                return tuple(map(int, inside.split(",")))
            return tuple(self.as_int64(d.strip(), found.start(1)) for d in inside.split(","))
        return tuple(self.listed("{", self.integer, "}"))

    def raw(self) -> str:
        """Reads the text of an attribute's value without interpreting it: up to a comma or line end outside
        of brackets.
        """
        start = end = self.skip()
        text = self.text
        open_: list[str] = []
        while (found := _NESTING.match(text, end)) is not None:
            token = found[0]
            if token in _CLOSING:
                open_.append(_CLOSING[token])
            elif token in ("}", ")", "]"):
                if not open_:
                    break
                if open_.pop() != token:
                    self.fail(f"'{token}' does not close the bracket that was opened last", end)
            elif not open_ and (token == "," or "\n" in token or token.startswith("//")):
                break
            end = found.end()
        if open_:
            self.fail(f"expected '{open_[-1]}' to close this value", start)
        if end == start:
            self.fail(f"expected a value, found {self.saw()}")
        self.pos = end
        return text[start:end].rstrip()


_UNESCAPE = ascii_regex(r"\\([0-7]{1,3}|[xX][0-9a-fA-F]+|[\s\S])")
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def unescape(text: str) -> str:
    """Replaces the C escapes in a text; escaped bytes above 127 are decoded as UTF-8."""
    if "\\" not in text:
        return text
    found = _UNESCAPE.sub(unescaped, text)
    if _BYTES.search(found):
        raw = found.encode("utf-8", "surrogateescape")
        return raw.decode("utf-8", "surrogateescape")
    return found


_BYTES = ascii_regex("[\udc80-\udcff]")


def unescaped(found: re.Match[str]) -> str:
    """The character that an escape stands for; a byte above 127 becomes a surrogate."""
    code = found[1]
    if code[0] in "01234567":
        value = int(code, 8) & 0xFF
    elif code[0] in "xX" and len(code) > 1:
        value = int(code[1:], 16) & 0xFF if len(code) < 20 else 0
    else:
        return _SIMPLE.get(code, code)
    return chr(value) if value < 128 else chr(0xDC00 + value)
