"""Reading text: a position in it, the next token, and error messages about it.

A language defines patterns and words. `Cursor` matches one pattern after the other, each with the blanks
before it; `TokenCursor` always holds one token, matched by a pattern with a named group for each kind of
token. Errors are ParseError with the line and column of the next token.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from axla.core.errors import ParseError

T = TypeVar("T")
Matcher = Callable[[str, int], "re.Match[str] | None"]


def always(pattern: re.Pattern[str]) -> Callable[[str, int], re.Match[str]]:
    """The match function of a pattern that always matches, such as optional blanks."""
    return pattern.match  # type: ignore[return-value]


class Cursor:
    """A position in a text. Each method reads one thing, or raises ParseError at the position.

    A class for a language defines `blanks`, which matches blanks and comments (possibly none), and
    `next_token`, which matches any token after them.
    """

    __slots__ = ("text", "pos", "depth")

    blanks: Callable[[str, int], re.Match[str]]
    next_token: Matcher
    most_levels = 64
    """How deep what counts as a level may stand within its like."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = self.depth = 0

    # Where we are.

    def skip(self) -> int:
        """Skips blanks and comments; returns the offset of the next token."""
        self.pos = self.blanks(self.text, self.pos).end()
        return self.pos

    def at_end(self) -> bool:
        """Whether nothing but blanks and comments is left."""
        return self.skip() == len(self.text)

    def end(self, what: str) -> None:
        """Raises ParseError where the text continues after `what`."""
        if not self.at_end():
            self.fail(f"expected the end of {what}, found {self.saw()}")

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError at offset `at`, by default at the next token."""
        raise ParseError.at(message, self.text, self.skip() if at is None else at)

    def saw(self) -> str:
        """The next token, for messages."""
        found = self.next_token(self.text, self.pos)
        if found is None:
            return "the end of the text" if self.at_end() else "a string that is not closed"
        return shown(found[found.lastgroup or 0])

    def inside(self, what: str) -> Cursor:
        """A context for a level of nesting; ParseError beyond `most_levels`."""
        self.depth += 1
        if self.depth > self.most_levels:
            self.fail(f"{what} are nested more than {self.most_levels} levels deep")
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.depth -= 1

    # What stands here.

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches a pattern here (which must skip blanks itself) and moves past it."""
        found = pattern.match(self.text, self.pos)
        if found is not None:
            self.pos = found.end()
        return found

    def take(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """The same for a required pattern; `what` names it in the message."""
        found = self.match(pattern)
        if found is None:
            self.fail(f"expected {what}, found {self.saw()}")
        return found

    def peek(self, mark: str) -> bool:
        """Whether the next token begins with `mark`; stays before it."""
        return self.text.startswith(mark, self.skip())

    def accept(self, mark: str) -> bool:
        """Moves behind `mark` if it is next; returns whether it was."""
        if self.text.startswith(mark, self.skip()):
            self.pos += len(mark)
            return True
        return False

    def expect(self, mark: str, where: str = "") -> None:
        """Moves behind `mark`, or raises ParseError; `where` completes the message."""
        if not self.accept(mark):
            self.fail(f"expected '{mark}'{' ' + where if where else ''}, found {self.saw()}")

    def listed(self, opening: str, item: Callable[[], T], closing: str) -> list[T]:
        """Reads items between brackets, separated by commas."""
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
    """The token at a position in a text: `kind`, `token`, and its offsets `start` and `end`.

    `next_token` of a class must match anything, with the end of the text as the kind "end", and nothing after
    the token.
    """

    __slots__ = ("text", "kind", "token", "start", "end", "depth")

    next_token: Callable[[str, int], re.Match[str]]

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.depth, self.token = 0, ""
        self.seek(at)

    def seek(self, at: int) -> None:
        """Goes to the first token at or after an offset."""
        self.end = at
        self.advance()

    def advance(self) -> str:
        """Moves to the next token; returns the previous one."""
        passed = self.token
        found = self.next_token(self.text, self.end)
        self.kind = found.lastgroup or ""
        token = self.token = found[found.lastindex or 0]
        end = self.end = found.end()
        self.start = end - len(token)
        return passed

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raises ParseError at offset `at`, by default at the token."""
        raise ParseError.at(message, self.text, self.start if at is None else at)

    def saw(self) -> str:
        """The token, for messages."""
        return "the end of the text" if self.kind == "end" else shown(self.token)

    def expect(self, token: str) -> None:
        """Moves to the token behind this one, which must be `token`."""
        if self.token != token:
            self.fail(f"expected {token!r}, found {self.saw()}")
        self.advance()

    def accept(self, token: str) -> bool:
        """Moves to the token behind this one if this is `token`; returns whether it was."""
        if self.token != token:
            return False
        self.advance()
        return True

    def take(self, kind: str, what: str) -> str:
        """Reads the token, which must be of a kind; `what` names it in the message."""
        if self.kind != kind:
            self.fail(f"expected {what}, found {self.saw()}")
        return self.advance()


def shown(token: str) -> str:
    """A token in a message."""
    return repr(token if len(token) <= 40 else token[:37] + "...")
