"""AVX-512 instructions that work on exponent and mantissa of floats.

They are right for every operand, special values included. They exist for 128, 256 and 512 bits. A narrower
value is the low part of a wider register, which costs nothing: scalars are in such registers anyway.
"""

from __future__ import annotations

from axla.codegen.arithmetic import Reg
from axla.codegen.types import element_type, lane_count, vector
from axla.kernels.product import HALVES

_WIDTH = {"float": 32, "double": 64}


def applies(x: Reg) -> bool:
    """Whether the target has the instructions of this module for registers like x."""
    bits = x.lanes * _WIDTH.get(x.element, 0)
    return x.m.target.math.avx512 and 0 < bits <= 512 and bits & (bits - 1) == 0


def scalef(p: Reg, n: Reg) -> Reg:
    """Computes p * 2**floor(n), rounded once."""
    return _masked("scalef", [p, n])


def getexp(x: Reg) -> Reg:
    """Computes floor(log2 |x|); -inf for 0, inf for infinities."""
    return _masked("getexp", [x])


def getmant(x: Reg) -> Reg:
    """The mantissa x * 2**-e in [3/4, 3/2) for an integer e; 1 for 0 and infinity, NaN for negative x."""
    return _masked("getmant", [x], 0b1111)


def rsqrt14(x: Reg) -> Reg:
    """Computes 1 / sqrt(x), exact to 14 bits."""
    return _call("rsqrt14", [x], None, masked=False)


def rounds(x: Reg) -> bool:
    """Whether an instruction of the target rounds floats like x to bf16. It treats denormals as zero, so the
    target must allow that.
    """
    return x.m.target.flushes and HALVES in x.m.target.intrinsics and x.element == "float" and applies(x)


def bfloat(x: Reg) -> Reg:
    """Rounds floats to the nearest bf16; returns the bits."""
    return x.cast("fptrunc", "bfloat").bits()


def converts(x: Reg) -> bool:
    """Whether `to_integers` accepts registers like x."""
    return x.m.target.math.avx512 and (x.element, x.lanes) == ("float", 16)


def to_integers(x: Reg, nearest: bool) -> Reg:
    """Converts 16 floats to i32: to the nearest integers if `nearest`, else to their integer parts. The
    result is -2**31 for NaN and numbers out of range.
    """
    f, kind = x.m.f, vector("i32", 16)
    name = f"llvm.x86.avx512.mask.cvt{'' if nearest else 't'}ps2dq.512"
    f.module.declare(name, f"declare {kind} @{name}({x.type}, {kind}, i16, i32 immarg)")
    rounding = f.const("i32", 4)  # the current rounding mode
    return x.m.reg(f.call(kind, name, x.ssa, f.zero(kind), f.const("i16", -1), rounding))


def _masked(operation: str, operands: list[Reg], immediate: int | None = None) -> Reg:
    return _call("mask." + operation, operands, immediate, masked=True)


def _call(operation: str, operands: list[Reg], immediate: int | None, masked: bool) -> Reg:
    """Calls the AVX-512 intrinsic `operation` on whole registers, for all lanes. `immediate` is its constant
    operand, None if it has none. `masked`: for 512 bits the intrinsic takes a rounding mode, and the current
    mode is used.
    """
    m, lanes = operands[0].m, operands[0].lanes
    args = [_widened(operand).ssa for operand in operands]
    kind = args[0].type
    element, count = element_type(kind), lane_count(kind)
    bits = count * _WIDTH[element]
    if immediate is not None:
        args.append(m.f.const("i32", immediate))
    args += [m.f.zero(kind), m.f.const(f"i{max(8, count)}", -1)]
    if bits == 512 and masked:
        args.append(m.f.const("i32", 4))
    name = f"llvm.x86.avx512.{operation}.{'ps' if element == 'float' else 'pd'}.{bits}"
    types = ", ".join("i32 immarg" if arg.type == "i32" else arg.type for arg in args)
    m.f.module.declare(name, f"declare {kind} @{name}({types})")
    return _narrowed(m.reg(m.f.call(kind, name, *args)), lanes)


def _widened(x: Reg) -> Reg:
    """Extends x to 128 bits, whose low lanes it becomes; returns x itself if it has no fewer bits."""
    f = x.m.f
    count = 128 // _WIDTH[x.element]
    if x.lanes >= count:
        return x
    kind = vector(x.element, count)
    if x.lanes == 1:
        return x.m.reg(f.insert(f.undef(kind), x.ssa, 0))
    order = [k if k < x.lanes else -1 for k in range(count)]
    return x.m.reg(f.shuffle(x.ssa, x.ssa, order))


def _narrowed(x: Reg, lanes: int) -> Reg:
    f = x.m.f
    if x.lanes == lanes:
        return x
    return x.m.reg(f.extract(x.ssa, 0) if lanes == 1 else f.shuffle(x.ssa, x.ssa, range(lanes)))
