"""Records declare the operations of a foreign dialect for its readers, verifiers and importers. A line of a
table declares one or more operations:

    names: inputs -> results ; rules ; text FORM ; hlo OP field=attribute...
        ; static OP operand... ; none REASON

An input is an operand `name:kind` (`name...:kind` is any number of operands), an attribute `name=kind` or a
region `name{}` (`{...}` is any number of regions, `{*}` any number of regions with any content). `?` after
the kind of an attribute makes it optional, and its default follows. `/c1` is the label of the input's
constraint; without it, the label is the position: the second input of `add` is `i2`. `@2` is the version of
the operation that added the attribute. `@2` after the name of an operation is its version, if no attribute
has a higher one. Without `->`, operands and results are not declared, and the operation is only carried
along.

`rule/c1` is a rule with its label. `text` is the short form. `hlo` is the corresponding HLO op (by default of
the same name), with the attribute or region that each field comes from. `*attribute` is a structure whose
fields are those of the op; an attribute that holds several fields has a column for each; `region+` combines
elements of the operands, in element types that may be wider than theirs. `static` is the operation that
replaces this one if operands are known: these become attributes of the same names, and `=operand` the sizes
of the result. `none` says why the operation is not imported.

Each dialect defines its kinds, rules and forms; this module depends on none of them. An indented line
continues the previous one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from axla.core.dataclass import dataclass
from axla.core.regex import regex


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """The declaration of an operand or a result; a variadic one stands for any number of values."""

    name: str
    kind: str
    rule: str
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class AttributeRecord:
    """The declaration of an attribute. `default` is the value of a missing one, "" if none is declared;
    `since` is the version of the operation that added it.
    """

    name: str
    kind: str
    rule: str
    optional: bool = False
    default: str = ""
    since: int = 1


@dataclass(frozen=True, slots=True)
class Record:
    """The declaration of an operation. `regions` are the names of its regions, None for any number. If
    `filled`, each region is one block that ends with a return. If not `known`, operands and results are not
    declared. `counterpart` has the words after `hlo`, None without `hlo`; `why_not` is the reason after
    `none`.
    """

    name: str
    known: bool
    operands: tuple[ValueRecord, ...]
    attributes: tuple[AttributeRecord, ...]
    regions: tuple[str, ...] | None
    filled: bool
    results: tuple[ValueRecord, ...]
    rules: tuple[tuple[str, str], ...]
    form: str
    counterpart: tuple[str, ...] | None
    static: tuple[str, ...]
    why_not: str
    version: int

    @property
    def short(self) -> str:
        """The name of the operation without its dialect."""
        return self.name.partition(".")[2]


_INPUT = regex(
    r"(?P<name>\w+?)(?P<variadic>\.\.\.)?"
    r"(?::(?P<operand>[^/]+)|\{(?P<region>[.*]*)\}"
    r"|=(?P<attribute>[^?/@]+)(?P<optional>\?(?P<default>[^/@]*))?)"
    r"(?:/(?P<rule>c\d+))?(?:@(?P<since>\d))?$"
)


def read_records(dialect: str, table: str, width: Callable[[str], int]) -> dict[str, Record]:
    """Parses a table of operations of `dialect`. Returns the records by the full names of the operations,
    such as `stablehlo.add`. `width(kind)` is the number of inputs that an attribute of a kind counts as.
    """
    found: dict[str, Record] = {}
    for line in re.sub(r"\n +", " ", table).split("\n"):
        signature, *sections = line.split(" ; ")
        names, _, types = signature.partition(":")
        for word in names.split():
            name, _, version = word.partition("@")
            full = f"{dialect}.{name}"
            found[full] = _record(full, int(version or 1), types, sections, width)
    return found


def _record(
    name: str, version: int, types: str, sections: list[str], width: Callable[[str], int]
) -> Record:  # fmt: skip
    operands: list[ValueRecord] = []
    attributes: list[AttributeRecord] = []
    regions: list[str] | None = []
    inputs, known, results = types.partition("->")
    filled, place = True, 1
    for text in inputs.split():
        part = _INPUT.match(text)
        assert part is not None, f"{name}: {text}"
        label, rule = part["name"], part["rule"] or f"i{place}"
        place += width(part["attribute"]) if part["attribute"] else 1
        if part["operand"]:
            operands.append(ValueRecord(label, part["operand"], rule, bool(part["variadic"])))
        elif part["attribute"]:
            since, default = int(part["since"] or 1), part["default"] or ""
            attributes.append(
                AttributeRecord(label, part["attribute"], rule, part["optional"] is not None, default, since)
            )
            version = max(version, since)
        else:
            regions = None if part["region"] or regions is None else [*regions, label]
            filled = part["region"] != "*"
    outputs = [
        ValueRecord(f"result {i}", code.removeprefix("...:"), "result_type", code.startswith("...:"))
        for i, code in enumerate(results.split())
    ]
    said = {word: rest for word, _, rest in (section.partition(" ") for section in sections)}
    rules = [pair.split("/") for section in sections for pair in section.split() if _is_rule(section)]
    return Record(
        name, bool(known), tuple(operands), tuple(attributes), None if regions is None else tuple(regions),
        filled, tuple(outputs), tuple((rule, label) for rule, label in rules), said.get("text", ""),
        tuple(said["hlo"].split()) if "hlo" in said else None, tuple(said.get("static", "").split()),
        said.get("none", ""), version,
    )  # fmt: skip


def _is_rule(section: str) -> bool:
    return section.partition(" ")[0] not in ("text", "hlo", "static", "none")
