"""Steps of optimizers on variables, and what else changes variables or asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.ops.control import assign, read
from axla.tensorflow.records import lowering
from axla.tensorflow.regions import RESOURCES
from axla.tensorflow.scope import Call
from axla.tensorflow.values import Resource, Value, Variable

RECORDS = """
AssignAddVariableOp AssignSubVariableOp: resource:DT_RESOURCE value:dtype dtype=type ->
VarIsInitializedOp: resource:DT_RESOURCE -> is_initialized:DT_BOOL
DestroyResourceOp: resource:DT_RESOURCE ignore_lookup_error=bool?true ->
_XlaAotOnlyVarHandleOp: container=string? shared_name=string? debug_name=string? dtype=type shape=shape
    -> resource:DT_RESOURCE
ResourceApplyGradientDescent: var:DT_RESOURCE alpha:T delta:T T=type use_locking=bool?false ->
ResourceApplyProximalGradientDescent: var:DT_RESOURCE alpha:T l1:T l2:T delta:T T=type
    use_locking=bool?false ->
ResourceApplyMomentum ResourceApplyKerasMomentum: var:DT_RESOURCE accum:DT_RESOURCE lr:T grad:T
    momentum:T T=type use_locking=bool?false use_nesterov=bool?false ->
ResourceApplyAdagrad: var:DT_RESOURCE accum:DT_RESOURCE lr:T grad:T T=type use_locking=bool?false
    update_slots=bool?true ->
ResourceApplyAdagradV2: var:DT_RESOURCE accum:DT_RESOURCE lr:T epsilon:T grad:T T=type
    use_locking=bool?false update_slots=bool?true ->
ResourceApplyProximalAdagrad: var:DT_RESOURCE accum:DT_RESOURCE lr:T l1:T l2:T grad:T T=type
    use_locking=bool?false ->
ResourceApplyAdagradDA: var:DT_RESOURCE gradient_accumulator:DT_RESOURCE
    gradient_squared_accumulator:DT_RESOURCE grad:T lr:T l1:T l2:T global_step:DT_INT64 T=type
    use_locking=bool?false ->
ResourceApplyAdadelta: var:DT_RESOURCE accum:DT_RESOURCE accum_update:DT_RESOURCE lr:T rho:T epsilon:T
    grad:T T=type use_locking=bool?false ->
ResourceApplyAdam: var:DT_RESOURCE m:DT_RESOURCE v:DT_RESOURCE beta1_power:T beta2_power:T lr:T beta1:T
    beta2:T epsilon:T grad:T T=type use_locking=bool?false use_nesterov=bool?false ->
ResourceApplyAdaMax: var:DT_RESOURCE m:DT_RESOURCE v:DT_RESOURCE beta1_power:T lr:T beta1:T beta2:T
    epsilon:T grad:T T=type use_locking=bool?false ->
ResourceApplyAddSign: var:DT_RESOURCE m:DT_RESOURCE lr:T alpha:T sign_decay:T beta:T grad:T T=type
    use_locking=bool?false ->
ResourceApplyPowerSign: var:DT_RESOURCE m:DT_RESOURCE lr:T logbase:T sign_decay:T beta:T grad:T T=type
    use_locking=bool?false ->
ResourceApplyRMSProp: var:DT_RESOURCE ms:DT_RESOURCE mom:DT_RESOURCE lr:T rho:T momentum:T epsilon:T
    grad:T T=type use_locking=bool?false ->
ResourceApplyCenteredRMSProp: var:DT_RESOURCE mg:DT_RESOURCE ms:DT_RESOURCE mom:DT_RESOURCE lr:T rho:T
    momentum:T epsilon:T grad:T T=type use_locking=bool?false ->
ResourceApplyFtrl: var:DT_RESOURCE accum:DT_RESOURCE linear:DT_RESOURCE grad:T lr:T l1:T l2:T lr_power:T
    T=type use_locking=bool?false multiply_linear_by_lr=bool?false ->
