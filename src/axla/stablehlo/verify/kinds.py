"""The facts about a type that the verifier uses, and the sets of types that operations accept.

A *kind* is a set of types, written in letters: p booleans, s signed and u unsigned integers, i both, n i32, m
ui32, f floats, d f32 and f64, c complex numbers, q quantized per tensor, a per axis, g by blocks, x index, T
all of pifcq, A all of pifcqa; t a token, l a tuple, b a buffer, h a future. A digit is the rank of a tensor;
`!` requires a static shape, `~` a static one or one bounded size, `*` accepts unranked tensors.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import ml_dtypes

from axla.core.dataclass import dataclass
from axla.stablehlo import mlir
from axla.stablehlo.sizes import Bounded, Sizes, sizes_of
from axla.stablehlo.text.printer import type_text
from axla.stablehlo.text.types import FLOATS

_BITS = {letter: 1 << i for i, letter in enumerate("psufcqagxdnmtlbh")}
_EXPANDED = {"i": "su", "T": "psufcq", "A": "psufcqa"}
_WORDS = {
    "p": "booleans", "s": "signed integers", "u": "unsigned integers", "i": "integers", "f": "floats",
    "d": "f32 or f64", "n": "i32", "m": "ui32", "c": "complex numbers", "q": "elements quantized per tensor",
    "a": "elements quantized per axis", "g": "elements quantized by blocks", "x": "index",
    "T": "anything but elements quantized per axis",
    "A": "anything", "t": "a token", "l": "a tuple", "b": "a buffer", "h": "a future",
}  # fmt: skip
_TENSOR = sum(_BITS[letter] for letter in "psufcqagxdnm")
_FOREIGN = ("tf32", "f80", "f128")  # floats of MLIR that tensors of StableHLO cannot have
_WIDE = (mlir.FloatType("f32"), mlir.FloatType("f64"))
_WIDTHS = (2, 4, 8, 16, 32, 64)
_ELEMENTS: dict[mlir.Type, str] = {
    mlir.IntegerType(1): "p", mlir.IndexType(): "x",
    **{mlir.IntegerType(width): "s" for width in _WIDTHS}, mlir.IntegerType(32): "sn",
    **{mlir.IntegerType(width, "u"): "u" for width in _WIDTHS}, mlir.IntegerType(32, "u"): "um",
    **{mlir.FloatType(name): "f" for name in FLOATS if name not in _FOREIGN}, **dict.fromkeys(_WIDE, "fd"),
    **{mlir.ComplexType(element): "c" for element in _WIDE},
}  # fmt: skip


class Broken(Exception):
    """A rule is broken; the text has its label and the reason. `structure.py` adds the operation and its
    position.
    """

    def __init__(self, rule: str, message: str):
        super().__init__(f"{rule}: {message}")


class Facts:
    """The facts about a type that rules use.

    `shape` is None for unranked tensors and other types; `extents` are its sizes, with a Bounded for an upper
    bound; `sizes` and `dims` are like them, with () instead of None. `quantized` is the element type if it is
    quantized, `axes` its quantized axes. `bits` are the kinds that the type belongs to; `why` is the reason
    if it belongs to none.
    """

    __slots__ = (
        "type", "shape", "element", "extents", "sizes", "dims", "rank", "quantized", "axes", "bits", "why",
    )  # fmt: skip

    def __init__(self, kind: mlir.Type):
        self.type: Any = kind
        is_array = isinstance(kind, mlir.TensorType | mlir.MemRefType)
        self.shape: Sizes | None = kind.shape if is_array else None
        self.element: Any = kind.element if is_array else None
        self.extents: Sizes | None = self.shape
        self.sizes: Sizes = self.shape or ()
        self.rank = len(self.sizes)
        self.quantized = self.element if isinstance(self.element, mlir.QuantizedType) else None
        self.axes: tuple[int, ...] = self.quantized.axes if self.quantized else ()
        self.why = ""
        self.bits = 0
        if isinstance(kind, mlir.TensorType):
            _check_bounds(kind)
            self.extents = None if kind.shape is None else sizes_of(kind)
            self.bits = self._element_bits()
        elif isinstance(kind, mlir.MemRefType):
            self.bits = _BITS["b"] if self._element_bits() else 0
        elif isinstance(kind, mlir.TokenType):
            self.bits = _BITS["t"]
        elif isinstance(kind, mlir.FutureType):
            self.bits = _BITS["h"]
            for held in kind.types:
                ranked = isinstance(held, mlir.TensorType) and held.shape is not None
                require(ranked, "future_type", f"it must hold ranked tensors, found {type_text(held)}")
        elif isinstance(kind, mlir.TupleType):
            self.bits = _BITS["l"] if self._is_tuple_of_values(kind) else 0
        self.dims: Sizes = self.extents or ()

    @property
    def is_tensor(self) -> bool:
        """Whether the type is that of a tensor, with a rank or without."""
        return isinstance(self.type, mlir.TensorType)

    def __str__(self) -> str:
        return type_text(self.type)

    def _element_bits(self) -> int:
        element = self.quantized
        if element is None:
            return sum([_BITS[letter] for letter in _ELEMENTS.get(self.element, "")])
        check_quantized(element)
        self.why = self._why_not_quantized(element)
        letter = "q" if not element.axes else "g" if element.block_sizes else "a"
        return 0 if self.why else _BITS[letter]

    def _why_not_quantized(self, element: mlir.QuantizedType) -> str:
        least, greatest = element.storage_min, element.storage_max
        if any(not least <= zero <= greatest for zero in element.zero_points):
            return f"quantized_type_c7: its zero points must be in {least}..{greatest}"
        if element.storage.width not in (2, 4, 8, 16, 32):
            return f"they are stored in {element.storage.width} bits"
        sizes = element.block_sizes or (1,)
        counts = element.blocks or (len(element.scales),)
        for axis, size, count in zip(element.axes, sizes, counts, strict=False):
            if self.shape is None:
                break
            if not 0 <= axis < len(self.shape):
                return f"quantized_type_c12: there is no axis {axis}"
            if not fits(self.shape[axis], size * count):
                return f"quantized_type_c13: {count} scales for a size {self.shape[axis]}"
        return ""

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


def require(true: object, rule: str, message: str) -> None:
    """Raises Broken, with the label of the rule, if a condition does not hold."""
    if not true:
        raise Broken(rule, message)


def _check_bounds(kind: mlir.TensorType) -> None:
    encoding = kind.encoding
    if isinstance(encoding, mlir.StructAttr) and "bounds" in encoding.fields:
        bounds = tuple(encoding.fields["bounds"])
        fit = kind.shape is not None and len(bounds) == len(kind.shape)
        require(fit, "bounds", f"{len(bounds)} bounds for {type_text(kind)}")
        fit = all(None in pair for pair in zip(kind.shape or (), bounds, strict=True))
        require(fit, "bounds", f"only a size ? can have a bound, found {type_text(kind)}")


def check_quantized(element: mlir.QuantizedType) -> None:
    """Checks the rules that a quantized type must obey everywhere."""
    try:
        finfo = ml_dtypes.finfo(mlir.stored(element.expressed).numpy)
        smallest, largest = float(finfo.smallest_normal), float(finfo.max)
    except ValueError:
        smallest, largest = 0.0, math.inf
    rule = "quantized_type_c"
    for scale in element.scales:
        finite = math.isfinite(scale)
        text = f"scales must be positive and finite, found {scale:e}"
        require(finite and scale > 0, f"{rule}{5 if finite else 6}", text)
        text = f"scale {scale:e} is out of the range of {element.expressed.name}"
        require(smallest <= scale <= largest, f"{rule}6", text)
    signed, least, greatest = element.storage.sign != "u", element.storage_min, element.storage_max
    end = 1 << element.storage.width - signed
    text = f"the storage range {least}:{greatest} is out of bounds"
    require(-end * signed <= least < greatest < end, f"{rule}3", text)
    count = len(element.scales)
    require(count == len(element.zero_points), f"{rule}9", "as many zero points as scales are wanted")
    require(element.axes or count == 1, f"{rule}10", f"one scale is wanted, found {count}")
    text = f"an axis must not be negative, found {element.axes}"
    require(min(element.axes, default=0) >= 0, f"{rule}11", text)


# ---- Sets of types


@dataclass(frozen=True, slots=True)
class TypeKind:
    """A set of types that a record names: element types as bits, and requirements for the shape."""

    bits: int
    text: str
    rank: int | None = None
    static: str = ""  # "!" or "~"
    unranked: bool = False

    def accepts(self, facts: Facts) -> bool:
        """Whether a type with these facts is in the set."""
        if not facts.bits & self.bits:
            return False
        if not facts.bits & _TENSOR:
            return True
        if facts.shape is None:
            return self.unranked
        if self.rank not in (None, facts.rank):
            return False
        if not self.static or None not in facts.shape:
            return True
        bounded = [size for size in facts.dims if isinstance(size, Bounded)]
        return self.static == "~" and len(bounded) == facts.shape.count(None) == 1


@cache
def kind(code: str) -> TypeKind:
    """The set of types for the letters `code`; see the module's docstring."""
    letters = re.sub(r"[^a-zA-Z]", "", code)
    bits = sum({_BITS[single] for letter in letters for single in _EXPANDED.get(letter, letter)})
    rank = re.search(r"\d", code)
    static = next((mark for mark in "!~" if mark in code), "")
    found = " or ".join([_WORDS[letter] for letter in letters])
    if bits & _TENSOR:
        shape = {"!": "static ", "~": "static or once bounded "}.get(static, "")
        rank_text = f" of rank {rank[0]}" if rank else "" if "*" in code else " with a rank"
        found = f"a {shape}tensor{rank_text} of {found}"
    return TypeKind(bits, found, int(rank[0]) if rank else None, static, "*" in code)


