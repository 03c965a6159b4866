"""The order of two elements in a sort: by its comparator, or by keys as unsigned integers."""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.element import Elements
from axla.codegen.function import Ssa
from axla.codegen.kernel import KernelWriter
from axla.codegen.value import Value, Values
from axla.core.dtypes import BY_NAME, S32, DType
from axla.hlo import Compare, Parameter, Sort
from axla.ir.graph import Computation, Instruction
from axla.ir.typed import op_of, shape_of
from axla.kernels.sort import SortKey, SortPlan, key_dtype


class Order:
    """Compares elements by the comparator of a sort."""

    def __init__(self, k: KernelWriter, plan: SortPlan):
        self.e = k.elements(1)
        self.computation = op_of(k.named[plan.hero], Sort).to_apply
        root = self.computation.root.op
        self.ties = isinstance(root, Compare) and root.direction in ("LE", "GE")  # for equal elements too

    def before(self, a: Sequence[Value], b: Sequence[Value]) -> Ssa:
        """Whether the elements `a` come strictly before the elements `b`."""
        if self.ties:
            a, b = b, a
        both = [v for pair in zip(a, b, strict=True) for v in pair]
        taken = zip(both, self.computation.parameters, strict=True)
        found = self.e.apply(self.computation, [_as_parameter(self.e, v, p) for v, p in taken])[0]
        return self.e.values.unary("not", found).ssa if self.ties else found.ssa


def _as_parameter(e: Elements, value: Value, parameter: Instruction) -> Value:
    """Converts an element to the type of `parameter`, a parameter of the comparator, which may be another
    float type than that of the element.
    """
    return e.values.convert(value, shape_of(parameter).dtype)


def key_bits(e: Elements, comparator: Computation, key: SortKey, element: Sequence[Value]) -> Value:
    """The sort key of an element as an unsigned integer; elements with smaller keys come first."""
    inner = Elements(e.values, 1, least=element[0].lanes)
    for parameter in comparator.parameters:
        number = op_of(parameter, Parameter).parameter_number
        if number % 2 == key.side:
            inner.bind(parameter, _as_parameter(e, element[number // 2], parameter))
    value = inner(comparator.root.operands[0], ())
    return ordered_bits(e.values, value, total_order=key.total_order, descending=key.descending)


def ordered_bits(values: Values, value: Value, *, total_order: bool, descending: bool) -> Value:
    """Maps values to unsigned integers that have the order of the values, or the reverse order if
    `descending`. Without `total_order`, -0 and +0 are equal.
    """
    dtype = key_dtype(value.dtype)
    value = values.convert(values.stored(value), dtype)
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


def from_ordered_bits(values: Values, bits: Value, dtype: DType, *, descending: bool) -> Value:
    """The inverse of `ordered_bits` for types of 32 bits: the bits of the numbers that it maps to `bits`."""
    if descending:
        bits = values.unary("not", bits)
    sign = values.constant(bits.dtype, 1 << 31)
    if dtype.is_float:
        rose = values.bitcast_convert(bits, S32)
        rose = values.binary("shift-right-arithmetic", rose, values.constant(S32, 31))
        fell = values.unary("not", values.bitcast_convert(rose, bits.dtype))
        return values.binary("xor", bits, values.binary("or", fell, sign))
    return values.binary("xor", bits, sign) if dtype.is_signed else bits


def _float_bits(values: Values, value: Value) -> Value:
    """Maps floats to unsigned integers of the same order: flips all bits of negative floats, whose order is
    the reverse of their bits, and the sign bit of all other floats.
    """
    width = value.dtype.bits
    signed, unsigned = BY_NAME[f"s{width}"], BY_NAME[f"u{width}"]
    bits = values.bitcast_convert(value, signed)
    sign = values.binary("shift-right-arithmetic", bits, values.constant(signed, width - 1))
    flips = values.binary("or", sign, values.constant(signed, -1 << (width - 1)))
    return values.bitcast_convert(values.binary("xor", bits, flips), unsigned)
