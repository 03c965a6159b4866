"""The op dot: sums of products over contracting dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import BF16, F16, F32, S8, S32, DType
from axla.core.errors import UnsupportedError
from axla.core.shape import AnyShape, Shape
from axla.hlo.casting import convert
from axla.hlo.family import are_different, arrays, show
from axla.hlo.numeric import widened
from axla.ir.attributes import Precision, Sparsity, Word
from axla.ir.op import Op, attr, op


@dataclass(frozen=True)
class Contraction(Op):
    """The dimension numbers of dot and similar ops, and the computation of a dot from them."""

    shape: Shape
    lhs_batch_dims: tuple[int, ...] = attr(default=(), proto="dot_dimension_numbers.lhs_batch_dimensions")
    lhs_contracting_dims: tuple[int, ...] = attr(
        always=True, default=(), proto="dot_dimension_numbers.lhs_contracting_dimensions"
    )
    rhs_batch_dims: tuple[int, ...] = attr(default=(), proto="dot_dimension_numbers.rhs_batch_dimensions")
    rhs_contracting_dims: tuple[int, ...] = attr(
        always=True, default=(), proto="dot_dimension_numbers.rhs_contracting_dimensions"
    )

    expensive = True
    mixes_floats = True

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs (dimension of lhs, dimension of rhs): those of the batch dimensions, then those of the
        contracting dimensions.
        """
        lhs = (*self.lhs_batch_dims, *self.lhs_contracting_dims)
        return list(zip(lhs, (*self.rhs_batch_dims, *self.rhs_contracting_dims), strict=True))

    def lhs_free(self, rank: int) -> list[int]:
        """The dimensions of lhs that are neither batch nor contracting dimensions; `rank` is that of lhs."""
        return [d for d in range(rank) if d not in (*self.lhs_batch_dims, *self.lhs_contracting_dims)]

    def rhs_free(self, rank: int) -> list[int]:
        """The dimensions of rhs that are neither batch nor contracting dimensions; `rank` is that of rhs."""
        return [d for d in range(rank) if d not in (*self.rhs_batch_dims, *self.rhs_contracting_dims)]

    def check(self, lhs: Shape, rhs: Shape, sparsity: tuple[Sparsity, ...] = ()) -> None:
        """Rejects dimension numbers that are out of range or repeated, and pairs of dimensions of lhs and rhs
        with different sizes. Sizes of sparse dimensions are those of the dense array.
        """
        for side, shape, batch, contracting in (
            ("lhs", lhs, self.lhs_batch_dims, self.lhs_contracting_dims),
            ("rhs", rhs, self.rhs_batch_dims, self.rhs_contracting_dims),
        ):
            if not are_different((*batch, *contracting), shape.rank):
                found = f"{side}_batch_dims={batch}, {side}_contracting_dims={contracting}"
                self.reject("c1", f"{found} are not different dimensions of {show(shape)}")
        for what, left, right in (
            ("batch", self.lhs_batch_dims, self.rhs_batch_dims),
            ("contracting", self.lhs_contracting_dims, self.rhs_contracting_dims),
        ):
            if len(left) != len(right):
                message = f"lhs has {len(left)} {what} dimensions, but rhs has {len(right)}"
                self.reject("c2", message)
            for a, b in zip(left, right, strict=True):
                if _stored(lhs, "L", a, sparsity) != _stored(rhs, "R", b, sparsity):
                    found = f"{what} dimension {a} of {show(lhs)} and {b} of {show(rhs)}"
                    self.reject("c3", f"{found} must have the same size")

    def check_not_mixed(self, *shapes: Shape) -> None:
        """Rejects shapes of which some are complex and some are not."""
        if len({shape.dtype.is_complex for shape in shapes}) > 1:
            self.reject("c9", f"complex and other element types cannot be mixed: {show(shapes)}")

    def contracted(self, lhs: Shape, rhs: Shape, dtype: DType) -> Shape:
        """The result shape: batch dimensions, free dimensions of lhs, free dimensions of rhs."""
        left, right = self.lhs_free(lhs.rank), self.rhs_free(rhs.rank)
        dims = [*(lhs.dims[d] for d in (*self.lhs_batch_dims, *left)), *(rhs.dims[d] for d in right)]
        pairs = zip(self.lhs_batch_dims, self.rhs_batch_dims, strict=True)
        batch = [lhs.dynamic[a] or rhs.dynamic[b] for a, b in pairs]
        free = (*(lhs.dynamic[d] for d in left), *(rhs.dynamic[d] for d in right))
        return Shape(dtype, dims, (*batch, *free) if lhs.is_dynamic or rhs.is_dynamic else ())

    def contract(self, lhs: np.ndarray, rhs: np.ndarray, dtype: DType) -> np.ndarray:
        """Computes the dot of two arrays; `dtype` is the element type of the result."""
        left_batch, left_sum = self.lhs_batch_dims, self.lhs_contracting_dims
        right_batch, right_sum = self.rhs_batch_dims, self.rhs_contracting_dims
        left_free, right_free = self.lhs_free(lhs.ndim), self.rhs_free(rhs.ndim)
        batch = [lhs.shape[d] for d in left_batch]
        rows, columns = [lhs.shape[d] for d in left_free], [rhs.shape[d] for d in right_free]
        count, depth = prod(batch), prod(lhs.shape[d] for d in left_sum)
        a = lhs.transpose([*left_batch, *left_free, *left_sum]).reshape(count, prod(rows), depth)
        b = rhs.transpose([*right_batch, *right_sum, *right_free]).reshape(count, depth, prod(columns))
        is_small = dtype.is_complex and max(a.shape[1:] + b.shape[1:]) <= 16
        multiply = _small_complex if is_small else np.matmul
        product = multiply(factor(a, dtype), factor(b, dtype))
        if dtype.is_pred:
            product = product != 0
        return product.astype(dtype.numpy).reshape([*batch, *rows, *columns])


