"""Base classes of related ops, checks of operands that they share, and functions that declare elementwise ops
in one line:

    Abs = unary("abs", numeric.absolute, SIGNED, "|x|; of a complex number its magnitude.", result=real_of)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import BF16, C64, C128, F16, F32, F64, PRED, S8, S32, U8, U32, DType
from axla.core.errors import UnsupportedError
from axla.core.shape import UNBOUNDED, AnyShape, Shape, TupleShape, show
from axla.ir.op import Op, op, reject


@dataclass(frozen=True, slots=True)
class Accepts:
    """A set of element types: `test` returns whether a type is in it, `wanted` describes it in error
    messages, and `samples` are some of its types for tests.
    """

    test: Callable[[DType], bool]
    wanted: str
    samples: tuple[DType, ...]


ANY = Accepts(lambda d: True, "any", (F32, S32, PRED))
FLOAT = Accepts(lambda d: d.is_float, "floating-point", (F32, F64, BF16, F16))
INEXACT = Accepts(lambda d: d.is_inexact, "floating-point or complex", (F32, F64, C64))
INTEGER = Accepts(lambda d: d.is_integer, "integer", (S32, U8))
LOGICAL = Accepts(lambda d: d.is_integer or d.is_pred, "integer or pred", (S32, U8, PRED))
REAL = Accepts(lambda d: not d.is_complex, "not complex", (F32, S32, U8))
ARITHMETIC = Accepts(lambda d: not d.is_pred, "not pred", (F32, S32, C64))
REAL_ARITHMETIC = Accepts(
    lambda d: not d.is_complex and not d.is_pred, "integer or floating-point", (F32, S8, U32)
)
SIGNED = Accepts(
    lambda d: d.is_signed or d.is_inexact, "signed integer, floating-point or complex", (F32, S32, C64)
)
PARTS = Accepts(lambda d: d in (F32, F64), "f32 or f64", (F32, F64))

COMPLEX_OF = {F32: C64, F64: C128}


def arrays(self: Op, *operands: AnyShape) -> tuple[Shape, ...]:
    """The operands' shapes, all of which must be arrays. ShapeError, with the op and the number of the
    operand, for one that is not.
    """
    for number, operand in enumerate(operands):
        if not isinstance(operand, Shape):
            self.reject("array", f"operand {number} must be an array, found {show(operand)}")
    return operands  # type: ignore[return-value]


def are_different(dimensions: Sequence[int], rank: int) -> bool:
    """Whether these numbers are distinct dimensions of an array of this rank."""
    return len(set(dimensions)) == len(dimensions) and all(0 <= d < rank for d in dimensions)


def are_increasing(dimensions: Sequence[int], rank: int) -> bool:
    """Whether these numbers are distinct dimensions of an array of this rank, in ascending order."""
    return list(dimensions) == sorted(dimensions) and are_different(dimensions, rank)


def fits_in(sizes: Sequence[int], dims: Sequence[int]) -> bool:
    """Whether a window of these sizes fits in an array of sizes `dims`."""
    return len(sizes) == len(dims) and all(0 <= n <= d for n, d in zip(sizes, dims, strict=True))


def joined(shapes: Sequence[AnyShape]) -> AnyShape:
    """The shape of one result as it is, or the tuple of several, without layouts."""
    return shapes[0].logical if len(shapes) == 1 else TupleShape([s.logical for s in shapes])


def label(self: Op) -> str:
    """The opcode with underscores, as the labels of error messages have it."""
    return self.opcode.replace("-", "_")


def same_dims(self: Op, operands: Sequence[Shape], dtype: DType) -> Shape:
    """The dims that the operands share, with element type `dtype`. A dimension is dynamic if it is dynamic in
    any operand. Rejects operands with different dims.
    """
    first = operands[0]
    dims, dynamic = first.dims, first.dynamic
    for operand in operands[1:]:
        if operand.dims != dims:
            known = _known_dims(Shape(dtype, dims, dynamic), operand)
            if known is not None:
                dims, dynamic = known.dims, known.dynamic
                continue
            self.reject("dims", f"operands must have the same dimensions, found {show(operands)}")
        if operand.dynamic != dynamic:
            dynamic = tuple(a or b for a, b in zip(dynamic, operand.dynamic, strict=True))
    return Shape(dtype, dims, dynamic)


def _known_dims(first: Shape, second: Shape) -> Shape | None:
    """The dims of two shapes, of which at least one has unbounded dimensions, `?`. There the result has the
    size of the other shape; all other sizes must be equal. None if they are not, or if no dimension is
    unbounded.
    """
    if first.rank != second.rank or not (first.is_unbounded or second.is_unbounded):
        return None
    dims, dynamic = list(first.dims), list(first.dynamic)
    for d, (size, other) in enumerate(zip(first.dims, second.dims, strict=True)):
        if size == UNBOUNDED:
            dims[d], dynamic[d] = other, second.dynamic[d]
        elif other not in (UNBOUNDED, size):
            return None
    return Shape(first.dtype, dims, dynamic)


def same_dtype(self: Op, operands: Sequence[Shape], accepts: Accepts = ANY) -> DType:
    """The element type that the operands share. Rejects operands with different types, or with a type that
    `accepts` does not contain.
    """
    dtype = operands[0].dtype
    for operand in operands[1:]:
        if operand.dtype is not dtype:
            self.reject("dtype", f"operands must have one element type, found {show(operands)}")
    if not accepts.test(dtype):
        found = f"{self.opcode} takes element types that are {accepts.wanted}, found {show(operands)}"
        reject(f"{label(self)}_type", found)
    return dtype


class Same(Op):
    """The base of ops that return their operand."""

    __slots__ = ()

    def infer(self, operand: AnyShape) -> AnyShape:
        """Returns the operand's shape."""
        return operand.logical

    def evaluate(self, operand: Any) -> Any:
        """Returns the operand."""
        return operand


