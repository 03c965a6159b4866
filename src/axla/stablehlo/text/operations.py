"""Reads operations, blocks and regions of MLIR text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from axla.stablehlo import mlir
from axla.stablehlo.text.attributes import Attributes
from axla.stablehlo.text.printer import type_text

_NEWLINE = re.compile("\n")
# Attributes that an operation has even if the text omits them.
DEFAULTS = {
    "stablehlo.infeed": {"infeed_config": ""},
    "stablehlo.outfeed": {"outfeed_config": ""},
    "check.expect_close": {"max_ulp_difference": mlir.IntegerAttr(1, mlir.IntegerType(64, "u"))},
}

Use = tuple[str, int]
"""An operand as written: its name and its offset in the text."""
NamedArgument = tuple[str, int, mlir.Type, mlir.Location | None]
"""An argument of a block: its name, offset, type and location."""


class Operations(Attributes):
    """Reads operations. `values` has the values in scope, by name; `defined` the names defined in the current
    region.
    """

    __slots__ = ("values", "defined", "newlines")

    def __init__(self, text: str) -> None:
        self.values: dict[str, mlir.Value] = {}
        self.defined: list[str] = []
        self.newlines = [found.start() for found in _NEWLINE.finditer(text)]
        super().__init__(text)

    # ---- Values

    def use(self, name: str, at: int, kind: mlir.Type) -> mlir.Value:
        """The value of a name; fails at the offset `at` unless it has this type."""
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
        """Names a value in this region; fails if the name is used already."""
        if name in self.values:
            self.fail(f"{name} is defined twice", at)
        self.values[name] = value
        self.defined.append(name)

    def uses(self) -> list[Use]:
        """Reads operands separated by commas, possibly none."""
        found: list[Use] = []
        while self.kind == "value":
            found.append((self.token, self.start))
            self.advance()
            if self.token != ",":
                break
            self.advance()
        return found

    def resolve(self, uses: list[Use], types: Sequence[mlir.Type], at: int) -> list[mlir.Value]:
        """The values of the operands `uses`, which must have the types `types`. Fails at the offset `at` if
        there are more or fewer types than operands.
        """
        if len(uses) != len(types):
            self.fail(f"{len(uses)} operands, but {len(types)} types", at)
        return [self.use(name, place, kind) for (name, place), kind in zip(uses, types, strict=True)]

    # ---- Operations

    def operation(self) -> mlir.Operation:
        """Reads an operation with the names of its results and its location."""
        names = self._result_names() if self.kind == "value" else []
        at = self.start
        found = self.nameless()
        defaults = DEFAULTS.get(found.name)
        if defaults:
            found.attributes = {**defaults, **found.attributes}
        if self.token == "loc":
            found.location = self.location()
        if names:
            self._define_results(names, found, at)
        return found

    def nameless(self) -> mlir.Operation:
        """Reads an operation after its result names, without its location; Parser implements it."""
        raise NotImplementedError

    def position(self, at: int) -> tuple[int, int]:
        """The line and the column of an offset, counted from 1."""
        line = bisect_right(self.newlines, at - 1)
        return line + 1, at - (self.newlines[line - 1] if line else -1)

    def _result_names(self) -> list[tuple[str, int, int]]:
        """Reads `%0`, `%0:2` or `%a, %b:2`, and the = after it; returns the name, the number of results and
        the offset of each.
        """
        found = []
        while not found or self.accept(","):
            at, name = self.start, self.take("value", "the name of a result")
            if "#" in name:
                self.fail("a result must be named without a number", at)
            count = 1
            if self.accept(":"):
                count = self.integer()
                if count < 1:
                    self.fail("a name must stand for at least one result", at)
            found.append((name, count, at))
        self.expect("=")
        return found

    def _define_results(self, names: list[tuple[str, int, int]], operation: mlir.Operation, at: int) -> None:
        results = operation.results
        if len(names) == len(results) == names[0][1] == 1:
            self.define(names[0][0], results[0], names[0][2])
            return
        if sum([count for _, count, _ in names]) != len(results):
            self.fail(f"{operation.name} has {len(results)} results, not as many as are named", at)
        index = 0
        for name, count, place in names:
            self.define(name, results[index], place)
            for i in range(count if count > 1 else 0):
                self.define(f"{name}#{i}", results[index + i], place)
            index += count

    def regions(self, isolated: bool = False) -> list[mlir.Region]:
        """Reads regions in parentheses, `({...}, {...})`; if `isolated`, they cannot use outer values."""
        return self.listed("()", lambda: self.region(isolated))

    def region(self, isolated: bool = False, arguments: list[NamedArgument] | None = None) -> mlir.Region:
        """Reads a region, `{...}`; if `isolated`, it cannot use outer values. `arguments` are those of the
        first block, if a short form has them before the region.
        """
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

    def arguments(self) -> list[NamedArgument]:
        """Reads the arguments of a block, `(%a: type loc(...), ...)`."""
        return self.listed("()", self.argument)

    def argument(self) -> NamedArgument:
        """Reads an argument of a block: name, type and location."""
        at, name = self.start, self.take("value", "an argument")
        self.expect(":")
        return name, at, self.type(), self.optional_location()

    def _block(self, arguments: list[NamedArgument]) -> mlir.Block:
        block = mlir.Block([argument[2] for argument in arguments])
        if any([argument[3] is not None for argument in arguments]):
            block.locations = [argument[3] for argument in arguments]
        for (name, at, _, _), value in zip(arguments, block.arguments, strict=True):
            self.define(name, value, at)
        append = block.operations.append
        while self.token != "}" and self.kind != "caret":
            append(self.operation())
        return block
