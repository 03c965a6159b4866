"""Asynchronous calls: checks that updates and done agree with their start."""

from __future__ import annotations

from dataclasses import replace

from axla.core.shape import TupleShape
from axla.hlo.asynchronous import MAIN, AsyncDone, AsyncStart, AsyncUpdate
from axla.ir.graph import Extra, Instruction
from axla.ir.op import OPS, Op, declared
from axla.ir.typed import applies, op_of
from axla.text.lexer import Refusal

LATER: dict[str, type[AsyncUpdate] | type[AsyncDone]] = {"update": AsyncUpdate, "done": AsyncDone}


def is_short_form(opcode: str) -> bool:
    """Whether `opcode` is an opcode with -start, -update or -done appended, such as call-done. Ops that
    declare start and done opcodes of their own have no such form.
    """
    base, _, stage = opcode.rpartition("-")
    return stage in ("start", *LATER) and f"{base}-done" not in OPS and declared(base) is not None


def is_opcode(name: str) -> bool:
    """Whether a name is an opcode or an asynchronous short form of one."""
    return declared(name) is not None or is_short_form(name)


def share_with_called(start: Instruction) -> None:
    """Gives the called computation the thread and the frontend attributes of an async-start, as XLA's parser
    does.
    """
    op = op_of(start, AsyncStart)
    inner = op.calls
    if op.async_execution_thread != MAIN:
        for computation in (inner, *inner.root.op.computations()):
            computation.set_own_extra(Extra(more=(("execution_thread", op.async_execution_thread),)))
    if start.extra.frontend_attributes:
        given = replace(inner.root.extra, frontend_attributes=start.extra.frontend_attributes)
        inner.set_extra(inner.root, given)


def start_of(inst: Instruction) -> Instruction[AsyncStart] | None:
    """The async-start of an asynchronous call: `inst` itself, or the start of the call to which the update
    `inst` belongs; None for any other instruction.
    """
    while isinstance(inst.op, AsyncUpdate):
        inst = inst.operands[0]
    return inst if applies(inst, AsyncStart) else None


def plain_start(cursor: Refusal, op: AsyncStart, operands: tuple[Instruction, ...], at: int) -> Op:
    """Returns the op of an async-start after checking that its shape is ((operands), result, ...). `at` is
    the position for error messages.
    """
    parts = op.shape.elements if isinstance(op.shape, TupleShape) else ()
    if len(parts) < 2 or not isinstance(parts[0], TupleShape):
        cursor.fail(f"the shape of async-start must be ((operands), result, ...), found {op.shape}", at)
    return op


def plain_later(
    cursor: Refusal, op: AsyncUpdate | AsyncDone, operands: tuple[Instruction, ...], at: int
) -> Op:
    """Returns the op of an update or done without the attributes that repeat those of its start. Checks that
    the repeated attributes are equal to those of the start; `at` is the position for error messages.
    """
    start = start_of(operands[0])
    if start is None:
        message = f"the operand of {op.opcode} must be an asynchronous call, found {operands[0].opcode}"
        cursor.fail(message, at)
    begun = start.op
    if op.calls is not None and op.calls is not begun.calls:
        cursor.fail(f"{op.opcode} calls {op.calls.name}, but its start calls {begun.calls.name}", at)
    if op.async_execution_thread not in (None, begun.async_execution_thread):
        found, wanted = op.async_execution_thread, begun.async_execution_thread
        cursor.fail(f"{op.opcode} is of thread {found}, but its start is of thread {wanted}", at)
    return replace(op, calls=None, async_execution_thread=None)
