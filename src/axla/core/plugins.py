"""What other packages that are installed here add: objects by name, the entry points of a group.

An entry point is found by its name, and its package is imported when that name is asked for. What a file or a
message says is only ever such a name: nothing is loaded that nobody installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from axla.core.errors import AxlaError, UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, of all packages on `sys.path` now. Imports none of them."""
    from importlib import metadata  # it takes longer to import than all of axla.core

    return {entry.name: entry for entry in metadata.entry_points(group=group)}


@contextmanager
def blamed(what: str, passed: tuple[type[Exception], ...] = (AxlaError,)) -> Iterator[None]:
    """Runs code of another package: UnsupportedError, which begins with `what`, for any error but those
    `passed`.
    """
    try:
        yield
    except passed:
        raise
    except (Exception, SystemExit) as error:
        raise UnsupportedError(f"{what}: {error!r}") from error
