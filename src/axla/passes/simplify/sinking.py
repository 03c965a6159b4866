"""Moves constants into loops, and values that are cheaper to compute again than to read.

A loop that carries a constant array reads it from memory in every trip, and the values are unknown in its
body. If the array is created in the body, it becomes part of the kernels that read it. `loop_motion.py` moves
values in the other direction by the same criterion, so that neither pass undoes the other.
"""

from __future__ import annotations

from axla.core.shape import Shape
from axla.hlo import Iota, Reduce, While
from axla.ir.graph import Instruction, Module
from axla.ir.structure import Constant
from axla.ir.traverse import computations_callees_first, needed_first
from axla.passes import rewrite
from axla.passes.simplify.carries import Loop, elements_of, rebuilt
from axla.passes.simplify.dce import remove_dead_computations
from axla.passes.simplify.loop_motion import Invariants

LONGEST = 8  # the most instructions that compute a value


def while_loop_fusible_sinking(module: Module) -> None:
    """Makes loops create constants, and values computed from small constants or iotas, in the body instead of
    carrying them.
    """
    session = rewrite.current_session()
    changed = False
    for computation in computations_callees_first(module):
        loops = [i for i in computation.instructions if type(i.op) is While]
        bound = rewrite.control_bound(computation) if loops else frozenset()
        for inst in loops:
            loop = Loop.of(inst) if inst not in bound else None
            if loop is None:
                continue
            made = {n: loop.init[n] for n in loop.unchanged if why_carry(loop, n) is None}
            if made and session.may_fire("while-loop-fusible-sinking", inst):
                rebuilt(loop, dropped=made, constants=made)
                changed = True
    if changed:
        remove_dead_computations(module)


def why_carry(loop: Loop, number: int) -> str | None:
    """The reason to carry an element that the loop does not change; None if it is better created in the
    body.
    """
    value = loop.init[number]
    if type(value.op) is Constant:
        return None if value.shape.is_array else "it is not an array"
    read = [u for n, e in elements_of(loop.body.parameters[0]) if n == number for u in e.users]
    if not all(u.op.elementwise or type(u.op) is Reduce or u is loop.body.root for u in read):
        return "an instruction that reads it needs it in memory"
    order = _tree(value)
    if order is None:
        return "it takes too many instructions, or is not constant"
    found = Invariants()
    for inst in order:
        found.add(inst)
    return "computing it takes longer than reading it" if found.why_stay(value) is None else None


def _tree(value: Instruction) -> list[Instruction] | None:
    """The instructions that compute a value from constants and iotas; None if there are too many, or if one
    depends on another value.
    """
    seen, stack = {value}, [value]
    while stack:
        inst = stack.pop()
        op = inst.op
        plain = op.elementwise or op.moves or op.free and not op.passes_on or type(op) in (Constant, Iota)
        if (
            not plain
            or op.side_effect
            or not isinstance(inst.shape, Shape)
            or inst.extra.control_predecessors
        ):
            return None
        if not inst.operands and type(op) not in (Constant, Iota):
            return None
        new = [o for o in inst.operands if o not in seen]
        seen.update(new)
        stack += new
        if len(seen) > LONGEST:
            return None
    return needed_first((value,), lambda inst: inst.operands)
