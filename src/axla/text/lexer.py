"""Reading HLO text: one compiled regex splits it into tokens, a `Cursor` walks over it.

Blanks and comments may stand between any two tokens. The regexes use possessive repeats, so every match
takes time linear in what it consumes.
"""

from __future__ import annotations

import re
from typing import NoReturn

from axla.core.errors import ParseError
from axla.ir.strings import gap, pattern

BLANK = r"\s*+(?:(?:/\*[\s\S]*?\*/|//[^\n]*+)\s*+)*+"
NAME = r"[A-Za-z_][\w.\-]*+"
STRING = r'"(?:[^"\\]|\\[\s\S])*+"'

TOKEN = pattern(
    BLANK
    + rf"""(?:(?P<string>{STRING})
    |(?P<name>%?{NAME})
    |(?P<number>-?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+|-inf\b|-nan\b)
    |(?P<mark>->|<=|[^\s"]))""".replace("\n", "").replace("    ", "")
)
_BLANK = gap(BLANK)
_INTEGER = pattern(BLANK + r"(-?\d++)")
_REAL = pattern(BLANK + r"(-?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+|-?inf\b|-?nan\b)")
_NAME = pattern(BLANK + f"({NAME})")
_PERCENT_NAME = pattern(BLANK + f"%?({NAME})")
_STRING = pattern(BLANK + f"({STRING})")
_INTEGERS = pattern(BLANK + r"\{\s*+(?:(-?\d++\s*+(?:,\s*+-?\d++\s*+)*+))?\}")
_NESTING = pattern(rf"{STRING}|[{{}}()\[\],]|->|//[^\n]*+|/\*[\s\S]*?\*/|[^{{}}()\[\],\"\s/]++|/|\s++")

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_NESTING = 64
"""How deep tuples, inline instructions and inline computations may stand inside each other."""

_CLOSING = {"{": "}", "(": ")", "[": "]"}


class Refusal:
    """What decoders of forms need of a reader: a way to say no."""

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise ParseError(message)


class Cursor(Refusal):
    """A place in a text. The methods read one thing each, or raise ParseError at the place."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.nesting = 0
        self._counted = (0, 1)  # an offset and its line

    # Where we are.

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError at offset `at`, by default at the next token."""
        raise ParseError.at(message, self.text, self.skip() if at is None else at)

    def skip(self) -> int:
        """Skips blanks and comments; gives the offset of the next token."""
        self.pos = _BLANK(self.text, self.pos).end()
        return self.pos

    def line_of(self, at: int) -> int:
        """The line of an offset, which takes as long as the text is from where it was asked last."""
        before, line = self._counted
        count = self.text.count
        line += count("\n", before, at) if at >= before else -count("\n", at, before)
        self._counted = (at, line)
        return line

    def at_end(self) -> bool:
        return self.skip() == len(self.text)

    def saw(self) -> str:
        """The next token, for messages."""
        token = TOKEN.match(self.text, self.pos)
        if token is None:
            self.skip()
            return "a string that is not closed" if self.pos < len(self.text) else "the end of the text"
        found = token.group(token.lastgroup or 0)
        return repr(found if len(found) <= 40 else found[:37] + "...")

    def deeper(self, what: str) -> None:
        """Counts a level of nesting; the caller counts it down again."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.fail(f"{what} are nested more than {MAX_NESTING} levels deep")

    # Marks.

    def peek(self, mark: str) -> bool:
        return self.text.startswith(mark, self.skip())

    def accept(self, mark: str) -> bool:
        if self.text.startswith(mark, self.skip()):
            self.pos += len(mark)
            return True
        return False

    def expect(self, mark: str, where: str = "") -> None:
        if not self.accept(mark):
            self.fail(f"expected '{mark}'{' ' + where if where else ''}, found {self.saw()}")

    # Words and numbers.

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches a pattern here (it must skip blanks itself) and moves behind it."""
        found = pattern.match(self.text, self.pos)
        if found is not None:
            self.pos = found.end()
        return found

    def word(self, what: str = "a name") -> str:
        found = self.match(_NAME)
        if found is None:
            self.fail(f"expected {what}, found {self.saw()}")
        return found[1]

    def name(self, what: str = "a name") -> str:
        """A name with or without % before it."""
        found = self.match(_PERCENT_NAME)
        if found is None:
            self.fail(f"expected {what}, found {self.saw()}")
        return found[1]

    def integer(self, what: str = "an integer") -> int:
        found = self.match(_INTEGER)
        if found is None:
            self.fail(f"expected {what}, found {self.saw()}")
        return self.as_int64(found[1], found.start(1))

    def as_int64(self, digits: str, at: int) -> int:
        # The length is looked at first: int() of a long text takes quadratic time, and Python refuses it.
        if not digits.removeprefix("-").isdigit():
            self.fail(f"expected an integer, found '{digits[:40]}'", at)
        value = int(digits) if len(digits) < 40 else INT64_MAX + 1
        if not INT64_MIN <= value <= INT64_MAX:
            self.fail(f"{digits[:40]} does not fit in 64 bits", at)
        return value

    def real(self) -> float:
        found = self.match(_REAL)
        if found is None:
            self.fail(f"expected a number, found {self.saw()}")
        return float(found[1])

    def boolean(self) -> bool:
        at = self.skip()
        found = self.word("true or false") if not self.text[at : at + 1].isdigit() else str(self.integer())
        if found not in ("true", "false", "0", "1"):
            self.fail(f"expected true or false, found '{found}'", at)
        return found in ("true", "1")

    def quoted(self) -> str:
        found = self.match(_STRING)
        if found is None:
            self.fail(f"expected a string in quotes, found {self.saw()}")
        return unescape(found[1][1:-1])

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

    def listed(self, opening: str, item, closing: str) -> list:
        """Items between marks, with commas between them."""
        self.expect(opening)
        items: list = []
        if self.accept(closing):
            return items
        while True:
            items.append(item())
            if not self.accept(","):
                self.expect(closing, "or ','")
                return items

    def raw(self) -> str:
        """An attribute's value of any form, as it stands: up to a comma or line end outside brackets."""
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


_UNESCAPE = pattern(r"\\([0-7]{1,3}|[xX][0-9a-fA-F]+|[\s\S])")
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def unescape(text: str) -> str:
    """The text behind C's escapes; escaped bytes above 127 are read as UTF-8."""
    if "\\" not in text:
        return text
    found = _UNESCAPE.sub(unescaped, text)
    if _BYTES.search(found):
        raw = found.encode("utf-8", "surrogateescape")
        return raw.decode("utf-8", "surrogateescape")
    return found


_BYTES = pattern("[\udc80-\udcff]")


def unescaped(found: re.Match[str]) -> str:
    """What an escape stands for; a byte above 127 as a surrogate."""
    code = found[1]
    if code[0] in "01234567":
        value = int(code, 8) & 0xFF
    elif code[0] in "xX" and len(code) > 1:
        value = int(code[1:], 16) & 0xFF if len(code) < 20 else 0
    else:
        return _SIMPLE.get(code, code)
    return chr(value) if value < 128 else chr(0xDC00 + value)
