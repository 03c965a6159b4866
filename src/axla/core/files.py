"""Replaces files atomically."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Writes `data` to a temporary file next to `path`, with the permissions `mode`, and renames it to
    `path`. So a reader sees either the whole new file or the whole old one.
    """
    handle, aside = tempfile.mkstemp(dir=Path(path).parent, prefix=".axla-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(aside, mode)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
