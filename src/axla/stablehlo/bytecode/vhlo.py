"""VHLO: codes of attributes and types, and how an operation of each version becomes StableHLO's of today.

VHLO has every attribute written out. The way to today's form: attributes with the default value go, dimension
numbers become one structured attribute, tensors of integers become arrays where StableHLO has arrays. A later
version of an operation only adds attributes (their absence is the default) or operands (an operation with one
operand became one with any number), but for `dynamic_conv`, which has lost one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from axla.foreign.records import Attribute, Record
from axla.stablehlo import mlir
from axla.stablehlo.attributes import LATER_FIELDS, LONGEST_LIST, is_default
from axla.stablehlo.bytecode import values
from axla.stablehlo.bytecode.builtin import constant, dictionary, text
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.bytecode.wire import Malformed
from axla.stablehlo.operations import OPERATIONS

_enum, _struct = values.enumeration, values.structure
_I32, _I64, _BOOL = mlir.IntegerType(32), mlir.IntegerType(64), mlir.IntegerType(1)


def _boolean(value: int) -> bool:
    if value > 1:
        raise Malformed(f"a boolean of value {value}")
    return value == 1


def _api_version(value: int) -> mlir.IntegerAttr:
    if value > 4:
        raise Malformed(f"API version {value} of a custom call")
    return mlir.IntegerAttr(value, _I32)


ATTRIBUTES: dict[int, Encoding] = {
    1: ("A", lambda elements: elements),
    2: ("v", _boolean),
    3: ("v", _enum("comparison_direction")),
    4: ("v", _enum("comparison_type")),
    5: ("v", _api_version),
    6: ("P", dictionary),
    7: ("v", _enum("fft_type")),
    8: ("tr", values.floating),
    9: ("tr", values.integer),
    10: ("SsS", _struct("output_operand_alias")),
    11: ("v", _enum("precision")),
    12: ("v", _enum("rng_algorithm")),
    13: ("v", _enum("rng_distribution")),
    14: ("n", lambda string: string),
    15: ("tb", values.dense),
    16: ("v", _enum("transpose")),
    17: ("t", lambda kind: kind),
    18: ("S", values.bounds),
    19: ("v", _enum("result_accuracy_mode")),
    20: ("ffsa", _struct("result_accuracy")),
    21: ("ss", _struct("sub_axis_info")),
    22: ("aO", _struct("axis_ref")),
    23: ("aa", lambda mesh, axes: _struct("replica_group_mesh_axes")(_mesh(mesh), axes)),
    24: ("as", _struct("mesh_axis")),
    25: ("ao", _struct("mesh")),
}


def _mesh(mesh: Any) -> Any:
    return mlir.SymbolRef(mesh) if isinstance(mesh, str) else mesh


def _quantized(
    flags: int, storage: mlir.Type, expressed: mlir.Type, axes: tuple[int, ...], least: int, greatest: int,
    scales: tuple[float, ...], zero_points: tuple[int, ...],
) -> mlir.QuantizedType:  # fmt: skip
    if not isinstance(storage, mlir.IntegerType) or not isinstance(expressed, mlir.FloatType):
        raise Malformed(f"a quantized type of {storage} and {expressed}")
    if len(scales) != len(zero_points):
        raise Malformed(f"a quantized type of {len(scales)} scales and {len(zero_points)} zero points")
    storage = mlir.IntegerType(storage.width, "" if flags & 1 else "u")
    return mlir.QuantizedType(storage, expressed, scales, zero_points, axes, least, greatest)


# By code, "-" where there is another type or none.
_FLOATS = """
- - bf16 f16 f32 f64 f8E4M3FN f8E5M2 - - - - - - - - - - - - - - - - - - - f8E4M3FNUZ f8E5M2FNUZ f8E4M3B11FNUZ
- - - - tf32 f8E4M3 f8E3M4 f4E2M1FN f6E2M3FN f6E3M2FN f8E8M0FNU
"""
_INTEGERS = {
    0: 1, 31: 2, 10: 4, 11: 8, 12: 16, 13: 32, 14: 64, 32: -2, 15: -4, 16: -8, 17: -16, 18: -32, 19: -64
}  # fmt: skip
_SIMPLE = {
    code: constant(mlir.FloatType(name)) for code, name in enumerate(_FLOATS.split()) if name != "-"
} | {
    code: constant(mlir.IntegerType(abs(width), "" if width > 0 else "u"))
    for code, width in _INTEGERS.items()
}

TYPES: dict[int, Encoding] = _SIMPLE | {
    1: ("t", mlir.ComplexType),
    8: ("TT", mlir.FunctionType),
    9: constant(mlir.IndexType()),
    20: ("St", values.tensor),
    21: ("aSt", lambda encoding, sizes, element: values.tensor(sizes, element, encoding)),
    22: constant(mlir.TokenType()),
    23: ("T", mlir.TupleType),
    24: (
        "vttfsss",
        lambda f, st, ex, scale, zero, a, b: _quantized(f, st, ex, (), a, b, (scale,), (zero,)),
    ),
    25: ("t", lambda element: mlir.TensorType(None, element)),
    26: constant(mlir.OpaqueType("shape.witness")),
    30: ("vttvssFS", lambda f, st, ex, axis, *rest: _quantized(f, st, ex, (axis,), *rest)),
    33: constant(mlir.NoneType()),
    41: ("St", lambda sizes, element: mlir.MemRefType(values.shape(sizes), element)),
    42: ("T", mlir.FutureType),
}

_STABLEHLO = {record.short: record for name, record in OPERATIONS.items() if name.startswith("stablehlo.")}
# Structured attributes, whose fields are attributes of their own here: names and mnemonics.
STRUCTURES = {
    name: {a.name: a.kind[1:] for a in record.attributes if a.kind[0] == "#" and a.kind != "#channel_handle"}
    for name, record in _STABLEHLO.items()
}
_ONLY_FIRST = {"dynamic_conv": ["padding"]}  # what is no attribute any more


def _of_version(record: Record, version: int) -> tuple[str, ...]:
    """The attributes in the order of properties, with the fields of structured ones instead of them."""
    found = _ONLY_FIRST.get(record.short, []) if version == 1 else []
    for attribute in record.attributes:
        fields = [attribute.name]
        if attribute.kind == "#channel_handle":
            fields = ["channel_id", "channel_type"] if record.short in ("send", "recv") else ["channel_id"]
        elif attribute.kind[0] == "#":
            later = LATER_FIELDS[attribute.kind[1:]] if version == 1 else ()
            fields = [name for name in values.FIELDS[attribute.kind[1:]] if name not in later]
        found = found + fields * (attribute.since <= version)
    return tuple(sorted(found))


def versions(record: Record) -> int:
    """The newest version of an operation, or of a structure that is an attribute of it."""
    later = any(LATER_FIELDS.get(attribute.kind[1:]) for attribute in record.attributes)
    return 2 if later else record.version


INHERENT: dict[str, tuple[str, ...]] = {
    "vhlo.func_v1": ("arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"),
    "vhlo.call_v1": ("callee",),
} | {
    f"vhlo.{name}_v{version}": _of_version(record, version)
    for name, record in _STABLEHLO.items()
    for version in range(1, versions(record) + 1)
}
"""`vhlo.gather_v1` -> its attributes."""
FORMS = {
    name: [tuple(Attribute(attribute, "any", "") for attribute in attributes)]
    for name, attributes in INHERENT.items()
}
_FUNCTIONS = {"vhlo.func_v1": "func.func", "vhlo.call_v1": "func.call"}
TARGETS = {name: _FUNCTIONS.get(name, f"stablehlo.{name[5:-3]}") for name in INHERENT}
"""The operation's name today."""

