"""Finds entry points: objects that other installed packages provide under a name and a group.

The package of an entry point is imported only when its name is requested. Names in files and messages are
looked up among installed packages only, so they can never load other code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from glob import glob
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING
from warnings import warn

from axla.core.errors import AxlaError, UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, of all packages now on `sys.path`; none of them is imported. If
    two packages have an entry point of the same name in the group, the first one on the path is used, with a
    warning.
    """
    if not _mentioned(group):
        return {}
    from importlib import metadata

    found: dict[str, EntryPoint] = {}
    for entry in metadata.entry_points(group=group):
        first = found.setdefault(entry.name, entry)
        if first.value != entry.value:
            what = f"{entry.name!r} of {group}: {first.value} is used, {entry.value} is not"
            warn(f"two packages have the entry point {what}", RuntimeWarning, stacklevel=3)
    return found


def _mentioned(group: str) -> bool:
    """Whether any package may have entry points of a group. It searches the files of the packages in less
    than a millisecond, while importing `importlib.metadata` takes 20 ms.
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    word = f"[{group}]".encode()
    for folder in dict.fromkeys(str(path or ".") for path in sys.path):
        if os.path.isfile(folder) or folder.endswith(".egg"):
            return True
        with suppress(OSError):
            if word in _entry_points(os.path.abspath(folder), os.stat(folder).st_mtime_ns):
                return True
    return False


@lru_cache(maxsize=64)
def _entry_points(folder: str, changed: int) -> bytes:
    """The contents of the entry-point files of all packages in a folder. `changed` is the folder's
    modification time, which every installation changes: it makes results of the cache outdated.
    """
    texts = []
    for name in glob("*-info/entry_points.txt", root_dir=folder):
        with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
            texts.append(file.read())
    return b"\n".join(texts)


@contextmanager
def blamed(what: str, passed: tuple[type[Exception], ...] = (AxlaError,)) -> Iterator[None]:
    """A context manager for calls of another package's code. Any exception, except those of the classes in
    `passed`, becomes an UnsupportedError whose message begins with `what`.
    """
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        raise UnsupportedError(f"{what}: {error!r}") from error
