"""Ops of other packages: custom calls `axla.op.<opcode>`, with the op's attributes as configuration."""

from __future__ import annotations

from typing import Any

from axla.core.errors import UnsupportedError, VerifyError
from axla.ir.graph import Attribute
from axla.ir.op import declared
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.conversions import BY_TYPE
from axla.stablehlo.importer.scope import ImportScope, Lowered
from axla.text.instructions import read_attribute, schema_of


def declared_op(scope: ImportScope, operation: mlir.Operation, target: str) -> Lowered:
    """The op of a call, from this process or an installed package; the result shape is the one that the op
    infers.
    """
    opcode = target.removeprefix(mlir.OP)
    op = declared(opcode)
    if op is None:
        raise UnsupportedError(f"{target[:80]}: nothing declares this op, and no installed package does")
    place = "backend_config" if operation.attributes.get("backend_config") else "mhlo.backend_config"
    given = attr.dictionary(operation, place)
    schema, operands = schema_of(op), scope.operands(operation)
    known = {a.text: a for a in op.attributes}
    wrong = given.keys() - known.keys() | {t for f, t in schema.required} - given.keys()
    if wrong or not schema.least <= len(operands) <= schema.most:
        wanted = f"{len(op.operand_names)} operands and attributes {', '.join(known) or 'none'}"
        found = f"{len(operands)} and {', '.join(given) or 'none'}"
        raise VerifyError(f"{target}: {opcode} takes {wanted}; found {found}")
    taken = [a for text, a in known.items() if text in given]
    fields: dict[str, Any] = {a.name: _read(given, a, scope.importer.source) for a in taken}
    shape = scope.whole_shape(operation)
    made = scope.add(op(**fields, **({"shape": shape} if op.holds_shape else {})), operands)
    if made.shape.logical is not shape.logical:
        raise VerifyError(f"{target}: the result is {shape}, but {opcode} gives {made.shape}")
    return made


def _read(given: dict[str, Any], attribute: Attribute, source: mlir.Source) -> Any:
    """An attribute of the op. Types that MLIR does not have are given as HLO text."""
    if attribute.type in BY_TYPE:
        return BY_TYPE[attribute.type].read(given, attribute.text, source)
    return read_attribute(attribute, attr.text(given, attribute.text))
