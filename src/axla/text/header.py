"""Parses the header of a module, HloModule name, attribute=value, ..., and the tables of stack frames after
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from axla.core.errors import did_you_mean
from axla.core.regex import ascii_regex
from axla.ir.graph import Alias, ModuleConfig
from axla.text.instructions import InstructionCursor
from axla.text.lexer import BLANK, NAME, STRING

_HEADER = ascii_regex(BLANK + r"HloModule\b")
_ATTRIBUTE = ascii_regex(BLANK + "," + BLANK + f"({NAME})" + BLANK + "=")
_TABLE = ascii_regex(BLANK + r"(FileNames|FunctionNames|FileLocations|StackFrames)\b")
_ENTRY = ascii_regex(BLANK + rf"(\d++)[ \t]*+({STRING}|\{{[^{{}}]*+\}})")


def read_header(cursor: InstructionCursor) -> tuple[str, ModuleConfig] | None:
    """Reads the name and the attributes of a module; returns None if the text has no header."""
    if cursor.match(_HEADER) is None:
        return None
    name = cursor.name("the name of the module")
    cursor.accept(":")
    fields: dict[str, Any] = {}
    more: dict[str, str] = {}
    while (found := cursor.match(_ATTRIBUTE)) is not None:
        key, at = found[1], found.start(1)
        known = _FIELDS.get(key)
        if (known[0] if known else key) in (fields if known else more):
            cursor.fail(f"the header has two attributes {key}", at)
        if known is not None:
            fields[known[0]] = known[1](cursor)
        elif key in OTHER_ATTRIBUTES:
            more[key] = OTHER_ATTRIBUTES[key](cursor)
        else:
            hint = did_you_mean(key, [*_FIELDS, *OTHER_ATTRIBUTES])
            cursor.fail(f"a module has no attribute '{key}'{hint}", at)
    more |= _read_tables(cursor)
    cursor.has_stack_frames = "StackFrames" in more
    return name, replace(ModuleConfig(), **fields, more=tuple(more.items()))


def _read_tables(cursor: InstructionCursor) -> dict[str, str]:
    """Reads the tables FileNames, FunctionNames, FileLocations and StackFrames. The text of a table has one
    entry per line, with its number.
    """
    tables: dict[str, str] = {}
    while (found := cursor.match(_TABLE)) is not None:
        lines = []
        while (entry := cursor.match(_ENTRY)) is not None:
            lines.append(f"{entry[1]} {entry[2]}")
        if found[1] in tables:
            cursor.fail(f"the module has two tables {found[1]}", found.start(1))
        tables[found[1]] = "\n".join(lines)
    return tables


def _path(cursor: InstructionCursor) -> tuple[int, ...]:
    if not cursor.peek("{"):
        cursor.fail(f"expected '{{' to begin the index of a leaf, found {cursor.saw()}")
    return cursor.integers()


def _leaf(cursor: InstructionCursor) -> tuple[int, tuple[int, ...]]:
    """Reads `(1, {0}`, a parameter number and the index of a leaf of the parameter, up to the next mark."""
    cursor.expect("(")
    parameter = cursor.integer("the number of a parameter")
    cursor.expect(",")
    return parameter, _path(cursor)


def _read_aliases(cursor: InstructionCursor) -> tuple[Alias, ...]:
    """Reads aliases such as { {0}: (1, {}, may-alias), ... }: a result leaf, a parameter, a leaf of the
    parameter.
    """

    def one() -> Alias:
        output = _path(cursor)
        cursor.expect(":")
        parameter, index = _leaf(cursor)
        must = False
        if cursor.accept(","):
            at = cursor.skip()
            kind = cursor.word("may-alias or must-alias")
            if kind not in ("may-alias", "must-alias"):
                cursor.fail(f"expected may-alias or must-alias, found '{kind}'", at)
            must = kind == "must-alias"
        cursor.expect(")", "to end the description of an alias")
        return Alias(output, parameter, index, must)

    return tuple(cursor.listed("{", one, "}"))


def _read_donors(cursor: InstructionCursor) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Reads donors such as { (0, {}), (1, {2}) }: a parameter number and the index of a leaf of the
    parameter.
    """

    def one() -> tuple[int, tuple[int, ...]]:
        leaf = _leaf(cursor)
        cursor.expect(")")
        return leaf

    return tuple(cursor.listed("{", one, "}"))


def _read_entry_layout(cursor: InstructionCursor) -> Any:
    cursor.expect("{")
    shape = cursor.program_shape()
    cursor.expect("}", "to end entry_computation_layout")
    return shape


def _positive(cursor: InstructionCursor) -> int:
    at = cursor.skip()
    value = cursor.integer()
    if value < 1:
        cursor.fail(f"expected at least 1, found {value}", at)
    return value


def booleans(values: Iterable[object]) -> str:
    """The text of booleans, such as {true,false}."""
    return "{" + ",".join("true" if value else "false" for value in values) + "}"


def _booleans(cursor: InstructionCursor) -> str:
    values = cursor.listed("{", cursor.boolean, "}") if cursor.peek("{") else [cursor.boolean()]
    return booleans(values)


def _boolean(cursor: InstructionCursor) -> str:
    return "true" if cursor.boolean() else "false"


_FIELDS: dict[str, tuple[str, Callable[[InstructionCursor], Any]]] = {
    "is_scheduled": ("is_scheduled", InstructionCursor.boolean),
    "input_output_alias": ("aliases", _read_aliases),
    "buffer_donor": ("buffer_donors", _read_donors),
    "entry_computation_layout": ("entry_layout", _read_entry_layout),
    "replica_count": ("replica_count", _positive),
    "num_partitions": ("num_partitions", _positive),
    "frontend_attributes": ("frontend_attributes", InstructionCursor.named_values),
}

OTHER_ATTRIBUTES: dict[str, Callable[[InstructionCursor], str]] = {
    "alias_passthrough_params": _boolean,
    "allow_spmd_sharding_propagation_to_parameters": _booleans,
    "allow_spmd_sharding_propagation_to_output": _booleans,
    "origin_recovery_table": InstructionCursor.raw,
    "stack_frames": InstructionCursor.raw,
    "profile_version": InstructionCursor.raw,
}
"""The attributes of modules that are kept as text, with the functions that read them."""
