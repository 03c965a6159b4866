"""Elementwise ops as C expressions: `{x}`, `{y}` and `{z}` are operands, `{T}` the type of the first one.

C's <tgmath.h> gives every function for float and double; integers wrap (-fwrapv).
"""

from __future__ import annotations

import numpy as np

from axla import UnsupportedError
from axla.core.dtypes import DType
from axla.ir.graph import Instruction

from .writer import c_type

FLOAT = {
    "abs": "fabs({x})", "acos": "acos({x})", "acosh": "acosh({x})", "add": "{x} + {y}", "asin": "asin({x})",
    "asinh": "asinh({x})", "atan2": "atan2({x}, {y})", "atanh": "atanh({x})", "cbrt": "cbrt({x})",
    "ceil": "ceil({x})", "cosh": "cosh({x})", "cosine": "cos({x})", "divide": "{x} / {y}", "erf": "erf({x})",
    "exponential": "exp({x})", "exponential-minus-one": "expm1({x})", "floor": "floor({x})",
    "is-finite": "isfinite({x}) != 0", "log": "log({x})", "log-plus-one": "log1p({x})",
    "logistic": "1 / (1 + exp(-{x}))",
    "maximum": "{x} != {x} || {x} > {y} ? {x} : {y}", "minimum": "{x} != {x} || {x} < {y} ? {x} : {y}",
    "multiply": "{x} * {y}", "negate": "-{x}", "power": "pow({x}, {y})", "real": "{x}",
    "remainder": "fmod({x}, {y})", "round-nearest-afz": "round({x})", "round-nearest-even": "nearbyint({x})",
    "rsqrt": "1 / sqrt({x})", "sign": "{x} > 0 ? 1 : {x} < 0 ? -1 : {x}", "sine": "sin({x})",
    "sinh": "sinh({x})", "sqrt": "sqrt({x})", "subtract": "{x} - {y}", "tan": "tan({x})", "tanh": "tanh({x})",
}  # fmt: skip
INTEGER = {
    "add": "{x} + {y}", "and": "{x} & {y}",
    "maximum": "{x} > {y} ? {x} : {y}", "minimum": "{x} < {y} ? {x} : {y}", "multiply": "{x} * {y}",
    "negate": "-{x}", "not": "~{x}", "or": "{x} | {y}",
    "shift-left": "({U}){y} < {bits} ? ({T})(({U}){x} << {y}) : 0",
    "shift-right-arithmetic": "({S}){x} >> (({U}){y} < {bits} ? {y} : {bits} - 1)",
    "shift-right-logical": "({U}){y} < {bits} ? ({T})(({U}){x} >> {y}) : 0", "subtract": "{x} - {y}",
    "xor": "{x} ^ {y}",
}  # fmt: skip
SIGNED = INTEGER | {
    "abs": "{x} < 0 ? -{x} : {x}", "divide": "{y} == 0 ? -1 : {y} == -1 ? -{x} : {x} / {y}",
    "remainder": "{y} == 0 ? {x} : {y} == -1 ? 0 : {x} % {y}", "sign": "({x} > 0) - ({x} < 0)",
}  # fmt: skip
UNSIGNED = INTEGER | {
    "abs": "{x}", "divide": "{y} == 0 ? ({T})-1 : ({T})({x} / {y})",
    "remainder": "{y} == 0 ? {x} : {x} % {y}", "sign": "{x} != 0",
}  # fmt: skip
PRED = {
    "add": "{x} | {y}", "and": "{x} & {y}", "maximum": "{x} | {y}", "minimum": "{x} & {y}",
    "multiply": "{x} & {y}", "not": "!{x}", "or": "{x} | {y}", "xor": "{x} ^ {y}",
}  # fmt: skip
ANY = {"copy": "{x}", "select": "{x} ? {y} : {z}"}
COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}

PRELUDE = """\
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

#define CLAMP(v, high) ((v) < 0 ? 0 : (v) > (high) ? (int64_t)(high) : (int64_t)(v))

"""


def expression(inst: Instruction, values: list[str]) -> str:
    """An element of `inst` from those of its operands; UnsupportedError for an op that has no row here."""
    dtype, opcode = inst.operands[0].shape.dtype, inst.opcode
    if opcode == "compare":
        return _compare(inst, *values)
    if opcode == "convert":
        return convert(values[0], dtype, inst.shape.dtype)
    if opcode == "clamp":
        return _clamp(_rows(dtype), *values)
    row = {**ANY, **_rows(dtype)}.get(opcode)
    if row is None:
        raise UnsupportedError(f"{inst!r}: c-source does not run {opcode} of {dtype.name}")
    return row.format(**dict(zip("xyz", values, strict=False)), **_words(dtype))


def _rows(dtype: DType) -> dict[str, str]:
    if dtype.is_pred:
        return PRED
    return FLOAT if dtype.is_float else SIGNED if dtype.is_signed else UNSIGNED


def _words(dtype: DType) -> dict[str, object]:
    bits = max(8, dtype.bits)
    return {"T": c_type(dtype), "U": f"uint{bits}_t", "S": f"int{bits}_t", "bits": bits}


def _compare(inst: Instruction, x: str, y: str) -> str:
    if inst.op.is_total_order and inst.operands[0].shape.dtype.is_float:
        raise UnsupportedError(f"{inst!r}: c-source does not compare in total order")
    return f"{x} {COMPARE[str(inst.op.direction)]} {y}"


def _clamp(rows: dict[str, str], low: str, x: str, high: str) -> str:
    above = rows["maximum"].format(x=low, y=x)
    return rows["minimum"].format(x=f"({above})", y=high)


def convert(x: str, source: DType, target: DType) -> str:
    """A number in another type: what is out of an integer's range is its nearest, NaN is 0."""
    if target.is_pred:
        return f"{x} != 0"
    if source.is_float and target.is_integer:
        info = np.iinfo(target.numpy)
        least, most = int(info.min), int(info.max)
        kind = c_type(target)
        limits = (
            f"{x} <= {float(least)} ? ({kind}){_limit(least)} : {x} >= {float(most)} ? ({kind}){_limit(most)}"
        )
        return f"{x} != {x} ? 0 : {limits} : ({kind}){x}"
    return f"({c_type(target)}){x}"


def _limit(value: int) -> str:
    return f"(-{-value - 1}LL - 1)" if value < 0 else f"{value}ULL"
