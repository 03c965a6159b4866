"""Optimizer steps on variables. The attribute `use_locking` has no meaning for a program, and is not in the
records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.ops.common import of_dims
from axla.tensorflow.ops.variables import assign, read
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall
from axla.tensorflow.values import GraphValue, Variable

RECORDS = """
ResourceApplyGradientDescent: var:resource alpha:T delta:T ->
ResourceApplyProximalGradientDescent: var:resource alpha:T l1:T l2:T delta:T ->
ResourceApplyMomentum ResourceApplyKerasMomentum: var:resource accum:resource lr:T grad:T momentum:T
    use_nesterov=bool?false ->
ResourceApplyAdagrad: var:resource accum:resource lr:T grad:T update_slots=bool?true ->
ResourceApplyAdagradV2: var:resource accum:resource lr:T epsilon:T grad:T update_slots=bool?true ->
ResourceApplyProximalAdagrad: var:resource accum:resource lr:T l1:T l2:T grad:T ->
ResourceApplyAdagradDA: var:resource gradient_accumulator:resource gradient_squared_accumulator:resource
    grad:T lr:T l1:T l2:T global_step:i64 ->
ResourceApplyAdadelta: var:resource accum:resource accum_update:resource lr:T rho:T epsilon:T grad:T ->
ResourceApplyAdam: var:resource m:resource v:resource beta1_power:T beta2_power:T lr:T beta1:T beta2:T
    epsilon:T grad:T use_nesterov=bool?false ->
ResourceApplyAdaMax: var:resource m:resource v:resource beta1_power:T lr:T beta1:T beta2:T epsilon:T grad:T ->
ResourceApplyAddSign: var:resource m:resource lr:T alpha:T sign_decay:T beta:T grad:T ->
ResourceApplyPowerSign: var:resource m:resource lr:T logbase:T sign_decay:T beta:T grad:T ->
ResourceApplyRMSProp: var:resource ms:resource mom:resource lr:T rho:T momentum:T epsilon:T grad:T ->
ResourceApplyCenteredRMSProp: var:resource mg:resource ms:resource mom:resource lr:T rho:T momentum:T
    epsilon:T grad:T ->
ResourceApplyFtrl: var:resource accum:resource linear:resource grad:T lr:T l1:T l2:T lr_power:T
    multiply_linear_by_lr=bool?false ->
ResourceApplyFtrlV2: var:resource accum:resource linear:resource grad:T lr:T l1:T l2:T l2_shrinkage:T
    lr_power:T multiply_linear_by_lr=bool?false ->
