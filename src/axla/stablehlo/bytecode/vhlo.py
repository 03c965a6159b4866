"""VHLO: the codes of its attributes and types, and the conversion of its operations, of each version, to
current StableHLO.

VHLO writes out every attribute. The conversion drops attributes with default values, combines dimension
numbers to one structured attribute, and turns tensors of integers into arrays where StableHLO has arrays. A
later version of an operation only adds attributes (absent means default) or operands (one operand became any
number); as the only exception, `dynamic_conv` lost an operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from axla.importers.records import AttributeRecord, Record
from axla.stablehlo import mlir
from axla.stablehlo.attributes import LATER_FIELDS, LONGEST_LIST, STRUCTURES, is_default
from axla.stablehlo.bytecode import builtin, values
from axla.stablehlo.bytecode.builtin import constant, text, wrong
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.bytecode.wire import BadBytes
from axla.stablehlo.operations import OPERATIONS

_I32, _I64, _BOOL = mlir.IntegerType(32), mlir.IntegerType(64), mlir.IntegerType(1)


def _boolean(value: int) -> bool:
    if value > 1:
        raise BadBytes(f"a boolean with the value {value}, wanted 0 or 1")
    return value == 1


def _api_version(value: int) -> mlir.IntegerAttr:
    if value > 4:
        raise BadBytes(f"API version {value} of a custom call, wanted at most 4")
    return mlir.IntegerAttr(value, _I32)


def _mesh_axes(mesh: Any, axes: Any) -> mlir.StructAttr:
    mesh = mlir.SymbolRef(mesh) if isinstance(mesh, str) else mesh
    return mlir.StructAttr("replica_group_mesh_axes", {"mesh": mesh, "axes": axes})


_FIELDS = {"i": "s", "l": "S", "f": "f", "s": "a", "a": "a", "a/": "o", "m": "a", "x/": "O"}
ATTRIBUTES: dict[int, Encoding] = values.encodings(
    """
