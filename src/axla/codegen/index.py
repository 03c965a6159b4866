"""Indices in generated code: the position in an array for each lane of a value.

An `Index` is `base + lane * stride` (stride 0: the same for all lanes) or, where that does not hold, a
vector. It has an upper limit and a divisor of its base, so that `//` and `%` of a collapsed or reshaped
index keep the affine form, by which contiguous loads are recognised. `Op.source` computes with these as it
does with Python ints and NumPy arrays.

An index also remembers that it is `(x // divisor) % modulus` of another one: where `linear` combines all
digits of a delinearized index again, the result is x, even if the shape changed in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from axla.codegen.function import LlvmFunction, Ssa
from axla.codegen.types import vector


class Index:
    """An index into one dimension. Supports `+ - * // %` with ints and other indices; all values stay >= 0
    unless something is subtracted.

    Its base is `origin + offset`. Added numbers are kept in `offset`, so that neighbouring indices share an
    origin.
    """

    __slots__ = ("f", "origin", "offset", "stride", "lanes", "vec", "multiple", "limit", "view")

    def __init__(
        self, f: LlvmFunction, base: Ssa, stride: int = 0, lanes: int = 1, *,
        vec: Ssa | None = None, multiple: int = 1, limit: int = 1 << 62, offset: int = 0,
    ):  # fmt: skip
        self.f = f
        if base.constant is not None:
            base, offset = f.const(base.type, base.constant + offset), 0
        self.origin = base
        self.offset = offset
        self.stride = stride if lanes > 1 else 0
        self.lanes = lanes if self.stride or vec is not None else 1
        self.vec = vec
        self.multiple = multiple  # divides base
        self.limit = limit  # every lane is below it
        self.view: tuple[Index, int, int] | None = None  # x, divisor, modulus (0: no modulus): see above

    @property
    def base(self) -> Ssa:
        """The index of the first lane."""
        return self.f.add(self.origin, self.f.const(self.origin.type, self.offset))

    @property
    def uniform(self) -> bool:
        """Whether all lanes have the same index."""
        return self.vec is None and self.stride == 0

    @property
    def key(self) -> tuple[str, int, int, str]:
        """A key that equal indices share, for caches."""
        return (self.origin.text, self.offset, self.stride, self.vec.text if self.vec is not None else "")

    @property
    def constant(self) -> int | None:
        """The value where it is known when code is written, else None."""
        return self.origin.constant if self.uniform else None

    @property
    def divisor(self) -> int:
        """A number that divides the base. For a constant it is the constant itself; 0 is divisible by every
        number.
        """
        constant = self.origin.constant
        return self.multiple if constant is None else abs(constant)

    def vector(self, lanes: int) -> Ssa:
        """The indices of all lanes, in one register."""
        f = self.f
        if self.vec is not None:
            return self.vec
        base = f.splat(self.base, lanes)
        if not self.stride or lanes == 1:
            return base
        steps = f.lanes_constant(vector(self.base.type, lanes), [k * self.stride for k in range(lanes)])
        return f.pure(base.type, f"add nsw {base.type} {base.text}, {steps.text}", (base,))

    def _new(self, base: Ssa, stride: int, multiple: int, limit: int, offset: int = 0) -> Index:
        multiple = max(1, multiple)
        return Index(self.f, base, stride, self.lanes, multiple=multiple, limit=limit, offset=offset)

    def _vec_binary(self, opcode: str, other: Index | int, limit: int) -> Index:
        f = self.f
        lanes = max(self.lanes, other.lanes if isinstance(other, Index) else 1)
        a = self.vector(lanes)
        wide = self.limit <= 1 << 31 and lanes > 1 and a.type.endswith("i64>")
        if wide and isinstance(other, int) and opcode in ("udiv", "urem"):
            return Index(f, self.base, 0, lanes, vec=_magic(f, opcode, a, other), limit=limit)
        b = other.vector(lanes) if isinstance(other, Index) else f.const(a.type, other)
        made = f.pure(a.type, f"{opcode} {a.type} {a.text}, {b.text}", (a, b))
        return Index(f, self.base, 0, lanes, vec=made, limit=limit)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            if other == 0:
                return self
            if self.vec is not None:
                return self._vec_binary("add nsw", other, self.limit + other)
            multiple, limit = gcd(self.multiple, other), self.limit + other
            return self._new(self.origin, self.stride, multiple, limit, self.offset + other)
        limit = self.limit + other.limit
        if self.vec is not None or other.vec is not None:
            return self._vec_binary("add nsw", other, limit)
        offset = self.offset + other.offset
        if other.origin.constant is not None:  # constants are added to the offset
            origin, offset = self.origin, offset + other.origin.constant
        elif self.origin.constant is not None:
            origin, offset = other.origin, offset + self.origin.constant
        else:
            origin = self.f.add(self.origin, other.origin)
        lanes = max(self.lanes, other.lanes)
        multiple = max(1, gcd(self.divisor, other.divisor))
        stride = self.stride + other.stride
        return Index(self.f, origin, stride, lanes, multiple=multiple, limit=limit, offset=offset)

    __radd__ = __add__

    def __sub__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return self + (-other)
        return self + other * -1

    def __rsub__(self, other: int) -> Index:
        return self * -1 + other

    def __mul__(self, factor: int) -> Index:
        if factor == 1:
            return self
        limit = (self.limit - 1) * factor + 1 if factor > 0 else 1
        if self.vec is not None:
            return self._vec_binary("mul nsw", factor, limit)
        origin, multiple = self.f.mul(self.origin, self.f.const(self.origin.type, factor)), self.divisor
        return self._new(origin, self.stride * factor, multiple * abs(factor), limit, self.offset * factor)

    __rmul__ = __mul__

    def _split_kind(self, divisor: int) -> str:
        """Classifies what `//` and `%` by `divisor` do to the lanes: "uniform" if all lanes have one
        quotient, "stepping" if the quotient grows by a constant per lane, else "general".
        """
        if self.vec is not None:
            return "general"
        span = abs(self.stride) * (self.lanes - 1)
        if span == 0 or (self.stride > 0 and gcd(self.divisor, divisor) > span):
            return "uniform"
        if self.stride > 0 and self.stride % divisor == 0:
            return "stepping"
        return "general"

    def __floordiv__(self, divisor: int) -> Index:
        if divisor == 1:
            return self
        if self.limit <= divisor:
            return Index(self.f, self.f.const(self.origin.type, 0), limit=1)
        found = self._quotient(divisor)
        x, d, m = self.view or (self, 1, 0)
        if m == 0 or m % divisor == 0:
            found.view = (x, d * divisor, m // divisor)
        return found

    def _quotient(self, divisor: int) -> Index:
        limit = -(-self.limit // divisor)
        kind = self._split_kind(divisor)
        if kind == "general":
            return self._vec_binary("udiv", divisor, limit)
        known = self.divisor
        multiple = known // divisor if known % divisor == 0 else 1
        stride = 0 if kind == "uniform" else self.stride // divisor
        return self._new(self.f.udiv(self.base, divisor), stride, multiple, limit)

    def __mod__(self, divisor: int) -> Index:
        if self.limit <= divisor:
            return self
        found = self._remainder(divisor)
        x, d, m = self.view or (self, 1, 0)
        if m == 0 or m % divisor == 0:
            found.view = (x, d, divisor)
        return found

    def _remainder(self, divisor: int) -> Index:
        kind = self._split_kind(divisor)
        if kind == "general":
            return self._vec_binary("urem", divisor, divisor)
        stride = self.stride if kind == "uniform" else 0
        return self._new(self.f.urem(self.base, divisor), stride, gcd(self.divisor, divisor), divisor)


AnyIndex = Index | int


def _magic(f: LlvmFunction, opcode: str, a: Ssa, divisor: int) -> Ssa:
    """Computes a // divisor ("udiv") or a % divisor ("urem") by multiplication, for vectors of numbers below
    2**31: CPUs have no vector division.
    """
    if divisor & (divisor - 1) == 0:
        if opcode == "urem":
            return f.binary("and", a, f.const(a.type, divisor - 1))
        return f.binary("lshr", a, f.const(a.type, divisor.bit_length() - 1))
    shift = 31 + max(1, (divisor - 1).bit_length())
    factor = -(-(1 << shift) // divisor)  # below 2**33: the product fits 64 bits; exact for all a < 2**31
    product = f.binary("mul", a, f.const(a.type, factor))
    quotient = f.binary("lshr", product, f.const(a.type, shift))
    if opcode == "udiv":
        return quotient
    return f.binary("sub", a, f.binary("mul", quotient, f.const(a.type, divisor)))


def linear(index: Sequence[AnyIndex], sizes: Sequence[int]) -> AnyIndex:
    """The row-major offset of an element in an array of the given sizes."""
    offset: AnyIndex = 0
    stride = 1
    tail: AnyIndex | None = None  # the digits of one index that are joined so far; the stride of the last
    tail_stride = 1
    for i, size in zip(reversed(index), reversed(sizes), strict=True):
        if size == 1:  # its index is 0, and the dimensions on both sides of it can still be joined
            continue
        joined = _join(i, tail, stride // tail_stride) if tail is not None else None
        if joined is not None:
            tail = joined
        else:
            if tail is not None:
                offset = tail * tail_stride + offset
            tail, tail_stride = i, stride
        stride *= size
    return tail * tail_stride + offset if tail is not None else offset


def _join(high: AnyIndex, low: AnyIndex, size: int) -> Index | None:
    """Joins two adjacent digits of one x, `high` and `low`, where `size` is the number of values of `low`: x
    // (d * size) % m and x // d % size become x // d % (m * size). Returns None where the digits do not fit
    together.
    """
    if isinstance(high, int) or isinstance(low, int) or high.view is None or low.view is None:
        return None
    x, divisor, modulus = high.view
    y, low_divisor, low_modulus = low.view
    if x is not y or low_modulus != size or divisor != low_divisor * size:
        return None
    whole = x // low_divisor
    return whole % (modulus * size) if modulus else whole


def delinearize(offset: AnyIndex, sizes: Sequence[int]) -> tuple[AnyIndex, ...]:
    """The multidimensional index at a row-major offset; every digit but the first is below its size."""
    found: list[AnyIndex] = []
    for d in reversed(sizes[1:]):
        found.append(offset % d if d > 1 else 0)
        offset = offset // d if d > 1 else offset
    if sizes:
        found.append(offset if sizes[0] != 1 else 0)
    return tuple(reversed(found))


def placed(rank: int, *groups: tuple[Sequence[int], Sequence[AnyIndex]]) -> tuple[AnyIndex, ...]:
    """An index of `rank` dimensions. Each of `groups` is (numbers of dimensions, their indices); all other
    dimensions have index 0.
    """
    found: list[AnyIndex] = [0] * rank
    for dims, at in groups:
        for d, i in zip(dims, at, strict=True):
            found[d] = i
    return tuple(found)


def base_of(f: LlvmFunction, index: AnyIndex) -> Ssa:
    """The scalar register of an index that is the same in all lanes."""
    return f.index(index) if isinstance(index, int) else index.base


def index_key(index: Sequence[AnyIndex]) -> tuple:
    """A hashable key, equal for equal indices."""
    return tuple(i if isinstance(i, int) else i.key for i in index)
