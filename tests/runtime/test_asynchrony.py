"""Runs that are handed over: order, errors, donation, waits, signals, forks, threads, the end."""

from __future__ import annotations

import gc
import logging
import pickle
import threading
import time
import weakref

import native_programs as programs
import numpy as np
import pytest
from test_fork import CHILD
from test_parallel import run_script

import axla
from axla.core.errors import Cancelled, CustomCallFailure, DeadlineExceeded, InvalidArgument, RuntimeFailure
from axla.program.interface import Alias
from axla.runtime import queue
from axla.runtime.array import device_put
from axla.runtime.native import native
from axla.runtime.queue import queue_of
from axla.runtime.safetensors import read_safetensors

X = np.arange(4, dtype=np.float32)
FAILS = 1000
ENDLESS = """
condition { p = f32[4] parameter(0)  ROOT r = pred[] constant(true) }
body { p = f32[4] parameter(0)  ROOT r = f32[4] negate(p) }
ENTRY endless { x = f32[4] parameter(0)  ROOT w = f32[4] while(x), condition=condition, body=body }
"""


@pytest.fixture
def gate():
    """A gate that is open at last, whatever happens."""
    made = programs.Gate()
    yield made
    made.open()
    queue_of(0).drain(30)
    queue_of(0).collect()


def handed(program, *inputs, **options):
    (result,) = program.execute(inputs, asynchronous=True, **options)
    return result


def opened_by_another_thread(gate):
    threading.Timer(0.02, gate.open).start()


def compiled(name, function, text="ROOT r = f32[4] custom-call(x)", parameters="x = f32[4] parameter(0)"):
    axla.register_custom_call(name, function)
    return axla.compile(axla.parse(f'ENTRY e {{ {parameters}  {text}, custom_call_target="{name}" }}'))


# Results.


def test_results_exist_at_once(gate):
    y = handed(programs.gate(gate), X)
    assert y.shape == (4,) and y.dtype == np.float32 and y.nbytes == 16 and not y.is_ready()
    head = y._head("test").address
    gate.open()
    assert y.block_until_ready() is y and y.is_ready()
    assert np.asarray(y).ctypes.data == head and y.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "read",
    [
        np.asarray, memoryview, np.from_dlpack, lambda y: y.__array_interface__ and np.asarray(y),
        axla.device_put, lambda y: pickle.loads(pickle.dumps(y)), lambda y: y + 0,
        lambda y: np.array(eval(repr(y)[12:].replace(".", ","))),
    ],
    ids=["asarray", "memoryview", "dlpack", "interface", "device_put", "pickle", "operator", "repr"],
)  # fmt: skip
def test_readers_wait(gate, read):
    y = handed(programs.gate(gate), X)
    opened_by_another_thread(gate)
    assert np.asarray(read(y)).ravel().tolist() == [1, 2, 3, 4]


def test_writing_a_file_waits(gate, tmp_path):
    from axla.runtime.safetensors import write_safetensors

    y = handed(programs.gate(gate), X)
    opened_by_another_thread(gate)
    write_safetensors(tmp_path / "y", {"y": y})
    assert read_safetensors(tmp_path / "y")["y"].tolist() == [1, 2, 3, 4]


def test_bfloat16_waits(gate):
    import ml_dtypes

    text = "ROOT r = bf16[4] custom-call(x)"
    entered = threading.Event()
    program = compiled("slow_bf16", lambda x: entered.wait() and x, text, "x = bf16[4] parameter(0)")
    y = handed(program, X.astype(ml_dtypes.bfloat16))
    threading.Timer(0.02, entered.set).start()
    assert np.asarray(y).astype(np.float32).tolist() == [0, 1, 2, 3]


def test_numpy_arguments_are_read_before_execute_returns(gate):
    x = X.copy()
    y = handed(programs.gate(gate), x)
    x[:] = 99
    gate.open()
    assert y.tolist() == [1, 2, 3, 4]


