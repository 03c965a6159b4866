"""Programs on an OpenCL device, compared with the backend cpu; runs of both alternate."""

from __future__ import annotations

import ctypes as c
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import axla
from bench_lib.row import Effort, Row, timed
from bench_lib.timing import Call, Times, compare

ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""
MAX = ADD.replace("add", "maximum")
SOFTMAX = (
    "HloModule softmax\n"
    + ADD
    + MAX
    + """
ENTRY e { x = f32[4096,1024] parameter(0)
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[4096] reduce(x, least), dimensions={1}, to_apply=maximum
  mb = f32[4096,1024] broadcast(m), dimensions={0}
  d = f32[4096,1024] subtract(x, mb)
  y = f32[4096,1024] exponential(d)
  s = f32[4096] reduce(y, zero), dimensions={1}, to_apply=add
  sb = f32[4096,1024] broadcast(s), dimensions={0}
  ROOT z = f32[4096,1024] divide(y, sb) }"""
)
LAYERNORM = (
    "HloModule layernorm\n"
    + ADD
    + """
ENTRY e { x = f32[4096,1024] parameter(0)
  zero = f32[] constant(0)
  part = f32[] constant(0.0009765625)
  parts = f32[4096] broadcast(part), dimensions={}
  s = f32[4096] reduce(x, zero), dimensions={1}, to_apply=add
  mean = f32[4096] multiply(s, parts)
  means = f32[4096,1024] broadcast(mean), dimensions={0}
  d = f32[4096,1024] subtract(x, means)
  q = f32[4096,1024] multiply(d, d)
  v = f32[4096] reduce(q, zero), dimensions={1}, to_apply=add
  w = f32[4096] multiply(v, parts)
  least = f32[] constant(1e-5)
  leasts = f32[4096] broadcast(least), dimensions={}
  u = f32[4096] add(w, leasts)
  r = f32[4096] rsqrt(u)
  rs = f32[4096,1024] broadcast(r), dimensions={0}
  ROOT z = f32[4096,1024] multiply(d, rs) }"""
)
MATMUL = """HloModule matmul
ENTRY e { x = f32[1024,1024] parameter(0)
  y = f32[1024,1024] parameter(1)
  ROOT z = f32[1024,1024] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
TRANSPOSE = """HloModule turn
ENTRY e { x = f32[4096,4096] parameter(0)
  ROOT z = f32[4096,4096] transpose(x), dimensions={1,0} }"""
REDUCE = (
    "HloModule sums\n"
    + ADD
    + """
ENTRY e { x = f32[4096,4096] parameter(0)
  zero = f32[] constant(0)
  ROOT s = f32[4096] reduce(x, zero), dimensions={DIM}, to_apply=add }"""
)
SORT = """HloModule sorted
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[1048576] parameter(0)
  ROOT z = f32[1048576] sort(x), dimensions={0}, to_apply=less }"""
LAUNCHES = 100_000
LOOP = """HloModule launches
body { t = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4096] get-tuple-element(t), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4096] sqrt(x)
  ROOT r = (s32[], f32[4096]) tuple(j, y) }
cond { t = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(LAUNCHES)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[4096] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4096]) tuple(zero, x)
  w = (s32[], f32[4096]) while(t), condition=cond, body=body
  ROOT y = f32[4096] get-tuple-element(w), index=1 }""".replace("LAUNCHES", str(LAUNCHES))
BATCH = 256
DIGITS = (
    "HloModule digits\n"
    + ADD
    + MAX
    + """
