"""An OpenCL device that gives an error at any call: a clear error, nothing leaks, and it works on."""

from __future__ import annotations

import ctypes as c
import gc

import numpy as np
import pytest

import axla
from axla.core.errors import AxlaError, OutOfMemory
from axla.device.driver import DeviceError
from axla.device.executable import QueueBackend
from axla.device.opencl import OpenCL, devices
from opencl_device import needs_opencl

pytestmark = needs_opencl

MADE = {"clCreateContext", "clCreateCommandQueueWithProperties", "clCreateProgramWithIL", "clCreateKernel"}
"""What has a place for its error behind its arguments."""
NATIVE = ("launch", "copy", "write", "read")
LOOP = """
HloModule loop
body { t = (s32[], f32[512], f32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[512] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[512] custom-call(x), custom_call_target="test_opencl_failures_half"
  y = f32[512] add(c, c)
  s = f32[1] slice(y), slice={[0:1]}
  f = f32[] reshape(s)
  ROOT r = (s32[], f32[512], f32[]) tuple(j, y, f) }
cond { t = (s32[], f32[512], f32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  f = f32[] get-tuple-element(t), index=2
  n = s32[] constant(2)
  zero = f32[] constant(0)
  few = pred[] compare(i, n), direction=LT
  good = pred[] compare(f, zero), direction=GE
  ROOT c = pred[] and(few, good) }
ENTRY e { x = f32[512] parameter(0)
  i = s32[] parameter(1)
  zero = f32[] constant(0)
  t = (s32[], f32[512], f32[]) tuple(i, x, zero)
  ROOT w = (s32[], f32[512], f32[]) while(t), condition=cond, body=body }"""
CONSTANT = """
HloModule constant
ENTRY e { x = f32[512] parameter(0)
  c = f32[512] constant({VALUES})
  ROOT y = f32[512] add(x, c) }""".replace("VALUES", ", ".join(map(str, range(511, -1, -1))))
X = np.arange(512, dtype=np.float32)


class Faults:
    """Counts calls, and has one of them fail, or all from it on."""

    def __init__(self) -> None:
        self.calls, self.at, self.lost, self.code = 0, -1, False, 0

    def next(self) -> int:
        """The code of an error for this call; 0: it is done."""
        self.calls += 1
        number = self.calls - 1
        return self.code if number == self.at or (self.lost and 0 <= self.at <= number) else 0

    def start(self, at: int = -1, code: int = 0, lost: bool = False) -> None:
        self.calls, self.at, self.code, self.lost = 0, at, code, lost


class FailingLibrary:
    """The library, of which each call may fail. What gives something back does so all the same."""

    def __init__(self, real, faults) -> None:
        self.real, self.faults = real, faults

    def __getattr__(self, name):
        function = getattr(self.real, name)

        def call(*arguments):
            code = self.faults.next()
            if not code:
                return function(*arguments)
            if name == "clSVMAlloc":
                return None
            if name in MADE:
                arguments[-1]._obj.value = code
                return None
            if name.startswith("clRelease") or name == "clEnqueueSVMFree":
                function(*arguments)
            return code

        return call


class FailingOpenCL(OpenCL):
    def __init__(self, lib, device, faults) -> None:
        super().__init__(lib, device)
        self.lib, self.taken, self._kept = FailingLibrary(lib, faults), set(), []
        for name in NATIVE:
            self.replace(name, getattr(self._table, name), faults)
        happened = self._happened
        self._happened = lambda *arguments: faults.next() or happened(*arguments)

    def replace(self, name, address, faults) -> None:
        kind = c.CFUNCTYPE(c.c_int32, *[c.c_void_p] * (6 if name == "launch" else 5))
        real = kind(address)
        mine = kind(lambda *arguments: faults.next() or real(*arguments))
        self._kept.append(mine)
        setattr(self._table, name, c.cast(mine, c.c_void_p).value)

    def allocate(self, size):
        address = super().allocate(size)
        self.taken.add(address)
        return address

    def free(self, address) -> None:
        self.taken.remove(address)
        super().free(address)


class FailingBackend(QueueBackend):
    name = "opencl"

    def __init__(self, faults) -> None:
        super().__init__()
        self.faults = faults

    def opened(self, number):
        return FailingOpenCL(*devices()[0], self.faults)


@pytest.fixture(scope="module")
def backend():
    axla.register_custom_call("test_opencl_failures_half", lambda x: x / 2)
    return FailingBackend(Faults())


def run_once(program, asynchronous=False):
    found = program.execute([X, np.int32(0)], asynchronous=asynchronous)[1]
    np.testing.assert_array_equal(np.asarray(found), X)


def every_call_fails(backend, run, code, lost):
    """Has one call after the other give an error, once or for good: it is raised and names the device, memory
    comes back, and what is done afterwards is right.
    """
    faults, driver = backend.faults, backend.driver(0)
    run()
    gc.collect()
    driver.pool.empty()
    taken = set(driver.taken)
    faults.start()
    run()
    calls, raised = faults.calls, 0
    for call in range(calls):
        faults.start(call, code, lost)
        try:
            run()
        except AxlaError as error:
            raised += 1
            assert isinstance(error, OutOfMemory | DeviceError | axla.CompileError), error
            assert driver.name in str(error)
            if lost:
                with pytest.raises(AxlaError):
                    run()
        faults.start()
        if raised % 4 == 1 or call == calls - 1:
            run()
    assert calls > 5 and raised > 0.4 * calls
    gc.collect()
    driver.pool.empty()
    assert driver.taken == taken


@pytest.mark.parametrize("asynchronous", [False, True], ids=["waited for", "asynchronous"])
@pytest.mark.parametrize(("code", "lost"), [(-5, False), (-5, True), (-4, False)])
def test_every_call_of_a_run_may_fail(backend, code, lost, asynchronous):
    backend.faults.start()
    program = axla.Client(backend).compile(axla.parse(LOOP))
    every_call_fails(backend, lambda: run_once(program, asynchronous), code, lost)


def test_every_call_of_loading_may_fail(backend):
    """The kernels are built, and the constants are written."""
    backend.faults.start()
    client = axla.Client(backend)
    payload = client.compile(axla.parse(CONSTANT)).serialize()

    def run():
        found = client.load(payload)(X)
        np.testing.assert_array_equal(np.asarray(found), X + X[::-1])

    every_call_fails(backend, run, -6, False)
