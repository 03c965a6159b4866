"""Parses files of MLIR text: operations, aliases and resources."""

from __future__ import annotations

from collections.abc import Callable

from axla.core.collector import collector_paused
from axla.core.cursor import T
from axla.core.errors import ParseError
from axla.core.regex import ascii_regex
from axla.stablehlo import mlir
from axla.stablehlo.text import assembly
from axla.stablehlo.text.operations import Operations

_LOCATION = ascii_regex(r"(?m:^)[ \t]*+#([\w$.\-]+)[ \t]*+=[ \t]*+(?=loc\()")


def parse(source: str, name: str = "") -> mlir.Source:
    """Parses MLIR text in short or generic form; error messages begin with `name`."""
    try:
        with collector_paused():
            return _read(source, Parser.file)
    except ParseError as error:
        if name:
            error.message = f"{name}: {error.message}"
        raise


def parse_attribute(text: str) -> object:
    """Parses an attribute, such as `#stablehlo<precision HIGH>`."""
    return _read(text, Parser.attribute)


def parse_type(text: str) -> mlir.Type:
    """Parses a type, such as `tensor<4xf32>`."""
    return _read(text, Parser.type)


def _read(text: str, read: Callable[[Parser], T]) -> T:
    parser = Parser(text)
    try:
        found = read(parser)
    except RecursionError:
        # The parser bounds nesting, so it was the caller that had nearly filled the stack.
        parser.fail("nested too deeply for what is left of Python's stack")
    if parser.kind != "end":
        parser.fail(f"expected the end of the text, found {parser.saw()}")
    return found


class Parser(Operations):
    """The parser of a file, an attribute or a type."""

    __slots__ = ("location_ends", "resources")

    def __init__(self, text: str) -> None:
        self.location_ends: dict[str, int] = {}
        self.resources: dict[str, bytes] = {}
        super().__init__(text)

    def nameless(self) -> mlir.Operation:
        """Reads an operation from its name on, in generic or short form."""
        return assembly.operation_at(self)

    # ---- Files

    def file(self) -> mlir.Source:
        """Reads the whole text; operations outside of a module are put into one."""
        for found in _LOCATION.finditer(self.text):
            self.location_places.setdefault(found[1], found.end())
        operations: list[mlir.Operation] = []
        while self.kind != "end":
            if self.kind == "hash":
                self._attribute_alias()
            elif self.kind == "bang":
                self._type_alias()
            elif self.token == "{-#":
                self._metadata()
            else:
                self._resolve_locations()
                operations.append(self.operation())
        if len(operations) == 1 and operations[0].name == "builtin.module":
            module = operations[0]
        else:
            body = mlir.Region([mlir.Block(operations=operations)])
            module = mlir.Operation("builtin.module", [], [], {}, [body])
        return mlir.Source(module, self.resources, self.text)

    def _attribute_alias(self) -> None:
        at = self.start
        name = self.advance()[1:]
        self.expect("=")
        if name in self.aliases or self.location_ends.get(name, 0) < 0:
            self.fail(f"alias #{name} is defined twice", at)
        if self.token == "loc":
            self._location_alias(name, at)
            self.seek(self.location_ends[name])
            self.location_ends[name] = -1
        else:
            self.aliases[name] = self.define_alias("#" + name, self.attribute)

    def _type_alias(self) -> None:
        at = self.start
        name = self.advance()[1:]
        if name in self.type_aliases or "." in name:
            self.fail(f"alias !{name} is defined twice or has a dot in its name", at)
        self.expect("=")
        self.type_aliases[name] = self.define_alias("!" + name, self.type)

    def _resolve_locations(self) -> None:
        """Reads the aliases of locations in text order. An alias that others refer to is usually defined
        first, so no long chain of aliases has to be read at once.
        """
        for name in list(self.location_places):
            if name in self.location_places:
                self._location_alias(name, self.start)

    def _location_alias(self, name: str, at: int) -> mlir.Location | None:
        """The location that the alias `#name` stands for, wherever the text defines it."""
        if name in self.locations:
            return self.locations[name]
        place = self.location_places.pop(name, None)
        if place is None:
            self.fail(f"location alias #{name} is not defined or contains itself", at)
        after = self.start
        self.seek(place)
        self.locations[name] = self.define_alias("#" + name, self.location)
        self.location_ends[name] = self.start
        self.seek(after)
        return self.locations[name]

    def _metadata(self) -> None:
        """Reads `{-# dialect_resources: { dialect: { name: "0x...", ... } }, ... #-}`."""
        self.advance()
        self.until("#-}", lambda: self._metadata_entry(0, True))

    def _metadata_entry(self, level: int, kept: bool) -> None:
        """Reads `name: {...}` for a section (level 0) or a dialect in it (level 1), `name: value` for an
        entry of a dialect (level 2). Values are stored as resources if `kept` and the section is
        `dialect_resources`.
        """
        name = self.key()
        self.expect(":")
        if level < 2:
            kept = kept and (level > 0 or name == "dialect_resources")
            self.listed("{}", lambda: self._metadata_entry(level + 1, kept))
            return
        at, token = self.start, self.token
        value = self.attribute()
        if kept and isinstance(value, str):
            try:
                if not token.startswith('"0x') or len(token) < 12:
                    raise ValueError
                self.resources[name] = bytes.fromhex(token[11:-1])  # after the alignment, four bytes
            except ValueError:
                self.fail("expected a resource in hexadecimal, with its alignment", at)
