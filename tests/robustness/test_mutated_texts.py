"""Mutated program texts end in a result or an error of ours: a sample of what scripts/fuzz_text does."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits on children are those of Linux")


def fuzz(tmp_path: Path, *options: str, script: str = "fuzz_text") -> tuple[dict[str, int], str]:
    """Counts by outcome, and the output. A process of its own: it forks, which wants a single thread."""
    counts = tmp_path / "counts.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / script), *options, "--json", str(counts)],
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert counts.exists(), done.stderr
    return json.loads(counts.read_text()), done.stdout


@pytest.mark.parametrize("source", ["corpus", "repository"])
def test_a_sample_of_mutated_texts(tmp_path, source):
    counts, output = fuzz(tmp_path, "--count=30", "--seed=7", "--at-least=1", f"--source={source}")
    assert sum(counts.values()) == 30
    assert not {"bare", "crash", "hang"} & counts.keys(), output
    assert counts["result"] >= 1


def test_a_sample_of_mutated_protos(tmp_path):
    options = ("--form=proto", "--source=repository", "--count=20", "--seed=3", "--at-least=1")
    counts, output = fuzz(tmp_path, *options)
    assert sum(counts.values()) == 20
    assert not {"bare", "crash", "hang"} & counts.keys(), output


def test_a_sample_of_mutated_programs(tmp_path):
    options = ("--source=repository", "--count=40", "--sources=8", "--seed=5", "--at-least=1")
    counts, output = fuzz(tmp_path, *options, script="fuzz_program")
    assert sum(counts.values()) == 40
    assert not {"bare", "crash", "hang", "differs", "internal"} & counts.keys(), output
    assert counts["result"] >= 1


def test_a_program_that_leaves_its_memory_is_found():
    """The pages around arrays are what they should be: code that writes behind one ends its process."""
    code = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
from fuzz_program_cases import Guarded
array = Guarded(100, 4, 7)
ctypes.memset(array.address, 1, 100)
assert array.read() == bytes([1]) * 100
print("inside", flush=True)
ctypes.memset(array.address + int(sys.argv[2]), 1, 1)
print("outside", flush=True)
"""
    for offset in ("100", "-8192"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(SCRIPTS), offset], capture_output=True, text=True, timeout=60
        )
        assert done.returncode < 0 and done.stdout == "inside\n", (offset, done.stderr)


@pytest.mark.parametrize(
    ("mutation", "sign"),
    [
        ("change_sizes", ","), ("change_arity", "p, p, p, p, p, p, p, p"), ("change_types", "c64["),
        ("grow", "grown.19"), ("double_calls", "to_apply=doubled.4"),
    ],
)  # fmt: skip
def test_mutations_do_what_they_say(mutation, sign):
    import fuzz_text_cases as cases

    source = b"""HloModule m

%f (x: f32[4]) -> f32[4] {
  x = f32[4] parameter(0)
  ROOT n = f32[4] negate(x)
}

ENTRY e {
  p = f32[4] parameter(0)
  c = f32[4] call(p), to_apply=f
  ROOT r = f32[4] add(p, c)
}
"""
    made = set()
    for seed in range(200):
        text = bytearray(source)
        getattr(cases, mutation)(text, random.Random(seed))
        made.add(bytes(text))
    assert len(made) >= 3 and any(sign.encode() in text for text in made - {source})


def test_mutations_are_the_same_for_the_same_seed():
    import fuzz_text_cases as cases

    sources = cases.repository_texts()
    assert len(sources) > 20
    first, again, other = (list(cases.mutated(sources, 30, seed)) for seed in (1, 1, 2))
    assert first == again != other
    texts = {source.text for source in sources}
    assert sum(case.text not in texts for case in first) >= 25  # some mutations change nothing


WAYS = {
    b"crash": "os.kill(os.getpid(), 11)",
    b"crash ": "os._exit(3)",
    b"bare": "raise ValueError('bare')",
    b"bare ": "np.zeros(5 << 30, np.uint8)",
    b"error": "raise axla.ShapeError('fine')",
    b"internal": "raise axla.InternalError('ours')",
    b"hang": "time.sleep(60)",
}


def test_each_way_to_fail_is_seen():
    """The harness itself, with a parser that misbehaves as its text says."""
    code = f"""
import os, sys, time
import numpy as np
sys.path.insert(0, {str(SCRIPTS)!r})
import axla
import fuzz_text_cases as cases
cases.COMPILE_SECONDS = 1.5
ways = {WAYS!r}
def parse(text):
    exec(ways[text])
axla.parse = parse
for outcome in cases.run_cases((cases.Case("x", text) for text in ways), "interpreter", 1):
    print(outcome.case.text.decode().strip(), outcome.kind)
"""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS.parent / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment
    )
    pairs = [line.split() for line in done.stdout.splitlines()]
    assert len(pairs) == len(WAYS), done.stderr
    assert [wanted for wanted, found in pairs if wanted != found] == []


def test_line_mutations_keep_the_other_lines():
    import fuzz_text_cases as cases

    lines = [b"line %d" % k for k in range(9)]
    for seed in range(50):
        text = bytearray(b"\n".join(lines))
        cases.change_lines(text, random.Random(seed))
        left = bytes(text).split(b"\n")
        assert set(left) <= set(lines)
        assert abs(len(left) - 9) <= 1
