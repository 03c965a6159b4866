"""The table of ops that `scripts/bench --ops` times."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.core.shape import Shape

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from bench_lib import report
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


def test_fields_of_a_protocol_buffer() -> None:
    data = bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69, 0x18, 0x01])
    assert list(_fields(data)) == [(1, 150), (2, b"hi"), (3, 1)]
