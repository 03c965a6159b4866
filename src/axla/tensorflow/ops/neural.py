"""Matrix products, biases, and activation functions, with their gradients."""

from __future__ import annotations

from math import log

import ml_dtypes

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import C128, F32, F64
from axla.core.errors import VerifyError
from axla.tensorflow.ops.common import of_dims, of_rank, summed
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, common_dims, spread

RECORDS = """
MatMul: a:T b:T transpose_a=bool?false transpose_b=bool?false -> product:T
SparseMatMul: a:Ta b:Tb transpose_a=bool?false transpose_b=bool?false Ta=type?DT_FLOAT Tb=type?DT_FLOAT ->
    product:f32
BatchMatMul BatchMatMulV2: x:T y:T adj_x=bool?false adj_y=bool?false -> output:T
BatchMatMulV3: x:Ta y:Tb adj_x=bool?false adj_y=bool?false -> output:Tout
BiasAdd BiasAddV1: value:T bias:T data_format=images?NHWC -> output:T
BiasAddGrad: out_backprop:T data_format=images?NHWC -> output:T
Relu Relu6 Elu Selu Softplus Softsign: features:T -> activations:T
LeakyRelu: features:T alpha=float?0.2 T=type?DT_FLOAT -> activations:T
ReluGrad Relu6Grad EluGrad SeluGrad SoftplusGrad SoftsignGrad: gradients:T features:T -> backprops:T
LeakyReluGrad: gradients:T features:T alpha=float?0.2 T=type?DT_FLOAT -> backprops:T
"""
"""(The attributes `grad_x` and `a_is_sparse` are left out, as they have no meaning here. The operand
`features` of EluGrad and SeluGrad is the result of Elu or Selu.)
"""

_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.7580993408473769
"""The factors for positive numbers and for negative ones."""


# Products of matrices.


def _product(x: XlaOp, y: XlaOp, flipped: tuple[bool, bool], dtype: object = None) -> XlaOp:
    """Products of the matrices in the last two dimensions. `flipped`: whether `x` and `y` are transposed
    first. The leading dimensions are broadcast. `dtype` is the element type of the result, by default that of
    the operands.
    """
    if len(x.dims) < 2 or len(y.dims) < 2:
        raise VerifyError(f"shapes {list(x.dims)} and {list(y.dims)}, wanted matrices")
    if len(y.dims) > 2:
        batch = common_dims(x.dims[:-2], y.dims[:-2])
        x, y = (spread(value, (*batch, *value.dims[-2:])) for value in (x, y))
    left = len(x.dims) - (2 if flipped[0] else 1)
    right = len(y.dims) - (1 if flipped[1] else 2)
    if x.dims[left] != y.dims[right]:
        raise VerifyError(
            f"{list(x.dims)} and {list(y.dims)} do not match: {x.dims[left]} columns, {y.dims[right]} rows"
        )
    same = list(range(len(y.dims) - 2))
    numbers = (([left], [right]), (same, same))
    return ops.DotGeneral(x, y, numbers, preferred_element_type=dtype)


@lowering("MatMul", "SparseMatMul")
def _matmul(call: OpCall, a: XlaOp, b: XlaOp) -> XlaOp:
    for value, name in ((a, "a"), (b, "b")):
        of_rank(call, value, 2, name)
    if call.node.op == "SparseMatMul":
        a, b = (ops.ConvertElementType(value, F32) for value in (a, b))
    return _product(a, b, (call["transpose_a"], call["transpose_b"]))


