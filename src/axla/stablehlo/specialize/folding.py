"""Arithmetic on sizes: operations on small known values, done at once.

Only what every backend does in the same way: integers wrap around, floating-point operations are those that
IEEE-754 rounds exactly. An operation with no entry, or None from one, is left to the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from axla.stablehlo import mlir
from axla.stablehlo.importer import attributes as attr
from axla.stablehlo.tables import by_name

LARGEST = 64  # elements of a value that is followed
Function = Callable[[mlir.Operation, Sequence[np.ndarray]], "np.ndarray | None"]


def known_value(value: mlir.Attribute, type_: mlir.Type) -> np.ndarray | None:
    """A constant as an array, if it is small and of numbers that NumPy computes with itself."""
    if isinstance(value, mlir.DenseElements):
        if not _followed(math.prod(d or 0 for d in value.type.shape or ()), element_type(type_)):
            return None
        array = attr.elements(value)
    elif isinstance(value, mlir.IntegerAttr | mlir.FloatAttr):
        array = np.asarray(value.value)
    elif isinstance(value, bool):
        array = np.asarray(value)
    else:
        return None
    wanted = element_type(type_)
    return None if wanted is None else array.astype(wanted)


def _followed(size: int, kind: np.dtype | None) -> bool:
    """Floating-point numbers are followed one at a time: more are no sizes but data."""
    return kind is not None and size <= (1 if kind.kind == "f" else LARGEST)


def element_type(type_: mlir.Type) -> np.dtype | None:
    """The NumPy type of a tensor's elements; None for elements that are not followed."""
    element = type_.element if isinstance(type_, mlir.TensorType) else type_
    if isinstance(element, mlir.OpaqueType):
        return _SHAPE_TYPES.get(element.text)
    if not isinstance(element, mlir.IntegerType | mlir.IndexType | mlir.FloatType):
        return None
    try:
        found = mlir.numpy_type(element)
    except ValueError:
        return None
    return found if found.isbuiltin == 1 and found.kind in "biuf" else None


_SHAPE_TYPES = {
    "shape.shape": np.dtype(np.int64), "shape.size": np.dtype(np.int64), "shape.witness": np.dtype(bool)
}  # fmt: skip


def folded(
    operation: mlir.Operation, values: Sequence[np.ndarray], sizes: Sequence[int] | None
) -> np.ndarray | None:
    """The only result of an operation whose operands are known; `sizes` are those of the result if known."""
    function = FUNCTIONS.get(operation.name)
    wanted = element_type(operation.results[0].type)
    if function is None or wanted is None or (sizes is not None and not _followed(math.prod(sizes), wanted)):
        return None
    with np.errstate(all="ignore"):
        try:
            if operation.name in _SHAPED:
                array = None if sizes is None else _SHAPED[operation.name](operation, values, tuple(sizes))
            else:
                array = function(operation, values)
        except (ValueError, IndexError, TypeError, OverflowError):
            return None  # the operation is wrong: it will be refused as it is
    if array is None or not _followed(array.size, wanted):
        return None
    return np.asarray(array).astype(wanted)


# Functions


def _numeric(function: Callable[..., Any]) -> Function:
    return lambda operation, values: np.asarray(function(*values))


def _integral(function: Callable[..., Any]) -> Function:
    """Of integers only: with floating-point numbers it would have to mind the sign of zero."""
    return lambda operation, values: None if values[0].dtype.kind == "f" else np.asarray(function(*values))


def _logical(logical: Callable[..., Any], bits: Callable[..., Any]) -> Function:
    """Of booleans the logical operation, of integers the other one."""
    return lambda operation, values: np.asarray((logical if values[0].dtype == bool else bits)(*values))