# ---- Types against types


def sizes_fit(a: Sizes | None, b: Sizes | None) -> bool:
    """Whether shapes are compatible, that is, all sizes fit. None is a shape of any rank."""
    return a is None or b is None or a == b or (len(a) == len(b) and all(map(fits, a, b)))


def fits(a: int | None, b: int | None) -> bool:
    """Whether two sizes are compatible: equal, not above a bound, or unknown."""
    if a is None or b is None or a == b:
        return True
    if isinstance(a, Bounded):
        return isinstance(b, Bounded) or b <= a
    return isinstance(b, Bounded) and a <= b


def elements_fit(a: Any, b: Any) -> bool:
    """Whether element types are equal except for scales, zero points and axes."""
    if a is b:
        return True
    if isinstance(a, mlir.QuantizedType) and isinstance(b, mlir.QuantizedType):
        parts = [(x.storage, x.storage_min, x.storage_max, x.expressed, bool(x.axes)) for x in (a, b)]
        return parts[0] == parts[1]
    return a == b


def types_fit(a: Facts, b: Facts) -> bool:
    """Whether two types agree as far as both are known."""
    if a.type is b.type or a.type == b.type:
        return True
    if a.element is None or b.element is None or type(a.type) is not type(b.type):
        return False
    return sizes_fit(a.extents, b.extents) and elements_fit(a.element, b.element)