def test_arguments_of_all_kinds_and_wrong_ones(gate):
    program = programs.gate(gate)
    gate.open()
    for x in (X, device_put(X), X[::-1].copy()[::-1], memoryview(X)):
        assert handed(program, x).tolist() == [1, 2, 3, 4]
    for wrong in ((X[:3],), (X, X), ()):
        with pytest.raises(InvalidArgument, match="gate"):
            program.execute(wrong, asynchronous=True)


def test_a_run_whose_inputs_are_not_ready(gate):
    program = programs.gate(gate)
    y = handed(program, handed(program, handed(program, X)))
    add = programs.add(4)
    z = handed(add, y, X)  # short, but y is not there
    assert not z.is_ready()
    gate.open()
    assert y.tolist() == [3, 4, 5, 6] and z.tolist() == [3, 5, 7, 9]


def test_small_work_is_done_by_the_caller(gate):
    waiting = handed(programs.gate(gate), X)
    assert len(queue_of(0)) == 1
    gate.open()
    waiting.block_until_ready()
    short = programs.add(4)
    before = queue_of(0).struct.handed
    assert handed(short, X, X).is_ready() and queue_of(0).struct.handed == before
    once_long = programs.add(4, long_running=True)
    handed(once_long, X, X).block_until_ready()
    assert queue_of(0).struct.handed == before + 1
    queue_of(0).drain()
    once_long._loaded.block.nanoseconds = 1000  # whatever it took on a busy machine
    assert handed(once_long, X, X).is_ready() and queue_of(0).struct.handed == before + 1


# Order.


def test_a_run_that_was_stopped_does_not_count_as_small_work():
    program = axla.compile(axla.parse(ENDLESS))
    for _ in range(3):
        y = handed(program, X)  # never ends on this thread
        while not len(queue := queue_of(0)) or queue.struct.begun != queue.struct.handed:
            time.sleep(0.001)
        assert program.cancel() == 1
        with pytest.raises(Cancelled):
            y.block_until_ready()
        assert program._loaded.block.nanoseconds == 0


def test_runs_start_in_the_order_of_dispatch(gate):
    seen = []
    note = compiled("note", lambda x: seen.append(int(x[0])) or x)
    results = [handed(programs.gate(gate), X)]
    results += [handed(note, np.full(4, k, np.float32)) for k in range(20)]
    assert seen == []
    gate.open()
    results[-1].block_until_ready()
    assert seen == [*range(20)]


def test_a_call_with_effects_waits_until_others_have_begun(gate):
    seen = []
    note = compiled("note_turn", lambda x: seen.append(int(x[0])) or x)
    first, second = handed(programs.gate(gate), X), handed(note, X + 1)
    opened_by_another_thread(gate)
    note(X + 2)
    assert seen == [1, 2] and first.is_ready() and second.is_ready()


def test_a_call_waits_for_runs_of_its_program_and_overtakes_others(gate):
    program, other = programs.gate(gate), programs.add(4, long_running=True)
    y = handed(program, X)
    assert other(X, X).tolist() == [0, 2, 4, 6] and not y.is_ready()
    opened_by_another_thread(gate)
    assert program(X).tolist() == [1, 2, 3, 4] and y.is_ready()


def test_the_turn_comes_between_native_code_and_python(gate, monkeypatch):
    note, others = compiled("note_late", lambda x: x), [handed(programs.gate(gate), X)]
    others.append(handed(note, X))
    plain = queue.Queue.await_turn

    def late(self, loaded, flag):
        gate.open()
        for array in others:
            array.block_until_ready(timeout=60)
        self.drain(30)
        return plain(self, loaded, flag)

    monkeypatch.setattr(queue.Queue, "await_turn", late)
    assert note(axla.device_put(X)).tolist() == X.tolist()


