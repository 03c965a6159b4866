"""Splits MLIR text into tokens: one compiled regex reads the token at a position, a `MlirCursor` holds it.

Kinds of token, the most frequent first: mark, value (`%0#1`), type (a `tensor<...>` with at most one `<...>`
inside), bare (a word), string, number (with its sign), symbol (`@main`), hash (`#name`), bang (`!name`),
caret (`^bb0`), end, and other.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from axla.core.cursor import T, TokenCursor, always
from axla.core.regex import ascii_regex

BLANK = r"\s*+(?://[^\n]*+\s*+)*+"
STRING = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'

_TOKEN = ascii_regex(
    BLANK
    + rf"""(?:(?P<mark>[(),=<>\[\]}}]|->|::?+|\{{(?:-\#)?+|\#-\}})
    |(?P<value>%[\w$.\-]++(?:\#\d++)?+)
    |(?P<type>tensor<[^<>"/]*+(?:<[^<>"/]*+>)?+>)
    |(?P<bare>[A-Za-z_][\w$.]*+)
    |(?P<string>{STRING})
    |(?P<number>-?(?:0x[0-9a-fA-F]++|\d++(?:\.\d*+(?:[eE][+-]?\d++)?+)?+))
    |(?P<symbol>@(?:[A-Za-z_$.\-][\w$.\-]*+|{STRING}))
    |(?P<hash>\#[\w$.\-]++)
    |(?P<bang>![A-Za-z_][\w$.\-]*+)
    |(?P<caret>\^[\w$.\-]++)
    |(?P<end>\Z)
    |(?P<other>\S))""".replace("\n", "").replace("    ", "")
)
_NESTING = ascii_regex(rf"{STRING}|->|[<>()\[\]{{}}]|//[^\n]*+|[^<>()\[\]{{}}\"/\-]++|[/\-]")
_BLANKS = ascii_regex(rf"{STRING}|(?:\s|//[^\n]*+)*+,(?:\s|//[^\n]*+)*+|(?:\s|//[^\n]*+)++")
_ESCAPE = re.compile(r'\\(?:([nt"\\])|([0-9A-Fa-f]{2})|(.))')
_CLOSING = {"<": ">", "(": ")", "[": "]", "{": "}"}
MAX_DEPTH = 100
"""The most levels of nested regions, types and attributes."""
DEEPEST_LOCATION = 1000
"""The most levels of nested locations, counted through aliases: a trace of calls is a chain of aliases."""
BUDGET, BUDGET_PER_CHARACTER = 1 << 20, 16
"""The most elements that all uses of aliases may stand for: BUDGET, and more for each character of the text.
An alias of a pair of aliases doubles them.
"""


def unescape(token: str) -> str:
    """The text of a string token; bytes that are not UTF-8 become surrogates. Raises ValueError for an
    unknown escape.
    """
    if "\\" not in token:
        return token[1:-1]

    def plain(found: re.Match[str]) -> str:
        if found[3] is not None:
            raise ValueError(f"unknown escape \\{found[3]} in a string")
        if found[2] is not None:
            return bytes.fromhex(found[2]).decode("latin-1")
        return {"n": "\n", "t": "\t"}.get(found[1], found[1])

    raw = token[1:-1]
    if not re.search(r"\\[0-9A-Fa-f]{2}", raw):
        return _ESCAPE.sub(plain, raw)
    # Escapes stand for bytes: the text is encoded, with one character for each byte, and decoded at the end.
    data = raw.encode("utf-8", "surrogateescape").decode("latin-1")
    return _ESCAPE.sub(plain, data).encode("latin-1").decode("utf-8", "surrogateescape")


def tidy(text: str) -> str:
    """Replaces blanks and comments outside of strings as MLIR prints them: by one blank, also after a
    comma.
    """

    def plain(found: re.Match[str]) -> str:
        part = found[0]
        return part if part[0] == '"' else ", " if "," in part else " "

    return _BLANKS.sub(plain, text)


class MlirCursor(TokenCursor):
    """A position in MLIR text, with the token there.

    `weight` is the number of list elements read so far; those of an alias count again for each use. `deepest`
    is the greatest nesting depth since the start of the current alias.
    """

    __slots__ = ("deepest", "weight", "budget", "alias_sizes")

    next_token = always(_TOKEN)

    def __init__(self, text: str, at: int = 0) -> None:
        super().__init__(text, at)
        self.deepest = self.weight = 0
        self.budget = BUDGET + BUDGET_PER_CHARACTER * len(text)
        self.alias_sizes: dict[str, tuple[int, int]] = {}

    def until(self, closing: str, read: Callable[[], T]) -> list[T]:
        """Reads items separated by commas, possibly none, up to and including the closing bracket."""
        found: list[T] = []
        if self.token != closing:
            found.append(read())
            while self.accept(","):
                found.append(read())
        self.expect(closing)
        self.weight += len(found)
        return found

    def listed(self, brackets: str, read: Callable[[], T]) -> list[T]:
        """Reads items separated by commas, in brackets."""
        self.expect(brackets[0])
        return self.until(brackets[1], read)

    def inside(self, brackets: str, read: Callable[[], T]) -> T:
        """Reads one item in brackets."""
        self.expect(brackets[0])
        found = read()
        self.expect(brackets[1])
        return found

    def deeper(self) -> None:
        """Enters a level of nesting, and fails beyond the limit; the caller leaves the level."""
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        if self.depth > MAX_DEPTH:
            self.fail(f"regions, types or attributes nested more than {MAX_DEPTH} deep")

    def define_alias(self, name: str, read: Callable[[], T]) -> T:
        """Reads the definition of an alias, and records its size, which counts again for each use."""
        before, deepest, self.deepest = self.weight, self.deepest, self.depth
        found = read()
        self.alias_sizes[name] = 1 + self.weight - before, self.deepest - self.depth
        # One location alias may be defined while another one is read.
        self.weight, self.deepest = before, deepest
        return found

    def use_alias(self, name: str, at: int, deepest: int = MAX_DEPTH) -> None:
        """Counts the elements and levels of an alias before a use at the offset `at`. Fails if aliases stand
        for too many elements, or if they are nested more than `deepest` levels deep.
        """
        weight, depth = self.alias_sizes[name]
        self.weight += weight
        self.budget -= weight
        self.deepest = max(self.deepest, self.depth + depth - 1)  # the name counts as a level already
        if self.budget < 0:
            self.fail(f"aliases expand to far more than the text, at {name}", at)
        if self.deepest > deepest:
            self.fail(f"aliases nested more than {deepest} deep, at {name}", at)

    def string(self, what: str = "a string") -> str:
        """Reads a string in quotes; returns its text without escapes."""
        at = self.start
        return self._unescaped(self.take("string", what), at)

    def _unescaped(self, token: str, at: int) -> str:
        try:
            return unescape(token)
        except ValueError as error:
            self.fail(str(error), at)

    def symbol(self) -> str:
        """Reads `@name` or `@"name"`; returns the name without the @."""
        at = self.start
        token = self.take("symbol", "a symbol such as @name")
        return token[1:] if token[1] != '"' else self._unescaped(token[1:], at)

    def word(self, what: str = "a word") -> str:
        """Reads a bare word."""
        return self.take("bare", what)

    def integer(self) -> int:
        """Reads a decimal or hexadecimal integer, as in lists of sizes."""
        at = self.start
        return self.integer_of(self.take("number", "an integer"), at)

    def integer_of(self, token: str, at: int) -> int:
        """The value of a number token that was read at this offset."""
        if len(token) > 4000:
            self.fail("a number of more than 4000 digits", at)
        try:
            return int(token, 16 if "x" in token else 10)
        except ValueError:
            self.fail(f"expected an integer, found {token!r}", at)

    def pair_of_integers(self) -> tuple[int, int]:
        """Reads `1:2`."""
        first = self.integer()
        self.expect(":")
        return first, self.integer()

    def balanced(self, begin: int) -> str:
        """The text from the offset `begin` to the end of the bracket that opens at the current token."""
        opened: list[str] = []
        at = self.start
        while found := _NESTING.match(self.text, at):
            part = found[0]
            if part in _CLOSING:
                opened.append(_CLOSING[part])
            elif part in ">)]}":
                if opened.pop() != part:
                    self.fail(f"{part!r} does not close the bracket that was opened last", at)
                if not opened:
                    self.seek(found.end())
                    return tidy(self.text[begin : found.end()])
            at = found.end()
        self.fail(f"the bracket {self.token!r} is not closed")
