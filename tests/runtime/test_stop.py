"""Stopping programs: deadline, cancel, Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace

import native_programs as programs
import numpy as np
import pytest
from test_parallel import run_script

from axla.core.errors import Cancelled, DeadlineExceeded
from axla.runtime.array import device_put
from axla.runtime.executable import Executable


def test_deadline():
    spin = programs.spin()
    begin = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="spin: the deadline passed") as caught:
        spin.execute([], deadline=0.05)
    assert time.monotonic() - begin < 5 and caught.value.code == 2
    for past in (0, -1, float("nan")):
        with pytest.raises(DeadlineExceeded, match="before the run"):
            spin.execute([], deadline=past)


def test_a_run_within_its_deadline():
    add = programs.add(4, long_running=True)
    x = device_put(np.ones(4, np.float32))
    (result,) = add.execute([x, x], deadline=60)
    assert result.tolist() == [2, 2, 2, 2]
    (result,) = add.execute([np.asarray(x), x], deadline=1e300)
    assert result.tolist() == [2, 2, 2, 2]


def test_a_deadline_stops_programs_thought_short():
    spin = programs.spin()
    short = Executable(spin._images, replace(spin.interface, long_running=False))
    with pytest.raises(DeadlineExceeded):
        short.execute([], deadline=0.05)


def test_cancel_stops_all_runs():
    spin = programs.spin()
    assert spin.cancel() == 0
    caught: list[BaseException] = []

    def work() -> None:
        try:
            spin()
        except BaseException as error:  # noqa: BLE001
            caught.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    stopped = 0
    limit = time.monotonic() + 30
    while len(caught) < 3 and time.monotonic() < limit:
        stopped += spin.cancel()
        time.sleep(0.01)
    for worker in workers:
        worker.join(10)
    assert stopped >= 3 and [type(e) for e in caught] == [Cancelled] * 3
    assert str(caught[0]) == "spin: the run was cancelled"


INTERRUPTED = """
    import signal, sys, os, threading, time
    import native_programs as programs
    from axla.core.errors import AxlaError
    spin = programs.spin()
    {setup}
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        spin{call}
    except BaseException as error:
        print(type(error).__name__, error)
    print(signal.getsignal(signal.SIGINT).__name__)
"""


@pytest.mark.parametrize("call", ["()", ".execute([], deadline=30)"])
def test_ctrl_c_stops_a_run(call):
    done = run_script(INTERRUPTED.format(setup="", call=call))
    assert done.stdout.split("\n")[:2] == ["KeyboardInterrupt ", "default_int_handler"], done.stderr


def test_ctrl_c_twice():
    text = INTERRUPTED.format(setup="", call="()")
    again = text.replace("threading.Timer", "for _ in range(2):\n      threading.Timer", 1)
    again = again.replace("    try:", "      try:").replace("        spin", "          spin")
    again = again.replace("    except", "      except").replace("        print(type", "          print(type")
    done = run_script(again)
    assert done.stdout.count("KeyboardInterrupt") == 2, done.stderr


def test_a_handler_that_does_not_raise():
    handler = "def handler(number, frame): print('seen')\n    signal.signal(signal.SIGINT, handler)"
    done = run_script(INTERRUPTED.format(setup=handler, call="()"))
    assert done.stdout == "seen\nCancelled spin: the run was stopped by a signal\nhandler\n", done.stderr


def test_ignored_signals_stay_ignored():
    setup = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    text = INTERRUPTED.format(setup=setup, call=".execute([], deadline=1)").replace(
        "    print(signal.getsignal", "    #"
    )
    done = run_script(text)
    assert done.stdout == "DeadlineExceeded spin: the deadline passed before the program ended\n", done.stderr


def test_signals_in_other_threads_leave_runs_alone():
    spin = programs.spin()
    caught: list[type] = []

    def work() -> None:
        try:
            spin.execute([], deadline=0.3)
        except DeadlineExceeded as error:
            caught.append(type(error))

    seen = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: seen.set())
    try:
        worker = threading.Thread(target=work)
        worker.start()
        time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)
        worker.join(30)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen.is_set() and caught == [DeadlineExceeded]


def test_a_handler_set_later_is_called_too():
    done = run_script("""
        import os, signal, threading
        import native_programs as programs
        from axla.core.errors import AxlaError
        spin = programs.spin()

        def interrupt(note):
            if note:
                signal.signal(signal.SIGINT, lambda *_: print(note))
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                spin()
            except (AxlaError, KeyboardInterrupt) as error:
                print(type(error).__name__)

        for note in ("", "first", "second"):
            interrupt(note)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt("")
    """)
    assert done.stdout.split() == [
        "KeyboardInterrupt", "first", "Cancelled", "second", "Cancelled", "KeyboardInterrupt",
    ], done.stderr  # fmt: skip


def test_ctrl_c_between_runs_is_pythons():
    done = run_script("""
        import os, signal, numpy as np
        import native_programs as programs
        add = programs.add(4, long_running=True)
        add(np.zeros(4, np.float32), np.zeros(4, np.float32))
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(10): pass
        except KeyboardInterrupt:
            print("here")
    """)
    assert done.stdout == "here\n", done.stderr
