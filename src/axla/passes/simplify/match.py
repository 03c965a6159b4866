"""Predicates on operands that rules use, and functions that build common values."""

from __future__ import annotations

from typing import Any

import numpy as np

from axla.core.dtypes import DType
from axla.core.literal import ElidedLiteral, Literal
from axla.core.shape import Shape
from axla.hlo import Broadcast, Maximum, Minimum
from axla.ir.graph import Computation, Instruction
from axla.ir.op import Op
from axla.ir.structure import Constant, Parameter
from axla.ir.typed import op_of, shape_of


def same_shape(x: Instruction, root: Instruction) -> bool:
    """Whether `x` can replace `root`: element types and sizes are equal. (Elementwise ops may mix float
    types.)
    """
    return x.shape.logical is root.shape.logical


def is_constant(inst: Instruction) -> bool:
    """Whether an instruction is a constant, or a broadcast of a constant."""
    return type(inst.op) is Constant or (type(inst.op) is Broadcast and type(inst.operands[0].op) is Constant)


def values_of(inst: Instruction) -> np.ndarray | None:
    """The array of a constant. None for other instructions, and for a constant whose values are elided in the
    text.
    """
    op = inst.op
    if type(op) is not Constant or isinstance(op.literal, ElidedLiteral) or not op.literal.shape.is_array:
        return None
    return op.literal.array


def uniform(inst: Instruction) -> np.ndarray | None:
    """The common value (an array of rank 0) of all elements of a constant or broadcast constant. None for
    other instructions, or if the elements differ.
    """
    if type(inst.op) is Broadcast:
        inst = inst.operands[0]
    values = values_of(inst)
    if values is None or values.size == 0:
        return None
    flat = values.reshape(-1)
    # The ends first: they differ in most constants that are not uniform.
    if flat.size > 1 and not (
        flat[0].tobytes() == flat[-1].tobytes() and op_of(inst, Constant).literal.is_uniform()
    ):
        return None
    return flat[0:1].reshape(())


def is_all(inst: Instruction, number: float) -> bool:
    """Whether every element is exactly `number`; for floats the sign of zero matters."""
    value = uniform(inst)
    if value is None:
        return False
    if value.dtype.kind == "c":
        return bool(value == number) and not np.signbit(np.real(value)) and not np.signbit(np.imag(value))
    if value.dtype.kind in "biu" or value.dtype.name.startswith(("int", "uint")):
        return int(value) == number
    with np.errstate(all="ignore"):
        wanted = np.asarray(number).astype(value.dtype)
    return value.tobytes() == wanted.tobytes() and float(value) == number


def is_all_ones(inst: Instruction) -> bool:
    """Whether every bit of every element is set; for pred, whether every element is true."""
    value = uniform(inst)
    if value is None:
        return False
    return bool(value) if value.dtype == np.bool_ else bool(value == ~np.zeros((), value.dtype))


def limits(dtype: DType) -> tuple[Any, Any]:
    """The smallest and the largest value of an ordered type: infinities if it has them."""
    if dtype.is_pred:
        return False, True
    if dtype.is_integer:
        low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
        return low, 2 ** (dtype.bits - int(dtype.is_signed)) - 1
    if dtype.has_infinity:
        return -np.inf, np.inf
    return float(dtype.finfo.min), float(dtype.finfo.max)


def neutral(op: type[Op] | None, dtype: DType) -> Any:
    """The identity of `op` in a type: combining it with any number returns that number. None if there is
    none.
    """
    if op in (Maximum, Minimum):
        return limits(dtype)[op is Minimum]
    if op is None or op.identity is None or op.identity == 0 and not dtype.has_zero:
        return None
    if op.identity == -1:  # all bits set
        return -1 if dtype.is_signed else limits(dtype)[True]
    return op.identity


def dtype_of(inst: Instruction) -> DType:
    """The element type of an instruction's array."""
    return shape_of(inst).dtype


def is_float(inst: Instruction) -> bool:
    """Whether an instruction computes an array of real floating-point numbers."""
    shape = inst.shape
    return isinstance(shape, Shape) and shape.dtype.is_float


def has_negatives(inst: Instruction) -> bool:
    """Whether the numbers of an instruction's type can be negated. f8e8m0fnu has only powers of two: a
    negated number is NaN.
    """
    return dtype_of(inst).has_zero


def is_exact(inst: Instruction) -> bool:
    """Whether the elements of an instruction are integers or pred, whose arithmetic is exact and has no
    NaN.
    """
    shape = inst.shape
    return isinstance(shape, Shape) and not shape.dtype.is_inexact


def constant(computation: Computation, literal: Literal) -> Instruction:
    """Adds a constant to a computation."""
    return computation.add(Constant(literal.shape, literal))


def full(root: Instruction, value: object) -> Instruction:
    """An array with the shape of `root`, in which every element is `value`."""
    shape = shape_of(root)
    return spread(root, constant(root.computation, Literal.scalar(shape.dtype, value)))


def spread(root: Instruction, scalar: Instruction) -> Instruction:
    """An array with the shape of `root`, in which every element is `scalar`."""
    return Broadcast(shape_of(root), ())(scalar) if shape_of(root).dims else scalar


def combiner(body: Computation) -> type[Op] | None:
    """The class of the only op that a computation applies to its two parameters, in either order if the op
    commutes; None for other computations.
    """
    root = body.root
    if len(body.parameters) != 2 or len(root.operands) != 2 or not root.op.elementwise:
        return None
    numbers = tuple(o.op.parameter_number for o in root.operands if isinstance(o.op, Parameter))
    if numbers == (0, 1) or (numbers == (1, 0) and root.op.commutative):
        return type(root.op)
    return None
