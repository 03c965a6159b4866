"""The records of TensorFlow's operations, from the tables of the modules in `ops`, and their lowerings.

    MatMul: a:T b:T transpose_a=bool?false transpose_b=bool?false -> product:T

declares an operation, in the notation of `axla.importers.records`. The type of an operand or result is an
attribute (`T`), a type (`DT_INT32`), a number of values given by an attribute (`N*T`), or one value for each
type of a list (`Tlist`, an attribute of kind list(type)); `&` before it means a reference. A type name that
is not a declared attribute is an attribute of kind `type` without a default. The kinds of attributes are
those of `attributes.py`. `hlo Abs` means that the operation is the function Abs of `axla.ops`, with operands
broadcast as in NumPy; `hlo` alone means the function of the same name. Otherwise a function registered by
`lowering` defines the operation, or `none REASON` says why it is not supported. Frequent types and kinds have
short names: see `_NAMED`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

from axla.core.errors import VerifyError
from axla.importers.records import AttributeRecord, Record, ValueRecord, read_records
from axla.tensorflow.attributes import value_of
from axla.tensorflow.types import Proto

FAMILIES = (
    "neural", "convolutions", "pooling", "normalization", "images", "boxes",
    "control", "math", "special", "reductions", "quantized", "arrays", "linear", "einsum",
    "lists", "tensor_arrays",
    "random", "samples", "variables", "restoring", "training", "xla", "xla_functions", "collectives",
    "indexing", "slices", "space", "diagonals", "segments", "sets",
)  # fmt: skip
"""The modules of `ops` that have tables."""

_NAMED = {
    "i32": "DT_INT32", "i64": "DT_INT64", "f32": "DT_FLOAT", "resource": "DT_RESOURCE",
    "variant": "DT_VARIANT", "i32_i64": "type{DT_INT32,DT_INT64}", "ints": "list(int)",
    "types": "list(type)", "edges": "string{SAME,VALID}", "all_edges": "string{SAME,VALID,EXPLICIT}",
    "images": "string{NHWC,NCHW}", "vectors": "string{NHWC,NCHW,NCHW_VECT_C}",
    "volumes": "string{NDHWC,NCDHW}", "sides": "string{LEFT_RIGHT,RIGHT_LEFT,LEFT_LEFT,RIGHT_RIGHT}",
}  # fmt: skip
"""Types and kinds that have a short name in records."""

_LOWERINGS: dict[str, Callable[..., Any]] = {}


def lowering(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a lowering function for operations: `function(call, *operands)`, with a list for an operand
    of several values. The function returns a result, a sequence of results, or None if the operation has
    none.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in _LOWERINGS, name
            _LOWERINGS[name] = function
        return function

    return register


@cache
def records() -> Mapping[str, Record]:
    """All records by the names of the operations."""
    found: dict[str, Record] = {}
    for family in FAMILIES:
        module = import_module(f"axla.tensorflow.ops.{family}")
        table = re.sub(r"(?<=[:=*&])\w+", _long, module.RECORDS.strip("\n"))
        for name, record in read_records("tf", table, _width).items():
            assert record.short not in found, name
            results = [result.kind.partition(":") for result in record.results]
            named = tuple(ValueRecord(label, kind, "") for label, _, kind in results)
            attributes = (*record.attributes, *_implied(record, (*record.operands, *named)))
            found[record.short] = replace(record, results=named, attributes=attributes)
    return found


def _implied(record: Record, values: Sequence[ValueRecord]) -> list[AttributeRecord]:
    """The attributes of kind `type` that operands and results name and that the table does not declare."""
    names = dict.fromkeys(value.kind.lstrip("&").rpartition("*")[2] for value in values)
    given = {attribute.name for attribute in record.attributes}
    return [AttributeRecord(n, "type", "") for n in names if n not in given and not n.startswith("DT_")]


def _long(word: re.Match[str]) -> str:
    return _NAMED.get(word[0], word[0])


def _width(_: str) -> int:
    return 1


def lowerings() -> Mapping[str, Callable[..., Any]]:
    """The lowering functions by operation name."""
    records()
    return _LOWERINGS


def attributes_of(record: Record, given: Mapping[str, Proto], what: str) -> dict[str, Any]:
    """The values of all attributes of an operation in Python. Raises VerifyError, which begins with `what`,
    for a missing attribute, or one of another kind.
    """
    return {a.name: value_of(a, given.get(a.name), what) for a in record.attributes}


def types_of(
    values: Sequence[ValueRecord], attributes: Mapping[str, Any], what: str
) -> list[tuple[str, str, bool]]:
    """For each input or output of a node with these attributes: the name of its operand or result in
    `values`, its type, and whether it is a reference. Error messages begin with `what`.
    """
    return [
        (value.name, type_, value.kind[0] == "&")
        for value in values
        for type_ in _types(value.kind.lstrip("&"), attributes, what)
    ]


def _types(kind: str, attributes: Mapping[str, Any], what: str) -> list[str]:
    count, star, kind = kind.rpartition("*")
    found = attributes.get(kind, kind)
    types = [found] if isinstance(found, str) else list(found)
    if not star:
        return types
    number = attributes[count]
    if not 0 <= number <= 1 << 20:
        raise VerifyError(f"{what}: attribute {count!r} is {number}, wanted 0 to 1048576")
    return types * number
