"""Parses shapes, layouts and program shapes:

f32[2,<=3,?]{2,1,0:T(8,128)S(1)}
(f32[], /*index=1*/token[])
(x: f32[2]) -> f32[]
"""

from __future__ import annotations

from typing import Any

from axla.core.dtypes import BY_NAME
from axla.core.errors import ParseError, ShapeError
from axla.core.regex import ascii_regex
from axla.core.shape import (
    LAYOUT_KEYS,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    AnyShape,
    BufferShape,
    Layout,
    ProgramShape,
    Shape,
    TupleShape,
)  # fmt: skip
from axla.text.lexer import BLANK, NAME, HloCursor

ARRAY = r"[a-z]\w*+\[[^\[\]{}()/]*+\](?:\{[\d,:\s][^{}/]*+\})?+"
SIMPLE_ARRAY = ascii_regex(BLANK + f"({ARRAY})")
"""An array shape without shapes in its layout; a brace opens a layout only before a digit or colon."""

TUPLE = r"\((?:[^()%={}]++|\{[^{}=%]*+\}|\([^()%={}]*+\))*+\)"
SIMPLE_TUPLE = ascii_regex(BLANK + f"({TUPLE})")
"""A flat or nested tuple with at most one level of brackets in it, as one string."""

_KIND = ascii_regex(BLANK + r"([a-z]\w*+)" + BLANK + r"\[")
_DIMENSION = ascii_regex(BLANK + r"(<=)?" + BLANK + r"(\d++)")
_LAYOUT_START = ascii_regex(BLANK + r"\{" + BLANK + r"(?=[\d:])")
_LAYOUT_KEY = ascii_regex(BLANK + r"(SC|[DTL#*ESPM])" + BLANK + r"(?=\()")
_PLACE = ascii_regex(BLANK + r"([DC][+~]*+)")
_BUFFER = ascii_regex(BLANK + r"b\(")


def parse_shape(text: str) -> AnyShape:
    """Parses a shape; raises ParseError for malformed text, or for text after the shape."""
    cursor = ShapeCursor(text)
    shape = cursor.shape()
    cursor.end("the shape")
    return shape


def compatible(a: AnyShape, b: AnyShape) -> bool:
    """Whether two shapes agree except for layouts and dynamic dimensions."""
    if a.logical is b.logical:
        return True
    if isinstance(a, BufferShape) and isinstance(b, BufferShape):
        return compatible(a.array, b.array)
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        pairs = zip(a.leaves(), b.leaves(), strict=False)
        return len(list(a.leaves())) == len(list(b.leaves())) and all(compatible(x, y) for x, y in pairs)
    return isinstance(a, Shape) and isinstance(b, Shape) and a.dtype is b.dtype and a.dims == b.dims


def parse_program_shape(text: str) -> ProgramShape:
    """Parses a program shape, such as `(f32[2]{0}, s32[]) -> f32[]`; the parameters may have names."""
    cursor = ShapeCursor(text)
    shape = cursor.program_shape()
    cursor.end("the program shape")
    return shape


