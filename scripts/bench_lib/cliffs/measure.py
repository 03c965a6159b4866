"""The section `cliffs`. Each program runs in a process of its own, so that none can stop the survey."""

from __future__ import annotations

import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from bench_lib.cliffs import PROGRAMS, Program
from bench_lib.row import Effort, Row
from bench_lib.timing import Times, compare

GOAL = 1.2
"""The largest ratio to XLA's time that a program may have."""
FIRST, COMPILE, RUN, TIMING = 120.0, 60.0, 10.0, 120.0
"""Limits in seconds: of XLA's first call, of axla's compilation, of a run, and of the timing."""
SLOW = 0.5
"""Calls that take more seconds than this are timed only once."""
TOLERANCES = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4, "float16": 1e-2}
WIDEST = 2e-2  # tolerance of narrower types


def survey(effort: Effort) -> Iterator[Row]:
    """A row per size for each program whose `kind: name` contains `effort.only`."""
    for program in PROGRAMS:
        if effort.only in title(program):
            yield from _rows(program, effort)


def title(program: Program) -> str:
    return f"{program.kind}: {program.name}"


def row_name(program: Program, size: int) -> str:
    return f"{title(program)} [{size}]"


def sides(program: Program, size: int) -> tuple[Callable[..., Any], tuple[Any, ...], Any, tuple[Any, ...]]:
    """Returns the program compiled by axla, its arguments, the program compiled by stock JAX, and its
    arguments. JAX must have x64 on or off as the program needs it.
    """
    import jax

    import axla
    import axla.jax

    function, arrays = program.make(size)
    ours = jax.tree.map(axla.device_put, arrays)
    return axla.jax.jit(function, results="axla"), ours, jax.jit(function), jax.device_put(arrays)


def difference(found: Any, wanted: Any, tolerance: float | None) -> float:
    """The largest difference between results, divided by the tolerance. It is relative to the largest
    element; for integers it is the part of the elements that differ.
    """
    import jax

    leaves = jax.tree.leaves(found), jax.tree.leaves(wanted)
    if len(leaves[0]) != len(leaves[1]):
        return math.inf
    return max(
        (array_difference(np.asarray(a), np.asarray(b), tolerance) for a, b in zip(*leaves, strict=True)),
        default=0,
    )


def array_difference(a: np.ndarray, b: np.ndarray, tolerance: float | None) -> float:
    """The difference between two arrays, as `difference` defines it; infinite if they cannot be compared."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    if b.dtype.kind in "biu":
        wrong = float(np.mean(a != b)) if a.size else 0.0
        return wrong / tolerance if tolerance else math.inf * wrong if wrong else 0.0
    allowed = tolerance or TOLERANCES.get(b.dtype.name, WIDEST)
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return math.inf
    scale = np.max(np.abs(b[finite]), initial=0) or 1.0
    return float(np.max(np.abs(a[finite] - b[finite]), initial=0) / scale / allowed)


def _rows(program: Program, effort: Effort) -> list[Row]:
    """Runs a program in a child process, which sends its results step by step, and kills the child if a step
    takes too long.
    """
    fork = multiprocessing.get_context("fork")  # it keeps the imported modules; JAX has no threads yet
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_child, args=(program, effort, sender))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns about forks
        child.start()
    sender.close()
    found: list[dict[str, Any]] = [{}, {}]
    place, stage, limit = 0, "start", FIRST
    try:
        while True:
            if not receiver.poll(limit):
                found[place]["note"] = f"{stage}: more than {limit:.0f} s"
                if stage == "run":
                    found[place] |= {"ours": limit, "at_least": True}
                break
            place, stage, limit, new = receiver.recv()
            found[place] |= new
    except EOFError:
        child.join()
        if stage != "end":
            found[place]["note"] = f"{stage}: the process ended with status {child.exitcode}"
    finally:
        child.kill()
        child.join()
    return [_row(program, effort, found, place) for place in (0, 1)]


def _row(program: Program, effort: Effort, found: list[dict[str, Any]], place: int) -> Row:
    known = found[place]
    ours, peer = known.get("ours"), known.get("peer")
    ratio = known.get("ratio", ours / peer if ours and peer else None)
    more = {key: known[key] for key in ("compile", "peer_compile", "at_least", "differs") if key in known}
    notes = [known["note"]] if "note" in known else []
    if known.get("differs", 0) > 1:
        notes.append(f"results differ, {known['differs']:.2g} times what is allowed")
    for side in ("ours", "peer") if place else ():
        if side in found[0] and side in found[1]:
            more[f"{side}_growth"] = found[1][side] / found[0][side]
    if "ours_growth" in more and "peer_growth" in more:
        notes.append(f"grows {more['ours_growth']:.3g} times, XLA's {more['peer_growth']:.3g}")
    if not known:
        notes.append("not run: the smaller size was not done")
    return Row(
        "cliffs", row_name(program, program.sizes[place]), effort.threads, ours, "XLA", peer, ratio,
        known.get("best_ratio", ratio), GOAL, "; ".join(notes), more=more,
    )  # fmt: skip


def _child(program: Program, effort: Effort, sender: Connection) -> None:
    """Measures both sizes. Each message has: number of the size, next stage, its limit in seconds, new
    results.
    """
    import jax

    jax.config.update("jax_enable_x64", program.x64)
    stage = "start"

    def say(place: int, now: str, limit: float, **new: Any) -> None:
        nonlocal stage
        stage = now
        sender.send((place, now, limit, new))

    for place, size in enumerate(program.sizes):
        try:
            _measure(program, size, effort, lambda *a, place=place, **new: say(place, *a, **new))
        except Exception as error:
            text = f"{stage}: {type(error).__name__}: {error}".splitlines()[0][:200]
            say(place, "end", TIMING, note=text)


def _measure(program: Program, size: int, effort: Effort, say: Callable[..., None]) -> None:
    import jax

    say("first call of XLA", FIRST)
    ours, our_arrays, theirs, their_arrays = sides(program, size)
    calls = {
        "axla": lambda: jax.block_until_ready(ours(*our_arrays)),
        "XLA": lambda: jax.block_until_ready(theirs(*their_arrays)),
    }
    wanted, first = _timed(calls["XLA"])
    _, peer = _timed(calls["XLA"])
    say("compilation", COMPILE, peer=peer, peer_compile=first)
    _, compile_seconds = _timed(lambda: ours.compiled(*our_arrays))
    say("run", RUN, compile=compile_seconds)
    found, seconds = _timed(calls["axla"])
    say("run", RUN, ours=seconds, compile=compile_seconds + seconds)
    differs = difference(found, wanted, program.tolerance)
    _, seconds = _timed(calls["axla"])
    say("timing", TIMING, ours=seconds, differs=differs)
    if max(seconds, peer) < SLOW:
        times = compare(calls, effort.rounds, effort.seconds / 2)
    else:
        times = Times({"axla": [seconds], "XLA": [peer]})
    say(
        "end", TIMING, ours=times.median("axla"), peer=times.median("XLA"),
        ratio=times.ratio("axla", "XLA"), best_ratio=times.best_ratio("axla", "XLA"),
    )  # fmt: skip


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start
