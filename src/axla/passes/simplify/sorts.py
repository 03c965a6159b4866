"""Removes operands of sorts."""

from __future__ import annotations

from dataclasses import replace

from axla.hlo import Sort
from axla.ir.clone import copy_instructions
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import GetTupleElement, Parameter, Tuple
from axla.ir.typed import op_of, shape_of
from axla.passes import rewrite
from axla.passes.simplify.carries import elements_of, only_elements


def simplify_sorts(module: Module) -> None:
    """Removes operands of sorts if neither the comparator nor a later instruction needs them, and sorts of
    single elements.
    """
    session = rewrite.current_session()
    for computation in tuple(module.computations):
        found = [i for i in computation.instructions if type(i.op) is Sort]
        bound = rewrite.control_bound(computation) if found else frozenset()
        for inst in found:
            if inst in bound or any(shape_of(o).is_dynamic for o in inst.operands):
                continue
            dims = shape_of(inst.operands[0]).dims
            if not dims or dims[op_of(inst, Sort).dimension] <= 1:
                if session.may_fire("simplify-sorts", inst):
                    same = inst.operands[0] if inst.shape.is_array else Tuple()(*inst.operands)
                    computation.replace(inst, same)
                    computation.remove(inst)
                continue
            kept = _needed(inst)
            if 0 < len(kept) < len(inst.operands) and session.may_fire("simplify-sorts", inst):
                _without(inst, kept)


def _needed(inst: Instruction) -> list[int]:
    """The numbers of the operands that a sort compares, or whose sorted elements are read."""
    everything = list(range(len(inst.operands)))
    if inst.shape.is_array or inst is inst.computation.root or not only_elements(inst):
        return everything
    order, wanted = op_of(inst, Sort).to_apply, {n for n, _ in elements_of(inst)}
    used = [p for p in order.parameters if p.users or p is order.root]
    return sorted(wanted | {op_of(p, Parameter).parameter_number // 2 for p in used})


def _without(inst: Instruction, kept: list[int]) -> None:
    """Replaces a sort by one with only the operands in `kept`."""
    computation, op = inst.computation, op_of(inst, Sort)
    order = _of_parameters(op.to_apply, [2 * n + side for n in kept for side in range(2)])
    operands = [inst.operands[n] for n in kept]
    new = computation.add(replace(op, to_apply=order), operands, name=inst.name, extra=inst.extra)
    for n, user in elements_of(inst):
        part = new if len(kept) == 1 else GetTupleElement(kept.index(n))(new)
        computation.replace(user, part)
        computation.remove(user)
    computation.remove(inst)


def _of_parameters(source: Computation, numbers: list[int]) -> Computation:
    """Copies a computation with only the parameters `numbers`; it does not use the others."""
    target = source.module.add_computation(source.name)
    values = {
        source.parameters[n]: target.add(Parameter(source.parameters[n].shape, place))
        for place, n in enumerate(numbers)
    }
    wanted = set(source.instructions) - set(source.parameters)
    target.set_root(copy_instructions(source, target, values, wanted)[source.root])
    return target
