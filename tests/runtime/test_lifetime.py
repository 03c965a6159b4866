"""Lifetimes of references, code and memory, and the modules that an import loads."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import native_programs as programs
import numpy as np
import pytest
from test_parallel import run_script

from axla.core.errors import AxlaError, InvalidArgument
from axla.runtime.array import device_put
from axla.runtime.native import native

X = np.arange(64, dtype=np.float32)


def test_calls_leave_no_references_and_no_memory():
    programs_ = [programs.add(64), programs.add(64, long_running=True)]
    x, y = device_put(X), device_put(X)
    n = native()
    watched = [x, y, X, n.array_type, x._info, None, np.dtype(np.float32)]

    def calls(count: int) -> None:
        for _ in range(count):
            for add in programs_:
                add(x, y)
                add(X, y)
                add.execute([x, X])
                with pytest.raises(InvalidArgument):
                    add(x)
                with pytest.raises(InvalidArgument):
                    add(x, X[:3])

    calls(20)
    gc.collect()
    before, in_use = [sys.getrefcount(o) for o in watched], n.memory.in_use
    calls(500)
    gc.collect()
    drift = [sys.getrefcount(o) - b for o, b in zip(watched, before, strict=True)]
    assert n.memory.in_use == in_use and max(map(abs, drift)) < 20, drift


def test_many_results_leave_no_memory():
    pair = programs.add(64)
    text = f"""
define i32 @axla_entry(ptr %frame) {{
{programs.addresses("a", "b", of="results")}
  store float 1.0, ptr %a
  store float 2.0, ptr %b
  ret i32 0
}}
"""
    from axla.backends.native import NativeExecutable as Executable
    from axla.program.interface import Interface

    specs = (programs.spec("a"), programs.spec("b"))
    two = Executable(programs.image(text), Interface("two", (), specs, result_tree=(0, 1)))
    n = native()
    before = n.memory.in_use
    for _ in range(1000):
        a, b = two()
    assert (float(a), float(b)) == (1, 2)
    del a, b
    assert n.memory.in_use == before
    del pair


def test_a_program_goes_with_its_last_reference():
    add = programs.add(64)
    loaded = weakref.ref(add._loaded)
    call = add._native_call
    del add
    assert np.array_equal(np.asarray(call(X, X)), X + X), "the call keeps the code"
    del call
    gc.collect()
    assert loaded() is None


def test_a_program_dropped_during_its_run():
    programs_ = [programs.spin()]
    caught: list[type] = []
    started = threading.Event()
    loaded = weakref.ref(programs_[0]._loaded)

    def work() -> None:
        execute = programs_[0].execute
        started.set()
        try:
            execute([], deadline=0.2)
        except AxlaError as error:
            caught.append(type(error))

    worker = threading.Thread(target=work)
    worker.start()
    while not started.wait(1):
        pass
    del programs_[:]
    worker.join()
    gc.collect()
    assert len(caught) == 1 and loaded() is None


def resident() -> tuple[int, int]:
    """Resident kilobytes and the number of mappings."""
    with open("/proc/self/statm") as statm, open("/proc/self/maps") as maps:
        return int(statm.read().split()[1]) * 4, len(maps.readlines())


def test_loading_and_dropping_is_flat():
    """Resident memory and mappings after 500 cycles are those after 100."""

    def cycles(count: int) -> None:
        for _ in range(count):
            add = programs.add(64)
            assert add(X, X)[1] == 2

    cycles(100)
    gc.collect()
    kilobytes, mappings = resident()
    cycles(400)
    gc.collect()
    later = resident()
    # 9 KB would stay for each library if LLVM's tables were not freed as well.
    assert later[0] - kilobytes < 1000 and later[1] - mappings < 8, (kilobytes, mappings, later)


def test_loading_from_many_threads():
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(25):
                assert programs.add(64)(X, X)[1] == 2
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    programs.add(64)
    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not errors


def test_importing_loads_no_llvm():
    done = run_script("""
        import os, sys
        os.environ["AXLA_CACHE_DIR"] = ""  # where nothing is kept, LLVM makes it
        import axla.backends.native, axla.runtime.array, axla.runtime.dlpack
        print([m for m in sys.modules if m.startswith("llvmlite")])
        axla.runtime.array.device_put(1.0)
        print("llvmlite" in sys.modules)
    """)
    assert done.stdout == "[]\nTrue\n", done.stderr


def test_without_native_code_arrays_work_and_programs_say_why():
    done = run_script("""
        import ctypes, importlib.metadata, shutil, subprocess, sys, sysconfig, tempfile
        import ml_dtypes, numpy as np
        sysconfig.get_config_vars()
        sys.platform = "sunos5"
        from axla.runtime.array import device_put
        from axla.backends.native import NativeExecutable as Executable
        from axla.program.interface import Interface
        array = device_put(np.arange(3.0))
        print(type(array).__name__, np.asarray(array).tolist(), float(array[1]))
        try:
            Executable(b"", Interface("f", (), (), result_tree=()))
        except Exception as error:
            print(type(error).__name__, error)
    """)
    lines = done.stdout.splitlines()
    assert lines[0] == "HostArray [0.0, 1.0, 2.0] 1.0", done.stderr
    reason = "UnsupportedError the cpu backend runs on linux, darwin, win32 (this is sunos5)"
    assert lines[1].startswith(reason)


def test_objects_left_at_exit_do_no_harm():
    done = run_script("""
        import numpy as np, threading
        import native_programs as programs
        from axla.runtime.array import device_put
        from axla.runtime.native import native
        native().threads.value = 3
        sums = programs.parallel_sum(1000, 10)
        kept = sums(np.ones(1000, np.float32))
        view = np.asarray(kept)
        cycle = [kept, sums]; cycle.append(cycle)
        threading.Thread(target=programs.spin().execute, args=([],), daemon=True).start()
        print(view.sum())
    """)
    assert done.returncode == 0 and done.stdout == "1000.0\n", done.stderr
