"""Shapes that a text omits, with the layouts that XLA assigns to them."""

from __future__ import annotations

from dataclasses import replace

from axla.core.dtypes import U32
from axla.core.shape import TOKEN, AnyShape, Shape, TupleShape
from axla.hlo import Transpose
from axla.ir.graph import Instruction
from axla.ir.op import Op


def transfer_shape(opcode: str, operands: tuple[Instruction, ...], written: AnyShape) -> AnyShape:
    """The shape of a send or recv, or of its done. As in XLA it follows from the shape of the data, even if
    the text has another shape, `written`.
    """
    first = operands[0].shape if operands else written
    if opcode == "send":
        return TupleShape((first, Shape(U32), TOKEN))
    if opcode == "send-done":
        return TOKEN
    data = written if opcode == "recv" else first
    if not isinstance(data, TupleShape) or not data.elements:
        return written
    return TupleShape((data.elements[0], *((Shape(U32), TOKEN) if opcode == "recv" else (TOKEN,))))


def with_natural_layout(op: Op, operands: tuple[Instruction, ...], shape: AnyShape) -> AnyShape:
    """The inferred `shape` of an op, with the layout that follows from the layouts of the operands."""
    candidate = _natural(op, operands, shape)
    return candidate if candidate is not None and candidate.logical is shape.logical else shape


def _natural(op: Op, operands: tuple[Instruction, ...], shape: AnyShape) -> AnyShape | None:
    called = op.computations()
    if op.opcode == "while":
        return operands[0].shape
    if called and op.opcode in ("call", "fusion", "conditional"):
        return called[0].root.shape
    if not operands or not isinstance(shape, Shape):
        return None
    first = operands[0].shape
    if isinstance(op, Transpose) and isinstance(first, Shape):
        places = {d: n for n, d in enumerate(op.dimensions)}
        minor_to_major = tuple(places[d] for d in first.layout.minor_to_major)
        return Shape(
            shape.dtype, shape.dims, shape.dynamic, replace(first.layout, minor_to_major=minor_to_major)
        )
    if op.elementwise:
        alike = [o.shape for o in operands if isinstance(o.shape, Shape) and o.shape.dims == shape.dims]
        # Operands of the same element type first.
        for like in sorted(alike, key=lambda s: s.dtype is not shape.dtype):
            layout = like.layout if like.dtype is shape.dtype else like.with_dtype(shape.dtype).layout
            return Shape(shape.dtype, shape.dims, shape.dynamic, layout)
    return None
