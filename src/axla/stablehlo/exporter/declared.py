"""Exports ops of other packages as custom calls, which `importer/declared.py` reads."""

from __future__ import annotations

from typing import Any

from axla.core.errors import UnsupportedError
from axla.ir.graph import Instruction
from axla.ir.op import Op
from axla.stablehlo import mlir
from axla.stablehlo.building import I32, number
from axla.stablehlo.conversions import BY_TYPE
from axla.stablehlo.exporter.scope import ExportScope, Tree
from axla.text.attributes import codec_of


def declared_call(scope: ExportScope, inst: Instruction, op: Op) -> Tree:
    """Exports an op as a custom call of `axla.op.<opcode>` with the typed FFI."""
    if op.computation_fields:
        raise UnsupportedError(f"{op.opcode}, of another package, calls computations: it has no StableHLO")
    config = {
        a.text: BY_TYPE[a.type].make(value, inst) if a.type in BY_TYPE else codec_of(a.type).encode(value)
        for a in op.attributes
        if (value := getattr(op, a.name)) is not None
    }
    return typed_call(scope, inst, mlir.OP + op.opcode, config)


def typed_call(scope: ExportScope, inst: Instruction, target: str, config: dict[str, Any]) -> Tree:
    """Makes a custom call of `target` by the typed FFI, with the dictionary `config` as its configuration."""
    said = {"call_target_name": target, "api_version": number(4, I32), "backend_config": config}
    return scope.add("stablehlo.custom_call", scope.ones(inst), inst.shape, said)
