"""Exports ops of HLO that become a single operation, with the attributes that its record names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from itertools import cycle
from operator import attrgetter
from typing import Any

from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, array
from axla.importers.counterparts import Counterpart
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op
from axla.stablehlo import mlir
from axla.stablehlo.building import matrix
from axla.stablehlo.conversions import combined, computed_types, conversion
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.exporter.scope import ExportRule, ExportScope, Tree


def attributes_of(counterpart: Counterpart) -> Callable[..., dict[str, Any]]:
    """Returns a function (inst, op, only) that makes the attributes of an operation from the fields of `op`.
    If `only` is not None, it makes only the attributes for the fields that `only` names.
    """
    dialect = counterpart.record.name.partition(".")[0]
    makers = [
        (field.name, field.attribute.name, _getter(field.name, field.inner), conversion(field, dialect).make)
        for field in counterpart.fields
        if field.attribute is not None
    ]
    inner = {name: [f.inner for f in counterpart.fields if f.name == name] for name in counterpart.parts}

    def attributes(inst: Instruction, op: Op, only: Sequence[str] | None = None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, attribute, get, make in makers:
            if only is not None and name not in only:
                continue
            made = make(get(op), inst)
            if isinstance(made, list):  # a column of a matrix
                made = [*found.get(attribute, ()), made]
            if made is not None:
                found[attribute] = made
        for name, names in inner.items():
            if only is None or name in only:
                _require_said(name, getattr(op, name), names)
        return {
            name: matrix(list(zip(*made, strict=True)), len(made)) if isinstance(made, list) else made
            for name, made in found.items()
        }

    return attributes


def _getter(name: str, inner: str) -> Callable[[Any], Any]:
    if not name:
        return lambda op: op
    return attrgetter(f"{name}.{inner}" if inner else name)


def _require_said(name: str, value: Any, names: Sequence[str]) -> None:
    """Raises UnsupportedError unless each field of the structure `value`, except the fields in `names`, has
    its default. `name` is the field of the op that has the structure.
    """
    others = {f.name: f.default for f in fields(value) if f.name not in names and f.default is not MISSING}
    if replace(value, **others) != value:
        raise UnsupportedError(f"{name}={value}: StableHLO has only {', '.join(names)} here")


_ATTRIBUTES: dict[str, tuple[Counterpart, Callable[..., dict[str, Any]]]] = {}
for _counterpart in COUNTERPARTS.values():
    _ATTRIBUTES.setdefault(_counterpart.op.opcode, (_counterpart, attributes_of(_counterpart)))


def said(inst: Instruction, op: Op, opcode: str = "") -> dict[str, Any]:
    """The attributes of the operation that an op becomes, according to the record for the op's opcode, or for
    `opcode` if that is given.
    """
    return _ATTRIBUTES[opcode or op.opcode][1](inst, op)


def written(
    scope: ExportScope, inst: Instruction, op: Any, operands: Sequence[mlir.Value] | None = None, *,
    opcode: str = "", shape: AnyShape | None = None, **more: Any,
) -> Tree:  # fmt: skip
    """Exports an op as the operation whose record names it (or `opcode`). `operands` and `shape` replace
    those of the instruction; `more` are additional attributes.

    Where HLO takes several arrays and StableHLO one, there is an operation for each array. An operation whose
    region combines elements computes in the element types of the region.
    """
    counterpart, _ = _ATTRIBUTES[opcode or op.opcode]
    record, values = counterpart.record, list(scope.ones(inst) if operands is None else operands)
    called = [getattr(op, field.name) for field in counterpart.fields if field.attribute is None]
    others = op.to_apply.parameters[::2] if op.opcode == "sort" else ()
    others = inst.operands[1:] if op.opcode.startswith("batch-norm") else others
    if any(array(x.shape).dtype is not array(o.shape).dtype for x, o in zip(others, inst.operands)):  # noqa: B905
        raise UnsupportedError("a comparator or operands of another type than the elements")
    shape = inst.shape if shape is None else shape
    results = inner = list(shape.leaves())
    if counterpart.combines:
        dtypes = computed_types(called[-1])
        for number, dtype in zip(combined(op, len(values)), cycle(dtypes)):  # noqa: B905
            was = array(inst.operands[number].shape).dtype
            if op.opcode == "scatter" and dtype is not was and dtype.bits <= was.bits:
                raise UnsupportedError("a region that combines elements in a type not wider than theirs")
            values[number] = scope.converted(values[number], inst.operands[number].shape, dtype)
        inner = [array(shape).with_dtype(dtype) for shape, dtype in zip(results, cycle(dtypes))]  # noqa: B905
    single = not any(value.variadic for value in record.operands) and len(values) != len(record.operands)
    rows = [[value] for value in values] if single else [values]
    found = each(scope, record.name, rows, inner, said(inst, op, opcode) | more, called)
    if inner is not results:
        wanted = zip(found, inner, results, strict=True)
        found = [scope.converted(value, of, array(to).dtype) for value, of, to in wanted]
    return scope.tree(shape, iter(found))


def each(
    scope: ExportScope, name: str, rows: Sequence[Sequence[mlir.Value]], shapes: Sequence[AnyShape],
    attributes: dict[str, Any], called: Sequence[Computation] = (),
) -> list[mlir.Value]:  # fmt: skip
    """Adds an operation `name` for each row of operands, with a region for each of the computations `called`.
    `shapes` are those of all results, equally many for each operation. Returns all results.
    """
    count, types = len(shapes) // len(rows), list(map(scope.exporter.type, shapes))
    found: list[mlir.Value] = []
    for row in rows:
        regions = [scope.region(computation) for computation in called]
        found += scope.emit(name, row, types[len(found) : len(found) + count], attributes, regions)
    return found


RULES: dict[str, ExportRule] = dict.fromkeys(_ATTRIBUTES, written)
