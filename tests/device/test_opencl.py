"""Programs on an OpenCL device: memory, asynchrony, failures, what the host does in its place."""

from __future__ import annotations

import _thread
import ctypes as c
import gc
import threading
import weakref

import numpy as np
import pytest

import axla
from axla.device import compiler
from axla.device.driver import DeviceError
from axla.device.memory import DeviceArray
from axla.target.spirv import spirv_target
from opencl_device import needs_opencl
from sample_modules import FOREVER

pytestmark = needs_opencl

DOUBLE = "HloModule double\nENTRY e { x = f32[64] parameter(0)\n  ROOT y = f32[64] add(x, x) }"
IN_PLACE = DOUBLE.replace("double", "double, input_output_alias={ {}: (0, {}, may-alias) }")
HALVES = """
HloModule halves
body {
  t = (f32[64], f32[]) parameter(0)
  x = f32[64] get-tuple-element(t), index=0
  half = f32[] constant(0.5)
  halves = f32[64] broadcast(half), dimensions={}
  y = f32[64] multiply(x, halves)
  first = f32[1] slice(y), slice={[0:1]}
  least = f32[] reshape(first)
  ROOT r = (f32[64], f32[]) tuple(y, least)
}
test {
  t = (f32[64], f32[]) parameter(0)
  least = f32[] get-tuple-element(t), index=1
  one = f32[] constant(1)
  ROOT more = pred[] compare(least, one), direction=GT
}
ENTRY e {
  x = f32[64] parameter(0)
  two = f32[] constant(2)
  t = (f32[64], f32[]) tuple(x, two)
  w = (f32[64], f32[]) while(t), condition=test, body=body
  ROOT y = f32[64] get-tuple-element(w), index=0
}"""
SUMS = """
HloModule sums
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,512] parameter(0)
  zero = f32[] constant(0)
  s = f32[64] reduce(x, zero), dimensions={1}, to_apply=add
  ROOT y = f32[64] negate(s)
}"""
SCALED = """
HloModule scaled
ENTRY e {
  x = f32[64] parameter(0)
  i = s32[] parameter(1)
  j = s32[] add(i, i)
  f = f32[] convert(j)
  fs = f32[64] broadcast(f), dimensions={}
  ROOT z = f32[64] multiply(x, fs)
}"""
RANDOM = """
HloModule random
ENTRY e {
  low = f32[] constant(0)
  high = f32[] constant(1)
  ROOT r = f32[8] rng(low, high), distribution=rng_uniform
}"""
X = np.arange(64, dtype=np.float32)
TWO_X = (2 * X).tolist()


@pytest.fixture(scope="module")
def client():
    return axla.Client("opencl", devices=2)


@pytest.fixture(scope="module")
def double(client):
    return client.compile(axla.parse(DOUBLE))


@pytest.fixture
def driver(double):
    return double.driver


# Memory.


def test_results_stay_on_the_device(client, double):
    y = double(client.device_put(X))
    assert isinstance(y, DeviceArray) and y.device == 0 and y.shape == (64,)
    assert double(y).tolist() == (4 * X).tolist()


def test_arrays_go_between_devices_and_backends(client, double):
    there = client.device_put(X, client.devices[1])
    assert there.device == 1 and double(there).tolist() == TWO_X
    assert double(axla.device_put(X)).tolist() == TWO_X
    on_cpu = axla.compile(axla.parse(DOUBLE), backend="cpu")
    assert on_cpu(double(X)).tolist() == (4 * X).tolist()
    assert client.device_put(on_cpu(X), client.devices[1]).tolist() == TWO_X


def test_a_donated_array_of_the_device_is_gone_on_the_host_too(client):
    on_cpu = axla.compile(axla.parse(IN_PLACE), backend="cpu")
    x = client.device_put(X)
    assert on_cpu(x).tolist() == TWO_X and x.is_deleted


def test_a_result_takes_the_memory_of_what_is_donated(client):
    program, x = client.compile(axla.parse(IN_PLACE)), client.device_put(X)
    address = x.memory("x").address
    y = program(x)
    assert x.is_deleted and y.memory("y").address == address and y.tolist() == TWO_X


def test_memory_is_used_again(client, driver):
    first = client.device_put(X)
    address = first.memory("x").address
    del first
    assert client.device_put(X).memory("x").address == address


def test_a_device_without_memory(client, double, driver, monkeypatch):
    driver.pool.empty()
    with monkeypatch.context() as patch:
        patch.setattr(driver.lib, "clSVMAlloc", lambda *arguments: None)
        with pytest.raises(axla.OutOfMemory, match="bytes are not available"):
            client.device_put(X)
    assert double(X).tolist() == TWO_X


# Control flow, effects.


def test_the_host_reads_what_a_loop_depends_on(client):
    program = client.compile(axla.parse(HALVES))
    assert program(X + 64).tolist() == ((X + 64) / 64).tolist()
    assert "transfer name=" in program.as_text("program")


