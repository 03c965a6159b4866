"""Python's operators on `XlaOp`.

They mean the ops of the same sign, with XLA's semantics: `/` truncates integers, `%` has the sign of the
dividend, `>>` keeps the sign of signed integers, and shapes of different rank are never matched silently
(scalars fit everything). A Python number takes the element type of the other operand; NumPy values keep
theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

# Resolved when an operator runs: ops.py imports the builder, whose XlaOp derives from this class.
import axla.builder.ops as ops
from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape, Shape, TupleShape

if TYPE_CHECKING:
    from axla.builder.xla_builder import XlaOp


class Operators:
    """What `XlaOp` inherits; `self` is an `XlaOp`."""

    __slots__ = ()

    # NumPy arrays on the left must leave the operation to us.
    __array_ufunc__ = None
    __hash__ = object.__hash__

    shape: AnyShape

    @property
    def dtype(self) -> Any:
        """The element type of an array."""
        return _array(self).dtype

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of an array."""
        return _array(self).dims

    @property
    def T(self) -> XlaOp:
        """The array with its dimensions in reverse order."""
        return ops.Transpose(_op(self), tuple(reversed(range(_array(self).rank))))

    def __add__(self, other: object) -> XlaOp:
        return ops.Add(self, other)

    def __radd__(self, other: object) -> XlaOp:
        return ops.Add(other, self)

    def __sub__(self, other: object) -> XlaOp:
        return ops.Sub(self, other)

    def __rsub__(self, other: object) -> XlaOp:
        return ops.Sub(other, self)

    def __mul__(self, other: object) -> XlaOp:
        return ops.Mul(self, other)

    def __rmul__(self, other: object) -> XlaOp:
        return ops.Mul(other, self)

    def __truediv__(self, other: object) -> XlaOp:
        return ops.Div(self, other)

    def __rtruediv__(self, other: object) -> XlaOp:
        return ops.Div(other, self)

    def __mod__(self, other: object) -> XlaOp:
        return ops.Rem(self, other)

    def __rmod__(self, other: object) -> XlaOp:
        return ops.Rem(other, self)

    def __pow__(self, other: object) -> XlaOp:
        return ops.Pow(self, other)

    def __rpow__(self, other: object) -> XlaOp:
        return ops.Pow(other, self)

    def __matmul__(self, other: object) -> XlaOp:
        return ops.Dot(self, other)

    def __rmatmul__(self, other: object) -> XlaOp:
        return ops.Dot(other, self)

    def __and__(self, other: object) -> XlaOp:
        return ops.And(self, other)

    def __rand__(self, other: object) -> XlaOp:
        return ops.And(other, self)

    def __or__(self, other: object) -> XlaOp:
        return ops.Or(self, other)

    def __ror__(self, other: object) -> XlaOp:
        return ops.Or(other, self)

    def __xor__(self, other: object) -> XlaOp:
        return ops.Xor(self, other)

    def __rxor__(self, other: object) -> XlaOp:
        return ops.Xor(other, self)

    def __lshift__(self, other: object) -> XlaOp:
        return ops.ShiftLeft(self, other)

    def __rlshift__(self, other: object) -> XlaOp:
        return ops.ShiftLeft(other, self)

    def __rshift__(self, other: object) -> XlaOp:
        return ops.ShiftRight(self, other)

    def __rrshift__(self, other: object) -> XlaOp:
        return ops.ShiftRight(other, self)

    def __neg__(self) -> XlaOp:
        return ops.Neg(self)

    def __pos__(self) -> XlaOp:
        return _op(self)

    def __abs__(self) -> XlaOp:
        return ops.Abs(self)

    def __invert__(self) -> XlaOp:
        return ops.Not(self)

    def __eq__(self, other: object) -> XlaOp:  # type: ignore[override]
        return ops.Eq(self, other)

    def __ne__(self, other: object) -> XlaOp:  # type: ignore[override]
        return ops.Ne(self, other)

    def __lt__(self, other: object) -> XlaOp:
        return ops.Lt(self, other)

    def __le__(self, other: object) -> XlaOp:
        return ops.Le(self, other)

    def __gt__(self, other: object) -> XlaOp:
        return ops.Gt(self, other)

    def __ge__(self, other: object) -> XlaOp:
        return ops.Ge(self, other)

    def __array__(self, *arguments: object, **named: object) -> NoReturn:
        raise InvalidArgument(f"{self!r} has no value while the program is built, NumPy cannot take it")

    def __bool__(self) -> NoReturn:
        raise InvalidArgument(
            f"{self!r} has no truth value while the program is built; use Select or Conditional"
        )

    def __getitem__(self, index: object) -> XlaOp:
        """An element of a tuple; of an array what NumPy's basic indexing gives, with scalars of the program
        as indices.
        """
        if isinstance(self.shape, TupleShape):
            return ops.GetTupleElement(_op(self), cast(int, index))
        return ops.Index(_op(self), index)

    def __len__(self) -> int:
        """The number of elements of a tuple, or the size of dimension 0."""
        if isinstance(self.shape, TupleShape):
            return len(self.shape.elements)
        dims = _array(self).dims
        if not dims:
            raise InvalidArgument(f"len(): {self!r} is a scalar")
        return dims[0]

    def __iter__(self) -> Iterator[XlaOp]:
        return (self[k] for k in range(len(self)))

    def astype(self, dtype: Any) -> XlaOp:
        return ops.ConvertElementType(_op(self), dtype)

    def reshape(self, *dims: Any) -> XlaOp:
        return ops.Reshape(_op(self), dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)


def _op(self: Operators) -> XlaOp:
    return cast("XlaOp", self)


def _array(self: Operators) -> Shape:
    if not isinstance(self.shape, Shape):
        raise InvalidArgument(f"{self!r} is not an array")
    return self.shape
