"""Timelines for chrome://tracing and Perfetto: operations of TensorFlow, and the steps of clusters."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from axla.core.profile import Profile
from axla.tensorflow.clusters.framework import step_timeline
from axla.tensorflow.clusters.rewriting import KERNEL


def timeline(run_metadata: Any, profile: Profile | None = None) -> str:
    """The timeline, as JSON, of a step that a session ran with `RunOptions(trace_level=FULL_TRACE)`.

    `run_metadata` is TensorFlow's RunMetadata of the step. `profile` is what `axla.profile()` measured around
    it, once its block has ended: calls of clusters in their threads, and for each program a track with its
    steps. Times are microseconds since the first operation.
    """
    found = json.loads(step_timeline.Timeline(run_metadata.step_stats).generate_chrome_trace_format())
    timed = [event for event in found["traceEvents"] if "ts" in event]
    begin = min((event["ts"] for event in timed), default=0)
    for event in timed:
        event["ts"] -= begin
        if event["name"] == KERNEL.op:
            event["name"] += f" {event['args']['name']}"
    if profile is not None:
        length = max((event["ts"] + event.get("dur", 0) for event in timed), default=0)
        found["traceEvents"] += _during(profile, begin, length)
    return json.dumps(found)


def _during(profile: Profile, begin: int, length: int) -> list[dict[str, Any]]:
    """The part of a profile in the `length` microseconds from `begin`, by TensorFlow's clock. The steps of a
    program, averages over all calls, are placed at its first call. Times are whole nanoseconds: Perfetto
    drops spans that overlap after rounding.
    """
    offset = (max(time.time_ns() - time.perf_counter_ns() for _ in range(9)) - 1000 * begin) / 1e3
    spans = [{**event, "ts": round(event["ts"] + offset, 3)} for event in profile.events]
    spans = [event for event in spans if 0 <= event["ts"] <= length]
    first = {event["args"].get("run"): event["ts"] for event in reversed(spans)}
    tracks = {-1 - n: first[id(run)] for n, run in enumerate(profile.runs) if id(run) in first}
    steps = [event for event in profile.trace_events() if event["tid"] in tracks]
    steps = [{**event, "ts": round(tracks[event["tid"]] + event.get("ts", 0), 3)} for event in steps]
    name = {"name": "process_name", "ph": "M", "pid": os.getpid(), "args": {"name": "axla: clusters"}}
    return [name, *spans, *steps]