ResourceApplyFtrlV2: var:DT_RESOURCE accum:DT_RESOURCE linear:DT_RESOURCE grad:T lr:T l1:T l2:T
    l2_shrinkage:T lr_power:T T=type use_locking=bool?false multiply_linear_by_lr=bool?false ->
"""


@lowering("AssignAddVariableOp")
def _assign_add(call: Call, variable: Variable, value: XlaOp) -> None:
    assign(call, variable, ops.Add(*_alike(call, variable, value)))


@lowering("AssignSubVariableOp")
def _assign_sub(call: Call, variable: Variable, value: XlaOp) -> None:
    assign(call, variable, ops.Sub(*_alike(call, variable, value)))


def _alike(call: Call, variable: Variable, value: XlaOp) -> tuple[XlaOp, XlaOp]:
    before = read(call, variable)
    if before.dims != value.dims:
        call.fail(f"'{variable.name}' has shape {list(before.dims)}, it is changed by {list(value.dims)}")
    return before, value


@lowering("VarIsInitializedOp")
def _is_initialized(call: Call, resource: Resource) -> np.ndarray:
    return np.asarray(call.scope.has(resource))


@lowering("DestroyResourceOp")
def _destroy(call: Call, resource: Resource) -> None:
    """Nothing: a program's resources end with it."""


RESOURCES["_XlaAotOnlyVarHandleOp"] = RESOURCES["VarHandleOp"]


@lowering("_XlaAotOnlyVarHandleOp")
def _handle(call: Call) -> Resource:
    return RESOURCES["VarHandleOp"](call.scope, call.node.name, call.attributes)


# Steps. Each takes the contents of the variables, then the other operands, and gives new contents.

Step = Callable[..., Sequence[XlaOp]]
_STEPS: dict[str, Step] = {}


def _step(name: str) -> Callable[[Step], Step]:
    """Registers the step of `ResourceApply` + name."""

    def register(function: Step) -> Step:
        _STEPS["ResourceApply" + name] = function
        lowering("ResourceApply" + name)(_apply)
        return function

    return register


def _apply(call: Call, *operands: Value) -> None:
    variables = [value for value in operands if isinstance(value, Variable)]
    contents = [read(call, variable, "T") for variable in variables]
    dims, given = contents[0].dims, operands[len(variables) :]
    assert call.node.record is not None
    names = [value.name for value in call.node.record.operands]
    for name, value in zip(names, (*contents, *given), strict=True):
        whole = name in names[: len(variables)] or name in ("grad", "delta")
        if value.dims != (dims if whole else ()):
            wanted = f"{list(dims)}, as the variable has" if whole else "a scalar"
            call.fail(f"operand '{name}' has shape {list(value.dims)}, wanted {wanted}")
    for variable, value in zip(variables, _STEPS[call.node.op](call, *contents, *given), strict=True):
        assign(call, variable, value)


def _one(value: XlaOp) -> XlaOp:
    return ops.One(value.builder, value.dtype)


def _two(value: XlaOp) -> XlaOp:
    return value.builder.constant(value.dtype.numpy.type(2))


@_step("GradientDescent")
def _gradient_descent(call: Call, var: XlaOp, alpha: XlaOp, delta: XlaOp) -> Sequence[XlaOp]:
    return [var - alpha * delta]


@_step("ProximalGradientDescent")
def _proximal_descent(
    call: Call, var: XlaOp, alpha: XlaOp, l1: XlaOp, l2: XlaOp, delta: XlaOp
) -> Sequence[XlaOp]:
    return [_proximal(var, alpha, l1, l2, delta)]


def _proximal(var: XlaOp, rate: XlaOp, l1: XlaOp, l2: XlaOp, gradient: XlaOp) -> XlaOp:
    """A step of descent, then made smaller by `rate * l1`, and by a factor."""
    near = var - gradient * rate
    return _shrunk(near, l1 * rate) / (_one(l2) + l2 * rate)


