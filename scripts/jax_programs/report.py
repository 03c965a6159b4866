"""`python report.py PROGRAM.py` runs a JAX program and prints its report as one line of JSON.

The program itself prints a JSON line at its end: its name, results, tolerances, and the seconds of first
calls and of later calls (`Timer`). The report adds, for the whole process: the seconds of compilation,
tracing and lowering as JAX reports them, wall-clock and processor seconds, and peak memory. The program is
not modified.
"""

from __future__ import annotations

import json
import resource
import runpy
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

EVENTS = {
    "/jax/core/compile/backend_compile_duration": "backend_s",
    "/jax/core/compile/jaxpr_trace_duration": "trace_s",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower_s",
}


class Timer:
    """Calls functions, and adds up the seconds of first calls and the medians of later calls."""

    def __init__(self) -> None:
        self.first_s = self.run_s = 0.0

    def __call__(self, call: Callable[..., Any], *arguments: Any, repeats: int = 5) -> Any:
        result, seconds = _timed(call, arguments)
        self.first_s += seconds
        self.run_s += statistics.median(_timed(call, arguments)[1] for _ in range(repeats))
        return result


def _timed(call: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    import jax

    start = time.perf_counter()
    result = jax.block_until_ready(call(*arguments))
    return result, time.perf_counter() - start


def finish(name: str, timer: Timer, results: dict[str, Any], rtol: float, atol: float = 0.0) -> None:
    """Prints the program's line. Results are numbers or arrays, which must agree on both sides within the
    tolerances.
    """
    import numpy as np

    values = {key: np.asarray(value, np.float64).ravel().tolist() for key, value in results.items()}
    line = {"name": name, "results": values, "rtol": rtol, "atol": atol}
    print(json.dumps(line | {"first_s": timer.first_s, "run_s": timer.run_s}))


def main(program: str, *arguments: str) -> None:
    import jax.monitoring

    seconds: dict[str, float] = defaultdict(float)
    compiled = 0

    def record(event: str, duration: float, **_: Any) -> None:
        nonlocal compiled
        if event in EVENTS:
            seconds[EVENTS[event]] += duration
            compiled += EVENTS[event] == "backend_s"

    jax.monitoring.register_event_duration_secs_listener(record)
    sys.argv = [program, *arguments]
    start = time.perf_counter()
    runpy.run_path(program, run_name="__main__")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    line = {"wall_s": time.perf_counter() - start, "cpu_s": usage.ru_utime + usage.ru_stime}
    line |= {"modules": compiled, "peak_mb": usage.ru_maxrss / 1024, **dict.fromkeys(EVENTS.values(), 0.0)}
    print(json.dumps(line | seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
