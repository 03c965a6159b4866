"""The cache: hits, damaged files, eviction of all kinds, no folder, two processes, a disk that is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from axla.core import cache


class Compiler:
    """Counts how often something is made that the cache does not have."""

    def __init__(self):
        self.calls = 0

    def __call__(self, text: str, kind: str = "kernel") -> bytes:
        found = cache.get(kind, cache.key_of(text))
        if found is None:
            self.calls += 1
            found = b"object of " + text.encode()
            cache.put(kind, cache.key_of(text), found)
        return found


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AXLA_CACHE_DIR", str(tmp_path))
    cache.clear()
    yield tmp_path
    cache.clear()


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "kernels").glob("??/*"))


def test_second_use_does_not_compile(folder):
    compiler = Compiler()
    first = compiler("a")
    assert compiler("a") == first and compiler.calls == 1
    cache.clear()  # as in another process
    assert compiler("a") == first and compiler.calls == 1


def test_keys_tell_facts_apart():
    keys = [
        cache.key_of(*facts) for facts in [("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"), (("a", "b"),)]
    ]
    assert len(set(keys)) == len(keys) and cache.key_of("a", "b") == keys[0]


def test_kinds_are_apart(folder):
    cache.put("kernel", "aa", b"kernel")
    assert cache.get("program", "aa") is None
    cache.put("program", "aa", b"program")
    cache.clear()
    assert (cache.get("kernel", "aa"), cache.get("program", "aa")) == (b"kernel", b"program")


def test_an_entry_under_another_key_is_dropped(folder):
    """The digest holds the key, too: a file that was moved is not an entry."""
    cache.put("kernel", "aa", b"kernel")
    (folder / "kernels" / "aa" / "aa").rename(folder / "kernels" / "aa" / "aab")
    cache.clear()
    assert cache.get("kernel", "aab") is None and not entries(folder)


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100])
def test_damaged_file_is_compiled_again(folder, damage):
    compiler = Compiler()
    first = compiler("a")
    (path,) = entries(folder)
    path.write_bytes(damage)
    cache.clear()
    assert compiler("a") == first and compiler.calls == 2
    cache.clear()
    assert compiler("a") == first and compiler.calls == 2


def test_longest_unused_are_dropped(folder):
    compiler = Compiler()
    for number, text in enumerate("abc"):
        compiler(text)
        (new,) = [p for p in entries(folder) if p.stat().st_mtime > 1000]
        os.utime(new, (number, number))
    oldest = min(entries(folder), key=lambda p: p.stat().st_mtime)
    size = oldest.stat().st_size
    cache.put("program", "ffff", b"newest")
    cache.collect(2 * size + 22)
    assert len(entries(folder)) == 2 and not oldest.exists() and cache.get("program", "ffff")
    cache.collect(22)  # one bound for all kinds
    assert not entries(folder) and cache.get("program", "ffff")


def test_what_is_too_large_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(cache, "LARGEST", 5)
    cache.put("program", "aa", b"123456")
    assert cache.get("program", "aa") is None and not list(folder.glob("*/*/*"))


def test_memory_is_bounded_over_all_kinds(monkeypatch):
    monkeypatch.setenv("AXLA_CACHE_DIR", "")
    monkeypatch.setattr(cache, "ENTRY_BYTES", 3)
    monkeypatch.setattr(cache, "MEMORY_BYTES", 100)
    for number in range(20):
        cache.put(("program", "kernel")[number % 2], f"{number:02}", b"x" * 9)
    assert sum(size for _, size in cache._memory.values()) == cache._memory_bytes == 96
    assert cache.get("kernel", "19") and cache.get("program", "02") is None


def test_clear_with_the_disk(folder):
    cache.put("kernel", "aa", b"kernel")
    cache.put("program", "aa", b"program")
    cache.clear(disk=True)
    assert cache.get("kernel", "aa") is None and not list(folder.glob("*/*/*"))


def test_no_folder(monkeypatch):
    monkeypatch.setenv("AXLA_CACHE_DIR", "")
    assert cache.directory("kernel") is None
    compiler = Compiler()
    compiler("a")
    cache.clear()
    compiler("a")
    assert compiler.calls == 2


def test_unwritable_folder_only_costs_time(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("AXLA_CACHE_DIR", str(blocked))
    compiler = Compiler()
    assert compiler("a") == b"object of a"


def unsafe(path: Path, match: str) -> None:
    """Nothing is read from or written to a cache in `path`, and a warning says why, once."""
    compiler = Compiler()
    with pytest.warns(RuntimeWarning, match=match) as caught:
        compiler("a")
    cache.clear()
    compiler("a")
    assert compiler.calls == 2 and not list(path.glob("kernels/??")) and len(caught) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes and owners of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode):
    folder.chmod(mode)
    unsafe(folder, f"{folder} is not used: others may write to it .mode {mode:04o}, wanted 0700")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes and owners of POSIX")
def test_a_folder_inside_that_others_may_write_to_is_not_used(folder):
    (folder / "kernels").mkdir()
    (folder / "kernels").chmod(0o777)
    unsafe(folder, "kernels is not used: others may write to it")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes and owners of POSIX")
def test_a_symbolic_link_is_not_used(folder, monkeypatch):
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real")
    monkeypatch.setenv("AXLA_CACHE_DIR", str(folder / "link"))
    unsafe(folder / "real", "link is not used: it is a symbolic link; name its target in AXLA_CACHE_DIR")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes and owners of POSIX")
def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    unsafe(folder, f"it belongs to user {folder.stat().st_uid}, not to")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="modes and owners of POSIX")
def test_folders_are_made_for_the_user_alone(folder, monkeypatch):
    monkeypatch.setenv("AXLA_CACHE_DIR", str(folder / "new" / "cache"))
    Compiler()("a")
    made = folder / "new" / "cache"
    assert len(entries(made)) == 1
    assert {p.stat().st_mode & 0o777 for p in (made, made / "kernels")} == {0o700}


def test_no_home_no_folder(monkeypatch):
    for name in ("AXLA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache.directory("kernel") is None


def test_a_full_disk_only_costs_time(folder, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert Compiler()("a") == b"object of a"
    assert not list(folder.glob("*/*/*"))  # nothing half written stays


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder_is_read(folder):
    Compiler()("a")
    cache.clear()
    for path in (folder / "kernels").glob("*"):
        path.chmod(0o500)
    compiler = Compiler()
    assert compiler("a") and compiler("b") and compiler.calls == 1


def test_an_entry_that_is_replaced_counts_with_its_new_bytes():
    cache.clear()
    for size in (100, 7, 50):
        cache.put("kernel", "ab", bytes(size))
        assert cache._memory_bytes == size + cache.ENTRY_BYTES
    cache.clear()


def test_processes_at_once(folder):
    """Four processes read and write the same entries: whoever reads gets a whole one or none."""
    code = """
import sys
from axla.core import cache
for turn in range(60):
    for number in range(8):
        key, value = f"{number:02}", b"%d" % number * 20000
        assert cache.get("kernel", key) in (None, value)
        cache.put("kernel", key, value)
        cache.clear(disk=turn % 10 == 9)
"""
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