def test_random_numbers_go_on_from_run_to_run(client):
    program, on_cpu = client.compile(axla.parse(RANDOM)), axla.compile(axla.parse(RANDOM), backend="cpu")
    runs = [program().tolist() for _ in range(3)]
    assert runs == [on_cpu().tolist() for _ in range(3)] and runs[0] != runs[1]


# Asynchrony. A device that never says that it is done is as long a run as one can have.


@pytest.fixture
def x(client):
    return client.device_put(X)


@pytest.fixture
def stuck(monkeypatch, driver, x):
    wait = threading.Event()

    def happened(event, flag=0):
        wait.wait(0.001)
        return False

    with monkeypatch.context() as patch:
        patch.setattr(driver, "happened", happened)
        yield


def test_an_array_is_there_before_its_run_ends(double, driver):
    (y,) = double.execute([X], asynchronous=True)
    assert y.shape == (64,) and y.block_until_ready().is_ready() and y.tolist() == TWO_X


def test_a_wait_has_an_end(double, x, stuck):
    (y,) = double.execute([x], asynchronous=True)
    assert not y.is_ready()
    with pytest.raises(axla.DeadlineExceeded, match="double on .* has not ended"):
        y.block_until_ready(timeout=0.01)


def test_the_deadline_of_a_run_that_the_host_waits_for(double, x, stuck):
    with pytest.raises(axla.DeadlineExceeded):
        double.execute([x], deadline=0.02)


def test_a_deadline_fails_results(double, x, stuck):
    (y,) = double.execute([x], asynchronous=True, deadline=1000)
    y.run.late = 0.0
    with pytest.raises(axla.DeadlineExceeded):
        y.block_until_ready()
    with pytest.raises(axla.DeadlineExceeded):
        double(y)


def test_a_deadline_leaves_no_thread_behind(double, x):
    arrays = [double.execute([x], asynchronous=True, deadline=1000)[0] for _ in range(5)]
    assert [y.tolist() for y in arrays] == [TWO_X] * 5
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(20)
            assert not thread.is_alive()


def test_cancel_while_the_host_waits(double, x, stuck):
    failures = []

    def run():
        try:
            double(x)
        except axla.AxlaError as error:
            failures.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    while runner.is_alive() and not double.cancel():
        runner.join(0.001)
    runner.join()
    assert [type(error) for error in failures] == [axla.Cancelled]


def test_ctrl_c_stops_the_part_of_the_host(client):
    program = client.compile(axla.parse(FOREVER))
    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        program(np.int32(1))
    timer.join()
    assert program.cancel() == 0


def test_ctrl_c_while_the_part_of_the_host_starts(client, monkeypatch):
    program, start, threads, entered = client.compile(axla.parse(FOREVER)), threading.Thread.start, [], []

    def interrupted(thread):
        start(thread)
        threads.append(thread)
        raise KeyboardInterrupt

    program._entry = lambda frame: entered.append(frame) or 0
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(np.int32(1))
    for thread in threads:
        thread.join()
    assert program.cancel() == 0 and not entered  # the memory of the run is free by now


# Other devices than the first.


def test_a_program_for_the_second_device(client):
    program = client.compile(axla.parse(DOUBLE), device_assignment=[[1]])
    assert [device.id for device in program.devices] == [1]
    assert program.driver is client.backend.driver(1) is not client.backend.driver(0)
    y = program(X)
    assert y.device == 1 and y.memory("y").driver is program.driver and y.tolist() == TWO_X
    assert program(client.device_put(X)).tolist() == TWO_X
    loaded = client.load(program.serialize())
    assert loaded.driver is program.driver and loaded(y).device == 1
    with pytest.raises(axla.InvalidArgument, match="needs devices 0 to 2"):
        client.compile(axla.parse(DOUBLE), device_assignment=[[2]])


# Runs whose host part is long: a function that the test holds.

HELD = """
HloModule held, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] negate(x)
  c = f32[64] custom-call(y), custom_call_target="test_opencl_held"
  ROOT z = f32[64] negate(c)
}"""


@pytest.fixture
def held():
    """An event that programs wait for, and what they do then."""
    go, acts = threading.Event(), []

    def wait(x):
        go.wait(10)
        for act in acts:
            act()
        return x.copy()

    axla.register_custom_call("test_opencl_held", wait)
    go.acts = acts
    yield go
    go.set()


def test_runs_that_the_host_takes_part_in_return_at_once(client, double, held):
    program, x = client.compile(axla.parse(HELD)), client.device_put(X)
    (y,) = program.execute([x], asynchronous=True)
    (z,) = double.execute([y], asynchronous=True)
    assert x.is_deleted and not y.is_ready() and not z.is_ready()
    with pytest.raises(axla.DeadlineExceeded, match="held on .* has not ended"):
        y.block_until_ready(timeout=0.01)
    held.set()
    assert z.tolist() == TWO_X and y.tolist() == X.tolist() and double(y).tolist() == TWO_X