def test_random_numbers_go_on_from_run_to_run():
    text = """ENTRY e { a = f32[] constant(0)  b = f32[] constant(1)
      u = f32[300000] rng(a, b), distribution=rng_uniform  ROOT s = f32[300000] sine(u) }"""
    plain, mixed = axla.compile(axla.parse(text)), axla.compile(axla.parse(text))
    expected = [np.array(plain()) for _ in range(4)]
    found = [handed(mixed), handed(mixed), mixed(), handed(mixed)]
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_functions_of_a_run_call_programs(gate):
    add = programs.add(4, long_running=True)
    inner = compiled("calls_inner", lambda x: np.asarray(handed(add, x, np.asarray(add(x, X * 0)))))
    outer = compiled("calls_outer", lambda x: np.asarray(inner(x)))
    results = [handed(outer, X) for _ in range(3)]
    assert [r.tolist() for r in results] == [[0, 2, 4, 6]] * 3


def test_infeed_while_a_run_waits_for_it():
    from axla.custom.feeds import feeds

    module = axla.parse("""ENTRY e { t = token[] after-all()  i = (f32[4], token[]) infeed(t)
      x = f32[4] get-tuple-element(i), index=0  k = token[] get-tuple-element(i), index=1
      o = token[] outfeed(x, k), outfeed_shape=f32[4]  ROOT r = f32[4] add(x, x) }""")
    step, prepare = axla.compile(module), programs.add(4, long_running=True)
    results = [handed(step) for _ in range(3)]
    for _ in range(3):
        feeds(0).infeed.put(np.asarray(prepare(X, X)))
    assert [r.tolist() for r in results] == [[0, 4, 8, 12]] * 3
    assert [feeds(0).outfeed.get().tolist() for _ in range(3)] == [[0, 2, 4, 6]] * 3


# Errors.


def test_reading_a_failed_result_raises_the_error_of_its_run(gate):
    y = handed(programs.gate(gate, fails=FAILS), X)
    gate.open()
    for read in (
        np.asarray,
        memoryview,
        pickle.dumps,
        lambda a: a.block_until_ready(),
        lambda a: a + 1,
        list,
    ):
        with pytest.raises(RuntimeFailure, match=r"gate: what the run says at model\.py:7") as caught:
            read(y)
        assert caught.value.code == FAILS
    assert y.is_ready() and "failed: gate: what the run says" in repr(y)


def test_what_a_function_raises_is_what_reading_raises(gate):
    def bad(x):
        raise LookupError("from the function")

    y, z = handed(compiled("bad", bad), X), handed(programs.gate(gate), X)
    gate.open()
    with pytest.raises(CustomCallFailure, match="'bad'.*LookupError: from the function"):
        y.block_until_ready()
    assert z.tolist() == [1, 2, 3, 4], "the next run is none the worse"


def test_a_run_that_gets_a_failed_array_does_not_start(gate):
    failed = handed(programs.gate(gate, fails=FAILS), X)
    other = programs.Gate()
    after = handed(programs.gate(other), failed)
    later = handed(programs.add(4), X, after)
    gate.open()
    for y in (later, after, failed):
        with pytest.raises(RuntimeFailure, match="what the run says"):
            y.block_until_ready()
    with pytest.raises(RuntimeFailure, match="what the run says"):
        programs.add(4)(X, after)
    with pytest.raises(RuntimeFailure, match="what the run says"):
        handed(programs.gate(other), after).block_until_ready()
    assert other.arrived() == 0


def test_an_error_that_nobody_reads_is_logged_once(gate, caplog):
    results = [handed(programs.gate(gate, fails=FAILS), X)]
    results += [handed(programs.add(4), X, results[0]) for _ in range(3)]
    gate.open()
    with caplog.at_level(logging.ERROR, "axla"):
        queue_of(0).drain()
        queue_of(0).collect()
        assert not caplog.records
        del results
        gc.collect()
    assert [r.getMessage().count("what the run says") for r in caplog.records] == [1]
    caplog.clear()
    y = handed(programs.gate(gate, fails=FAILS), X)
    with pytest.raises(RuntimeFailure):
        y.block_until_ready()
    queue_of(0).drain()
    queue_of(0).collect()
    del y
    assert not caplog.records


# Donation.


def donating(gate, **options):
    return programs.gate(gate, aliases=(Alias(0, 0, must=True),), **options)


