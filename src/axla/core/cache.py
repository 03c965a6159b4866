"""Caches compiled objects under a kind and a key: in memory, and on disk for later processes.

A key covers everything that can affect the value (`key_of`), so an entry can never be stale. A file holds a
digest of key and value, then the value; a file with a wrong digest is deleted. Failures to read or write (a
full disk, no permission) only cost time. `AXLA_CACHE_DIR` names the folder; if it is empty, there is no cache
on disk. All kinds share one size limit; the least recently used entries are deleted first.

Cached code is executed. So a folder that belongs to another user, that others may write to, or that is a
symbolic link is not used, with a warning.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import stat
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from axla.core import flags, locks
from axla.core.files import replace_file

KINDS = ("program", "kernel", "glue", "host", "tuning")
MEMORY_BYTES = 64 << 20
ENTRY_BYTES = 1 << 10
"""The bytes of an entry in memory besides its value: its key, and the objects of a program's interface."""
DISK_BYTES = 512 << 20
LARGEST = DISK_BYTES // 8
"""The largest entry that is stored, in bytes. Programs with larger constants are compiled again."""
DIGEST = 16

_memory: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()  # (value, its size in bytes)
_memory_bytes = 0
_written_bytes = 0
_lock = locks.new_lock()


def key_of(*facts: object) -> str:
    """Returns a key for the values `facts`: a digest of their texts in the given order."""
    digest = blake2b(digest_size=20)
    for fact in facts:
        text = str(fact).encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


def get(kind: str, key: str, decode: Callable[[bytes], Any] = bytes) -> Any:
    """Returns an entry from memory or disk; None if there is none, or if `decode` raises ValueError for its
    bytes.
    """
    with _lock:
        if (kind, key) in _memory:
            _memory.move_to_end((kind, key))
            return _memory[kind, key][0]
    folder = directory(kind)
    found = _read(folder / key[:2] / key) if folder else None
    if found is None:
        return None
    with contextlib.suppress(ValueError):
        value = decode(found)
        _remember(kind, key, value, len(found))
        return value


def put(
    kind: str, key: str, value: Any, encode: Callable[[Any], bytes] = bytes, size: Callable[[Any], int] = len
) -> None:  # fmt: skip
    """Stores an entry. In memory it is `value`, counted as `size(value)` bytes; on disk it is
    `encode(value)`.
    """
    if size(value) > LARGEST:
        return
    _remember(kind, key, value, size(value))
    folder = directory(kind)
    if folder:
        _write(folder / key[:2] / key, encode(value))


def directory(kind: str) -> Path | None:
    """Returns the folder on disk for entries of a kind; None if there is no cache on disk."""
    chosen = flags.current().cache_dir
    if chosen is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        chosen = os.path.join(base, "axla") if os.path.isabs(base) else ""
    return _trusted(Path(chosen), kind) if chosen else None


@functools.cache
def _trusted(folder: Path, kind: str) -> Path | None:
    """Returns the folder for a kind inside `folder`, and creates both folders if missing. Returns None, with
    a warning, if other users could write to one of them.
    """
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
    inside = folder / f"{kind}s"
    for path in (folder, inside):
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700)
        try:
            found = path.lstat()
        except OSError:
            return None
        reason = _unsafe(found) if hasattr(os, "geteuid") else ""
        if reason:
            warnings.warn(
                f"axla: the cache folder {path} is not used: {reason}", RuntimeWarning, stacklevel=2
            )
            return None
    return inside


def _unsafe(found: os.stat_result) -> str:
    """The reason why other users could put code into a folder, given its `lstat`; "" if they cannot."""
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link; name its target in AXLA_CACHE_DIR"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, not to {os.geteuid()}"
    mode = stat.S_IMODE(found.st_mode)
    return f"others may write to it (mode {mode:04o}, wanted 0700)" if mode & 0o022 else ""


