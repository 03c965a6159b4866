"""The StableHLO corpus next to the repository, read out of its archive."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).resolve().parents[4] / "shared" / "conformance" / "stablehlo-open.tar.gz"


@cache
def _texts() -> dict[str, dict[str, str]]:
    """Folder -> name -> text; in one pass, for an archive has no index."""
    found: dict[str, dict[str, str]] = {}
    with tarfile.open(ARCHIVE, "r|gz") as archive:
        for member in archive:
            path = Path(member.name)
            file = archive.extractfile(member) if path.suffix == ".mlir" else None
            if file is not None:
                found.setdefault(path.parent.name, {})[path.stem] = file.read().decode()
    return found


def corpus(folder: str) -> dict[str, str]:
    if not ARCHIVE.exists():
        pytest.skip("the conformance corpora are not next to the repository")
    return _texts()[folder]
