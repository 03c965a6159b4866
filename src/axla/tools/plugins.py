"""Runs the Python files given with --load, which declare passes and rules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from axla.core.errors import InvalidArgument


def load_files(paths: Sequence[str]) -> None:
    """Runs the files at `paths`, each once, as modules with names of their own. Raises InvalidArgument, with
    the line of the error, if a file fails.
    """
    for path in paths:
        name = f"axla_loaded_{Path(path).stem}"
        found = sys.modules.get(name)
        if found is not None and getattr(found, "__file__", None) == str(Path(path).resolve()):
            continue
        spec = importlib.util.spec_from_file_location(name, Path(path).resolve())
        if spec is None or spec.loader is None or not Path(path).is_file():
            raise InvalidArgument(f"--load {path}: there is no such Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise InvalidArgument(
                f"--load {path}{_line(error, path)}: {type(error).__name__}: {error}"
            ) from error


def _line(error: BaseException, path: str) -> str:
    """The innermost line of the file in an error's traceback, as `:12`; "" if the file is not in it."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    found, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(Path(path).resolve()):
            found = f":{frame.tb_lineno}"
        frame = frame.tb_next
    return found
