"""Random programs on several devices with collectives in two halves have the results of the interpreter."""

import random

import numpy as np
import pytest

import axla

HEAD = """HloModule m, replica_count=3
f { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b) }
scattered { a = s32[48] parameter(0)
  ROOT r = s32[16] reduce-scatter(a), dimensions={0}, to_apply=f }
exchanged { a = s32[48] parameter(0)
  ROOT r = s32[48] all-to-all(a), dimensions={0} }
"""
ROWS = "s32[48]"


class Writer:
    """Writes a computation of arrays s32[48]; pairs of halves stay open while others are written."""

    def __init__(self, rng: random.Random, values: list[str], prefix: str) -> None:
        self.rng, self.values, self.prefix = rng, values, prefix
        self.lines: list[str] = []
        self.open: list[tuple[str, str, str]] = []
        self.count = 0

    def add(self, text: str, keep: bool = True) -> str:
        self.count += 1
        name = f"{self.prefix}{self.count}"
        self.lines.append(f"{name} = {text}")
        if keep:
            self.values.append(name)
        return name

    def pick(self) -> str:
        return self.rng.choice(self.values[-6:])

    def start(self) -> None:
        x, channel = self.pick(), self.rng.choice(["", ", channel_id=1", ", channel_id=2"])
        kind = self.rng.choice(["all-reduce", "all-gather", "permute", "scatter", "exchange", "both"])
        if kind in ("all-reduce", "both"):
            more = self.pick() if kind == "both" else None
            shape = f"({ROWS}, {ROWS})" if more else ROWS
            given = f"{x}, {more}" if more else x
            s = self.add(f"{shape} all-reduce-start({given}), to_apply=f{channel}", keep=False)
            self.open.append((s, f"{shape} all-reduce-done", kind))
        elif kind == "all-gather":
            s = self.add(f"({ROWS}, s32[144]) all-gather-start({x}), dimensions={{0}}", keep=False)
            self.open.append((s, "s32[144] all-gather-done", "wide"))
        elif kind == "permute":
            pairs = self.rng.choice(["{{0,1},{1,2},{2,0}}", "{{0,2},{2,1}}"])
            text = f"({ROWS}, {ROWS}, u32[]) collective-permute-start({x}), source_target_pairs={pairs}"
            self.open.append((self.add(text, keep=False), f"{ROWS} collective-permute-done", kind))
        elif kind == "scatter":
            s = self.add(f"(({ROWS}), s32[16]) async-start({x}), calls=scattered", keep=False)
            self.open.append((s, "s32[16] async-done", "narrow"))
        else:
            s = self.add(f"(({ROWS}), {ROWS}) async-start({x}), calls=exchanged", keep=False)
            self.open.append((s, f"{ROWS} async-done", kind))

    def done(self) -> None:
        s, text, kind = self.open.pop(self.rng.randrange(len(self.open)))
        d = self.add(f"{text}({s})", keep=kind not in ("wide", "narrow", "both"))
        if kind == "wide":
            self.add(f"{ROWS} slice({d}), slice={{[40:88]}}")
        elif kind == "narrow":
            self.add(f"{ROWS} dynamic-update-slice({self.pick()}, {d}, zero)")
        elif kind == "both":
            first, second = (self.add(f"{ROWS} get-tuple-element({d}), index={n}") for n in (0, 1))
            self.add(f"{ROWS} subtract({first}, {second})")

    def work(self) -> None:
        kind, x, y = (
            self.rng.choice(["add", "shift", "update", "reverse", "maximum"]),
            self.pick(),
            self.pick(),
        )
        if kind == "update":
            small = self.add(f"s32[16] slice({y}), slice={{[8:24]}}", keep=False)
            self.add(f"{ROWS} dynamic-update-slice({x}, {small}, four)")
        elif kind == "shift":
            table = self.add(f"s32[6,8] reshape({x})", keep=False)
            turned = self.add(f"s32[8,6] transpose({table}), dimensions={{1,0}}", keep=False)
            self.add(f"{ROWS} reshape({turned})")
        elif kind == "reverse":
            self.add(f"{ROWS} reverse({x}), dimensions={{0}}")
        else:
            self.add(f"{ROWS} {kind}({x}, {y})")

    def write(self, steps: int) -> None:
        for _ in range(steps):
            choice = self.rng.random()
            if choice < 0.25:
                self.start()
            elif choice < 0.45 and self.open:
                self.done()
            else:
                self.work()
        while self.open:
            self.done()


def program(seed: int) -> str:
    rng = random.Random(seed)
    body = Writer(rng, ["x", "y"], "b")
    body.write(8)
    entry = Writer(rng, ["x", "y"], "v")
    entry.write(10)
    given = entry.values[-2:]
    after = Writer(rng, ["p", "q"], "w")
    after.write(8)
    constants = "zero = s32[] constant(0)\n  four = s32[] constant(4)"
    return f"""{HEAD}
body {{ t = (s32[], {ROWS}, {ROWS}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = {ROWS} get-tuple-element(t), index=1
  y = {ROWS} get-tuple-element(t), index=2
  {constants}
  {chr(10).join(body.lines)}
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], {ROWS}, {ROWS}) tuple(j, {body.values[-1]}, {body.values[-2]}) }}
cond {{ t = (s32[], {ROWS}, {ROWS}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ x = {ROWS} parameter(0)
  y = {ROWS} parameter(1)
  {constants}
  {chr(10).join(entry.lines)}
  t = (s32[], {ROWS}, {ROWS}) tuple(zero, {given[0]}, {given[1]})
  w = (s32[], {ROWS}, {ROWS}) while(t), condition=cond, body=body
  p = {ROWS} get-tuple-element(w), index=1
  q = {ROWS} get-tuple-element(w), index=2
  {chr(10).join(after.lines)}
  ROOT out = ({ROWS}, {ROWS}, {ROWS}) tuple({after.values[-1]}, {after.values[-2]}, {entry.values[-1]}) }}"""


@pytest.mark.parametrize("seed", range(12))
def test_random_halves(seed):
    module = axla.parse(program(seed))
    rng = np.random.default_rng(seed)
    rows = [[rng.integers(-99, 99, 48, np.int32) for _ in range(2)] for _ in range(3)]
    executable = axla.compile(module, backend="cpu")
    assert "starts=true" in executable.as_text("program")
    wanted = axla.compile(module, backend="interpreter").execute_replicated(rows)
    for _ in range(3):
        found = executable.execute_replicated(rows, deadline=60)
        for a, b in zip(found, wanted, strict=True):
            assert [np.asarray(x).tolist() for x in a] == [np.asarray(x).tolist() for x in b]
