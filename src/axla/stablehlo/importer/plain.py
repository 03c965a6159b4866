"""Imports operations that become a single HLO op, as their records say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from itertools import cycle
from typing import Any

from axla.importers.counterparts import Counterpart
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.stablehlo import mlir
from axla.stablehlo.conversions import combined, computed_types, conversion
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.importer.scope import ImportRule, ImportScope


def fields_of(counterpart: Counterpart) -> Callable[..., dict[str, Any]]:
    """Returns a function that reads the fields of an op from the attributes of an operation. A field whose
    attribute is missing keeps its default. The function's `parts` are more values for fields of structures.
    """
    read = [
        (f, f.attribute.name, f.attribute.optional and f.default is not MISSING, conversion(f).read)
        for f in counterpart.fields
        if f.attribute is not None
    ]

    def fields(scope: ImportScope, said: dict[str, Any], **parts: dict[str, Any]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for field, attribute, optional, read_one in read:
            if optional and attribute not in said:
                continue
            value = read_one(said, attribute, scope.importer.source)
            if not field.name:
                named |= value
            elif field.inner:
                parts.setdefault(field.name, {})[field.inner] = value
            else:
                named[field.name] = value
        for name, given in parts.items():
            named[name] = counterpart.parts[name](**given)
        return named

    return fields


_FIELDS = {name: fields_of(counterpart) for name, counterpart in COUNTERPARTS.items()}
_REGIONS = {
    name: [(field.name, field.region) for field in counterpart.fields if field.attribute is None]
    for name, counterpart in COUNTERPARTS.items()
}


def op_of(scope: ImportScope, operation: mlir.Operation, name: str = "", **parts: dict[str, Any]) -> Op:
    """Makes the op that the record of an operation, or of the operation `name`, names. `parts` are more
    values for fields of structures, such as the window.
    """
    name = name or operation.name
    op, named = COUNTERPARTS[name].op, _FIELDS[name](scope, operation.attributes, **parts)
    for field, number in _REGIONS[name]:
        named[field] = scope.region(operation, number)
    if op.holds_shape:
        named["shape"] = scope.whole_shape(operation)
    return op(**named)


def _rule(name: str, counterpart: Counterpart) -> ImportRule:
    op, operands = counterpart.op, counterpart.record.operands
    count = None if any(value.variadic for value in operands) else len(operands)
    always = None if counterpart.fields or op.holds_shape else op()
    region = counterpart.fields[-1].name if counterpart.combines else ""

    def rule(scope: ImportScope, operation: mlir.Operation) -> Instruction:
        made = op_of(scope, operation, name) if always is None else always
        given = scope.operands(operation, count)
        if region:  # operands get the element types in which the region combines them
            dtypes = cycle(computed_types(getattr(made, region)))
            for number, dtype in zip(combined(made, len(given)), dtypes):  # noqa: B905
                given[number] = scope.converted(given[number], dtype)
        return scope.add(made, given)

    return rule


RULES: dict[str, ImportRule] = {name: _rule(name, counterpart) for name, counterpart in COUNTERPARTS.items()}
