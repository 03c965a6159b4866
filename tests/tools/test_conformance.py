"""scripts/conformance: its processes, its sections on a sample, its page."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from conformance_lib import page, reasons, runner, samples  # noqa: E402
from conformance_lib.corpora import NotAtHand  # noqa: E402
from conformance_lib.report import is_good, printed, totals  # noqa: E402
from conformance_lib.section import CRASHED, DIFFERS, LATE, OK, UNSUPPORTED, Outcome  # noqa: E402
from conformance_lib.sections import SECTIONS, section  # noqa: E402

from axla.core.errors import UnsupportedError  # noqa: E402


def misbehave(pipe) -> None:
    """A worker whose cases do what they are called."""
    pipe.send(None)
    while True:
        try:
            name, case, backend = pipe.recv()
        except EOFError:
            return
        if case == "crash":
            os._exit(3)
        if case == "hang":
            time.sleep(60)
        pipe.send(Outcome(name, case, backend, OK))


def test_crashes_and_hangs_are_outcomes_of_their_own_case():
    cases = ["fine", "crash", "fine too", "hang", "crash", "last"]
    tasks = [("exec", case, "cpu") for case in reversed(cases)]
    found = list(runner.Pool(tasks, 2, misbehave).outcomes(2))
    kinds = sorted((o.case, o.kind) for o in found)
    assert kinds == sorted(
        [("fine", OK), ("fine too", OK), ("last", OK), ("crash", CRASHED), ("crash", CRASHED), ("hang", LATE)]
    )
    assert "exit code 3" in next(o.detail for o in found if o.kind == CRASHED)


def test_a_reason_belongs_to_a_case_on_a_backend():
    def why(case, backend, kind="differs", section="matrix"):
        return reasons.reason(Outcome(section, case, backend, kind, "1/64 differ"))

    assert "infinity" in why("power_c64", "interpreter") and "cancels" in why("power_c64", "cpu")
    assert "blocks overflow" in why("triangular_solve_expander_test_41_c4dee1", "interpreter", section="exec")
    for unknown in (
        why("triangular_solve_expander_test_41_c4dee1", "cpu", section="exec"),
        why("power_c128", "cpu"), why("power_c64", "cpu", "crashed"),
    ):  # fmt: skip
        assert unknown.endswith(reasons.UNEXPLAINED)


@pytest.mark.corpus
def test_a_sample_of_every_section_in_processes():
    """The sample of the corpora that CI runs: some thirty cases, on every backend."""
    tasks = []
    try:
        for name in ("exec", "matrix", "models", "text", "print", "invalid", "export", "export-exec"):
            cases = section(name).cases()
            picked = cases[1 :: max(1, len(cases) // 5)]
            tasks += [(name, case, backend) for case in picked for backend in section(name).backends]
    except NotAtHand as error:
        pytest.skip(str(error))
    found = runner.run(tasks, jobs=2)
    assert len(found) == len(tasks) > 60
    wrong = [o for o in found if not is_good(o) and o.kind != UNSUPPORTED and o.section != "print"]
    assert [o for o in wrong if reasons.reason(o).endswith(reasons.UNEXPLAINED)] == []


@pytest.mark.corpus
@pytest.mark.parametrize("name", [name for name in SECTIONS if name.startswith("devices")])
def test_a_sample_of_the_sections_about_several_devices(name):
    """Nothing there has a reason to fail."""
    try:
        cases = section(name).cases()
    except NotAtHand as error:
        pytest.skip(str(error))
    for backend in section(name).backends:
        for case in cases[:: max(1, len(cases) // 5)]:
            outcome = section(name).run(case, backend)
            assert outcome.kind == OK, (case, outcome)


@pytest.mark.parametrize("opcode", ["add", "convert", "select", "reduce", "async-done", "send-done", "sort"])
def test_samples_know_their_element_types(opcode):
    from axla.core.dtypes import ALL, BF16, C64

    taken = {d for d in ALL if samples.modules_of(opcode, d)}
    assert BF16 in taken
    assert (C64 in taken) == (opcode != "sort")
    for module, inputs in samples.modules_of(opcode, BF16):
        assert any(p.shape.logical.dtype is BF16 for p in module.entry.parameters if p.shape.is_array)
        assert len(inputs) == sum(leaf.is_array for p in module.entry.parameters for leaf in p.shape.leaves())


def test_samples_run_and_say_why_not(monkeypatch):
    assert samples.sample_outcome("add", samples.F32, "cpu") == (OK, "")
    assert samples.sample_outcome("and", samples.F32, "cpu") == (samples.NOT_TAKEN, "")
    assert samples.sample_outcome("infeed", samples.F32, "cpu") == (OK, "")
    assert samples.sample_outcome("recv", samples.F32, "cpu") == (OK, "")
    assert samples.sample_outcome("set-dimension-size", samples.F32, "cpu") == (OK, "")

    def refuse(*_):
        raise UnsupportedError("add: no words")

    monkeypatch.setattr(samples, "run_fed", refuse)
    kind, detail = samples.sample_outcome("add", samples.F32, "cpu")
    assert kind == UNSUPPORTED and "add: no words" in detail


def outcomes() -> list[Outcome]:
    return [
        Outcome("exec", "one", backend, OK, pairs=("add f32", "abs s8")) for backend in page.BACKENDS
    ] + [
        Outcome("exec", "two", "interpreter", OK, pairs=("add f32",)),
        Outcome("exec", "two", "cpu", DIFFERS, "result 0: 7 vs 8", pairs=("add f32",)),
        Outcome("exec", "two", "one-lane", OK, pairs=("add f32",)),
        Outcome("matrix", "popcnt_s4", "cpu", DIFFERS, "1 of 64 differ"),
        *[Outcome("samples", "atan2 f64", backend, OK) for backend in page.BACKENDS],
        Outcome("samples", "acos c64", "interpreter", OK),
        Outcome("samples", "acos c64", "cpu", UNSUPPORTED, "acos: not defined for elements of type c64"),
        Outcome("text", "exec/three", "", UNSUPPORTED, "the op unheard-of is not implemented"),
    ]  # fmt: skip


def test_page():
    text = page.markdown(outcomes())
    rows = {line.split("]")[0][3:]: line.split(" | ") for line in text.splitlines() if line.startswith("| [")}
    cell = {
        (op, name): row[1 + page.COLUMNS.index(name)]
        for op, row in rows.items()
        for name in page.COLUMNS[:-1]
    }
    assert cell["add", "f32"] == "1/2"
    assert cell["abs", "s8"] == "1"
    assert cell["atan2", "f64"] == "+"
    assert cell["acos", "c64"] == "i"
    assert cell["acos", "f32"] == ""
    assert "### Popcnt of s4: XLA counts" in text
    assert "- `exec two` (cpu): `result 0: 7 vs 8`" in text
    assert "### Unsupported: the op unheard-of is not implemented" in text
    assert "| OP: not defined for elements of type T | cpu | acos (c64) |" in text


def test_messages_of_one_kind_are_one():
    first = "%infeed.1 = (f32[3], token[]) infeed(%a, %b): the cpu backend has no kernels with token[]"
    second = "%x = (s8[3], token[]) infeed(%token): the cpu backend has no kernels with token[]"
    assert reasons.general(first) == reasons.general(second) == "...: the cpu backend has no kernels with T"
    assert reasons.general("no such op: %send.1 = f32[] send(%x)") == "no such op"


def test_report_counts_by_section_and_backend():
    counted = {(t.section, t.backend): (t.good, t.cases, t.share) for t in totals(outcomes())}
    assert counted["exec", "cpu"] == (1, 2, "50.00 %")
    assert counted["exec", "one-lane"] == (2, 2, "100.00 %")
    assert "differs      two cpu: result 0: 7 vs 8" in printed(outcomes())


def test_every_section_is_described():
    assert set(page.WHAT) == set(SECTIONS)