# ---- Attributes with another form


def _wrong(attribute: Any, wanted: str) -> Malformed:
    return Malformed(f"an attribute of the kind {type(attribute).__name__} instead of {wanted}")


def _numbers(attribute: Any) -> tuple[Any, ...]:
    """The elements of a small tensor."""
    if not isinstance(attribute, mlir.DenseElements):
        raise _wrong(attribute, "a tensor of integers")
    count = math.prod(attribute.type.shape)  # type: ignore[arg-type]
    if count > LONGEST_LIST:
        raise Malformed(f"a list of {count} dimensions")
    elements = attribute.values
    return (elements.item(),) * count if elements.ndim == 0 else tuple(elements.reshape(-1).tolist())


def _number(attribute: Any) -> int:
    if not isinstance(attribute, mlir.IntegerAttr):
        raise _wrong(attribute, "an integer")
    return attribute.value


def _symbol(attribute: Any) -> mlir.SymbolRef:
    return mlir.SymbolRef(text(attribute))


def _symbols(attribute: Any) -> tuple[mlir.SymbolRef, ...]:
    if not isinstance(attribute, tuple):
        raise _wrong(attribute, "an array of names")
    return tuple(map(_symbol, attribute))


def _array(attribute: Any) -> mlir.DenseArray:
    return mlir.DenseArray(_I64, _numbers(attribute))