def test_donated_arrays_are_gone_at_dispatch_even_if_the_run_fails(gate):
    x, other = device_put(X), device_put(X)
    failing = donating(gate, fails=FAILS)
    y = handed(failing, x)
    z = handed(programs.gate(gate, fails=FAILS), other, donate=[0])
    assert x.is_deleted and other.is_deleted and not y.is_ready()
    gate.open()
    for result in (y, z):
        with pytest.raises(RuntimeFailure):
            result.block_until_ready()
    assert x.is_deleted and other.is_deleted
    for program in (failing, programs.gate(gate, fails=FAILS)):
        x = device_put(X)
        with pytest.raises(RuntimeFailure):
            program.execute([x], donate=[0])
        assert x.is_deleted


def test_donated_memory_moves_through_runs_that_wait(gate):
    n, program = native(), donating(gate)
    y = device_put(X)
    place, before = y._head("test").address, n.memory.in_use
    for _ in range(5):
        y = handed(program, y)
    assert y._head("test").address == place
    gate.open()
    assert y.tolist() == [5, 6, 7, 8]
    queue_of(0).drain()
    queue_of(0).collect()
    assert n.memory.in_use == before


def test_donated_memory_that_others_see_is_copied(gate):
    program = donating(gate)
    x = device_put(X)
    view = np.asarray(x)
    y = handed(program, x)
    gate.open()
    assert y.tolist() == [1, 2, 3, 4] and view.tolist() == X.tolist()
    first = handed(donating(closed := programs.Gate()), y)
    view = threading.Thread(target=lambda: None)
    opened_by_another_thread(closed)
    assert handed(program, first).tolist() == [3, 4, 5, 6]


def test_refused_runs_leave_their_arguments(gate):
    x = device_put(X)
    two = programs.increment(4, long_running=True)
    for arguments in ([x, x], [x, X[:2]]):
        with pytest.raises(InvalidArgument):
            two.execute(arguments, asynchronous=True)
        assert not x.is_deleted and x.tolist() == X.tolist()


# Waits.


def test_deadlines_and_cancel(gate):
    program = programs.gate(gate)
    late = handed(program, X, deadline=0.02)
    with pytest.raises(DeadlineExceeded, match="the deadline passed"):
        late.block_until_ready()
    with pytest.raises(DeadlineExceeded, match="before the run"):
        handed(program, X, deadline=0)
    with pytest.raises(DeadlineExceeded, match="gate: the deadline passed"):
        handed(program, X)
        program.execute([X], deadline=0.02)  # waits for its turn
    program.cancel()
    queue_of(0).drain()
    before = gate.arrived()
    running, queued, other = handed(program, X), handed(program, X), handed(programs.gate(gate), X)
    while gate.arrived() == before:
        threading.Event().wait(0.001)
    assert program.cancel() == 2
    for y in (running, queued):
        with pytest.raises(Cancelled, match="gate: the run was cancelled"):
            y.block_until_ready()
    assert program.cancel() == 0 and gate.arrived() <= before + 2, "the one in the queue did not begin"
    gate.open()
    assert other.tolist() == [1, 2, 3, 4]


def test_what_is_stopped_before_its_turn_fails_at_once(gate):
    program, other = programs.gate(gate), programs.add(4, long_running=True)
    running = handed(program, X)
    late, cancelled = handed(other, X, X, deadline=0.01), handed(programs.gate(gate), X)
    after = handed(programs.add(4), cancelled, X)
    with pytest.raises(DeadlineExceeded, match="the deadline passed") as caught:
        late.block_until_ready(timeout=60)
    assert "in run 1 of add on device 0" in caught.value.__notes__
    assert queue_of(0).cancel(None) == 3 and cancelled.is_ready() and not running.is_ready()
    for y in (cancelled, running, after):
        with pytest.raises(Cancelled, match="gate: the run was cancelled|add: the run was cancelled"):
            y.block_until_ready(timeout=60)
    gate.open()
    assert handed(program, X).tolist() == [1, 2, 3, 4] and handed(other, X, X).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("late", ["_failed_task", "Failure"])