def _shrunk(value: XlaOp, by: XlaOp) -> XlaOp:
    """Numbers nearer to zero by as much, zero for those that are smaller."""
    sizes = ops.Max(ops.Abs(value) - by, ops.Zero(value.builder, value.dtype))
    return ops.Sign(value) * sizes


@_step("Momentum")
def _momentum(
    call: Call, var: XlaOp, accum: XlaOp, lr: XlaOp, grad: XlaOp, momentum: XlaOp
) -> Sequence[XlaOp]:
    accum = accum * momentum + grad
    if call["use_nesterov"]:
        return var - (grad * lr + accum * momentum * lr), accum
    return var - accum * lr, accum


@_step("KerasMomentum")
def _keras_momentum(
    call: Call, var: XlaOp, accum: XlaOp, lr: XlaOp, grad: XlaOp, momentum: XlaOp
) -> Sequence[XlaOp]:
    accum = accum * momentum - grad * lr
    if call["use_nesterov"]:
        return var + (accum * momentum - grad * lr), accum
    return var + accum, accum


@_step("Adagrad")
def _adagrad(call: Call, var: XlaOp, accum: XlaOp, lr: XlaOp, grad: XlaOp) -> Sequence[XlaOp]:
    accum = accum + grad * grad if call["update_slots"] else accum
    return var - grad * lr * ops.Rsqrt(accum), accum


@_step("AdagradV2")
def _adagrad_v2(
    call: Call, var: XlaOp, accum: XlaOp, lr: XlaOp, epsilon: XlaOp, grad: XlaOp
) -> Sequence[XlaOp]:
    accum = accum + grad * grad if call["update_slots"] else accum
    return var - grad * lr / (ops.Sqrt(accum) + epsilon), accum


@_step("ProximalAdagrad")
def _proximal_adagrad(
    call: Call, var: XlaOp, accum: XlaOp, lr: XlaOp, l1: XlaOp, l2: XlaOp, grad: XlaOp
) -> Sequence[XlaOp]:
    accum = accum + grad * grad
    return _proximal(var, lr * ops.Rsqrt(accum), l1, l2, grad), accum