def test_a_function_may_run_programs_of_its_device(client, double, held):
    found = []
    held.acts.append(lambda: found.append(double(X).tolist()))
    (y,) = client.compile(axla.parse(HELD)).execute([X], asynchronous=True)
    held.set()
    assert y.tolist() == X.tolist() and found == [TWO_X]


@pytest.mark.parametrize("use", ["argument", "value"])
def test_a_function_cannot_use_what_a_run_behind_it_makes(client, double, held, use):
    behind, failures = [], []

    def act():
        try:
            double(*behind) if use == "argument" else behind[0].tolist()
        except axla.RuntimeFailure as error:
            failures.append(str(error))

    held.acts.append(act)
    (y,) = client.compile(axla.parse(HELD)).execute([X], asynchronous=True)
    behind += double.execute([X], asynchronous=True)
    held.set()
    assert y.tolist() == X.tolist() and behind[0].tolist() == TWO_X
    assert len(failures) == 1 and "read by a function that an earlier run calls" in failures[0]


def test_an_error_of_the_host_is_that_of_all_results(client, double, held):
    def fail():
        raise ValueError("nothing today")

    held.acts.append(fail)
    (y,) = client.compile(axla.parse(HELD)).execute([X], asynchronous=True)
    (z,) = double.execute([y], asynchronous=True)
    held.set()
    for array in (z, y):
        with pytest.raises(axla.AxlaError, match="nothing today"):
            array.tolist()
    assert double(X).tolist() == TWO_X


def test_a_second_ctrl_c_leaves_the_memory_to_the_run(client, held, monkeypatch):
    program, x, begun = client.compile(axla.parse(HELD)), client.device_put(X), threading.Event()
    memory, threads = weakref.ref(x.memory("x")), []

    def act():
        threads.append(threading.current_thread())
        begun.set()
        again.wait(10)

    def interrupted(*arguments):
        begun.wait()
        raise KeyboardInterrupt

    again = threading.Event()
    held.acts.append(act)
    held.set()
    with monkeypatch.context() as patch:
        patch.setattr("axla.backends.kit.wait", interrupted)
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(x)
    gc.collect()
    assert x.is_deleted and memory() is not None and threads[0].is_alive()
    again.set()
    threads[0].join()
    assert memory() is None


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_runs_are_stopped_before_their_turn(client, double, held, how):
    program = client.compile(axla.parse(HELD))
    (first,) = program.execute([X], asynchronous=True)
    (second,) = program.execute([X], asynchronous=True, deadline=0.01 if how == "deadline" else None)
    if how == "cancel":
        assert program.cancel() == 2
    with pytest.raises(axla.Cancelled if how == "cancel" else axla.DeadlineExceeded):
        second.block_until_ready()
    held.set()
    assert double(X).tolist() == TWO_X
    if how == "deadline":
        assert first.tolist() == X.tolist()


# Failures: a driver that gives an error at any call.


@pytest.mark.parametrize("name", ["launch", "read", "write"])
def test_an_error_of_the_driver_ends_the_run(client, driver, name):
    program, inputs = client.compile(axla.parse(SCALED)), [X, np.int32(1)]
    wanted = [y.tolist() for y in program.execute(inputs)]
    fails = c.CFUNCTYPE(c.c_int32, *[c.c_void_p] * 4)(lambda *arguments: -5)
    before = getattr(driver._table, name)
    setattr(driver._table, name, c.cast(fails, c.c_void_p).value)
    try:
        with pytest.raises(DeviceError, match="the device is out of resources"):
            program.execute(inputs)
    finally:
        setattr(driver._table, name, before)
    assert [y.tolist() for y in program.execute(inputs)] == wanted


