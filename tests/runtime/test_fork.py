"""Forks beside threads that run programs, compile, or hold locks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from test_parallel import run_script

from native_handlers import handlers_library

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork")

CHILD = """
    import faulthandler, gc, os, signal, threading, time
    faulthandler.dump_traceback_later(50, exit=True)

    def in_child(function):
        # The exit code of a forked process that calls the function; it is killed when it hangs.
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            try:
                os._exit(0 if function() else 1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def check(text: str) -> None:
    done = run_script(CHILD + text)
    assert done.stdout == "0\n", done.stdout + done.stderr


def test_threads_run_while_handlers_of_a_fork_run():
    # The handler lets other threads run after those of whoever registered later: no lock may be held then.
    check("""
    os.register_at_fork(before=lambda: time.sleep(0.1))
    import native_programs as programs, numpy as np
    add, x = programs.add(1000), np.ones(1000, np.float32)
    stop = False
    def busy():
        while not stop:
            add(x, x)
    other = threading.Thread(target=busy)
    other.start()
    print(in_child(lambda: add(x, x).tolist() == [2] * 1000))
    stop = True
    other.join()
    """)


def test_runs_of_other_threads_are_not_in_the_child():
    check("""
    import native_programs as programs, numpy as np
    from axla.core.errors import Cancelled, DeadlineExceeded
    spin, add, x = programs.spin(), programs.add(4, long_running=True), np.ones(4, np.float32)
    def other():
        try:
            spin()
        except Cancelled:
            pass
    runner = threading.Thread(target=other)
    runner.start()
    time.sleep(0.1)
    def child():
        try:
            spin.execute([], deadline=0.1)
        except DeadlineExceeded:
            return spin.cancel() == 0 and add(x, x).tolist() == [2] * 4
    print(in_child(child))
    assert spin.cancel() == 1
    runner.join()
    """)


def test_a_fork_inside_a_run():
    check("""
    import axla, numpy as np
    codes = []
    def forks(x):
        codes.append(in_child(lambda: True))
        return x + 1
    axla.register_custom_call("forks", forks)
    text = 'ENTRY e { x = f32[2] parameter(0)  ROOT r = f32[2] custom-call(x), custom_call_target="forks" }'
    program = axla.compile(axla.parse(text))
    assert program(np.ones(2, np.float32)).tolist() == [2, 2]
    def child():
        return program(np.ones(2, np.float32)).tolist() == [2, 2]
    assert in_child(child) == 0 and program.cancel() == 0
    print(codes[0])
    """)


def test_locks_of_other_threads_are_free_in_the_child():
    check("""
    import axla, numpy as np
    from axla.codegen import llvm
    from axla.core import locks
    text = "ENTRY e {{ x = f32[3] parameter(0)  ROOT r = f32[3] {}(x) }}"
    x = np.zeros(3, np.float32)
    axla.compile(axla.parse(text.format("cosine")))(x)
    held, done = threading.Event(), threading.Event()
    def hold():
        taken = list(locks._locks)
        for lock in taken:
            lock.acquire()
        held.set()
        done.wait()
        for lock in taken:
            lock.release()
    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    held.wait()
    assert llvm.LOCK in locks._locks
    def child():
        return axla.compile(axla.parse(text.format("sine")))(x).tolist() == [0] * 3
    print(in_child(child))
    done.set()
    holder.join()
    """)


def test_a_fork_waits_for_llvm():
    check("""
    from axla.codegen import llvm
    held = threading.Event()
    def inside():
        with llvm.binding.ffi.lib._lock:
            held.set()
            time.sleep(0.3)
    worker = threading.Thread(target=inside)
    worker.start()
    held.wait()
    print(in_child(lambda: bool(llvm.host_cpu())))
    """)


def test_a_child_leaves_the_compiling_process_of_its_parent_alone():
    check("""
    from axla.codegen.child import CHILD
    from axla.codegen.host import host_target
    CHILD.emit_object("define void @f() { ret void }", host_target())
    print(in_child(lambda: CHILD.close() is None))
    assert CHILD._process.poll() is None
    """)


@pytest.mark.cc
def test_tasks_of_handlers_have_new_threads_in_the_child():
    check(f"""
    import axla, numpy as np
    axla.register_custom_call("later", {handlers_library()._name!r}, api="ffi")
    program = axla.compile(axla.parse('''ENTRY e {{ x = f32[50] parameter(0)
      ROOT y = f32[50] custom-call(x), custom_call_target="later", api_version=API_VERSION_TYPED_FFI }}'''))
    x = np.arange(50, dtype=np.float32)
    right = lambda: bool((np.asarray(program(x)) == x * x).all())
    assert right()
    stop = False
    def busy():
        while not stop:
            right()
    other = threading.Thread(target=busy)
    other.start()
    print(max(in_child(lambda: right() and right()) for _ in range(5)))
    stop = True
    other.join()
    assert right()
    """)


def test_a_lock_that_is_to_be_held_while_a_fork_is_under_way():
    text = """
import os, threading
from axla.core import locks
lock = threading.Lock()
os.register_at_fork(before=lambda: locks.hold_over_forks(lock))
if os.fork() == 0:
    os._exit(0)
os.wait()
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
