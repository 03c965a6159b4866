"""The cache of compiled objects: by kind and key, in memory, and on disk between processes.

A key covers everything that can affect the result (`key_of`), so an entry can never be stale. A file is
`digest of key and value | value`; one with a wrong digest is dropped. Failures to read or write (a full disk,
no permission) only cost time. `AXLA_CACHE_DIR` names the folder; if it is empty, there is no cache on disk.
All kinds share one size limit; entries unused for longest are dropped first.

Cached code is executed: a folder that is not the user's own, that others may write to, or that is a symbolic
link is not used, and a warning says so.
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
"""Bytes of an entry from which on it is not kept: programs with large constants are compiled again."""
DIGEST = 16

_memory: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()  # values, and their bytes
_memory_bytes = 0
_written_bytes = 0
_lock = locks.new_lock()


def key_of(*facts: object) -> str:
    """A key for these facts: a digest of their texts in order."""
    digest = blake2b(digest_size=20)
    for fact in facts:
        text = str(fact).encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(text) + text)
    return digest.hexdigest()


def get(kind: str, key: str, decode: Callable[[bytes], Any] = bytes) -> Any:
    """The entry, from memory or disk; None when there is none, or `decode` rejects its bytes by a
    ValueError.
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
    """Stores an entry: in memory as it is, counted as `size(value)` bytes, and on disk as `encode(value)`."""
    if size(value) > LARGEST:
        return
    _remember(kind, key, value, size(value))
    folder = directory(kind)
    if folder:
        _write(folder / key[:2] / key, encode(value))


def directory(kind: str) -> Path | None:
    """The folder of a kind on disk; None when there is none."""
    chosen = flags.current().cache_dir
    if chosen is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        chosen = os.path.join(base, "axla") if os.path.isabs(base) else ""
    return _trusted(Path(chosen), kind) if chosen else None


@functools.cache
def _trusted(folder: Path, kind: str) -> Path | None:
    """The folder of a kind in `folder`, created where missing; None where it is not safe."""
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
    """The reason why others could put code into a folder; empty if they cannot."""
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
        os.utime(path)  # the oldest are dropped first
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
    """For each entry of a kind on disk: the time of its last use, its bytes, its file."""
    folder = directory(kind)
    with contextlib.suppress(OSError):
        for path in folder.glob("??/*") if folder else ():
            with contextlib.suppress(OSError):
                found = path.stat()
                yield found.st_mtime, found.st_size, path


def collect(limit: int = DISK_BYTES) -> None:
    """Drops the entries of all kinds that were unused for longest, until the rest takes at most `limit`
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
    """Clears the cache in memory; with `disk` also the files."""
    global _memory_bytes
    with _lock:
        _memory.clear()
        _memory_bytes = 0
    if disk:
        collect(0)


# -- what compiled, and where --------------------------------------------------------------------------------


@functools.cache
def compiler() -> str:
    """The versions of everything that affects compilation: axla's sources, LLVM, NumPy (which folds
    constants), Python.
    """
    llvm = importlib.util.find_spec("llvmlite")
    roots = [path for path in (sys.modules["axla"].__file__, llvm and llvm.origin) if path]
    found = [file for root in roots for file in _sources(os.path.dirname(root))]
    versions = sys.modules["axla"].__version__, np.__version__, ml_dtypes.__version__
    return key_of(sys.version, *versions, *sorted(found))


@functools.cache
def package(name: str) -> str | None:
    """A fingerprint of the code of another package, or single-file module, that is loaded; None if it is in
    no file.
    """
    path = getattr(sys.modules[name], "__file__", None) or ""
    if os.path.basename(path) == "__init__.py":
        return key_of(*sorted(_sources(os.path.dirname(path))))
    return key_of(path, os.stat(path).st_mtime_ns) if os.path.exists(path) else None


def _sources(root: str) -> Iterator[tuple[str, int, int]]:
    """The code files in a folder: path, bytes and modification time."""
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
    """The processor and kernel, as reported by Linux; empty elsewhere."""
    text = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        text = file.read(1 << 14).partition("\n\n")[0]  # the first core: all of them take long
    lines = [line for line in text.splitlines() if line.startswith(_LASTING)]
    return key_of(*lines, *os.uname()[2:]) if lines and hasattr(os, "uname") else ""
