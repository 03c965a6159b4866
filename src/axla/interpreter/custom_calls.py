"""Evaluates custom calls: those of known targets, most of which only mark a position for passes, and those
that users register.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from axla.core.errors import CustomCallFailure, UnsupportedError
from axla.core.shape import AnyShape, Shape
from axla.custom.callables import PythonCall
from axla.custom.lapack import routine_address
from axla.custom.library import run_library_call
from axla.custom.registry import CallTarget, find_target
from axla.custom.routines import plan_of
from axla.custom.site import (
    AXLA,
    FFI,
    LIBRARY,
    ORIGINAL,
    PYTHON,
    STATUS,
    UNIFIED,
    CallSite,
    flatten,
    from_memory_order,
    in_memory_order,
    nest,
)  # fmt: skip
from axla.hlo.control import CustomCall, call_site
from axla.hlo.sorting import largest_first
from axla.interpreter.evaluate import HostValue, Interpreter
from axla.interpreter.parallel import check_parallel, run_parallel
from axla.ir.graph import Instruction
from axla.ir.typed import tuple_of
from axla.program import abi


def _operand(inst: Instruction, operand: HostValue, *rest: HostValue) -> HostValue:
    return operand


def _top_k(inst: Instruction, operand: np.ndarray) -> HostValue:
    """The k largest elements of every row in descending order, and their indices. k is the last dimension of
    the result.
    """
    values = tuple_of(inst).elements[0]
    order = largest_first(operand)[..., : values.dims[-1]]
    return np.take_along_axis(operand, order, -1), order.astype(np.int32)


MARKERS = frozenset({
    "annotate_device_placement", "LayoutConstraint", "MoveToDevice", "MoveToHost", "Sharding",
    "SPMDFullToShardShape", "SPMDShardToFullShape",
})  # fmt: skip
"""Custom calls that only mark a position for passes of other backends. They return their operand."""
CUSTOM_CALLS: dict[str, Callable[..., HostValue]] = {**dict.fromkeys(MARKERS, _operand), "TopK": _top_k}


class Handlers:
    """Makes the handlers of FFI calls with the function `make`. A backend sets `make`, since this package
    cannot import native code.
    """

    make: Callable[[CallSite, CallTarget], Any] | None = None

    @classmethod
    def of(cls, inst: Instruction, site: CallSite, target: CallTarget) -> Any:
        """The handler for one call, with the state that it keeps between runs."""
        if cls.make is None:
            raise UnsupportedError(f"{site}: FFI handlers can only be called by a backend")
        make = cls.make
        return inst.computation.fact(("handler", inst), lambda _: make(site, target))


def check_custom_call(inst: Instruction) -> None:
    """Raises UnsupportedError if the target of a call is unknown, or does not support the call."""
    if check_parallel(inst):
        return
    if isinstance(inst.op, CustomCall) and inst.op.custom_call_target not in CUSTOM_CALLS:
        site = call_site(inst)
        target = find_target(site)
        if target.api == LIBRARY:
            routine_address(plan_of(site).symbol)
        if target.api == FFI:
            Handlers.of(inst, site, target)


def custom_call(interpreter: Interpreter, inst: Instruction[CustomCall], *operands: HostValue) -> HostValue:
    """Evaluates a custom call."""
    known = CUSTOM_CALLS.get(inst.op.custom_call_target)
    if known is not None:
        return known(inst, *operands)
    if check_parallel(inst):
        return run_parallel(interpreter, inst, *operands)
    site = call_site(inst)
    target = find_target(site)
    # After layout normalization, the dimensions of arrays are in memory order.
    physical = inst.op.result_layout_constraints is not None
    given: list[HostValue] = []
    for shape, operand in zip(site.operands, operands, strict=True):
        leaves = zip(shape.leaves(), flatten(shape, operand), strict=True)
        given += [_checked(site, s, v, physical) for s, v in leaves]
    handler = Handlers.of(inst, site, target) if target.api == FFI else None
    found = _run(site, target, given, handler)
    results: Iterator[HostValue] = iter(
        in_memory_order(v, s) if physical and isinstance(s, Shape) else v
        for s, v in zip(site.result_leaves, found, strict=True)
    )
    return nest(inst.shape, results)


def _checked(site: CallSite, shape: AnyShape, value: HostValue, physical: bool) -> HostValue:
    if not isinstance(shape, Shape):
        return value
    logical = from_memory_order(value, shape) if physical else value
    if logical.shape != shape.dims:
        raise UnsupportedError(
            f"{site}: an operand has the sizes {list(logical.shape)}, wanted "
            f"{shape.to_string(layout=False)}; arrays of dynamic sizes are not passed to custom calls"
        )
    return logical


def _run(site: CallSite, target: CallTarget, operands: list[HostValue], handler: Any) -> list[HostValue]:
    if target.api == LIBRARY:
        return list(run_library_call(site, operands))
    if target.api == PYTHON:
        assert target.function is not None
        found = PythonCall(target.function, site)(operands)
        # Copied, since the function may keep its results and change them.
        return [None if v is None else np.array(v) for v in found]
    return _run_native(site, target, operands, handler)


def _run_native(
    site: CallSite, target: CallTarget, operands: list[HostValue], handler: Any
) -> list[HostValue]:
    """Calls the native function of a target with copies of the operands, in the layouts of the call site.
    `handler` is the handler of an FFI call, None for other calls.
    """
    given = zip(site.operand_leaves, operands, strict=True)
    inputs = [np.array(in_memory_order(v, s), order="C") if isinstance(s, Shape) else None for s, v in given]
    outputs = [
        np.zeros([s.dims[d] for d in reversed(s.layout.minor_to_major)], s.dtype.numpy)
        if isinstance(s, Shape)
        else None
        for s in site.result_leaves
    ]
    for result, operand in site.aliases:
        outputs[result] = inputs[operand]
    ins, outs = _pointers(inputs), _pointers(outputs)
    opaque = site.config.encode("utf-8", "surrogateescape")
    if handler is not None:
        handler.run(c.addressof(ins), c.addressof(outs))
    elif target.api == AXLA:
        frame = abi.FRAME.ctypes()(version=abi.FRAME_VERSION)
        kind = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_char_p, c.c_int64)
        code = kind(target.address)(
            c.addressof(frame), c.addressof(ins), c.addressof(outs), opaque, len(opaque)
        )
        if code:
            raise CustomCallFailure(f"{site}: it returned the error code {code}", code)
    else:
        out = c.addressof(outs) if site.result.is_tuple else outs[0]
        arguments: list[Any] = [out, c.addressof(ins)]
        status = abi.STATUS.ctypes()()
        if target.api == UNIFIED:
            arguments += [c.cast(c.c_char_p(opaque), c.c_void_p), len(opaque)]
        if target.api in (STATUS, UNIFIED):
            arguments.append(c.addressof(status))
        types = {ORIGINAL: 2, STATUS: 3, UNIFIED: 5}[target.api]
        c.CFUNCTYPE(None, *[c.c_void_p] * types)(target.address)(*arguments)
        if status.failed:
            raise CustomCallFailure(f"{site}: {abi.status_message(c.addressof(status))}", abi.CUSTOM_CALL)
    pairs = zip(outputs, site.result_leaves, strict=True)
    return [from_memory_order(a, s) if isinstance(s, Shape) else None for a, s in pairs]


def _pointers(arrays: list[np.ndarray | None]) -> Any:
    return (c.c_void_p * max(len(arrays), 1))(*[None if a is None else a.ctypes.data for a in arrays])
