"""Progress of a compilation: what a callback hears, and what a bar draws."""

from __future__ import annotations

import io
import threading
import time

import pytest

import axla
from axla.core import flags, limits
from axla.core.progress import bar, report
from axla.cpu.compiler import _objects
from axla.target.machine import cpu_target

TEXT = """HloModule two
ENTRY e {
  x = f32[8,8] parameter(0)
  t = f32[8,8] tanh(x)
  ROOT d = f32[8,8] dot(t, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_a_callback_hears_every_stage_to_its_end():
    heard = []
    with flags.override(cache_dir="", verify=True), axla.progress(lambda *said: heard.append(said)):
        axla.compile(axla.parse(TEXT))
    last = {stage: (done, total) for stage, done, total in heard}
    assert {"passes", "code", "objects"} <= set(last)
    assert all(1 <= done <= total for _, done, total in heard)
    assert all(done == total for done, total in last.values())
    count = len(heard)
    axla.compile(axla.parse(TEXT))
    assert len(heard) == count


def test_threads_call_it_one_at_a_time(monkeypatch):
    monkeypatch.setattr(limits, "thread_count", lambda: 4)
    heard, inside = [], threading.Lock()

    def hear(stage, done, total):
        assert inside.acquire(blocking=False)
        heard.append(done)
        time.sleep(0)
        inside.release()

    texts = [str(number) for number in range(200)]
    with flags.override(cache_dir=""), axla.progress(hear):
        _objects(texts, cpu_target("x86-64"), [lambda text, target: text.encode()] * len(texts))
    assert heard == list(range(1, 201))


def test_an_error_of_a_callback_ends_the_compilation():
    class StopNow(Exception):
        pass

    def stop(stage, done, total):
        if stage == "code":
            raise StopNow

    with flags.override(cache_dir="", verify=True), pytest.raises(StopNow), axla.progress(stop):
        axla.compile(axla.parse(TEXT))


def test_a_bar_is_drawn_and_wiped_out():
    out = io.StringIO()
    with bar(out, first=0.0):
        report("passes", 5, 10)
    drawn, _, wiped = out.getvalue().rpartition("\r")
    assert drawn == "\r[" + "#" * 12 + "-" * 12 + "] passes 5 of 10\x1b[K" and wiped == "\x1b[K"


def test_nothing_is_drawn_before_its_time_or_where_somebody_listens():
    out, heard = io.StringIO(), []
    with bar(out, first=1e9):
        report("passes", 5, 10)
    with axla.progress(lambda *said: heard.append(said)), bar(out, first=0.0):
        report("objects", 1, 3)
    report("objects", 2, 3)
    assert out.getvalue() == "" and heard == [("objects", 1, 3)]


def test_the_flag_shows_it(capsys, monkeypatch):
    monkeypatch.setattr(bar.__wrapped__, "__defaults__", (None, 0.0))
    with flags.override(cache_dir="", verify=True, progress=True):
        axla.compile(axla.parse(TEXT))
    assert "] passes" in capsys.readouterr().err