class PartOfOperand(Op):
    """The base of ops that read only those elements of the first operand that they return."""

    __slots__ = ()

    def accessed(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts the bytes of the result twice, since they are read and written, and those of the operands
        after the first.
        """
        return 2 * result.byte_size + sum(shape.byte_size for shape in operands[1:])


class Elementwise(Op):
    """The base of elementwise ops: result[i] = function(operands[i]...)."""

    __slots__ = ()
    elementwise = True
    accepts: Accepts = ANY
    result: Callable[[DType], DType] | None = None
    function: Callable[..., np.ndarray] | None = None

    def infer(self, *operands: AnyShape) -> Shape:
        """Returns the operands' dims with the dtype of the result. The operands must have the same dims and
        the same dtype.
        """
        shapes = arrays(self, *operands)
        cls = type(self)
        dtype = same_dtype(self, shapes, cls.accepts)
        return same_dims(self, shapes, dtype if cls.result is None else cls.result(dtype))

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts one operation for each element."""
        return result.size

    def evaluate(self, *operands: np.ndarray) -> np.ndarray:
        """Applies the NumPy function of the class; UnsupportedError if the class has none."""
        function = type(self).function
        if function is None:
            raise UnsupportedError(f"the interpreter cannot run {self.opcode}: the op has no evaluate")
        return function(*operands)

    @classmethod
    def samples(cls) -> list[tuple[Op, tuple[AnyShape, ...]]]:
        """The examples of the class, or else matrices and scalars of each sample dtype in `accepts`."""
        if cls.examples:
            return super().samples()
        count = len(cls.operand_names)
        shapes = [Shape(d, dims) for d in cls.accepts.samples for dims in ((3, 4), ())]
        return [(cls(), (shape,) * count) for shape in shapes]


def _declare(
    opcode: str, operands: str, function: Callable, accepts: Accepts, doc: str, facts: dict[str, Any]
) -> Any:
    name = "".join(part.capitalize() for part in opcode.split("-"))
    result = facts.pop("result", None)
    body: dict[str, Any] = {
        "__doc__": doc,
        "__module__": sys._getframe(2).f_globals["__name__"],
        "__slots__": (),
        "function": staticmethod(function),
        "accepts": accepts,
        "result": None if result is None else staticmethod(result),
        **facts,
    }
    return op(opcode, operands=operands)(type(name, (Elementwise,), body))


def unary(opcode: str, function: Callable, accepts: Accepts, doc: str, **facts: Any) -> Any:
    """Declares an elementwise op with one operand. `function` computes it with NumPy, `accepts` are its
    element types, and `doc` is its docstring. A fact `result` maps the operand's element type to that of the
    result.
    """
    return _declare(opcode, "operand", function, accepts, doc, facts)


def transcendental(opcode: str, function: Callable, doc: str, *, accepts: Accepts = INEXACT) -> Any:
    """Declares an elementwise function of one operand whose results are approximations. The arguments are
    those of `unary`.
    """
    return _declare(opcode, "operand", function, accepts, doc, {"expensive": True, "transcendental": True})


def binary(opcode: str, function: Callable, accepts: Accepts, doc: str, **facts: Any) -> Any:
    """Declares an elementwise op with two operands of the same element type. The arguments are those of
    `unary`.
    """
    return _declare(opcode, "lhs rhs", function, accepts, doc, facts)


def symmetric(opcode: str, function: Callable, accepts: Accepts, doc: str, **facts: Any) -> Any:
    """Declares a commutative and associative elementwise op with two operands of the same element type. The
    arguments are those of `unary`.
    """
    return _declare(
        opcode, "lhs rhs", function, accepts, doc, {"commutative": True, "associative": True, **facts}
    )