def test_the_turn_comes_while_a_run_is_being_stopped(gate, monkeypatch, late):
    """The queue's thread waits for the stopper, or says the same as it."""
    plain, waiting = getattr(queue, late), threading.Event()

    def slowly(*arguments):
        if threading.current_thread() is stopper:
            waiting.set()
            gate.open()
            time.sleep(0.05)
        return plain(*arguments)

    monkeypatch.setattr(queue, late, slowly)
    running, program = handed(programs.gate(gate), X), programs.add(4, long_running=True)
    stopped, next_one = handed(program, X, X), handed(programs.add(4, long_running=True), X, X)
    found = []
    stopper = threading.Thread(target=lambda: found.append(program.cancel()))
    stopper.start()
    assert waiting.wait(30)
    with pytest.raises(Cancelled, match="add: the run was cancelled"):
        stopped.block_until_ready(timeout=60)
    stopper.join(30)
    assert found == [1] and running.tolist() == [1, 2, 3, 4] and next_one.tolist() == [0, 2, 4, 6]


def test_a_wait_has_a_deadline_and_says_who_is_awaited(gate):
    program = programs.gate(gate)
    for number in (1, 2):
        y = handed(program, X)
        for timeout in (0.02, 0, -1):
            with pytest.raises(DeadlineExceeded, match=f"run {number} of gate on device 0 has not ended"):
                y.block_until_ready(timeout=timeout)
    gate.open()
    assert y.block_until_ready(timeout=60).tolist() == [1, 2, 3, 4]
    assert y.block_until_ready(timeout=None) is y.block_until_ready(timeout=0) is y
    assert device_put(X).block_until_ready(0).tolist() == X.tolist()


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.block_until_ready(), lambda x: np.from_dlpack(x), lambda x: x.__array_interface__,
        lambda x: x.to_numpy(),
    ],
    ids=["wait", "dlpack", "interface", "bytes"],
)  # fmt: skip
def test_an_array_that_another_thread_deletes_while_it_is_read(read, monkeypatch):
    """As if the other thread came between looking at the array and holding its memory."""
    import ml_dtypes

    from axla.runtime import array

    x = device_put(X.astype(ml_dtypes.bfloat16) if "to_numpy" in read.__code__.co_names else X)
    monkeypatch.setattr(array, "native", lambda: native().array_delete(x) or native())
    with pytest.raises(InvalidArgument, match="was deleted or donated"):
        read(x)


@pytest.mark.parametrize("read", ["y.block_until_ready()", "numpy.asarray(y)", "add(y, y)", "program(X)"])
def test_ctrl_c_in_a_wait_cancels_what_is_waited_for(read):
    done = run_script(f"""
        import os, signal, threading, time, numpy, axla, native_programs as programs
        X, inside = numpy.zeros(4, numpy.float32), threading.Event()
        gate, add = programs.Gate(), programs.add(4)
        program = programs.gate(gate)
        (y,) = program.execute([X], asynchronous=True)
        def send():
            while True:
                inside.wait()
                time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGINT)
        def handler(*_):
            if inside.is_set():
                inside.clear()
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, handler)
        threading.Thread(target=send, daemon=True).start()
        while True:
            try:
                inside.set()
                {read}
            except KeyboardInterrupt as error:
                print(type(error).__name__)
            try:
                y.block_until_ready(timeout=20)
            except axla.DeadlineExceeded:
                continue  # the signal came before the wait
            except axla.AxlaError as error:
                print(type(error).__name__, error.code)
            break
    """)
    *waits, last = done.stdout.splitlines() or [""]
    assert {*waits} == {"KeyboardInterrupt"} and last == "Cancelled 3" and not done.stderr, done.stderr


def test_a_handler_that_does_not_raise_leaves_the_wait():
    done = run_script("""
        import os, signal, threading, numpy, native_programs as programs
        gate = programs.Gate()
        signal.signal(signal.SIGUSR1, lambda *_: gate.open())
        (y,) = programs.gate(gate).execute([numpy.zeros(4, numpy.float32)], asynchronous=True)
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        print(y.tolist())
    """)
    assert done.stdout == "[1.0, 1.0, 1.0, 1.0]\n", done.stderr


