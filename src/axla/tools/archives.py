"""Reads archives of programs from untrusted sources. An archive that would unpack to too much is refused
before it is unpacked.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from axla.core.errors import InvalidArgument

ARCHIVES = (".tar.gz", ".tgz", ".tar")
MEMBER_BYTES = 512 << 20
TOTAL_BYTES = 8 << 30


def archived(path: str, suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yields (name, content) for each file in the archive at `path` whose own name ends with one of the
    suffixes. Only one file is in memory at a time.

    Raises InvalidArgument for a path that is not an archive, a file of more than `MEMBER_BYTES`, or an
    archive of more than `TOTAL_BYTES`.
    """
    try:
        with open(path, "rb") as file, _unpacked(file) as content:
            archive = tarfile.open(fileobj=_Limited(path, content), mode="r:")  # noqa: SIM115
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # else it keeps all headers
                if member.isfile() and member.name.endswith(suffixes):
                    if member.size > MEMBER_BYTES:  # sparse files are larger than what is read of them
                        raise _too_large(path, f"{member.name} has {member.size} bytes", MEMBER_BYTES)
                    found = archive.extractfile(member)
                    assert found is not None
                    yield member.name, found.read()
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidArgument(f"{path}: not an archive, {error}") from None


def _unpacked(file: BinaryIO) -> BinaryIO:
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[return-value]


def _too_large(path: str, what: str, limit: int) -> InvalidArgument:
    return InvalidArgument(f"{path}: {what}, at most {limit} are read; unpack it and give the folder")


class _Limited(io.RawIOBase):
    """A file object for an archive. It raises an error for bytes beyond the limits of the size, also when
    headers are read, since the lengths in them cannot be trusted.
    """

    def __init__(self, path: str, content: BinaryIO) -> None:
        super().__init__()
        self.path, self.content = path, content

    def read(self, size: int = -1) -> bytes:
        if size > MEMBER_BYTES + tarfile.RECORDSIZE:
            raise _too_large(self.path, f"a part has {size} bytes", MEMBER_BYTES)
        self._check(self.content.tell() + max(size, 0))
        return self.content.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check(offset)
        return self.content.seek(offset, whence)

    def tell(self) -> int:
        return self.content.tell()

    def _check(self, end: int) -> None:
        if end > TOTAL_BYTES:
            raise _too_large(self.path, f"it has {end} bytes or more", TOTAL_BYTES)
