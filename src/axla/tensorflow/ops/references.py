"""Variables of TensorFlow 1, whose nodes give references."""

from __future__ import annotations

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.ops.control import assign
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import Call
from axla.tensorflow.values import Reference

RECORDS = """
Variable VariableV2: shape=shape container=string? shared_name=string? -> ref:&dtype
Assign: ref:&T value:T validate_shape=bool?true use_locking=bool?true -> output_ref:&T
AssignAdd AssignSub: ref:&T value:T use_locking=bool?false -> output_ref:&T
IsVariableInitialized: ref:&dtype -> is_initialized:DT_BOOL
"""


@lowering("Assign")
def _assign(call: Call, variable: Reference, value: XlaOp) -> Reference:
    if call["validate_shape"]:
        assign(call, variable, value)
    else:
        call.scope.state[variable] = value
    return variable


@lowering("AssignAdd", "AssignSub")
def _assign_changed(call: Call, variable: Reference, value: XlaOp) -> Reference:
    function = ops.Add if call.node.op == "AssignAdd" else ops.Sub
    before = call.scope.read(variable)
    if before.dims != value.dims:
        call.fail(f"'{variable.name}' has shape {list(before.dims)}, it is changed by {list(value.dims)}")
    assign(call, variable, function(before, value))
    return variable


@lowering("IsVariableInitialized")
def _is_initialized(call: Call, variable: Reference) -> np.ndarray:
    return np.asarray(call.scope.has(variable))