ENTRY e { x = f32[256,64] parameter(0)
  y = f32[256,10] parameter(1)
  w1 = f32[64,128] parameter(2)
  w2 = f32[128,10] parameter(3)
  zero = f32[] constant(0)
  zeros = f32[256,128] broadcast(zero), dimensions={}
  a = f32[256,128] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[256,128] maximum(a, zeros)
  o = f32[256,10] dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  least = f32[] constant(-inf)
  m = f32[256] reduce(o, least), dimensions={1}, to_apply=maximum
  ms = f32[256,10] broadcast(m), dimensions={0}
  d = f32[256,10] subtract(o, ms)
  e = f32[256,10] exponential(d)
  s = f32[256] reduce(e, zero), dimensions={1}, to_apply=add
  ss = f32[256,10] broadcast(s), dimensions={0}
  p = f32[256,10] divide(e, ss)
  g = f32[256,10] subtract(p, y)
  g2 = f32[128,10] dot(h, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  gh = f32[256,128] dot(g, w2), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  on = pred[256,128] compare(a, zeros), direction=GT
  ga = f32[256,128] select(on, gh, zeros)
  g1 = f32[64,128] dot(x, ga), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  rate = f32[] constant(0.0004)
  r1 = f32[64,128] broadcast(rate), dimensions={}
  r2 = f32[128,10] broadcast(rate), dimensions={}
  s1 = f32[64,128] multiply(g1, r1)
  s2 = f32[128,10] multiply(g2, r2)
  n1 = f32[64,128] subtract(w1, s1)
  n2 = f32[128,10] subtract(w2, s2)
  ROOT t = (f32[64,128], f32[128,10]) tuple(n1, n2) }"""
)
PROGRAMS = {
    "matmul 1024": MATMUL, "softmax 4096x1024": SOFTMAX, "layernorm 4096x1024": LAYERNORM,
    "transpose 4096": TRANSPOSE, "row reduce 4096": REDUCE.replace("DIM", "1"),
    "column reduce 4096": REDUCE.replace("DIM", "0"), "sort of 1M": SORT,
    f"digits, batch {BATCH}, a step": DIGITS,
}  # fmt: skip
WORST = 3.0


def opencl(effort: Effort) -> Iterator[Row]:
    """Rows for the programs; the last ones are the geometric mean of their ratios, and launches in a loop."""
    axla.set_num_threads(effort.threads)
    # CLBlast is linked with the system's loader, which must also find Intel's device.
    os.environ.setdefault("OCL_ICD_FILENAMES", os.path.join(sys.prefix, "lib", "libintelocl.so"))
    os.environ.setdefault("OCL_ICD_VENDORS", os.environ["OCL_ICD_FILENAMES"])
    ratios = []
    for name, text in PROGRAMS.items():
        if effort.only not in name:
            continue
        sides = {side: _call(text, backend) for side, backend in (("axla", "opencl"), ("axla cpu", "cpu"))}
        if text is MATMUL and (blast := _clblast()) is not None:
            sides["CLBlast"] = blast
        times = compare(sides, effort.rounds, effort.seconds)
        for peer in list(sides)[1:]:
            row = timed(effort, "opencl", name, times, peer, goal=WORST if peer == "axla cpu" else None)
            if peer == "axla cpu" and row.ratio is not None:
                ratios.append(row.ratio)
            yield row
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield Row("opencl", "geometric mean", effort.threads, None, "axla cpu", None, mean, goal=1.5)
    if effort.only in "launches":
        yield from launches(effort)


def launches(effort: Effort) -> Iterator[Row]:
    """The row for a loop of LAUNCHES kernels: seconds per launch, compared with 10 us."""
    call, took = _call(LOOP, "opencl"), []
    for _ in range(3):
        begin = time.perf_counter()
        call()
        took.append((time.perf_counter() - begin) / LAUNCHES)
    times = Times({"axla": took, "10 us": [1e-5] * len(took)})
    note = f"{1 / times.median('axla'):,.0f} a second"
    yield timed(effort, "opencl", f"a launch of {LAUNCHES:,}", times, "10 us", goal=1.0, note=note)


def _inputs(module: axla.Module) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(p.shape.dims).astype(np.float32) / 8 for p in module.entry.parameters]


def _call(text: str, backend: str) -> Call:
    """Returns a call of a program whose arguments are on its device; it ends when the results are ready."""
    client, module = axla.Client(backend), axla.parse(text)
    program = client.compile(module)
    arguments = [client.device_put(x) for x in _inputs(module)]

    def call() -> object:
        return program.execute(arguments)

    return call


class _Blast:
    """A matrix product of CLBlast, through the system's OpenCL loader, in a context of its own."""

    def __init__(self) -> None:
        from axla.device.opencl import devices

        self.lib, device = devices()[0]
        self.device = c.c_void_p(device)
        self.blast = c.CDLL("libclblast.so.1")
        self.context = self.made("clCreateContext", None, 1, c.byref(self.device), None, None)
        self.queue = self.made("clCreateCommandQueueWithProperties", self.context, self.device, None)
        given = _inputs(axla.parse(MATMUL))
        self.buffers = [self.buffer(x) for x in [*given, np.zeros_like(given[0])]]
        self.wanted = given[0] @ given[1]

    def made(self, name: str, *arguments: Any) -> c.c_void_p:
        function, code = getattr(self.lib, name), c.c_int()
        function.restype = c.c_void_p
        found = c.c_void_p(function(*arguments, c.byref(code)))
        if code.value:
            raise OSError(f"{name}: error {code.value}")
        return found

    def buffer(self, values: np.ndarray) -> c.c_void_p:
        """A CL_MEM_READ_WRITE buffer with a copy of an array."""
        kind, size = c.c_uint64(1 | 1 << 5), c.c_size_t(values.nbytes)
        return self.made("clCreateBuffer", self.context, kind, size, values.ctypes.data_as(c.c_void_p))

    def call(self) -> None:
        n, zero = c.c_size_t(1024), c.c_size_t(0)
        x, y, z = self.buffers
        queue = c.c_void_p(self.queue.value)
        code = self.blast.CLBlastSgemm(
            101, 111, 111, n, n, n, c.c_float(1.0), x, zero, n, y, zero, n, c.c_float(0.0), z, zero, n,
            c.byref(queue), None,
        )  # fmt: skip
        if code or self.lib.clFinish(self.queue):
            raise OSError(f"CLBlastSgemm: error {code}")

    def check(self) -> None:
        found = np.empty_like(self.wanted)
        self.call()
        size = c.c_size_t(found.nbytes)
        self.lib.clEnqueueReadBuffer(
            self.queue, self.buffers[2], 1, c.c_size_t(0), size, found.ctypes.data_as(c.c_void_p), 0, None,
            None,
        )  # fmt: skip
        np.testing.assert_allclose(found, self.wanted, rtol=1e-3, atol=1e-3)


def _clblast() -> Callable[[], None] | None:
    """Returns a call of CLBlast's product; None if it cannot be called, with the reason printed."""
    try:
        blast = _Blast()
        blast.check()
    except (OSError, AssertionError) as error:
        print(f"CLBlast: {error}", file=sys.stderr)
        return None
    return blast.call