class ShapeCursor(HloCursor):
    """A cursor that reads shapes. Equal texts are parsed once."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.exact = False  # whether the text is axla's: complex numbers with a NaN are then read literally
        self.splat_bytes = 0  # bytes of constants written as one value or elided, so far
        self.file = ""  # the name of the file and a colon, for messages
        self.fills = False  # whether constants {...} get values
        self.made_up: tuple[int, int] = (0, 0)  # the next word and the next byte to fill such a constant with
        self._shapes: dict[str, AnyShape] = {"token[]": TOKEN, "opaque[]": OPAQUE}

    def shape(self) -> AnyShape:
        """Reads the shape of an array, tuple, token or buffer, with its layout."""
        found = SIMPLE_ARRAY.match(self.text, self.pos) or SIMPLE_TUPLE.match(self.text, self.pos)
        if found is not None:
            known = self._shapes.get(found[1])
            if known is not None:
                self.pos = found.end()
                return known
        start = self.skip()
        try:
            shape = self._tuple() if self.peek("(") else self._array()
        except ShapeError as error:
            raise ParseError.at(error.message, self.text, start) from None
        self._shapes[self.text[start : self.pos]] = shape
        return shape

    def looks_like_shape(self) -> bool:
        """Whether a shape begins at the cursor, which does not move."""
        if self.peek("("):
            return True
        return any(p.match(self.text, self.pos) is not None for p in (_KIND, _BUFFER))

    def _tuple(self) -> TupleShape:
        with self.inside("tuple shapes"):
            return TupleShape(self.listed("(", self.shape, ")"))

    def _array(self) -> AnyShape:
        found = self.match(_KIND)
        if found is None:
            if self.match(_BUFFER) is not None:
                return self._buffer()
            self.fail(f"expected a shape, found {self.saw()}")
        kind = found[1]
        if kind in ("token", "opaque"):
            self.expect("]", f"to end {kind}[]")
            return TOKEN if kind == "token" else OPAQUE
        dtype = BY_NAME.get(kind)
        if dtype is None:
            self.fail(f"'{kind}' is not an element type", found.start(1))
        dims, dynamic = self._dimensions()
        layout = self.layout(len(dims)) if _LAYOUT_START.match(self.text, self.pos) else None
        return Shape(dtype, dims, dynamic, layout)

    def _buffer(self) -> BufferShape:
        """Reads the rest of a buffer shape, such as b(f32[2]{0}), after `b(`."""
        at = self.skip()
        array = None if self.peek("(") or self.match(_BUFFER) else self._array()
        if not isinstance(array, Shape):
            self.fail("a buffer must hold an array", at)
        self.expect(")", "to end the shape of a buffer")
        return BufferShape(array)

    def _dimensions(self) -> tuple[list[int], list[bool]]:
        dims: list[int] = []
        dynamic: list[bool] = []
        if self.accept("]"):
            return dims, dynamic
        while True:
            found = self.match(_DIMENSION)
            if found is not None:
                dims.append(self.as_int64(found[2], found.start(2)))
                dynamic.append(found[1] is not None)
            elif self.accept("?"):
                dims.append(UNBOUNDED)
                dynamic.append(True)
            else:
                self.fail(f"expected the size of a dimension, found {self.saw()}")
            if not self.accept(","):
                self.expect("]", "or ',' in the sizes of a shape")
                return dims, dynamic

    def layout(self, rank: int) -> Layout:
        """Reads the layout of an array of this rank, such as {1,0:T(8,128)S(1)}."""
        start = self.skip()
        self.expect("{")
        minor_to_major: list[int] = []
        while not self.peek(":") and not self.peek("}"):
            minor_to_major.append(self.integer("a dimension number"))
            if not self.accept(","):
                break
        if len(minor_to_major) != rank:
            self.fail(f"the layout has {len(minor_to_major)} dimensions, its shape {rank}", start)
        fields: dict[str, Any] = {}
        if self.accept(":"):
            self._layout_attributes(fields)
        self.expect("}", "to end the layout")
        return Layout(tuple(minor_to_major), **fields)

    def _layout_attributes(self, fields: dict[str, Any]) -> None:
        order = -1
        while (found := self.match(_LAYOUT_KEY)) is not None:
            key = found[1]
            if _KEY_ORDER.index(key) <= order:
                self.fail(f"{key}(...) comes too late in the layout", found.start(1))
            order = _KEY_ORDER.index(key)
            if key == "P" and not fields.get("dim_types"):
                self.fail("a physical shape belongs to the layout of a sparse array only")
            read = _LAYOUT_READERS.get(key)
            fields[LAYOUT_KEYS[key]] = read(self) if read is not None else self._read_in_brackets(key)

    def _read_dim_types(self) -> tuple[str, ...]:
        types = tuple(self.listed("(", self._dim_type, ")"))
        return types if any(t != "D" for t in types) else ()

    def _dim_type(self) -> str:
        return self.take(_PLACE, "the kind of a dimension, D or C")[1]

    def _read_tiles(self) -> tuple[tuple[int | None, ...], ...]:
        tiles = []
        while self.peek("("):
            tiles.append(tuple(self.listed("(", self._tile_size, ")")))
        return tuple(tiles)

    def _tile_size(self) -> int | None:
        return None if self.accept("*") else self.integer("a tile size or *")

    def _read_split_configs(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        configs = []
        while self.accept("("):
            dimension = self.integer("a dimension number")
            self.expect(":")
            indices = [self.integer()]
            while self.accept(","):
                indices.append(self.integer())
            self.expect(")")
            configs.append((dimension, tuple(indices)))
        return tuple(configs)

    def _read_in_brackets(self, key: str) -> int | str:
        """Reads the value of a layout attribute in parentheses: a number, an element type or a shape."""
        self.expect("(")
        at = self.skip()
        found: int | str
        if key in ("#", "*"):
            found = self.word("an element type")
            if found not in BY_NAME or not BY_NAME[found].is_unsigned:
                self.fail(f"'{found}' is not an unsigned integer type", at)
        elif key == "P":
            with self.inside("physical shapes"):
                found = self.shape().to_string()
        else:
            found = self.integer()
        self.expect(")")
        return found

    def program_shape(self) -> ProgramShape:
        """Reads a program shape, such as (a: f32[], b: f32[]) -> f32[]; names may be left out."""
        names: list[str] = []
        shapes: list[AnyShape] = []
        self.expect("(", "to begin the parameters")
        if not self.accept(")"):
            while True:
                named = self.match(_PARAMETER_NAME)
                if named is not None:
                    names.append(named[1])
                shapes.append(self.shape())
                if not self.accept(","):
                    self.expect(")", "to end the parameters")
                    break
        self.expect("->")
        result = self.shape()
        return ProgramShape(tuple(shapes), result, tuple(names) if len(names) == len(shapes) else ())


_PARAMETER_NAME = ascii_regex(BLANK + f"%?({NAME})" + BLANK + r"(?::|(?<=[\s/])(?=[a-z(]))")
_KEY_ORDER = [*LAYOUT_KEYS]
_LAYOUT_READERS = {
    "D": ShapeCursor._read_dim_types,
    "T": ShapeCursor._read_tiles,
    "SC": ShapeCursor._read_split_configs,
}
