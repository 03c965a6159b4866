"""Readers for text formats: they keep a position in a text, read tokens, and report errors at the position.

The parser of a language defines regular expressions and words. `Cursor` matches one regular expression after
the other, each after skipping blanks. `TokenCursor` always holds the current token, matched by an expression
with a named group for each kind of token. Errors are ParseError with line and column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from axla.core.errors import ParseError

T = TypeVar("T")
Matcher = Callable[[str, int], "re.Match[str] | None"]


def always(pattern: re.Pattern[str]) -> Callable[[str, int], re.Match[str]]:
    """The match function of a pattern that matches everywhere, such as optional blanks, so that it never
    returns None.
    """
    return pattern.match  # type: ignore[return-value]


class Cursor:
    """A position in a text. Its methods read an item each, or raise ParseError at the position.

    The subclass for a language defines two match functions: `blanks`, for blanks and comments (possibly
    none), and `next_token`, for any token after them.
    """

    __slots__ = ("text", "pos", "depth")

    blanks: Callable[[str, int], re.Match[str]]
    next_token: Matcher
    most_levels = 64
    """The largest number of nested `inside` contexts."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = self.depth = 0

    # The position.

    def skip(self) -> int:
        """Skips blanks and comments; returns the offset of the next token."""
        self.pos = self.blanks(self.text, self.pos).end()
        return self.pos

    def at_end(self) -> bool:
        """Whether nothing but blanks and comments is left."""
        return self.skip() == len(self.text)

    def end(self, what: str) -> None:
        """Raises ParseError unless the text ends here. `what` names the text in the message."""
        if not self.at_end():
            self.fail(f"expected the end of {what}, found {self.saw()}")

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError at offset `at`, by default at the next token."""
        raise ParseError.at(message, self.text, self.skip() if at is None else at)

    def saw(self) -> str:
        """Returns the next token as shown in error messages."""
        found = self.next_token(self.text, self.pos)
        if found is None:
            return "the end of the text" if self.at_end() else "a string that is not closed"
        return shown(found[found.lastgroup or 0])

    def inside(self, what: str) -> Cursor:
        """Returns a context manager for one level of nesting; ParseError beyond `most_levels`. `what` names
        the nested things.
        """
        self.depth += 1
        if self.depth > self.most_levels:
            self.fail(f"{what} are nested more than {self.most_levels} levels deep")
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.depth -= 1

    # Reading the text at the position.

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches a pattern at the position and moves to the end of the match; None if it does not match. The
        pattern must match leading blanks itself.
        """
        found = pattern.match(self.text, self.pos)
        if found is not None:
            self.pos = found.end()
        return found

    def take(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Matches a pattern as `match` does, but raises ParseError if it does not match. `what` describes the
        wanted text.
        """
        found = self.match(pattern)
        if found is None:
            self.fail(f"expected {what}, found {self.saw()}")
        return found

    def peek(self, mark: str) -> bool:
        """Whether the text after blanks begins with `mark`. The position moves to the end of the blanks
        only.
        """
        return self.text.startswith(mark, self.skip())

    def accept(self, mark: str) -> bool:
        """Moves past `mark` if the text after blanks begins with it; returns whether it did."""
        if self.text.startswith(mark, self.skip()):
            self.pos += len(mark)
            return True
        return False

    def expect(self, mark: str, where: str = "") -> None:
        """Moves past `mark`; ParseError if the text after blanks does not begin with it. `where` completes
        the message.
        """
        if not self.accept(mark):
            self.fail(f"expected '{mark}'{' ' + where if where else ''}, found {self.saw()}")

    def listed(self, opening: str, item: Callable[[], T], closing: str) -> list[T]:
        """Reads a list in brackets: `item` reads each item, commas separate them."""
        self.expect(opening)
        items: list[T] = []
        if self.accept(closing):
            return items
        while True:
            items.append(item())
            if not self.accept(","):
                self.expect(closing, "or ','")
                return items


class TokenCursor:
    """A text and its current token: its kind, its text `token`, and its offsets `start` and `end`.

    A subclass defines the match function `next_token`. It must match at any position, match nothing after the
    token, and use the kind "end" at the end of the text.
    """

    __slots__ = ("text", "kind", "token", "start", "end", "depth")

    next_token: Callable[[str, int], re.Match[str]]

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.depth, self.token = 0, ""
        self.seek(at)

    def seek(self, at: int) -> None:
        """Moves to the first token at or after the offset `at`."""
        self.end = at
        self.advance()

    def advance(self) -> str:
        """Moves to the next token; returns the text of the previous one."""
        passed = self.token
        found = self.next_token(self.text, self.end)
        self.kind = found.lastgroup or ""
        token = self.token = found[found.lastindex or 0]
        end = self.end = found.end()
        self.start = end - len(token)
        return passed

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError at offset `at`, by default at the start of the current token."""
        raise ParseError.at(message, self.text, self.start if at is None else at)

    def saw(self) -> str:
        """Returns the current token as shown in error messages."""
        return "the end of the text" if self.kind == "end" else shown(self.token)

    def expect(self, token: str) -> None:
        """Moves to the next token; ParseError unless the current one is `token`."""
        if self.token != token:
            self.fail(f"expected {token!r}, found {self.saw()}")
        self.advance()

    def accept(self, token: str) -> bool:
        """Moves to the next token if the current one is `token`; returns whether it was."""
        if self.token != token:
            return False
        self.advance()
        return True

    def take(self, kind: str, what: str) -> str:
        """Returns the text of the current token and moves to the next; ParseError unless its kind is `kind`.
        `what` describes the wanted token.
        """
        if self.kind != kind:
            self.fail(f"expected {what}, found {self.saw()}")
        return self.advance()


def shown(token: str) -> str:
    """Quotes a token for a message, cut to 40 characters."""
    return repr(token if len(token) <= 40 else token[:37] + "...")
