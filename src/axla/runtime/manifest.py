"""The manifest `P.json` of a compiled library: its writer, and a strict reader.

The dataclasses are the tables of the file, and their fields are in the file's order. The reader checks
everything and raises InvalidArgument.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from dataclasses import MISSING, fields, is_dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from axla.core.dataclass import dataclass
from axla.core.dtypes import BY_NAME, DType
from axla.core.errors import InvalidArgument

FORMAT = "axla.library.1"

_MOST = 1 << 47
_MOST_FILE = 64 << 20

_Symbol = Annotated[str, re.compile("[A-Za-z][A-Za-z0-9_]*")]


class Role(enum.StrEnum):
    """The use of an argument or result of a function."""

    ARGUMENT = "argument"
    CONSTANT_VARIABLE = "readonly variable"  # kept between calls; runs only read it
    VARIABLE = "variable"  # kept between calls; a run reads it and writes its new value in place
    RESULT = "result"


class Weights(enum.StrEnum):
    """The location of the constants segment."""

    OBJECT = "object"  # in name.o
    SEPARATE = "separate"  # in name_weights.o
    FILE = "file"  # in name.weights, which the caller loads and passes


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """An argument or result of a function: name, element type, sizes, bytes and role."""

    name: _Symbol
    label: str
    dtype: DType
    dims: tuple[int, ...]
    bytes: int
    role: Role

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """A function of a compiled library: its symbol, arguments, results and error messages."""

    name: str
    symbol: _Symbol
    workspace_bytes: int
    arguments: tuple[ValueFacts, ...]
    results: tuple[ValueFacts, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The machine that a library was compiled for."""

    alias: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    object_format: str
    pointer_bytes: int
    byte_order: Annotated[str, re.compile("little|big")] = "little"


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """An object file of a library: its name, size and digest."""

    file: Annotated[str, re.compile(r"[A-Za-z0-9_]+\.o")]
    bytes: int
    sha256: Annotated[str, re.compile("[0-9a-f]{64}")]


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A tensor in the constants of a library: its name, offset in bytes, element type and sizes."""

    name: str
    offset: int
    dtype: DType
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConstantsFacts:
    """The constants of a library: their total bytes, checksum, and tensors."""

    bytes: int
    digest: str
    tensors: tuple[TensorFacts, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a manifest: all that a loader needs. `batches` has pairs (number of rows, index of the
    function for it).
    """

    format: str
    name: str
    prefix: _Symbol
    target: TargetFacts
    objects: tuple[ObjectFacts, ...]
    weights: Weights
    constants: ConstantsFacts
    functions: tuple[FunctionFacts, ...]
    batches: tuple[tuple[int, int], ...]
    externals: tuple[str, ...]
    weights_file: Annotated[str, re.compile(r"([A-Za-z0-9_]+\.weights)?")] = ""

    def to_json(self) -> str:
        """The text of the manifest file, with its digest."""
        table = _plain(self)
        return json.dumps({**table, "sha256": seal(table)}, indent=1) + "\n"


def _plain(value: Any) -> Any:
    """Converts a value to JSON types. Fields that have their default value are left out."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not is_dataclass(value):
        return value
    found = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.name: _plain(item) for field, item in found if item != field.default}


def _read(kind: Any, at: str, value: Any) -> Any:
    """Converts a JSON value to a field's type `kind`. `at` names the value in errors."""

    def checked(holds: object, wanted: str) -> None:
        if not holds:
            raise InvalidArgument(f"{at} is {_short(value)}, {wanted}")

    args = get_args(kind)
    if is_dataclass(kind):
        checked(type(value) is dict, "wanted a table")
        hints = get_type_hints(kind, include_extras=True)
        present = [f.name for f in fields(kind) if f.name in value or f.default is MISSING]
        return cast(Any, kind)(
            **{name: _read(hints[name], f"{at}: {name}", value.get(name)) for name in present}
        )
    if get_origin(kind) is tuple:
        checked(type(value) is list, "wanted a list")
        kinds = args[:1] * len(value) if args[-1] is ... else args
        checked(len(kinds) == len(value), f"wanted {len(kinds)} items")
        return tuple(
            _read(k, f"{at}[{n}]", item) for n, (k, item) in enumerate(zip(kinds, value, strict=True))
        )
    if kind is int:
        checked(type(value) is int, "wanted a number")
        checked(0 <= value <= _MOST, f"wanted 0 to {_MOST}")
        return value
    checked(type(value) is str, "wanted a text")
    if kind is str:
        return value
    if get_origin(kind) is Annotated:
        checked(args[1].fullmatch(value), "not a valid value")
        return value
    known = BY_NAME if kind is DType else {member.value: member for member in kind}
    checked(value in known, "not a known value")
    return known[value]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def seal(table: dict[str, Any]) -> str:
    """The digest of a manifest, for its field `sha256`. With it a reader detects damage."""
    rest = {name: value for name, value in table.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Reads and checks a manifest file. InvalidArgument, with file and field, for an invalid one."""
    try:
        if path.stat().st_size > _MOST_FILE:
            raise InvalidArgument(f"{path}: {path.stat().st_size} bytes are too many for a manifest")
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path}: not JSON: {error}") from error

    def check(holds: object, what: str) -> None:
        if not holds:
            raise InvalidArgument(f"{path}: {what}")

    check(isinstance(value, dict), f"found {_short(value)}, wanted a table")
    found, seen = value.get("format"), seal(value)
    check(found == FORMAT, f"format {_short(found)}, wanted {FORMAT!r}")
    check(value.get("sha256") == seen, f"damaged: its SHA-256 is {seen}, not that in the field sha256")
    manifest: Manifest = _read(Manifest, str(path), value)
    functions, constants = manifest.functions, manifest.constants.bytes
    check(constants % 64 == 0, f"constants of {constants} bytes, wanted a multiple of 64")
    check(manifest.objects and functions, "wanted at least one object and one function")
    check(len({f.symbol for f in functions}) == len(functions), "two functions have the same symbol")
    known = all(rows and number < len(functions) for rows, number in manifest.batches)
    check(known, f"batches is {_short(manifest.batches)}, wanted [rows, number of a function]")
    in_file = manifest.weights is Weights.FILE
    check(in_file is bool(manifest.weights_file), f"invalid weights_file {manifest.weights_file!r}")
    for k, function in enumerate(functions):
        for what, values in (("arguments", function.arguments), ("results", function.results)):
            at = f"functions[{k}]: {what}"
            check(len({value.name for value in values}) == len(values), f"{at}: a name is used twice")
            given = {value.role is not Role.RESULT for value in values}
            check(given <= {what == "arguments"}, f"{at}: one has an invalid role")
            for n, v in enumerate(values):
                whole = prod(v.dims) * v.dtype.itemsize == v.bytes and len(v.dims) <= 64
                check(whole, f"{at}[{n}]: {v.bytes} bytes do not fit {v.dtype}{list(v.dims)}")
    return manifest