def _divide(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
    """Integers are divided toward zero; a division by zero is left to the program."""
    x, y = values
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    if not y.all() or (x.dtype.kind == "i" and (y == -1).any()):
        return -x if (y == -1).all() and x.dtype.kind == "i" else None
    return (x - np.fmod(x, y)) // y


def _remainder(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
    return np.fmod(*values) if values[1].all() else None


def _compare(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
    function = _DIRECTIONS.get(attr.word(operation, "comparison_direction"))
    total = attr.word(operation, "compare_type", "NOTYPE") == "TOTALORDER"
    return None if function is None or total else np.asarray(function(*values))


_DIRECTIONS = {
    "EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater, "LE": np.less_equal,
    "LT": np.less,
}  # fmt: skip


def _convert(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
    """To integers only what they hold."""
    (x,), wanted = values, element_type(operation.results[0].type)
    if x.dtype.kind == "f" and wanted is not None and wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if not (np.isfinite(x) & (x > float(limits.min) - 1) & (x < float(limits.max))).all():
            return None
    return x != 0 if wanted == np.bool_ else x


def _concatenate(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(values, attr.integer(operation, "dimension", 0))


def _slice(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    names = ("start_indices", "limit_indices", "strides")
    rows = zip(*[attr.integers(operation, name) for name in names], strict=True)
    return values[0][tuple(slice(*row) for row in rows)]


def _dynamic_slice(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    x, *starts = values
    sizes = attr.integers(operation, "slice_sizes")
    at = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, x.shape, sizes, strict=True)]
    return x[tuple(slice(s, s + n) for s, n in zip(at, sizes, strict=True))]


def _transpose(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    return values[0].transpose(attr.integers(operation, "permutation"))


def _reverse(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    return np.flip(values[0], attr.integers(operation, "dimensions"))


def _reduce(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
    """Sums, products, the largest and the smallest of integers."""
    if len(values) != 2 or values[0].dtype.kind not in "iub":
        return None
    block = operation.regions[0].blocks[0]
    if len(block.operations) != 2 or set(block.operations[0].operands) != set(block.arguments):
        return None
    inner = block.operations[0]
    if block.operations[1].operands != inner.results:
        return None
    function = _REDUCTIONS.get(inner.name)
    if function is None or (values[0].dtype == bool and inner.name[10:] in ("add", "multiply")):
        return None
    found = function.reduce(
        values[0], axis=attr.integers(operation, "dimensions"), dtype=values[0].dtype, initial=values[1]
    )
    return np.asarray(found)


_REDUCTIONS: dict[str, np.ufunc] = {
    "stablehlo.add": np.add, "stablehlo.multiply": np.multiply, "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum, "stablehlo.and": np.bitwise_and, "stablehlo.or": np.bitwise_or,
}  # fmt: skip


def _reshape_sizes(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
    """compute_reshape_shape: at most one size is -1 and follows from the number of elements."""
    count, sizes = int(values[0]), values[1]
    known = int(np.prod(sizes[sizes != -1], dtype=object))
    if (sizes == -1).sum() > 1 or ((sizes == -1).any() and (not known or count % known)):
        return None
    return np.where(sizes == -1, count // max(known, 1), sizes)


def _reshapable(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    sizes = _reshape_sizes(operation, values)
    return np.asarray(sizes is not None and int(np.prod(sizes, dtype=object)) == int(values[0]))


def _shape_broadcast(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.broadcast_shapes(*[tuple(v.tolist()) for v in values]), np.int64)


def _broadcastable(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray:
    try:
        _shape_broadcast(operation, values)
    except ValueError:
        return np.asarray(False)
    return np.asarray(True)


# Functions of the sizes of the result.


def _broadcast_in_dim(
    operation: mlir.Operation, values: Sequence[np.ndarray], sizes: tuple[int, ...]
) -> np.ndarray:
    apart = [1] * len(sizes)
    for d, size in zip(attr.integers(operation, "broadcast_dimensions"), values[0].shape, strict=True):
        apart[d] = size
    return np.broadcast_to(values[0].reshape(apart), sizes)


def _iota(operation: mlir.Operation, values: Sequence[np.ndarray], sizes: tuple[int, ...]) -> np.ndarray:
    at = attr.integer(operation, "iota_dimension")
    apart = [-1 if d == at else 1 for d in range(len(sizes))]
    return np.broadcast_to(np.arange(sizes[at]).reshape(apart), sizes)


_SHAPED: dict[str, Callable[[mlir.Operation, Sequence[np.ndarray], tuple[int, ...]], np.ndarray]] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.iota": _iota,
    "stablehlo.reshape": lambda operation, values, sizes: values[0].reshape(sizes),
    "tensor.from_elements": lambda operation, values, sizes: np.stack(values).reshape(sizes),
}
_ARITHMETIC: dict[str, Function] = {
    "abs": _numeric(np.abs), "add": _logical(np.logical_or, np.add), "and": _numeric(np.bitwise_and),
    "ceil": _numeric(np.ceil), "divide": _divide, "floor": _numeric(np.floor),
    "maximum": _integral(np.maximum), "minimum": _integral(np.minimum),
    "multiply": _logical(np.logical_and, np.multiply), "negate": _numeric(np.negative),
    "not": _logical(np.logical_not, np.invert), "or": _numeric(np.bitwise_or), "remainder": _remainder,
    "round_nearest_even": _numeric(np.rint), "sign": _integral(np.sign), "subtract": _numeric(np.subtract),
    "xor": _numeric(np.bitwise_xor),
}  # fmt: skip
_OF_ARITH = {
    "add": "add", "divs": "divide", "maxs": "maximum", "mins": "minimum", "mul": "multiply",
    "rems": "remainder", "sub": "subtract",
}  # fmt: skip
FUNCTIONS: dict[str, Function] = {
    **by_name(
        "stablehlo.", _compare, _concatenate, _dynamic_slice, _reduce, _reverse, _slice, _transpose,
    ),
    **{f"stablehlo.{name}": function for name, function in _ARITHMETIC.items()},
    **dict.fromkeys(_SHAPED, _numeric(np.asarray)),
    **dict.fromkeys(("arith.extsi", "arith.index_cast", "arith.trunci", "stablehlo.convert"), _convert),
    **{f"arith.{short}i": _ARITHMETIC[name] for short, name in _OF_ARITH.items()},
    "arith.select": _numeric(np.where),
    "shape.broadcast": _shape_broadcast,
    "shape.concat": lambda operation, values: np.concatenate(values),
    "shape.cstr_broadcastable": _broadcastable,
    "shape.get_extent": lambda operation, values: values[0][int(values[1])],
    "shape.num_elements": lambda operation, values: np.asarray(np.prod(values[0], dtype=np.int64)),
    "shape.to_extent_tensor": _numeric(np.asarray),
    "stablehlo.clamp": _integral(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "stablehlo.compute_reshape_shape": _reshape_sizes,
    "stablehlo.cstr_reshapable": _reshapable,
    "stablehlo.optimization_barrier": lambda operation, values: values[0],
    "stablehlo.select": _numeric(np.where),
    "tensor.extract": lambda operation, values: values[0][tuple(int(v) for v in values[1:])],
}  # fmt: skip
