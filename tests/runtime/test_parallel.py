"""parallel_for, threads, fork."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from functools import cache
from pathlib import Path

import native_programs as programs
import numpy as np
import pytest

import axla
from axla.codegen.native.pool import POOL
from axla.core import limits
from axla.core.errors import InvalidArgument, RuntimeFailure
from axla.runtime.array import device_put
from axla.runtime.native import native, num_threads, set_num_threads

X = np.random.default_rng(0).standard_normal(10_000, np.float32)


@pytest.fixture
def threads():
    """Sets the number of threads; the old one comes back."""
    before = num_threads()
    yield set_num_threads
    set_num_threads(before)


@cache
def cache_of_scripts() -> tempfile.TemporaryDirectory:
    """The native code behind arrays and calls is half of what a script takes: the first one compiles it."""
    return tempfile.TemporaryDirectory(prefix="axla-scripts-")


def run_script(text: str, **environment: str) -> subprocess.CompletedProcess:
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1] / "src")])
    code = textwrap.dedent(text)
    env = {**os.environ, "PYTHONPATH": path, "AXLA_CACHE_DIR": cache_of_scripts().name, **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("grain", [1, 7, 64, 9999, 10_000, 1 << 40])
def test_ranges_do_not_depend_on_threads(threads, grain):
    sums = programs.parallel_sum(len(X), grain)
    starts = range(0, len(X), grain)
    expected = np.array([np.cumsum(X[i : i + grain], dtype=np.float32)[-1] for i in starts])
    for count in (1, 2, 5):
        threads(count)
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(sums(X)), expected)


def test_the_lowest_failing_range_is_reported(threads):
    failing = programs.parallel_sum(2000, 10, fail_from=500)
    for count in (1, 4):
        threads(count)
        for _ in range(30):
            with pytest.raises(RuntimeFailure, match="range at 500 failed"):
                failing(X[:2000])


def test_calls_from_many_threads(threads):
    threads(3)
    sums = programs.parallel_sum(len(X), 100)
    add = programs.add(len(X), long_running=True)
    expected = np.asarray(sums(X)).copy()
    x = device_put(X)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for i in range(100):
                argument = X if i % 2 else x
                np.testing.assert_array_equal(np.asarray(sums(argument)), expected)
                np.testing.assert_array_equal(np.asarray(add(argument, X)), X + X)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not errors and not any(worker.is_alive() for worker in workers)


def test_runs_share_the_threads_fairly(threads):
    """While n runs are under way, a loop of one has an n-th of the threads; one thread: it runs alone."""
    sums = programs.parallel_sum(len(X), 100)
    expected = np.asarray(sums(X)).copy()
    runs = native().glue.variable("pool_runs", ctypes.c_int64)
    pool = native().glue.variable("pools", POOL.ctypes())
    assert runs.value == 0
    threads(8)
    for others, share in ((0, 8), (1, 4), (2, 2), (3, 2)):
        runs.value += others
        np.testing.assert_array_equal(np.asarray(sums(X)), expected)
        runs.value -= others
        assert pool.threads == share and pool.started >= share - 1 and pool.state & 0xFFFFFFFF == 0
    before = pool.state
    for count in (7, 1 << 40):
        runs.value += count
        np.testing.assert_array_equal(np.asarray(sums(X)), expected)
        runs.value -= count
    assert pool.state == before and runs.value == 0


def test_every_run_is_counted_once(threads):
    runs = native().glue.variable("pool_runs", ctypes.c_int64)
    threads(4)
    failing = programs.parallel_sum(2000, 10, fail_from=500)
    for _ in range(3):
        with pytest.raises(RuntimeFailure):
            failing(X[:2000])
    text = "HloModule m\nENTRY e { x = f32[100000] parameter(0)\n ROOT y = f32[100000] sine(x) }"
    program = axla.compile(axla.parse(text), num_replicas=3)
    for _ in range(3):
        rows = program.execute_replicated([[np.ones(100_000, np.float32)]] * 3)
        assert len({np.asarray(row[0]).tobytes() for row in rows}) == 1
    assert runs.value == 0


def test_an_array_deleted_during_a_run_stays_readable():
    n = native()
    spin = programs.increment(1 << 20, aliased=False, long_running=True)
    values = np.zeros(1 << 20, np.float32)
    for _ in range(5):
        x, y = device_put(values), device_put(values)
        runner = threading.Thread(target=spin, args=(x, y))
        runner.start()
        x.delete()
        y.delete()
        runner.join()
    assert n.memory.in_use < 1 << 31


def test_fork_rebuilds_the_pool():
    done = run_script("""
        import os, sys, threading, numpy as np
        import native_programs as programs
        from axla.codegen.native.pool import POOL
        from axla.runtime.native import native
        sums = programs.parallel_sum(10_000, 10)
        x = np.ones(10_000, np.float32)
        native().threads.value = 4
        assert np.asarray(sums(x)).sum() == 10_000
        stop = False
        def busy():
            while not stop:
                sums(x)
        other = threading.Thread(target=busy)
        other.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                good = all(np.asarray(sums(x)).sum() == 10_000 for _ in range(20))
                pool = native().glue.variable("pools", POOL.ctypes())
                started = pool.started
                os._exit(0 if good and started == 3 else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop = True
        other.join()
        print("done")
    """)
    assert done.stdout == "done\n", done.stderr


def test_oversubscribed_machines_make_progress(threads):
    threads(32)
    sums = programs.parallel_sum(len(X), 50)
    expected = np.asarray(sums(X)).copy()
    for _ in range(50):
        np.testing.assert_array_equal(np.asarray(sums(X)), expected)


@pytest.mark.parametrize("count", [0, -1, 5000, 2.0, "2"])
def test_set_num_threads_refuses(count):
    with pytest.raises(InvalidArgument, match="set_num_threads: wanted 1 to 4096"):
        set_num_threads(count)


def test_thread_count(monkeypatch):
    monkeypatch.delenv("AXLA_NUM_THREADS", raising=False)
    assert 1 <= limits.thread_count() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("AXLA_NUM_THREADS", "3")
    assert limits.thread_count() == 3
    for text in ("0", "-1", "many", "99999"):
        monkeypatch.setenv("AXLA_NUM_THREADS", text)
        with pytest.raises(InvalidArgument, match="AXLA_NUM_THREADS"):
            limits.thread_count()


@pytest.mark.parametrize(
    "files, cores",
    [
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "max 100000"}, 1 << 30),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 1 << 30),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({}, 1 << 30),
    ],
)
def test_container_quota(tmp_path, monkeypatch, files, cores):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)
    monkeypatch.setattr(limits, "_OWN_GROUPS", tmp_path / "none")
    assert limits._quota() == cores


def test_quotas_of_the_groups_around_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)
    monkeypatch.setattr(limits, "_OWN_GROUPS", tmp_path / "own")
    for version, own in ((tmp_path, "0::/a/b/c"), (tmp_path / "cpu", "3:cpu,cpuacct:/a/b/c\n4:memory:/z")):
        (version / "a/b/c").mkdir(parents=True)
        (tmp_path / "own").write_text(own)
        assert limits._quota() == 1 << 30
        if version == tmp_path:
            (version / "a/b/c/cpu.max").write_text("max 100000")
            (version / "a/cpu.max").write_text("250000 100000")
        else:
            (version / "a/b/c/cpu.cfs_quota_us").write_text("300000")
            (version / "a/b/c/cpu.cfs_period_us").write_text("100000")
        assert limits._quota() == 3
        (tmp_path / "own").write_text("0::/elsewhere")


def test_memory_of_the_groups_around_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)
    monkeypatch.setattr(limits, "_OWN_GROUPS", tmp_path / "own")
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "own").write_text("0::/a/b")
    (tmp_path / "a/memory.max").write_text("1000000")
    (tmp_path / "a/b/memory.max").write_text("max")
    assert limits.memory_limit() == 1000000 and limits.cache_limit() == 125000
