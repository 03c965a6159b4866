"""Profiles as data for a page."""

from __future__ import annotations

from typing import Any

from axla.core.profile import Profile, Row, machine_limits

MOST_SPANS = 5000
"""The most spans that a timeline shows: the longest ones."""


def of_profile(profile: Profile) -> dict[str, Any]:
    """The page's data about a profile: for each program its rows in program order, with their times on each
    device. Time that calls spent outside of steps is a row too.
    """
    runs = []
    for run in profile.runs:
        rest = next(step for step in run.steps if step.row.kind == _CALLS)
        counted = [*run.counts(), (rest.row, rest.ns, rest.calls)]
        runs.append({
            "program": run.program, "backend": run.backend, "calls": run.calls, "ns": run.ns,
            "rows": [[*_facts(row), ns, calls] for row, ns, calls in counted],
            "devices": [[ns for _, ns, _ in counts()] for counts in run.devices],
        })  # fmt: skip
    return {"runs": runs, "spans": _spans(profile.events), "machine": machine_limits()}


_CALLS = "arguments, results, waiting"


def _facts(row: Row) -> list[Any]:
    return [row.step, row.kind, row.bytes, row.operations, row.location, row.parallel]


def _spans(events: list[dict[str, Any]]) -> list[list[Any]]:
    """The name, category, thread, start and length of each event. Times are in microseconds; the first event
    starts at 0.
    """
    longest = sorted(events, key=lambda event: -event["dur"])[:MOST_SPANS]
    start = min((event["ts"] for event in longest), default=0)
    return sorted(
        ([e["name"], e["cat"], e["tid"], e["ts"] - start, e["dur"]] for e in longest),
        key=lambda span: span[3],
    )
