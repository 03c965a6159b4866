"""Modules of one op, with inputs: every declared op at every element type that it takes.

The samples in an op's declaration are converted to other element types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np

from axla.comparison import run_flat
from axla.core.dtypes import C64, C128, F32, F64, S32, U32, DType
from axla.core.errors import AxlaError, ShapeError
from axla.core.shape import TOKEN, AnyShape, Shape, TupleShape
from axla.custom.feeds import feeds
from axla.custom.registry import register_custom_call, unregister_custom_call
from axla.hlo import AfterAll, GetTupleElement, Infeed, Recv, RecvDone, Send, SendDone
from axla.hlo.casting import convert
from axla.ir.graph import Computation, Module
from axla.ir.op import OPS, Op
from axla.ir.structure import Constant, Parameter
from axla.ir.verify import verify

UNTYPED = {"after-all", "partition-id", "replica-id", "rng-get-and-update-state"}
"""Ops without an element type that can be chosen."""

ENDS = {
    "all-gather-start": ("all-gather-done",), "all-reduce-start": ("all-reduce-done",),
    "async-start": ("async-update", "async-done"), "copy-start": ("copy-done",),
    "collective-permute-start": ("collective-permute-done",),
}  # fmt: skip
"""The ops that must follow an op that starts something, by the opcode of this op."""
STARTS = {end: start for start, ends in ENDS.items() for end in ends}

EXCHANGE = {"send", "send-done", "recv", "recv-done"}
"""Ops that can only be used together."""

NOTHING_TO_COMPARE = {"rng", "rng-get-and-update-state"}
VALUES = {"dynamic-reshape": {1: 3, 2: 2}, "set-dimension-size": {1: 2}}


@cache
def modules_of(opcode: str, dtype: DType) -> list[tuple[Module, list[np.ndarray]]]:
    """Modules of one op at an element type, each with its inputs; none if the op does not take the type."""
    if opcode in EXCHANGE:
        return [(module := exchange(dtype), sample_inputs(opcode, module))]
    found = []
    start = STARTS.get(opcode, opcode)
    for op, shapes in OPS[start].samples():
        main = main_type(op, shapes)
        change = {main: dtype, **_companions(main, dtype)}
        try:
            module = sample_module(op, shapes, change)
            verify(module)
            found.append((module, sample_inputs(opcode, module)))
        except (ShapeError, AxlaError):
            continue
    return found[:2]


def main_type(op: Op, shapes: Sequence[AnyShape]) -> DType:
    """The main element type of a sample: the one that is replaced by others."""
    own = getattr(op, "shape", None)
    if op.opcode == "rng-bit-generator" and isinstance(own, TupleShape):
        own, shapes = own.elements[1], ()
    about = shapes[1:] if op.opcode in ("conditional", "select") else shapes
    leaves = [leaf for s in (*about, *([own] if own is not None else [])) for leaf in s.leaves()]
    return next((leaf.dtype for leaf in leaves if isinstance(leaf, Shape)), F32)


def _companions(main: DType, to: DType) -> dict[DType, DType]:
    """The replacements of element types if `main` becomes `to`. If a complex type is replaced, the type of
    its parts is too, and the reverse.
    """
    if main in (F32, F64) and to in (F32, F64):
        return {main: to, (C64 if main is F32 else C128): C64 if to is F32 else C128}
    if main in (C64, C128) and to in (C64, C128):
        return {main: to, main.real: to.real}
    return {main: to}


def retyped(shape: AnyShape, change: dict[DType, DType]) -> AnyShape:
    """The shape with element types replaced as in `change`."""
    if isinstance(shape, TupleShape):
        return TupleShape([retyped(e, change) for e in shape.elements])
    return shape.with_dtype(change.get(shape.dtype, shape.dtype)) if isinstance(shape, Shape) else shape


def sample_module(op: Op, shapes: Sequence[AnyShape], change: dict[DType, DType]) -> Module:
    """A module whose entry applies the op to its parameters, with element types replaced as in `change`."""
    module = Module("sample")
    copies: dict[Computation, Computation] = {}

    def at_type(value: Op) -> Op:
        if isinstance(value, Constant):
            array = convert(value.literal.array, change.get(value.shape.dtype, value.shape.dtype))  # type: ignore[union-attr]
            return Constant.of(array)
        if hasattr(value, "shape"):
            value = dataclasses.replace(value, shape=retyped(value.shape, change))  # type: ignore[type-var,attr-defined]
        if hasattr(value, "outfeed_shape"):
            value = dataclasses.replace(value, outfeed_shape=retyped(value.outfeed_shape, change))  # type: ignore[type-var,attr-defined]
        return value.with_computations(copy)

    def copy(computation: Computation) -> Computation:
        if computation not in copies:
            copies[computation] = target = module.add_computation(computation.name)
            values = {}
            for inst in computation.instructions:
                operands = [values[o] for o in inst.operands]
                values[inst] = target.add(at_type(inst.op), operands, name=inst.name)
            target.set_root(values[computation.root])
        return copies[computation]

    entry = module.add_computation("main")
    operands = [entry.add(Parameter(retyped(s, change), n)) for n, s in enumerate(shapes)]
    root = entry.add(at_type(op), operands)
    for end in ENDS.get(op.opcode, ()):
        root = entry.add(OPS[end](), [root])
    entry.set_root(root)
    module.set_entry(entry)
    return module


def exchange(dtype: DType) -> Module:
    """A sample of send and recv: a module that sends its parameter, receives it, and returns the received
    data.
    """
    module = Module("sample")
    entry = module.add_computation("main", entry=True)
    data = entry.add(Parameter(Shape(dtype, (3,)), 0))
    token = entry.add(AfterAll())
    shape = TupleShape((data.shape, Shape(U32), TOKEN))
    entry.add(SendDone(1), [entry.add(Send(shape, 1), [data, token])])
    received = entry.add(RecvDone(1), [entry.add(Recv(shape, 1), [token])])
    entry.set_root(entry.add(GetTupleElement(0), [received]))
    return module


def run_fed(module: Module, inputs: Sequence[np.ndarray], backend: str) -> list[np.ndarray]:
    """Runs a module with 1, 2, 3... in the infeed queue, for every infeed of its entry."""
    with fed(module):
        return run_flat(module, inputs, backend, deadline=20)


@contextmanager
def fed(module: Module) -> Iterator[None]:
    """Puts 1, 2, 3... into the infeed queue, for every infeed of a module's entry; empties the queues
    afterwards.
    """
    queues = feeds(0)
    for inst in module.entry.instructions:
        if isinstance(inst.op, Infeed):
            data = inst.shape.elements[0]  # type: ignore[attr-defined]
            numbers = np.arange(1, data.size + 1, dtype=np.int32).reshape(data.dims)
            queues.infeed.put(convert(numbers, data.dtype))
    try:
        yield
    finally:
        queues.infeed.clear()
        queues.outfeed.clear()


@contextmanager
def sample_target() -> Iterator[None]:
    """Registers the custom call target of the sample of custom-call, which returns its first operand."""

    def first(x: np.ndarray, number: np.ndarray) -> np.ndarray:
        return x

    register_custom_call("sample", first)
    try:
        yield
    finally:
        unregister_custom_call("sample")


def sample_inputs(opcode: str, module: Module) -> list[np.ndarray]:
    """Inputs for a module: small random numbers that every element type can represent."""
    rng = np.random.default_rng(0)
    fixed = VALUES.get(opcode, {})
    arrays = []
    for number, parameter in enumerate(module.entry.parameters):
        for leaf in parameter.shape.leaves():
            if isinstance(leaf, Shape):
                numbers = rng.integers(0, 2 if leaf.dtype.bits < 8 or leaf.dtype.is_pred else 4, leaf.dims)
                numbers = np.full(leaf.dims, fixed[number]) if number in fixed else numbers
                arrays.append(convert(numbers.astype(S32.numpy), leaf.dtype))
    return arrays