- - - comparison_direction comparison_type - - fft_type - - output_operand_alias precision rng_algorithm
rng_distribution - - transpose - - result_accuracy_mode result_accuracy sub_axis_info axis_ref - mesh_axis
mesh
""",
    _FIELDS,
) | {2: ("v", _boolean), 5: ("v", _api_version), 18: ("S", values.bounds), 23: ("aa", _mesh_axes)}
# Attributes that are encoded as in the builtin dialect, under other codes.
ATTRIBUTES |= {
    code: builtin.ATTRIBUTES[other] for code, other in {1: 0, 6: 1, 8: 9, 9: 8, 14: 2, 15: 18, 17: 6}.items()
}


def _quantized(
    flags: int, storage: mlir.Type, expressed: mlir.Type, axes: tuple[int, ...], least: int, greatest: int,
    scales: tuple[float, ...], zero_points: tuple[int, ...],
) -> mlir.QuantizedType:  # fmt: skip
    if not isinstance(storage, mlir.IntegerType) or not isinstance(expressed, mlir.FloatType):
        raise BadBytes(f"a quantized type of {storage} and {expressed}, wanted an integer and a float")
    if len(scales) != len(zero_points):
        raise BadBytes(f"a quantized type with {len(scales)} scales, but {len(zero_points)} zero points")
    storage = mlir.IntegerType(storage.width, "" if flags & 1 else "u")
    return mlir.QuantizedType(storage, expressed, scales, zero_points, axes, least, greatest)


_INTEGERS = {
    0: 1, 31: 2, 10: 4, 11: 8, 12: 16, 13: 32, 14: 64, 32: -2, 15: -4, 16: -8, 17: -16, 18: -32, 19: -64
}  # fmt: skip
TYPES: dict[int, Encoding] = {
    code: constant(mlir.IntegerType(abs(width), "" if width > 0 else "u"))
    for code, width in _INTEGERS.items()
}
TYPES |= builtin.floats("""
- - bf16 f16 f32 f64 f8E4M3FN f8E5M2 - - - - - - - - - - - - - - - - - - - f8E4M3FNUZ f8E5M2FNUZ f8E4M3B11FNUZ
- - - - tf32 f8E4M3 f8E3M4 f4E2M1FN f6E2M3FN f6E3M2FN f8E8M0FNU
""")
TYPES |= {
    code: builtin.TYPES[other]
    for code, other in {1: 9, 8: 2, 9: 1, 20: 13, 21: 14, 23: 15, 25: 18, 33: 12}.items()
}
TYPES |= {
    22: constant(mlir.TokenType()),
    24: ("vttfsss", lambda f, st, ex, one, zero, a, b: _quantized(f, st, ex, (), a, b, (one,), (zero,))),
    26: constant(mlir.OpaqueType("shape.witness")),
    30: ("vttvssFS", lambda f, st, ex, axis, *rest: _quantized(f, st, ex, (axis,), *rest)),
    41: ("St", lambda sizes, element: mlir.MemRefType(values.shape(sizes), element)),
    42: ("T", mlir.FutureType),
}

_STABLEHLO = {record.short: record for name, record in OPERATIONS.items() if name.startswith("stablehlo.")}
# Structured attributes, whose fields are separate attributes in VHLO: names and mnemonics.
_STRUCTURED = {
    name: {a.name: a.kind[1:] for a in record.attributes if a.kind[0] == "#" and a.kind != "#channel_handle"}
    for name, record in _STABLEHLO.items()
}
_ONLY_FIRST = {"dynamic_conv": ["padding"]}  # attributes of the first version only


def _of_version(record: Record, version: int) -> tuple[str, ...]:
    """The attributes of a version in property order. Structured attributes are replaced by their fields."""
    found = _ONLY_FIRST.get(record.short, []) if version == 1 else []
    for attribute in record.attributes:
        fields = [attribute.name]
        if attribute.kind == "#channel_handle":
            fields = ["channel_id", "channel_type"] if record.short in ("send", "recv") else ["channel_id"]
        elif attribute.kind[0] == "#":
            later = LATER_FIELDS[attribute.kind[1:]] if version == 1 else ()
            fields = [name for name in STRUCTURES[attribute.kind[1:]] if name not in later]
        found = found + fields * (attribute.since <= version)
    return tuple(sorted(found))


def versions(record: Record) -> int:
    """The number of the newest version of an operation: 2 if later versions of StableHLO added fields to one
    of its structured attributes, else that of its record.
    """
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
"""The attributes of each operation and version, such as `vhlo.gather_v1`."""
FORMS = {
    name: [tuple(AttributeRecord(attribute, "any", "") for attribute in attributes)]
    for name, attributes in INHERENT.items()
}
_FUNCTIONS = {"vhlo.func_v1": "func.func", "vhlo.call_v1": "func.call"}
TARGETS = {name: _FUNCTIONS.get(name, f"stablehlo.{name[5:-3]}") for name in INHERENT}
"""The current name of each operation."""

# ---- Attributes that StableHLO has in another form


def _numbers(attribute: Any) -> tuple[Any, ...]:
    """The elements of a small tensor of integers."""
    if not isinstance(attribute, mlir.DenseElements):
        raise wrong(attribute, "a tensor of integers")
    count = math.prod(attribute.type.sizes or ())
    if count > LONGEST_LIST:
        raise BadBytes(f"a list of {count} dimensions, wanted at most {LONGEST_LIST}")
    elements = attribute.values
    return (elements.item(),) * count if elements.ndim == 0 else tuple(elements.reshape(-1).tolist())


def _number(attribute: Any) -> int:
    if not isinstance(attribute, mlir.IntegerAttr):
        raise wrong(attribute, "an integer")
    return attribute.value


def _symbol(attribute: Any) -> mlir.SymbolRef:
    return mlir.SymbolRef(text(attribute))


def _symbols(attribute: Any) -> tuple[mlir.SymbolRef, ...]:
    if not isinstance(attribute, tuple):
        raise wrong(attribute, "an array of names")
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
    """Removes the attributes that are fields of the structure `mnemonic` from `attributes`, and returns the
    structure. A missing field is an empty list: older versions do not have it. Returns None for an
    unspecified dot algorithm.
    """
    fields = {name: _field(kind, attributes.pop(name, ())) for name, kind in STRUCTURES[mnemonic].items()}
    said = any(not isinstance(field, mlir.NoneType) and field != () for field in fields.values())
    return mlir.StructAttr(mnemonic, fields) if said or mnemonic != "dot_algorithm" else None


def _field(kind: str, attribute: Any) -> Any:
    if kind[0] == "l":
        return attribute and _numbers(attribute)
    return attribute.value if isinstance(attribute, mlir.IntegerAttr) else attribute


def today(operation: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Converts the attributes of, say, `vhlo.gather_v1` to those of `stablehlo.gather`; discardable
    attributes are kept.
    """
    inherent = INHERENT[operation]
    missing = [name for name in inherent if name not in attributes]
    if missing:
        raise BadBytes(f"{operation} without the attribute {missing[0]}")
    name, record = operation[5:-3], OPERATIONS[TARGETS[operation]]
    defaults = {a.name: a.default for a in record.attributes if a.default}
    gone = [n for n, default in defaults.items() if n in attributes and is_default(default, attributes[n])]
    # Older versions have attributes with the names of operands.
    gone += [value.name for value in record.operands]
    own = {n: attributes[n] for n in inherent if n not in gone}
    others = {n: value for n, value in attributes.items() if n not in inherent}
    if name == "custom_call" and own["operand_layouts"] == () == own["result_layouts"]:
        del own["operand_layouts"], own["result_layouts"]
    for target, mnemonic in _STRUCTURED.get(name, {}).items():
        if structure := _structure(mnemonic, own):
            own[target] = structure
    if "channel_id" in own:
        handle, kind = _number(own.pop("channel_id")), own.pop("channel_type", None)
        if handle or "channel_handle" not in defaults:
            fields = {"handle": handle, "type": 0 if kind is None else _number(kind)}
            own["channel_handle"] = mlir.StructAttr("channel_handle", fields)
    return {n: CONVERTED[n](value) if n in CONVERTED else value for n, value in own.items()} | others
