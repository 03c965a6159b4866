"""Writes a library as a folder of files: completely, or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from axla.aot.library import CompiledLibrary, Weights
from axla.core.dataclass import dataclass
from axla.core.errors import InternalError, InvalidArgument
from axla.runtime.manifest import read_manifest

Files = dict[str, str | bytes]

_WEIGHTS = ("_weights.o", ".weights", "_loader.c", "_loader.h", "_variables.safetensors")


@dataclass(frozen=True, slots=True)
class Package:
    """A library that was written: its folder, and its files there."""

    folder: Path
    files: tuple[Path, ...]
    library: CompiledLibrary
    report: str

    @property
    def prefix(self) -> str:
        """The prefix of the package's files and symbols."""
        return self.library.prefix

    def load(self) -> Any:
        """Loads the library into this process, like `axla.aot.load`."""
        from axla.runtime.loader import load

        return load(self.folder / f"{self.prefix}.json")

    def __str__(self) -> str:
        width = max(len(path.name) for path in self.files)
        rows = [f"  {path.name:<{width}}  {path.stat().st_size:>10,}" for path in self.files]
        return "\n".join([f"{self.folder}/", *rows])


def objects(library: CompiledLibrary) -> dict[str, bytes]:
    """The object files of a library: {name: contents}."""
    found = {f"{library.prefix}.o": library.image}
    if library.weights is Weights.SEPARATE:
        found[f"{library.prefix}_weights.o"] = library.constants_image
    return found


def stale(folder: Path, prefix: str) -> tuple[str, ...]:
    """The names of weights files in a folder, from an earlier compilation of the library, whose new version
    may not have them.
    """
    if not (folder / f"{prefix}.json").is_file():
        return ()
    return tuple(prefix + ending for ending in _WEIGHTS if (folder / (prefix + ending)).is_file())


def neighbours(folder: Path, prefix: str, written: Sequence[str]) -> list[str]:
    """The names of files in a folder that belong to other libraries. `prefix` is that of this library,
    `written` has the names of its files. Files whose names all libraries share are not included.
    """
    endings = {*_WEIGHTS, *(name.removeprefix(prefix) for name in written if name.startswith(prefix))}
    found = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(InvalidArgument):
            other = read_manifest(path).prefix
            found += [
                other + e for e in sorted(endings) if other != prefix and (folder / (other + e)).is_file()
            ]
    return found


def merged(*parts: Mapping[str, str | bytes]) -> Files:
    """The files of several writers together. InternalError if two writers return different contents of a
    file.
    """
    found: Files = {}
    for part in parts:
        for name, contents in part.items():
            if found.setdefault(name, contents) != contents:
                raise InternalError(f"aot: two writers return different contents of file {name}")
    return found


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder as a path; InvalidArgument if files cannot be written there. Checked before compiling, which
    may take minutes.
    """
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise InvalidArgument(f"out: wanted the path of a folder, found {folder!r}")
    path = Path(folder)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # too long, a zero byte, a folder that cannot be entered
        raise InvalidArgument(f"out: {folder!r}: {getattr(error, 'strerror', error)}") from error
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InvalidArgument(f"out: {path}: {there} is a file, wanted a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InvalidArgument(f"out: {path}: {there} cannot be written to")
    return path


def write_files(
    folder: Path, contents: Mapping[str, str | bytes], old: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Writes files into a folder, creating it if necessary. Other files of the folder stay, except `old` ones
    that are not written again.

    All files are first written to a temporary folder, then renamed: beside a new folder, or inside an
    existing one, which may be on another file system or the only writable place. If that fails, everything is
    restored, and InvalidArgument names the file.
    """
    made = _make_parents(folder.parent)
    fresh = (folder if folder.exists() else folder.parent) / f".axla.{uuid.uuid4().hex[:12]}"
    try:
        try:
            fresh.mkdir()
            for name, data in contents.items():
                (fresh / name).write_bytes(data.encode() if isinstance(data, str) else data)
            if folder.exists():
                _move_into(folder, fresh, [*contents, *(name for name in old if name not in contents)])
            else:
                fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except BaseException as error:
        for parent in made:
            parent.rmdir()
        if not isinstance(error, OSError):
            raise
        raise _said(folder, error) from error
    return tuple(folder / name for name in contents)


def _make_parents(folder: Path) -> list[Path]:
    """Creates a folder and its parents; returns those created, innermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    made: list[Path] = []
    try:
        for path in reversed(missing):
            path.mkdir()
            made.insert(0, path)
    except OSError as error:
        for path in made:
            path.rmdir()
        raise _said(folder, error) from error
    return made


def _move_into(folder: Path, fresh: Path, names: list[str]) -> None:
    """Renames the files `names` of the folder `fresh` to files of the same names in `folder`, over old ones.
    An old file without a new version is removed. If that fails, restores the old files.
    """
    for name in names:
        if (folder / name).is_dir():
            raise InvalidArgument(f"out: {folder / name} is a folder; a file of this name is to be written")
    old = fresh / "old"
    old.mkdir()
    try:
        for name in names:
            if (folder / name).exists():
                os.replace(folder / name, old / name)
            if (fresh / name).exists():
                os.replace(fresh / name, folder / name)
    except BaseException:  # also Ctrl-C, which may come at any time
        for name in names:
            if (old / name).exists():
                os.replace(old / name, folder / name)
            elif not (fresh / name).exists():
                (folder / name).unlink(missing_ok=True)
        raise


def _said(folder: Path, error: OSError) -> InvalidArgument:
    where = error.filename or folder
    return InvalidArgument(f"out: {where}: {error.strerror or error}; nothing was written")
