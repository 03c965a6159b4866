"""Functions for type checkers: they return the op or the shape of an instruction and assert its class."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from axla.core.shape import Shape, TupleShape
from axla.ir.graph import Instruction, Op

OpT = TypeVar("OpT", bound=Op)


def applies(inst: Instruction, kind: type[OpT]) -> TypeGuard[Instruction[OpT]]:
    """Whether the op of an instruction is of this class."""
    return isinstance(inst.op, kind)


def op_of(inst: Instruction, kind: type[OpT]) -> OpT:
    """The op of an instruction; asserts that it is of this class."""
    op = inst.op
    assert isinstance(op, kind)
    return op


def shape_of(inst: Instruction) -> Shape:
    """The shape of an instruction; asserts that it is an array."""
    shape = inst.shape
    assert isinstance(shape, Shape)
    return shape


def tuple_of(inst: Instruction) -> TupleShape:
    """The shape of an instruction; asserts that it is a tuple."""
    shape = inst.shape
    assert isinstance(shape, TupleShape)
    return shape
