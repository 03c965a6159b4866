"""Elementwise ops as C expressions: `{x}`, `{y}` and `{z}` are operands, `{T}` the type of the first one.

C's <tgmath.h> gives every function for float and double; integers wrap (-fwrapv). `prelude.c` has the rest.
"""

from __future__ import annotations

from axla import UnsupportedError
from axla.core.dtypes import DType

from .writer import Node, c_type

FLOAT = {
    "abs": "fabs({x})", "acos": "acos({x})", "acosh": "acosh({x})", "add": "{x} + {y}", "asin": "asin({x})",
    "asinh": "asinh({x})", "atan2": "atan2({x}, {y})", "atanh": "atanh({x})", "cbrt": "cbrt({x})",
    "clamp": "MINIMUM(MAXIMUM({x}, {y}), {z})", "ceil": "ceil({x})", "cosh": "cosh({x})",
    "cosine": "cos({x})", "divide": "{x} / {y}", "erf": "erf({x})", "exponential": "exp({x})",
    "exponential-minus-one": "expm1({x})", "floor": "floor({x})", "imag": "0",
    "is-finite": "isfinite({x}) != 0", "log": "log({x})", "log-plus-one": "log1p({x})",
    "logistic": "1 / (1 + exp(-{x}))", "maximum": "MAXIMUM({x}, {y})", "minimum": "MINIMUM({x}, {y})",
    "multiply": "{x} * {y}", "negate": "-{x}", "power": "pow({x}, {y})", "real": "{x}",
    "reduce-precision": "REDUCED_{bits}({x}, {op.mantissa_bits}, {op.exponent_bits})",
    "remainder": "fmod({x}, {y})", "round-nearest-afz": "round({x})",
    "round-nearest-even": "nearbyint({x})", "rsqrt": "1 / sqrt({x})",
    "sign": "{x} > 0 ? 1 : {x} < 0 ? -1 : {x}", "sine": "sin({x})", "sinh": "sinh({x})",
    "sqrt": "sqrt({x})", "subtract": "{x} - {y}", "tan": "tan({x})", "tanh": "tanh({x})",
}  # fmt: skip
INTEGER = {
    "add": "{x} + {y}", "and": "{x} & {y}", "count-leading-zeros": "leading_zeros(({U}){x}, {bits})",
    "maximum": "{x} > {y} ? {x} : {y}", "minimum": "{x} < {y} ? {x} : {y}", "multiply": "{x} * {y}",
    "negate": "-{x}", "not": "~{x}", "or": "{x} | {y}", "popcnt": "ones(({U}){x})",
    "power": "power_integer(({S}){x}, ({S}){y})",
    "shift-left": "({U}){y} < {bits} ? ({T})(({U}){x} << {y}) : 0",
    "shift-right-arithmetic": "({S}){x} >> (({U}){y} < {bits} ? {y} : {bits} - 1)",
    "shift-right-logical": "({U}){y} < {bits} ? ({T})(({U}){x} >> {y}) : 0", "subtract": "{x} - {y}",
    "xor": "{x} ^ {y}",
}  # fmt: skip
SIGNED = INTEGER | {
    "abs": "{x} < 0 ? -{x} : {x}", "divide": "DIVIDE({x}, {y})", "mulhi": "upper_signed({x}, {y}, {bits})",
    "remainder": "REMAINDER({x}, {y})", "sign": "({x} > 0) - ({x} < 0)",
}  # fmt: skip
UNSIGNED = INTEGER | {
    "abs": "{x}", "divide": "{y} == 0 ? ({T})-1 : ({T})({x} / {y})",
    "mulhi": "upper_unsigned({x}, {y}, {bits})", "remainder": "{y} == 0 ? {x} : {x} % {y}",
    "sign": "{x} != 0",
}  # fmt: skip
PRED = {
    "add": "{x} | {y}", "and": "{x} & {y}", "maximum": "{x} | {y}", "minimum": "{x} & {y}",
    "multiply": "{x} & {y}", "not": "!{x}", "or": "{x} | {y}", "xor": "{x} ^ {y}",
}  # fmt: skip
ANY = {
    "clamp": "{x} > {z} || {y} > {z} ? {z} : {y} < {x} ? {x} : {y}", "copy": "{x}",
    "select": "{x} ? {y} : {z}",
}  # fmt: skip
COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def expression(inst: Node, values: list[str]) -> str:
    """An element of `inst` from those of its operands; UnsupportedError for an op that has no row here."""
    dtype, opcode = inst.operands[0].shape.dtype, inst.opcode
    if opcode in IRREGULAR:
        return IRREGULAR[opcode](inst, dtype, *values)
    rows = PRED if dtype.is_pred else FLOAT if dtype.is_float else SIGNED if dtype.is_signed else UNSIGNED
    row = {**ANY, **rows}.get(opcode)
    if row is None:
        raise UnsupportedError(f"{inst!r}: c-source does not run {opcode} of {dtype.name}")
    bits = max(8, dtype.bits)
    words = {"T": c_type(dtype), "U": f"uint{bits}_t", "S": f"int{bits}_t", "bits": bits, "op": inst.op}
    return row.format(**dict(zip("xyz", values, strict=False)), **words)


def compare(inst: Node, dtype: DType, x: str, y: str) -> str:
    key = f"ORDER_{dtype.bits}" if inst.op.is_total_order and dtype.is_float else ""
    return f"{key}({x}) {COMPARE[str(inst.op.direction)]} {key}({y})"


def convert(inst: Node, source: DType, x: str) -> str:
    """A number in the type of the result of `inst`."""
    target = inst.shape.dtype
    if target.is_pred:
        return f"{x} != 0"
    if source.is_float and target.is_integer:
        low = -(2.0 ** (target.bits - 1)) if target.is_signed else 0.0
        digits = target.bits - target.is_signed
        return f"INTEGER({c_type(target)}, {x}, {low}, {2.0**digits}, {digits})"
    return f"({c_type(target)}){x}"


IRREGULAR = {"compare": compare, "convert": convert}
