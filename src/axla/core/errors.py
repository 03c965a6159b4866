"""Every exception that axla raises on purpose.

    AxlaError
      ParseError            text that is not HLO, with line, column and a caret
      ShapeError            operand shapes that an op does not accept
      VerifyError           a graph that breaks an invariant
      UnsupportedError      right, but not implemented here: names op, dtype, backend, and what would work
      CompileError          LLVM refused what we emitted, a limit was passed, or effects have no order
      InvalidArgument       a call of our API with wrong arguments; names the parameter
      RuntimeFailure        a compiled program stopped
        OutOfMemory         memory of the host or device is not there (found before it is touched)
        DeadlineExceeded    the deadline given to `execute` passed
        Cancelled           `cancel()` was called, or another replica failed
        CustomCallFailure   a custom call reported an error
        CollectiveFailure   a collective could not meet its peers
      Mismatch              `check`: two backends give different results
      InternalError         a bug of ours

A user's mistake is never an `InternalError`, and never a bare Python exception.
"""

from __future__ import annotations

from collections import abc


def did_you_mean(name: object, known: abc.Iterable[str]) -> str:
    """`; did you mean a?` for the most similar known name; "" when none is similar."""
    from difflib import get_close_matches

    close = get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""


def choices(known: abc.Iterable[str], found: object = "") -> str:
    """`there are a, b; did you mean a?`, for an unknown name."""
    names = list(known)
    return f"there are {', '.join(names) or 'none'}{did_you_mean(found, names)}"


def missing(what: str, package: str, extra: str) -> str:
    """The message for a missing package, which an extra of axla installs."""
    return f'{what} needs {package}, which is not installed: pip install "axla[{extra}]"'


class AxlaError(Exception):
    """The base class of axla's exceptions. `file` is that of the program, if it caused the error; `placed`:
    whether the message names the operation.
    """

    file = ""
    placed = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class ParseError(AxlaError):
    """Text that does not parse: `line` and `column` count from 1; `source` is the text that was parsed."""

    def __init__(self, message: str, line: int = 0, column: int = 0, source: str = "") -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.excerpt = excerpt(source, line, column)

    @classmethod
    def at(cls, message: str, source: str, offset: int) -> ParseError:
        """The error at a character offset of the source (clamped to it)."""
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
        # The excerpt is kept, not the whole source: a program text can be hundreds of megabytes.
        return _restored_parse_error, (self.message, self.line, self.column, self.excerpt)


def _restored_parse_error(message: str, line: int, column: int, excerpt: str) -> ParseError:
    error = ParseError(message, line, column)
    error.excerpt = excerpt
    return error


def excerpt(source: str, line: int, column: int, width: int = 100) -> str:
    """The line of the source with a caret under the column; of a long line only a window around it."""
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
    # Tabs stay in both lines, so that the caret stands under its column whatever a tab is wide.
    window = text[first : first + width]
    blank = "".join("\t" if c == "\t" else " " for c in window[: column - 1 - first])
    return f"  {window}\n  {blank}^"


class ShapeError(AxlaError):
    """Operand shapes that an op does not accept."""


class VerifyError(AxlaError):
    """A graph that breaks an invariant of the IR."""


class UnsupportedError(AxlaError):
    """A right program that this backend, platform or build does not implement."""


class CompileError(AxlaError):
    """Code generation failed, or would exceed a limit, or the effects of the program have no order."""


class InvalidArgument(AxlaError):
    """A call with wrong arguments; the message names the parameter, what was found and what was wanted."""


class RuntimeFailure(AxlaError):
    """A compiled program stopped with an error. `code`, `step` and `detail` are those of its call frame."""

    def __init__(self, message: str = "", code: int = 0, step: int = 0, detail: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.step = step
        self.detail = detail


class OutOfMemory(RuntimeFailure):
    """More memory was asked for than there is."""


class DeadlineExceeded(RuntimeFailure):
    """The deadline passed before the program ended."""


class Cancelled(RuntimeFailure):
    """The run was cancelled."""


class CustomCallFailure(RuntimeFailure):
    """A custom call reported an error. `status` is the code of `core/status.py` that it gave, 0 for none."""

    status = 0


class CollectiveFailure(RuntimeFailure):
    """A collective could not meet its peers."""


class Mismatch(AxlaError):
    """Two backends give different results; the message names the first output that differs."""


class InternalError(AxlaError):
    """A bug in axla itself; the message names the pass or layer."""