@_step("AdagradDA")
def _adagrad_da(
    call: Call, var: XlaOp, total: XlaOp, squares: XlaOp, grad: XlaOp, lr: XlaOp, l1: XlaOp, l2: XlaOp,
    step: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    step = ops.ConvertElementType(step, var.dtype)
    total, squares = total + grad, squares + grad * grad
    near = ops.Select(ops.Gt(l1, ops.Zero(l1.builder, l1.dtype)), _shrunk(total, l1 * step), total)
    return ops.Neg(lr) * near / (l2 * step * lr + ops.Sqrt(squares)), total, squares


@_step("Adadelta")
def _adadelta(
    call: Call, var: XlaOp, accum: XlaOp, updates: XlaOp, lr: XlaOp, rho: XlaOp, epsilon: XlaOp, grad: XlaOp
) -> Sequence[XlaOp]:
    rest = _one(rho) - rho
    accum = rho * accum + rest * (grad * grad)
    update = ops.Sqrt(updates + epsilon) * ops.Rsqrt(accum + epsilon) * grad
    return var - update * lr, accum, rho * updates + rest * (update * update)


@_step("Adam")
def _adam(
    call: Call, var: XlaOp, m: XlaOp, v: XlaOp, power1: XlaOp, power2: XlaOp, lr: XlaOp, beta1: XlaOp,
    beta2: XlaOp, epsilon: XlaOp, grad: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    one = _one(lr)
    rate = lr * ops.Sqrt(one - power2) / (one - power1)
    m = m + (grad - m) * (one - beta1)
    v = v + (grad * grad - v) * (one - beta2)
    ahead = m * beta1 + (one - beta1) * grad if call["use_nesterov"] else m
    return var - ahead * rate / (ops.Sqrt(v) + epsilon), m, v


@_step("AdaMax")
def _adamax(
    call: Call, var: XlaOp, m: XlaOp, v: XlaOp, power1: XlaOp, lr: XlaOp, beta1: XlaOp, beta2: XlaOp,
    epsilon: XlaOp, grad: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    one = _one(lr)
    m = beta1 * m + (one - beta1) * grad
    v = ops.Max(beta2 * v, ops.Abs(grad))
    return var - (lr / (one - power1)) * (m / (v + epsilon)), m, v


@_step("AddSign")
def _add_sign(
    call: Call, var: XlaOp, m: XlaOp, lr: XlaOp, alpha: XlaOp, decay: XlaOp, beta: XlaOp, grad: XlaOp
) -> Sequence[XlaOp]:
    m = m * beta + grad * (_one(beta) - beta)
    return var - lr * (alpha + decay * ops.Sign(grad) * ops.Sign(m)) * grad, m


@_step("PowerSign")
def _power_sign(
    call: Call, var: XlaOp, m: XlaOp, lr: XlaOp, logbase: XlaOp, decay: XlaOp, beta: XlaOp, grad: XlaOp
) -> Sequence[XlaOp]:
    m = m * beta + grad * (_one(beta) - beta)
    return var - lr * ops.Exp(logbase * decay * ops.Sign(grad) * ops.Sign(m)) * grad, m


@_step("RMSProp")
def _rms_prop(
    call: Call, var: XlaOp, ms: XlaOp, mom: XlaOp, lr: XlaOp, rho: XlaOp, momentum: XlaOp, epsilon: XlaOp,
    grad: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    ms = ms + (grad * grad - ms) * (_one(rho) - rho)
    mom = mom * momentum + grad * lr * ops.Rsqrt(ms + epsilon)
    return var - mom, ms, mom


@_step("CenteredRMSProp")
def _centered_rms_prop(
    call: Call, var: XlaOp, mg: XlaOp, ms: XlaOp, mom: XlaOp, lr: XlaOp, rho: XlaOp, momentum: XlaOp,
    epsilon: XlaOp, grad: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    rest = _one(rho) - rho
    ms = ms + (grad * grad - ms) * rest
    mg = mg + (grad - mg) * rest
    mom = mom * momentum + grad * lr * ops.Rsqrt(ms - mg * mg + epsilon)
    return var - mom, mg, ms, mom


@_step("Ftrl")
def _ftrl(
    call: Call, var: XlaOp, accum: XlaOp, linear: XlaOp, grad: XlaOp, lr: XlaOp, l1: XlaOp, l2: XlaOp,
    power: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    return _followed(call, var, accum, linear, grad, grad, lr, l1, l2, power)


@_step("FtrlV2")
def _ftrl_v2(
    call: Call, var: XlaOp, accum: XlaOp, linear: XlaOp, grad: XlaOp, lr: XlaOp, l1: XlaOp, l2: XlaOp,
    shrinkage: XlaOp, power: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    shrunk = grad + _two(shrinkage) * shrinkage * var
    return _followed(call, var, accum, linear, grad, shrunk, lr, l1, l2, power)


def _followed(
    call: Call, var: XlaOp, accum: XlaOp, linear: XlaOp, grad: XlaOp, used: XlaOp, lr: XlaOp, l1: XlaOp,
    l2: XlaOp, power: XlaOp,
) -> Sequence[XlaOp]:  # fmt: skip
    """A step of "follow the regularized leader", with `used` as the gradient of the linear part."""
    after = accum + grad * grad
    before, root = ops.Pow(accum, ops.Neg(power)), ops.Pow(after, ops.Neg(power))
    if call["multiply_linear_by_lr"]:
        linear = linear + used * lr - (root - before) * var
        quadratic = root + _two(l2) * l2 * lr
        limit = l1 * lr
    else:
        linear = linear + used - (root - before) / lr * var
        quadratic = root / lr + _two(l2) * l2
        limit = l1
    near = (ops.Sign(linear) * limit - linear) / quadratic
    return ops.Select(ops.Gt(ops.Abs(linear), limit), near, ops.ZerosLike(var)), after, linear
