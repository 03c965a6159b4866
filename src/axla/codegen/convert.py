"""Converts between element types, with the semantics of HLO's convert."""

from __future__ import annotations

from axla.codegen import avx512, small_float
from axla.codegen.arithmetic import Reg
from axla.core.dtypes import F32, F64, DType


def register_element(dtype: DType) -> str:
    """The LLVM type that holds a (real) element type in registers."""
    if dtype.is_pred:
        return "i1"
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return f"i{max(8, dtype.bits)}"


def memory_element(dtype: DType) -> str:
    """The LLVM type that holds a (real) element type in memory."""
    if dtype.is_float and dtype.bits >= 32:
        return register_element(dtype)
    return f"i{8 * dtype.itemsize}"


def wrap(x: Reg, dtype: DType) -> Reg:
    """Wraps an integer register to the width of its type.

    Types of less than a byte are kept sign- or zero-extended in i8.
    """
    if dtype.bits >= 8:
        return x
    if dtype.is_unsigned:
        return x & ((1 << dtype.bits) - 1)
    return (x << (8 - dtype.bits)) >> (8 - dtype.bits)


def resize(x: Reg, dtype: DType, to: str) -> Reg:
    """Extends or truncates an integer register of type `dtype` to the LLVM type `to`."""
    have, want = int(x.element[1:]), int(to[1:])
    if have == want:
        return x
    if have > want:
        return x.cast("trunc", to)
    return x.cast("sext" if dtype.is_signed else "zext", to)


def convert(x: Reg, source: DType, target: DType, nearest: Reg | None = None) -> Reg:
    """Converts a real value to another real type. `nearest`: the float that was rounded to give x."""
    if source is target:
        return x
    if target.is_pred:
        return x.ne(0)
    if source.is_float:
        return _from_float(x, source, target, nearest)
    return _from_integer(x, source, target)


def _from_integer(x: Reg, source: DType, target: DType) -> Reg:
    """Converts a pred or an integer to another real type."""
    if not target.is_float:
        return wrap(resize(x, source, register_element(target)), target)
    # Through f32 to the smaller floats, rounding twice, as XLA and ml_dtypes do.
    floating = x.cast("sitofp" if source.is_signed else "uitofp", register_element(target))
    if target.bits >= 32 or _exact(source, target):
        return floating
    return small_float.round_to(floating, target)


def _exact(source: DType, target: DType) -> bool:
    """Whether the small float type `target` can represent every value of pred, or of the integer type
    `source`. A float type without a zero can not.
    """
    form, bits = small_float.FORMATS[target.name], 1 if source.is_pred else source.bits
    return form.kind != small_float.SCALE and bits <= form.fraction + 1 and 2.0**bits <= form.largest


def _from_float(x: Reg, source: DType, target: DType, nearest: Reg | None) -> Reg:
    if not target.is_float:
        return float_to_integer(x, target, nearest)
    if target is F64:
        return x.cast("fpext", "double")
    if target is F32:
        return x.cast("fptrunc", "float")  # values of smaller types are f32 in registers
    if source is F64:
        x = small_float.narrow_double(x)
    elif _contains(target, source):
        return x
    return small_float.round_to(x, target)


def _contains(target: DType, source: DType) -> bool:
    """Whether the small float type `target` has every value of the small float type `source`."""
    a, b = small_float.FORMATS.get(target.name), small_float.FORMATS.get(source.name)
    if a is None or b is None or a.kind != small_float.IEEE or b.kind == small_float.SCALE:
        return False
    return (
        a.fraction >= b.fraction
        and a.largest >= b.largest
        and a.bias - 1 + a.fraction >= b.bias - 1 + b.fraction
    )


def float_to_integer(x: Reg, target: DType, nearest: Reg | None = None) -> Reg:
    """Converts to an integer: truncates and saturates; NaN becomes 0. `nearest`: as for `convert`.

    In LLVM, fptosi and fptoui of values out of range are poison; a select that takes its other operand
    discards it.
    """
    m = x.m
    register = register_element(target)
    bits = target.bits
    least = -(2 ** (bits - 1)) if target.is_signed else 0
    most = (2 ** (bits - 1) if target.is_signed else 2**bits) - 1
    precise = 24 if x.element == "float" else 53
    opcode = "fptosi" if target.is_signed else "fptoui"
    if bits <= 16 and avx512.converts(x):
        given = x if nearest is None else nearest
        bounded = m.select(given.is_nan(), 0.0, m.least(given, float(most)))
        whole = avx512.to_integers(bounded, nearest is not None)
        # With both limits, LLVM recognises an instruction that narrows and saturates.
        limited = m.intrinsic("smax", whole, m.number(whole, least))
        return m.intrinsic("smin", limited, m.number(whole, most)).cast("trunc", register)
    if most.bit_length() <= precise and bits < 32:
        # Both bounds are exact floats: clamp before the conversion, which machines have for i32.
        clamped = m.most(m.least(x, float(most)), float(least))
        whole = m.select(x.is_nan(), 0.0, clamped).cast("fptosi", "i32")
        return whole.cast("trunc", register)
    bounded = m.most(x, float(least))
    whole = bounded.cast(opcode, register)
    top = most if target.is_signed else -1
    whole = m.select(x >= float(most + 1) if precise < bits else x >= float(most), top, whole)
    return m.select(x.is_nan(), 0, whole)
