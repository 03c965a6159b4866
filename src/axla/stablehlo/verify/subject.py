"""The view of an operation that rules use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from axla.importers.records import ValueRecord
from axla.stablehlo import mlir
from axla.stablehlo.sizes import Sizes, with_sizes
from axla.stablehlo.text.printer import type_text
from axla.stablehlo.verify.attributes import constant
from axla.stablehlo.verify.kinds import Broken, Facts, elements_fit, sizes_fit

SymbolTable = dict[str, mlir.Operation]
I1 = mlir.IntegerType(1)


class TypeFacts(dict[int, Facts]):
    """Facts about types, computed once for each type object of a program."""

    def of(self, kind: mlir.Type) -> Facts:
        """The facts about a type, which are computed at its first use."""
        # Types are found by identity, which is ten times as fast as hashing; the facts keep the type alive.
        return self.get(id(kind)) or self.setdefault(id(kind), Facts(kind))

    def each(self, values: Sequence[mlir.Value]) -> list[Facts]:
        """The facts about the types of these values."""
        return [self.get(id(value.type)) or self.of(value.type) for value in values]


class Subject:
    """An operation with the facts that rules use. `operands` and `results` are the facts about its types;
    operand types that are given replace the written ones. `name` has no dialect; labels of rules are
    `name_rule`. `symbols` are those of the enclosing module. `declared` has, for each operand, its
    declaration in the record; `reads` is whether a rule has read the value of an operand.
    """

    __slots__ = ("operation", "name", "types", "symbols", "operands", "results", "declared", "named", "reads")

    def __init__(
        self, operation: mlir.Operation, types: TypeFacts, symbols: SymbolTable,
        operands: Sequence[mlir.Type] | None = None,
    ):  # fmt: skip
        self.operation = operation
        self.name = operation.name.partition(".")[2]
        self.types = types
        self.symbols = symbols
        self.operands = types.each(operation.operands) if operands is None else list(map(types.of, operands))
        self.results = types.each(operation.results)
        self.reads = False
        self.declared: Sequence[ValueRecord] = ()
        self.named: dict[str, list[Facts]] = {}

    def key(self) -> Any:
        """A key for operations: those with equal keys all satisfy the rules or all break them, unless they
        read constants. It is the operation itself if rules depend on regions, symbols or unhashable values.
        """
        operation = self.operation
        key = operation.name, *self.operands, None, *self.results, *operation.attributes.items()
        try:
            hash(key)
        except TypeError:
            return operation
        return operation if operation.regions or self.name == "composite" else key

    @property
    def operand(self) -> Facts:
        """The facts about the first operand."""
        return self.operands[0]

    @property
    def result(self) -> Facts:
        """The facts about the first result."""
        return self.results[0]

    def fail(self, rule: str, message: str, *values: Any) -> NoReturn:
        """Raises Broken for a rule; `values` are inserted into the message."""
        shown = [
            list(v) if isinstance(v, tuple) else type_text(v) if isinstance(v, mlir.Type) else v
            for v in values
        ]
        raise Broken(f"{self.name}_{rule}" if rule else self.name, message.format(*shown))

    def need(self, true: object, rule: str, message: str, *values: Any) -> None:
        """Raises Broken if a rule does not hold; the message is formatted only then."""
        if not true:
            self.fail(rule, message, *values)

    # ---- Attributes, whose kinds the check of the declaration has checked before

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the operation by name, or the default."""
        return self.operation.attributes.get(name, default)

    def flag(self, name: str) -> bool:
        """Whether an attribute is true or unit."""
        return self.operation.attributes.get(name) in (True, mlir.UNIT)

    # ---- Values by their names in the record

    def values(self, name: str) -> list[Facts]:
        """The facts about the values of an operand or a result; a variadic one has several. `result1` is the
        second result, `results` are all.
        """
        if not self.named:
            self.named = {f"result{i or ''}": [facts] for i, facts in enumerate(self.results)}
            self.named["results"] = self.results
            for facts, value in zip(self.operands, self.declared, strict=True):
                self.named.setdefault(value.name, []).append(facts)
        return self.named.get(name, [])

    def known(self, name: str) -> Any:
        """The value (number, list, word...) of an attribute, a field of a structure or a constant operand;
        None where it is computed or missing.
        """
        attributes = self.operation.attributes
        held = attributes.get(name)
        if isinstance(held, mlir.DenseArray):
            return held.values
        if held is not None:
            return held.value if isinstance(held, (mlir.IntegerAttr, mlir.EnumAttr)) else held
        for held in attributes.values():
            if isinstance(held, mlir.StructAttr) and name in held.fields:
                return held.fields[name]
        for operand, value in zip(self.operation.operands, self.declared, strict=False):
            if value.name == name:
                self.reads = True
                return constant(operand)
        return None

    def types_are(self, rule: str, what: str, found: list[Facts], wanted: Sequence[mlir.Type]) -> None:
        """Checks that the types of the values `found` are exactly the types `wanted`, one by one. `what`
        names the values in messages: operands or results.
        """
        self.need(len(found) == len(wanted), rule, "wanted {} {}, found {}", len(wanted), what, len(found))
        for facts, kind in zip(found, wanted, strict=True):
            same = facts.type is kind or facts.type == kind
            self.need(same, rule, "{} must have the type {}, found {}", what, kind, facts)

    # ---- Regions

    def block(self, region: int) -> mlir.Block:
        """The only block of a region, by the region's number."""
        return self.operation.regions[region].blocks[0]

    def parameters(self, region: int) -> list[Facts]:
        """The facts about the arguments of a region's block."""
        return self.types.each(self.block(region).arguments)

    def returned(self, region: int) -> list[Facts]:
        """The facts about the values that a region's block returns."""
        return self.types.each(self.block(region).terminator.operands)

    def returns_boolean(self, region: int, rule: str, what: str) -> None:
        """Requires that a region returns one tensor<i1>; `what` names the region in the message."""
        returned = self.returned(region)
        fit = len(returned) == 1 and returned[0].shape == () and returned[0].element == I1
        self.need(fit, rule, "{} must return one tensor<i1>, found {}", what, ", ".join(map(str, returned)))

    # ---- Inferred types

    def follows(self, rules: str, extents: Sizes | None, element: Any = None, index: int = 0) -> None:
        """Checks that result number `index` has the sizes `extents`, where a Bounded is a `?` with a bound,
        and the element type `element` if that is given. `rules` is the label for both checks, or a label for
        the sizes and one for the element type.
        """
        written = self.results[index]
        element = written.element if element is None else element
        right = extents == written.extents or sizes_fit(extents, written.extents)
        if right and elements_fit(element, written.element):
            return
        wanted = mlir.TensorType(None, element)
        wanted = wanted if extents is None else with_sizes(wanted, extents)
        label, _, element_label = rules.partition(" ")
        label = element_label or label if right else label
        self.fail(label, "the type of a result must be {}, found {}", wanted, written)
