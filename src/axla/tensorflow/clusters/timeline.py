"""Timelines for chrome://tracing and Perfetto: operations of TensorFlow, and the steps of clusters."""

from __future__ import annotations

import json
import time
from typing import Any

from axla.core.profile import Profile
from axla.tensorflow.clusters.framework import step_timeline


def timeline(run_metadata: Any, profile: Profile | None = None) -> str:
    """The timeline, as JSON, of a step that a session ran with `RunOptions(trace_level=FULL_TRACE)`.

    `run_metadata` is TensorFlow's RunMetadata of the step; `profile` what `axla.profile()` measured around
    it: the calls of clusters in the threads that made them, and of each program a track with its steps.
    """
    events = json.loads(step_timeline.Timeline(run_metadata.step_stats).generate_chrome_trace_format())
    if profile is not None:
        events["traceEvents"] += _shifted(profile.trace_events())
    return json.dumps(events)


def _shifted(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events by the clock of TensorFlow's: microseconds since 1970. The steps of a program, which are means,
    are put at its first call.
    """
    offset = (time.time_ns() - time.perf_counter_ns()) / 1e3
    first: dict[str, float] = {}
    for event in events:
        if event.get("cat") == "call":
            first.setdefault(event["name"], event["ts"])
    tracks = {e["tid"]: e["args"]["name"].partition(":")[0] for e in events if e.get("name") == "thread_name"}
    found = []
    for event in events:
        if "ts" in event:
            begin = first.get(tracks.get(event["tid"], ""), 0.0) if event.get("cat") == "step" else 0.0
            event = {**event, "ts": event["ts"] + begin + offset}
        found.append(event)
    return found