@op("dot", operands="lhs rhs *metadata", in_line=True)
class Dot(Contraction):
    """result[batch, i, j] = sum over k of lhs[batch, i, k] * rhs[batch, j, k].

    k stands for the contracting dimensions; i and j stand for the dimensions of lhs and rhs that are neither
    batch nor contracting. The result has the batch dimensions first, then i, then j. Floats of less than 32
    bits are summed in f32 and rounded once; sums of integers wrap; for pred, the result is an or of ands. The
    result's element type may be wider than the operands'.
    """

    operand_precision: tuple[Precision, ...] = attr(default=(), proto="precision_config.operand_precision")
    algorithm: Word | None = attr(default=None, proto="precision_config.algorithm")
    sparsity: tuple[Sparsity, ...] = ()

    def infer(self, lhs: AnyShape, rhs: AnyShape, *metadata: AnyShape) -> Shape:
        """Returns the batch dimensions, then those of lhs and of rhs that are not contracted, with the
        declared dtype.
        """
        left, right, *_ = arrays(self, lhs, rhs, *metadata)
        if len(metadata) != len(self.sparsity):
            wanted = f"one operand after lhs and rhs for each of {len(self.sparsity)} entries of sparsity"
            self.reject("c10", f"{wanted} is wanted, found {len(metadata)}")
        self.check(left, right, self.sparsity)
        self.check_not_mixed(left, right, self.shape)
        return self.contracted(left, right, self.shape.dtype)

    @classmethod
    def of(cls, lhs: Shape, rhs: Shape, dtype: DType | None = None, **numbers: Any) -> Dot:
        """A dot for operands of these shapes, with the result shape inferred. `dtype` is the element type of
        the result, by default the wider one of the operands'; `numbers` are the other attributes.
        """
        draft = cls(lhs, **numbers)
        draft.check(lhs, rhs, draft.sparsity)
        wide = dtype or max(lhs.dtype, rhs.dtype, key=lambda d: d.bits)
        return cls(draft.contracted(lhs, rhs, wide), **numbers)

    def operations(self, operands: Sequence[AnyShape], result: AnyShape) -> int:
        """Counts two operations for each product: a multiplication and an addition."""
        return 2 * result.size * prod(operands[0].dims[d] for d in self.lhs_contracting_dims)

    def evaluate(self, lhs: np.ndarray, rhs: np.ndarray, *metadata: np.ndarray) -> np.ndarray:
        """Computes the sums in the type of `accumulator` and converts them to the declared dtype.
        UnsupportedError for sparse operands.
        """
        if self.sparsity:
            raise UnsupportedError("dot with sparsity is not implemented by the interpreter")
        return self.contract(lhs, rhs, self.shape.dtype)

    @classmethod
    def samples(cls):
        """Dots of arrays of several ranks and dtypes, some with different dtypes of operands and result."""

        def made(lhs: Shape, rhs: Shape, dtype: Any = None, **numbers: Any):
            return (cls.of(lhs, rhs, dtype, **numbers), (lhs, rhs))

        plain = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
        batch = {
            "lhs_batch_dims": (0,),
            "lhs_contracting_dims": (2,),
            "rhs_batch_dims": (1,),
            "rhs_contracting_dims": (0,),
        }
        return [
            made(Shape(F32, (2, 3)), Shape(F32, (3, 4)), **plain),
            made(Shape(F16, (2, 3)), Shape(F16, (3, 4)), **plain),
            made(Shape(BF16, (2, 3)), Shape(BF16, (3, 4)), F32, **plain),
            made(Shape(S8, (2, 3)), Shape(S8, (3, 4)), S32, **plain),
            made(Shape(F32, (5, 2, 3)), Shape(F32, (3, 5, 4)), **batch),
            made(Shape(F32, (2,)), Shape(F32, (3,))),
            made(Shape(F32, (3,)), Shape(F32, (3,)), lhs_contracting_dims=(0,), rhs_contracting_dims=(0,)),
        ]


