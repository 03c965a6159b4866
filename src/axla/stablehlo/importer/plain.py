"""Operations that become one op of HLO, as their records say."""

from __future__ import annotations

from collections.abc import Callable
from enum import EnumMeta
from typing import Any

from axla.foreign.counterparts import Counterpart, Field
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.stablehlo import mlir
from axla.stablehlo.attributes import ENUMERATIONS
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.importer import attributes as attr
from axla.stablehlo.importer.scope import Rule, Scope


def same(op: Op, count: int | None = None) -> Rule:
    """An operation that HLO has under another name, or the same, of `count` operands or of any number."""

    def rule(scope: Scope, operation: mlir.Operation) -> Instruction:
        return scope.add(op, scope.operands(operation, count))

    return rule


def _rule(counterpart: Counterpart) -> Rule:
    op, operands = counterpart.op, counterpart.record.operands
    count = None if any(value.variadic for value in operands) else len(operands)
    if not counterpart.fields and not op.holds_shape:
        return same(op(), count)
    readers = [(field, _reader(field)) for field in counterpart.fields if field.attribute is not None]
    regions = [(field.name, field.region) for field in counterpart.fields if field.attribute is None]

    def rule(scope: Scope, operation: mlir.Operation) -> Instruction:
        named: dict[str, Any] = {name: {} for name in counterpart.parts}
        for field, read in readers:
            value = read(operation)
            if not field.name:
                named |= value
            elif field.inner:
                named[field.name][field.inner] = value
            else:
                named[field.name] = value
        for name, number in regions:
            named[name] = scope.region(operation, number)
        for name, part in counterpart.parts.items():
            named[name] = part(**named[name])
        if op.holds_shape:
            named["shape"] = scope.whole_shape(operation)
        return scope.add(op(**named), scope.operands(operation, count))

    return rule


def _reader(field: Field) -> Callable[[mlir.Operation], Any]:
    """What reads the attribute of a field as the field has it."""
    assert field.attribute is not None
    name, kind, type_ = field.attribute.name, field.attribute.kind, field.type
    if kind[0] == "#":
        return lambda operation: attr.window_numbers(operation, name, kind[1:])
    if kind in ENUMERATIONS:
        return lambda operation: _member(operation, name, type_)
    if kind[:3] in ("i32", "i64"):
        if type_ is int:
            return lambda operation: attr.integer(operation, name)
        return lambda operation: (attr.integer(operation, name),)
    if kind == "segments":  # inputs, then what is carried along
        return lambda operation: attr.integers(operation, name)[1]
    read = {"ints": attr.integers, "bool": attr.flag, "f32": attr.number}[kind]
    return lambda operation: read(operation, name)


def _member(operation: mlir.Operation, name: str, kind: EnumMeta) -> Any:
    word = attr.word(operation, name)
    if word not in kind.__members__:
        attr.reject(operation, name, f"one of {', '.join(kind.__members__)}")
    return kind[word]


RULES: dict[str, Rule] = {name: _rule(counterpart) for name, counterpart in COUNTERPARTS.items()}
