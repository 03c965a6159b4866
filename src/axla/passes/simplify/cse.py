"""Common subexpression elimination."""

from __future__ import annotations

from axla.core.literal import Literal
from axla.core.shape import AnyShape
from axla.hlo import CustomCall
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.structure import Constant, Parameter
from axla.ir.traverse import post_order
from axla.passes import rewrite
from axla.passes.simplify.dce import effectful_computations, has_effect

Key = tuple[Op | Literal, tuple[int, ...], AnyShape, str]


def cse(module: Module) -> None:
    """Merges instructions with equal op, operands and shape, unless they have effects."""
    effectful = effectful_computations(module)
    for computation in module.computations:
        _one_of_each(computation, effectful)


def _one_of_each(computation: Computation, effectful: frozenset[Computation]) -> None:
    session = rewrite.current_session()
    bound = rewrite.control_bound(computation)
    seen: dict[Key, Instruction] = {}
    forward: dict[Instruction, Instruction] = {}
    for inst in post_order(computation):
        op = inst.op
        if type(op) is Parameter or inst in bound or has_effect(inst, effectful):
            continue
        key: Key
        if type(op) is Constant:
            key = (op.literal, (), inst.shape, "")  # the literal caches its hash
        else:
            operands = [forward.get(o, o).id for o in inst.operands]
            if op.commutative and len(operands) == 2:
                operands.sort()
            # The behaviour of a custom call depends on its configuration, which is not part of its op.
            more = inst.extra.backend_config if type(op) is CustomCall else ""
            key = (op, tuple(operands), inst.shape, more)
        first = seen.setdefault(key, inst)
        if first is inst or not session.may_fire("cse", inst):
            continue
        forward[inst] = first
    if forward:
        rewrite.replace_all(computation, forward)
        for inst in reversed(forward):
            computation.remove(inst)
