"""Entry points of other installed packages: objects by name, in groups.

An entry point is found by its name, and its package is imported when that name is requested. Names in files
and messages are only looked up here: code that is not installed is never loaded.
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
    """The entry points of a group by name, of all packages now on `sys.path`. Imports none of them. If two
    packages have the same name, the first one on the path is used, with a warning.
    """
    if not _mentioned(group):
        return {}
    from importlib import metadata

    found: dict[str, EntryPoint] = {}
    for entry in metadata.entry_points(group=group):
        first = found.setdefault(entry.name, entry)
        if first.value != entry.value:
            what = f"{first.value}, and {entry.value} as well, which is not used"
            warn(f"the entry point {entry.name!r} of {group} is {what}", RuntimeWarning, stacklevel=3)
    return found


def _mentioned(group: str) -> bool:
    """Whether a package may have entry points of a group. Importing `importlib.metadata` takes 20 ms;
    searching the same files takes less than one.
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
    """The entry points of all packages in a folder, from their files. Installing or removing a package
    changes `changed`, the modification time of the folder; otherwise each file is read once.
    """
    texts = []
    for name in glob("*-info/entry_points.txt", root_dir=folder):
        with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
            texts.append(file.read())
    return b"\n".join(texts)


@contextmanager
def blamed(what: str, passed: tuple[type[Exception], ...] = (AxlaError,)) -> Iterator[None]:
    """Runs code of another package: any error except those in `passed` becomes an UnsupportedError that
    begins with `what`.
    """
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        raise UnsupportedError(f"{what}: {error!r}") from error