# The end of the process, and forks.


def test_leaving_with_work_under_way():
    done = run_script("""
        import threading, numpy, axla, native_programs as programs
        from axla.runtime import queue
        queue._EXIT_WAIT = 30
        X = numpy.zeros(300000, numpy.float32)
        def note(x):
            print("ran")
            return x
        axla.register_custom_call("note", note)
        text = 'ENTRY e { x = f32[2] parameter(0)  ROOT r = f32[2] custom-call(x), custom_call_target="%s" }'
        text %= "note"
        results = [axla.compile(axla.parse(text)).execute([X[:2]], asynchronous=True) for _ in range(3)]
        fails = programs.gate(gate := programs.Gate(), fails=1000).execute([X[:4]], asynchronous=True)
        gate.open()
    """)
    assert done.returncode == 0 and done.stdout == "ran\n" * 3, done.stderr
    assert done.stderr.count("what the run says") == 1, "an error that nobody reads"


@pytest.mark.parametrize("keeps", ["y = ", ""])
def test_leaving_cancels_what_does_not_end(keeps):
    done = run_script(f"""
        import numpy, native_programs as programs
        spin, gate = programs.spin(), programs.gate(programs.Gate())
        {keeps}gate.execute([numpy.zeros(4, numpy.float32)], asynchronous=True)
        for _ in range(3):
            spin.execute([], asynchronous=True)
    """)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_a_fork_waits_for_runs():
    done = run_script(
        CHILD
        + """
    import native_programs as programs, numpy as np
    gate, X = programs.Gate(), np.zeros(4, np.float32)
    program = programs.gate(gate)
    y = X
    for _ in range(5):
        (y,) = program.execute([y], asynchronous=True)
    threading.Timer(0.1, gate.open).start()
    def child():
        (z,) = program.execute([y], asynchronous=True)
        return z.tolist() == [6] * 4
    print(in_child(child), y.tolist(), child())
    """
    )
    assert done.stdout == "0 [5.0, 5.0, 5.0, 5.0] True\n", done.stdout + done.stderr


def test_a_fork_while_runs_do_not_end():
    done = run_script(
        CHILD
        + """
    import native_programs as programs, numpy as np
    from axla.core.errors import Cancelled
    from axla.runtime import queue
    queue._FORK_WAIT = 0.1
    gate, X = programs.Gate(), np.zeros(4, np.float32)
    program, add = programs.gate(gate), programs.add(4, long_running=True)
    (y,) = program.execute([X], asynchronous=True)
    (z,) = program.execute([y], asynchronous=True)
    def child():
        for lost in (y, z):
            try:
                lost.block_until_ready()
            except Cancelled as error:
                assert "forked" in str(error)
            else:
                return False
        gate.open()  # the child's own
        (again,) = program.execute([X], asynchronous=True)
        return again.tolist() == program(X).tolist() == [1] * 4 and program.cancel() == 0
    print(in_child(child))
    gate.open()
    print(z.tolist())
    """
    )
    assert done.stdout == "0\n[2.0, 2.0, 2.0, 2.0]\n", done.stdout + done.stderr


def test_a_fork_inside_a_run_of_the_queue():
    done = run_script(
        CHILD
        + """
    import axla, numpy as np
    codes = []
    def forks(x):
        codes.append(in_child(lambda: True))
        return x + 1
    axla.register_custom_call("forks", forks)
    text = 'ENTRY e { x = f32[2] parameter(0)  ROOT r = f32[2] custom-call(x), custom_call_target="forks" }'
    (y,) = axla.compile(axla.parse(text)).execute([np.ones(2, np.float32)], asynchronous=True)
    print(y.tolist(), codes)
    """
    )
    assert done.stdout == "[2.0, 2.0] [0]\n", done.stdout + done.stderr


# Threads, memory, locks.


