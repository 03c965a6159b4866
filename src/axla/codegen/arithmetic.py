"""Arithmetic on LLVM values with Python operators; the math functions are written with it.

A `Reg` is an LLVM value of any lane count in a function that is being written. `x * y + 1.0` writes two
instructions; Python numbers become constants of the other operand's type. Nothing here depends on HLO.
Operations for which a target has no instruction are expanded here: rounding, fused multiply-add, scaling by
powers of two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from axla.codegen.function import LlvmFunction, Ssa
from axla.codegen.types import element_type, lane_count, mangle, vector
from axla.target.machine import Target

_FLOATS = ("float", "double", "half", "bfloat")
_INTEGER_OF = {"float": "i32", "double": "i64", "half": "i16", "bfloat": "i16", "i1": "i1"}
_FLOAT_OF = {"i32": "float", "i64": "double"}

# Bits of the fraction, and the bias of the exponent.
FRACTION = {"float": 23, "double": 52}
BIAS = {"float": 127, "double": 1023}


def _operation(
    floating: str | None, integer: str, *, swap: bool = False
) -> Callable[[Reg, Reg | float], Reg]:
    """Makes an operator of `Reg` from LLVM's opcodes for floats (None: not defined) and for integers. `swap`
    exchanges the operands.
    """

    def operate(self: Reg, other: Reg | float) -> Reg:
        a, b = self.m.pair(self, other)
        if swap:
            a, b = b, a
        opcode = floating if a.is_float else integer
        assert opcode is not None, f"{integer} of floats"
        return self.m.lowered("binary", opcode, a, b) or Reg(self.m, self.m.f.binary(opcode, a.ssa, b.ssa))

    return operate


def _comparison(floating: str, integer: str) -> Callable[[Reg, Reg | float], Reg]:
    """Makes a comparison of `Reg` from LLVM's predicates for floats and for integers."""

    def compare(self: Reg, other: Reg | float) -> Reg:
        a, b = self.m.pair(self, other)
        if a.is_float:
            return self.m.compare(floating, a, b)
        return Reg(self.m, self.m.f.icmp(integer, a.ssa, b.ssa))

    return compare


class Reg:
    """An LLVM value with arithmetic operators.

    `>>` on integers is an arithmetic shift; see `Arithmetic` for further functions.
    """

    __slots__ = ("m", "ssa")

    def __init__(self, m: Arithmetic, ssa: Ssa):
        self.m = m
        self.ssa = ssa

    @property
    def type(self) -> str:
        """The LLVM type, of a scalar or a vector."""
        return self.ssa.type

    @property
    def element(self) -> str:
        """The LLVM type of one lane."""
        return element_type(self.ssa.type)

    @property
    def lanes(self) -> int:
        """The number of lanes; 1 for a scalar."""
        return lane_count(self.ssa.type)

    @property
    def known(self) -> bool:
        """Whether the value is a constant."""
        return not self.ssa.text.startswith("%")

    @property
    def is_float(self) -> bool:
        """Whether the lanes are floats: of type float, double, half or bfloat."""
        return self.element in _FLOATS

    __add__ = _operation("fadd", "add")
    __radd__ = __add__
    __sub__ = _operation("fsub", "sub")
    __rsub__ = _operation("fsub", "sub", swap=True)
    __mul__ = _operation("fmul", "mul")
    __rmul__ = __mul__
    __truediv__ = _operation("fdiv", "sdiv")
    __rtruediv__ = _operation("fdiv", "sdiv", swap=True)

    def __neg__(self) -> Reg:
        lowered = self.m.lowered("negate", self)
        return lowered or (Reg(self.m, self.m.f.unary("fneg", self.ssa)) if self.is_float else 0 - self)

    __and__ = _operation(None, "and")
    __or__ = _operation(None, "or")
    __xor__ = _operation(None, "xor")

    def __invert__(self) -> Reg:
        return self ^ (1 if self.element == "i1" else -1)

    __lshift__ = _operation(None, "shl")
    __rshift__ = _operation(None, "ashr")
    lshr = _operation(None, "lshr")
    udiv = _operation(None, "udiv")
    urem = _operation(None, "urem")
    srem = _operation(None, "srem")
    # Float comparisons are ordered: false when an operand is NaN (`ne`: true). Integer comparisons are
    # signed.
    __lt__ = _comparison("olt", "slt")
    __le__ = _comparison("ole", "sle")
    __gt__ = _comparison("ogt", "sgt")
    __ge__ = _comparison("oge", "sge")
    eq = _comparison("oeq", "eq")
    ne = _comparison("une", "ne")
    ult = _comparison("ult", "ult")
    """Unsigned less than, of integers."""
    ugt = _comparison("ugt", "ugt")
    """Unsigned greater than, of integers."""
    unordered = _comparison("uno", "eq")
    """Whether either operand is NaN."""

    def is_nan(self) -> Reg:
        """Whether each lane is NaN, as a mask."""
        return self.unordered(self)

    def cast(self, opcode: str, element: str) -> Reg:
        """Converts each lane to another element type by an opcode of LLVM."""
        kind = vector(element, self.lanes)
        return self.m.lowered("cast", opcode, self, element) or Reg(
            self.m, self.m.f.cast(opcode, self.ssa, kind)
        )

    def bits(self) -> Reg:
        """The bits of a float as an integer of the same width."""
        return self.cast("bitcast", _INTEGER_OF[self.element])

    def floats(self) -> Reg:
        """The float with the bits of this integer."""
        return self.cast("bitcast", _FLOAT_OF[self.element])


