"""Parses attributes and locations in MLIR text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from axla.core import dtypes
from axla.stablehlo import mlir
from axla.stablehlo.attributes import CONVOLUTION, ENUMERATIONS, STRUCTURES
from axla.stablehlo.text import dense
from axla.stablehlo.text.lexer import DEEPEST_LOCATION
from axla.stablehlo.text.printer import type_text
from axla.stablehlo.text.types import TypeReader

_ABSENT: dict[str, Any] = {"i/": 0, "l/": (), "f/": 0.0, "a/": None, "x/": None}

_VALUES = {mnemonic: frozenset(values.split()) for mnemonic, values in ENUMERATIONS.items()}
_I64 = mlir.IntegerType(64)
_SIGNED = mlir.IntegerType(64, "s")
_F64 = mlir.FloatType("f64")


class Attributes(TypeReader):
    """Reads attributes and locations. `location_places` has the offsets of the definitions of location
    aliases, which may follow their uses.
    """

    __slots__ = ("aliases", "locations", "location_places")

    def __init__(self, text: str, at: int = 0) -> None:
        self.aliases: dict[str, Any] = {}
        self.locations: dict[str, mlir.Location | None] = {}
        self.location_places: dict[str, int] = {}
        super().__init__(text, at)

    def attribute(self, kind: mlir.Type | None = None) -> Any:
        """Reads an attribute. With `kind`, a number has that type, and no `: type` follows it."""
        token = self.kind
        if token == "number":
            return self.number(kind)
        if token == "string":
            found: Any = self.string()
            if kind is None and self.accept(":"):
                self.type()
            return found
        if token in ("type", "bang"):
            return self.type()
        read = _BY_TOKEN.get(self.token) or _BY_KIND.get(token)
        if read is None:
            self.fail(f"expected an attribute, found {self.saw()}")
        self.deeper()
        found = read(self)
        self.depth -= 1
        return found

    def dictionary(self) -> dict[str, Any]:
        """Reads `{name = value, "other name", ...}`."""
        found: dict[str, Any] = {}

        def entry() -> None:
            at, name = self.start, self.key()
            if name in found:
                self.fail(f"attribute {name!r} occurs twice in a dictionary", at)
            found[name] = self.attribute() if self.accept("=") else mlir.UNIT

        self.listed("{}", entry)
        return found

    def key(self) -> str:
        """Reads the name of an attribute: a word, or a string."""
        return self.string() if self.kind == "string" else self.word("a name")

    def number(self, kind: mlir.Type | None = None) -> Any:
        """Reads a number with its type, by default i64 or f64."""
        at, token = self.start, self.take("number", "a number")
        is_float = "." in token
        if kind is None:
            kind = self.type() if self.accept(":") else (_F64 if is_float else _I64)
        try:
            if isinstance(kind, mlir.FloatType):
                if not is_float and "x" not in token:
                    self.fail(f"expected a floating-point number, found {token!r}", at)
                wide = kind.name in ("tf32", "f80", "f128")
                wanted = dtypes.F64 if wide else mlir.stored(kind)
                return mlir.FloatAttr(dense.float_of(token, wanted), kind)
        except ValueError as error:
            self.fail(str(error), at)
        if is_float:
            self.fail(f"expected an integer, found {token!r}", at)
        if not isinstance(kind, mlir.IntegerType | mlir.IndexType):
            self.fail(f"{token!r} cannot have the type {type_text(kind)}", at)
        value = self.integer_of(token, at)
        low, high = mlir.limits(kind) if isinstance(kind, mlir.IntegerType) else mlir.limits(_SIGNED)
        if not low <= value <= high or (token[0] == "-" and not value):
            self.fail(f"{token} has more bits than its type", at)
        return mlir.integer_of(value, kind)

    def _symbol_reference(self) -> mlir.SymbolRef:
        root = self.symbol()
        nested = []
        while self.accept("::"):
            nested.append(self.symbol())
        return mlir.SymbolRef(root, tuple(nested))

    def integers(self) -> tuple[int, ...]:
        """Reads `[1, 2]`."""
        return tuple(self.listed("[]", self.integer))

    def sizes(self) -> tuple[int | None, ...]:
        """Reads `[1, ?]` or `<1, ?>`; None stands for `?`."""
        brackets = "[]" if self.token == "[" else "<>"
        return tuple(self.listed(brackets, lambda: None if self.accept("?") else self.integer()))

    # ---- Attributes that begin with a word

    def _array(self) -> mlir.DenseArray:
        """Reads `array<i64: 1, 2>`."""
        self.advance()
        self.expect("<")
        at = self.start
        element = self.type()
        if not isinstance(element, mlir.IntegerType | mlir.FloatType):
            self.fail("an array can have only integers or floats", at)
        bits = int(re.findall(r"\d+", type_text(element))[0])
        if bits % 8 and element != mlir.IntegerType(1):
            self.fail(f"an array cannot have elements of {bits} bits", at)

        def read() -> Any:
            if bits == 1:
                return self.boolean()
            value = self.number(element)
            return float(value.value) if isinstance(value, mlir.FloatAttr) else value.value

        if not self.accept(":"):
            self.expect(">")
            return mlir.DenseArray(element, ())
        if self.token == ">":
            self.fail("expected an element, found '>'")
        return mlir.DenseArray(element, tuple(self.until(">", read)))

    def dense(self) -> mlir.DenseElements | mlir.DenseStrings:
        """Reads `dense<...> : type`, at the word `dense`."""
        self.advance()
        if self.token != "<":
            self.fail(f"expected '<' after dense, found {self.saw()}")
        begin, text = self.end, self.text
        end = text.find(">", begin)
        if end < 0:
            self.fail("dense<...> is not closed")
        if not text.startswith('"0x', begin) and (
            text.find('"', begin, end) >= 0 or text.find("//", begin, end) >= 0
        ):
            payload = self.balanced(begin)[:-1].strip()  # strings and comments may contain a >
        else:
            payload = text[begin:end].strip()
            self.seek(end + 1)
        self.expect(":")
        at = self.start
        kind = self.type()
        if not isinstance(kind, mlir.TensorType) or kind.sizes is None:
            self.fail("the type of dense elements must be a tensor of static shape", at)
        try:
            if isinstance(kind.element, mlir.OpaqueType):
                return mlir.DenseStrings(kind, dense.strings(payload, math.prod(kind.sizes)))
            return mlir.DenseElements(kind, dense.decode(payload, kind.element, kind.sizes))
        except (ValueError, OverflowError, MemoryError) as error:
            self.fail(str(error) or "elements that do not fit their type", begin)

    def _resource(self) -> mlir.DenseResource:
        self.advance()
        name = self.inside("<>", self.key)
        self.expect(":")
        at, kind = self.start, self.type()
        if not isinstance(kind, mlir.TensorType):
            self.fail("the type of a resource must be a tensor", at)
        return mlir.DenseResource(name, kind)

    def _unit(self) -> mlir.Unit:
        self.advance()
        return mlir.UNIT

    def _opaque(self) -> mlir.OpaqueAttr:
        begin = self.start
        self.advance()
        if self.token not in ("<", "["):
            self.fail(f"expected '<', found {self.saw()}")
        text = self.balanced(begin)
        if self.token == "<" and text.endswith("]"):  # distinct[0]<...>
            text = self.balanced(begin)
        return mlir.OpaqueAttr(text)

    # ---- Attributes of dialects

    def _of_dialect(self) -> Any:
        at = self.start
        name = self.advance()[1:]
        follows = self.token == "<" and self.start == at + len(name) + 1
        if not follows:
            if name in self.aliases:
                self.use_alias("#" + name, at)
                return self.aliases[name]
            if name in self.location_places:
                return self._location_alias(name, at)
            if "." not in name:
                self.fail(f"attribute alias #{name} is not defined", at)
            return mlir.OpaqueAttr(name)
        if name in ("stablehlo", "chlo"):
            return self.inside("<>", lambda: self._enumeration(name))
        dialect, _, mnemonic = name.partition(".")
        if dialect in ("stablehlo", "chlo"):
            return self.structure(mnemonic, dialect)
        return mlir.OpaqueAttr(self.balanced(at + 1))

    def _enumeration(self, dialect: str) -> mlir.EnumAttr:
        at, mnemonic = self.start, self.word("the name of an attribute")
        if mnemonic not in _VALUES:
            self.fail(f"unknown {dialect} attribute: {mnemonic}", at)
        return self.enumerated(mnemonic, dialect)

    def enumerated(self, mnemonic: str, dialect: str = "stablehlo") -> mlir.EnumAttr:
        """Reads a value of an enumeration, written as its name alone."""
        at, value = self.start, self.word(f"a {mnemonic}")
        if value not in _VALUES[mnemonic]:
            self.fail(f"{value!r} is not a value of {mnemonic}: expected one of {ENUMERATIONS[mnemonic]}", at)
        return mlir.EnumAttr(mnemonic, value, dialect)

    def structure(self, mnemonic: str, dialect: str = "stablehlo") -> Any:
        """Reads a structured attribute, `#stablehlo.mnemonic<...>`, from its `<` on."""
        at = self.start
        if mnemonic == "bounds":
            return mlir.StructAttr(mnemonic, {"bounds": self.sizes()}, dialect)
        self.expect("<")
        if mnemonic in _VALUES:
            found: Any = self.enumerated(mnemonic, dialect)
        elif mnemonic == "sub_axis_info":
            found = self._sub_axis()
        elif mnemonic == "conv" and not self.accept("raw"):
            found = self.convolution_dimensions(dialect)
        elif mnemonic in STRUCTURES:
            name = "bounds" if mnemonic == "type_extensions" else mnemonic
            return mlir.StructAttr(name, self._fields(STRUCTURES[mnemonic]), dialect)
        else:
            self.fail(f"unknown {dialect} attribute: {mnemonic}", at)
        self.expect(">")
        return found

    def _fields(self, kinds: dict[str, str]) -> dict[str, Any]:
        """Reads `name = value, ... >` in any order; missing optional fields get their defaults. `kinds` has
        the kind of each field.
        """
        found: dict[str, Any] = {}
        lists_only = all(kind.endswith("/") for kind in kinds.values())

        def field() -> None:
            if found and lists_only and self.token == ">":
                return  # dimension numbers may end with a comma
            at, name = self.start, self.word("the name of a field")
            if name not in kinds:
                self.fail(f"expected one of: {', '.join(kinds)}; found {name!r}", at)
            if name in found:
                self.fail(f"field {name} is given twice", at)
            self.expect("=")
            found[name] = _FIELDS[kinds[name][0]](self)

        at = self.start
        self.until(">", field)
        for name, kind in kinds.items():
            if name not in found:
                if kind not in _ABSENT:
                    self.fail(f"field {name} is missing", at)
                found[name] = _ABSENT[kind]
        return {name: found[name] for name in kinds}

    def boolean(self) -> bool:
        """Reads `true` or `false`."""
        if self.token not in ("true", "false"):
            self.fail(f"expected true or false, found {self.saw()}")
        return self.advance() == "true"

    def _sub_axis(self) -> mlir.StructAttr:
        """Reads `(1)2`: the product of the sizes of the sub-axes before a sub-axis, and the size of the
        sub-axis.
        """
        before = self.inside("()", self.integer)
        return mlir.StructAttr("sub_axis_info", {"pre_size": before, "size": self.integer()})

    def _mesh_axes(self) -> tuple[mlir.StructAttr, ...]:
        def axis() -> mlir.StructAttr:
            return self.attribute() if self.kind == "hash" else self.structure("mesh_axis")

        return tuple(self.listed("[]", axis))

    def convolution_dimensions(self, dialect: str = "stablehlo") -> mlir.StructAttr:
        """Reads the dimension numbers of a convolution, `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        found: dict[str, Any] = {}
        for part, letters in CONVOLUTION.items():
            if part != "input":
                self.expect("x" if part == "kernel" else "->")
            places = self._dimension_places(letters)
            for letter, name in letters.items():
                found[f"{part}_{name}_dimension"] = places[letter]
            spatial = len(places) - len(letters)
            found[f"{part}_spatial_dimensions"] = tuple([places[i] for i in range(spatial)])
        return mlir.StructAttr("conv", found, dialect)

    def _dimension_places(self, letters: dict[str, str]) -> dict[str | int, int]:
        def dimension() -> str | int:
            return self.integer() if self.kind == "number" else self.word("a dimension")

        at, found = self.start, self.listed("[]", dimension)
        wanted = [*letters, *range(len(found) - len(letters))]
        if len(found) != len(wanted) or set(found) != set(wanted):
            one, other = (", ".join(map(str, keys))[:100] for keys in (wanted, found))
            self.fail(f"expected each of the dimensions {one} once, found {other}", at)
        return {dimension: place for place, dimension in enumerate(found)}

    # ---- Locations

    def optional_location(self) -> mlir.Location | None:
        """Reads a location if one is next."""
        return self.location() if self.token == "loc" else None

    def location(self) -> mlir.Location | None:
        """Reads `loc(...)`; returns None for an unknown location."""
        self.advance()
        self.expect("(")
        found = self._location()
        self.expect(")")
        return found

    def _location(self) -> mlir.Location | None:
        """Reads a location inside `loc(...)` or inside another location."""
        if self.kind == "hash":
            at, name = self.start, self.advance()[1:]
            found = self._location_alias(name, at)
            self.depth += 1
            self.use_alias("#" + name, at, DEEPEST_LOCATION)
            self.depth -= 1
            return found
        self.deeper()
        at = self.start
        found: mlir.Location | None = None
        if self.kind == "string":
            name = self.string()
            if self.accept(":"):
                found = self._file_location(name)
            else:
                child = self.inside("()", self._location) if self.token == "(" else None
                found = mlir.NameLocation(name, child)
        elif self.accept("callsite"):
            found = self.inside("()", self._call)
        elif self.accept("fused"):
            metadata = self.inside("<>", self.attribute) if self.token == "<" else None
            found = mlir.FusedLocation(tuple(self.listed("[]", self._part)), metadata)
        elif not self.accept("unknown"):
            self.fail(f"expected a location, found {self.saw()}", at)
        self.depth -= 1
        return found

    def _part(self) -> mlir.Location:
        return self._location() or mlir.NameLocation("unknown")

    def _file_location(self, name: str) -> mlir.FileLocation:
        """Reads `line:column`; of a range only the start is kept."""
        line, column = self.pair_of_integers()
        if self.accept("to"):
            if self.kind == "number":
                self.integer()
            self.expect(":")
            self.integer()
        return mlir.FileLocation(name, line, column)

    def _call(self) -> mlir.CallSiteLocation:
        callee = self._part()
        self.expect("at")
        return mlir.CallSiteLocation(callee, self._part())

    def _location_alias(self, name: str, at: int) -> mlir.Location | None:
        """The location that the alias `#name` stands for. This class has no aliases; Parser overrides the
        method.
        """
        self.fail(f"location alias #{name} is not defined", at)


_BY_TOKEN: dict[str, Callable[[Attributes], Any]] = {
    "[": lambda cursor: tuple(cursor.listed("[]", cursor.attribute)), "{": Attributes.dictionary,
    "(": Attributes.type,
    "true": Attributes.boolean, "false": Attributes.boolean, "unit": Attributes._unit,
    "dense": Attributes.dense, "dense_resource": Attributes._resource, "array": Attributes._array,
    "loc": Attributes.location, "affine_map": Attributes._opaque, "affine_set": Attributes._opaque,
    "opaque": Attributes._opaque, "sparse": Attributes._opaque, "strided": Attributes._opaque,
    "distinct": Attributes._opaque,
}  # fmt: skip
_BY_KIND: dict[str, Callable[[Attributes], Any]] = {
    "bare": Attributes.type, "hash": Attributes._of_dialect, "symbol": Attributes._symbol_reference
}  # fmt: skip
_FIELDS: dict[str, Callable[[Attributes], Any]] = {
    "i": Attributes.integer, "l": Attributes.sizes, "t": Attributes.type, "b": Attributes.boolean,
    "f": lambda cursor: float(cursor.number(_F64).value), "s": Attributes.string, "a": Attributes.attribute,
    "A": Attributes.attribute, "x": Attributes._sub_axis, "m": Attributes._mesh_axes,
}  # fmt: skip
