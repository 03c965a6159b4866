"""Parses asynchronous calls of one instruction, which are written with its opcode: add-start, add-done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from axla.core.shape import AnyShape, TupleShape
from axla.hlo.asynchronous import MAIN, AsyncStart
from axla.ir.graph import NO_EXTRA, Instruction
from axla.ir.op import OPS
from axla.ir.structure import Parameter
from axla.text.asynchronous import LATER, share_with_called, start_of
from axla.text.attributes import codec_of
from axla.text.instructions import InstructionCursor, schema_of


def read_short_form(
    cursor: InstructionCursor, name: str, shape: AnyShape | None, opcode: str, at: int
) -> Instruction:
    """Reads an instruction in short form, after `opcode(`, and adds it."""
    base, _, stage = opcode.rpartition("-")
    if stage == "start":
        return _read_start(cursor, name, shape, base, at)
    cls = LATER[stage]
    operands = cursor.operands()
    schema, fields = schema_of(cls), {}
    if len(operands) != 1:
        cursor.fail(f"{opcode} takes 1 operand, found {len(operands)}", at)
    extra = cursor.attributes(schema, fields, opcode)
    start = start_of(operands[0])
    if start is None or start.op.calls.root.opcode != base:
        found = "no asynchronous call" if start is None else f"one of {start.op.calls.root.opcode}"
        cursor.fail(f"the operand of {opcode} must be an asynchronous {base}, found {found}", at)
    return cursor.build(schema, fields, operands, shape, name, extra, at)


def _read_start(
    cursor: InstructionCursor, name: str, shape: AnyShape | None, base: str, at: int
) -> Instruction:
    operands = cursor.operands()
    parts = shape.elements if isinstance(shape, TupleShape) else ()
    if len(parts) < 2 or not isinstance(parts[0], TupleShape) or len(parts[0].elements) != len(operands):
        cursor.fail(f"the shape of {base}-start must be ((operands), result, ...), found {shape}", at)
    schema, fields = schema_of(OPS[base]), {}
    thread = ("async_execution_thread", codec_of(str).decode)
    wide = replace(schema, readers={**schema.readers, "async_execution_thread": thread})
    extra = cursor.attributes(wide, fields, f"{base}-start")
    start_fields: dict[str, Any] = {"async_execution_thread": fields.pop("async_execution_thread", MAIN)}
    outer = cursor.target
    assert outer is not None
    inner = cursor.module.add_computation("async_computation")
    given = [inner.add(Parameter(s, n)) for n, s in enumerate(parts[0].elements)]
    cursor.target = inner
    root = cursor.checked(schema, fields, tuple(given), parts[1], "async_wrapped", NO_EXTRA, at)
    inner.set_root(root)
    # The computation is not printed, but its root takes part in the naming, under the name of its opcode.
    cursor.inlined.append((inner, "async_computation", {base: root}))
    cursor.target = outer
    start_fields["calls"] = inner
    start = cursor.build(schema_of(AsyncStart), start_fields, operands, shape, name, extra, at)
    share_with_called(start)
    return start
