"""Operations on the diagonals of matrices: extracts diagonals, makes matrices of them, cuts out bands."""

from __future__ import annotations

from math import prod

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.core.dataclass import dataclass
from axla.core.dtypes import S32
from axla.core.shape import Shape
from axla.tensorflow.ops.common import of_dims, of_rank
from axla.tensorflow.ops.indexing import take
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, spread

RECORDS = """
MatrixBandPart BatchMatrixBandPart: input:T num_lower:Tindex num_upper:Tindex Tindex=type?DT_INT64 -> band:T
MatrixDiag BatchMatrixDiag Diag: diagonal:T -> output:T
MatrixDiagV2: diagonal:T k:i32 num_rows:i32 num_cols:i32 padding_value:T -> output:T
MatrixDiagV3: diagonal:T k:i32 num_rows:i32 num_cols:i32 padding_value:T align=sides?RIGHT_LEFT -> output:T
MatrixDiagPart BatchMatrixDiagPart DiagPart: input:T -> diagonal:T
MatrixDiagPartV2: input:T k:i32 padding_value:T -> diagonal:T
MatrixDiagPartV3: input:T k:i32 padding_value:T align=sides?RIGHT_LEFT -> diagonal:T
MatrixSetDiag BatchMatrixSetDiag: input:T diagonal:T -> output:T
MatrixSetDiagV2: input:T diagonal:T k:i32 -> output:T
MatrixSetDiagV3: input:T diagonal:T k:i32 align=sides?RIGHT_LEFT -> output:T
"""