def _flags(attribute: Any) -> mlir.DenseArray:
    return mlir.DenseArray(_BOOL, tuple(map(bool, _numbers(attribute))))


_OF_KIND: dict[str, Callable[[Any], Any]] = {
    "ints": _array, "bools": _flags, "unit": lambda attribute: mlir.UNIT, "symbol": _symbol,
    "symbols": _symbols,
}  # fmt: skip
CONVERTED: dict[str, Callable[[Any], Any]] = {"callee": _symbol} | {
    a.name: _OF_KIND[a.kind] for r in _STABLEHLO.values() for a in r.attributes if a.kind in _OF_KIND
}


def _structure(mnemonic: str, attributes: dict[str, Any]) -> mlir.StructAttr | None:
    """The attributes that are its fields, taken out of them; a list that the version did not have is empty.
    None for a dot algorithm of which nothing is said.
    """
    fields = {name: _field(attributes.pop(name, ())) for name in values.FIELDS[mnemonic]}
    said = any(not isinstance(field, mlir.NoneType) and field != () for field in fields.values())
    return mlir.StructAttr(mnemonic, fields) if said or mnemonic != "dot_algorithm" else None


def _field(attribute: Any) -> Any:
    if isinstance(attribute, mlir.IntegerAttr):
        return attribute.value
    return _numbers(attribute) if isinstance(attribute, mlir.DenseElements) else attribute


def today(operation: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of `vhlo.gather_v1` as `stablehlo.gather` has them; discardable ones stay."""
    inherent = INHERENT[operation]
    missing = [name for name in inherent if name not in attributes]
    if missing:
        raise Malformed(f"{operation} without the attribute {missing[0]}")
    name, record = operation[5:-3], OPERATIONS[TARGETS[operation]]
    defaults = {a.name: a.default for a in record.attributes if a.default}
    gone = [n for n, default in defaults.items() if n in attributes and is_default(default, attributes[n])]
    gone += [value.name for value in record.operands]  # an attribute before it was an operand
    own = {n: attributes[n] for n in inherent if n not in gone}
    others = {n: value for n, value in attributes.items() if n not in inherent}
    if name == "custom_call" and own["operand_layouts"] == () == own["result_layouts"]:
        del own["operand_layouts"], own["result_layouts"]
    for target, mnemonic in STRUCTURES.get(name, {}).items():
        if structure := _structure(mnemonic, own):
            own[target] = structure
    if "channel_id" in own:
        handle, kind = _number(own.pop("channel_id")), own.pop("channel_type", None)
        if handle or "channel_handle" not in defaults:
            fields = {"handle": handle, "type": 0 if kind is None else _number(kind)}
            own["channel_handle"] = mlir.StructAttr("channel_handle", fields)
    return {n: CONVERTED[n](value) if n in CONVERTED else value for n, value in own.items()} | others
