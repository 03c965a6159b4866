"""What is known of a type while a program is verified, and the sets of types that operations accept.

A *kind* is written in letters: p booleans, s signed and u unsigned integers, i both, f floats, d f32 and
f64, c complex numbers, q quantized per tensor, a per axis, g by blocks, x index, T all of pifcq, A all of
pifcqa; t a token, l a tuple, b a buffer, h a future. A digit is the rank of a tensor; `!` wants a static
shape, `~` a static one or one bounded size, `*` accepts tensors without rank.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.text.printer import type_text

Sizes = tuple[int | None, ...]

_BITS = {letter: 1 << i for i, letter in enumerate("psufcqagxdtlbh")}
_EXPANDED = {"i": "su", "T": "psufcq", "A": "psufcqa"}
_WORDS = {
    "p": "booleans", "s": "signed integers", "u": "unsigned integers", "i": "integers", "f": "floats",
    "d": "f32 or f64", "c": "complex numbers", "q": "elements quantized per tensor",
    "a": "elements quantized per axis", "g": "elements quantized by blocks", "x": "index",
    "T": "anything but elements quantized per axis",
    "A": "anything", "t": "a token", "l": "a tuple", "b": "a buffer", "h": "a future",
}  # fmt: skip
_TENSOR = sum(_BITS[letter] for letter in "psufcqagxd")
_WIDTHS = frozenset({2, 4, 8, 16, 32, 64})
_FLOATS = frozenset({
    "f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E3M4", "f8E4M3", "f8E4M3FN", "f8E4M3FNUZ", "f8E4M3B11FNUZ",
    "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU", "f16", "f32", "f64", "bf16",
})  # fmt: skip


class Broken(Exception):
    """A rule is broken: its label and how. `structure.py` adds the operation and where it stands."""

    def __init__(self, rule: str, message: str):
        super().__init__(f"{rule}: {message}")


class Facts:
    """Of a type. `shape` is None without a rank or for what is no tensor; `bounds` is () or one per size;
    `bits` say which kinds it is of, `why` it is of none.
    """

    __slots__ = ("type", "shape", "element", "bounds", "bits", "why")

    def __init__(self, kind: mlir.Type):
        self.type = kind
        self.shape: Sizes | None = None
        self.element: Any = None
        self.bounds: Sizes = ()
        self.why = ""
        self.bits = 0
        if isinstance(kind, mlir.TensorType):
            self._tensor(kind)
        elif isinstance(kind, mlir.MemRefType):
            self.shape, self.element = kind.shape, kind.element
            self.bits = _BITS["b"] if self._element_bits() else 0
        elif isinstance(kind, mlir.TokenType):
            self.bits = _BITS["t"]
        elif isinstance(kind, mlir.FutureType):
            self.bits = _BITS["h"]
            for held in kind.types:
                if not isinstance(held, mlir.TensorType) or held.shape is None:
                    raise Broken("future_type", f"it holds ranked tensors, found {type_text(held)}")
        elif isinstance(kind, mlir.TupleType):
            self.bits = _BITS["l"] if self._is_tuple_of_values(kind) else 0

    @property
    def sizes(self) -> Sizes:
        """The shape; () where it is not known."""
        return () if self.shape is None else self.shape

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def is_static(self) -> bool:
        return self.shape is not None and None not in self.shape

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, mlir.TensorType)

    def __str__(self) -> str:
        return type_text(self.type)

    def _tensor(self, kind: mlir.TensorType) -> None:
        self.shape, self.element = kind.shape, kind.element
        encoding = kind.encoding
        if isinstance(encoding, mlir.StructAttr) and "bounds" in encoding.fields:
            self.bounds = tuple(encoding.fields["bounds"])
            if kind.shape is None or len(self.bounds) != len(kind.shape):
                raise Broken("bounds", f"{len(self.bounds)} bounds for {type_text(kind)}")
            for size, bound in zip(kind.shape, self.bounds, strict=True):
                if size is not None and bound is not None:
                    raise Broken("bounds", f"only a size ? has a bound, found {type_text(kind)}")
        self.bits = self._element_bits()

    def _element_bits(self) -> int:
        element = self.element
        if isinstance(element, mlir.FloatType):
            both = element.name in ("f32", "f64")
            return (_BITS["f"] | _BITS["d"] * both) if element.name in _FLOATS else 0
        if isinstance(element, mlir.IntegerType):
            if element.width == 1 and not element.sign:
                return _BITS["p"]
            known = element.width in _WIDTHS and element.sign != "s"
            return _BITS["u" if element.sign else "s"] if known else 0
        if isinstance(element, mlir.ComplexType):
            inner = element.element
            return _BITS["c"] if isinstance(inner, mlir.FloatType) and inner.name in ("f32", "f64") else 0
        if isinstance(element, mlir.QuantizedType):
            return self._quantized_bits(element)
        return _BITS["x"] if isinstance(element, mlir.IndexType) else 0

    def _quantized_bits(self, element: mlir.QuantizedType) -> int:
        check_quantized(element)
        least, greatest = element.storage_min, element.storage_max
        if any(not least <= zero <= greatest for zero in element.zero_points):
            self.why = f"quantized_type_c7: its zero points are in {least}..{greatest}"
            return 0
        if element.storage.width not in (2, 4, 8, 16, 32):
            self.why = f"they are stored in {element.storage.width} bits"
            return 0
        if not element.axes:
            return _BITS["q"]
        sizes = element.block_sizes or (1,)
        counts = element.blocks or (len(element.scales),)
        for axis, size, count in zip(element.axes, sizes, counts, strict=False):
            if self.shape is None:
                break
            if not 0 <= axis < len(self.shape):
                self.why = f"quantized_type_c12: there is no axis {axis}"
                return 0
            if self.shape[axis] not in (None, size * count):
                self.why = f"quantized_type_c13: {count} scales for a size {self.shape[axis]}"
                return 0
        return _BITS["g" if element.block_sizes else "a"]

    @staticmethod
    def _is_tuple_of_values(kind: mlir.TupleType) -> bool:
        stack: list[mlir.Type] = [kind]
        while stack:
            found = stack.pop()
            if isinstance(found, mlir.TupleType):
                stack.extend(found.elements)
            elif not Facts(found).bits & (_TENSOR | _BITS["b"] | _BITS["t"]):
                return False
        return True


def check_quantized(element: mlir.QuantizedType) -> None:
    """The rules of a quantized type that hold wherever it stands."""
    try:
        finfo = ml_dtypes.finfo(mlir.numpy_type(element.expressed))
        smallest, largest = float(finfo.smallest_normal), float(finfo.max)
    except ValueError:
        smallest, largest = 0.0, math.inf
    for scale in element.scales:
        if not scale > 0 or not math.isfinite(scale):
            rule = "quantized_type_c5" if math.isfinite(scale) else "quantized_type_c6"
            raise Broken(rule, f"scales are positive and finite, found {scale:e}")
        if not smallest <= scale <= largest:
            raise Broken("quantized_type_c6", f"scale {scale:e} out of the range of {element.expressed.name}")
    bits = element.storage.width - (element.storage.sign != "u")
    low = 0 if element.storage.sign == "u" else -(1 << bits)
    if not low <= element.storage_min < element.storage_max < 1 << bits:
        raise Broken(
            "quantized_type_c3", f"a storage range {element.storage_min}:{element.storage_max} out of bounds"
        )
    if len(element.scales) != len(element.zero_points):
        raise Broken("quantized_type_c9", "as many zero points as scales are wanted")
    if not element.axes and len(element.scales) != 1:
        raise Broken("quantized_type_c10", f"one scale is wanted, found {len(element.scales)}")
    if any(axis < 0 for axis in element.axes):
        raise Broken("quantized_type_c11", f"an axis is not negative, found {element.axes}")


# ---- Sets of types


@dataclass(frozen=True, slots=True)
class Kind:
    bits: int
    text: str
    rank: int | None = None
    static: str = ""  # "!" or "~"
    unranked: bool = False

    def accepts(self, facts: Facts) -> bool:
        if not facts.bits & self.bits:
            return False
        if not facts.bits & _TENSOR:
            return True
        shape = facts.shape
        if shape is None:
            return self.unranked
        if self.rank is not None and len(shape) != self.rank:
            return False
        if not self.static or None not in shape:
            return True
        bounded = len(facts.bounds) - facts.bounds.count(None)
        return self.static == "~" and bounded == 1 and shape.count(None) == 1


@cache
def kind(code: str) -> Kind:
    """The set of types that letters name; see above."""
    letters = re.sub(r"[^a-zA-Z]", "", code)
    bits = 0
    for letter in letters:
        for single in _EXPANDED.get(letter, letter):
            bits |= _BITS[single]
    rank = re.search(r"\d", code)
    static = next((mark for mark in "!~" if mark in code), "")
    found = " or ".join([_WORDS[letter] for letter in letters])
    if bits & _TENSOR:
        shape = {"!": "static ", "~": "static or once bounded "}.get(static, "")
        rank_text = f" of rank {rank[0]}" if rank else "" if "*" in code else " with a rank"
        found = f"a {shape}tensor{rank_text} of {found}"
    return Kind(bits, found, int(rank[0]) if rank else None, static, "*" in code)


# ---- Types against types


def sizes_fit(a: Sizes | None, b: Sizes | None) -> bool:
    """Shapes are compatible: equal where both sizes are known. None is any rank."""
    if a is None or b is None or a == b:
        return True
    return len(a) == len(b) and all(fits(x, y) for x, y in zip(a, b, strict=True))


def limited(bounds: Sizes) -> Sizes:
    """The bounds; () where there are none."""
    return bounds if any(bound is not None for bound in bounds) else ()


def fits(a: int | None, b: int | None) -> bool:
    return a is None or b is None or a == b


def bounds_fit(a: Sizes | None, bounds: Sizes) -> bool:
    """No known size is above a bound."""
    if not a or not bounds:
        return True
    return all(x is None or y is None or x <= y for x, y in zip(a, bounds, strict=True))


def elements_fit(a: Any, b: Any) -> bool:
    """Element types are equal up to scales, zero points and axes."""
    if a is b:
        return True
    if isinstance(a, mlir.QuantizedType) and isinstance(b, mlir.QuantizedType):
        parts = [(x.storage, x.storage_min, x.storage_max, x.expressed, bool(x.axes)) for x in (a, b)]
        return parts[0] == parts[1]
    return a == b


def types_fit(a: Facts, b: Facts) -> bool:
    if a.type is b.type or a.type == b.type:
        return True
    if a.element is None or b.element is None or type(a.type) is not type(b.type):
        return False
    shapes = sizes_fit(a.shape, b.shape) and bounds_fit(a.shape, b.bounds) and bounds_fit(b.shape, a.bounds)
    return shapes and elements_fit(a.element, b.element)


def width(element: Any) -> int:
    """Bits of an element."""
    if isinstance(element, mlir.ComplexType):
        return 2 * width(element.element)
    if isinstance(element, mlir.QuantizedType):
        return element.storage.width
    if isinstance(element, mlir.IntegerType):
        return element.width
    digits = re.search(r"\d+", element.name) if isinstance(element, mlir.FloatType) else None
    return int(digits[0]) if digits else 64


def promotable(a: Any, b: Any) -> bool:
    """Elements of type `a` can become `b` in a reduction; the precision of floats may differ."""
    if type(a) is not type(b):
        return False
    if isinstance(a, mlir.FloatType):
        return True
    if isinstance(a, mlir.QuantizedType) and a.expressed != b.expressed:
        return False
    return isinstance(a, mlir.IndexType) or width(a) <= width(b)


def most_specific(types: list[Facts]) -> tuple[Sizes | None, Sizes]:
    """Sizes and bounds of a value that is of all these types; Broken (without label) where there is none."""
    first = types[0]
    shape, bounds = first.shape, first.bounds
    for other in types[1:]:
        if other.shape is None or (shape == other.shape and bounds == other.bounds):
            continue
        if shape is None:
            shape, bounds = other.shape, other.bounds
            continue
        if not sizes_fit(shape, other.shape):
            raise Broken("", f"{first} and {other} do not fit{difference(shape, other.shape)}")
        pairs = [
            _narrower(size, theirs, bound, other_bound)
            for size, theirs, bound, other_bound in zip(
                shape, other.shape, bounds or (None,) * len(shape),
                other.bounds or (None,) * len(shape), strict=True,
            )
        ]  # fmt: skip
        shape = tuple([size for size, _ in pairs])
        bounds = limited(tuple([bound for _, bound in pairs]))
    return shape, bounds


def difference(a: Sizes | None, b: Sizes | None) -> str:
    """Where two shapes do not fit, for a message."""
    for at, (x, y) in enumerate(zip(a or (), b or (), strict=False)):
        if not fits(x, y):
            return f": sizes {x} and {y} in dimension {at}"
    return ""


def _narrower(
    a: int | None, b: int | None, bound: int | None, other: int | None
) -> tuple[int | None, int | None]:
    size = b if a is None else a
    limits = [x for x in (bound, other) if x is not None]
    if size is None:
        return None, min(limits, default=None)
    if limits and size > limits[0]:
        raise Broken("", f"a size {size} is above the bound {limits[0]}")
    return size, None


def constant(value: mlir.Value) -> list[int] | None:
    """The integers of a constant operand, if it is a small one."""
    owner = value.owner
    if not isinstance(owner, mlir.Operation) or not owner.name.endswith(".constant"):
        return None
    held = owner.attributes.get("value")
    if not isinstance(held, mlir.DenseElements):
        return None
    if not isinstance(held.type.element, mlir.IntegerType | mlir.IndexType):
        return None
    shape = held.type.shape
    if shape is None or None in shape or math.prod(s or 0 for s in shape) > 4096:
        return None
    return [int(x) for x in np.broadcast_to(held.values, [s or 0 for s in shape]).ravel()]
