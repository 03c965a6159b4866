"""Operations, blocks, regions and files of MLIR text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from axla.core.collector import collector_paused
from axla.core.errors import ParseError
from axla.ir.strings import pattern
from axla.stablehlo import mlir
from axla.stablehlo.text import assembly
from axla.stablehlo.text.attributes import Attributes
from axla.stablehlo.text.lexer import T
from axla.stablehlo.text.printer import type_text

ISOLATED = frozenset({"builtin.module", "func.func"})
"""Operations whose regions see no values from outside."""

_LOCATION = pattern(r"(?m:^)[ \t]*+#([\w$.\-]+)[ \t]*+=[ \t]*+(?=loc\()")
_NEWLINE = re.compile("\n")
# Attributes that an operation has even where nobody wrote them.
DEFAULTS = {
    "stablehlo.infeed": {"infeed_config": ""},
    "stablehlo.outfeed": {"outfeed_config": ""},
    "check.expect_close": {"max_ulp_difference": mlir.IntegerAttr(1, mlir.IntegerType(64, "u"))},
}

Use = tuple[str, int]
"""An operand as written: its name and the offset."""
Argument = tuple[str, int, mlir.Type, mlir.Location | None]
"""An argument of a block: name, offset, type, location."""


def parse(source: str, name: str = "") -> mlir.Source:
    """What a text of MLIR says, in short or generic form; `name` goes before the messages of errors."""
    try:
        with collector_paused():
            return _read(source, Parser.file)
    except ParseError as error:
        if name:
            error.message = f"{name}: {error.message}"
        raise


def parse_attribute(text: str) -> object:
    """The attribute that a text is, as in `#stablehlo<precision HIGH>`."""
    return _read(text, Parser.attribute)


def parse_type(text: str) -> mlir.Type:
    """The type that a text is, as in `tensor<4xf32>`."""
    return _read(text, Parser.type)


def _read(text: str, read: Callable[[Parser], T]) -> T:
    parser = Parser(text)
    try:
        found = read(parser)
    except RecursionError:
        # Nesting is bounded; the caller's own stack was nearly full.
        parser.fail("nested too deeply for what is left of Python's stack")
    if parser.kind != "end":
        parser.fail(f"expected nothing more, found {parser.saw()}")
    return found


class Parser(Attributes):
    """Reads a file. `values` are those that can be used here, by name; `defined` the names of this region."""

    __slots__ = ("values", "defined", "newlines", "location_ends", "resources")

    def __init__(self, text: str) -> None:
        self.values: dict[str, mlir.Value] = {}
        self.defined: list[str] = []
        self.newlines = [found.start() for found in _NEWLINE.finditer(text)]
        self.location_ends: dict[str, int] = {}
        self.resources: dict[str, bytes] = {}
        super().__init__(text)

    # ---- Files

    def file(self) -> mlir.Source:
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
            block = mlir.Block()
            block.operations = operations
            module = mlir.Operation("builtin.module", [], [], {}, [mlir.Region([block])])
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
        """Reads the aliases of locations in the order of the text: then none waits for many others."""
        for name in list(self.location_places):
            if name in self.location_places:
                self._location_alias(name, self.start)

    def _location_alias(self, name: str, at: int) -> mlir.Location | None:
        """The location that `#name` stands for, wherever it is defined."""
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
        """`{-# dialect_resources: { dialect: { name: "0x...", ... } }, ... #-}`."""
        self.advance()
        self.until("#-}", lambda: self._metadata_entry(0, True))

    def _metadata_entry(self, level: int, kept: bool) -> None:
        """`name: {...}` of a section and of a dialect in it, `name: value` within them."""
        name = self.key()
        self.expect(":")
        if level < 2:
            self.expect("{")
            kept = kept and (level > 0 or name == "dialect_resources")
            self.until("}", lambda: self._metadata_entry(level + 1, kept))
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

    # ---- Values

    def use(self, name: str, at: int, kind: mlir.Type) -> mlir.Value:
        """The value of a name, which must have a type."""
        value = self.values.get(name)
        if value is None:
            value = self._other_spelling(name, at)
        if value.type is not kind and value.type != kind:
            self.fail(f"{name} is used as {type_text(kind)}, but it is {type_text(value.type)}", at)
        return value

    def _other_spelling(self, name: str, at: int) -> mlir.Value:
        base, _, number = name.partition("#")
        found = self.values.get(base)
        if found is not None and number:
            if number == "0":
                return found
            self.fail(f"{base} has no result number {number}", at)
        if re.compile(rf"{re.escape(name)}\s*(?::\s*\d+\s*)?(?:=|,[^\n=]*=)").search(self.text, at):
            self.fail(f"{name} is used before it is defined", at)
        self.fail(f"{name} is not defined here", at)

    def define(self, name: str, value: mlir.Value, at: int) -> None:
        if name in self.values:
            self.fail(f"{name} is defined twice", at)
        self.values[name] = value
        self.defined.append(name)

    def uses(self) -> list[Use]:
        """Operands with commas between, or none."""
        found: list[Use] = []
        while self.kind == "value":
            found.append((self.token, self.start))
            self.advance()
            if self.token != ",":
                break
            self.advance()
        return found

    def resolve(self, uses: list[Use], types: list[mlir.Type], at: int) -> list[mlir.Value]:
        if len(uses) != len(types):
            self.fail(f"{len(uses)} operands, but types of {len(types)}", at)
        return [self.use(name, place, kind) for (name, place), kind in zip(uses, types, strict=True)]

    # ---- Operations

    def operation(self) -> mlir.Operation:
        names: list[tuple[str, int, int]] = []
        if self.kind == "value":
            names = self._result_names()
        at, kind = self.start, self.kind
        if kind == "string":
            found = self._generic()
        elif kind == "bare":
            found = assembly.short_form(self, self.position(at))
        else:
            self.fail(f"expected an operation, found {self.saw()}")
        defaults = DEFAULTS.get(found.name)
        if defaults:
            found.attributes = {**defaults, **found.attributes}
        if self.token == "loc":
            found.location = self.location()
        if names:
            self._define_results(names, found, at)
        return found

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of an offset, from 1."""
        line = bisect_right(self.newlines, at - 1)
        return line + 1, at - (self.newlines[line - 1] if line else -1)

    def _result_names(self) -> list[tuple[str, int, int]]:
        """`%0`, `%0:2` or `%a, %b:2`, and the = after it: names, how many each, offsets."""
        found = []
        while True:
            at, name = self.start, self.take("value", "the name of a result")
            if "#" in name:
                self.fail("a result's name without number", at)
            count = 1
            if self.accept(":"):
                count = self.integer()
                if count < 1:
                    self.fail("a name stands for at least one result", at)
            found.append((name, count, at))
            if not self.accept(","):
                break
        self.expect("=")
        return found

    def _define_results(self, names: list[tuple[str, int, int]], operation: mlir.Operation, at: int) -> None:
        results = operation.results
        if sum([count for _, count, _ in names]) != len(results):
            self.fail(f"{operation.name} has {len(results)} results, not as many as are named", at)
        index = 0
        for name, count, place in names:
            self.define(name, results[index], place)
            if count > 1:
                for i in range(count):
                    self.define(f"{name}#{i}", results[index + i], place)
            index += count

    def _generic(self) -> mlir.Operation:
        at = self.start
        name = self.string()
        self.expect("(")
        uses = self.uses()
        self.expect(")")
        if self.token == "[":
            self.fail(f"{name}: successors, which no operation here has")
        attributes: dict[str, object] = {}
        if self.accept("<"):
            attributes = self.dictionary()
            self.expect(">")
        regions = self.regions(name in ISOLATED) if self.token == "(" else []
        if self.token == "{":
            place = self.start
            more = self.dictionary()
            if not attributes.keys().isdisjoint(more):
                self.fail("an attribute stands twice", place)
            attributes.update(more)
        self.expect(":")
        types = self.type_list()
        self.expect("->")
        operands = self.resolve(uses, types, at)
        results = self.results()
        if name == "builtin.module":
            for region in regions:
                region.blocks = region.blocks or [mlir.Block()]
        return mlir.Operation(name, operands, results, attributes, regions, None, self.position(at))

    def regions(self, isolated: bool = False) -> list[mlir.Region]:
        """`({...}, {...})`."""
        self.expect("(")
        return self.until(")", lambda: self.region(isolated))

    def region(self, isolated: bool = False, arguments: list[Argument] | None = None) -> mlir.Region:
        """`{...}`. Arguments of the first block are given where the short form writes them before it."""
        self.deeper()
        outer_values, outer_defined = self.values, self.defined
        self.defined = []
        if isolated:
            self.values = {}
        self.expect("{")
        blocks: list[mlir.Block] = []
        if self.kind != "caret" and (self.token != "}" or arguments):
            blocks.append(self._block(arguments or []))
        elif self.kind == "caret" and arguments:
            self.fail("a label before a block whose arguments are given already")
        while self.kind == "caret":
            self.advance()
            arguments = self.arguments() if self.token == "(" else []
            self.expect(":")
            blocks.append(self._block(arguments))
        self.expect("}")
        if not isolated:
            for name in self.defined:
                del outer_values[name]
        self.values, self.defined = outer_values, outer_defined
        self.depth -= 1
        return mlir.Region(blocks)

    def arguments(self) -> list[Argument]:
        """`(%a: type loc(...), ...)`."""
        self.expect("(")
        return self.until(")", self.argument)

    def argument(self) -> Argument:
        at, name = self.start, self.take("value", "an argument")
        self.expect(":")
        return name, at, self.type(), self.optional_location()

    def _block(self, arguments: list[Argument]) -> mlir.Block:
        block = mlir.Block([argument[2] for argument in arguments])
        if any([argument[3] is not None for argument in arguments]):
            block.locations = [argument[3] for argument in arguments]
        for (name, at, _, _), value in zip(arguments, block.arguments, strict=True):
            self.define(name, value, at)
        append = block.operations.append
        while self.token != "}" and self.kind != "caret":
            append(self.operation())
        return block
