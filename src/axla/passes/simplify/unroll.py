"""Unrolls loops with few trips.

Two trips are always cheaper than a loop, if the body is small. More trips pay if a body has dots: these stay
separate kernels, and the slices that they read are then at known positions, so that nothing is copied for
them. Elementwise bodies gain nothing: all trips become one kernel with long chains of dependent operations,
which is slower than reading the cache again (8 trips of 7 operations on 100,000 elements: 0.23 instead of
0.07 ms).

A while with the frontend attribute `unroll_factor` is unrolled by that factor, with the remaining trips
before the loop; `full` unrolls all trips.
"""

from __future__ import annotations

from dataclasses import replace

from axla.analysis.trip_count import trip_count
from axla.hlo import Convolution, Dot, Tuple, While
from axla.ir.clone import called_first, copy_instructions, inline
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Parameter
from axla.ir.traverse import computations_callees_first
from axla.ir.typed import op_of
from axla.passes import rewrite
from axla.passes.simplify.carries import elements_of
from axla.passes.simplify.dce import effectful_computations, has_effect, remove_dead_computations

FEW = 2
"""The most trips of a loop that is unrolled whatever its body computes."""
MOST = 8
"""The most trips of a loop that is unrolled if its body has dots or convolutions."""
COPIED = 200
"""The most instructions that an unrolled loop may have."""
ASKED = 10_000
"""The most instructions of an unrolled trip if the program requests unrolling: the factor times those of the
body.
"""
GROWTH = 50_000
"""The most instructions that all unrolled loops of a module may add."""


def while_loop_unroller(module: Module) -> None:
    """Unrolls loops with few trips, and other loops by the factor that the program requests."""
    session = rewrite.current_session()
    effectful: frozenset[Computation] | None = None
    left, changed = GROWTH, False
    for computation in computations_callees_first(module):
        loops = [i for i in computation.instructions if type(i.op) is While]
        bound = rewrite.control_bound(computation) if loops else frozenset()
        for inst in loops:
            trips = None if inst in bound else trip_count(inst)
            factor = None if trips is None else _factor(inst, trips)
            if trips is None or factor is None:
                continue
            effectful = effectful_computations(module) if effectful is None else effectful
            size = (factor + trips % factor if factor else 0) * body_size(op_of(inst, While).body)
            if size > left or has_effect(inst, effectful):
                continue
            if not session.may_fire("while-loop-unroller", inst):
                break
            unroll(inst, trips, factor)
            left -= size
            changed = True
    if changed:
        remove_dead_computations(module)


def _factor(inst: Instruction, trips: int) -> int | None:
    """The number of trips that become one trip; None for a loop that is not unrolled."""
    body = op_of(inst, While).body
    if trips <= 1:
        return trips
    asked = dict(inst.extra.frontend_attributes).get("unroll_factor", "")
    if asked == "full" or asked.isdecimal():
        factor = trips if asked == "full" or len(asked) > len(str(trips)) else min(trips, int(asked))
        return factor if factor > 1 and factor * body_size(body) <= ASKED else None
    if trips > MOST or trips * len(body.instructions) > COPIED:
        return None
    pays = trips <= FEW or any(type(i.op) in (Dot, Convolution) for i in body.instructions)
    return trips if pays and trips * body_size(body) <= COPIED else None


def body_size(body: Computation) -> int:
    """The number of instructions that a trip runs, with those of called computations."""
    return sum(len(c.instructions) for c in called_first(body))


def unroll(inst: Instruction, trips: int, factor: int) -> None:
    """Makes `factor` trips of a loop one trip; remaining trips come before the loop. A factor of 0 unrolls
    all trips.
    """
    computation, op = inst.computation, op_of(inst, While)
    value = inst.operands[0]
    for _ in range(trips if factor in (0, trips) else trips % factor):
        value = inline(inst, op.body, [value])
    if factor not in (0, trips):
        attributes = tuple(one for one in inst.extra.frontend_attributes if one[0] != "unroll_factor")
        extra = replace(inst.extra, frontend_attributes=attributes)
        value = computation.add(replace(op, body=_repeated(op.body, factor)), (value,), extra=extra)
    computation.replace(inst, value)
    computation.remove(inst)


def _repeated(body: Computation, factor: int) -> Computation:
    """A new body that does the work of `factor` trips."""
    made = body.module.add_computation(body.name)
    value = made.add(Parameter(body.parameters[0].shape, 0), name=body.parameters[0].name)
    for _ in range(factor):
        known = {body.parameters[0]: value}
        if isinstance(value.op, Tuple):  # reads elements directly, so that a counter is seen to count
            known |= {part: value.operands[n] for n, part in elements_of(body.parameters[0])}
        value = copy_instructions(body, made, known)[body.root]
    made.set_root(value)
    return made
