"""axla cache: sizes per kind, and clearing."""

from __future__ import annotations

from axla.core import cache
from axla.tools.main import main


def test_sizes_and_clear(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AXLA_CACHE_DIR", str(tmp_path))
    cache.put("kernel", "aabb", b"x" * 84)
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}, at most 512 MiB", "programs: 0 entries, 0 bytes", "kernels: 1 entries, 100 bytes",
        "glues: 0 entries, 0 bytes", "hosts: 0 entries, 0 bytes", "tunings: 0 entries, 0 bytes",
    ]  # fmt: skip
    assert main(["cache", "--clear"]) == 0
    assert "kernels: 1 entries, 100 bytes, dropped" in capsys.readouterr().out
    assert cache.get("kernel", "aabb") is None and not list(tmp_path.glob("*/*/*"))


def test_without_a_folder(monkeypatch, capsys):
    monkeypatch.setenv("AXLA_CACHE_DIR", "")
    assert main(["cache"]) == 0 and capsys.readouterr().out == "no cache on disk\n"
