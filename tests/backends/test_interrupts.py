"""Ctrl-C while another thread works for the main thread, at any moment of that."""

from __future__ import annotations

import threading

import pytest

from axla.backends import kit

START = threading.Thread.start


def test_ctrl_c_while_the_thread_starts(monkeypatch):
    threads, done = [], []

    def start(thread):
        START(thread)
        threads.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        kit.apart(lambda: done.append("work"), lambda: None)
    for thread in threads:
        thread.join()
    assert not done


def test_ctrl_c_while_the_thread_works(monkeypatch):
    stop, done, waits = threading.Event(), [], iter([KeyboardInterrupt])
    wait = kit.wait

    def interrupted(*arguments):
        for error in waits:
            raise error
        return wait(*arguments)

    monkeypatch.setattr(kit, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kit.apart(lambda: done.append(stop.wait()), stop.set)
    assert done == [True]


def test_an_error_of_the_work_stops_nothing():
    stop = threading.Event()
    with pytest.raises(ZeroDivisionError):
        kit.apart(lambda: 1 // 0, stop.set)
    assert kit.apart(lambda: 1, stop.set) == 1 and not stop.is_set()
