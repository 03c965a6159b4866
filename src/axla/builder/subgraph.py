"""Extracts the part of a computation that computes a constant, as a separate program."""

from __future__ import annotations

from axla.builder.values import boolean
from axla.hlo import CustomCall, Rng
from axla.ir.clone import clone_computation
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.structure import Parameter


def why_not_constant(root: Instruction, random: bool = False) -> Instruction | None:
    """Returns a parameter, or an op with a side effect, on which `root` depends; None if there is none, so
    that `root` is constant. If `random`, the op `rng` is allowed.
    """
    return _needed(root, boolean(random, "random"))[1]


def constant_module(root: Instruction, name: str) -> Module:
    """A program without parameters that computes `root`, which must be a constant."""
    needed, _ = _needed(root, True)
    module = Module(name)
    entry = module.add_computation(name, entry=True)
    copies: dict[Instruction, Instruction] = {}
    done: dict[Computation, Computation] = {}
    for inst in root.computation.instructions:  # in the order of a builder: operands before users
        if inst not in needed:
            continue
        op = inst.op
        for callee in op.computations():
            if callee not in done:
                done[callee] = clone_computation(callee, module, mapping=done)
        if op.computation_fields:
            op = op.with_computations(done.__getitem__)
        copies[inst] = entry.add(op, [copies[o] for o in inst.operands], inst.shape, name=inst.name)
    entry.set_root(copies[root])
    module.order_computations(lambda computation: computation is entry)
    return module


def _needed(root: Instruction, random: bool) -> tuple[dict[Instruction, None], Instruction | None]:
    needed: dict[Instruction, None] = {}
    pure: set[Computation] = set()
    stack = [root]
    while stack:
        inst = stack.pop()
        if inst in needed:
            continue
        if isinstance(inst.op, Parameter):
            return needed, inst
        reason = _effect(inst, pure, random)
        if reason is not None:
            return needed, reason
        needed[inst] = None
        stack.extend(inst.operands)
    return needed, None


def _effect(inst: Instruction, pure: set[Computation], random: bool) -> Instruction | None:
    """Returns an op that has a side effect or whose result differs between runs: `inst` itself, or an op of a
    computation that it calls. None if there is none. If `random`, the op `rng` is allowed. `pure` collects
    the computations that were searched.
    """
    stack = [inst]
    while stack:
        found = stack.pop()
        allowed = random and isinstance(found.op, Rng)
        if isinstance(found.op, CustomCall) or found.op.side_effect and not allowed:
            return found
        for callee in found.op.computations():
            if callee not in pure:
                pure.add(callee)
                stack.extend(callee.instructions)
    return None
