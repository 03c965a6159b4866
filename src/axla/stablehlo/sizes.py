"""Sizes of tensors: numbers, `?`, and sizes with an upper bound, which stay dynamic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

from axla.core.errors import UnsupportedError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo.text.printer import type_text


def _bounded(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda size, other: Bounded(compute(int(size), other))


class Bounded(int):
    """The upper bound of a size that is known only at run time. Sizes that are computed from it are bounds,
    too.
    """

    __add__ = __radd__ = _bounded(operator.add)
    __mul__ = __rmul__ = _bounded(operator.mul)
    __sub__, __floordiv__ = _bounded(operator.sub), _bounded(operator.floordiv)


UNKNOWN = (
    "depends on what is known only when the program runs; give the types of the arguments (arg_types) and "
    "the values of sizes (dim_args)"
)
"""The end of messages about sizes that the caller has to provide."""

Sizes = tuple[int | None, ...]
"""The size of each dimension: a number, a Bounded, or None for `?`."""


def bounds_of(type_: mlir.TensorType) -> tuple[int | None, ...]:
    """The upper bounds of a type's dynamic sizes; empty without bounds."""
    encoding = type_.encoding
    found = encoding.fields.get("bounds", ()) if isinstance(encoding, mlir.StructAttr) else ()
    return found if isinstance(found, tuple) and len(found) == len(type_.shape or ()) else ()


def is_open(type_: mlir.Type) -> bool:
    """Whether a type has a size that is neither known nor bounded."""
    if isinstance(type_, mlir.TensorType):
        if type_.shape is None:
            return True
        return None in type_.shape and (type_.encoding is None or None in sizes_of(type_))
    if isinstance(type_, mlir.TupleType):
        return any(is_open(t) for t in type_.elements)
    return False


def sizes_of(type_: mlir.Type) -> Sizes:
    """The sizes of a tensor; () for other types. Raises UnsupportedError for an unranked tensor."""
    if not isinstance(type_, mlir.TensorType):
        return ()
    if type_.shape is None:
        raise UnsupportedError(f"{type_text(type_)}: tensors without a rank are not supported")
    if None not in type_.shape:
        return type_.shape
    bounds = bounds_of(type_) or (None,) * len(type_.shape)
    pairs = zip(type_.shape, bounds, strict=True)
    return tuple(Bounded(b) if d is None and b is not None else d for d, b in pairs)


def refined(written: mlir.Type, sizes: Sequence[int | None]) -> mlir.TensorType:
    """The written type with known sizes in place of `?`. Raises VerifyError if the sizes contradict the
    written type, and UnsupportedError if a size stays unknown.
    """
    if not isinstance(written, mlir.TensorType):
        raise VerifyError(f"a tensor is wanted, found {type_text(written)}")
    said = sizes_of(written) if written.shape is not None else (None,) * len(sizes)
    text = "x".join("?" if d is None else f"<={d}" if isinstance(d, Bounded) else str(d) for d in sizes)
    if len(said) != len(sizes):
        raise VerifyError(f"sizes [{text}] are inferred, but {type_text(written)} is written")
    found: list[int | None] = []
    for wanted, size in zip(said, sizes, strict=True):
        if wanted is not None:
            exact = not isinstance(wanted, Bounded) and not isinstance(size, Bounded)
            if size is not None and size != wanted and exact:
                raise VerifyError(f"sizes [{text}] are inferred, but {type_text(written)} is written")
            size = wanted
        if size is not None and size < 0:
            raise VerifyError(f"the inferred sizes are [{text}], but no size can be negative")
        found.append(size)
    if None in found:
        raise UnsupportedError(f"size {found.index(None)} of {type_text(written)} {UNKNOWN}")
    return with_sizes(written, found)


def with_sizes(type_: mlir.TensorType, sizes: Sequence[int | None]) -> mlir.TensorType:
    """The type with other sizes; its encoding is kept unless that consists of bounds."""
    encoding = type_.encoding
    if isinstance(encoding, mlir.StructAttr) and encoding.mnemonic == "bounds":
        encoding = None
    bounds = tuple(int(d) if isinstance(d, Bounded) else None for d in sizes)
    if any(b is not None for b in bounds):
        encoding = mlir.StructAttr("bounds", {"bounds": bounds})
    shape = tuple(None if isinstance(d, Bounded) else d for d in sizes)
    return replace(type_, shape=shape, encoding=encoding)


def refined_type(written: mlir.Type, given: mlir.Type) -> mlir.Type:
    """The given type, if it is the written one with known sizes; else raises VerifyError."""
    if isinstance(written, mlir.TensorType) and isinstance(given, mlir.TensorType):
        if written.element != given.element:
            raise VerifyError(f"the type is {type_text(given)}, but the written type is {type_text(written)}")
        return refined(written, sizes_of(given)) if given.shape is not None else written
    if type(written) is not type(given) or (written != given and not is_open(written)):
        raise VerifyError(f"the type is {type_text(given)}, but the written type is {type_text(written)}")
    return given
