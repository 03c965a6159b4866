"""The survey of cliffs: the list, a sample of its programs on both sides, and what cannot stop it."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from bench_lib.cliffs import KINDS, PROGRAMS, measure, page  # noqa: E402
from bench_lib.row import Effort, Row  # noqa: E402

SOURCE = re.compile(r"([\w.-]+/[\w.-]+#\d+|issue 20|.*users|common use)\b")
EFFORT = Effort(1, 1, 0.01)
SAMPLE = (
    "sum that does not change, in a scan", "vmap of while: steps of Collatz", "Bogacki and Shampine",
    "layernorm, bf16", "sort by two keys", "edit distance", "product of BCOO", "HMM: Viterbi",
)  # fmt: skip


def test_the_list_is_long_and_every_program_has_a_name_a_source_and_two_sizes():
    names = [program.name for program in PROGRAMS]
    assert len(set(names)) == len(names) >= 150
    for program in PROGRAMS:
        assert SOURCE.match(program.source), program
        assert 0 < program.sizes[0] < program.sizes[1], program
    assert {program.kind for program in PROGRAMS} == {kind.__name__.rpartition(".")[2] for kind in KINDS}


@pytest.mark.parametrize("kind", [kind.__name__.rpartition(".")[2] for kind in KINDS])
def test_every_program_traces(kind):
    for program in PROGRAMS:
        if program.kind == kind:
            with jax.enable_x64(program.x64):
                function, arrays = program.make(program.sizes[0])
                assert jax.tree.leaves(jax.eval_shape(function, *arrays)), program.name


@pytest.mark.parametrize("name", SAMPLE)
def test_axla_gives_what_stock_gives(name):
    (program,) = (p for p in PROGRAMS if p.name.startswith(name))
    with jax.enable_x64(program.x64):
        ours, our_arrays, theirs, their_arrays = measure.sides(program, program.sizes[0])
        found, wanted = ours(*our_arrays), theirs(*their_arrays)
    assert measure.difference(found, wanted, program.tolerance) <= 1


def test_differences_are_in_units_of_what_is_allowed():
    one = np.ones(4, np.float32)
    assert measure.difference(one, one, None) == 0
    assert measure.difference(one + np.float32(1e-3), one, None) == pytest.approx(10, rel=0.1)
    assert measure.difference(one + np.float32(1e-3), one, 1e-2) == pytest.approx(0.1, rel=0.1)
    assert measure.difference(one * np.nan, one, 1.0) == np.inf
    assert measure.difference(one * np.inf, one * np.inf, None) == 0
    assert measure.difference(np.arange(4), np.array([0, 1, 2, 4]), None) == np.inf
    assert measure.difference(np.arange(4), np.array([0, 1, 2, 4]), 0.5) == 0.5
    assert measure.difference(one[:3], one, None) == np.inf
    assert measure.difference((one, one), one, None) == np.inf


def _hangs(program, effort, sender):
    sender.send((0, "run", 0.2, {"peer": 0.1}))
    time.sleep(60)


def _dies(program, effort, sender):
    sender.send((0, "compilation", 60, {"peer": 0.1}))
    os._exit(3)


def test_a_program_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(measure, "_child", _hangs)
    small, large = measure._rows(PROGRAMS[0], EFFORT)
    assert (small.ours, small.ratio, small.more["at_least"]) == (0.2, 2.0, True)
    assert "run: more than" in small.note
    assert large.ratio is None and "not run" in large.note


def test_a_program_whose_process_ends_is_a_failure(monkeypatch):
    monkeypatch.setattr(measure, "_child", _dies)
    small, _ = measure._rows(PROGRAMS[0], EFFORT)
    assert small.ratio is None and "status 3" in small.note


def test_the_page_has_the_worst_first_and_keeps_the_notes(tmp_path):
    first, second, third = PROGRAMS[:3]
    rows = []
    for program, ratios in ((first, (0.5, 0.6)), (second, (2.0, 3.0))):
        for size, ratio in zip(program.sizes, ratios, strict=True):
            more = {"ours_growth": 2.0, "peer_growth": 1.0, "at_least": ratio == 3}
            rows.append(
                Row("cliffs", measure.row_name(program, size), 1, ratio, "XLA", 1.0, ratio, more=more)
            )
    rows += [Row("cliffs", measure.row_name(third, size), 1, None, note="it broke") for size in third.sizes]
    old = tmp_path / "page.md"
    old.write_text(f"old\n{page.NOTES}\n\nkept\n")
    text = page.page(rows, old)
    places = [text.index(f"| {measure.title(program)} |") for program in (third, second, first)]
    assert places == sorted(places)
    assert "**>= 3.00**" in text and "| 0.50 | 0.60 |" in text and "it broke" in text
    assert "geometric mean 1.16" in text and "above 1.2: 2 of 6 rows" in text
    assert text.endswith(f"{page.NOTES}\n\nkept\n") and "old" not in text.split(page.NOTES)[0]
