"""`P.json` of a compiled library, read strictly: what it says is true or an InvalidArgument."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from axla.core.dtypes import BY_NAME, DType
from axla.core.errors import InvalidArgument

FORMAT = "axla.library.1"

_MOST = 1 << 47
_MOST_FILE = 64 << 20
_FILE = re.compile(r"[A-Za-z0-9_]+\.(o|weights)")
_SYMBOL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_ROLES = ("argument", "readonly variable", "variable", "result")
_PLACES = re.compile("object|separate|file")  # of the weights


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """An argument or result."""

    name: str
    label: str
    dtype: DType
    dims: tuple[int, ...]
    bytes: int
    role: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    name: str
    symbol: str
    workspace_bytes: int
    arguments: tuple[ValueFacts, ...]
    results: tuple[ValueFacts, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetFacts:
    triple: str
    cpu: str
    features: tuple[str, ...]
    object_format: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a loader needs. `objects`: (file, bytes, SHA-256)."""

    name: str
    prefix: str
    target: TargetFacts
    objects: tuple[tuple[str, int, str], ...]
    weights_file: str | None
    constants_bytes: int
    constants_digest: str
    functions: tuple[FunctionFacts, ...]
    batches: tuple[tuple[int, int], ...]
    externals: tuple[str, ...]


class _Table:
    """A JSON object whose fields are asked for by type; errors name the field."""

    def __init__(self, path: str, value: Any) -> None:
        self.path = path
        if not isinstance(value, dict):
            raise InvalidArgument(f"{path}: found {_short(value)}, wanted a table")
        self.value = value

    def _get(self, name: str, kind: type, what: str) -> Any:
        found = self.value.get(name)
        if type(found) is not kind:
            raise InvalidArgument(f"{self.path}: {name} is {_short(found)}, wanted {what}")
        return found

    def text(self, name: str, pattern: re.Pattern[str] | None = None) -> str:
        found = self._get(name, str, "a text")
        if pattern is not None and pattern.fullmatch(found) is None:
            raise InvalidArgument(f"{self.path}: {name} is {_short(found)}, which cannot be")
        return found

    def number(self, name: str, most: int = _MOST) -> int:
        found = self._get(name, int, "a number")
        if not 0 <= found <= most:
            raise InvalidArgument(f"{self.path}: {name} is {found}, wanted 0 to {most}")
        return found

    def table(self, name: str) -> _Table:
        return _Table(f"{self.path}: {name}", self._get(name, dict, "a table"))

    def tables(self, name: str) -> list[_Table]:
        rows = self._get(name, list, "a list")
        return [_Table(f"{self.path}: {name}[{k}]", row) for k, row in enumerate(rows)]

    def texts(self, name: str) -> tuple[str, ...]:
        found = self._get(name, list, "a list")
        if not all(isinstance(text, str) for text in found):
            raise InvalidArgument(f"{self.path}: {name} is {_short(found)}, wanted texts")
        return tuple(found)

    def numbers(self, name: str) -> tuple[int, ...]:
        found = self._get(name, list, "a list")
        if not all(type(n) is int and 0 <= n <= _MOST for n in found):
            raise InvalidArgument(f"{self.path}: {name} is {_short(found)}, wanted sizes")
        return tuple(found)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def seal(table: dict[str, Any]) -> str:
    """What the field `sha256` of a description has to be. A size that is damaged looks like any other."""
    rest = {name: value for name, value in table.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a file; InvalidArgument, with file and field, for what is none."""
    try:
        if path.stat().st_size > _MOST_FILE:
            raise InvalidArgument(f"{path}: {path.stat().st_size} bytes, too long for a description")
        value = json.loads(path.read_text(encoding="utf-8"))
        whole = _Table(str(path), value)
        seen = seal(value)
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path}: no JSON: {error}") from error
    if whole.text("format") != FORMAT:
        raise InvalidArgument(f"{path}: format {_short(whole.text('format'))}, wanted {FORMAT!r}")
    if whole.text("sha256") != seen:
        raise InvalidArgument(f"{path}: damaged: its SHA-256 is {seen}, not the one that it names")
    target, constants = whole.table("target"), whole.table("constants")
    objects = tuple(
        (row.text("file", _FILE), row.number("bytes"), row.text("sha256", re.compile(r"[0-9a-f]{64}")))
        for row in whole.tables("objects")
    )
    functions = tuple(_function(row) for row in whole.tables("functions"))
    if constants.number("bytes") % 64:
        raise InvalidArgument(
            f"{path}: constants of {constants.number('bytes')} bytes, wanted a multiple of 64"
        )
    if not objects or not functions:
        raise InvalidArgument(f"{path}: a library has at least one object and one function")
    if len({function.symbol for function in functions}) != len(functions):
        raise InvalidArgument(f"{path}: a function's symbol stands twice")
    batches = whole.value.get("batches")
    if not isinstance(batches, list) or not all(_is_batch(row, len(functions)) for row in batches):
        raise InvalidArgument(f"{path}: batches is {_short(batches)}, wanted [rows, number of a function]")
    return Manifest(
        whole.text("name"), whole.text("prefix", _SYMBOL),
        TargetFacts(
            target.text("triple"), target.text("cpu"), target.texts("features"), target.text("object_format")
        ),
        objects,
        whole.text("weights_file", _FILE) if whole.text("weights", _PLACES) == "file" else None,
        constants.number("bytes"), constants.text("digest"), functions,
        tuple((rows, number) for rows, number in batches), whole.texts("externals"),
    )  # fmt: skip


def _is_batch(row: object, functions: int) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 2
        and all(type(n) is int for n in row)
        and row[0] > 0
        and 0 <= row[1] < functions
    )


def _function(table: _Table) -> FunctionFacts:
    arguments = tuple(_value(row) for row in table.tables("arguments"))
    results = tuple(_value(row) for row in table.tables("results"))
    for what, values in (("arguments", arguments), ("results", results)):
        if len({value.name for value in values}) != len(values):
            raise InvalidArgument(f"{table.path}: {what}: a name stands twice")
        if any((value.role == "result") is (what == "arguments") for value in values):
            raise InvalidArgument(f"{table.path}: {what}: a role that they cannot have")
    return FunctionFacts(
        table.text("name"), table.text("symbol", _SYMBOL), table.number("workspace_bytes"), arguments,
        results, table.texts("messages"),
    )  # fmt: skip


def _value(table: _Table) -> ValueFacts:
    dtype = BY_NAME.get(table.text("dtype"))
    dims, size, role = table.numbers("dims"), table.number("bytes"), table.text("role")
    if dtype is None or role not in _ROLES:
        raise InvalidArgument(f"{table.path}: dtype {_short(table.text('dtype'))}, role {_short(role)}")
    if prod(dims) * dtype.itemsize != size or len(dims) > 64:
        raise InvalidArgument(f"{table.path}: {size} bytes for {dtype}{list(dims)}")
    return ValueFacts(table.text("name", _SYMBOL), table.text("label"), dtype, dims, size, role)
