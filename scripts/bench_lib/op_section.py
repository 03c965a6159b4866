"""The section `ops`: every op of the table at its size."""

from __future__ import annotations

from collections.abc import Iterator

from bench_lib import peers
from bench_lib.ops import Op, ops
from bench_lib.row import Effort, Row, timed
from bench_lib.timing import compare

GOAL = 2.0
"""Times XLA's time above which an op is on the list of docs/benchmarks.md."""
WORST = 4.0
"""The ratio to XLA's time that no op may reach."""


def every_op(effort: Effort) -> Iterator[Row]:
    """All ops whose `group: name` has `effort.only` in it."""
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
