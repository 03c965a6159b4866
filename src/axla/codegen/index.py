"""Index values: where in an array each lane of a value comes from.

An `Index` is `base + lane * stride` (stride 0: the same for all lanes) or, where that does not hold, a vector. It knows an
upper limit and a divisor of its base, so that `//` and `%` of a collapsed or reshaped index keep the affine form, which is
how contiguous loads are found. `Op.source` computes with these as it does with Python ints and NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from axla.codegen.function import Function, Ssa, vector


class Index:
    """An index into one dimension. Supports `+ - * // %` with ints and other indices; all values stay >= 0 unless
    something is subtracted."""

    __slots__ = ("f", "base", "stride", "lanes", "vec", "multiple", "limit")

    def __init__(
        self, f: Function, base: Ssa, stride: int = 0, lanes: int = 1, *,
        vec: Ssa | None = None, multiple: int = 1, limit: int = 1 << 62,
    ):  # fmt: skip
        self.f = f
        self.base = base
        self.stride = stride if lanes > 1 else 0
        self.lanes = lanes if self.stride or vec is not None else 1
        self.vec = vec
        self.multiple = multiple  # divides base
        self.limit = limit  # every lane is below it

    @property
    def uniform(self) -> bool:
        """The same in every lane."""
        return self.vec is None and self.stride == 0

    @property
    def key(self) -> tuple[str, int, str]:
        return (self.base.text, self.stride, self.vec.text if self.vec is not None else "")

    @property
    def constant(self) -> int | None:
        return self.base.constant if self.uniform else None

    def vector(self, lanes: int) -> Ssa:
        """The index of each lane."""
        f = self.f
        if self.vec is not None:
            return self.vec
        base = f.splat(self.base, lanes)
        if not self.stride or lanes == 1:
            return base
        steps = f.lanes_constant(vector(self.base.type, lanes), [k * self.stride for k in range(lanes)])
        return f.pure(base.type, f"add nsw {base.type} {base.text}, {steps.text}", (base,))

    def _new(self, base: Ssa, stride: int, multiple: int, limit: int) -> Index:
        return Index(self.f, base, stride, self.lanes, multiple=max(1, multiple), limit=limit)

    def _from_vec(self, vec: Ssa, limit: int) -> Index:
        return Index(self.f, self.base, 0, self.lanes, vec=vec, limit=limit)

    def _vec_binary(self, opcode: str, other: Index | int, limit: int) -> Index:
        f = self.f
        lanes = max(self.lanes, other.lanes if isinstance(other, Index) else 1)
        a = self.vector(lanes)
        b = other.vector(lanes) if isinstance(other, Index) else f.const(a.type, other)
        made = f.pure(a.type, f"{opcode} {a.type} {a.text}, {b.text}", (a, b))
        return Index(f, self.base, 0, lanes, vec=made, limit=limit)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            if other == 0:
                return self
            if self.vec is not None:
                return self._vec_binary("add nsw", other, self.limit + other)
            base = self.f.add(self.base, self.f.const(self.base.type, other))
            return self._new(base, self.stride, gcd(self.multiple, other), self.limit + other)
        limit = self.limit + other.limit
        if self.vec is not None or other.vec is not None:
            return self._vec_binary("add nsw", other, limit)
        base = self.f.add(self.base, other.base)
        lanes = max(self.lanes, other.lanes)
        multiple = gcd(_divisor(self), _divisor(other))
        return Index(self.f, base, self.stride + other.stride, lanes, multiple=max(1, multiple), limit=limit)

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
        base = self.f.mul(self.base, self.f.const(self.base.type, factor))
        return self._new(base, self.stride * factor, _divisor(self) * abs(factor), limit)

    __rmul__ = __mul__

    def _split_kind(self, divisor: int) -> str:
        """How `//` and `%` by `divisor` treat the lanes: none in another quotient, one quotient step per lane, or any."""
        if self.vec is not None:
            return "general"
        span = abs(self.stride) * (self.lanes - 1)
        if span == 0 or (self.stride > 0 and gcd(_divisor(self), divisor) > span):
            return "uniform"
        if self.stride > 0 and self.stride % divisor == 0:
            return "stepping"
        return "general"

    def __floordiv__(self, divisor: int) -> Index:
        if divisor == 1:
            return self
        if self.limit <= divisor:
            return Index(self.f, self.f.const(self.base.type, 0), limit=1)
        limit = -(-self.limit // divisor)
        kind = self._split_kind(divisor)
        if kind == "general":
            return self._vec_binary("udiv", divisor, limit)
        known = _divisor(self)
        multiple = known // divisor if known % divisor == 0 else 1
        stride = 0 if kind == "uniform" else self.stride // divisor
        return self._new(self.f.udiv(self.base, divisor), stride, multiple, limit)

    def __mod__(self, divisor: int) -> Index:
        if self.limit <= divisor:
            return self
        kind = self._split_kind(divisor)
        if kind == "general":
            return self._vec_binary("urem", divisor, divisor)
        stride = self.stride if kind == "uniform" else 0
        return self._new(self.f.urem(self.base, divisor), stride, gcd(_divisor(self), divisor), divisor)


def _divisor(index: Index) -> int:
    """A number that divides the base; of a constant, the constant itself (0: divisible by all)."""
    constant = index.base.constant
    return index.multiple if constant is None else abs(constant)


AnyIndex = Index | int


def linear(index: Sequence[AnyIndex], strides: Sequence[int]) -> AnyIndex:
    """The offset of an element, in elements."""
    offset: AnyIndex = 0
    for i, stride in zip(index, strides, strict=True):
        term = i * stride
        offset = term if isinstance(offset, int) and offset == 0 else term + offset
    return offset


def delinearize(offset: AnyIndex, dims: Sequence[int]) -> tuple[AnyIndex, ...]:
    """The index of the element at a row-major offset."""
    found: list[AnyIndex] = []
    for d in reversed(dims[1:]):
        found.append(offset % d if d > 1 else 0)
        offset = offset // d if d > 1 else offset
    if dims:
        found.append(offset)
    return tuple(reversed(found))


def index_key(index: Sequence[AnyIndex]) -> tuple:
    return tuple(i if isinstance(i, int) else i.key for i in index)
