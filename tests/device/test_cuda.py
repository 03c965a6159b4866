"""The driver of CUDA, on a fake library whose kernels the PTX machine executes; failures at every call."""

from __future__ import annotations

import gc
import shutil
import threading

import numpy as np
import pytest

import axla
from axla.core import flags
from axla.core.errors import AxlaError, CompileError, DeadlineExceeded, OutOfMemory, UnsupportedError
from axla.device import cuda
from axla.device.driver import DeviceError
from ptx.gpu import FakeCudaBackend, FakeGpu

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc: it builds the fake library")

LOOP = """HloModule loop
body { t = (s32[], f32[512], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[512] get-tuple-element(t), index=1
  n = s32[] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  h = f32[] constant(0.5)
  hb = f32[512] broadcast(h), dimensions={}
  y = f32[512] multiply(x, hb)
  z = f32[512] add(y, hb)
  ROOT r = (s32[], f32[512], s32[]) tuple(j, z, n) }
cond { t = (s32[], f32[512], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=2
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[512] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[512], s32[]) tuple(zero, x, n)
  ROOT w = (s32[], f32[512], s32[]) while(t), condition=cond, body=body }"""
X = np.arange(512, dtype=np.float32)


def halved(times):
    x = X
    for _ in range(times):
        x = x * np.float32(0.5) + np.float32(0.5)
    return x


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    return FakeGpu(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def backend(gpu):
    gpu.reset()
    yield FakeCudaBackend(gpu, cuda.Cuda)
    gpu.reset()


@pytest.fixture
def client(backend):
    return axla.Client(backend)


def test_a_loop_runs_on_the_device(client, gpu):
    program = client.compile(axla.parse(LOOP))
    count, found, _ = program(X, np.int32(5))
    assert np.asarray(count) == 5
    np.testing.assert_array_equal(np.asarray(found), halved(5))
    assert ".visible .entry" in program.as_text("ptx")
    assert (client.devices[0].kind, gpu.errors) == ("device", [])


def test_the_name_and_the_target(backend):
    driver = backend.driver(0)
    assert (driver.name, driver.target.name) == ("fake GPU", "sm_90")


@pytest.mark.parametrize(
    ("major", "minor", "target"),
    [(7, 5, "sm_75"), (8, 6, "sm_86"), (9, 0, "sm_90"), (10, 1, "sm_100"), (13, 0, "sm_121")],
)  # fmt: skip
def test_architectures(gpu, backend, major, minor, target):
    with numbers(gpu, fake_major=major, fake_minor=minor):
        assert backend.driver(0).target.cpu == target


def test_an_old_gpu_is_refused(gpu, backend):
    with (
        numbers(gpu, fake_major=6, fake_minor=1),
        pytest.raises(UnsupportedError, match="sm_61; wanted sm_75"),
    ):
        backend.driver(0)


class numbers:
    """Numbers of the fake library, for a while."""

    def __init__(self, gpu, **values):
        self.gpu, self.values = gpu, values

    def __enter__(self):
        self.before = {name: self.gpu.int(name).value for name in self.values}
        for name, value in self.values.items():
            self.gpu.int(name).value = value

    def __exit__(self, *_):
        for name, value in self.before.items():
            self.gpu.int(name).value = value


def test_where_there_is_no_gpu(gpu):
    with (
        flags.override(cuda="no-such-library.so"),
        pytest.raises(UnsupportedError, match="no CUDA driver was found"),
    ):
        cuda.devices()
    with flags.override(cuda=str(gpu.file)):
        assert len(cuda.devices()) == 1
        with numbers(gpu, fake_devices=0), pytest.raises(UnsupportedError, match="finds no device"):
            cuda.devices()


@pytest.mark.parametrize("size", [0, 1, 2, 4, 5, 8, 4096, 70_000])
def test_bytes_come_and_go(backend, size):
    driver = backend.driver(0)
    given = np.random.default_rng(size).integers(0, 255, size, np.uint8)
    given.flags.writeable = False
    place, found = driver.allocate(size + 1), np.zeros(size, np.uint8)
    driver.write(place, given)
    driver.read(found, place)
    np.testing.assert_array_equal(found, given)
    driver.free(place)


@pytest.mark.parametrize("kind", ["pred", "s8", "bf16", "s32", "f64", "c128"])
def test_registers_are_written_and_read(client, kind):
    """Numbers of every size go to the device, as fills and as copies, and come back."""
    text = f"""HloModule m
ENTRY e {{ x = {kind}[] parameter(0)
  y = {kind}[] {"not" if kind == "pred" else "negate"}(x)
  a = {kind}[300] broadcast(y), dimensions={{}}
  s = {kind}[1] slice(a), slice={{[7:8]}}
  r = {kind}[] reshape(s)
  ROOT t = ({kind}[], {kind}[]) tuple(y, r) }}"""
    module = axla.parse(text)
    dtype = module.entry.parameters[0].shape.dtype.numpy
    found = client.compile(module)(np.array(1).astype(dtype))
    wanted = axla.compile(module, backend="interpreter")(np.array(1).astype(dtype))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_a_call_on_the_host(client):
    """Its operand is longer than what CUDA keeps aside, its result as well."""
    axla.register_custom_call("test_cuda_turn", lambda x: x[::-1].copy())
    text = """HloModule m
ENTRY e { p = f32[20000] parameter(0)
  n = f32[20000] negate(p)
  c = f32[20000] custom-call(n), custom_call_target="test_cuda_turn"
  ROOT r = f32[20000] add(c, c) }"""
    x = np.arange(20_000, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(client.compile(axla.parse(text))(x)), -2 * x[::-1])


def test_donation_and_no_leaks(client, backend, gpu):
    gc.collect()
    live, allocations = gpu.live, gpu.memory.allocations
    text = """HloModule step, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY step { p = f32[512] parameter(0)
  ROOT r = f32[512] add(p, p) }"""
    program = client.compile(axla.parse(text))
    first = client.device_put(X)
    second = program(first)
    assert first.is_deleted
    np.testing.assert_array_equal(np.asarray(second), 2 * X)
    del program, first, second
    gc.collect()
    backend.driver(0).pool.empty()
    assert (gpu.live, gpu.memory.allocations) == (live, allocations)


def test_a_run_goes_on_while_the_caller_does(client, gpu):
    text = "HloModule m\nENTRY e { p = f32[512] parameter(0)\n ROOT r = f32[512] add(p, p) }"
    program = client.compile(axla.parse(text))
    first = client.device_put(X)
    second = program.execute([first], asynchronous=True)
    third = program.execute(second, asynchronous=True)
    launched = gpu.launches
    np.testing.assert_array_equal(np.asarray(third[0]), 4 * X)
    assert gpu.launches == launched + 2 and not gpu.errors


def test_threads_share_a_device(client):
    program, found = client.compile(axla.parse(LOOP)), {}

    def work(number):
        found[number] = np.asarray(program(X, np.int32(number))[1])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(1, 5):
        np.testing.assert_array_equal(found[number], halved(number))


def test_a_deadline_ends_a_loop(client):
    program = client.compile(axla.parse(LOOP))
    with pytest.raises(DeadlineExceeded):
        program.execute([X, np.int32(1 << 30)], deadline=0.2)
    np.testing.assert_array_equal(np.asarray(program(X, np.int32(1))[1]), halved(1))


def test_launches_are_timed(client, backend):
    program, driver = client.compile(axla.parse(LOOP)), backend.driver(0)
    with driver.timed() as found:
        program(X, np.int32(4))
    assert sorted(map(len, found.values()))[-1] == 4
    assert all(time > 0 for times in found.values() for time in times)


def test_a_program_is_kept_and_loaded(client):
    payload = client.compile(axla.parse(LOOP)).serialize()
    np.testing.assert_array_equal(np.asarray(client.load(payload)(X, np.int32(3))[1]), halved(3))


def test_what_cannot_be_built(backend):
    with pytest.raises(
        CompileError, match=r"fake GPU: \['k'\] could not be built: .*unknown instruction: nonsense"
    ):
        driver = backend.driver(0)
        driver.build(["k"], b".visible .entry k() { nonsense; ret; }")
    with pytest.raises(DeviceError, match="fake GPU: other: an error .error 500 of CUDA."):
        driver.build(["other"], b".visible .entry k() { ret; }")


# -- failures ------------------------------------------------------------------------------------------------


def test_out_of_memory(client, gpu):
    text = """HloModule m
ENTRY e { p = f32[] parameter(0)
  ROOT b = f32[100000000] broadcast(p), dimensions={} }"""
    with pytest.raises(OutOfMemory, match=r"fake GPU: \d+ bytes: out of memory"):
        client.compile(axla.parse(text))(np.float32(1))
    assert np.asarray(client.compile(axla.parse(LOOP))(X, np.int32(1))[0]) == 1


def run_once(backend, payload):
    found = axla.Client(backend).load(payload)(X, np.int32(2))[1]
    np.testing.assert_array_equal(np.asarray(found), halved(2))


@pytest.mark.parametrize(
    ("code", "lost"), [(719, True), (999, False), (2, False)], ids=["lost", "once", "no memory"]
)
def test_every_call_may_fail(gpu, client, code, lost):
    """One call after the other gives an error: it is raised, nothing leaks, and the device works afterwards;
    one that is lost gives an error to everybody until then.
    """
    payload = client.compile(axla.parse(LOOP)).serialize()
    run_once(client.backend, payload)
    calls = gpu.number("fake_calls").value
    run_once(client.backend, payload)
    calls, raised = gpu.number("fake_calls").value - calls, 0
    backend = FakeCudaBackend(gpu, cuda.Cuda)
    backend.driver(0)
    gc.collect()
    live = gpu.live
    for call in range(calls):
        gpu.fail(call, code, lost=lost)
        try:
            run_once(backend, payload)
        except AxlaError as error:
            raised += 1
            assert isinstance(error, OutOfMemory if code == 2 else DeviceError | CompileError), error
            assert "fake GPU" in str(error)
            if lost:
                with pytest.raises(DeviceError, match="a kernel failed"):
                    run_once(backend, payload)
        gpu.reset()
        run_once(backend, payload)
    assert calls > 20 and raised > 0.8 * calls
    gc.collect()
    backend.driver(0).pool.empty()
    assert gpu.live == live
