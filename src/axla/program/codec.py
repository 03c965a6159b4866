"""Text forms of trees of frozen dataclasses, derived from their type hints.

A dataclass is written as a word and its fields, `name=value`, without those that have their default value. If
it takes a line of its own, fields with many lines follow, indented by two more blanks:

    loop name=while.1 carries=(s32[], f32[4])
      condition: registers
        computation:
          ENTRY %less { ... }
      body:
        kernel name=fusion kernel=k0 operands=(workspace[0:64]) results=(result0[0:64])

Fields may be numbers, text, enums, element types, shapes, tuples, `none`, and dataclasses in unions (which
their word identifies). A `Format` is the notation of a type. Equal values have equal texts. Reading takes
linear time, and creates objects of these types only.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from axla.core.dataclass import dataclass
from axla.core.dtypes import BY_NAME, DType
from axla.core.errors import AxlaError, ParseError
from axla.core.regex import ascii_regex, regex
from axla.core.shape import AnyShape, Shape
from axla.text.lexer import NAME
from axla.text.shapes import ShapeCursor
from axla.text.strings import quote

T = TypeVar("T")

_BARE = ascii_regex(rf"(?!none\Z){NAME}\Z")
_WORD = ascii_regex(NAME)
_FIELD = ascii_regex(rf"\s*+({NAME})=")
_BELOW = ascii_regex(rf"({NAME}):")
_LINE = regex(r"( *)([^\n]*)\n?")


@dataclass(frozen=True, slots=True)
class Format:
    """The notation of a type: a function that writes a value, and one that reads it. A `block` has lines of
    its own, and `read` receives their text; otherwise `read` receives the TextReader.
    """

    write: Callable[[Any], str]
    read: Callable[[Any], Any]
    block: bool = False


class TextReader(ShapeCursor):
    """A cursor over a text, for types that are written on lines of their own; nested ones are indented.
    `known` has the objects that other parts of the text refer to by name.
    """

    most_levels = 150  # of nested dataclasses and tuples, as reading is recursive

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.known: dict[str, Any] = {}  # objects that were read, by name, for forms that refer to them
        self.lines: list[tuple[int, int, int]] = []  # (indentation, start after it, end) of each line
        for found in _LINE.finditer(text):
            if found[2].strip():
                self.lines.append((len(found[1]), found.start(2), found.end(2)))
        self.line = 0

    def next_line(self, indent: int) -> bool:
        """Moves to the next line if its indentation is `indent`, and returns whether it is; fails if the line
        is indented more deeply.
        """
        found, self.pos, _ = self.lines[self.line] if self.line < len(self.lines) else (-1, len(self.text), 0)
        if found > indent:
            self.fail(f"expected at most {indent} blanks before this, found {found}")
        return found == indent

    def line_ends(self) -> bool:
        """Whether only blanks are left in the current line."""
        end = self.lines[self.line][2]
        if self.pos > end:
            self.fail("the line is not complete", end)
        return not self.text[self.pos : end].strip()

    def end_line(self) -> None:
        """Moves to the next line; fails if anything is left on the current one."""
        if not self.line_ends():
            self.fail(f"expected the end of the line, found {self.saw()}")
        self.line += 1

    def block(self, indent: int, read: Callable[[str], Any]) -> Any:
        """Returns the result of `read` for the text of all following lines that are indented by at least
        `indent`.
        """
        first, lines = self.line, self.lines
        while self.line < len(lines) and lines[self.line][0] >= indent:
            self.line += 1
        found = [" " * (level - indent) + self.text[a:b] for level, a, b in lines[first : self.line]]
        try:
            return read("\n".join(found))
        except ParseError as error:
            at = lines[min(first + max(error.line, 1) - 1, max(self.line - 1, first, 0), len(lines) - 1)]
            self.fail(error.message, at[1] - at[0] + indent + max(error.column, 1) - 1)


Made = Callable[[TextReader, Any], None]


# -- what stands in a line -----------------------------------------------------------------------------------


def write_text(value: str) -> str:
    """A string as text: without quotes if it is a plain word."""
    return value if _BARE.match(value) else quote(value)


def read_text(reader: TextReader) -> str:
    """Reads a string in quotes, or a plain word."""
    return reader.quoted() if reader.peek('"') else reader.word("a name or a string")


def _choice(names: Mapping[str, Any], what: str) -> Format:
    """The notation of a value that is written as one of the words in `names`, which maps words to values.
    `what` names the kind of word in error messages.
    """

    def read(reader: TextReader) -> Any:
        at = reader.skip()
        word = reader.word(what)
        if word not in names:
            reader.fail(f"'{word}' is not a {what}", at)
        return names[word]

    words = {value: word for word, value in names.items()}
    return Format(words.__getitem__, read)


def read_array(reader: TextReader) -> Shape:
    """Reads the shape of an array; ParseError for a tuple."""
    at = reader.skip()
    shape = reader.shape()
    if not isinstance(shape, Shape):
        reader.fail(f"expected the shape of an array, found {shape}", at)
    return shape


def _read_bytes(reader: TextReader) -> bytes:
    at = reader.skip()
    try:
        return bytes.fromhex(reader.quoted())
    except ValueError:
        reader.fail("expected bytes in hexadecimal", at)


FORMS: dict[Any, Format] = {
    bool: _choice({"true": True, "false": False}, "boolean"),
    int: Format(str, lambda reader: reader.integer()),
    float: Format(repr, lambda reader: reader.real()),
    str: Format(write_text, read_text),
    bytes: Format(lambda value: f'"{value.hex()}"', _read_bytes),
    DType: _choice(BY_NAME, "element type"),
    Shape: Format(str, read_array),
    AnyShape: Format(str, lambda reader: reader.shape()),
}


# -- types ---------------------------------------------------------------------------------------------------


class FormatNode:
    """Writes and reads values of one type: in a line, or as a block of lines. `indent` is the indentation of
    the current line.
    """

    block = False

    def write(self, value: Any, indent: str) -> str:
        """The text of a value. Further lines of a block are indented more deeply than `indent`."""
        raise NotImplementedError

    def read(self, reader: TextReader, indent: int) -> Any:
        """Reads a value at the cursor. The lines of a block are indented more deeply than `indent`."""
        raise NotImplementedError


class _Leaf(FormatNode):
    def __init__(self, form: Format) -> None:
        self.form, self.block = form, form.block

    def write(self, value: Any, indent: str) -> str:
        text = self.form.write(value)
        return "".join(f"\n{indent}  {line}" for line in text.splitlines() if line) if self.block else text

    def read(self, reader: TextReader, indent: int) -> Any:
        if not self.block:
            return self.form.read(reader)
        reader.end_line()
        return reader.block(indent + 2, self.form.read)


class _Tuple(FormatNode):
    """Writes and reads tuples of the type tuple[X, ...]: in a line, or one element per line."""

    def __init__(self, item: FormatNode, block: bool) -> None:
        self.item, self.block = item, block

    def write(self, value: Any, indent: str) -> str:
        items = [self.item.write(v, indent + "  ") for v in value]
        if not self.block:
            return f"({', '.join(items)})"
        return "".join([f"\n{indent}  {i if i[:1].strip() else '-' + i}" for i in items])

    def read(self, reader: TextReader, indent: int) -> Any:
        if not self.block:
            with reader.inside("tuples"):
                return tuple(reader.listed("(", lambda: self.item.read(reader, indent), ")"))
        reader.end_line()
        found = []
        while reader.next_line(indent + 2):
            reader.accept("-")  # marks a tuple within a tuple
            found.append(self.item.read(reader, indent + 2))
            if not self.item.block:
                reader.end_line()
        return tuple(found)


class _Row(FormatNode):
    """Writes and reads tuples of the type tuple[X, Y], in a line."""

    def __init__(self, items: list[FormatNode]) -> None:
        self.items = items

    def write(self, value: Any, indent: str) -> str:
        return f"({', '.join(n.write(v, indent) for n, v in zip(self.items, value, strict=True))})"

    def read(self, reader: TextReader, indent: int) -> Any:
        found = []
        for n, item in enumerate(self.items):
            reader.expect("," if n else "(")
            found.append(item.read(reader, indent))
        reader.expect(")")
        return tuple(found)


class _Record(FormatNode):
    """Writes and reads dataclasses of one class."""

    def __init__(self, kind: type, block: bool, made: Made | None) -> None:
        self.kind, self.block, self.made = kind, block, made
        # `LoopStep` becomes `loop`, since the suffix is the same for all members of a union.
        self.word = re.sub(r"(?<=.)-(step|plan|spec|kind)$", "", _kebab(kind.__name__))
        self.fields: dict[str, FormatNode] = {}
        self.defaults: dict[str, Any] = {}
        for f in fields(kind):
            if f.default_factory is not MISSING:
                self.defaults[f.name] = f.default_factory()
            elif f.default is not MISSING:
                self.defaults[f.name] = f.default

    def write(self, value: Any, indent: str) -> str:
        inside, below = [], []
        for name, node in self.fields.items():
            item = getattr(value, name)
            if name in self.defaults and item == self.defaults[name]:
                continue
            if node.block:
                text = node.write(item, indent + "  ")
                below.append(f"\n{indent}  {name}:{' ' if text[:1].strip() else ''}{text}")
            else:
                inside.append(f"{name}={node.write(item, indent)}")
        if not self.block:
            return f"{self.word}({', '.join(inside)})"
        return " ".join([self.word, *inside]) + "".join(below)

    def read(self, reader: TextReader, indent: int) -> Any:
        at = reader.skip()
        if reader.word(f"'{self.word}'") != self.word:
            reader.fail(f"expected '{self.word}'", at)
        values: dict[str, Any] = {}
        with reader.inside("values"):
            if self.block:
                self._read_block(reader, values, indent)
            else:
                reader.listed("(", lambda: self._field(reader, values, _FIELD, indent), ")")
        for name in self.fields:
            if name not in values and name not in self.defaults:
                reader.fail(f"{self.word} has no '{name}'", at)
        try:
            made = self.kind(**values)
        except AxlaError as error:
            reader.fail(f"{self.word}: {error}", at)
        if self.made is not None:
            self.made(reader, made)
        return made

    def _read_block(self, reader: TextReader, values: dict[str, Any], indent: int) -> None:
        while not reader.line_ends():
            self._field(reader, values, _FIELD, indent)
        reader.end_line()
        while reader.next_line(indent + 2):
            self._field(reader, values, _BELOW, indent + 2)

    def _field(self, reader: TextReader, values: dict[str, Any], form: re.Pattern[str], indent: int) -> None:
        found = reader.take(form, f"a field of {self.word}")
        name = found[1]
        node = self.fields.get(name)
        if node is None or node.block is not (form is _BELOW):
            reader.fail(f"{self.word} has no field '{name}' here", found.start(1))
        if name in values:
            reader.fail(f"{self.word} has two fields '{name}'", found.start(1))
        values[name] = node.read(reader, indent)


class _Union(FormatNode):
    """Writes and reads values of a union. Dataclasses are recognised by their words, tuples by the bracket,
    None by its word. The union may have one more type.
    """

    def __init__(self, members: list[FormatNode], none: bool) -> None:
        self.records = {m.word: m for m in members if isinstance(m, _Record)}
        self.of: dict[type, FormatNode] = {m.kind: m for m in self.records.values()}
        others = [m for m in members if not isinstance(m, _Record)]
        self.tuples = next((m for m in others if isinstance(m, _Tuple | _Row)), None)
        self.plain = next((m for m in others if m is not self.tuples), None)
        self.none = none
        self.block = any(m.block for m in members)
        if len(self.records) + (self.tuples is not None) + (self.plain is not None) != len(members):
            raise TypeError(f"the members of a union cannot be told apart: {[*self.records, *others]}")

    def write(self, value: Any, indent: str) -> str:
        if value is None and self.none:
            return "none"
        node = self.of.get(type(value)) or (self.tuples if isinstance(value, tuple) else None) or self.plain
        assert node is not None, value
        return node.write(value, indent)

    def read(self, reader: TextReader, indent: int) -> Any:
        if self.block and reader.line_ends():
            found, node = None, self.plain or self.tuples
        else:
            found = _WORD.match(reader.text, reader.skip())
            node = self.records.get(found[0] if found is not None else "")
            node = node or (self.tuples if reader.peek("(") else None) or self.plain
        if self.none and found is not None and found[0] == "none":
            reader.pos, node, value = found.end(), None, None
        elif node is None:
            reader.fail(f"expected one of {', '.join(self.records)}; found {reader.saw()}")
        else:
            value = node.read(reader, indent)
        if self.block and (node is None or not node.block):
            reader.end_line()
        return value


class TextCodec:
    """Reads and writes values of one type and of all types within it.

    `forms` extends or overrides FORMS, by type, or by the name of an alias in type hints. `lines` has the
    dataclasses, or base classes, that take a line of their own, and the types of tuples whose items take one;
    dataclasses that contain a block take one in any case. `known` maps a base class in type hints to the
    union that it stands for. `made` has functions that are called for each dataclass that was read. Fields in
    `skip` are not written; such a text cannot be read back.
    """

    def __init__(
        self, forms: Mapping[Any, Format] = FORMS, lines: Collection[Any] = (),
        made: Mapping[type, Made] | None = None, skip: Collection[tuple[type, str]] = (),
        known: Mapping[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.aliases = {name: type(name, (), {}) for name in forms if isinstance(name, str)}
        self.forms = {**FORMS, **forms, **{alias: forms[name] for name, alias in self.aliases.items()}}
        self.lines, self.made, self.skip, self.known = lines, made or {}, skip, known or {}
        self.nodes: dict[Any, FormatNode] = {}

    def print(self, value: Any) -> str:
        """The text of a dataclass, with a newline at its end."""
        return self.node(type(value)).write(value, "") + "\n"

    def parse(self, kind: type[T], text: str, line: int = 0) -> T:
        """Reads a value from a text, from line number `line` on; ParseError, with the position, if it is
        malformed.
        """
        reader = TextReader(text)
        reader.line = line
        try:
            if not reader.next_line(0):
                reader.fail(f"expected {kind.__name__}, found {reader.saw()}")
            value = self.node(kind).read(reader, 0)
        except RecursionError:  # nesting is limited, but the caller had used up most of the stack
            reader.fail("nested too deeply for what is left of Python's stack")
        if reader.line != len(reader.lines):
            reader.fail("expected the end of the text", reader.lines[reader.line][1])
        return value

    def node(self, hint: Any) -> FormatNode:
        """Returns the object that writes and reads values of a type hint."""
        hint = self.known.get(hint, hint)
        found = self.nodes.get(hint)
        if found is None:
            found = self.nodes[hint] = self._node(hint)
        return found

    def _node(self, hint: Any) -> FormatNode:
        form = self.forms.get(hint)
        if form is not None:
            return _Leaf(form)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is tuple and arguments[1:] == (...,):
            item = self.node(arguments[0])
            return _Tuple(item, item.block or hint in self.lines)
        if origin is tuple:
            return _Row([self.node(a) for a in arguments])
        if origin in (types.UnionType, typing.Union):
            members = [self.node(a) for a in arguments if a is not type(None)]
            return _Union(members, type(None) in arguments)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return _Leaf(_choice({_kebab(e.name): e for e in hint}, _kebab(hint.__name__)))
        if not hasattr(hint, "__dataclass_fields__"):
            raise TypeError(f"{hint} has no text form")
        record = self.nodes[hint] = _Record(
            hint, any(base in self.lines for base in hint.__mro__), self.made.get(hint)
        )
        hints = typing.get_type_hints(hint, localns=self.aliases)  # may contain this record
        record.fields = {
            f.name: self.node(hints[f.name])
            for f in fields(hint)
            if f.init and (hint, f.name) not in self.skip
        }
        record.block = record.block or any(node.block for node in record.fields.values())
        return record


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower().replace("_", "-")
