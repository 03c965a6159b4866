"""Imports ops of other packages: custom calls of `axla.op.<opcode>`, whose configuration has the op's
attributes.
"""

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
    """Imports a call of an op that this process or an installed package declares. The result of the call must
    have the shape that the op infers.
    """
    opcode = target.removeprefix(mlir.OP)
    op = declared(opcode)
    if op is None:
        raise UnsupportedError(f"{target[:80]}: no loaded module or installed package declares this op")
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
        raise VerifyError(f"{target}: the result is {shape}, but {opcode} infers {made.shape}")
    return made


def _read(given: dict[str, Any], attribute: Attribute, source: mlir.Source) -> Any:
    """Reads an attribute of the op. Types that MLIR does not have are given as HLO text."""
    if attribute.type in BY_TYPE:
        return BY_TYPE[attribute.type].read(given, attribute.text, source)
    return read_attribute(attribute, attr.text(given, attribute.text))