def _stored(shape: Shape, side: str, dimension: int, sparsity: tuple[Sparsity, ...]) -> int:
    """The size of a dimension of the dense array that an operand stands for. `side` is the operand, L or R;
    if the dimension is sparse, the operand stores fewer elements than the dense array has.
    """
    for s in sparsity:
        if s.operand == side and s.dimension == dimension:
            return shape.dims[dimension] * s.of // s.kept
    return shape.dims[dimension]


def accumulator(dtype: DType) -> np.dtype:
    """The type in which the interpreter sums products for a result of `dtype`: exact enough, and fast in
    NumPy.
    """
    if dtype.is_float and dtype.bits < 32:
        return np.dtype(np.float32)
    if dtype.is_pred or dtype.is_integer and dtype.bits < 8:
        return np.dtype(np.int32)
    return dtype.numpy


def factor(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Converts an operand of products with results of type `dtype` to the type in which the products are
    summed.
    """
    return widened(x if dtype.is_inexact else convert(x, dtype)).astype(accumulator(dtype))


def _small_complex(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products of batches of complex matrices, summed in order of k with every product rounded, as in XLA.
    This matters where terms cancel.
    """
    (x, y), (u, v) = ((np.real(m), np.imag(m)) for m in (a, b))
    real = np.zeros((*a.shape[:2], b.shape[2]), x.dtype)
    imaginary = real.copy()
    for k in range(a.shape[2]):
        left, right = (slice(None), slice(None), k, None), (slice(None), k, None, slice(None))
        real += x[left] * u[right] - y[left] * v[right]
        imaginary += x[left] * v[right] + y[left] * u[right]
    return np.stack((real, imaginary), -1).view(a.dtype)[..., 0]
