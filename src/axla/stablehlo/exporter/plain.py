"""Ops of HLO that become one operation, as the records of operations say."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from axla.foreign.counterparts import Counterpart, Field
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.stablehlo import mlir
from axla.stablehlo.attributes import ENUMERATIONS, STRUCTURES
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.exporter.scope import Rule, Scope, Tree
from axla.stablehlo.exporter.types import I32, I64, number, numbers, struct


def _rule(counterpart: Counterpart) -> Rule:
    name = counterpart.record.name
    if not counterpart.fields:

        def plain(scope: Scope, inst: Instruction, op: Op) -> Tree:
            return scope.emit(name, scope.ones(inst), [scope.exporter.type(inst.shape)])[0]

        return plain
    writers = [(f.attribute.name, _writer(f)) for f in counterpart.fields if f.attribute is not None]
    regions = [attrgetter(f.name) for f in counterpart.fields if f.attribute is None]

    def rule(scope: Scope, inst: Instruction, op: Op) -> Tree:
        attributes = {attribute: write(op, inst) for attribute, write in writers}
        inner = [scope.region(called(op)) for called in regions]
        return scope.add(name, scope.ones(inst), inst.shape, attributes, inner)

    return rule


def _writer(field: Field) -> Callable[[Any, Instruction], Any]:
    """What makes the attribute of an op's field."""
    assert field.attribute is not None
    name, kind = field.attribute.name, field.attribute.kind
    if kind[0] == "#":
        mnemonic = kind[1:]
        return lambda op, inst: struct(mnemonic, **{part: getattr(op, part) for part in STRUCTURES[mnemonic]})
    get = attrgetter(f"{field.name}.{field.inner}" if field.inner else field.name)
    if kind in ENUMERATIONS:
        return lambda op, inst: mlir.EnumAttr(kind, get(op).name)
    if kind[:3] in ("i32", "i64"):
        width = I32 if kind[:3] == "i32" else I64
        return lambda op, inst: number(get(op) if field.type is int else get(op)[0], width)
    if kind == "f32":
        return lambda op, inst: mlir.FloatAttr(np.float32(get(op)), mlir.FloatType("f32"))
    if kind == "segments":
        return lambda op, inst: _segments(inst, get(op), name)
    return (lambda op, inst: numbers(get(op))) if kind == "ints" else lambda op, inst: get(op)


def _segments(inst: Instruction, carries: int, name: str) -> mlir.DenseArray:
    """How many operands, or results, there are before those that are carried along."""
    of_operands = name.startswith("operand")
    count = len(inst.operands) if of_operands else sum(1 for _ in inst.shape.leaves())
    return mlir.DenseArray(I32, (count - carries, carries))


RULES: dict[str, Rule] = {}
for _counterpart in COUNTERPARTS.values():
    RULES.setdefault(_counterpart.op.opcode, _rule(_counterpart))
