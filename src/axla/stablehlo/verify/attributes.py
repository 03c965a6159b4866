"""Kinds of attributes: what their values are, and the rules within a value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.attributes import ENUMERATIONS, STRUCTURES
from axla.stablehlo.verify.kinds import Broken, product

_TOO_LONG = 1 << 63


def _integer(width: int, least: int) -> Callable[[Any], bool]:
    kind = mlir.IntegerType(width)
    return lambda v: isinstance(v, mlir.IntegerAttr) and v.type == kind and v.value >= least


def _float(name: str) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, mlir.FloatAttr) and v.type.name == name


def _list_of(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, tuple) and all(test(item) for item in v)


def _structure(mnemonic: str) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, mlir.StructAttr) and v.mnemonic == mnemonic


def _enumeration(mnemonic: str) -> Callable[[Any], bool]:
    # CHLO has enumerations of its own with the same names.
    return lambda v: isinstance(v, mlir.EnumAttr) and v.mnemonic == mnemonic


def _array(element: mlir.Type) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, mlir.DenseArray) and v.element == element


def _table(v: Any) -> bool:
    return isinstance(v, mlir.DenseElements) and v.type.element == mlir.IntegerType(64)


def _is_elements(v: Any) -> bool:
    return isinstance(v, mlir.DenseElements | mlir.DenseResource | mlir.DenseStrings)


def _layout(v: Any) -> bool:
    return (
        isinstance(v, mlir.DenseElements)
        and isinstance(v.type.element, mlir.IndexType)
        and len(v.type.shape or ()) == 1
    )


def _symbol(v: Any) -> bool:
    return isinstance(v, mlir.SymbolRef) and not v.nested


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "bool": (lambda v: isinstance(v, bool), "true or false"),
    "unit": (lambda v: isinstance(v, mlir.Unit | bool), "unit"),
    "string": (lambda v: isinstance(v, str), "a string"),
    "dictionary": (lambda v: isinstance(v, dict), "a dictionary"),
    "array": (lambda v: isinstance(v, tuple), "a list"),
    "any": (lambda v: True, "anything"),
    "segments": (lambda v: True, "sizes of segments"),
    "ints": (_array(mlir.IntegerType(64)), "an array<i64>"),
    "bools": (_array(mlir.IntegerType(1)), "an array<i1>"),
    "table": (_table, "dense 64-bit integers"),
    "groups": (lambda v: _table(v) or _structure("replica_group_mesh_axes")(v), "groups of replicas"),
    "elements": (_is_elements, "dense elements"),
    "precisions": (_list_of(_enumeration("precision")), "a list of precisions"),
    "config": (lambda v: isinstance(v, str | dict), "a string or dictionary"),
    "symbol": (_symbol, "a symbol"),
    "symbols": (_list_of(_symbol), "a list of symbols"),
    "layouts": (_list_of(_layout), "a list of layouts (dense index of rank 1)"),
    "aliases": (_list_of(_structure("output_operand_alias")), "a list of #stablehlo.output_operand_alias"),
    "f32": (_float("f32"), "an f32"),
    "f64": (_float("f64"), "an f64"),
    "result_accuracy": (_structure("result_accuracy"), "a #stablehlo.result_accuracy"),
}


@cache
def kind_of_attribute(code: str) -> tuple[Callable[[Any], bool], str]:
    """The test of a kind and what it wants, in words."""
    integer = re.fullmatch(r"i(32|64)(>=?0)?", code)
    if integer:
        least = {None: -_TOO_LONG, ">=0": 0, ">0": 1}[integer[2]]
        limit = {None: "", ">=0": " not below zero", ">0": " above zero"}[integer[2]]
        return _integer(int(integer[1]), least), f"a {integer[1]}-bit integer{limit}"
    if code.startswith("#"):
        return _structure(code[1:]), f"a #stablehlo.{code[1:]} ({', '.join(STRUCTURES[code[1:]])})"
    if code in ENUMERATIONS and code not in _KINDS:
        return _enumeration(code), f"one of {ENUMERATIONS[code]}"
    return _KINDS[code]


# ---- Rules within a value, wherever it stands


def _accuracy(value: mlir.StructAttr) -> None:
    fields = value.fields
    numbers = [float(getattr(fields[n], "value", fields[n])) for n in ("atol", "rtol", "ulps")]
    if any(number < 0 or math.isnan(number) for number in numbers):
        raise Broken("result_accuracy", f"tolerances are not negative, found {numbers}")
    mode = getattr(fields["mode"], "value", "DEFAULT")
    if mode != "TOLERANCE" and any(numbers):
        raise Broken("result_accuracy", f"tolerances are zero in the mode {mode}, found {numbers}")


# Types of both sides and of accumulation, and numbers of primitive operations.
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
        if count < 1:
            raise Broken(
                f"dot_general_{label}", f"the {name} count of an algorithm is positive, found {count}"
            )
    parts = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
    lhs, rhs, total = [getattr(fields[part], "name", "") for part in parts]
    imprecise = fields["allow_imprecise_accumulation"]
    if lhs in _EIGHT_BITS and rhs in _EIGHT_BITS:
        known = total == "f32" and counts[2] == 1
    else:
        known = lhs == rhs and counts[2] in _ALGORITHMS.get((lhs, total), ()) and not imprecise
    if not known or counts[:2] != [1, 1]:
        unknown = [i for i, name in enumerate((lhs, rhs, total)) if not name]
        raise Broken(
            f"dot_general_i{8 + (unknown[0] if unknown else 0)}",
            f"no hardware is known for the algorithm lhs {lhs}, rhs {rhs}, accumulation {total}, "
            f"components {counts[0]} and {counts[1]}, {counts[2]} operations, imprecise {imprecise}",
        )


def _mesh_axes(value: mlir.StructAttr) -> None:
    mesh, axes = value.fields["mesh"], value.fields["axes"]
    if isinstance(mesh, mlir.StructAttr) and mesh.mnemonic == "mesh":
        names = {axis.fields["name"] for axis in mesh.fields["axes"]}
        for axis in axes if isinstance(axes, tuple) else ():
            if not isinstance(axis, mlir.StructAttr) or axis.mnemonic != "axis_ref":
                raise Broken("replica_groups", "axes are given as #stablehlo.axis_ref")
            if axis.fields["name"] not in names:
                raise Broken("replica_groups", f"axis {axis.fields['name']!r} is not in the mesh")
    elif not _symbol(mesh):
        raise Broken("replica_groups", "a mesh is a symbol or a #stablehlo.mesh")


WITHIN: dict[str, Callable[[mlir.StructAttr], None]] = {
    "result_accuracy": _accuracy,
    "dot_algorithm": _algorithm,
    "replica_group_mesh_axes": _mesh_axes,
}


def sizes_of(value: mlir.DenseElements) -> tuple[int, ...]:
    """The shape of a dense attribute, which is always known."""
    return tuple([size or 0 for size in value.type.shape or ()])


def table(value: mlir.DenseElements) -> np.ndarray:
    """The values of a dense attribute in its shape."""
    return np.broadcast_to(value.values, sizes_of(value))


def constant(value: mlir.Value) -> tuple[int, ...] | None:
    """The integers of a constant operand, if it is a small one."""
    owner = value.owner
    if not isinstance(owner, mlir.Operation) or not owner.name.endswith(".constant"):
        return None
    held = owner.attributes.get("value")
    if not isinstance(held, mlir.DenseElements):
        return None
    if not isinstance(held.type.element, mlir.IntegerType | mlir.IndexType):
        return None
    count = product(held.type.shape)
    return tuple(map(int, table(held).flat)) if count is not None and count <= 4096 else None