class Arithmetic:
    """Functions on the LLVM values of one function, written with the instructions of its target. `lower`
    returns replacements for operations that the target lacks (`soft.Lowering`), or None where it lacks none.
    """

    def __init__(self, f: LlvmFunction, target: Target, lower: Callable[[Arithmetic], Any]):
        self.f = f
        self.target = target
        self.lower = lower
        self.lowering = lower(self)

    def lowered(self, what: str, *args: Any) -> Reg | None:
        """The replacement for an operation that the target lacks: the result of method `what` of `lowering`.
        None where the target has the operation.
        """
        return getattr(self.lowering, what)(*args) if self.lowering is not None else None

    def has(self, capability: bool, x: Reg) -> bool:
        """Whether the machine has `capability` for the float type of x; for f64, it must have f64 too."""
        return capability and (self.target.has_double or x.element != "double")

    def reg(self, ssa: Ssa) -> Reg:
        """Wraps an LLVM value of this function."""
        return Reg(self, ssa)

    def number(self, like: Reg, value: float) -> Reg:
        """The constant `value` in the type of `like`."""
        return Reg(self, self.f.const(like.type, value))

    def pair(self, a: Reg | float, b: Reg | float) -> tuple[Reg, Reg]:
        """Returns both operands as registers of one type: numbers become constants, single lanes are
        splatted.
        """
        if not isinstance(a, Reg):
            assert isinstance(b, Reg)
            return self.number(b, a), b
        if not isinstance(b, Reg):
            return a, self.number(a, b)
        if a.type != b.type and a.lanes != b.lanes:
            lanes = max(a.lanes, b.lanes)
            return self.splat(a, lanes), self.splat(b, lanes)
        return a, b

    def splat(self, a: Reg, lanes: int) -> Reg:
        """Puts a scalar into every lane; a vector is returned as it is."""
        return Reg(self, self.f.splat(a.ssa, lanes))

    def compare(self, predicate: str, a: Reg, b: Reg) -> Reg:
        """Compares floats with one of LLVM's predicates."""
        return self.lowered("compare", predicate, a, b) or Reg(self, self.f.fcmp(predicate, a.ssa, b.ssa))

    def intrinsic(self, name: str, *args: Reg) -> Reg:
        """Calls an intrinsic overloaded on the type of its first operand, which is also the type of its
        result.
        """
        lowered, kind = self.lowered("intrinsic", name, *args), args[0].type
        return lowered or Reg(self, self.f.call(kind, f"llvm.{name}.{mangle(kind)}", *(a.ssa for a in args)))

    def leading_zeros(self, x: Reg) -> Reg:
        """The number of leading zeros of an integer; for 0, its number of bits."""
        if (lowered := self.lowered("leading_zeros", x)) is not None:
            return lowered
        name = f"llvm.ctlz.{mangle(x.type)}"
        self.f.module.declare(name, f"declare {x.type} @{name}({x.type}, i1 immarg)")
        return Reg(self, self.f.call(x.type, name, x.ssa, self.f.const("i1", 0)))

    # -- multiply and add --------------------------------------------------------------------------------

    def fma(self, a: Reg | float, b: Reg | float, c: Reg | float) -> Reg:
        """Returns a * b + c, rounded once where the target has a single instruction for it, else twice. It is
        never a library call.
        """
        like = next(v for v in (a, b, c) if isinstance(v, Reg))
        x, y, z = (v if isinstance(v, Reg) else self.number(like, v) for v in (a, b, c))
        if not x.type == y.type == z.type:
            lanes = max(x.lanes, y.lanes, z.lanes)
            x, y, z = self.splat(x, lanes), self.splat(y, lanes), self.splat(z, lanes)
        return self.intrinsic("fma", x, y, z) if self.has(self.target.has_fma, x) else x * y + z

    def horner(self, x: Reg, coefficients: Sequence[float]) -> Reg:
        """Evaluates at x the polynomial with the given coefficients, highest power first."""
        first, *rest = coefficients
        total = self.number(x, first)
        for c in rest:
            total = self.fma(total, x, c)
        return total

    def two_sum(self, a: Reg, b: Reg) -> tuple[Reg, Reg]:
        """(the rounded sum, its exact error)."""
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)

    def fast_two_sum(self, a: Reg, b: Reg) -> tuple[Reg, Reg]:
        """(the rounded sum, its exact error), for |a| >= |b|."""
        total = a + b
        return total, b - (total - a)

    def split(self, a: Reg) -> tuple[Reg, Reg]:
        """Splits `a` into two numbers with short mantissas: their sum is `a`, their products are exact
        (Veltkamp).
        """
        wide = a * (4097.0 if a.element == "float" else 134217729.0)
        high = wide - (wide - a)
        return high, a - high

    def two_product(self, a: Reg, b: Reg) -> tuple[Reg, Reg]:
        """(the rounded product, its exact error)."""
        product = a * b
        if self.has(self.target.has_fma, a):
            return product, self.fma(a, b, -product)
        a1, a2 = self.split(a)
        b1, b2 = self.split(b)
        return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2

    def multiply_high(self, a: Reg, b: Reg) -> Reg:
        """The upper half of the product of unsigned 64-bit integers.

        Computed from 32-bit halves, since 128-bit integers need a library on some targets.
        """
        a_low, a_high, b_low, b_high = a & 0xFFFFFFFF, a.lshr(32), b & 0xFFFFFFFF, b.lshr(32)
        first, second = a_low * b_high, a_high * b_low
        middle = (a_low * b_low).lshr(32) + (first & 0xFFFFFFFF) + (second & 0xFFFFFFFF)
        return a_high * b_high + first.lshr(32) + second.lshr(32) + middle.lshr(32)

    # -- choice ------------------------------------------------------------------------------------------

    def select(self, condition: Reg, a: Reg | float, b: Reg | float) -> Reg:
        """Takes lanes of `a` where the condition holds, else those of `b`."""
        x, y = self.pair(a, b)
        if condition.lanes > x.lanes:
            x, y = self.splat(x, condition.lanes), self.splat(y, condition.lanes)
        return Reg(self, self.f.select(condition.ssa, x.ssa, y.ssa))

    def least(self, x: Reg, bound: Reg | float) -> Reg:
        """The smaller operand; x where either is NaN (one x86 instruction, unlike HLO's minimum)."""
        a, b = self.pair(x, bound)
        return self.select(b < a, b, a)

    def most(self, x: Reg, bound: Reg | float) -> Reg:
        """The larger operand; x where either is NaN."""
        a, b = self.pair(x, bound)
        return self.select(b > a, b, a)

    def any(self, mask: Reg) -> Reg:
        """Whether a lane of a mask is set, as one i1."""
        return Reg(self, self.f.any_lane(mask.ssa))

    # -- sign, square root, rounding ---------------------------------------------------------------------

    def abs(self, x: Reg) -> Reg:
        """The magnitude of floats: clears the sign bit, also of NaN."""
        return self.intrinsic("fabs", x)

    def copysign(self, x: Reg | float, sign: Reg) -> Reg:
        """The magnitude of `x` with the sign bit of `sign`."""
        return self.intrinsic("copysign", x if isinstance(x, Reg) else self.number(sign, x), sign)

    def sqrt(self, x: Reg) -> Reg:
        """The square root of floats, correctly rounded; of negative numbers NaN."""
        return self.intrinsic("sqrt", x)

    def magic(self, x: Reg) -> float:
        """The constant 1.5 * 2**fraction, for floats with `fraction` fraction bits.

        Adding it to a small number rounds the number to an integer, which is then in the low bits of the sum.
        """
        return 1.5 * 2.0 ** FRACTION[x.element]

    def rint(self, x: Reg) -> Reg:
        """Rounds floats to the nearest integer, ties to even."""
        if self.has(self.target.has_rounding, x):
            return self.intrinsic("roundeven", x)
        limit = 2.0 ** FRACTION[x.element]
        size = self.abs(x)
        rounded = self.copysign((size + limit) - limit, x)
        return self.select(size < limit, rounded, x)

    def floor(self, x: Reg) -> Reg:
        """Rounds floats down to integers; keeps the sign of zero."""
        if self.has(self.target.has_rounding, x):
            return self.intrinsic("floor", x)
        near = self.rint(x)
        return self.copysign(self.select(near > x, near - 1.0, near), x)

    def ceil(self, x: Reg) -> Reg:
        """Rounds floats up to integers; keeps the sign of zero."""
        if self.has(self.target.has_rounding, x):
            return self.intrinsic("ceil", x)
        near = self.rint(x)
        return self.copysign(self.select(near < x, near + 1.0, near), x)

    def trunc(self, x: Reg) -> Reg:
        """Rounds floats toward zero to integers; keeps the sign of zero."""
        if self.has(self.target.has_rounding, x):
            return self.intrinsic("trunc", x)
        size = self.abs(x)
        near = self.rint(size)
        return self.copysign(self.select(near > size, near - 1.0, near), x)

    # -- powers of two -----------------------------------------------------------------------------------

    def power_of_two(self, n: Reg) -> Reg:
        """Computes 2**n for an integer register n, where the result is a normal number."""
        kind = _FLOAT_OF[n.element]
        return ((n + BIAS[kind]) << FRACTION[kind]).floats()

    def small_integer(self, n: Reg) -> Reg:
        """Converts an integer to the float type of the same width; its magnitude must be below half of
        2**(fraction bits).
        """
        if n.element == "i32":
            return n.cast("sitofp", "float")
        # Vectors of 64-bit integers often have no conversion: add the integer to the bits of the magic
        # number.
        magic = 1.5 * 2.0**52
        return (n + struct.unpack("<q", struct.pack("<d", magic))[0]).floats() - magic

    def to_small_integer(self, n: Reg) -> Reg:
        """Converts a float with an integral value of small magnitude to the integer type of the same
        width.
        """
        if n.element == "float":
            return n.cast("fptosi", "i32")
        magic = 1.5 * 2.0**52
        return (n + magic).bits() - struct.unpack("<q", struct.pack("<d", magic))[0]

    # -- functions of the module -------------------------------------------------------------------------

    def outlined(self, name: str, body: Callable[..., tuple[Reg, ...]], *args: Reg) -> tuple[Reg, ...]:
        """Calls a function of the module that computes `body(*args)`; it is written once per name and operand
        types.

        For long or rare code. The body may have branches and loops; it must depend on its operands only.
        """
        f = self.f
        name = f"axla.{name}." + ".".join(mangle(arg.type) for arg in args)
        known = f.module.outlined.get(name)
        if known is None:
            known = f.module.outlined[name] = self._outline(name, body, args)
        whole = f.call(known, name, *(arg.ssa for arg in args))
        if known[0] != "{":
            return (Reg(self, whole),)
        kinds = enumerate(known[1:-1].split(", "))
        return tuple(
            Reg(self, f.pure(t, f"extractvalue {known} {whole.text}, {k}", (whole,))) for k, t in kinds
        )

    def _outline(self, name: str, body: Callable[..., tuple[Reg, ...]], args: Sequence[Reg]) -> str:
        """Writes the internal function `name`; returns its result type."""
        params = [(arg.type, f"p{k}") for k, arg in enumerate(args)]
        inner = LlvmFunction(
            self.f.module, name, "", params, linkage="internal", attributes="nounwind noinline"
        )
        arithmetic = Arithmetic(inner, self.target, self.lower)
        parts = body(*map(arithmetic.reg, inner.params.values()))
        whole = parts[0].ssa
        if len(parts) > 1:
            kind = "{" + ", ".join(part.type for part in parts) + "}"
            whole = inner.undef(kind)
            for k, part in enumerate(parts):
                text = f"insertvalue {kind} {whole.text}, {part.type} {part.ssa.text}, {k}"
                whole = inner.pure(kind, text, (whole, part.ssa))
        inner.result = whole.type
        inner.ret(whole)
        return whole.type

    def table(self, name: str, words: Sequence[int], index: Reg) -> Reg:
        """Loads, for each lane, the word number `index` of a table of 32-bit constants, which is added to the
        module under `name`.
        """
        f = self.f
        text = ", ".join(f"i32 {word - (word >> 31 << 32)}" for word in words)
        f.module.globals.setdefault(
            name, f"@{name} = internal unnamed_addr constant [{len(words)} x i32] [{text}]"
        )
        base = f.glob(name)
        whole = f.undef(vector("i32", index.lanes))
        for lane in range(index.lanes):
            one = f.load("i32", f.gep("i32", base, f.extract(index.ssa, lane)), 4, readonly=True)
            whole = f.insert(whole, one, lane)
        return Reg(self, whole)