"""


# Steps. Each takes an object with the operands, of variables their contents; it returns the new contents.

OptimizerStep = Callable[[OpCall, Any], Sequence[XlaOp]]
_STEPS: dict[str, OptimizerStep] = {}


def _step(*names: str) -> Callable[[OptimizerStep], OptimizerStep]:
    """Registers a function as the step of `ResourceApply` + name, for each name."""

    def register(function: OptimizerStep) -> OptimizerStep:
        for name in names:
            _STEPS["ResourceApply" + name] = function
            lowering("ResourceApply" + name)(_apply)
        return function

    return register


def _apply(call: OpCall, *operands: GraphValue) -> None:
    assert call.node.record is not None
    found = SimpleNamespace()
    dims = read(call, operands[0]).dims
    for kind, value in zip(call.node.record.operands, operands, strict=True):
        array = read(call, value) if isinstance(value, Variable) else value
        whole = array is not value or kind.name in ("grad", "delta")
        of_dims(call, array, dims if whole else (), f"operand '{kind.name}'")
        setattr(found, kind.name, array)
    variables = [value for value in operands if isinstance(value, Variable)]
    for variable, value in zip(variables, _STEPS[call.node.op](call, found), strict=True):
        assign(call, variable, value)


@_step("GradientDescent")
def _gradient_descent(call: OpCall, o: Any) -> Sequence[XlaOp]:
    return [o.var - o.alpha * o.delta]


@_step("ProximalGradientDescent")
def _proximal_descent(call: OpCall, o: Any) -> Sequence[XlaOp]:
    return [_proximal(o, o.alpha, o.delta)]


@_step("ProximalAdagrad")
def _proximal_adagrad(call: OpCall, o: Any) -> Sequence[XlaOp]:
    accum = o.accum + o.grad * o.grad
    return _proximal(o, o.lr * ops.Rsqrt(accum), o.grad), accum


def _proximal(o: Any, rate: XlaOp, gradient: XlaOp) -> XlaOp:
    """A descent step, then the shrinkage of L1 and L2 regularization; `o` has the operands of the node by
    name.
    """
    return _shrunk(o.var - gradient * rate, o.l1 * rate) / (1 + o.l2 * rate)


def _shrunk(value: XlaOp, by: XlaOp) -> XlaOp:
    """Numbers moved towards zero by `by`; those with a smaller absolute value become zero."""
    return ops.Sign(value) * ops.Max(ops.Abs(value) - by, 0)


@_step("Momentum")
def _momentum(call: OpCall, o: Any) -> Sequence[XlaOp]:
    accum = o.accum * o.momentum + o.grad
    if call["use_nesterov"]:
        return o.var - (o.grad * o.lr + accum * o.momentum * o.lr), accum
    return o.var - accum * o.lr, accum


@_step("KerasMomentum")
def _keras_momentum(call: OpCall, o: Any) -> Sequence[XlaOp]:
    accum = o.accum * o.momentum - o.grad * o.lr
    ahead = accum * o.momentum - o.grad * o.lr if call["use_nesterov"] else accum
    return o.var + ahead, accum


@_step("Adagrad", "AdagradV2")
def _adagrad(call: OpCall, o: Any) -> Sequence[XlaOp]:
    accum = o.accum + o.grad * o.grad if call["update_slots"] else o.accum
    if call.node.op == "ResourceApplyAdagrad":
        return o.var - o.grad * o.lr * ops.Rsqrt(accum), accum
    return o.var - o.grad * o.lr / (ops.Sqrt(accum) + o.epsilon), accum


@_step("AdagradDA")
def _adagrad_da(call: OpCall, o: Any) -> Sequence[XlaOp]:
    step = ops.ConvertElementType(o.global_step, o.var.dtype)
    total = o.gradient_accumulator + o.grad
    squares = o.gradient_squared_accumulator + o.grad * o.grad
    near = ops.Select(ops.Gt(o.l1, 0), _shrunk(total, o.l1 * step), total)
    return -o.lr * near / (o.l2 * step * o.lr + ops.Sqrt(squares)), total, squares


@_step("Adadelta")
def _adadelta(call: OpCall, o: Any) -> Sequence[XlaOp]:
    accum = o.rho * o.accum + (1 - o.rho) * (o.grad * o.grad)
    update = ops.Sqrt(o.accum_update + o.epsilon) * ops.Rsqrt(accum + o.epsilon) * o.grad
    return o.var - update * o.lr, accum, o.rho * o.accum_update + (1 - o.rho) * (update * update)


@_step("Adam")
def _adam(call: OpCall, o: Any) -> Sequence[XlaOp]:
    rate = o.lr * ops.Sqrt(1 - o.beta2_power) / (1 - o.beta1_power)
    m = o.m + (o.grad - o.m) * (1 - o.beta1)
    v = o.v + (o.grad * o.grad - o.v) * (1 - o.beta2)
    ahead = m * o.beta1 + (1 - o.beta1) * o.grad if call["use_nesterov"] else m
    return o.var - ahead * rate / (ops.Sqrt(v) + o.epsilon), m, v


@_step("AdaMax")
def _adamax(call: OpCall, o: Any) -> Sequence[XlaOp]:
    m = o.beta1 * o.m + (1 - o.beta1) * o.grad
    v = ops.Max(o.beta2 * o.v, ops.Abs(o.grad))
    return o.var - o.lr / (1 - o.beta1_power) * (m / (v + o.epsilon)), m, v


@_step("AddSign", "PowerSign")
def _sign(call: OpCall, o: Any) -> Sequence[XlaOp]:
    m = o.m * o.beta + o.grad * (1 - o.beta)
    signs = o.sign_decay * ops.Sign(o.grad) * ops.Sign(m)
    is_sum = call.node.op == "ResourceApplyAddSign"
    factor = o.alpha + signs if is_sum else ops.Exp(o.logbase * signs)
    return o.var - o.lr * factor * o.grad, m


@_step("RMSProp")
def _rms_prop(call: OpCall, o: Any) -> Sequence[XlaOp]:
    ms = o.ms + (o.grad * o.grad - o.ms) * (1 - o.rho)
    mom = o.mom * o.momentum + o.grad * o.lr * ops.Rsqrt(ms + o.epsilon)
    return o.var - mom, ms, mom


@_step("CenteredRMSProp")
def _centered_rms_prop(call: OpCall, o: Any) -> Sequence[XlaOp]:
    ms = o.ms + (o.grad * o.grad - o.ms) * (1 - o.rho)
    mg = o.mg + (o.grad - o.mg) * (1 - o.rho)
    mom = o.mom * o.momentum + o.grad * o.lr * ops.Rsqrt(ms - mg * mg + o.epsilon)
    return o.var - mom, mg, ms, mom


@_step("Ftrl", "FtrlV2")
def _ftrl(call: OpCall, o: Any) -> Sequence[XlaOp]:
    """A step of the "follow the regularized leader" optimizer; `o` has the operands of the node by name."""
    is_first = call.node.op == "ResourceApplyFtrl"
    gradient = o.grad if is_first else o.grad + 2 * o.l2_shrinkage * o.var
    accum = o.accum + o.grad * o.grad
    before, after = ops.Pow(o.accum, -o.lr_power), ops.Pow(accum, -o.lr_power)
    if call["multiply_linear_by_lr"]:
        linear = o.linear + gradient * o.lr - (after - before) * o.var
        quadratic, limit = after + 2 * o.l2 * o.lr, o.l1 * o.lr
    else:
        linear = o.linear + gradient - (after - before) / o.lr * o.var
        quadratic, limit = after / o.lr + 2 * o.l2, o.l1
    near = (ops.Sign(linear) * limit - linear) / quadratic
    return ops.Select(ops.Gt(ops.Abs(linear), limit), near, ops.ZerosLike(o.var)), accum, linear