def test_an_event_that_failed_fails_the_results(double, driver, x, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(driver, "_happened", lambda *arguments: -14)
        (y,) = double.execute([x], asynchronous=True)
        with pytest.raises(DeviceError):
            y.tolist()
    assert double(X).tolist() == TWO_X


# What the device does not do.


def test_a_kernel_that_the_device_refuses_runs_on_the_host(client, driver, monkeypatch):
    x = np.ones((64, 512), np.float32)
    wanted = client.compile(axla.parse(SUMS))
    real = type(driver).build

    def build(self, kernels, code):
        if code:
            raise axla.CompileError("no kernels today")
        return real(self, kernels, code)

    with monkeypatch.context() as patch:
        patch.setattr(type(driver), "build", build)
        with pytest.warns(RuntimeWarning, match="the host runs what .* refuses: .*no kernels today"):
            program = client.compile(axla.parse(SUMS))
    assert not wanted.host_steps
    assert program.host_steps and set(program.host_steps.values()) == {"no kernels today"}
    assert program.compiled.symbols == () and "in host[" in program.as_text("program")
    assert program(x).tolist() == wanted(x).tolist() == [-512.0] * 64
    assert axla.Executable.load(program.serialize()).host_steps == program.host_steps


def test_f64_runs_on_the_host_where_the_device_has_none(client, driver, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(driver, "target", replace(driver.target, has_double=False))
    program = client.compile(axla.parse(DOUBLE.replace("f32", "f64")))
    assert program(X.astype(np.float64)).tolist() == TWO_X
    assert set(program.host_steps.values()) == {"it computes with f64, which the device does not have"}


SOFTMAX = """
HloModule softmax
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
largest { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
ENTRY e {
  x = f32[16,1000] parameter(0)
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[16] reduce(x, least), dimensions={1}, to_apply=largest
  ms = f32[16,1000] broadcast(m), dimensions={0}
  d = f32[16,1000] subtract(x, ms)
  y = f32[16,1000] exponential(d)
  s = f32[16] reduce(y, zero), dimensions={1}, to_apply=add
  ss = f32[16,1000] broadcast(s), dimensions={0}
  z = f32[16,1000] divide(y, ss)
  t = f32[1000,16] transpose(z), dimensions={1,0}
  c = f32[16] reduce(t, zero), dimensions={0}, to_apply=add
  p = f32[16,16] dot(z, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[1000,16], f32[16], f32[16,16]) tuple(t, c, p)
}"""


@pytest.mark.parametrize("size", [1000, 44, 24])
@pytest.mark.parametrize("threads", [0, 1, 8, 64])
def test_work_groups_of_several_items(client, driver, monkeypatch, threads, size):
    """As on devices that are not CPUs: barriers and local memory. 0: as on a CPU, with vectors."""
    if threads:
        monkeypatch.setattr(driver, "target", spirv_target(threads))
    x = np.random.default_rng(0).normal(size=(16, size)).astype(np.float32)
    x[3, 7] = np.nan
    text = SOFTMAX.replace("1000", str(size))
    found = client.compile(axla.parse(text)).execute([x])
    wanted = axla.compile(axla.parse(text), backend="interpreter").execute([x])
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-9)


def test_kernels_are_tried_one_by_one(client, driver, monkeypatch):
    program, _ = compiler.program_for(axla.parse(SUMS), driver.target)
    assert compiler.refused_kernels(program, driver) == {}


# Texts, bytes, profiles.


def test_texts(double):
    assert "OpEntryPoint Kernel" in double.as_text("spirv")
    assert "spir_kernel" in double.as_text("llvm") and "axla_entry" in double.as_text("llvm")


def test_bytes_for_another_device(double, driver, monkeypatch):
    from dataclasses import replace

    data = double.serialize()
    monkeypatch.setattr(driver, "target", replace(driver.target, threads=2, name="other"))
    with pytest.raises(axla.UnsupportedError, match="load: a program for spirv64.*, this device is other"):
        axla.Executable.load(data)


def test_the_device_measures_its_kernels(client):
    program = client.compile(axla.parse(SUMS))
    x = client.device_put(np.ones((64, 512), np.float32))
    with axla.profile() as p:
        for _ in range(3):
            program(x)
    (run,) = p.runs
    kernels = [step for step in run.steps if step.row.step != "call"]
    assert run.calls == 3 and kernels and all(step.calls == 3 and step.ns > 0 for step in kernels)
    assert kernels[0].row.bytes == 64 * 512 * 4 + 64 * 4 + 4 or kernels[0].row.bytes == 64 * 512 * 4 + 64 * 4
    assert "row" in kernels[0].row.kind


def test_arrays_of_the_host_are_written_where_slices_begin():
    """The second of two results of a function lies 192 bytes behind the first's beginning."""
    text = """
    HloModule m
    ENTRY e { x = f32[40] parameter(0)
      both = (f32[40], f32[40]) custom-call(x), custom_call_target="twice"
      a = f32[40] get-tuple-element(both), index=0
      b = f32[40] get-tuple-element(both), index=1
      s = f32[40] sine(x)
      c = f32[40] custom-call(s), custom_call_target="once"
      d = f32[40] add(a, b)
      ROOT r = f32[40] add(d, c) }"""
    axla.register_custom_call("twice", lambda x: (np.array(x), np.array(x)))
    axla.register_custom_call("once", lambda x: np.array(x))
    try:
        x = np.arange(40, dtype=np.float32)
        found = axla.compile(axla.parse(text), backend="opencl")(x)
        np.testing.assert_allclose(np.asarray(found), 2 * x + np.sin(x), rtol=1e-6)
    finally:
        axla.unregister_custom_call("twice")
        axla.unregister_custom_call("once")
