"""Comparators that compare one key: which they are, and the keys as unsigned integers of the same order."""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.element import Elements
from axla.codegen.value import Value, Values
from axla.core.dtypes import BY_NAME
from axla.core.shape import Shape
from axla.hlo import Compare, Constant, Parameter
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import op_of
from axla.program.plans import SortKey


def sort_key(computation: Computation) -> SortKey | None:
    """The key of a comparator that compares the same function of both elements; None for others."""
    root = computation.root
    if not isinstance(root.op, Compare) or root.op.direction not in ("LT", "GT", "LE", "GE"):
        return None
    a, b = root.operands
    shape = a.shape
    if not isinstance(shape, Shape) or shape.dtype.is_complex or shape.dtype.bits > 64:
        return None
    side = _same_function(a, b)
    if side is None:
        return None
    # The first of two elements comes before where its key is less: ascending.
    descending = (root.op.direction in ("GT", "GE")) != (side == 1)
    return SortKey(side, descending, root.op.is_total_order, shape.dtype)


def _same_function(a: Instruction, b: Instruction) -> int | None:
    """Which elements a reads (0: left, 1: right) when b is the same of the others; None when it is not."""
    side: int | None = None
    stack, seen = [(a, b)], set()
    while stack:
        x, y = stack.pop()
        if (x, y) in seen:
            continue
        seen.add((x, y))
        if isinstance(x.op, Parameter) and isinstance(y.op, Parameter):
            n, m = x.op.parameter_number, y.op.parameter_number
            if n // 2 != m // 2 or n == m or side not in (None, n % 2):
                return None
            side = n % 2
        elif isinstance(x.op, Constant):
            if x is not y and not (isinstance(y.op, Constant) and x.op.literal == y.op.literal):
                return None
        elif x.op != y.op or len(x.operands) != len(y.operands) or x.op.computation_fields:
            return None
        else:
            stack.extend(zip(x.operands, y.operands, strict=True))
    return side


def key_bits(e: Elements, comparator: Computation, key: SortKey, element: Sequence[Value]) -> Value:
    """The key of an element as an unsigned integer: the smaller comes first."""
    inner = Elements(e.values, 1)
    for parameter in comparator.parameters:
        number = op_of(parameter, Parameter).parameter_number
        if number % 2 == key.side:
            inner.bind(parameter, element[number // 2])
    value = inner(comparator.root.operands[0], ())
    return ordered_bits(e.values, value, total_order=key.total_order, descending=key.descending)


def ordered_bits(values: Values, value: Value, *, total_order: bool, descending: bool) -> Value:
    """Unsigned integers in the order of the values, or in the opposite one."""
    dtype = value.dtype
    if dtype.is_pred:
        bits = values.convert(value, BY_NAME["u8"])
    elif dtype.is_float:
        if not total_order:  # -0 is equal to +0
            zero = values.constant(dtype, 0)
            value = values.select(values.compare("EQ", value, zero), zero, value)
        bits = _float_bits(values, value)
    else:
        bits = values.convert(value, BY_NAME[f"{'s' if dtype.is_signed else 'u'}{max(8, dtype.bits)}"])
        if dtype.is_signed:
            unsigned = BY_NAME[f"u{bits.dtype.bits}"]
            bits = values.bitcast_convert(bits, unsigned)
            bits = values.binary("xor", bits, values.constant(unsigned, 1 << (unsigned.bits - 1)))
    return values.unary("not", bits) if descending else bits


def _float_bits(values: Values, value: Value) -> Value:
    """Negative floats fall as their bits rise: all their bits are turned; of the others the sign is."""
    width = value.dtype.bits
    signed, unsigned = BY_NAME[f"s{width}"], BY_NAME[f"u{width}"]
    bits = values.bitcast_convert(value, signed)
    sign = values.binary("shift-right-arithmetic", bits, values.constant(signed, width - 1))
    flips = values.binary("or", sign, values.constant(signed, -1 << (width - 1)))
    return values.bitcast_convert(values.binary("xor", bits, flips), unsigned)