def _remember(kind: str, key: str, value: Any, size: int) -> None:
    global _memory_bytes
    if size > MEMORY_BYTES // 8:
        return
    size += ENTRY_BYTES
    with _lock:
        _, before = _memory.get((kind, key), (None, 0))
        _memory_bytes += size - before
        _memory[kind, key] = value, size
        while _memory_bytes > MEMORY_BYTES:
            _, (_, dropped) = _memory.popitem(last=False)
            _memory_bytes -= dropped


def _digest(path: Path, value: bytes) -> bytes:
    return blake2b(value, digest_size=DIGEST, key=path.name.encode()).digest()


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    value = data[DIGEST:]
    if _digest(path, value) != data[:DIGEST]:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # `collect` deletes the entries with the oldest times
    return value


def _write(path: Path, value: bytes) -> None:
    global _written_bytes
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, _digest(path, value) + value)
        _written_bytes += len(value)
        if _written_bytes > DISK_BYTES // 16:
            _written_bytes = 0
            collect()


def entries(kind: str) -> Iterator[tuple[float, int, Path]]:
    """Yields (time of the last use, size in bytes, file) for each entry of a kind on disk."""
    folder = directory(kind)
    with contextlib.suppress(OSError):
        for path in folder.glob("??/*") if folder else ():
            with contextlib.suppress(OSError):
                found = path.stat()
                yield found.st_mtime, found.st_size, path


def collect(limit: int = DISK_BYTES) -> None:
    """Deletes the least recently used entries of all kinds from disk, until the others take at most `limit`
    bytes.
    """
    found = sorted(entry for kind in KINDS for entry in entries(kind))
    total = sum(size for _, size, _ in found)
    for _, size, path in found:
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size


def clear(*, disk: bool = False) -> None:
    """Removes all entries from memory; if `disk`, also from disk."""
    global _memory_bytes
    with _lock:
        _memory.clear()
        _memory_bytes = 0
    if disk:
        collect(0)


# -- the compiler and the machine, as parts of keys ----------------------------------------------------------


@functools.cache
def compiler() -> str:
    """A digest of the versions of everything that affects compilation: axla's sources, LLVM, Python, and
    NumPy, which folds constants.
    """
    llvm = importlib.util.find_spec("llvmlite")
    roots = [path for path in (sys.modules["axla"].__file__, llvm and llvm.origin) if path]
    found = [file for root in roots for file in _sources(os.path.dirname(root))]
    versions = sys.modules["axla"].__version__, np.__version__, ml_dtypes.__version__
    return key_of(sys.version, *versions, *sorted(found))


@functools.cache
def package(name: str) -> str | None:
    """A digest of the code of an imported package, or of a module of one file. None if it was not loaded from
    a file.
    """
    path = getattr(sys.modules[name], "__file__", None) or ""
    if os.path.basename(path) == "__init__.py":
        return key_of(*sorted(_sources(os.path.dirname(path))))
    return key_of(path, os.stat(path).st_mtime_ns) if os.path.exists(path) else None


def _sources(root: str) -> Iterator[tuple[str, int, int]]:
    """Yields (path, size in bytes, modification time in ns) of each code file in a folder and its
    subfolders.
    """
    folders = [root]
    while folders:
        with os.scandir(folders.pop()) as found:
            for entry in found:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith((".py", ".txt", ".so", ".dll", ".dylib")):
                    facts = entry.stat()
                    yield entry.path, facts.st_size, facts.st_mtime_ns


_LASTING = ("vendor", "cpu family", "model", "stepping", "microcode", "flags", "Features", "CPU ")


@functools.cache
def machine() -> str:
    """A digest of the processor and kernel as Linux reports them; "" on other systems."""
    text = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        text = file.read(1 << 14).partition("\n\n")[0]  # the first core is enough; reading all takes long
    lines = [line for line in text.splitlines() if line.startswith(_LASTING)]
    return key_of(*lines, *os.uname()[2:]) if lines and hasattr(os, "uname") else ""
