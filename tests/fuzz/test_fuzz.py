"""A sample of what `scripts/fuzz` does, and that its parts do what they say."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from fuzz_lib import cases, judge, oracles, participants, work  # noqa: E402
from fuzz_lib.oracles import ORACLES, unequal  # noqa: E402

import axla  # noqa: E402
from axla.core.errors import AxlaError  # noqa: E402

SLOW = ("ahead", "ptx", "opencl", "xla")


@pytest.mark.parametrize("block", range(4))
def test_a_sample(block):
    """Cases of fixed seeds, by all oracles that need nothing but axla."""
    names = tuple(n for n in ORACLES if n not in SLOW)
    report = work.Report()
    for number in range(block * 4, block * 4 + 4):
        asked = random.Random(number).sample(names, 4)
        work.one(f"ci:{number}", work.Task((), ("cpu", *asked)), report)
    assert report.cases >= 2
    assert not report.failures, report.failures[0].why + report.failures[0].text


def test_a_seed_makes_the_same_case():
    for number in range(12):
        try:
            one, other = (cases.case_of(f"same:{number}") for _ in range(2))
        except cases.Skip:
            continue
        assert one.text == other.text
        for a, b in zip(one.inputs, other.inputs, strict=True):
            assert a.tobytes() == b.tobytes()


def test_modules_are_of_many_kinds():
    opcodes, families = set(), set()
    for number in range(60):
        try:
            case = cases.case_of(f"kinds:{number}")
        except cases.Skip:
            continue
        opcodes |= case.opcodes
        families.add(case.family)
    assert len(opcodes) > 50
    assert {"while", "dot", "reduce", "dynamic-update-slice", "scatter", "transpose"} <= opcodes
    assert len(families) >= 4


def case_from(text: str, *inputs: np.ndarray) -> cases.Case:
    return cases.Case("test", axla.parse(text), list(inputs), text=text)


ZERO = "ENTRY e { x = f32[4] parameter(0)\n ROOT y = f32[4] negate(x) }"


def test_another_zero_is_a_difference():
    case = case_from(ZERO, np.zeros(4, np.float32))
    wanted = case.wanted
    assert not judge.differs(case, wanted)
    assert "in bits" in judge.differs(case, ([np.zeros(4, np.float32)], wanted[1]))


def test_what_hangs_on_rounding_says_nothing():
    """A sum that cancels, made large; and one that does not."""
    text = """
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[1000] parameter(0)
  z = f32[] constant(0)
  s = f32[] reduce(x, z), dimensions={0}, to_apply=add
  k = f32[] constant(1e6)
  m = f32[] multiply(s, k)
  ROOT f = f32[] floor(m) }"""
    rng = np.random.default_rng(0)
    half = rng.uniform(1, 2, 500).astype(np.float32)
    cancels = case_from(text, np.concatenate([half, -half]))
    other = [cancels.wanted[0][0] + 30]
    assert not judge.differs(cancels, (other, cancels.wanted[1]))
    plain = case_from(text, rng.uniform(1, 2, 1000).astype(np.float32))
    assert judge.differs(plain, ([plain.wanted[0][0] * np.float32(1.01)], plain.wanted[1]))


def test_the_sign_of_a_nan_says_nothing():
    text = """
ENTRY e { x = f32[4] parameter(0)
  c = f32[] constant(-1)
  b = f32[4] broadcast(c), dimensions={}
  m = f32[4] multiply(b, x)
  ROOT r = u32[4] bitcast-convert(m) }"""
    case = case_from(text, np.array([np.nan, 1, 2, 3], np.float32))
    wanted, heard = case.wanted
    other = wanted[0] ^ np.array([1 << 31, 0, 0, 0], np.uint32)
    assert not judge.differs(case, ([other], heard))
    plain = case_from(text, np.array([0, 1, 2, 3], np.float32))
    assert judge.differs(plain, ([plain.wanted[0][0] ^ np.uint32(1 << 31)], heard))


def test_a_lost_control_edge_is_a_difference():
    text = """
ENTRY e { x = s32[] parameter(0)
  a = s32[] custom-call(x, x), custom_call_target="fuzz.told"
  b = s32[] custom-call(x, x), custom_call_target="fuzz.told", control-predecessors={a}
  ROOT c = s32[] add(a, b) }"""
    module = axla.parse(text)
    assert not unequal(module, axla.parse(module.to_string()))
    assert "follows" in unequal(module, axla.parse(text.replace(", control-predecessors={a}", "")))


def test_collectives_agree_with_the_model():
    for seed in range(6):
        assert not participants.modelled(random.Random(seed))


def test_the_model_tells_groups_apart(monkeypatch):
    """Groups that are read in another order are found."""
    from axla.ir import devices

    right = devices.ReplicaGroups.group_of

    def turned(self, member):
        found = right(self, member)
        return found and tuple(reversed(found))

    monkeypatch.setattr(devices.ReplicaGroups, "group_of", turned)
    found = 0
    for seed in range(12):
        try:
            found += bool(participants.modelled(random.Random(seed)))
        except AxlaError:
            continue
    assert found


CRASHING = """
import os, sys
sys.path[:0] = {paths!r}
from fuzz_lib import oracles, work


class Dies(oracles.Oracle):
    name = "dies"

    def check(self, case):
        os._exit(9)


if __name__ == "__main__":
    tasks = [work.Task(("crash:{first}",), ("dies",)), work.Task(("crash:{first}",), ("text",))]
    for report in work.reports(iter(tasks), 1):
        print(report.cases, [(f.seed, f.oracle, f.why) for f in report.failures], flush=True)
"""


def test_a_crash_is_named(tmp_path):
    """A process that dies is replaced, its case is a failure, and what follows is asked."""
    first = next(n for n in range(20) if can_run(f"crash:{n}"))
    file = tmp_path / "crashing.py"
    file.write_text(CRASHING.format(paths=[str(ROOT / n) for n in ("scripts", "tests", "src")], first=first))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert lines == [
        f"0 [('crash:{first}', 'dies', 'the process ended with exit code 9')]", "1 []",
    ], done.stdout + done.stderr  # fmt: skip


def can_run(seed: str) -> bool:
    try:
        return bool(cases.case_of(seed).wanted[0])
    except cases.Skip:
        return False


def test_a_named_oracle_draws_what_it_drew_in_a_run(monkeypatch):
    drawn = []

    class Drawing(oracles.Oracle):
        name, share = "", 0.5

        def check(self, case):
            drawn.append(case.draw.random())
            return ""

    monkeypatch.setattr(oracles, "ORACLES", {"drawing": Drawing()})
    seeds = [f"draws:{number}" for number in range(12)]
    for seed in seeds:
        work.one(seed, work.Task((), ()), work.Report())
    some = list(drawn)
    for seed in seeds:
        work.one(seed, work.Task((), ("drawing",)), work.Report())
    assert 0 < len(some) < len(drawn[len(some) :]) and set(some) <= set(drawn[len(some) :])
