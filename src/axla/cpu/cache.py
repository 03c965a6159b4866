"""A cache of compiled kernels: LLVM text and machine in, object code out. In memory, and on disk between
processes.

The key is the text itself with the machine's description and our and LLVM's versions, so an entry can never
be stale. A file is `digest of the rest | object`; one that does not match its digest is dropped and compiled
again. Failures to read or write (a full disk, no permission) only cost time. `AXLA_CACHE_DIR` names the
folder; set to nothing, there is none on disk.

What is read is run: a folder that is not the user's own, that others may write to or that is a symbolic link
is not used, and a warning says so.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import tempfile
import warnings
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from axla.codegen import llvm
from axla.core import flags, locks
from axla.target.machine import Target

MEMORY_BYTES = 64 << 20
DISK_BYTES = 512 << 20
DIGEST = 16

_memory: OrderedDict[str, bytes] = OrderedDict()
_memory_bytes = 0
_written_bytes = 0
_lock = locks.new_lock()


def object_for(text: str, target: Target, compile_: Callable[[str, Target], bytes]) -> bytes:
    """The object code of an LLVM module: remembered, read from disk, or compiled (and then kept)."""
    key = _key(text, target)
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
            return _memory[key]
    folder = directory()
    found = _read(folder / key[:2] / key) if folder else None
    if found is None:
        found = compile_(text, target)
        if folder:
            _write(folder / key[:2] / key, found)
    _remember(key, found)
    return found


def directory() -> Path | None:
    """The folder of the cache on disk; None when there is none."""
    chosen = flags.current().cache_dir
    if chosen is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        chosen = os.path.join(base, "axla") if os.path.isabs(base) else ""
    return _trusted(Path(chosen)) if chosen else None


@functools.cache
def _trusted(folder: Path) -> Path | None:
    """The folder of kernels in `folder`, both made where they are missing; None where they are not safe."""
    kernels = folder / "kernels"
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder, kernels):
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
    return kernels


def _unsafe(found: os.stat_result) -> str:
    """Why others could put code into a folder, or nothing."""
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link; name its target in AXLA_CACHE_DIR"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, not to {os.geteuid()}"
    mode = stat.S_IMODE(found.st_mode)
    return f"others may write to it (mode {mode:04o}, wanted 0700)" if mode & 0o022 else ""


def _key(text: str, target: Target) -> str:
    machine = f"{target.triple}|{target.cpu}|{','.join(sorted(target.features))}|{llvm.version()}|"
    return blake2b((machine + text).encode(), digest_size=20).hexdigest()


def _remember(key: str, image: bytes) -> None:
    global _memory_bytes
    with _lock:
        if key not in _memory:
            _memory_bytes += len(image)
        _memory[key] = image
        while _memory_bytes > MEMORY_BYTES:
            _, dropped = _memory.popitem(last=False)
            _memory_bytes -= len(dropped)


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if blake2b(data[DIGEST:], digest_size=DIGEST).digest() != data[:DIGEST]:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the oldest are dropped first
    return data[DIGEST:]


def _write(path: Path, image: bytes) -> None:
    global _written_bytes
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A rename is atomic: a reader sees a whole file or none.
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(blake2b(image, digest_size=DIGEST).digest() + image)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
        _written_bytes += len(image)
        if _written_bytes > DISK_BYTES // 16:
            _written_bytes = 0
            collect(path.parent.parent)


def collect(folder: Path, limit: int = DISK_BYTES) -> None:
    """Drops the entries longest unused until the rest takes at most `limit` bytes."""
    entries = []
    with contextlib.suppress(OSError):
        for path in folder.glob("??/*"):
            with contextlib.suppress(OSError):
                found = path.stat()
                entries.append((found.st_mtime, found.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size


def clear() -> None:
    """Forgets what is remembered in memory; the disk keeps its entries."""
    global _memory_bytes
    with _lock:
        _memory.clear()
        _memory_bytes = 0
