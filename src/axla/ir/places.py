"""Locations in error messages: the file from which a program was read, and lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from axla.core.errors import CompileError, ParseError, ShapeError, UnsupportedError, VerifyError
from axla.core.regex import regex
from axla.ir.graph import Module

_DEFINED = regex(r"%([\w.\-]+) = ")


@contextmanager
def located(file: str, module: Module | None = None) -> Iterator[None]:
    """A context in which errors about the program get a prefix: its file, and the lines of the instructions
    that the messages name.
    """
    try:
        yield
    except (ParseError, ShapeError, VerifyError, UnsupportedError, CompileError) as error:
        lines = _lines(module, error.message) if module is not None else ""
        for place in (lines, file if not error.file else ""):
            if place and place not in error.message:
                error.message = f"{place}: {error.message}"
        error.file = error.file or file
        error.args = (error.message,)
        raise


def _lines(module: Module, message: str) -> str:
    shown = dict.fromkeys(_DEFINED.findall(message))  # names, not objects: the module may be a copy
    instructions = (inst for computation in module.computations for inst in computation.instructions)
    lines = {inst.name: module.lines[inst.id] for inst in instructions if inst.id in module.lines}
    return ", ".join(f"line {lines[name]}" for name in shown if name in lines)
