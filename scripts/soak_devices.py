"""The work of `scripts/soak devices`: programs of several participants, repeatedly and at once. Each function
returns a line about its measurements, or raises Failed.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
from soak_runs import Failed, memory

import axla
from axla.core.errors import Cancelled, CollectiveFailure, DeadlineExceeded

ALL_COLLECTIVES = """
HloModule all, replica_count=2, num_partitions=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
larger { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GE
  x = f32[] select(g, a, b)
  k = s32[] select(g, i, j)
  ROOT t = (f32[], s32[]) tuple(x, k) }
body { t = (s32[], f32[N]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[N] get-tuple-element(t), index=1
  y = f32[N] all-reduce(x), to_apply=add, channel_id=2, replica_groups={{0,1,2,3}}, use_global_device_ids=true
  q = f32[] constant(0.25)
  s = f32[N] broadcast(q), dimensions={}
  z = f32[N] multiply(y, s)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[N]) tuple(j, z) }
condition { t = (s32[], f32[N]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e {
  x = f32[N] parameter(0)
  n = s32[4] parameter(1)
  r = u32[] replica-id()
  p = u32[] partition-id()
  a = f32[N] all-reduce(x), to_apply=add, replica_groups={}
  b = f32[N] all-reduce(a), to_apply=add, channel_id=1, replica_groups={{3,1,0,2}}, use_global_device_ids=true
  c = f32[Q] reduce-scatter(b), dimensions={0}, to_apply=add, channel_id=1, replica_groups=[1,4]<=[4],
    use_global_device_ids=true
  d = f32[N] all-gather(c), dimensions={0}, channel_id=1, replica_groups=mesh['x'=2,'y'=2] {'y','x'},
    use_global_device_ids=true
  e = f32[N] all-to-all(d), dimensions={0}, channel_id=1, replica_groups={{1,0}}
  e2 = s32[N] iota(), iota_dimension=0
  g = f32[N] collective-permute(e), source_target_pairs={{0,1},{1,0}}
  h = f32[N] collective-broadcast(g), replica_groups={{1,0}}
  k = f32[N] collective-reduce(h), to_apply=add, replica_groups={{0,1}}
  l = f32[N] add(h, k)
  m = (f32[N], s32[N]) all-reduce(l, e2), to_apply=larger
  m0 = f32[N] get-tuple-element(m), index=0
  m1 = s32[N] get-tuple-element(m), index=1
  o = f32[N] ragged-all-to-all(m0, x, n, n, n, n), replica_groups={{0,1}}
  s = f32[N] all-reduce-start(o), to_apply=add
  w = f32[N] subtract(m0, b)
  u = f32[N] all-reduce-done(s)
  v = f32[N] add(u, w)
  z = s32[] constant(0)
  i0 = (s32[], f32[N]) tuple(z, v)
  i1 = (s32[], f32[N]) while(i0), condition=condition, body=body
  y = f32[N] get-tuple-element(i1), index=1
  ROOT all = (f32[N], s32[N], f32[N], u32[], u32[]) tuple(y, m1, g, r, p)
}
"""


def all_collectives(size: int) -> axla.Module:
    text = ALL_COLLECTIVES.replace("[N]", f"[{size}]").replace("[Q]", f"[{size // 4}]")
    return axla.parse(text)


def open_things() -> tuple[int, int]:
    """The numbers of threads and of file descriptors of the process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def repeat(runs: int = 1000, size: int = 10_000) -> str:
    """A program of all collectives on 4 devices must give the bits of the interpreter in every run, and leave
    no memory, threads or descriptors behind.
    """
    faulthandler.dump_traceback_later(runs * 0.5 + 60, exit=True)
    program = axla.compile(all_collectives(size), backend="cpu")
    rng = np.random.default_rng(3)
    rows = [[rng.normal(size=size).astype(np.float32), np.array([1, 9, 3, 5], np.int32)] for _ in range(4)]
    wanted, before = None, axla.num_threads()
    begin, middle = time.monotonic(), None
    try:
        for number in range(runs):
            axla.set_num_threads(1 + number % 4)
            asynchronous = number % 5 == 0
            found = program.execute_replicated(rows, asynchronous=asynchronous)
            bits = [np.asarray(a).tobytes() for row in found for a in row]
            wanted = wanted or bits
            if bits != wanted:
                raise Failed(f"run {number} gives other bits")
            if number == runs // 4:
                gc.collect()
                middle = memory(), open_things()
    finally:
        axla.set_num_threads(before)
        faulthandler.cancel_dump_traceback_later()
    judged = axla.compile(all_collectives(size), backend="interpreter").execute_replicated(rows)
    if [np.asarray(a).tobytes() for row in judged for a in row] != wanted:
        raise Failed("the interpreter gives other bits")
    gc.collect()
    assert middle is not None
    grown = memory()[0] - middle[0][0]
    line = (
        f"{runs} runs on 4 devices, {(time.monotonic() - begin) / runs * 1e3:.1f} ms each: the same bits, "
        f"{grown:+.1f} MiB, threads and files {middle[1]} -> {open_things()}"
    )
    if grown > 8 or any(b > a for a, b in zip(middle[1], open_things(), strict=True)):
        raise Failed(line)
    return line


# Many programs at once

SUM = """HloModule sum, replica_count=COUNT
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[5000] parameter(0)
  y = f32[5000] all-reduce(x), to_apply=add
  ROOT z = f32[5000] all-to-all(y), dimensions={0} }
"""
ROUNDS = """HloModule rounds, replica_count=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
body { t = (s32[], f32[8], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[8] get-tuple-element(t), index=1
  n = s32[] get-tuple-element(t), index=2
  y = f32[8] all-reduce(x), to_apply=add
  h = f32[] constant(0.5)
  s = f32[8] broadcast(h), dimensions={}
  z = f32[8] multiply(y, s)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8], s32[]) tuple(j, z, n) }
condition { t = (s32[], f32[8], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=2
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[8] parameter(0)
  n = s32[] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[8], s32[]) tuple(zero, x, n)
  w = (s32[], f32[8], s32[]) while(t), condition=condition, body=body
  ROOT y = f32[8] get-tuple-element(w), index=1 }
"""
FAILS = """HloModule fails, replica_count=3
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[8] parameter(0)
  y = f32[8] all-reduce(x), to_apply=add
  z = f32[8] custom-call(x), custom_call_target="soak.fails_below_zero"
  v = f32[8] add(y, z)
  ROOT w = f32[8] all-reduce(v), to_apply=add }
"""
SENDER = """HloModule sender
ENTRY e { x = f32[30] parameter(0)
  t = token[] after-all()
  s = (f32[30], u32[], token[]) send(x, t), channel_id=7
  d = token[] send-done(s), channel_id=7
  ROOT r = f32[30] add(x, x) }
"""
RECEIVER = """HloModule receiver
ENTRY e { t = token[] after-all()
  s = (f32[30], u32[], token[]) recv(t), channel_id=7
  d = (f32[30], token[]) recv-done(s), channel_id=7
  v = f32[30] get-tuple-element(d), index=0
  ROOT r = f32[30] negate(v) }
"""
DEVICES = 8


def _fails_below_zero(x: np.ndarray) -> np.ndarray:
    if x[0] < 0:
        raise ValueError("below zero")
    return x


def _placed(rng: random.Random, replicas: int, partitions: int = 1) -> tuple[tuple[int, ...], ...]:
    """Random devices for a program, as a row of ids for each replica."""
    ids = rng.sample(range(DEVICES), replicas * partitions)
    return tuple(tuple(ids[r * partitions : (r + 1) * partitions]) for r in range(replicas))


class Worker:
    """A thread that runs programs on some of the devices and checks the results. `done` counts the runs of
    each kind.
    """

    def __init__(self, number: int, client: Any) -> None:
        self.rng = random.Random(number)
        self.client = client
        self.done: Counter[str] = Counter()
        self.all, self.wanted, self.rows = self._all_collectives()
        self.count = self.rng.randint(2, 6)
        text = SUM.replace("COUNT", str(self.count)).replace("5000", str(self.count * 500))
        self.sum = self._compiled(text, self.count)
        self.rounds = self._compiled(ROUNDS, 2)
        self.fails = self._compiled(FAILS, 3)
        self.kinds = [self.everything, self.chain, self.late, self.cancelled, self.raises, self.apart,
                      self.parallel]  # fmt: skip

    def _compiled(self, text: str, replicas: int) -> Any:
        return self.client.compile(axla.parse(text), device_assignment=_placed(self.rng, replicas))

    def _all_collectives(self) -> Any:
        module, given = all_collectives(400), np.random.default_rng(5)
        rows = [
            [given.normal(size=400).astype(np.float32), np.array([1, 9, 3, 5], np.int32)] for _ in range(4)
        ]
        judged = axla.compile(module, backend="interpreter").execute_replicated(rows)
        made = self.client.compile(module, device_assignment=_placed(self.rng, 2, 2))
        return made, [np.asarray(a).tobytes() for row in judged for a in row], rows

    def work(self, stop_at: float) -> None:
        while time.monotonic() < stop_at:
            kind = self.rng.choice(self.kinds)
            kind()
            self.done[kind.__name__] += 1

    def check(self, good: object, what: str) -> None:
        if not good:
            raise Failed(f"{what}: a wrong result")

    def everything(self) -> None:
        found = self.all.execute_replicated(self.rows, asynchronous=self.rng.random() < 0.3)
        self.check([np.asarray(a).tobytes() for row in found for a in row] == self.wanted, "all collectives")

    def chain(self) -> None:
        """Runs a program several times on its own results, before these are ready."""
        rows: Any = [[np.full(self.count * 500, n, np.float32)] for n in range(self.count)]
        total = sum(range(self.count))
        for _ in range(3):
            rows = self.sum.execute_replicated(rows, asynchronous=True)
        for (array,) in rows:
            self.check((np.asarray(array) == total * self.count**2).all(), "a chain of runs")

    def late(self) -> None:
        rows = [[np.ones(8, np.float32), np.int32(2_000_000_000)]] * 2
        try:
            self.rounds.execute_replicated(rows, deadline=self.rng.choice([0.001, 0.02, 0.1]))
        except DeadlineExceeded:
            return
        raise Failed("a run without end has ended")

    def cancelled(self) -> None:
        rows = [[np.ones(8, np.float32), np.int32(2_000_000_000)]] * 2
        found = self.rounds.execute_replicated(rows, asynchronous=True)
        time.sleep(self.rng.choice([0, 0.001, 0.02]))
        self.check(self.rounds.cancel() > 0, "cancel")
        for row in found:
            try:
                row[0].block_until_ready()
            except Cancelled:
                continue
            raise Failed("a cancelled run has ended")

    def raises(self) -> None:
        values = [self.rng.choice([1, 1, 1, -1]) for _ in range(3)]
        rows = [[np.full(8, v, np.float32)] for v in values]
        try:
            found = self.fails.execute_replicated(rows)
        except (ValueError, axla.AxlaError) as error:
            self.check("below zero" in str(error) and min(values) < 0, f"a failure ({error})")
        else:
            self.check(min(values) > 0 and (np.asarray(found[2][0]) == 12).all(), "no failure")

    def apart(self) -> None:
        """Runs two participants whose loops have different trip counts: this must raise an error at once."""
        rows = [[np.ones(8, np.float32), np.int32(n)] for n in (5, 5 + self.rng.randint(0, 2))]
        try:
            found = self.rounds.execute_replicated(rows)
        except CollectiveFailure:
            self.check(rows[0][1] != rows[1][1], "who wait for ever")
        else:
            self.check(rows[0][1] == rows[1][1] and (np.asarray(found[0][0]) == 1).all(), "rounds")

    def parallel(self) -> None:
        x = np.arange(30, dtype=np.float32)
        modules = [axla.parse(SENDER), axla.parse(RECEIVER)]
        (double,), (negative,) = self.client.backend.execute_parallel(modules, [[x], []])
        self.check((np.asarray(double) == 2 * x).all() and (np.asarray(negative) == -x).all(), "send")


def at_once(seconds: float = 60.0, threads: int = 6) -> str:
    """Threads run programs on overlapping devices; some fail, are late or are cancelled. All results and
    errors must be right, no thread may deadlock, and nothing may be left behind.
    """
    faulthandler.dump_traceback_later(seconds + 120, exit=True)
    axla.register_custom_call("soak.fails_below_zero", _fails_below_zero)
    client = axla.Client("cpu", devices=DEVICES)
    workers = [Worker(number, client) for number in range(threads)]
    errors: list[str] = []

    def work(worker: Worker, stop_at: float) -> None:
        try:
            worker.work(stop_at)
        except BaseException as error:
            errors.append(f"{type(error).__name__}: {error}")

    samples = []
    for _ in range(3):
        stop_at = time.monotonic() + seconds / 3
        started = [threading.Thread(target=work, args=(w, stop_at)) for w in workers]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        gc.collect()
        samples.append((memory()[0], *open_things()))
    faulthandler.cancel_dump_traceback_later()
    axla.unregister_custom_call("soak.fails_below_zero")
    done = sum((w.done for w in workers), Counter())
    line = f"{threads} threads, {seconds:.0f} s: {dict(done)}; MiB, threads, files: {samples}"
    if errors or samples[2][0] - samples[1][0] > 16 or samples[2][1] > samples[0][1] + threads:
        raise Failed("; ".join([*errors[:3], line]))
    return line
