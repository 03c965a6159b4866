"""Rules of algsimp for quotients that are rounded down: `x // c` and `x % c` of Python, as JAX writes
them.
"""

from __future__ import annotations

import axla.hlo as hlo
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction
from axla.passes.rewrite import Rewritten, rule
from axla.passes.simplify.match import dtype_of, full, is_all, same_shape, uniform


def _exponent(x: Instruction, divisor: Instruction) -> int | None:
    """The exponent k if `divisor`, by which the signed integers `x` are divided, is the constant 2^k; else
    None.
    """
    value = uniform(divisor)
    if value is None or not dtype_of(x).is_signed or not dtype_of(x).is_integer:
        return None
    c = int(value)
    return c.bit_length() - 1 if c > 0 and not c & (c - 1) else None


def _asks(test: Instruction, direction: Direction, x: Instruction, number: int) -> bool:
    """Whether `test` compares `x` with `number` in the given direction."""
    op = test.op
    return (
        isinstance(op, hlo.Compare) and op.direction is direction and test.operands[0] is x
    ) and is_all(test.operands[1], number)  # fmt: skip


@rule(hlo.Select, of=hlo.And)
def floor_remainder_power_of_two(
    root: Instruction, test: Instruction, moved: Instruction, rest: Instruction
) -> Rewritten:
    """(r < 0 and r != 0 ? r + 2^k : r) => x & (2^k - 1), for r = x % 2^k"""
    if type(rest.op) is not hlo.Remainder or type(moved.op) is not hlo.Add or moved.operands[0] is not rest:
        return None
    x, divisor = rest.operands
    k, (negative, inexact) = _exponent(x, divisor), test.operands
    if _asks(negative, Direction.NE, rest, 0):
        negative, inexact = inexact, negative
    asked = _asks(negative, Direction.LT, rest, 0) and _asks(inexact, Direction.NE, rest, 0)
    if k is None or not asked or not is_all(moved.operands[1], 1 << k) or not same_shape(x, root):
        return None
    return hlo.And()(x, full(root, (1 << k) - 1))


@rule(hlo.Select, of=hlo.And)
def floor_divide_power_of_two(
    root: Instruction, test: Instruction, below: Instruction, quotient: Instruction
) -> Rewritten:
    """(sign(x) != 1 and x % 2^k != 0 ? q - 1 : q) => x >> k, arithmetically, for q = x / 2^k"""
    if type(quotient.op) is not hlo.Divide or type(below.op) not in (hlo.Subtract, hlo.Add):
        return None
    x, divisor = quotient.operands
    k, (negative, inexact) = _exponent(x, divisor), test.operands
    if k is None or below.operands[0] is not quotient or not same_shape(x, root):
        return None
    if not is_all(below.operands[1], 1 if type(below.op) is hlo.Subtract else -1):
        return None
    if not isinstance(negative.op, hlo.Compare) or not isinstance(inexact.op, hlo.Compare):
        return None
    sign, rest = negative.operands[0], inexact.operands[0]
    by = rest.operands[1] if type(rest.op) is hlo.Remainder and rest.operands[0] is x else None
    if by is None or not is_all(by, 1 << k) or not _asks(inexact, Direction.NE, rest, 0):
        return None
    if (
        type(sign.op) is not hlo.Sign
        or sign.operands[0] is not x
        or not _asks(negative, Direction.NE, sign, 1)
    ):
        return None
    return hlo.ShiftRightArithmetic()(x, full(root, k))