def test_eight_threads(gate):
    program, add = donating(gate), programs.add(4, long_running=True)
    shared, found = device_put(X), []
    gate.open()

    def work(k):
        for _ in range(20):
            y = handed(program, device_put(shared))
            z = handed(program, handed(add, y, np.full(4, k, np.float32)))
            found.append((k, add(z, shared).tolist()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 160
    assert all(y == [x + 1 + k + 1 + x for x in range(4)] for k, y in found)


def test_clients_and_devices_in_threads():
    client, found = axla.Client(devices=2), []
    x = device_put(X)
    text = "ENTRY e { x = f32[4] parameter(0)  ROOT r = f32[4] add(x, x) }"

    def work():
        copy = client.device_put(x, client.device(1))
        (y,) = client.compile(axla.parse(text)).execute([copy], asynchronous=True)
        found.append((y.tolist(), copy._head("test").address != x._head("test").address))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [([0, 2, 4, 6], True)] * 8, "a copy between devices never aliases"


def test_runs_leave_no_memory_and_no_program(gate):
    gate.open()
    programs_, n = [programs.gate(gate)], native()
    loaded = weakref.ref(programs_[0]._loaded)

    def run(count):
        y = device_put(X)
        for _ in range(count):
            y = handed(programs_[0], y)
        y.block_until_ready()
        queue_of(0).drain()
        queue_of(0).collect()

    run(3)
    before = n.memory.in_use
    run(50)
    assert n.memory.in_use == before
    programs_.clear()
    gc.collect()
    assert loaded() is None


def test_running_does_not_hold_the_lock_of_llvm(gate):
    from axla.codegen import llvm

    program = programs.gate(gate)
    gate.open()
    held, done = threading.Event(), threading.Event()

    def hold():
        with llvm.LOCK, llvm.binding.ffi.lib._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        assert handed(program, X).tolist() == program(X).tolist() == [1, 2, 3, 4]
    finally:
        done.set()
        holder.join()


CHECKED = """
    from axla.codegen.native.glue import load
    glue = load(checks=True)
    import ctypes, threading, numpy as np, axla, native_programs as programs
    from axla.runtime.native import native
    X = np.zeros(4, np.float32)
    lock = {name: ctypes.CFUNCTYPE(None, ctypes.c_int32)(glue.addresses[name])
            for name in ("memory_acquire", "memory_release", "lock_check")}
"""


def test_a_build_with_checks_of_locks_runs():
    text = (
        CHECKED
        + """
    native().threads.value = 3
    gate = programs.Gate()
    program, sums = programs.gate(gate), programs.parallel_sum(10_000, 100)
    axla.register_custom_call("calls", lambda x: np.asarray(sums(np.ones(10_000, np.float32)))[:4])
    text = 'ENTRY e { x = f32[4] parameter(0)  ROOT r = f32[4] custom-call(x), custom_call_target="calls" }'
    calls = axla.compile(axla.parse(text))
    def work():
        for _ in range(10):
            (y,) = program.execute([X], asynchronous=True)
            (z,) = calls.execute([y], asynchronous=True)
            assert z.tolist() == [100] * 4 and calls(X).tolist() == [100] * 4
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    gate.open()
    for thread in threads: thread.join()
    (bad,) = programs.gate(gate, fails=1000).execute([X], asynchronous=True)
    try: bad.block_until_ready()
    except axla.AxlaError as error: print("failed")
    lock["lock_check"](1), lock["memory_acquire"](0), lock["memory_release"](0)
    """
    )
    done = run_script(text)
    assert done.stdout == "failed\n" and done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ('lock["memory_acquire"](0), lock["memory_acquire"](0)', "a lock of the glue is taken out of order"),
        ('lock["memory_acquire"](0), lock["lock_check"](0)', "a lock of the glue waits or runs code"),
        ('glue.function("lock_check", None, ctypes.c_int32)(1)', "holds the interpreter lock waits"),
    ],
)  # fmt: skip
def test_a_build_with_checks_refuses(calls, message):
    done = run_script(CHECKED + f"    {calls}\n")
    assert done.returncode < 0 and message in done.stderr, done.stderr
