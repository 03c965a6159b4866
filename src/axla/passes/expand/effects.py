"""The order of transfers with the host (infeed, outfeed, host calls), the same for all backends."""

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
    """Adds control edges between instructions with effects, and calls of computations with effects, in the
    order in which the interpreter runs them. Raises CompileError for infeeds, or outfeeds, whose order the
    program does not define.
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
    """The kinds of effects that an instruction has. An infeed without arrays reads nothing."""
    op = inst.op
    if op.in_order and op.side_effect:
        nothing = isinstance(op, Infeed) and all(leaf.is_token for leaf in op.shape.leaves())
        return frozenset(() if nothing else (type(op),))
    called = op.computations() if op.computation_fields else ()
    return frozenset().union(*(holding[c] for c in called if c in holding))


def _refuse(opcode: str, pair: Sequence[Instruction]) -> NoReturn:
    lines = [f"{inst!r}\n  at {inst.extra.location}" if inst.extra.location else f"{inst!r}" for inst in pair]
    raise CompileError(
        "\n".join(lines) + f"\n  nothing says which of these is first; a program needs a total order of its "
        f"{opcode}s: pass the token of one to the other  [{opcode}_order]"
    )


def _unordered(
    order: Sequence[Instruction], events: Container[Instruction]
) -> Iterator[tuple[Instruction, Instruction]]:
    """The neighbours in `order` of which the second does not depend on the first."""
    after: dict[Instruction, int] = {}  # how many events, the last of them included, come before
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