@dataclass(frozen=True, slots=True)
class Band:
    """The diagonals `low` to `high` of a matrix; number 0 is the main diagonal, positive numbers are above
    it. In an array of diagonals, each is a row, the highest first, padded to the length of the longest.
    `align` says at which end of its row a shorter diagonal is, above and below the main one.
    """

    low: int
    high: int
    rows: int
    columns: int
    align: str

    @property
    def count(self) -> int:
        """The number of diagonals."""
        return self.high - self.low + 1

    @property
    def longest(self) -> int:
        """The length of the longest diagonal."""
        return min(self.rows + min(self.high, 0), self.columns - max(self.low, 0))

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of the array of diagonals; a single diagonal is a vector."""
        return (self.longest,) if self.count == 1 else (self.count, self.longest)

    def offset(self, diagonal: XlaOp) -> XlaOp:
        """For each number of a diagonal in `diagonal`: the index at which this diagonal begins in its row of
        the array of diagonals.
        """
        length = ops.Min(ops.Min(diagonal, 0) + self.rows, self.columns - ops.Max(diagonal, 0))
        gap = self.longest - length
        above, below = (gap if side == "RIGHT" else gap * 0 for side in self.align.split("_"))
        return ops.Select(diagonal >= 0, above, below)

    def of_matrix(self, call: OpCall) -> tuple[XlaOp, XlaOp]:
        """For each element of a matrix, its flat index in the array of diagonals, and whether it is in the
        array.
        """
        shape = Shape(S32, (self.rows, self.columns))
        row, column = (ops.Iota(call.builder, shape, d) for d in range(2))
        diagonal = column - row
        place = (self.high - diagonal) * self.longest + ops.Min(row, column) + self.offset(diagonal)
        return place, (diagonal >= self.low) & (diagonal <= self.high)

    def of_diagonals(self, call: OpCall) -> tuple[XlaOp, XlaOp]:
        """For each element of the array of diagonals, its flat index in the matrix, and whether it is in the
        matrix.
        """
        shape = Shape(S32, (self.count, self.longest))
        number, place = (ops.Iota(call.builder, shape, d) for d in range(2))
        diagonal = self.high - number
        place = place - self.offset(diagonal)
        row, column = place - ops.Min(diagonal, 0), place + ops.Max(diagonal, 0)
        inside = (place >= 0) & (row < self.rows) & (column < self.columns)
        return row * self.columns + column, inside


def _band(call: OpCall, k: XlaOp | None, rows: int, columns: int) -> Band:
    """The band of diagonals that the operand `k` selects, by default the main diagonal. Raises VerifyError if
    the band is not in matrices of `rows` rows and `columns` columns.
    """
    numbers = call.integers(k, "k") if k is not None else (0,)
    if len(numbers) not in (1, 2) or numbers[0] > numbers[-1]:
        call.fail(f"k is {list(numbers)}, wanted one diagonal, or the lowest and the highest one")
    band = Band(numbers[0], numbers[-1], rows, columns, call.attributes.get("align", "LEFT_LEFT"))
    if any(number and not -rows < number < columns for number in numbers):
        call.fail(f"k is {list(numbers)}, outside of matrices of {rows} rows and {columns} columns")
    return band


def _matrix_dims(call: OpCall, value: XlaOp) -> tuple[int, int]:
    if len(value.dims) < 2:
        call.fail(f"the operand has shape {list(value.dims)}, wanted matrices")
    rows, columns = value.dims[-2:]
    return rows, columns


def _picked(value: XlaOp, rank: int, place: XlaOp, there: XlaOp, other: XlaOp) -> XlaOp:
    """Takes elements of `value`, whose last `rank` dimensions are flattened: the element at index `place`
    where `there` is true. Elsewhere the result has the element of `other`.
    """
    outer = value.dims[: len(value.dims) - rank]
    flat = ops.Reshape(value, [*outer, prod(value.dims[len(outer) :])])
    found = take(flat, place, len(outer))
    return ops.Select(spread(there, found.dims), found, other)


# Diagonals of matrices.


@lowering("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _part(call: OpCall, value: XlaOp, k: XlaOp | None = None, padding: XlaOp | None = None) -> XlaOp:
    band = _band(call, k, *_matrix_dims(call, value))
    padding = padding if padding is not None else ops.Zero(call.builder, value.dtype)
    found = _picked(value, 2, *band.of_diagonals(call), padding)
    return ops.Reshape(found, [*value.dims[:-2], *band.dims])


@lowering("DiagPart")
def _tensor_part(call: OpCall, value: XlaOp) -> XlaOp:
    """The elements of an array of rank 2k whose first k indices equal the last k."""
    half = len(value.dims) // 2
    if not half or value.dims[:half] != value.dims[half:]:
        call.fail(f"the operand has dims {list(value.dims)}; their first half must equal the second")
    size = prod(value.dims[:half])
    return ops.Reshape(_part(call, ops.Reshape(value, [size, size])), value.dims[:half])


# Matrices made of diagonals.


@lowering("MatrixDiag", "BatchMatrixDiag")
def _matrix(call: OpCall, value: XlaOp) -> XlaOp:
    if not value.dims:
        call.fail("the operand is a scalar, wanted diagonals")
    band = _band(call, None, value.dims[-1], value.dims[-1])
    return _of_band(call, value, band, ops.Zero(call.builder, value.dtype))


def _of_band(call: OpCall, value: XlaOp, band: Band, other: XlaOp) -> XlaOp:
    """Matrices with the diagonals `value`; their other elements come from `other`, which is matrices or a
    scalar.
    """
    outer = other.dims[:-2] if other.dims else value.dims[: len(value.dims) - len(band.dims)]
    of_dims(call, value, [*outer, *band.dims], "diagonal")
    return _picked(value, len(band.dims), *band.of_matrix(call), other)


@lowering("Diag")
def _tensor(call: OpCall, value: XlaOp) -> XlaOp:
    flat = ops.Reshape(value, [value.shape.size])
    return ops.Reshape(_matrix(call, flat), [*value.dims, *value.dims])


@lowering("MatrixDiagV2", "MatrixDiagV3")
def _matrix_v2(call: OpCall, value: XlaOp, k: XlaOp, rows: XlaOp, columns: XlaOp, other: XlaOp) -> XlaOp:
    numbers = call.integers(k, "k")
    if not value.dims or len(numbers) not in (1, 2):
        call.fail(f"diagonals of shape {list(value.dims)} do not fit k, which is {list(numbers)}")
    longest = value.dims[-1]
    least = longest - min(numbers[-1], 0), longest + max(numbers[0], 0)
    height, width = call.integer(rows, "num_rows"), call.integer(columns, "num_cols")
    if height == width == -1:
        height = width = max(least)
    height, width = (least[0] if height == -1 else height), (least[1] if width == -1 else width)
    return _of_band(call, value, _band(call, k, height, width), other)


@lowering("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _set(call: OpCall, value: XlaOp, diagonal: XlaOp, k: XlaOp | None = None) -> XlaOp:
    band = _band(call, k, *_matrix_dims(call, value))
    return _of_band(call, diagonal, band, value)


@lowering("MatrixBandPart", "BatchMatrixBandPart")
def _band_part(call: OpCall, value: XlaOp, lower: XlaOp, upper: XlaOp) -> XlaOp:
    """Keeps `lower` diagonals below the main one and `upper` above it, and sets all other elements to zero. A
    negative number keeps all diagonals on that side.
    """
    shape = Shape(lower.dtype, _matrix_dims(call, value))
    of_rank(call, lower, 0, "num_lower")
    of_rank(call, upper, 0, "num_upper")
    row, column = (ops.Iota(call.builder, shape, d) for d in range(2))
    below = (lower < 0) | (row - column <= lower)
    above = (upper < 0) | (column - row <= upper)
    return ops.Select(spread(below & above, value.dims), value, ops.ZerosLike(value))
