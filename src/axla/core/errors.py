"""The exceptions that axla raises.

    AxlaError
      ParseError            text with a syntax error; shows line, column and a caret
      ShapeError            operand shapes that an op does not accept
      VerifyError           a graph that breaks an invariant
      UnsupportedError      correct, but not implemented: names op, dtype, backend, and what would work
      CompileError          LLVM rejects the code, a limit is exceeded, or effects have no order
      InvalidArgument       a call of axla's API with wrong arguments; names the parameter
      RuntimeFailure        a compiled program stopped
        OutOfMemory         the host or device has too little memory (detected before it is used)
        DeadlineExceeded    the deadline given to `execute` passed
        Cancelled           `cancel()` was called, or another replica failed
        CustomCallFailure   a custom call reported an error
        CollectiveFailure   a collective did not reach its other participants
      Mismatch              `check`: two backends give different results
      InternalError         a bug of axla

A user's mistake is never an `InternalError`, and never a bare Python exception.
"""

from __future__ import annotations

from collections import abc


def did_you_mean(name: object, known: abc.Iterable[str]) -> str:
    """Returns `; did you mean a?` for the known name that is most similar to `name`; "" if none is
    similar.
    """
    from difflib import get_close_matches

    close = get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


def choices(known: abc.Iterable[str], found: object = "") -> str:
    """Returns `there are a, b; did you mean a?`: the known names, and the one most similar to the unknown
    name `found`.
    """
    names = list(known)
    return f"there are {', '.join(names) or 'none'}{did_you_mean(found, names)}"


def missing(what: str, package: str, extra: str) -> str:
    """The message that `what` needs a package that is not installed, with the extra of axla that installs
    it.
    """
    return f'{what} needs {package}, which is not installed: pip install "axla[{extra}]"'


class AxlaError(Exception):
    """The base class of axla's exceptions. `file` is the file of the program that caused the error, if known;
    `placed` is whether the message names the operation.
    """

    file = ""
    placed = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class ParseError(AxlaError):
    """A syntax error in a text. `line` and `column` count from 1; `source` is the whole text."""

    def __init__(self, message: str, line: int = 0, column: int = 0, source: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.excerpt = excerpt(source, line, column)

    @classmethod
    def at(cls, message: str, source: str, offset: int) -> ParseError:
        """Makes the error for the character at `offset` in `source`. An offset before the beginning or after
        the end is clamped.
        """
        offset = max(0, min(offset, len(source)))
        line = source.count("\n", 0, offset) + 1
        column = offset - (source.rfind("\n", 0, offset) + 1) + 1
        return cls(message, line, column, source)

    def __str__(self) -> str:
        if not self.line:
            return self.message
        head = f"{self.message} at line {self.line}, column {self.column}"
        return f"{head}\n{self.excerpt}" if self.excerpt else head

    def __reduce__(self) -> tuple:
        # Keeps the excerpt instead of the source: the text of a program can have hundreds of megabytes.
        return _restored_parse_error, (self.message, self.line, self.column, self.excerpt)


def _restored_parse_error(message: str, line: int, column: int, excerpt: str) -> ParseError:
    error = ParseError(message, line, column)
    error.excerpt = excerpt
    return error


def excerpt(source: str, line: int, column: int, width: int = 100) -> str:
    """Returns a line of the source, and below it a caret under the column. Of a long line only about `width`
    characters around the column are shown.
    """
    if not source or line < 1:
        return ""
    start = 0
    for _ in range(line - 1):
        start = source.find("\n", start) + 1
        if start == 0:
            return ""
    end = source.find("\n", start)
    text = source[start : end if end >= 0 else len(source)]
    first = max(0, column - 1 - width // 2) if len(text) > width else 0
    # Tabs are repeated in the caret's line, so that the caret is under its column at any width of tabs.
    window = text[first : first + width]
    blank = "".join("\t" if c == "\t" else " " for c in window[: column - 1 - first])
    return f"  {window}\n  {blank}^"


class ShapeError(AxlaError):
    """Operand shapes that an op does not accept."""


class VerifyError(AxlaError):
    """A module that breaks a rule of the IR."""


class UnsupportedError(AxlaError):
    """A correct program that this backend, platform or build does not implement."""


class CompileError(AxlaError):
    """Code generation failed or would exceed a limit, or the program's side effects have no order."""


class InvalidArgument(AxlaError):
    """A call with wrong arguments; the message names the parameter, what was found and what was wanted."""


class RuntimeFailure(AxlaError):
    """A compiled program stopped with an error. `code`, `step` and `detail` are the fields of its call
    frame.
    """

    def __init__(self, message: str = "", code: int = 0, step: int = 0, detail: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.step = step
        self.detail = detail


class OutOfMemory(RuntimeFailure):
    """A run needs more memory than is available."""


class DeadlineExceeded(RuntimeFailure):
    """The deadline passed before the program ended."""


class Cancelled(RuntimeFailure):
    """The run was cancelled."""


class CustomCallFailure(RuntimeFailure):
    """A custom call reported an error. `status` is the status code (`core/status.py`) that it reported; 0 for
    none.
    """

    status = 0


class CollectiveFailure(RuntimeFailure):
    """A collective did not reach its other participants."""


class Mismatch(AxlaError):
    """Two backends compute different results; the message names the first output that differs."""


class InternalError(AxlaError):
    """A bug in axla itself; the message names the pass or module."""
