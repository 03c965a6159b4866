"""Progress of a compilation: what a callback hears, and what a bar draws."""

from __future__ import annotations

import io

import pytest

import axla
from axla.core import flags
from axla.core.progress import bar, report

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
