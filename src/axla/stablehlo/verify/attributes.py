"""Kinds of attributes: a test for each of the values that it allows, and rules for parts of a value."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.attributes import ENUMERATIONS, STRUCTURES
from axla.stablehlo.verify.kinds import product, require

Test = Callable[[Any], bool]


def _is(cls: Any, **fields: Any) -> Test:
    """A test whether a value is an instance of a class, or of one of several, with these fields."""
    return lambda v: isinstance(v, cls) and (not fields or all([getattr(v, n) == fields[n] for n in fields]))


def _list_of(test: Test) -> Test:
    return lambda v: isinstance(v, tuple) and all(test(item) for item in v)


def _table(v: Any) -> bool:
    return isinstance(v, mlir.DenseElements) and v.type.element == mlir.IntegerType(64)


def _layout(v: Any) -> bool:
    dense = isinstance(v, mlir.DenseElements) and isinstance(v.type.element, mlir.IndexType)
    return dense and len(v.type.shape or ()) == 1


_is_symbol = _is(mlir.SymbolRef, nested=())
_is_mesh_axes = _is(mlir.StructAttr, mnemonic="replica_group_mesh_axes")
_is_alias = _is(mlir.StructAttr, mnemonic="output_operand_alias")
_KINDS: dict[str, tuple[Test, str]] = {
    "bool": (_is(bool), "true or false"),
    "unit": (_is(mlir.Unit | bool), "unit"),
    "string": (_is(str), "a string"),
    "dictionary": (_is(dict), "a dictionary"),
    "array": (_is(tuple), "a list"),
    "any": (_is(object), "anything"),
    "segments": (_is(object), "sizes of segments"),
    "ints": (_is(mlir.DenseArray, element=mlir.IntegerType(64)), "an array<i64>"),
    "bools": (_is(mlir.DenseArray, element=mlir.IntegerType(1)), "an array<i1>"),
    "table": (_table, "dense 64-bit integers"),
    "groups": (lambda v: _table(v) or _is_mesh_axes(v), "groups of replicas"),
    "elements": (_is(mlir.DenseElements | mlir.DenseResource | mlir.DenseStrings), "dense elements"),
    "precisions": (_list_of(_is(mlir.EnumAttr, mnemonic="precision")), "a list of precisions"),
    "config": (_is(str | dict), "a string or dictionary"),
    "symbol": (_is_symbol, "a symbol"),
    "symbols": (_list_of(_is_symbol), "a list of symbols"),
    "layouts": (_list_of(_layout), "a list of layouts (dense index of rank 1)"),
    "aliases": (_list_of(_is_alias), "a list of #stablehlo.output_operand_alias"),
    "f32": (_is(mlir.FloatAttr, type=mlir.FloatType("f32")), "an f32"),
    "f64": (_is(mlir.FloatAttr, type=mlir.FloatType("f64")), "an f64"),
    "result_accuracy": (_is(mlir.StructAttr, mnemonic="result_accuracy"), "a #stablehlo.result_accuracy"),
}
_LEAST = {"": (-1 << 63, ""), ">=0": (0, " not below zero"), ">0": (1, " above zero")}


@cache
def kind_of_attribute(code: str) -> tuple[Test, str]:
    """The test for a kind of attribute, and a description of the kind for messages."""
    integer = re.fullmatch(r"i(32|64)((>=?0)?)", code)
    if integer:
        right = _is(mlir.IntegerAttr, type=mlir.IntegerType(int(integer[1])))
        least, limit = _LEAST[integer[2]]
        return lambda v: right(v) and v.value >= least, f"a {integer[1]}-bit integer{limit}"
    if code.startswith("#"):
        fields = ", ".join(STRUCTURES[code[1:]])
        return _is(mlir.StructAttr, mnemonic=code[1:]), f"a #stablehlo.{code[1:]} ({fields})"
    if code in ENUMERATIONS and code not in _KINDS:
        # CHLO has its own enumerations with these names, so the dialect is not tested.
        return _is(mlir.EnumAttr, mnemonic=code), f"one of {ENUMERATIONS[code]}"
    return _KINDS[code]


# ---- Rules for structured attributes, also inside other attributes


def _accuracy(value: mlir.StructAttr) -> None:
    fields = value.fields
    numbers = [float(getattr(fields[n], "value", fields[n])) for n in ("atol", "rtol", "ulps")]
    fit = all(number >= 0 for number in numbers)
    require(fit, "result_accuracy", f"tolerances must not be negative, found {numbers}")
    mode = getattr(fields["mode"], "value", "DEFAULT")
    fit = mode == "TOLERANCE" or not any(numbers)
    require(fit, "result_accuracy", f"tolerances must be zero in the mode {mode}, found {numbers}")


# The type of both operands and the type of accumulation -> the allowed numbers of primitive operations.
_ALGORITHMS = {
    ("f16", "f16"): (1,), ("f16", "f32"): (1,), ("bf16", "bf16"): (1,), ("bf16", "f32"): (1, 3, 6, 9),
    ("tf32", "f32"): (1, 3), ("f32", "f32"): (1,), ("f64", "f64"): (1,),
}  # fmt: skip
_EIGHT_BITS = frozenset(
    {"f8E3M4", "f8E4M3", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E5M2FNUZ"}
)


def _algorithm(value: mlir.StructAttr) -> None:
    fields = value.fields
    counts = [fields[n] for n in ("lhs_component_count", "rhs_component_count", "num_primitive_operations")]
    for label, count, name in zip(("c22", "c23", "c24"), counts, ("lhs", "rhs", "primitive"), strict=True):
        message = f"the {name} count of an algorithm must be positive, found {count}"
        require(count > 0, f"dot_general_{label}", message)
    parts = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
    lhs, rhs, total = [getattr(fields[part], "name", "") for part in parts]
    imprecise = fields["allow_imprecise_accumulation"]
    if lhs in _EIGHT_BITS and rhs in _EIGHT_BITS:
        known = total == "f32" and counts[2] == 1
    else:
        known = lhs == rhs and counts[2] in _ALGORITHMS.get((lhs, total), ()) and not imprecise
    unknown = next((i for i, name in enumerate((lhs, rhs, total)) if not name), 0)
    message = (
        f"no hardware is known for the algorithm lhs {lhs}, rhs {rhs}, accumulation {total}, "
        f"components {counts[0]} and {counts[1]}, {counts[2]} operations, imprecise {imprecise}"
    )
    require(known and counts[:2] == [1, 1], f"dot_general_i{8 + unknown}", message)


def _mesh_axes(value: mlir.StructAttr) -> None:
    mesh, axes, rule = value.fields["mesh"], value.fields["axes"], "replica_groups"
    whole = _is(mlir.StructAttr, mnemonic="mesh")(mesh)
    require(whole or _is_symbol(mesh), rule, "a mesh must be a symbol or a #stablehlo.mesh")
    names = {axis.fields["name"] for axis in mesh.fields["axes"]} if whole else set()
    for axis in axes if whole and isinstance(axes, tuple) else ():
        is_axis = _is(mlir.StructAttr, mnemonic="axis_ref")(axis)
        require(is_axis, rule, "axes must be given as #stablehlo.axis_ref")
        require(axis.fields["name"] in names, rule, f"axis {axis.fields['name']!r} is not in the mesh")


WITHIN: dict[str, Callable[[mlir.StructAttr], None]] = {
    "result_accuracy": _accuracy,
    "dot_algorithm": _algorithm,
    "replica_group_mesh_axes": _mesh_axes,
}


def sizes_of(value: mlir.DenseElements) -> tuple[int, ...]:
    """The shape of a dense attribute; its sizes are always known."""
    return tuple([size or 0 for size in value.type.shape or ()])


def table(value: mlir.DenseElements) -> np.ndarray:
    """The values of a dense attribute as an array of its shape."""
    return np.broadcast_to(value.values, sizes_of(value))


def constant(value: mlir.Value) -> tuple[int, ...] | None:
    """The integers of a constant operand; None if it is not a small constant of integers."""
    owner = value.owner
    if not isinstance(owner, mlir.Operation) or not owner.name.endswith(".constant"):
        return None
    held = owner.attributes.get("value")
    if not isinstance(held, mlir.DenseElements):
        return None
    integral = isinstance(held.type.element, mlir.IntegerType | mlir.IndexType)
    small = (product(held.type.shape) or 0) <= 4096
    return tuple(map(int, table(held).flat)) if integral and small else None
