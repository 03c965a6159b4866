"""The section `ops`: each op of the table at one size."""

from __future__ import annotations

from collections.abc import Iterator

from bench_lib import peers
from bench_lib.ops import Op, ops
from bench_lib.row import Effort, Row, timed
from bench_lib.timing import compare

GOAL = 2.0
"""Ops with a larger ratio to XLA's time are listed in docs/benchmarks.md."""
WORST = 4.0
"""The ratio to XLA's time that every op must stay below."""


def every_op(effort: Effort) -> Iterator[Row]:
    """A row for each op whose `group: name` contains `effort.only`."""
    for op in ops():
        if effort.only in op.title:
            yield _row(effort, op)


def _row(effort: Effort, op: Op) -> Row:
    import jax

    from axla.core.errors import AxlaError

    inputs = op.inputs()
    try:
        ours = peers.axla_function(op.text)
    except AxlaError as error:
        return Row("ops", op.title, effort.threads, None, note=str(error))
    theirs = peers.xla_function(op.text)
    try:
        wanted = theirs(*inputs)
    except jax.errors.JaxRuntimeError as error:
        alone = compare({"axla": peers.axla_call(ours, inputs)}, effort.rounds, effort.seconds / 4)
        note = f"XLA: {str(error).splitlines()[0]}"
        return Row("ops", op.title, effort.threads, alone.median("axla"), note=note)
    if op.compared:
        peers.check(op.title, ours(*inputs), wanted, op.tolerance)
    sides = {"axla": peers.axla_call(ours, inputs), "XLA": peers.xla_call(theirs, inputs)}
    times = compare(sides, effort.rounds, effort.seconds / 4)
    return timed(effort, "ops", op.title, times, "XLA", goal=GOAL)
