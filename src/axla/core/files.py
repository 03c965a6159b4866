"""Files that are written as a whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Writes a file beside its place, and renames it: a reader sees all of it or what was there before."""
    handle, aside = tempfile.mkstemp(dir=Path(path).parent, prefix=".axla-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(aside, mode)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
