"""Fixes the order of transfers with the host (infeed, outfeed, host calls), the same for all backends."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from axla.core.errors import CompileError
from axla.hlo import CustomCall, Infeed, Outfeed
from axla.hlo.transfer import receives_last
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.traverse import computations_callees_first, running_order

Kinds = frozenset[type[Op]]


def effect_order(module: Module) -> None:
    """Adds control edges between instructions with effects, and between calls of computations with effects,
    in the order in which the interpreter runs them. Raises CompileError if the program does not define the
    order of two infeeds, or of two outfeeds.
    """
    holding: dict[Computation, Kinds] = {}
    every = (inst.op for computation in module.computations for inst in computation.instructions)
    elsewhere = {c for op in every if isinstance(op, CustomCall) for c in op.computations()}
    for computation in computations_callees_first(module):
        events = {i: kinds for i in computation.instructions if (kinds := _kinds(i, holding))}
        if not events:
            continue
        holding[computation] = frozenset().union(*events.values())
        order = receives_last(running_order(computation))
        if computation not in elsewhere and not module.config.is_scheduled:
            for queue in (Infeed, Outfeed):
                for pair in _unordered(order, {i for i, kinds in events.items() if queue in kinds}):
                    _refuse(queue.opcode, pair)
        for first, second in list(_unordered(order, events)):
            before = (*second.extra.control_predecessors, first)
            computation.set_extra(second, replace(second.extra, control_predecessors=before))


def _kinds(inst: Instruction, holding: Mapping[Computation, Kinds]) -> Kinds:
    """The classes of ops with ordered effects that an instruction runs. An infeed without arrays is not
    counted. `holding` has the classes that each computation runs.
    """
    op = inst.op
    if op.in_order and op.side_effect:
        nothing = isinstance(op, Infeed) and all(leaf.is_token for leaf in op.shape.leaves())
        return frozenset(() if nothing else (type(op),))
    called = op.computations() if op.computation_fields else ()
    return frozenset().union(*(holding[c] for c in called if c in holding))


def _refuse(opcode: str, pair: Sequence[Instruction]) -> NoReturn:
    lines = [f"{inst!r}\n  at {inst.extra.location}" if inst.extra.location else f"{inst!r}" for inst in pair]
    raise CompileError(
        "\n".join(lines) + f"\n  the order of these two is not defined; a program must order all its "
        f"{opcode}s: pass the token of one to the other  [{opcode}_order]"
    )


def _unordered(
    order: Sequence[Instruction], events: Container[Instruction]
) -> Iterator[tuple[Instruction, Instruction]]:
    """Yields each pair of successive events in `order` of which the second does not depend on the first.
    `events` has the instructions that are events.
    """
    # the number of events that an instruction waits for, with itself if it is one
    after: dict[Instruction, int] = {}
    last: Instruction | None = None
    count = 0
    for inst in order:
        seen = max((after[p] for p in (*inst.operands, *inst.extra.control_predecessors)), default=0)
        if inst in events:
            if last is not None and seen != count:
                yield last, inst
            last, count = inst, count + 1
            seen = count
        after[inst] = seen
