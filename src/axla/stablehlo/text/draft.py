"""A partially read operation, and the steps of forms that fill it: operands, attributes, types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.tables import by_name
from axla.stablehlo import mlir
from axla.stablehlo.text.operations import NamedArgument, Operations, Use


@dataclass(slots=True, eq=False)
class Draft:
    """A partially read operation. `uses` are its operands as written; `types` are the types of the operands,
    `results` those of the results. From the part of a short form before the regions, `names` are further
    names of values, and `arguments` the arguments of the region.
    """

    name: str
    at: int
    attributes: dict[str, Any] = field(default_factory=dict)
    uses: list[Use] = field(default_factory=list)
    types: Sequence[mlir.Type] = ()
    results: Sequence[mlir.Type] = ()
    regions: list[mlir.Region] = field(default_factory=list)
    names: Sequence[Use] = ()
    arguments: Sequence[NamedArgument] = ()
    location: mlir.Location | None = None


ReadStep = Callable[[Operations, Draft], None]

# ---- Operands and attributes


def operand(parser: Operations, draft: Draft) -> None:
    """Reads one operand, `%name`."""
    draft.uses.append((parser.token, parser.start))
    parser.take("value", "an operand")


def _operands(parser: Operations, draft: Draft) -> None:
    draft.uses += parser.uses()


def _operands_in_parentheses(parser: Operations, draft: Draft) -> None:
    parser.expect("(")
    draft.uses += parser.uses()
    parser.expect(")")


def _operands_and_commas(parser: Operations, draft: Draft) -> None:
    while parser.kind == "value":
        operand(parser, draft)
        parser.expect(",")


def _dictionary(parser: Operations, draft: Draft) -> None:
    at, more = parser.start, parser.dictionary()
    if not draft.attributes.keys().isdisjoint(more):
        parser.fail("an attribute is given twice", at)
    draft.attributes.update(more)


def _optional_dictionary(parser: Operations, draft: Draft) -> None:
    if parser.token == "{":
        _dictionary(parser, draft)


PIECES: dict[str, ReadStep] = {
    "%": operand, "%*": _operands, "(%*)": _operands_in_parentheses, "%,": _operands_and_commas,
    "{}": _optional_dictionary, "{!}": _dictionary,
}  # fmt: skip

# ---- Types


def _function(parser: Operations, draft: Draft) -> None:
    """Reads `(operands) -> results`, the types of operands and results."""
    if parser.token != "(":
        parser.fail(f"expected the types of operands and results, found {parser.saw()}")
    draft.types = parser.type_list()
    parser.expect("->")
    draft.results = parser.results()


def _is_function(parser: Operations, draft: Draft, kind: mlir.Type, at: int) -> bool:
    """Whether `kind` is a function type; if so, the types of operands and result are taken from it. It must
    have an input for each operand and one result.
    """
    if not isinstance(kind, mlir.FunctionType):
        return False
    if len(kind.inputs) != len(draft.uses):
        parser.fail(f"{len(draft.uses)} operands present, but expected {len(kind.inputs)}", at)
    if len(kind.results) != 1:
        parser.fail("expected single output", at)
    draft.types, draft.results = kind.inputs, kind.results
    return True


def _same(parser: Operations, draft: Draft) -> None:
    """Reads one type for operands and result, or a function type."""
    at, kind = parser.start, parser.type()
    if not _is_function(parser, draft, kind, at):
        draft.types, draft.results = [kind] * len(draft.uses), [kind]


def _select(parser: Operations, draft: Draft) -> None:
    """Reads the types of predicate and result, or a function type."""
    at, kinds = parser.start, parser.types()
    if len(kinds) == 2:
        draft.types, draft.results = [kinds[0], kinds[1], kinds[1]], [kinds[1]]
    elif len(kinds) > 2 or not _is_function(parser, draft, kinds[0], at):
        parser.fail("expected functional type or list of two types", at)


def _complex(parser: Operations, draft: Draft) -> None:
    """Reads the type of a complex result, or a function type."""
    at, kind = parser.start, parser.type()
    if isinstance(kind, mlir.TensorType) and isinstance(kind.element, mlir.ComplexType):
        part = mlir.TensorType(kind.shape, kind.element.element, kind.encoding)
        draft.types, draft.results = [part, part], [kind]
    elif not _is_function(parser, draft, kind, at):
        parser.fail("expected tensor with complex element type", at)


def _tuple(parser: Operations, draft: Draft) -> None:
    at, kind = parser.start, parser.type()
    if not isinstance(kind, mlir.TupleType):
        parser.fail("expected tuple type", at)
    draft.types, draft.results = kind.elements, [kind]


def _first(parser: Operations, draft: Draft) -> None:
    """Reads one type for all operands."""
    draft.types = [parser.type()] * len(draft.uses)


def _types(parser: Operations, draft: Draft) -> None:
    draft.types = parser.types()


def _pairs(parser: Operations, draft: Draft) -> None:
    """Reads the types of the operands, which are also those of the results."""
    draft.types = draft.results = parser.types()


def _result(parser: Operations, draft: Draft) -> None:
    draft.results = [parser.type()]


def _results(parser: Operations, draft: Draft) -> None:
    draft.results = parser.results()


def _value(parser: Operations, draft: Draft) -> None:
    """Gives the result the type of the attribute `value`."""
    value = draft.attributes["value"]
    draft.results = [mlir.IntegerType(1) if isinstance(value, bool) else value.type]


def _as_value(parser: Operations, draft: Draft) -> None:
    """Gives the operand the type of the attribute `value`."""
    _value(parser, draft)
    draft.types, draft.results = draft.results, ()


TYPES: dict[str, ReadStep] = by_name(
    "", _function, _same, _select, _complex, _tuple, _first, _types, _pairs, _result, _results, _value,
    _as_value,
)  # fmt: skip
