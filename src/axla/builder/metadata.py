"""Source locations for instructions: the lines of the user's program that added them."""

from __future__ import annotations

import contextlib
import linecache
import sys
from itertools import islice
from os.path import dirname
from types import FrameType

from axla.core.dataclass import dataclass
from axla.core.errors import excerpt
from axla.ir.graph import SourceLocation

_PACKAGE = dirname(dirname(__file__))


@dataclass(frozen=True, slots=True)
class OpMetadata:
    """The origin of an op: type and name of the framework's op, and the source line."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0


def user_line() -> tuple[str, int]:
    """Returns (file, line number) of the nearest caller outside the package axla; ("", 0) if there is
    none.
    """
    frame = _user_frame()
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


def user_place() -> str:
    """The position of the nearest caller outside the package axla, for messages: `file:line, column 5`, then
    the source line with a caret below it. "" if there is no such caller.
    """
    frame = _user_frame()
    if frame is None:
        return ""
    code, line = frame.f_code, frame.f_lineno
    column = next(islice(code.co_positions(), frame.f_lasti // 2, None))[2] or 0  # counted in bytes
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    column = len(text.encode()[:column].decode("utf-8", "replace")) + 1
    shown = excerpt(text, 1, column)
    return f"{code.co_filename}:{line}, column {column}\n{shown}" if shown else f"{code.co_filename}:{line}"


def _user_frame() -> FrameType | None:
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        # An error that leaves `with builder.checking(...)` also passes through contextlib, which is not user
        # code.
        if not code.co_filename.startswith((_PACKAGE, contextlib.__file__)):
            return frame
        frame = frame.f_back
    return None


def location(metadata: OpMetadata | None, file: str, line: int) -> SourceLocation:
    """The source location of an op that was added at `file:line`. File, line and names in the user's
    `metadata` take precedence.
    """
    if metadata is None:
        return SourceLocation(source_file=file, source_line=line)
    if metadata.source_file or metadata.source_line:
        file, line = metadata.source_file, metadata.source_line
    return SourceLocation(metadata.op_type, metadata.op_name, file, line)
