"""Specializes programs with open sizes, `tensor<?x4xf32>`, for given sizes.

A source is rewritten function by function, for the types of each call (`calls.py`); `writer.py` rewrites a
function. It folds small known values (`folding.py`), gives operations that take sizes as operands their form
with attributes (`forms.py`), infers the sizes of results from those of operands (`inference.py`), and checks
shape assertions. Sizes with an upper bound (`../sizes.py`) stay: HLO has them as `[<=n]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from axla.core.dtypes import DType, from_numpy
from axla.core.errors import AxlaError, InvalidArgument
from axla.core.shape import Shape
from axla.stablehlo import mlir
from axla.stablehlo.sizes import Bounded, is_open, refined_type, with_sizes
from axla.stablehlo.specialize.calls import FunctionInstances, InstanceRequest, Known
from axla.stablehlo.specialize.folding import element_type
from axla.stablehlo.specialize.writer import Writer
from axla.stablehlo.text import parse_type, type_text
from axla.stablehlo.types import tensor_shape
from axla.text.shapes import parse_shape

__all__ = ["specialize"]


def specialize(
    source: mlir.Source, entry: str, arg_types: Sequence[Any] | None = None,
    dim_args: Sequence[int] | None = None,
) -> mlir.Source:  # fmt: skip
    """Specializes a source for certain arguments of `entry`; returns the source itself if no size is open.

    The first arguments get the values `dim_args` and are no longer arguments. The others get the types
    `arg_types`: each is the text of an MLIR type, a Shape, anything with `shape` and `dtype`, or None for the
    written type.
    """
    made = FunctionInstances(source, Writer)
    if not made.open and arg_types is None and dim_args is None:
        return source
    made.open.add(entry)  # the entry is always rewritten, and keeps its name
    types = [a.type for block in made.functions[entry].blocks[:1] for a in block.arguments]
    dims = list(dim_args or ())
    if len(dims) > len(types):
        raise InvalidArgument(f"dim_args has {len(dims)} values, @{entry} takes {len(types)} arguments")
    if isinstance(arg_types, str):
        raise InvalidArgument(f"arg_types: a sequence of types is wanted, found {arg_types!r}")
    rest = list(arg_types) if arg_types is not None else [None] * (len(types) - len(dims))
    if len(dims) + len(rest) != len(types):
        taken = f"{len(types)} arguments, {len(dims)} of which dim_args gives"
        raise InvalidArgument(f"arg_types has {len(rest)} types; @{entry} takes {taken}")
    known = [_dimension(n, d, types[n]) for n, d in enumerate(dims)]
    given = enumerate(zip(types[len(dims) :], rest, strict=True), len(dims))
    unknown = mlir.Block([_argument(number, type_, wanted) for number, (type_, wanted) in given])
    instance = made.run(InstanceRequest(entry, [*known, *unknown.arguments], all_results=True))
    others = [op for op in source.body if op.name != "func.func"]
    kept = [op for name, op in made.functions.items() if name in made.kept]
    return source.with_body([*others, instance.operation, *made.called.values(), *kept])


# Arguments


def _dimension(number: int, value: Any, type_: mlir.Type) -> Known:
    """The argument with the value that `dim_args` has for it; raises InvalidArgument unless the value fits
    its type.
    """
    wanted = element_type(type_)
    scalar = isinstance(type_, mlir.TensorType) and type_.shape == ()
    if not scalar or wanted is None or wanted.kind not in "iu":
        message = f"dim_args[{number}]: argument {number} is {type_text(type_)}, a scalar integer is wanted"
        raise InvalidArgument(message)
    limits = np.iinfo(wanted)
    if not isinstance(value, int | np.integer) or not limits.min <= value <= limits.max:
        raise InvalidArgument(f"dim_args[{number}]={value!r}: a value of {type_text(type_)} is wanted")
    return Known(type_, np.asarray(value, wanted), None)


def _argument(number: int, written: mlir.Type, given: Any) -> mlir.Type:
    """The type of an argument: the given one if it fits the written one, else raises InvalidArgument."""
    found = written if given is None else _read(number, given, written)
    what = f"argument {number} is {type_text(written)}"
    if is_open(found):
        raise InvalidArgument(
            f"{what}: arg_types must say its sizes (--arg-types of a command), found "
            f"{'nothing' if given is None else type_text(found)}"
        )
    try:
        return refined_type(written, found)
    except AxlaError:
        raise InvalidArgument(f"arg_types: {what}, found {type_text(found)}") from None


def _read(number: int, given: Any, written: mlir.Type) -> mlir.Type:
    if isinstance(given, mlir.TensorType):
        return given
    if isinstance(given, str) and not re.match(r"\w+\[|\(", given):
        return parse_type(given)
    given = parse_shape(given) if isinstance(given, str) else given
    shape: Any = getattr(given, "dims", getattr(given, "shape", None))
    dtype = getattr(given, "dtype", None)
    try:
        sizes = tuple(int(d) for d in shape)
        if isinstance(given, Shape):
            sizes = tuple(Bounded(d) if b else d for d, b in zip(sizes, given.dynamic, strict=True))
        found = dtype if isinstance(dtype, DType) else from_numpy(np.dtype(dtype))
    except (TypeError, ValueError, AxlaError):
        wanted = f"for argument {number} the text of a type, a Shape or an object with shape and dtype"
        raise InvalidArgument(f"arg_types: {wanted} is wanted, found {given!r}") from None
    element = written.element if isinstance(written, mlir.TensorType) else written
    type_ = with_sizes(mlir.TensorType((), element), sizes)
    if tensor_shape(type_).dtype is not found:
        message = f"arg_types: argument {number} is {type_text(written)}, found {found}{list(sizes)}"
        raise InvalidArgument(message)
    return type_
