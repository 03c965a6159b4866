"""Folds arithmetic on sizes: evaluates operations on small known values.

StableHLO operations are imported and interpreted; operations of `shape` and `tensor` have functions here.
Only computations with the same result on every backend are folded: integers, and floating-point operations
that IEEE-754 rounds exactly. An operation without an entry in a table, or with the result None, stays in the
program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from axla.core.errors import AxlaError
from axla.core.literal import Literal
from axla.interpreter import evaluate
from axla.ir.structure import Constant
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.importer import RULES
from axla.stablehlo.importer.scope import RETURNS, ImportScope, ModuleImport
from axla.stablehlo.sizes import Bounded, is_open, sizes_of

LARGEST = 64  # the most elements of a value that is folded
FoldFunction = Callable[[mlir.Operation, Sequence[np.ndarray]], "np.ndarray | None"]


def known_value(value: mlir.Attribute, type_: mlir.Type) -> np.ndarray | None:
    """The value of a constant as an array, if it is small and has a native NumPy type."""
    wanted = element_type(type_)
    if isinstance(value, mlir.DenseElements):
        small = _followed(math.prod(d or 0 for d in value.type.shape or ()), wanted)
        return attr.elements(value).astype(wanted) if small else None
    value = value.value if isinstance(value, mlir.IntegerAttr | mlir.FloatAttr) else value
    if wanted is None or not isinstance(value, bool | int | float | np.generic | np.ndarray):
        return None
    return np.asarray(value).astype(wanted)


def _followed(size: int, kind: np.dtype | None) -> bool:
    """Whether arrays of `size` elements of the type `kind` are folded. Of floats only single numbers are,
    since arrays of floats are data, not sizes.
    """
    return kind is not None and size <= (1 if kind.kind == "f" else LARGEST)


def element_type(type_: mlir.Type) -> np.dtype | None:
    """The NumPy type of a tensor's elements; None for types that are not folded."""
    element = type_.element if isinstance(type_, mlir.TensorType) else type_
    if isinstance(element, mlir.OpaqueType):
        return _SHAPE_TYPES.get(element.text)
    dtype = mlir.dtype_of(element)
    found = None if dtype is None else dtype.numpy
    return found if found is not None and found.isbuiltin == 1 and found.kind in "biuf" else None


_SHAPE_TYPES = {
    "shape.shape": np.dtype(np.int64), "shape.size": np.dtype(np.int64), "shape.witness": np.dtype(bool)
}  # fmt: skip


def folded(operation: mlir.Operation, values: Sequence[np.ndarray], type_: mlir.Type) -> np.ndarray | None:
    """Evaluates an operation on known operands; returns its only result, or None if it is not folded. `type_`
    is the type of the result, whose sizes may be open.
    """
    wanted, unknown = element_type(type_), is_open(type_)
    sizes = [] if unknown else [size for size in sizes_of(type_) if size is not None]
    if any(isinstance(size, Bounded) for size in sizes) or not _followed(math.prod(sizes), wanted):
        return None
    function = FUNCTIONS.get(operation.name)
    try:
        if function is not None:
            array = function(operation, values)
        elif not unknown and is_foldable(operation):
            array = _interpreted(operation, values, type_)
        else:
            return None
    except (AxlaError, ValueError, IndexError, TypeError, OverflowError):
        return None  # the operation is invalid, which its import will report
    if array is None or not _followed(array.size, wanted):
        return None
    return np.asarray(array if unknown else array.reshape(sizes)).astype(wanted)


def is_foldable(operation: mlir.Operation) -> bool:
    """Whether the interpreter can evaluate an operation whose operands are known."""
    inside = [op.name for block in operation.blocks for op in block.operations]
    return operation.name in INTERPRETED and INTERPRETED.keys() | RETURNS >= set(inside)


def _interpreted(operation: mlir.Operation, values: Sequence[np.ndarray], type_: mlir.Type) -> np.ndarray:
    """Evaluates an operation with the interpreter; returns its result."""
    importer = ModuleImport(mlir.Source(operation), RULES, "folded")
    scope = ImportScope(importer, importer.module.add_computation("folded", entry=True))
    for value, array in zip(operation.operands, values, strict=True):
        literal = Literal.of(array)
        scope.values[value] = scope.add(Constant(literal.shape, literal))
    name = INTERPRETED[operation.name]
    stand_in = mlir.Operation(name, operation.operands, (type_,), operation.attributes, operation.regions)
    scope.bind(stand_in, RULES[name](scope, stand_in))
    scope.computation.set_root(scope.value(stand_in.results[0]))
    return evaluate(importer.module).array


# Functions


def _reshape_sizes(operation: mlir.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
    """Evaluates compute_reshape_shape: at most one size is -1, and is computed from the number of elements.
    None if that is impossible.
    """
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


_OF_ARITH = {
    "addi": "add", "divsi": "divide", "extsi": "convert", "index_cast": "convert", "maxsi": "maximum",
    "minsi": "minimum", "muli": "multiply", "remsi": "remainder", "select": "select", "subi": "subtract",
    "trunci": "convert",
}  # fmt: skip
_FOLDED = """
    abs add and broadcast_in_dim ceil clamp compare concatenate convert divide dynamic_slice floor iota
    maximum minimum multiply negate not or reduce remainder reshape reverse round_nearest_even select sign
    slice subtract transpose xor
"""
INTERPRETED: dict[str, str] = {
    **{f"stablehlo.{name}": f"stablehlo.{name}" for name in _FOLDED.split()},
    **{f"arith.{name}": f"stablehlo.{same}" for name, same in _OF_ARITH.items()},
}
"""The operations that are interpreted, each with the StableHLO operation of the same meaning."""
FUNCTIONS: dict[str, FoldFunction] = {
    "shape.broadcast": _shape_broadcast,
    "shape.concat": lambda operation, values: np.concatenate(values),
    "shape.cstr_broadcastable": _broadcastable,
    "shape.get_extent": lambda operation, values: values[0][int(values[1])],
    "shape.num_elements": lambda operation, values: np.asarray(np.prod(values[0], dtype=np.int64)),
    "shape.to_extent_tensor": lambda operation, values: values[0],
    "stablehlo.compute_reshape_shape": _reshape_sizes,
    "stablehlo.cstr_reshapable": _reshapable,
    "stablehlo.optimization_barrier": lambda operation, values: values[0],
    "tensor.extract": lambda operation, values: values[0][tuple(int(v) for v in values[1:])],
    "tensor.from_elements": lambda operation, values: np.stack(values),
}
