"""Unrolls loops by two where the next value of an array cannot overwrite the current one.

The first of the two trips writes into other memory, the second one back, so that nothing is copied between
them.
"""

from __future__ import annotations

from axla.analysis.coalesce import coalesce
from axla.analysis.dataflow import CopyPlace, dataflow
from axla.analysis.trip_count import trip_count
from axla.hlo import Call, Conditional, Fusion, While
from axla.ir.clone import own_computations
from axla.ir.graph import Computation, Module
from axla.ir.typed import op_of
from axla.passes import rewrite
from axla.passes.schedule.order import schedule
from axla.passes.simplify.dce import effectful_computations, has_effect, remove_dead_computations
from axla.passes.simplify.unroll import body_size, unroll
from axla.target.machine import Target

MOST_DOUBLED = 100
"""The largest number of instructions of a body that is unrolled, with those of the computations that it
calls.
"""


def double_buffer_loop_unrolling(module: Module, target: Target) -> None:
    """Unrolls loops by two if the trip count is known and each trip would end with a copy."""
    session = rewrite.current_session()
    failed = coalesce(dataflow(module, target.limits), reuse=False).failed
    loops = dict.fromkeys(e.at for e in failed if e.place is CopyPlace.BACK and isinstance(e.at.op, While))
    effectful: frozenset[Computation] | None = None
    changed = False
    for inst in loops:
        trips = trip_count(inst)
        if trips is None or trips < 4 or body_size(op_of(inst, While).body) > MOST_DOUBLED:
            continue
        effectful = effectful_computations(module) if effectful is None else effectful
        if inst in rewrite.control_bound(inst.computation) or has_effect(inst, effectful):
            continue
        if not session.may_fire("double-buffer-loop-unrolling", inst):
            break
        unroll(inst, trips, 2)
        changed = True
    if changed:
        remove_dead_computations(module)
        own_computations(module, (While, Conditional, Call, Fusion))
        schedule(module, target)
