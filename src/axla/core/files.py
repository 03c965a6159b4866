"""Writes files completely, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Writes a temporary file beside the target and renames it: a reader sees the whole new file, or the old
    one.
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
