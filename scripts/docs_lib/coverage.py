"""Coverage pages: the result of importing each foreign operation, from the records of an importer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from axla.importers.records import AttributeRecord, Record
from axla.ir.op import OPS, package_of
from axla.stablehlo.bytecode.vhlo import versions
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.exporter import RULES as EXPORTED
from axla.stablehlo.importer import RULES as IMPORTED
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.specialize.folding import FUNCTIONS, INTERPRETED
from axla.stablehlo.specialize.forms import FORMS
from axla.stablehlo.verify.structure import CONSTRAINTS

Columns = Mapping[str, Callable[[Record], str]]


def rows(records: Iterable[Record], columns: Columns) -> list[list[str]]:
    """A row per record. Each importer has columns of its own."""
    return [[f"`{record.name}`", *[cell(record) for cell in columns.values()]] for record in records]


def attributes(record: Record) -> str:
    """The names of the attributes. Optional ones are in brackets, with their default."""
    return ", ".join(map(_attribute, record.attributes))


def _attribute(attribute: AttributeRecord) -> str:
    name = attribute.name + (f"={attribute.default}" if attribute.default else "")
    return f"`[{name}]`" if attribute.optional else f"`{name}`"


# ---- StableHLO


def _values(record: Record) -> str:
    return ", ".join(f"`{value.name}{'...' * value.variadic}`" for value in record.operands)


def _rules(record: Record) -> str:
    functions = record.name in CONSTRAINTS
    relations = any(not rule.isidentifier() for rule, _ in record.rules)
    return "types, rules" if functions or relations else "types"


def _imported(record: Record) -> str:
    counterpart = COUNTERPARTS.get(record.name)
    if record.name not in IMPORTED:
        return f"- ({record.why_not})"
    function = IMPORTED[record.name].__module__.rsplit(".", 1)[1]
    opcode = f" [{counterpart.op.opcode}](ops/{counterpart.op.opcode}.md)" if counterpart else ""
    return (opcode or f" `{function}.py`").strip()


def _sizes(record: Record) -> str:
    name = record.name
    return "computed" if name in INTERPRETED or name in FUNCTIONS else "made static" if name in FORMS else ""


COLUMNS: Columns = {
    "operands": _values,
    "attributes": attributes,
    "VHLO": lambda record: "1 to 2" if versions(record) > 1 else "1",
    "short form": lambda record: "yes" if record.form else "",
    "verified": _rules,
    "known sizes": _sizes,
    "becomes": _imported,
}

PAGE = """\
# StableHLO and CHLO, operation by operation

Made by `python scripts/docs` from the records in `src/axla/stablehlo/operations.py`; do not edit.

Every operation is read and written in generic form and in bytecode. *Attributes* in brackets are
optional, with their default in VHLO; *VHLO* lists the supported versions (for CHLO, forms of its
properties). *Verified*: the kinds of types and attributes, and the rules of the specification. *Known
sizes*: the treatment in a program with `?` that is specialized for given sizes. *Becomes*: the op of
HLO, or the file of the importer with the function that makes several, or the reason why the operation is
not imported.

"""


def page(table: Callable[[Iterable[str], Iterable[list[str]]], str]) -> str:
    parts = [PAGE]
    for dialect, title in (
        ("stablehlo", "StableHLO"),
        ("chlo", "CHLO"),
        ("check", "Checks"),
        ("interpreter", "Interpreter"),
    ):
        records = [r for name, r in OPERATIONS.items() if r.known and name.startswith(f"{dialect}.")]
        parts.append(f"## {title}\n\n" + table(("operation", *COLUMNS), rows(records, COLUMNS)) + "\n")
    missing = sorted(set(_opcodes()) - EXPORTED.keys())
    parts.append(
        "## From HLO\n\nEvery op of HLO is exported but " + ", ".join(f"`{opcode}`" for opcode in missing)
        + "; those that an expansion replaces first are `scaled-dot` and `stochastic-convert`. Ops of other "
        "packages are custom calls `axla.op.` with the opcode, or what they expand to.\n"
    )  # fmt: skip
    return "".join(parts)


def _opcodes() -> list[str]:
    return [opcode for opcode, cls in OPS.items() if opcode != "parameter" and package_of(cls) == "axla"]
