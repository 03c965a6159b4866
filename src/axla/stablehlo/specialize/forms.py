"""Rewrites operations that take sizes as operands to the form with sizes as attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import UnsupportedError, VerifyError
from axla.importers.records import Record
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.building import matrix, number, numbers, slice_of
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.sizes import UNKNOWN, Sizes, is_open, sizes_of


@dataclass(slots=True)
class StaticOperation:
    """The new form of an operation: its name, the numbers of the operands that it keeps, its attributes, and
    the sizes of its results if operands have them. `reducer` names a function that becomes its region.
    """

    name: str
    kept: list[int]
    attributes: dict[str, Any]
    sizes: Sizes | list[Sizes] | None = None
    reducer: str = ""


@dataclass(slots=True)
class Given:
    """An operation with the types of its operands, and their values as far as they are known."""

    operation: mlir.Operation
    types: Sequence[mlir.Type]
    values: Sequence[np.ndarray | None]

    def integers(self, number: int, what: str) -> tuple[int, ...]:
        """The value of operand `number` as integers. Raises UnsupportedError if it is not known; `what` names
        the operand in the message.
        """
        found = self.values[number] if number < len(self.values) else None
        if found is None:
            raise UnsupportedError(f"{what} (operand {number}) {UNKNOWN}")
        if found.dtype.kind not in "iu":
            raise VerifyError(f"{what} (operand {number}) must be integers, found {found.dtype}")
        return tuple(int(v) for v in found.reshape(-1))

    def result_sizes(self, number: int) -> Sizes | None:
        """The sizes of the result, which are the value of operand `number`. Returns None if the value is not
        known but the written type of the result has all sizes.
        """
        if self.values[number] is None and not is_open(self.operation.results[0].type):
            return None
        return self.integers(number, "the sizes of the result")

    def attributes(self, *without: str, **more: Any) -> dict[str, Any]:
        """The attributes of the operation except those in `without`, with `more` added or replaced."""
        return {k: v for k, v in self.operation.attributes.items() if k not in without} | more


def _attribute(kind: str, values: Sequence[int]) -> mlir.Attribute:
    """An attribute with these values: a list, or for the kind `table` a matrix with rows of (low, high)."""
    if kind == "table":
        return matrix(np.reshape(values, (-1, 2)).tolist(), 2)
    return numbers(values)


def _static(record: Record) -> Callable[[Given], StaticOperation]:
    """Makes the function that rewrites an operation to the static operation that its record names. Operands
    become attributes of the static operation, or the sizes of its result.
    """
    target, *words = record.static
    static = OPERATIONS[f"stablehlo.{target}"]
    kinds = {attribute.name: attribute.kind for attribute in static.attributes}
    numbers = {value.name: number for number, value in enumerate(record.operands)}
    gone = {word.strip("=") for word in words}
    kept = [number for name, number in numbers.items() if name not in gone]
    foreign = [attribute.name for attribute in record.attributes if attribute.name not in kinds]

    def form(given: Given) -> StaticOperation:
        found = StaticOperation(static.name, kept, given.attributes(*foreign))
        for word in words:
            if word[0] == "=":
                found.sizes = given.result_sizes(numbers[word[1:]])
                continue
            values = given.integers(numbers[word], word)
            found.attributes[word] = _attribute(kinds[word], values)
        return found

    return form


def _set_dimension_size(given: Given) -> StaticOperation | None:
    """Rewrites a set_dimension_size with a known size to a slice; else returns None, and the size stays
    bounded.
    """
    sizes, at = sizes_of(given.types[0]), attr.integer(given.operation, "dimension")
    size = given.values[1]
    if size is None or not is_open(given.operation.results[0].type) or not 0 <= at < len(sizes):
        return None
    limits = [int(size) if n == at else d for n, d in enumerate(sizes)]
    return StaticOperation("stablehlo.slice", [0], slice_of([(0, limit) for limit in limits]))


# Custom calls


def _custom_call(given: Given) -> StaticOperation | None:
    operation = given.operation
    target = operation.attributes.get("call_target_name")
    special = _TARGETS.get(target) if isinstance(target, str) else None
    if special is not None:
        return special(given)
    shapes = operation.attributes.get("indices_of_shape_operands")
    kept = list(range(len(operation.operands)))
    if shapes is None or not any(is_open(r.type) for r in operation.results):
        if target in ("Sharding", "annotate_device_placement") and len(kept) == 1:
            return StaticOperation(operation.name, kept, operation.attributes, sizes_of(given.types[0]))
        return None
    found = [given.integers(n, "the sizes of a result") for n in attr.as_integers(shapes) or ()]
    if len(found) != len(operation.results):
        attr.reject(operation, "indices_of_shape_operands", "an operand for each result")
    kept = [n for n in kept if n not in attr.integers(operation, "indices_of_shape_operands")]
    attributes = given.attributes("indices_of_shape_operands")
    layouts = attributes.get("operand_layouts")
    if isinstance(layouts, tuple) and len(layouts) == len(operation.operands):
        attributes["operand_layouts"] = tuple(layouts[n] for n in kept)
    return StaticOperation(operation.name, kept, attributes, list[Sizes](found))


def reduce_window(given: Given) -> StaticOperation:
    """Rewrites `stablehlo.dynamic_reduce_window`. Its operands are n inputs, n initial values, and the
    attributes of the window.
    """
    (reducer,) = given.operation.attributes.get("called_computations", (None,))
    if not isinstance(reducer, mlir.SymbolRef):
        attr.reject(given.operation, "called_computations", "a function")
    count = 2 * len(given.operation.results)
    wanted = enumerate(OPERATIONS["stablehlo.reduce_window"].attributes, count)
    more = {a.name: _attribute(a.kind, given.integers(number, a.name)) for number, a in wanted}
    return StaticOperation("stablehlo.reduce_window", list(range(count)), more, reducer=reducer.root)


def _top_k(given: Given) -> StaticOperation:
    (k,) = given.integers(1, "k")
    return StaticOperation("chlo.top_k", [0], {"k": number(k)}, (*sizes_of(given.types[0])[:-1], k))


def _rng_bit_generator(given: Given) -> StaticOperation:
    said = {"rng_algorithm": given.operation.attributes.get("rng_algorithm")}
    sizes: list[Sizes] = [sizes_of(given.types[0]), given.integers(1, "the sizes of the result")]
    return StaticOperation("stablehlo.rng_bit_generator", [0], said, sizes)


_TARGETS: dict[str, Callable[[Given], StaticOperation]] = {
    "stablehlo.dynamic_reduce_window": reduce_window,
    "stablehlo.dynamic_rng_bit_generator": _rng_bit_generator,
    "stablehlo.dynamic_top_k": _top_k,
}
_STATIC = {name: _static(record) for name, record in OPERATIONS.items() if record.static}
FORMS: dict[str, Callable[[Given], StaticOperation | None]] = {
    **_STATIC,
    "chlo.dynamic_reshape": _STATIC["stablehlo.dynamic_reshape"],
    "stablehlo.custom_call": _custom_call,
    "stablehlo.rng": lambda given: StaticOperation(
        "stablehlo.rng", [0, 1, 2], given.operation.attributes, given.result_sizes(2)
    ),
    "stablehlo.set_dimension_size": _set_dimension_size,
}
DYNAMIC = {name for name in _STATIC if OPERATIONS[name].why_not} | {
    "stablehlo.compute_reshape_shape", "stablehlo.cstr_reshapable", "chlo.dynamic_reshape"
}  # fmt: skip
"""Operations that the importer does not support, even if all types have known sizes."""
