"""Creates attributes and operations, for all code that writes StableHLO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from axla.stablehlo import mlir

I1, I32, I64, INDEX = mlir.IntegerType(1), mlir.IntegerType(32), mlir.IntegerType(64), mlir.IndexType()


def number(value: int, kind: mlir.Type = I64) -> mlir.IntegerAttr:
    """An integer attribute of the type `kind`, by default i64."""
    return mlir.IntegerAttr(value, kind)


def numbers(values: Iterable[Any], kind: mlir.Type = I64) -> mlir.DenseArray:
    """A dense array attribute, such as `array<i64: 1, 2>`, with elements of the type `kind`."""
    return mlir.DenseArray(kind, tuple(values))


def matrix(rows: Sequence[Sequence[int]], columns: int = 0) -> mlir.DenseElements:
    """A matrix of i64 as a dense attribute, with at least `columns` columns; shorter rows are filled with
    -1.
    """
    columns = max([columns, *map(len, rows)])
    filled = [[*row, *[-1] * (columns - len(row))] for row in rows]
    values = np.array(filled, np.int64).reshape(len(rows), columns)
    return mlir.DenseElements(mlir.TensorType(values.shape, I64), values)


def vector(values: Sequence[int], kind: mlir.Type = I64) -> mlir.DenseElements:
    """A dense attribute of rank 1 with elements of the type `kind`: `dense<[1, 2]> : tensor<2xi64>`."""
    return mlir.DenseElements(mlir.TensorType((len(values),), kind), np.array(values, np.int64))


def slice_of(ranges: Sequence[tuple[int, Any]]) -> dict[str, Any]:
    """The attributes of a slice with the strides 1; `ranges` has (start, limit) for each dimension."""
    start, limit = zip(*ranges, strict=True) if ranges else ((), ())
    ones = [1] * len(ranges)
    return {"start_indices": numbers(start), "limit_indices": numbers(limit), "strides": numbers(ones)}


class Builder:
    """Appends operations to a block and gives them the current location and position."""

    def __init__(self, block: mlir.Block) -> None:
        self.block = block
        self.location: mlir.Location | None = None
        self.position = (0, 0)

    def stand_for(self, operation: mlir.Operation) -> None:
        """Sets the location and position of later operations to those of `operation`."""
        self.location, self.position = operation.location, operation.position

    def emit(
        self, name: str, operands: Sequence[mlir.Value], types: Sequence[mlir.Type],
        attributes: dict[str, Any] | None = None, regions: list[mlir.Region] | None = None,
    ) -> list[mlir.Value]:  # fmt: skip
        """Appends a new operation, whose results have the types `types`; returns the results."""
        made = mlir.Operation(
            name, list(operands), tuple(types), attributes, regions, self.location, self.position
        )
        self.place(made)
        return made.results

    def place(self, operation: mlir.Operation) -> None:
        """Appends an operation to the block."""
        self.block.operations.append(operation)

    def make(
        self, name: str, operands: Sequence[mlir.Value], type_: mlir.Type,
        attributes: dict[str, Any] | None = None,
    ) -> mlir.Value:  # fmt: skip
        """Appends a new StableHLO operation; returns its only result."""
        return self.emit(f"stablehlo.{name}", operands, (type_,), attributes)[0]

    def parts(self, vector: mlir.Value, count: int) -> Iterator[mlir.Value]:
        """Adds slices of one element for the first `count` elements of `vector`, a tensor of rank 1. Yields
        the slices, which are tensors of rank 1, too.
        """
        one = mlir.TensorType((1,), mlir.tensor(vector.type).element)
        for n in range(count):
            yield self.make("slice", (vector,), one, slice_of([(n, n + 1)]))

    def scalars(self, vector: mlir.Value, count: int) -> list[mlir.Value]:
        """Adds operations that extract the first `count` elements of a tensor of rank 1 as scalars."""
        scalar = mlir.TensorType((), mlir.tensor(vector.type).element)
        return [self.make("reshape", (part,), scalar) for part in self.parts(vector, count)]
