"""Normal forms: one of several equivalent ways to write an op in HLO text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import axla.hlo as hlo
from axla.core.dtypes import PRED, S32
from axla.core.shape import AnyShape, Shape
from axla.ir.attributes import ApiVersion, CompareType, RawText
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.text.asynchronous import plain_later, plain_start
from axla.text.lexer import Refusal


def unpacked(shape: AnyShape) -> AnyShape:
    """The shape of a constant without the element size E(4) of the text: elements of constants are not
    packed.
    """
    if isinstance(shape, Shape) and shape.layout.element_bits:
        return shape.with_layout(replace(shape.layout, element_bits=0))
    return shape


def implied_type(shape: AnyShape) -> CompareType:
    """The default comparison type of `compare` for operands of this shape."""
    if not isinstance(shape, Shape):
        return CompareType.UNSIGNED
    if shape.dtype.is_inexact:
        return CompareType.FLOAT
    return CompareType.SIGNED if shape.dtype.is_signed else CompareType.UNSIGNED


def _plain_compare(cursor: Refusal, op: hlo.Compare, operands: tuple[Instruction, ...], at: int) -> Op:
    """Returns the op of a compare, without its `type` if that is the default for the element type of the
    operands.
    """
    shape = operands[0].shape
    return replace(op, type=None) if shape.is_array and op.type is implied_type(shape) else op


def _plain_conditional(
    cursor: Refusal, op: hlo.Conditional, operands: tuple[Instruction, ...], at: int
) -> Op:
    """Returns the normal form of a conditional: with a pred and two branches it has true_computation and
    false_computation, in all other cases branch_computations.
    """
    index = operands[0].shape.logical
    by_pred = index is Shape(PRED)
    if not by_pred and index is not Shape(S32):
        cursor.fail(f"the first operand of a conditional must be a scalar of pred or s32, found {index}", at)
    branches = op.computations()
    named = op.true_computation is not None, op.false_computation is not None
    if (any(named) and (op.branch_computations or not all(named))) or not branches:
        cursor.fail("a conditional needs true_computation and false_computation, or branch_computations", at)
    if by_pred and len(branches) == 2:
        return replace(
            op, true_computation=branches[0], false_computation=branches[1], branch_computations=()
        )
    return replace(op, true_computation=None, false_computation=None, branch_computations=branches)


def _plain_custom_call(cursor: Refusal, op: hlo.CustomCall, operands: tuple[Instruction, ...], at: int) -> Op:
    if op.api_version is ApiVersion.UNSPECIFIED:
        cursor.fail(f"custom-call: {op.api_version} is not a calling convention", at)
    return op


def _plain_domain(cursor: Refusal, op: hlo.Domain, operands: tuple[Instruction, ...], at: int) -> Op:
    """Returns the op of a domain with its attribute on one line."""
    return replace(op, domain=RawText(" ".join(op.domain.split())))


PLAIN_FORMS: dict[str, Callable[[Refusal, Any, tuple[Instruction, ...], int], Op]] = {
    "async-done": plain_later,
    "async-start": plain_start,
    "async-update": plain_later,
    "compare": _plain_compare,
    "conditional": _plain_conditional,
    "custom-call": _plain_custom_call,
    "domain": _plain_domain,
}
"""Functions that return the normal form of an op, for opcodes that have several forms in HLO text."""
