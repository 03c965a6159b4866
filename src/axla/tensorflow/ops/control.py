"""Constants, identities, functions, conditionals and loops."""

from __future__ import annotations

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.records import lowering
from axla.tensorflow.regions import conditional, loop
from axla.tensorflow.scope import OpCall
from axla.tensorflow.types import dtype_of
from axla.tensorflow.values import GraphValue

RECORDS = """
Const: value=tensor -> output:dtype
Placeholder: shape=shape? -> output:dtype ; none it is not fed
PlaceholderWithDefault: input:dtype shape=shape -> output:dtype
FakeParam: shape=shape -> output:dtype
_Arg: index=int>=0 -> output:T ; none it is not fed
_Retval: input:T index=int>=0 ->
Identity Snapshot StopGradient _EagerConst GuaranteeConst DebugGradientIdentity: input:T -> output:T
DeepCopy: x:T -> y:T
CheckNumerics CheckNumericsV2: tensor:T -> output:T
XlaSharding: input:T sharding=string? -> output:T
PreventGradient: input:T message=string? -> output:T
RefIdentity: input:&T -> output:&T
IdentityN: input:T T=types>=1 -> output:T
_ListToArray: input:Tin Tin=types>=1 N=int>=1 -> output:N*T
_ArrayToList: input:N*T N=int>=1 out_types=types>=1 -> output:out_types
Switch: data:T pred:DT_BOOL -> output_false:T output_true:T ; none a conditional is made of it
RefSwitch: data:&T pred:DT_BOOL -> output_false:&T output_true:&T ; none a conditional is made of it
Merge: inputs:N*T N=int>=1 -> output:T value_index:i32 ; none a conditional is made of it
RefMerge: inputs:&N*T N=int>=1 -> output:&T value_index:i32 ; none a conditional is made of it
Enter: data:T frame_name=string is_constant=bool?false parallel_iterations=int?10 -> output:T ; none a loop is
    made of it
RefEnter: data:&T frame_name=string is_constant=bool?false parallel_iterations=int?10 -> output:&T ; none a
    loop is made of it
Exit NextIteration: data:T -> output:T ; none a loop is made of it
RefExit RefNextIteration: data:&T -> output:&T ; none a loop is made of it
LoopCond: input:DT_BOOL -> output:DT_BOOL ; none a loop is made of it
NoOp ControlTrigger: ->
DestroyResourceOp: resource:resource ->
TensorArrayCloseV3 StackCloseV2: handle:resource ->
PartitionedCall StatefulPartitionedCall: args:Tin Tin=types Tout=types f=func config=string?
    config_proto=string? executor_type=string? -> output:Tout
ToBool: input:T -> output:DT_BOOL
If StatelessIf: cond:Tcond input:Tin Tin=types Tout=types then_branch=func else_branch=func
    output_shapes=list(shape)?[] -> output:Tout
Case StatelessCase: branch_index:i32 input:Tin Tin=types Tout=types branches=list(func)>=1
    output_shapes=list(shape)?[] -> output:Tout
While StatelessWhile: input:T T=types cond=func body=func output_shapes=list(shape)?[]
    parallel_iterations=int?10 -> output:T
XlaIf: cond:Tcond inputs:Tin then_branch=func else_branch=func Tin=types>=0 Tout=types>=0 -> output:Tout
XlaWhile: input:T T=types>=0 cond=func body=func -> output:T
Assert: condition:DT_BOOL data:T T=types>=1 summarize=int?3 ->
"""


@lowering("Const")
def _const(call: OpCall) -> np.ndarray:
    value = call["value"]
    if value.dtype != object and dtype_of(call["dtype"], "attribute 'dtype'").numpy != value.dtype:
        call.fail(f"its value is of {value.dtype}, attribute 'dtype' says {call['dtype']}")
    return value


@lowering(
    "Identity", "IdentityN", "_EagerConst", "RefIdentity", "Snapshot", "StopGradient", "PreventGradient",
    "PlaceholderWithDefault", "GuaranteeConst", "DebugGradientIdentity", "DeepCopy", "CheckNumerics",
    "CheckNumericsV2", "XlaSharding", "_ListToArray", "_ArrayToList",
)  # fmt: skip
def _identity(call: OpCall, value: GraphValue) -> GraphValue:
    """Returns the value unchanged. As in XLA, CheckNumerics checks nothing, and a sharding changes nothing on
    one device.
    """
    return value


@lowering("FakeParam")
def _fake(call: OpCall) -> np.ndarray:
    """Zeros, as a value that nothing uses."""
    dims = call["shape"]
    if dims is None or -1 in dims:
        call.fail("attribute 'shape' is not fully known")
    return np.broadcast_to(np.zeros((), call.dtype("dtype").numpy), dims)


@lowering(
    "NoOp", "ControlTrigger", "_Retval", "Assert", "DestroyResourceOp", "TensorArrayCloseV3", "StackCloseV2"
)
def _nothing(call: OpCall, *operands: GraphValue) -> None:
    """Does nothing. As in XLA, assertions are not checked; resources are released when the program ends."""


@lowering("PartitionedCall", "StatefulPartitionedCall")
def _partitioned_call(call: OpCall, values: list[GraphValue]) -> list[GraphValue]:
    return call.scope.call(call.function("f"), values)


@lowering("ToBool")
def _truth(call: OpCall, value: XlaOp) -> XlaOp:
    """The truth value of an array: whether a scalar is not zero, or another array has elements."""
    if value.dims:
        return call.scope.constant(np.asarray(value.shape.size > 0))
    return value if value.dtype.is_pred else ops.Ne(value, 0)


@lowering("If", "StatelessIf", "XlaIf")
def _if(call: OpCall, condition: XlaOp, values: list[GraphValue]) -> list[GraphValue]:
    graphs = [call.function("then_branch"), call.function("else_branch")]
    return conditional(call.scope, _truth(call, condition), graphs, values)


@lowering("Case", "StatelessCase")
def _case(call: OpCall, index: XlaOp, values: list[GraphValue]) -> list[GraphValue]:
    graphs = [call.graph.library.function(called, "it") for called in call["branches"]]
    return conditional(call.scope, index, graphs, values)


@lowering("While", "StatelessWhile", "XlaWhile")
def _while(call: OpCall, values: list[GraphValue]) -> list[GraphValue]:
    return loop(call.scope, call.function("cond"), call.function("body"), values)
