"""The four ops on which the graph itself depends: parameter, constant, tuple, get-tuple-element."""

from __future__ import annotations

from collections.abc import Sequence

from axla.core.dtypes import F32
from axla.core.literal import Literal
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.ir.op import Op, attr, example, op, reject


@op("parameter", structural=True, in_line=True)
class Parameter(Op):
    """Argument number `parameter_number` of its computation."""

    shape: AnyShape
    parameter_number: int

    def infer(self) -> AnyShape:
        """Returns the declared shape; there are no operands."""
        return self.shape

    examples = [example(shape=Shape(F32, (2, 3)), parameter_number=0)]


@op("constant", free=True, in_line=True)
class Constant(Op):
    """The constant with the value `literal`."""

    shape: AnyShape
    literal: Literal

    def infer(self) -> AnyShape:
        """Returns the declared shape, which must be that of the literal, except for layouts."""
        if self.shape.logical is not self.literal.shape.logical:
            self.reject("c1", f"a literal of {self.literal.shape} cannot be {self.shape}")
        return self.shape

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Returns 0: the bytes of a constant are counted at the instructions that read it."""
        return 0

    def evaluate(self):
        """Returns the array of the literal, which is read-only."""
        return self.literal.array

    @classmethod
    def of(cls, value: object, dtype=None) -> Constant:
        """Makes a constant from a NumPy array, or from anything that NumPy converts to one."""
        literal = Literal.of(value, dtype)
        return cls(literal.shape, literal)

    @classmethod
    def samples(cls):
        """A scalar and a matrix."""
        return [(cls.of(1.5, F32), ()), (cls.of([[1, 2], [3, 4]], F32), ())]


@op("tuple", operands="*elements", mixes_floats=True, structural=True, in_line=True)
class Tuple(Op):
    """The tuple of its operands."""

    def infer(self, *elements: AnyShape) -> TupleShape:
        """Returns the tuple of the operands' shapes."""
        return TupleShape(elements)

    examples = [example(Shape(F32, (2,)), Shape(F32)), example()]


@op("get-tuple-element", operands="operand", structural=True, in_line=True)
class GetTupleElement(Op):
    """Element `index` of a tuple."""

    index: int = attr(proto="tuple_index")

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the shape of element `index` of the operand, which must be a tuple with that element."""
        if not isinstance(operand, TupleShape):
            found = operand.to_string(layout=False)
            reject("get_tuple_element_c1", f"get-tuple-element takes a tuple, found {found}")
        if not 0 <= self.index < len(operand.elements):
            found = f"{len(operand.elements)} elements of {operand.to_string(layout=False)}"
            self.reject("c2", f"index={self.index} is not one of the {found}")
        return operand.elements[self.index]

    examples = [example(TupleShape((Shape(F32, (2,)), Shape(F32))), index=1)]
