"""Operations on variables, through handles or, as in TensorFlow 1, through references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.builder.xla_builder import XlaOp
from axla.tensorflow.ops.common import of_dims
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.types import dtype_of, fits
from axla.tensorflow.values import VARIABLES, Reference, Resource, Variable

RECORDS = """
VarHandleOp: container=string? shared_name=string? debug_name=string? dtype=type shape=shape
    allowed_devices=list(string)?[] -> resource:resource
_XlaAotOnlyVarHandleOp: container=string? shared_name=string? debug_name=string? dtype=type shape=shape ->
    resource:resource
Variable VariableV2: shape=shape container=string? shared_name=string? -> ref:&dtype
ReadVariableOp: resource:resource -> value:dtype
AssignVariableOp: resource:resource value:dtype validate_shape=bool?false ->
AssignAddVariableOp AssignSubVariableOp: resource:resource value:dtype ->
Assign: ref:&T value:T validate_shape=bool?true use_locking=bool?true -> output_ref:&T
AssignAdd AssignSub: ref:&T value:T use_locking=bool?false -> output_ref:&T
VarIsInitializedOp: resource:resource -> is_initialized:DT_BOOL
IsVariableInitialized: ref:&dtype -> is_initialized:DT_BOOL
"""


@lowering(*VARIABLES)
def _variable(call: OpCall) -> Variable | None:
    return call.scope.importer.variable(call.node)


@lowering("ReadVariableOp")
def read(call: OpCall, variable: Variable) -> XlaOp:
    """The value of a variable, which must have the type given by the node."""
    value, attribute = call.scope.read(variable), "T" if "T" in call.attributes else "dtype"
    if value.dtype is not call.dtype(attribute):
        call.fail(f"variable '{variable.name}' is {value.dtype.name}, the node reads {call[attribute]}")
    return value


@lowering("AssignVariableOp")
def assign(call: OpCall, variable: Variable, value: XlaOp) -> None:
    """Assigns a value to a variable; VerifyError where its type or shape differs."""
    if dtype_of(variable.dtype, f"'{variable.name}'") is not value.dtype:
        call.fail(f"variable '{variable.name}' is {variable.dtype}, its new value {value.dtype.name}")
    if not fits(variable.shape, value.dims):
        call.fail(f"'{variable.name}' has shape {list(variable.shape or ())}, its value {list(value.dims)}")
    call.scope.state[variable] = value


@lowering("Assign")
def _assign_reference(call: OpCall, variable: Reference, value: XlaOp) -> Reference:
    if call["validate_shape"]:
        assign(call, variable, value)
    else:
        call.scope.state[variable] = value
    return variable


@lowering("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp")
def _assign_changed(call: OpCall, variable: Variable, value: XlaOp) -> Sequence[Variable]:
    """Adds to a variable, or subtracts from it; returns its reference, where a reference was given."""
    before = read(call, variable)
    of_dims(call, value, before.dims, f"the change of '{variable.name}'")
    assign(call, variable, before + value if call.node.op.startswith("AssignAdd") else before - value)
    return [variable][: len(call.node.types or ())]


@lowering("VarIsInitializedOp", "IsVariableInitialized")
def _is_initialized(call: OpCall, resource: Resource) -> np.ndarray:
    return np.asarray(call.scope.has(resource))
