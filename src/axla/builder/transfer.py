"""Builder functions for transfers to and from the host, and for dynamic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

import axla.hlo as hlo
from axla.builder.calls import GetTupleElement, Tuple, size_op
from axla.builder.coerce import builder_in, operands
from axla.builder.collective import channel
from axla.builder.movement import Constant
from axla.builder.values import dimension as dimension_of
from axla.builder.values import instance, text
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.dtypes import U32
from axla.core.shape import TOKEN, AnyShape, Shape, TupleShape
from axla.ir.graph import Instruction
from axla.ir.op import reject
from axla.ir.structure import Constant as ConstantOp


def _shape(what: str, shape: object) -> AnyShape:
    return instance(AnyShape, shape, f"{what}: shape", "a shape")


def _token(builder: XlaBuilder) -> XlaOp:
    """The token for a transfer that the user gave no token: it depends on all transfers added so far."""
    tokens: list[XlaOp] = []
    calls: list[Instruction] = []
    for before in builder_in("transfer", builder).take_transfers():
        if before.op.computation_fields:
            calls.append(before)
        elif before.shape.is_token:
            tokens.append(XlaOp(builder, before))
        else:
            tokens.append(GetTupleElement(XlaOp(builder, before), -1))
    if len(tokens) == 1 and not calls:
        return tokens[0]
    return builder.add(hlo.AfterAll(), tokens, after=calls)


def InfeedWithToken(token: XlaOp, shape: AnyShape, config: str = "") -> XlaOp:
    """Returns a tuple: the next value of the infeed queue, and a token."""
    (before,) = operands("InfeedWithToken", token)
    result = TupleShape((_shape("InfeedWithToken", shape), TOKEN))
    return before.builder.add(hlo.Infeed(result, text(config, "InfeedWithToken: config")), (before,))


def Infeed(builder: XlaBuilder, shape: AnyShape, config: str = "") -> XlaOp:
    """The next value of the infeed queue, after all transfers added before."""
    return GetTupleElement(InfeedWithToken(_token(builder), shape, config), 0)


def OutfeedWithToken(
    operand: object, token: XlaOp, shape_with_layout: AnyShape, outfeed_config: str = ""
) -> XlaOp:
    """Puts the operand into the outfeed queue, and returns a token that depends on the transfer."""
    values = operands("OutfeedWithToken", operand, token)
    op = hlo.Outfeed(_shape("OutfeedWithToken", shape_with_layout), text(outfeed_config, "Outfeed: config"))
    return values[0].builder.add(op, values)


def Outfeed(operand: object, shape_with_layout: AnyShape, outfeed_config: str = "") -> XlaOp:
    """Puts the operand into the outfeed queue; the result is an empty tuple."""
    (value,) = operands("Outfeed", operand)
    OutfeedWithToken(value, _token(value.builder), shape_with_layout, outfeed_config)
    return Tuple(value.builder, [])


def Send(operand: object, handle: Any) -> XlaOp:
    """Sends the operand on the channel `handle` to another program; the result is an empty tuple."""
    (value,) = operands("Send", operand)
    _send(value, _token(value.builder), value.shape, handle, False)
    return Tuple(value.builder, [])


def SendToHost(operand: object, token: XlaOp, shape_with_layout: AnyShape, handle: Any) -> XlaOp:
    """Sends the operand to the host on the channel `handle`, and returns a token that depends on the
    transfer.
    """
    value, before = operands("SendToHost", operand, token)
    return _send(value, before, _shape("SendToHost", shape_with_layout), handle, True)


def _send(value: XlaOp, token: XlaOp, shape: AnyShape, handle: Any, host: bool) -> XlaOp:
    number = channel(handle)
    begun = value.builder.add(hlo.Send(TupleShape((shape, Shape(U32), TOKEN)), number, host), (value, token))
    return value.builder.add(hlo.SendDone(number, host), (begun,))


def Recv(builder: XlaBuilder, shape: AnyShape, handle: Any) -> XlaOp:
    """Receives the data that another program sends on the channel `handle`."""
    return GetTupleElement(_receive(_token(builder), _shape("Recv", shape), handle, False), 0)


def RecvFromHost(token: XlaOp, shape: AnyShape, handle: Any) -> XlaOp:
    """Receives data that the host sends on the channel `handle`. Returns a tuple: the data, and a token."""
    (before,) = operands("RecvFromHost", token)
    return _receive(before, _shape("RecvFromHost", shape), handle, True)


def _receive(token: XlaOp, shape: AnyShape, handle: Any, host: bool) -> XlaOp:
    number = channel(handle)
    result = TupleShape((shape, Shape(U32), TOKEN))
    begun = token.builder.add(hlo.Recv(result, number, host), (token,))
    return token.builder.add(hlo.RecvDone(number, host), (begun,))


def Trace(tag: str, operand: object) -> None:
    """Logs `tag` and the value of the operand when the program runs: as a message of the logger `axla.trace`,
    or to stderr if logging is not configured. Has no effect on results.
    """
    (value,) = operands("Trace", operand)
    builder = value.builder
    op = hlo.CustomCall(TOKEN, custom_call_target="axla.trace", custom_call_has_side_effect=True)
    with builder.keeping_result():
        builder.add(op, (value,), backend_config=text(tag, "Trace: tag"))


# Sizes of dynamic dimensions.


def _dimension(what: str, value: XlaOp, dimension: int) -> tuple[Shape, int]:
    shape = value.shape
    with value.builder.checking(what, (value,)):
        if not isinstance(shape, Shape):
            reject(f"{what.replace('-', '_')}_array", f"{what}: the operand must be an array")
        return shape, dimension_of(shape, dimension, f"{what}: dimension")


def GetDimensionSize(operand: object, dimension: int) -> XlaOp:
    """The size of a dimension, as s32. If the dimension is static, the result is a constant."""
    (value,) = operands("GetDimensionSize", operand)
    shape, at = _dimension("get-dimension-size", value, dimension)
    if not shape.dynamic[at]:
        return Constant(value.builder, np.int32(shape.dims[at]))
    return value.builder.add(hlo.GetDimensionSize((at,)), (value,))


def SetDimensionSize(operand: object, val: object, dimension: int) -> XlaOp:
    """Sets the size of a dimension to `val` (s32). The dimension becomes dynamic, unless `val` is a constant
    equal to its bound.
    """
    (value,) = operands("SetDimensionSize", operand)
    shape, at = _dimension("set-dimension-size", value, dimension)
    size = size_op("SetDimensionSize", value.builder, val)
    known = size.instruction.op
    whole = isinstance(known, ConstantOp) and known.literal.array.tolist() == shape.dims[at]
    dynamic = [not whole if d == at else flag for d, flag in enumerate(shape.dynamic)]
    op = hlo.SetDimensionSize(Shape(shape.dtype, shape.dims, dynamic), (at,))
    return value.builder.add(op, (value, size))


def RemoveDynamicDimension(operand: object, dimension: int) -> XlaOp:
    """Makes a dynamic dimension static: its size becomes its bound."""
    (value,) = operands("RemoveDynamicDimension", operand)
    shape, at = _dimension("set-dimension-size", value, dimension)
    return SetDimensionSize(value, np.int32(shape.dims[at]), at)
