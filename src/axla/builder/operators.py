"""Python's operators for `XlaOp`.

They apply the corresponding ops with XLA's semantics: `/` truncates integers, `%` has the sign of the
dividend, `>>` keeps the sign of signed integers, and only scalars are broadcast to shapes of another rank. A
Python number takes the element type of the other operand; a NumPy value keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self, TypeVar

from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape, Shape, TupleShape

Op = TypeVar("Op", bound="Operators")
FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions that the operators call, by name. `ops.py` fills this table when it is imported.
"""


def _unary(name: str) -> Callable[[Op], Op]:
    return lambda self: FUNCTIONS[name](self)


def _binary(name: str) -> Callable[[Op, object], Op]:
    return lambda self, other: FUNCTIONS[name](self, other)


def _reflected(name: str) -> Callable[[Op, object], Op]:
    return lambda self, other: FUNCTIONS[name](other, self)


class Operators:
    """The operators of `XlaOp`; `self` is an `XlaOp`."""

    __slots__ = ()

    # With None, `ndarray + op` calls our __radd__ instead of NumPy's addition.
    __array_ufunc__ = None
    __hash__ = object.__hash__

    shape: AnyShape

    @property
    def dtype(self) -> Any:
        """The element type of an array."""
        return _array(self).dtype

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of the dimensions of an array."""
        return _array(self).dims

    @property
    def T(self) -> Self:
        """The transpose: the array with its dimensions in reverse order."""
        return FUNCTIONS["Transpose"](self, tuple(reversed(range(_array(self).rank))))

    __add__, __radd__ = _binary("Add"), _reflected("Add")
    __sub__, __rsub__ = _binary("Sub"), _reflected("Sub")
    __mul__, __rmul__ = _binary("Mul"), _reflected("Mul")
    __truediv__, __rtruediv__ = _binary("Div"), _reflected("Div")
    __mod__, __rmod__ = _binary("Rem"), _reflected("Rem")
    __pow__, __rpow__ = _binary("Pow"), _reflected("Pow")
    __matmul__, __rmatmul__ = _binary("Dot"), _reflected("Dot")
    __and__, __rand__ = _binary("And"), _reflected("And")
    __or__, __ror__ = _binary("Or"), _reflected("Or")
    __xor__, __rxor__ = _binary("Xor"), _reflected("Xor")
    __lshift__, __rlshift__ = _binary("ShiftLeft"), _reflected("ShiftLeft")
    __rshift__, __rrshift__ = _binary("ShiftRight"), _reflected("ShiftRight")
    __lt__ = _binary("Lt")
    __le__ = _binary("Le")
    __gt__ = _binary("Gt")
    __ge__ = _binary("Ge")
    __neg__ = _unary("Neg")
    __abs__ = _unary("Abs")
    __invert__ = _unary("Not")

    def __pos__(self) -> Self:
        return self

    def __eq__(self, other: object) -> Self:
        return FUNCTIONS["Eq"](self, other)

    def __ne__(self, other: object) -> Self:
        return FUNCTIONS["Ne"](self, other)

    def __array__(self, *arguments: object, **named: object) -> NoReturn:
        raise InvalidArgument(f"{self!r} has no value while the program is built, so NumPy cannot read it")

    def __bool__(self) -> NoReturn:
        message = f"{self!r} has no truth value while the program is built; use Select or Conditional"
        raise InvalidArgument(message)

    def __getitem__(self, index: object) -> Self:
        """An element of a tuple, or a part of an array by NumPy's basic indexing. Scalar `XlaOp`s are allowed
        as indices.
        """
        if isinstance(self.shape, TupleShape):
            return FUNCTIONS["GetTupleElement"](self, index)
        return FUNCTIONS["Index"](self, index)

    def __len__(self) -> int:
        """The number of elements of a tuple, or the size of dimension 0 of an array."""
        if isinstance(self.shape, TupleShape):
            return len(self.shape.elements)
        dims = _array(self).dims
        if not dims:
            raise InvalidArgument(f"len(): {self!r} is a scalar")
        return dims[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[k] for k in range(len(self)))

    def astype(self, dtype: Any) -> Self:
        """Converts every element to a dtype, as `ConvertElementType` does."""
        return FUNCTIONS["ConvertElementType"](self, dtype)

    def reshape(self, *dims: Any) -> Self:
        """Reshapes to the sizes `dims`, given as one sequence or as separate arguments. The elements stay in
        row-major order.
        """
        sizes = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        return FUNCTIONS["Reshape"](self, sizes)


def _array(self: Operators) -> Shape:
    if not isinstance(self.shape, Shape):
        raise InvalidArgument(f"{self!r} is not an array")
    return self.shape