def width(element: Any) -> int:
    """The number of bits of an element."""
    if isinstance(element, mlir.ComplexType):
        return 2 * width(element.element)
    if isinstance(element, mlir.QuantizedType):
        return element.storage.width
    if isinstance(element, mlir.IntegerType):
        return element.width
    digits = re.search(r"\d+", element.name) if isinstance(element, mlir.FloatType) else None
    return int(digits[0]) if digits else 64


def promotable(a: Any, b: Any) -> bool:
    """Whether elements of type `a` may be promoted to `b` in a reduction; the precision of floats may
    differ.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, mlir.FloatType):
        return True
    if isinstance(a, mlir.QuantizedType) and a.expressed != b.expressed:
        return False
    return isinstance(a, mlir.IndexType) or width(a) <= width(b)


def difference(a: Sizes | None, b: Sizes | None) -> str:
    """The first difference between two shapes, as the end of a message."""
    for at, (x, y) in enumerate(zip(a or (), b or (), strict=False)):
        if not fits(x, y):
            return f": sizes {x} and {y} in dimension {at}"
    return ""


def narrower(a: int | None, b: int | None) -> int | None:
    """The more precise one of two facts about a size: None is unknown, and a Bounded is an upper bound."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Bounded) and isinstance(b, Bounded):
        return min(a, b)
    return b if isinstance(a, Bounded) else a


def narrowest(a: Sizes | None, b: Sizes | None) -> Sizes | None:
    """The more precise one of two facts about each size; None is a shape of any rank."""
    if a is None or b is None:
        return b if a is None else a
    return tuple(map(narrower, a, b))


def product(sizes: Sizes | None) -> int | None:
    """The number of elements; None where a size is unknown."""
    known = [size for size in sizes or () if size is not None]
    return math.prod(known) if sizes is not None and len(known) == len(sizes) else None
