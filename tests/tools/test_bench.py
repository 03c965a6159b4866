"""The parts of `scripts/bench`: the table of ops, rows and tables, programs compiled ahead of time."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.core.shape import Shape

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from bench_lib import aot, aot_peers, report
from bench_lib.models import _fields
from bench_lib.ops import Op, ops
from bench_lib.row import Effort, Row, sized, timed
from bench_lib.timing import Times


@pytest.mark.parametrize("op", list(ops()), ids=lambda op: op.title)
def test_a_row_of_the_table_is_a_module_and_its_values_fit(op: Op) -> None:
    module = axla.parse(op.text)
    wanted = [p.shape for p in module.entry.parameters]
    assert len(wanted) == len(op.parameters)
    if sum(shape.size for shape in wanted if isinstance(shape, Shape)) < 1 << 16:
        for shape, found in zip(wanted, op.inputs(), strict=True):
            assert isinstance(shape, Shape)
            assert (found.shape, found.dtype) == (shape.dims, np.dtype(shape.dtype.numpy))


def test_titles_are_unique() -> None:
    titles = [op.title for op in ops()]
    assert len(titles) == len(set(titles))


def test_ratios_are_taken_inside_rounds() -> None:
    times = Times({"axla": [1.0, 4.0, 9.0], "XLA": [2.0, 2.0, 3.0]})
    row = timed(Effort(1, 3, 0.1), "ops", "x", times, "XLA", goal=2.0)
    assert (row.ratio, row.best_ratio) == (2.0, 0.5)
    assert report.line(row).endswith("2.0")  # not above the goal


def test_rows_of_bytes_are_shown_as_bytes() -> None:
    row = sized(Effort(1, 3, 0.1), "models", "x", 3 << 20, "XLA", 1 << 20, goal=1.2)
    assert "3 MiB" in report.line(row) and report.line(row).endswith("<<")
    assert Row(**row.as_json()) == row


def test_a_table_has_columns_for_every_peer() -> None:
    effort, times = Effort(1, 1, 0.1), Times({"axla": [2e-6], "JIT": [1e-6], "IREE": [4e-6]})
    rows = [timed(effort, "aot", "x", times, peer, goal=1.1) for peer in ("JIT", "IREE")]
    rows.append(timed(effort, "aot", "y", times, "IREE"))
    lines = report.markdown(rows).splitlines()
    assert lines[0] == "| aot, threads | axla, 1 | JIT, 1 | ratio | IREE, 1 | ratio |"
    assert lines[2:4] == ["| x | 2 us | 1 us | **2.00** | 4 us | 0.50 |", "| y | 2 us |  |  | 4 us | 0.50 |"]


@pytest.fixture
def threads() -> Iterator[None]:
    """The section runs on one thread."""
    before = axla.num_threads()
    yield
    axla.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_an_object_is_timed_beside_the_jit_and_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax")
    monkeypatch.delenv(aot_peers.VARIABLE, raising=False)
    rows = list(aot.aot(Effort(1, 2, 0.001, "matmul")))
    timing, limit, *targets = rows
    assert (timing.section, timing.peer_name, timing.unit) == (aot.SPEED, "JIT", "s")
    assert timing.ours is not None and timing.peer is not None and 0 < timing.ours < 1e-3
    assert (limit.name, limit.peer) == ("matmul, object", 2560)
    assert limit.ratio is not None and limit.ratio < 1
    assert [row.name for row in targets] == ["aarch64", "cortex-m4f"]
    assert all(row.ours and row.ours < limit.ours for row in targets if limit.ours)
    assert f"{aot_peers.VARIABLE} is not set" in capsys.readouterr().err


def test_results_that_differ_are_not_timed() -> None:
    model = aot.Model("x", "", [])
    zeros, other = np.zeros(4, np.uint8), np.array([0, 0, 0, 1], np.uint8)
    aot._check(model, [zeros], [zeros.copy()])
    with pytest.raises(AssertionError, match="result 0 of the object is not the JIT's"):
        aot._check(model, [zeros], [other])


def test_peers_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(aot_peers.VARIABLE, str(tmp_path / "python"))
    assert aot_peers.peers() == f"{aot_peers.VARIABLE}: there is no {tmp_path / 'python'}"
    program = aot_peers.StableHlo(b"", "", [], [])
    with pytest.raises(aot_peers.PeerFailure, match="iree-compile"):
        aot_peers.Peers(tmp_path / "python").iree(program)


def test_fields_of_a_protocol_buffer() -> None:
    data = bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69, 0x18, 0x01])
    assert list(_fields(data)) == [(1, 150), (2, b"hi"), (3, 1)]
