"""Compares the results of axla's readers of MLIR with those of jaxlib, which are taken as correct."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axla.stablehlo import mlir


def jaxlib_generic(text: str, locations: bool = False) -> str:
    """The text as jaxlib prints it in generic form. Skips the test without jaxlib."""
    pytest.importorskip("jaxlib.mlir")
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir

    with jax_mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        return module.operation.get_asm(
            print_generic_op_form=True, large_elements_limit=None, enable_debug_info=locations
        )


def difference(left: mlir.Source, right: mlir.Source, locations: bool = False) -> str:
    """The first difference between two sources; "" if they are equal."""
    found = _of_operations(left.module, right.module, {}, "", locations)
    return found or ("" if left.resources == right.resources else "resources")


def _of_attributes(a: Any, b: Any, path: str) -> str:
    if isinstance(a, mlir.DenseElements) and isinstance(b, mlir.DenseElements):
        # A splat is equal to a list of equal elements.
        same = a.type == b.type and a.values.dtype == b.values.dtype
        shape = a.type.shape
        bits = (
            [np.ascontiguousarray(np.broadcast_to(x.values, shape)).tobytes() for x in (a, b)] if same else []
        )
        return "" if same and bits[0] == bits[1] else f"{path}: {a} and {b}"
    if type(a) is not type(b):
        return f"{path}: {a!r} and {b!r}"
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return f"{path}: {sorted(a)} and {sorted(b)}"
        return next(filter(None, (_of_attributes(a[k], b[k], f"{path}.{k}") for k in a)), "")
    if isinstance(a, tuple):
        if len(a) != len(b):
            return f"{path}: {a} and {b}"
        return next(filter(None, (_of_attributes(x, y, path) for x, y in zip(a, b, strict=True))), "")
    if isinstance(a, mlir.StructAttr):
        same = (a.mnemonic, a.dialect) == (b.mnemonic, b.dialect)
        return _of_attributes(a.fields, b.fields, path) if same else f"{path}: {a} and {b}"
    if isinstance(a, mlir.FloatAttr):
        x, y = np.asarray(a.value), np.asarray(b.value)
        same = a.type == b.type and x.dtype == y.dtype and x.tobytes() == y.tobytes()
        return "" if same else f"{path}: {a} and {b}"
    return "" if a == b else f"{path}: {a} and {b}"


def _of_operations(a: mlir.Operation, b: mlir.Operation, values: dict, path: str, locations: bool) -> str:
    path = f"{path}/{a.name}@{a.position}"
    if a.name != b.name:
        return f"{path}: {b.name}"
    if [values.get(id(v)) for v in a.operands] != [id(v) for v in b.operands]:
        return f"{path}: operands"
    for x, y in ((a.operands, b.operands), (a.results, b.results)):
        if [v.type for v in x] != [v.type for v in y]:
            return f"{path}: {x} and {y}"
    found = _of_attributes(a.attributes, b.attributes, path)
    if found or (locations and a.location != b.location):
        return found or f"{path}: {a.location} and {b.location}"
    values.update((id(x), id(y)) for x, y in zip(a.results, b.results, strict=True))
    if [len(r.blocks) for r in a.regions] != [len(r.blocks) for r in b.regions]:
        return f"{path}: regions"
    for x, y in zip(a.regions, b.regions, strict=True):
        for s, t in zip(x.blocks, y.blocks, strict=True):
            found = found or _of_blocks(s, t, values, path, locations)
    return found


def _of_blocks(a: mlir.Block, b: mlir.Block, values: dict, path: str, locations: bool) -> str:
    if [v.type for v in a.arguments] != [v.type for v in b.arguments]:
        return f"{path}: arguments"
    if len(a.operations) != len(b.operations):
        return f"{path}: {len(a.operations)} and {len(b.operations)} operations"
    if locations and a.locations and a.locations != b.locations:
        return f"{path}: {a.locations} and {b.locations}"
    values.update((id(x), id(y)) for x, y in zip(a.arguments, b.arguments, strict=True))
    for x, y in zip(a.operations, b.operations, strict=True):
        found = _of_operations(x, y, values, path, locations)
        if found:
            return found
    return ""
