"""Stopping programs: deadline, cancel, Ctrl-C and other signals."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace

import native_programs as programs
import numpy as np
import pytest
from test_parallel import run_script

from axla.backends.native import NativeExecutable as Executable
from axla.core.errors import Cancelled, DeadlineExceeded
from axla.runtime.array import device_put


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


@pytest.mark.parametrize("name", ["SIGINT", "SIGALRM", "SIGTERM", "SIGRTMIN"])
def test_a_run_goes_on_after_a_handler_that_does_not_raise(name):
    done = run_script(f"""
        import os, signal, threading
        import native_programs as programs
        from axla.core.errors import DeadlineExceeded
        spin, seen = programs.spin(), []
        signal.signal(signal.{name}, lambda *_: seen.append(1))
        for k in range(1, 4):
            threading.Timer(k * 0.2, lambda: os.kill(os.getpid(), signal.{name})).start()
        try:
            spin.execute([], deadline=1.5)
        except DeadlineExceeded:
            print(len(seen))
    """)
    assert done.stdout == "3\n", done.stderr


@pytest.mark.parametrize("name", ["SIGALRM", "SIGTERM", "SIGCHLD", "SIGRTMAX"])
def test_any_signal_whose_handler_raises_stops_a_run(name):
    done = run_script(f"""
        import os, signal, threading, time
        import native_programs as programs
        spin, times = programs.spin(), []
        def handler(number, frame):
            times.append(time.monotonic())
            raise TimeoutError(signal.Signals(number).name)
        def send():
            times.append(time.monotonic())
            os.kill(os.getpid(), signal.{name})
        signal.signal(signal.{name}, handler)
        for run in (spin, lambda: spin.execute([], deadline=30)):
            times.clear()
            threading.Timer(0.2, send).start()
            try:
                run()
            except TimeoutError as error:
                print(error, "late" if times[1] - times[0] > 5 else "")
        print(spin.cancel())
    """)
    assert done.stdout.split() == [name, name, "0"], done.stderr


FOREVER = """
body { t = (s64[], f32[300000]) parameter(0)  i = s64[] get-tuple-element(t), index=0
  x = f32[300000] get-tuple-element(t), index=1  y = f32[300000] sine(x)
  one = s64[] constant(1)  n = s64[] add(i, one)  ROOT r = (s64[], f32[300000]) tuple(n, y) }
condition { t = (s64[], f32[300000]) parameter(0)  i = s64[] get-tuple-element(t), index=0
  zero = s64[] constant(-1)  ROOT r = pred[] compare(i, zero), direction=GT }
ENTRY e { x = f32[300000] parameter(0)  zero = s64[] constant(0)
  t = (s64[], f32[300000]) tuple(zero, x)
  ROOT w = (s64[], f32[300000]) while(t), condition=condition, body=body }
"""


def test_a_handler_stops_a_parallel_run_and_runs_programs_itself():
    done = run_script("""
        import os, signal, threading, numpy as np, axla
        from axla.runtime.native import native
        from test_stop import FOREVER
        native().threads.value = 3
        forever = axla.compile(axla.parse(FOREVER))
        double = axla.compile(axla.parse("ENTRY e { x = f32[9] parameter(0)  ROOT r = f32[9] add(x, x) }"))
        x, seen = np.ones(300000, np.float32), []
        def handler(number, frame):
            seen.append(double(x[:9]).tolist() == [2] * 9)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            if len(seen) == 4:
                raise TimeoutError
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            forever(x)
        except TimeoutError:
            print(seen)
        signal.setitimer(signal.ITIMER_REAL, 0)
    """)
    assert done.stdout == "[True, True, True, True]\n", done.stderr


def test_a_handler_that_runs_a_long_program_of_its_own():
    done = run_script("""
        import os, signal, threading
        import native_programs as programs
        from axla.core.errors import DeadlineExceeded
        spin = programs.spin()
        def inner(number, frame):
            try:
                spin.execute([], deadline=0.2)
            except DeadlineExceeded:
                print("inner")
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        signal.signal(signal.SIGUSR1, inner)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        try:
            spin()
        except KeyboardInterrupt:
            print("outer")
    """)
    assert done.stdout == "inner\nouter\n", done.stderr


def test_a_fork_in_a_handler_ends_the_run_in_the_child():
    done = run_script("""
        import os, signal, threading
        import native_programs as programs
        from axla.core.errors import Cancelled
        spin = programs.spin()
        class Parent(Exception):
            pass
        def handler(number, frame):
            if child := os.fork():
                raise Parent(child)
        signal.signal(signal.SIGUSR1, handler)
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        try:
            spin()
        except Cancelled:
            os._exit(7)
        except Parent as parent:
            print(os.waitstatus_to_exitcode(os.waitpid(parent.args[0], 0)[1]))
    """)
    assert done.stdout == "7\n", done.stderr


def test_the_monitor_of_signals_ends_and_starts_again():
    done = run_script("""
        import ctypes, os, signal, threading, time
        import native_programs as programs
        from axla.runtime.native import native
        spin, state = programs.spin(), native().glue.variable("monitor_state", ctypes.c_int32)
        def stop():
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                spin()
            except KeyboardInterrupt:
                print(state.value)
        print(state.value)
        stop()
        end = time.monotonic() + 30
        while state.value and time.monotonic() < end:
            time.sleep(0.1)
        print(state.value)
        stop()
    """)
    assert done.stdout.split() == ["0", "1", "0", "1"], done.stderr


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
                spin.execute([], deadline=1)
            except (AxlaError, KeyboardInterrupt) as error:
                print(type(error).__name__)

        for note in ("", "first", "second"):
            interrupt(note)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt("")
    """)
    assert done.stdout.split() == [
        "KeyboardInterrupt", "first", "DeadlineExceeded", "second", "DeadlineExceeded", "KeyboardInterrupt",
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
