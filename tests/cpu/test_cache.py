"""The kernel cache: hits, damaged files, eviction, no folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axla.cpu import cache
from axla.target.machine import cpu_target

TARGET = cpu_target("x86-64-v3")


class Compiler:
    def __init__(self):
        self.calls = 0

    def __call__(self, text, target):
        self.calls += 1
        return b"object of " + text.encode()


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
    first = cache.object_for("a", TARGET, compiler)
    assert cache.object_for("a", TARGET, compiler) == first and compiler.calls == 1
    cache.clear()  # as in another process
    assert cache.object_for("a", TARGET, compiler) == first and compiler.calls == 1


def test_machine_is_part_of_the_key(folder):
    compiler = Compiler()
    cache.object_for("a", TARGET, compiler)
    cache.object_for("a", cpu_target("x86-64"), compiler)
    assert compiler.calls == 2 and len(entries(folder)) == 2


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100])
def test_damaged_file_is_compiled_again(folder, damage):
    compiler = Compiler()
    first = cache.object_for("a", TARGET, compiler)
    (path,) = entries(folder)
    path.write_bytes(damage)
    cache.clear()
    assert cache.object_for("a", TARGET, compiler) == first and compiler.calls == 2
    cache.clear()
    assert cache.object_for("a", TARGET, compiler) == first and compiler.calls == 2


def test_longest_unused_are_dropped(folder):
    compiler = Compiler()
    for number, text in enumerate("abc"):
        cache.object_for(text, TARGET, compiler)
        (new,) = [p for p in entries(folder) if p.stat().st_mtime > 1000]
        os.utime(new, (number, number))
    oldest = min(entries(folder), key=lambda p: p.stat().st_mtime)
    size = oldest.stat().st_size
    cache.collect(folder / "kernels", 2 * size)
    assert len(entries(folder)) == 2 and not oldest.exists()


def test_no_folder(monkeypatch):
    monkeypatch.setenv("AXLA_CACHE_DIR", "")
    assert cache.directory() is None
    compiler = Compiler()
    cache.object_for("a", TARGET, compiler)
    cache.clear()
    cache.object_for("a", TARGET, compiler)
    assert compiler.calls == 2


def test_unwritable_folder_only_costs_time(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("AXLA_CACHE_DIR", str(blocked))
    compiler = Compiler()
    assert cache.object_for("a", TARGET, compiler) == b"object of a"


def unsafe(path: Path, match: str) -> None:
    """Nothing is read from or written to a cache in `path`, and a warning says why, once."""
    compiler = Compiler()
    with pytest.warns(RuntimeWarning, match=match) as caught:
        cache.object_for("a", TARGET, compiler)
    cache.clear()
    cache.object_for("a", TARGET, compiler)
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
    cache.object_for("a", TARGET, Compiler())
    made = folder / "new" / "cache"
    assert len(entries(made)) == 1
    assert {p.stat().st_mode & 0o777 for p in (made, made / "kernels")} == {0o700}


def test_no_home_no_folder(monkeypatch):
    for name in ("AXLA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache.directory() is None
