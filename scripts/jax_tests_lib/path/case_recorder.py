"""A pytest plugin that writes JSON lines: the list of cases, the begin and the end of each, and the end of
the run.

`JAX_TESTS_RECORD` names the file to which the lines are appended, `JAX_TESTS_DONE` a file with a JSON list of
the cases that are skipped. The plugin imports pytest only; the tests import JAX, in the order that they need.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

REPORTS: dict[str, list[pytest.TestReport]] = {}
"""The reports of the set-up, the call and the tear-down of the running case."""


def write(**line: Any) -> None:
    with open(os.environ["JAX_TESTS_RECORD"], "ab", buffering=0) as record:  # each line is written whole
        record.write(json.dumps(line).encode() + b"\n")


def case_of(nodeid: str) -> str:
    """The name of a case without its file: `Class::test`."""
    return nodeid.partition("::")[2]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    write(cases=[case_of(item.nodeid) for item in items])
    done = set(json.loads(Path(os.environ["JAX_TESTS_DONE"]).read_text(encoding="utf-8")))
    config.hook.pytest_deselected(items=[item for item in items if case_of(item.nodeid) in done])
    items[:] = [item for item in items if case_of(item.nodeid) not in done]


def pytest_runtest_logstart(nodeid: str) -> None:
    REPORTS.clear()
    write(begin=case_of(nodeid))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    REPORTS.setdefault(report.nodeid, []).append(report)


def pytest_runtest_logfinish(nodeid: str) -> None:
    reports = REPORTS.get(nodeid, [])
    by_outcome = {report.outcome: report for report in reversed(reports)}
    outcome = next((o for o in ("failed", "skipped") if o in by_outcome), "passed")
    why = "" if outcome == "passed" else reason(by_outcome[outcome])
    write(case=case_of(nodeid), outcome=outcome, seconds=round(sum(r.duration for r in reports), 2), why=why)


def reason(report: Any) -> str:
    """The beginning of the message of an error or a skip, in one line."""
    if isinstance(report.longrepr, tuple):
        text = report.longrepr[2]
    else:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr).rpartition("\nE ")[2]
    return " ".join(text.split())[:400]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        write(error=reason(report))


def pytest_sessionfinish(exitstatus: int) -> None:
    write(finished=int(exitstatus))
