"""The folders of the conformance corpora. Archives in ../shared/conformance are unpacked once, into the
temporary directory.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

ARCHIVES = Path(__file__).resolve().parents[3] / "shared" / "conformance"


def corpus(name: str) -> Path | None:
    """The folder of the corpus `name` (hlo-open, models-open...); None if there is no such corpus.

    If the environment variable AXLA_CONFORMANCE names a folder with unpacked corpora, it is used instead of
    the archives.
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
        # The archive is unpacked into another folder, which is then moved, so that no process sees half of
        # it.
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
    """Raised if a corpus is missing."""


def require(name: str) -> Path:
    """The folder of a corpus. Raises NotAtHand if it is missing."""
    found = corpus(name)
    if found is None:
        raise NotAtHand(f"the corpus {name} is not at hand: ../shared/conformance/{name}.tar.gz")
    return found
