"""A record per foreign operation: what every reader, checker and importer of its dialect has to know of it.

    names: inputs -> results ; rules ; text FORM ; hlo OP field=attribute...
        ; static OP operand... ; none REASON

An input is an operand `name:kind` (`...` takes any number), an attribute `name=kind` or a region `name{}`
(`{...}` any number, `{*}` any number of any content). After the kind of an attribute: `?` where it may be
missing, then what it is where it is missing; `/c1` names its constraint; `@2` is the version that brought it.
Its place is its label otherwise: the second input of `add` is `i2`. A name with `@2` is in its second version
without another attribute. Without `->` an operation is carried along: nothing is known of its operands.

`rule/c1` is a rule under that label. `text` is the short form, `hlo` the op of HLO that the
operation is (of the same name unless another one is given), with the fields that attributes and regions are;
`*attribute` is a structure whose fields are those of the op; of an attribute that is several fields each is a
column; `region+` combines elements of the operands, in element types that may be wider than theirs. `static`
is the operation that this one is where operands are known: they become attributes of their name, `=operand`
the sizes of the result. `none` says why nothing is imported. What kinds, rules and forms mean is for the
dialect to say; nothing here knows one.
Lines that are indented continue the one before.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from axla.core.dataclass import dataclass
from axla.core.regex import regex


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """An operand or result; a variadic one stands for any number."""

    name: str
    kind: str
    rule: str
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class AttributeRecord:
    """`default` is what a missing one stands for, "" where that is said nowhere."""

    name: str
    kind: str
    rule: str
    optional: bool = False
    default: str = ""
    since: int = 1


@dataclass(frozen=True, slots=True)
class Record:
    """`regions` are their names, None for any number (at least one where `filled`); `known` says whether
    operands and results are declared. `counterpart` are the words after `hlo`, None without; `why_not` is the
    reason after `none`.
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
        """The name without the dialect."""
        return self.name.partition(".")[2]


_INPUT = regex(
    r"(?P<name>\w+?)(?P<variadic>\.\.\.)?"
    r"(?::(?P<operand>[^/]+)|\{(?P<region>[.*]*)\}"
    r"|=(?P<attribute>[^?/@]+)(?P<optional>\?(?P<default>[^/@]*))?)"
    r"(?:/(?P<rule>c\d+))?(?:@(?P<since>\d))?$"
)


def read_records(dialect: str, table: str, width: Callable[[str], int]) -> dict[str, Record]:
    """The records of a table by full name. `width` says as how many inputs an attribute of a kind counts."""
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