@lowering("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(call: OpCall, x: XlaOp, y: XlaOp) -> XlaOp:
    if call.node.op == "BatchMatMul" and x.dims[:-2] != y.dims[:-2]:
        call.fail(f"shapes {list(x.dims)} and {list(y.dims)}, wanted equal leading dimensions")
    flipped = (call["adj_x"], call["adj_y"])
    wanted = call.dtype("Tout") if call.node.op == "BatchMatMulV3" else x.dtype
    types = {value.dtype for value in (x, y)}
    wide = wanted
    if any(type_.is_complex for type_ in types) and not wanted.is_complex:
        wide = C128
    elif any(type_.is_float for type_ in types) and wanted.is_integer:
        wide = F64
    if len(types) > 1 or wide is not wanted:
        x, y = (ops.ConvertElementType(value, wide) for value in (x, y))
    x, y = (
        ops.Conj(value) if flip and value.dtype.is_complex else value
        for value, flip in zip((x, y), flipped, strict=True)
    )
    found = _product(x, y, flipped, wide)
    return ops.ConvertElementType(found if wide is not C128 or wanted is C128 else ops.Real(found), wanted)


# Biases.


def _features(call: OpCall, value: XlaOp) -> int:
    """The number of the feature dimension, along which a bias is added."""
    rank, is_first = len(value.dims), call["data_format"].startswith("NC")
    if rank < 2 + is_first:
        call.fail(f"the operand has shape {list(value.dims)}, wanted at least {2 + is_first} dimensions")
    return 1 if is_first else rank - 1


@lowering("BiasAdd", "BiasAddV1")
def bias_add(call: OpCall, value: XlaOp, bias: XlaOp) -> XlaOp:
    """Adds a vector along the feature dimension."""
    dim = _features(call, value)
    of_dims(call, bias, value.dims[dim : dim + 1], "bias")
    return ops.Add(value, bias, [dim])


@lowering("BiasAddGrad")
def _bias_add_grad(call: OpCall, gradient: XlaOp) -> XlaOp:
    dim = _features(call, gradient)
    return summed(gradient, [d for d in range(len(gradient.dims)) if d != dim])


# Activation functions.


def _relu(_: OpCall, x: XlaOp) -> XlaOp:
    return ops.Max(x, ops.ZerosLike(x))


def _relu6(_: OpCall, x: XlaOp) -> XlaOp:
    return ops.Clamp(0, x, 6)


def _elu(_: OpCall, x: XlaOp) -> XlaOp:
    return ops.Select(x > 0, x, ops.Expm1(x))


def _selu(_: OpCall, x: XlaOp) -> XlaOp:
    return ops.Select(x > 0, x * _SELU_SCALE, ops.Expm1(x) * _SELU_ALPHA)


def _leaky_relu(call: OpCall, x: XlaOp) -> XlaOp:
    return ops.Select(x > 0, x, x * call["alpha"])


def _softplus(_: OpCall, x: XlaOp) -> XlaOp:
    """log(1 + exp(x)), computed as x for large numbers and exp(x) for small ones."""
    edge = -log(float(ml_dtypes.finfo(x.dtype.numpy).eps)) - 2
    power = ops.Exp(x)
    return ops.Select(x > edge, x, ops.Select(x < -edge, power, ops.Log1p(power)))


def _softsign(_: OpCall, x: XlaOp) -> XlaOp:
    return x / (ops.Abs(x) + 1)


_ACTIVATIONS = {
    "Relu": _relu, "Relu6": _relu6, "Elu": _elu, "Selu": _selu, "LeakyRelu": _leaky_relu,
    "Softplus": _softplus, "Softsign": _softsign,
}  # fmt: skip


@lowering(*_ACTIVATIONS)
def _activation(call: OpCall, x: XlaOp) -> XlaOp:
    return _ACTIVATIONS[call.node.op](call, x)


def _relu_grad(_: OpCall, gradient: XlaOp, x: XlaOp) -> XlaOp:
    return ops.Select(x > 0, gradient, ops.ZerosLike(gradient))


def _relu6_grad(_: OpCall, gradient: XlaOp, x: XlaOp) -> XlaOp:
    return ops.Select((x > 0) & (x < 6), gradient, ops.ZerosLike(gradient))


def _elu_grad(_: OpCall, gradient: XlaOp, y: XlaOp) -> XlaOp:
    return ops.Select(y > 0, gradient, gradient * (y + 1))


def _selu_grad(_: OpCall, gradient: XlaOp, y: XlaOp) -> XlaOp:
    return ops.Select(y > 0, gradient * _SELU_SCALE, gradient * (y + _SELU_ALPHA))


def _leaky_relu_grad(call: OpCall, gradient: XlaOp, x: XlaOp) -> XlaOp:
    return ops.Select(x > 0, gradient, gradient * call["alpha"])


def _softplus_grad(_: OpCall, gradient: XlaOp, x: XlaOp) -> XlaOp:
    return gradient / (ops.Exp(-x) + 1)


def _softsign_grad(_: OpCall, gradient: XlaOp, x: XlaOp) -> XlaOp:
    return gradient / ops.Square(ops.Abs(x) + 1)


_GRADIENTS = {
    "ReluGrad": _relu_grad, "Relu6Grad": _relu6_grad, "EluGrad": _elu_grad, "SeluGrad": _selu_grad,
    "LeakyReluGrad": _leaky_relu_grad, "SoftplusGrad": _softplus_grad, "SoftsignGrad": _softsign_grad,
}  # fmt: skip


@lowering(*_GRADIENTS)
def _gradient(call: OpCall, gradient: XlaOp, x: XlaOp) -> XlaOp:
    of_dims(call, gradient, x.dims, "gradients")
    return _GRADIENTS[call.node.op](call, gradient, x)
