"""Infers the types of results from those of operands, with the verifier's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from axla.core.errors import UnsupportedError, VerifyError
from axla.stablehlo import mlir
from axla.stablehlo import reading as attr
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.sizes import Sizes, refined, sizes_of
from axla.stablehlo.verify.kinds import Broken
from axla.stablehlo.verify.structure import check_operation
from axla.stablehlo.verify.subject import Subject, TypeFacts


class _Inferred(Subject):
    """Checks an operation, and records the inferred sizes of each result."""

    __slots__ = ("sizes",)

    def __init__(self, operation: mlir.Operation, operands: Sequence[mlir.Type]) -> None:
        super().__init__(operation, TypeFacts(), {}, operands)
        self.sizes: dict[int, Sizes] = {}

    def follows(self, rules: str, extents: Sizes | None, element: Any = None, index: int = 0) -> None:
        super().follows(rules, extents, element, index)
        if extents is not None:
            self.sizes[index] = extents


def result_types(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    """The types of an operation's results for operands of these types. Raises VerifyError if they break a
    rule, and UnsupportedError if sizes cannot be inferred.
    """
    name = operation.name
    if name in _OF_TYPES:
        return _OF_TYPES[name](operation, operands)
    if name not in OPERATIONS or not OPERATIONS[name].known:
        raise UnsupportedError(_UNKNOWN)
    found = _Inferred(operation, operands)
    try:
        check_operation(found)
    except Broken as error:
        raise VerifyError(str(error)) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise VerifyError(f"its attributes do not fit its operands ({error})") from None
    written = [result.type for result in operation.results]
    if len(found.sizes) != len(written):
        raise UnsupportedError(_UNKNOWN)
    return [refined(kind, found.sizes[n]) for n, kind in enumerate(written)]


_UNKNOWN = "the sizes of its result do not follow from those of its operands"


def _all_gather(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    """The types of the results of an all_gather. The specification's rule uses the number of processes; here
    only the groups are known.
    """
    at, groups = attr.integer(operation, "all_gather_dim"), attr.matrix(operation, "replica_groups", [])
    if not groups:
        raise UnsupportedError("without replica_groups the size of its result is not known")
    found: list[mlir.Type] = []
    for result, operand in zip(operation.results, map(sizes_of, operands), strict=True):
        size = operand[at]
        gathered = None if size is None else size * len(groups[0])
        found.append(refined(result.type, (*operand[:at], gathered, *operand[at + 1 :])))
    return found


def _types(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    return list(operands)


def _element(operation: mlir.Operation, operands: Sequence[mlir.Type]) -> list[mlir.Type]:
    at, whole = attr.integer(operation, "index"), operands[0]
    if not isinstance(whole, mlir.TupleType) or not 0 <= at < len(whole.elements):
        raise VerifyError(f"index={at}: there is no such element")
    return [whole.elements[at]]


_OF_TYPES: dict[str, Callable[[mlir.Operation, Sequence[mlir.Type]], list[mlir.Type]]] = {
    "sdy.sharding_constraint": _types,
    "stablehlo.all_gather": _all_gather,
    "stablehlo.get_tuple_element": _element,
    "stablehlo.optimization_barrier": _types,
    "stablehlo.tuple": lambda operation, operands: [mlir.TupleType(tuple(operands))],
}
