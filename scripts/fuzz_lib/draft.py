"""Modules under construction: they supply values of a wanted shape, parameters, constants, and called
computations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from verify_lib import operands

import axla.hlo as hlo
from axla.core.dtypes import BY_NAME, PRED, S32, DType
from axla.core.errors import AxlaError
from axla.core.shape import AnyShape, Shape
from axla.ir.attributes import SliceDims
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import Op
from axla.ir.structure import Constant, GetTupleElement, Parameter, Tuple
from axla.passes.simplify.match import limits

COMMON = tuple(
    BY_NAME[n] for n in ("f32", "f32", "f32", "s32", "s32", "pred", "bf16", "u8", "f64", "c64", "f16")
)
SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 63, 64, 65, 100)
REFUSALS = (AxlaError, ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError, KeyError)
"""The errors that ops raise for attributes and operands that do not fit them."""

INDEX, ANY, COUNTER, SIZES_OF_GROUPS = "index", "any", "counter", "sizes of groups"
"""The kinds of parameters, which decide their values: indices inside and outside of an array, any numbers,
the start of a loop counter, the sizes of the groups of a ragged dot.
"""


class Draft:
    """A module under construction, with the choices that hold for all of it: its element types, and `most`,
    the largest number of elements of an array.
    """

    def __init__(self, draw: random.Random, name: str, most: int = 4000) -> None:
        self.draw, self.most = draw, most
        self.module = Module(name)
        self.kinds: dict[int, str] = {}  # parameter number -> its kind
        self.dtypes = [draw.choice(COMMON if draw.random() < 0.7 else operands.DTYPES) for _ in range(3)]
        self.combiners: dict[tuple[str, DType], Computation] = {}
        self.effects = False
        self.entry = Scope(self, self.module.add_computation("main", entry=True))

    def dims(self, rank: int | None = None, most: int = 0) -> tuple[int, ...]:
        """Random sizes of dimensions, at most `most` elements in all. They are rarely 0 and often near the
        sizes of vectors and tiles.
        """
        draw = self.draw
        rank = draw.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)) if rank is None else rank
        while True:
            dims = tuple(draw.choice(SIZES[1:] if draw.random() < 0.95 else SIZES) for _ in range(rank))
            if prod(dims) <= (most or self.most):
                return dims

    def dtype(self) -> DType:
        return self.draw.choice(self.dtypes)

    def combiner(self, opcode: str, dtype: DType) -> Computation:
        """The computation that applies an op to two scalars, as reductions call it; "second" returns the
        second one.
        """
        if (opcode, dtype) not in self.combiners:
            body = self.module.add_computation(f"{opcode}_{dtype.name}".replace("-", "_"))
            a, b = (body.add(Parameter(Shape(dtype), n)) for n in range(2))
            if opcode == "second":
                body.set_root(b)
            else:
                body.set_root(hlo.OPS[opcode]()(a, b) if hasattr(hlo, "OPS") else _op(opcode)(a, b))
            self.combiners[opcode, dtype] = body
        return self.combiners[opcode, dtype]

    def order(self, dtypes: Sequence[DType], number: int, opcode: str, total: bool) -> Computation:
        """Adds a comparator for a sort of operands of these types, by operand `number`. `opcode` is the
        direction; `total` selects the total order of floats.
        """
        from axla.ir.attributes import CompareType, Direction

        body = self.module.add_computation("order")
        values = [body.add(Parameter(Shape(d), n)) for n, d in enumerate(d for d in dtypes for _ in range(2))]
        kind = CompareType("TOTALORDER") if total and dtypes[number].is_float else None
        body.set_root(hlo.Compare(Direction(opcode), kind)(values[2 * number], values[2 * number + 1]))
        return body


def _op(opcode: str) -> Op:
    from axla.ir.op import OPS

    return OPS[opcode]()


class Scope:
    """A computation under construction, with its array values. Only the entry can add parameters."""

    def __init__(self, draft: Draft, computation: Computation, depth: int = 0) -> None:
        self.draft, self.draw, self.computation, self.depth = draft, draft.draw, computation, depth
        self.values: list[Instruction] = []
        self.tokens: list[Instruction] = []
        self.effects: list[Instruction] = []

    @property
    def is_entry(self) -> bool:
        return self.depth == 0

    def add(self, op: Op, *given: Instruction, keep: bool = True) -> Instruction:
        """Adds an instruction. With `keep`, later ops may choose it as an operand."""
        found = self.computation.add(op, given)
        return self.kept(found) if keep else found

    def kept(self, value: Instruction) -> Instruction:
        if (
            isinstance(value.shape, Shape)
            and not value.shape.is_dynamic
            and value.shape.size <= 4 * self.draft.most
        ):
            self.values.append(value)
        return value

    def parts(self, value: Instruction) -> list[Instruction]:
        """The elements of a tuple; for an array, a list with the array alone."""
        if not value.shape.is_tuple:
            return [self.kept(value)]
        return [
            self.kept(self.computation.add(GetTupleElement(n), [value]))
            for n in range(len(value.shape.elements))  # type: ignore[attr-defined]
        ]

    def parameter(self, shape: AnyShape, kind: str = ANY) -> Instruction:
        number = len(self.computation.parameters)
        self.draft.kinds[number] = kind
        return self.kept(self.computation.add(Parameter(shape, number)))

    def pick(self, fits: Callable[[Shape], bool] = lambda shape: True) -> Instruction:
        """A value whose shape fits, most often a recent one; sometimes a new value of a random shape that
        fits.
        """
        found = [v for v in self.values if fits(v.shape)]  # type: ignore[arg-type]
        if found and (self.draw.random() < 0.9 or not self.is_entry):
            return self.draw.choice(found[-6:] if self.draw.random() < 0.7 else found)
        for _ in range(200):
            shape = Shape(self.draft.dtype(), self.draft.dims())
            if fits(shape):
                return self.fresh(shape)
        raise ValueError("no shape fits")

    def fresh(self, shape: Shape, kind: str = ANY) -> Instruction:
        """A new value of a shape: a parameter or a constant."""
        if self.is_entry and self.draw.random() < 0.75:
            return self.parameter(shape, kind)
        return self.kept(self.constant(shape, kind))

    def constant(self, shape: Shape, kind: str = ANY) -> Instruction:
        draw, dtype = self.draw, shape.dtype
        if (
            shape.rank
            and draw.random() < 0.5
            and not dtype.is_complex
            and dtype.bits >= 8
            and not dtype.is_pred
        ):
            lanes = draw.randrange(shape.rank)
            if dtype.is_integer and shape.dims[lanes] < 100:
                return self.computation.add(hlo.Iota(shape, lanes))
        if shape.rank and (draw.random() < 0.5 or shape.size > 4000):
            return self.computation.add(hlo.Broadcast(shape, ()), [self.constant(Shape(dtype), kind)])
        literal = operands.argument(shape, draw, "" if draw.random() < 0.1 else "rounding")
        if kind == INDEX:
            literal_array = np.asarray([draw.randint(0, 9) for _ in range(shape.size)]).reshape(shape.dims)
            return self.computation.add(Constant.of(literal_array.astype(dtype.numpy), dtype))
        return self.computation.add(Constant.of(literal.array, dtype))

    def like(self, shape: Shape, kind: str = ANY) -> Instruction:
        """A value of a shape: an existing one, one derived from another value, or a new one."""
        found = [v for v in self.values if v.shape.logical is shape.logical]
        if found and self.draw.random() < 0.65:
            return self.draw.choice(found)
        if self.draw.random() < 0.5 and (made := self.adapted(shape)) is not None:
            return made
        return self.fresh(shape, kind)

    def adapted(self, shape: Shape) -> Instruction | None:
        """A value of a shape, derived from another value by a conversion, broadcast, slice or reshape; None
        if that is not possible.
        """
        draw = self.draw
        source = draw.choice(self.values) if self.values else None
        if source is None or not isinstance(source.shape, Shape):
            return None
        have = source.shape
        try:
            if have.dims == shape.dims:
                return self.add(hlo.Convert(shape), source)
            if have.dtype is not shape.dtype:
                return None
            if have.size == shape.size:
                return self.add(hlo.Reshape(shape), source)
            if have.rank == 0:
                return self.add(hlo.Broadcast(shape, ()), source)
            if have.rank == 1 and have.dims[0] in shape.dims:
                return self.add(hlo.Broadcast(shape, (shape.dims.index(have.dims[0]),)), source)
            if have.rank == shape.rank and all(a >= b for a, b in zip(have.dims, shape.dims, strict=True)):
                starts = tuple(draw.randint(0, a - b) for a, b in zip(have.dims, shape.dims, strict=True))
                stops = tuple(a + b for a, b in zip(starts, shape.dims, strict=True))
                return self.add(hlo.Slice(SliceDims(starts, stops, (1,) * have.rank)), source)
        except REFUSALS:
            pass
        return None

    def index(self, most: int, dtype: DType = S32) -> Instruction:
        """A scalar that serves as an index: it may lie inside or outside of a dimension of size `most`."""
        scalars = [v for v in self.values if v.shape is Shape(dtype)]
        if scalars and self.draw.random() < 0.7:
            return self.draw.choice(scalars)
        if self.is_entry and self.draw.random() < 0.7:
            return self.parameter(Shape(dtype), INDEX)
        low, high = limits(dtype)
        value = self.draw.choice((0, 0, 1, 2, most, most - 1, most + 1, -1, -most, 3, int(low), int(high)))
        return self.kept(self.computation.add(Constant.of(max(int(low), min(int(high), value)), dtype)))

    def scalar(self, value: object, dtype: DType) -> Instruction:
        return self.computation.add(Constant.of(np.asarray(value).astype(dtype.numpy), dtype))

    def inner(self, name: str, shapes: Sequence[AnyShape], packed: bool) -> Scope:
        """Adds a computation to be called, and returns its scope. It has one parameter per shape or, with
        `packed`, one tuple of all.
        """
        body = self.draft.module.add_computation(name)
        scope = Scope(self.draft, body, self.depth + 1)
        if packed:
            from axla.core.shape import TupleShape

            whole = body.add(Parameter(TupleShape(shapes), 0))
            scope.parts(whole)
        else:
            for number, shape in enumerate(shapes):
                scope.kept(body.add(Parameter(shape, number)))
        return scope

    def flag(self) -> Instruction:
        """A pred scalar, in most cases one that the compiler does not know."""
        draw = self.draw
        found = [v for v in self.values if v.shape is Shape(PRED)]
        if found and draw.random() < 0.4:
            return draw.choice(found)
        if self.is_entry and draw.random() < 0.6:
            return self.parameter(Shape(PRED))
        from axla.ir.attributes import Direction

        x = self.index(3)
        return self.add(hlo.Compare(draw.choice(tuple(Direction))), x, self.scalar(draw.randint(-1, 3), S32))


def tupled(scope: Scope, values: Sequence[Instruction]) -> Instruction:
    return scope.computation.add(Tuple(), values)
