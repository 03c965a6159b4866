"""Reads HLO text: a compiled regex matches each token, a `HloCursor` moves over them.

Blanks and comments may stand between any two tokens. The regexes use possessive quantifiers, so every match
takes time linear in what it consumes.
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
    """The method of a reader that normal forms need: raising an error."""

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError with a message; readers of texts add the line and column of `at`."""
        raise ParseError(message)


class HloCursor(cursor.Cursor, Refusal):
    """A position in an HLO text: words, numbers, strings and other common elements."""

    blanks = cursor.always(ascii_regex(BLANK))
    next_token = TOKEN.match

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._counted = (0, 1)  # an offset and its line

    def line_of(self, at: int) -> int:
        """The line of an offset; takes time linear in the distance from the previous query."""
        before, line = self._counted
        count = self.text.count
        line += count("\n", before, at) if at >= before else -count("\n", at, before)
        self._counted = (at, line)
        return line

    # Words and numbers.

    def word(self, what: str = "a name") -> str:
        """Reads a name; `what` says in the error what was expected."""
        return self.take(_NAME, what)[1]

    def name(self, what: str = "a name") -> str:
        """A name, optionally after %."""
        return self.take(_PERCENT_NAME, what)[1]

    def integer(self, what: str = "an integer") -> int:
        """Reads an integer of 64 bits, with a sign or not."""
        found = self.take(_INTEGER, what)
        return self.as_int64(found[1], found.start(1))

    def as_int64(self, digits: str, at: int) -> int:
        """Returns the value of digits; fails at `at` when it does not fit in 64 bits."""
        # The length is looked at first: int() of a long text takes quadratic time, and Python refuses it.
        if not digits.removeprefix("-").isdigit():
            self.fail(f"expected an integer, found '{digits[:40]}'", at)
        value = int(digits) if len(digits) < 40 else INT64_MAX + 1
        if not INT64_MIN <= value <= INT64_MAX:
            self.fail(f"{digits[:40]} does not fit in 64 bits", at)
        return value

    def real(self) -> float:
        """Reads a number as a float: with a point, an exponent, `inf` and `nan`, too."""
        return float(self.take(_REAL, "a number")[1])

    def boolean(self) -> bool:
        """Reads `true`, `false`, `0` or `1`."""
        at = self.skip()
        found = self.word("true or false") if not self.text[at : at + 1].isdigit() else str(self.integer())
        if found not in ("true", "false", "0", "1"):
            self.fail(f"expected true or false, found '{found}'", at)
        return found in ("true", "1")

    def quoted(self) -> str:
        """Reads a string in double quotes; gives its text without escapes."""
        return unescape(self.take(_STRING, "a string in quotes")[1][1:-1])

    def integers(self) -> tuple[int, ...]:
        """{1,0,2}"""
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
        """The uninterpreted text of an attribute's value: up to a comma or line end outside of brackets."""
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
                    self.fail(f"'{token}' closes what it did not open", end)
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
    """The text with C escapes replaced; escaped bytes above 127 are read as UTF-8."""
    if "\\" not in text:
        return text
    found = _UNESCAPE.sub(unescaped, text)
    if _BYTES.search(found):
        raw = found.encode("utf-8", "surrogateescape")
        return raw.decode("utf-8", "surrogateescape")
    return found


_BYTES = ascii_regex("[\udc80-\udcff]")


def unescaped(found: re.Match[str]) -> str:
    """The character of an escape; a byte above 127 as a surrogate."""
    code = found[1]
    if code[0] in "01234567":
        value = int(code, 8) & 0xFF
    elif code[0] in "xX" and len(code) > 1:
        value = int(code[1:], 16) & 0xFF if len(code) < 20 else 0
    else:
        return _SIMPLE.get(code, code)
    return chr(value) if value < 128 else chr(0xDC00 + value)
