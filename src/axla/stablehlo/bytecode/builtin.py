"""The attributes and types of MLIR's builtin dialect, by their codes in bytecode."""

from __future__ import annotations

import math
from typing import Any

from axla.core.errors import ParseError
from axla.stablehlo import mlir
from axla.stablehlo.bytecode import values
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.bytecode.wire import BadBytes
from axla.stablehlo.text import parse_attribute, parse_type

UNKNOWN: Any = None  # the unknown location
LOCATIONS = (mlir.FileLocation, mlir.NameLocation, mlir.CallSiteLocation, mlir.FusedLocation, type(UNKNOWN))
_NOWHERE = mlir.NameLocation("unknown")  # an unknown location inside another location


def wrong(attribute: Any, wanted: str) -> BadBytes:
    """The error for an attribute of an unexpected kind; `wanted` names the right kind."""
    return BadBytes(f"an attribute of the kind {type(attribute).__name__} instead of {wanted}")


def text(value: Any, what: str = "a string") -> str:
    """Returns an attribute that is a string; raises BadBytes for any other kind. `what` names the wanted
    kind.
    """
    if not isinstance(value, str):
        raise wrong(value, what)
    return value


def dictionary(pairs: tuple[Any, ...]) -> dict[str, Any]:
    """Makes a dictionary from alternating keys and values."""
    return {text(pairs[i], "a key"): pairs[i + 1] for i in range(0, len(pairs), 2)}


def location(value: Any) -> Any:
    """Returns an attribute that is a location; raises BadBytes for any other kind."""
    if not isinstance(value, LOCATIONS):
        raise wrong(value, "a location")
    return value


def _part(value: Any) -> mlir.Location:
    return location(value) or _NOWHERE


def _symbol(root: Any, nested: tuple[Any, ...] = ()) -> mlir.SymbolRef:
    if not all(isinstance(n, mlir.SymbolRef) for n in nested):
        raise BadBytes("a symbol with a nested name that is not a symbol")
    return mlir.SymbolRef(text(root), tuple(n.root for n in nested))


def _strings(kind: mlir.Type, splat: int, found: tuple[str, ...]) -> mlir.DenseStrings:
    if not isinstance(kind, mlir.TensorType) or kind.sizes is None:
        raise BadBytes(f"dense strings of the type {kind}, wanted a ranked tensor")
    count = math.prod(kind.sizes)
    if len(found) != (1 if splat else count):
        raise BadBytes(f"{len(found)} strings for {count} elements")
    return mlir.DenseStrings(kind, found)


def _range(file: Any, numbers: tuple[int, ...]) -> mlir.FileLocation:
    """The location at the start of a range in a file. `numbers` are line and column of the start, then the
    range's end, which is dropped.
    """
    return mlir.FileLocation(text(file), *(*numbers, 0, 0)[:2])


ATTRIBUTES: dict[int, Encoding] = {
    0: ("A", lambda elements: elements),
    1: ("P", dictionary),
    2: ("n", lambda string: string),
    3: ("nt", lambda string, kind: string),
    4: ("a", _symbol),
    5: ("aA", _symbol),
    6: ("t", lambda kind: kind),
    7: ("", lambda: mlir.UNIT),
    8: ("tr", values.integer),
    9: ("tr", values.floating),
    10: ("aa", lambda callee, caller: mlir.CallSiteLocation(_part(callee), _part(caller))),
    11: ("avv", lambda file, line, column: mlir.FileLocation(text(file), line, column)),
    12: ("A", lambda parts: mlir.FusedLocation(tuple(map(_part, parts)))),
    13: ("Aa", lambda parts, metadata: mlir.FusedLocation(tuple(map(_part, parts)), metadata)),
    14: ("aa", lambda name, child: mlir.NameLocation(text(name), location(child))),
    15: ("", lambda: UNKNOWN),
    16: ("tR", lambda kind, key: mlir.DenseResource(key, kind)),
    17: ("tvb", values.dense_array),
    18: ("tb", values.dense),
    19: ("tvN", _strings),
    22: ("aV", _range),
}  # 20 (sparse elements) and 21 (distinct attributes) have no meaning in these dialects

_SIGNS = ("", "s", "u")


def _integer(width_and_sign: int) -> mlir.IntegerType:
    width, sign = width_and_sign >> 2, width_and_sign & 3
    if sign == 3 or width >= 1 << 24:
        raise BadBytes(f"an integer type of width {width} and sign {sign}, which does not exist")
    return mlir.IntegerType(width, _SIGNS[sign])


def _memory(sizes: tuple[int, ...], element: mlir.Type, layout: Any) -> mlir.MemRefType:
    return mlir.MemRefType(values.shape(sizes), element)


def constant(value: mlir.Type) -> Encoding:
    """The encoding of a type or attribute without fields."""
    return "", lambda: value


def floats(names: str) -> dict[int, Encoding]:
    """The encodings of float types. `names` has their names in the order of the codes, "-" for codes of other
    types.
    """
    return {code: constant(mlir.FloatType(name)) for code, name in enumerate(names.split()) if name != "-"}


TYPES: dict[int, Encoding] = {
    0: ("v", _integer),
    1: constant(mlir.IndexType()),
    2: ("TT", mlir.FunctionType),
    9: ("t", mlir.ComplexType),
    10: ("Sta", _memory),
    11: ("aSta", lambda space, sizes, element, layout: _memory(sizes, element, layout)),
    12: constant(mlir.NoneType()),
    13: ("St", values.tensor),
    14: ("aSt", lambda encoding, sizes, element: values.tensor(sizes, element, encoding)),
    15: ("T", mlir.TupleType),
    18: ("t", lambda element: mlir.TensorType(None, element)),
}
# Codes from 21 on are used by newer versions; older ones write the names as text.
TYPES |= floats("""
- - - bf16 f16 f32 f64 f80 f128 - - - - - - - - - - - - tf32 f8E5M2 f8E4M3 f8E4M3FN f8E5M2FNUZ f8E4M3FNUZ
f8E4M3B11FNUZ f8E3M4 f4E2M1FN f6E2M3FN f6E3M2FN f8E8M0FNU
""")


def assembly(source: str, is_type: bool) -> Any:
    """Parses an attribute or type that is stored as text, because it has no code in its dialect."""
    try:
        return parse_type(source) if is_type else parse_attribute(source)
    except ParseError as error:
        raise BadBytes(f"{source[:80]!r}: {error.message}") from None
