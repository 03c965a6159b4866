"""Where the conformance corpora are: unpacked once from ../shared/conformance into the temporary
directory.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

ARCHIVES = Path(__file__).resolve().parents[3] / "shared" / "conformance"


def corpus(name: str) -> Path | None:
    """The folder of the corpus `name` (hlo-open, models-open...); None when it is not at hand.

    The environment variable AXLA_CONFORMANCE names a folder with corpora unpacked beforehand.
    """
    unpacked = os.environ.get("AXLA_CONFORMANCE")
    if unpacked and (Path(unpacked) / name).is_dir():
        return Path(unpacked) / name
    archive = ARCHIVES / f"{name}.tar.gz"
    if not archive.is_file():
        return None
    home = Path(tempfile.gettempdir()) / f"axla-conformance-{os.getuid() if hasattr(os, 'getuid') else 0}"
    target = home / name
    if not target.is_dir():
        # Unpacked aside and moved, so that two processes never see half of it.
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as aside:
            with tarfile.open(archive) as tar:
                tar.extractall(aside, filter="data")
            found = (
                next(p for p in Path(aside).rglob(name) if p.is_dir())
                if not (Path(aside) / name).is_dir()
                else Path(aside) / name
            )
            try:
                found.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
    return target


class NotAtHand(Exception):
    """A corpus is missing."""


def require(name: str) -> Path:
    """The folder of a corpus; NotAtHand when there is none."""
    found = corpus(name)
    if found is None:
        raise NotAtHand(f"the corpus {name} is not at hand: ../shared/conformance/{name}.tar.gz")
    return found
