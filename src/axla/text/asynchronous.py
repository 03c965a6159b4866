"""Asynchronous calls; those of one instruction are written under its name: add-start, add-done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from axla.core.shape import AnyShape, TupleShape
from axla.hlo.asynchronous import MAIN, AsyncDone, AsyncStart, AsyncUpdate
from axla.ir.codec import codec_of
from axla.ir.graph import NO_EXTRA, Computation, Extra, Instruction
from axla.ir.op import OPS, Op
from axla.ir.structure import Parameter
from axla.text.lexer import Cursor

if TYPE_CHECKING:
    from axla.text.instructions import InstructionCursor

LATER: dict[str, type[AsyncUpdate] | type[AsyncDone]] = {"update": AsyncUpdate, "done": AsyncDone}


def is_short_form(opcode: str) -> bool:
    """Whether `opcode` is that of a declared op with -start, -update or -done behind it."""
    base, _, stage = opcode.rpartition("-")
    return stage in ("start", *LATER) and base in OPS


def read_short_form(
    cursor: InstructionCursor, name: str, shape: AnyShape | None, opcode: str, at: int
) -> Instruction:
    """The instruction behind `opcode(`."""
    base, _, stage = opcode.rpartition("-")
    if stage == "start":
        return _read_start(cursor, name, shape, base, at)
    cls = LATER[stage]
    operands = cursor.operands()
    schema, fields = cursor.schema_of(cls), {}
    if len(operands) != 1:
        cursor.fail(f"{opcode} takes 1 operand, found {len(operands)}", at)
    extra = cursor.attributes(schema, fields, opcode)
    start = start_of(operands[0])
    if start is None or start.op.calls.root.opcode != base:  # type: ignore[attr-defined]
        found = "no asynchronous call" if start is None else f"one of {start.op.calls.root.opcode}"  # type: ignore[attr-defined]
        cursor.fail(f"the operand of {opcode} must be an asynchronous {base}, found {found}", at)
    return cursor.build(schema, fields, operands, shape, name, extra, at)


def _read_start(
    cursor: InstructionCursor, name: str, shape: AnyShape | None, base: str, at: int
) -> Instruction:
    operands = cursor.operands()
    parts = shape.elements if isinstance(shape, TupleShape) else ()
    if len(parts) < 2 or not isinstance(parts[0], TupleShape) or len(parts[0].elements) != len(operands):
        cursor.fail(f"the shape of {base}-start must be ((operands), result, ...), found {shape}", at)
    schema, fields = cursor.schema_of(OPS[base]), {}
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
    # It is not printed, and yet takes its name: the opcode.
    cursor.inlined.append((inner, "async_computation", {base: root}))
    cursor.target = outer
    start_fields["calls"] = inner
    start = cursor.build(cursor.schema_of(AsyncStart), start_fields, operands, shape, name, extra, at)
    share_with_called(start)
    return start


def share_with_called(start: Instruction) -> None:
    """Gives what is called the start's thread and frontend attributes, as XLA does when it reads a start."""
    op: Any = start.op
    inner: Computation = op.calls
    if op.async_execution_thread != MAIN:
        for computation in (inner, *inner.root.op.computations()):
            computation.set_own_extra(Extra(more=(("execution_thread", op.async_execution_thread),)))
    if start.extra.frontend_attributes:
        given = replace(inner.root.extra, frontend_attributes=start.extra.frontend_attributes)
        inner.set_extra(inner.root, given)


def start_of(inst: Instruction) -> Instruction | None:
    """The start of an asynchronous call, from it or an update; None for anything else."""
    while isinstance(inst.op, AsyncUpdate):
        inst = inst.operands[0]
    return inst if isinstance(inst.op, AsyncStart) else None


def plain_start(cursor: Cursor, op: Any, operands: tuple[Instruction, ...], at: int) -> Op:
    """A start whose shape has the form that starts have."""
    parts = op.shape.elements if isinstance(op.shape, TupleShape) else ()
    if len(parts) < 2 or not isinstance(parts[0], TupleShape):
        cursor.fail(f"the shape of async-start must be ((operands), result, ...), found {op.shape}", at)
    return op


def plain_later(cursor: Cursor, op: Any, operands: tuple[Instruction, ...], at: int) -> Op:
    """An update or done without what it repeats of the start, which must be the same."""
    start = start_of(operands[0])
    if start is None:
        cursor.fail(
            f"the operand of {op.opcode} must be an asynchronous call, found {operands[0].opcode}", at
        )
    begun: Any = start.op
    if op.calls is not None and op.calls is not begun.calls:
        cursor.fail(f"{op.opcode} calls {op.calls.name}, but its start calls {begun.calls.name}", at)
    if op.async_execution_thread not in (None, begun.async_execution_thread):
        found, wanted = op.async_execution_thread, begun.async_execution_thread
        cursor.fail(f"{op.opcode} is of thread {found}, but its start is of thread {wanted}", at)
    return replace(op, calls=None, async_execution_thread=None)
