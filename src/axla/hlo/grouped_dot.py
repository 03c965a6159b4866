"""Dots with more than two operands: ragged-dot has the sizes of groups, scaled-dot has scales for blocks of
elements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from axla.core.dtypes import BF16, F8E4M3FN, F32, F64, S32, DType
from axla.core.shape import AnyShape, Shape
from axla.hlo.casting import convert
from axla.hlo.contraction import Contraction, Dot
from axla.hlo.family import arrays, show
from axla.hlo.numeric import widened
from axla.ir.attributes import Precision
from axla.ir.op import attr, op


class _Grouped(Contraction):
    """The base of ragged-dot and scaled-dot."""

    operand_precision: tuple[Precision, ...]

    @property
    def dot(self) -> Dot:
        """A dot with the dimension numbers of this op. Here a group dimension of rhs counts as a free
        dimension.
        """
        return Dot(
            self.shape, self.lhs_batch_dims, self.lhs_contracting_dims, self.rhs_batch_dims,
            self.rhs_contracting_dims, self.operand_precision,
        )  # fmt: skip


@op("ragged-dot", operands="lhs rhs group_sizes", reads_whole=True, message="ragged_dot_dimension_numbers")
class RaggedDot(_Grouped):
    """A dot in which one dimension of lhs, the ragged dimension, is divided into consecutive groups. The
    operand `group_sizes` holds the sizes of the g groups. Shapes of operands and result:

    ragged free:        [b, m, k], [g, b, k, n], [b, x, g] -> [b, m, n]   each group of rows has its own rhs
    ragged contracting: [b, m, k], [b, k, n], [b, x, g] -> [g, b, m, n]   each group has its own sum
    ragged batch:       [b, m, k], [b, k, n], [x, g] -> [b, m, n]         the groups have no effect

    x stands for the dimensions of lhs of the same kind (free, contracting or batch) that precede the ragged
    dimension. `group_sizes` may also be [g], with the same sizes everywhere. Rows beyond the last group are 0
    in the result; contracted elements beyond it are not summed.
    """

    lhs_ragged_dims: tuple[int, ...] = attr(default=(), proto="lhs_ragged_dimensions")
    rhs_group_dims: tuple[int, ...] = attr(default=(), proto="rhs_group_dimensions")
    operand_precision: tuple[Precision, ...] = attr(default=(), proto="precision_config.operand_precision")

    @property
    def is_ragged_free(self) -> bool:
        """Whether the ragged dimension is a free dimension, which is a dimension of the result."""
        return self.lhs_ragged_dims[0] not in (*self.lhs_batch_dims, *self.lhs_contracting_dims)

    @property
    def is_ragged_contracting(self) -> bool:
        """Whether the ragged dimension is a contracting dimension; then the groups are a new first dimension
        of the result.
        """
        return self.lhs_ragged_dims[0] in self.lhs_contracting_dims

    def prefix(self, rank: int) -> tuple[int, ...]:
        """The dimensions of lhs along which group sizes may differ; `rank` is that of lhs."""
        (ragged,) = self.lhs_ragged_dims
        batch, contracting = self.lhs_batch_dims, self.lhs_contracting_dims
        if ragged in batch:
            return batch[: batch.index(ragged)]
        if ragged in contracting:
            return (*batch, *contracting[: contracting.index(ragged)])
        return (*batch, *(d for d in range(ragged) if d not in batch and d not in contracting))

    def infer(self, lhs: AnyShape, rhs: AnyShape, group_sizes: AnyShape) -> Shape:
        """Returns the dims of the result with the declared dtype. The group dimension of rhs must have the
        number of groups.
        """
        left, right, sizes = arrays(self, lhs, rhs, group_sizes)
        if len(self.lhs_ragged_dims) != 1 or not 0 <= self.lhs_ragged_dims[0] < left.rank:
            self.reject("c1", f"lhs_ragged_dims={self.lhs_ragged_dims} must be one dimension of lhs")
        self.check(left, right)
        self.check_not_mixed(left, right, self.shape)
        if not sizes.dtype.is_integer or not sizes.rank:
            self.reject("c4", f"group_sizes must be an array of integers, found {show(sizes)}")
        wanted = tuple(left.dims[d] for d in self.prefix(left.rank))
        if sizes.rank > 1 and sizes.dims[:-1] != wanted:
            dims = f"[groups] or {[*wanted]} and groups"
            self.reject("c5", f"group_sizes must have the dimensions {dims}, found {show(sizes)}")
        self._check_groups(right, sizes.dims[-1])
        rows = [left.dims[d] for d in (*self.lhs_batch_dims, *self.lhs_free(left.rank))]
        columns = [right.dims[d] for d in self.rhs_free(right.rank) if d not in self.rhs_group_dims]
        result = [*rows, *columns]
        if self.is_ragged_contracting:
            result = [sizes.dims[-1], *result]
        return Shape(self.shape.dtype, result)

    def _check_groups(self, rhs: Shape, groups: int) -> None:
        free = self.rhs_free(rhs.rank)
        if len(self.rhs_group_dims) != (1 if self.is_ragged_free else 0):
            wanted = "one" if self.is_ragged_free else "no"
            found = f"rhs_group_dims={self.rhs_group_dims}"
            self.reject("c6", f"{wanted} group dimension is wanted, found {found}")
        for d in self.rhs_group_dims:
            if d not in free or rhs.dims[d] != groups:
                message = f"rhs_group_dims={{{d}}} must be a free dimension of {show(rhs)} of size {groups}"
                self.reject("c7", message)

    def evaluate(self, lhs: np.ndarray, rhs: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
        """Computes one dot for each group, with the elements of other groups set to 0 or left out of the
        result.
        """
        dtype = self.shape.dtype
        if not self.is_ragged_free and not self.is_ragged_contracting:
            return self.contract(lhs, rhs, dtype)
        lhs, rhs = widened(lhs), widened(rhs)  # types of less than 16 bits may have no 0
        groups = group_sizes.shape[-1]
        members = self._members(lhs, group_sizes.astype(np.int64))
        zero = np.zeros((), lhs.dtype)
        found = []
        for g in range(groups):
            own = np.where(members == g, lhs, zero)
            if self.is_ragged_contracting:
                found.append(self.contract(own, self._masked(rhs, members, g), dtype))
                continue
            (at,) = self.rhs_group_dims
            batch, summed = (
                tuple(d - (d > at) for d in dims) for dims in (self.rhs_batch_dims, self.rhs_contracting_dims)
            )
            one = replace(self.dot, rhs_batch_dims=batch, rhs_contracting_dims=summed)
            found.append((members == g, one.contract(lhs, np.take(rhs, g, at), dtype)))
        if self.is_ragged_contracting:
            return np.stack(found) if found else np.zeros(self.shape.dims, dtype.numpy)
        total = np.zeros(self.shape.dims).astype(dtype.numpy)
        for inside, product in found:
            total = np.where(self._as_result(inside, product.ndim), product, total)
        return total

    def _members(self, lhs: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """The number of the group of each element, in an array that broadcasts to lhs. `sizes` are the sizes
        of the groups. An element in no group has a number that is not below the number of groups.
        """
        (ragged,) = self.lhs_ragged_dims
        prefix = self.prefix(lhs.ndim)
        dims = tuple(lhs.shape[d] for d in prefix)
        ends = np.broadcast_to(np.cumsum(sizes, axis=-1), (*dims, sizes.shape[-1]))
        number = (np.arange(lhs.shape[ragged])[:, None] >= ends[..., None, :]).sum(-1)
        order = np.argsort([*prefix, ragged], kind="stable")
        kept = [lhs.shape[d] if d in prefix or d == ragged else 1 for d in range(lhs.ndim)]
        return number.transpose(order).reshape(kept)

    def _masked(self, rhs: np.ndarray, members: np.ndarray, group: int) -> np.ndarray:
        """rhs with zeros in place of the elements that are not in the group number `group`. `members` has the
        group of each element along the contracting dimensions.
        """
        place = dict(self.pairs)
        order = sorted(place, key=lambda d: place[d])
        free = [d for d in range(members.ndim) if d not in place]
        inside = members.transpose([*order, *free]).reshape([members.shape[d] for d in order])
        dims = [1] * rhs.ndim
        for d, size in zip(order, inside.shape, strict=True):
            dims[place[d]] = size
        return np.where(inside.reshape(dims) == group, rhs, np.zeros((), rhs.dtype))

    def _as_result(self, inside: np.ndarray, rank: int) -> np.ndarray:
        """Converts a mask of lhs, with size 1 in contracting dimensions, to a mask that broadcasts to the
        result, whose rank is `rank`.
        """
        order = [*self.lhs_batch_dims, *self.lhs_free(inside.ndim)]
        moved = inside.transpose([*order, *self.lhs_contracting_dims])
        return moved.reshape([*moved.shape[: len(order)], *[1] * (rank - len(order))])

    @classmethod
    def samples(cls):
        """A ragged dimension that is free (without and with a batch dimension), contracting, and a batch
        dimension.
        """

        def made(result: tuple[int, ...], shapes: list[tuple[int, ...]], **numbers: Any):
            lhs, rhs, sizes = shapes
            return (cls(Shape(F32, result), **numbers), (Shape(F32, lhs), Shape(F32, rhs), Shape(S32, sizes)))

        batch: dict[str, Any] = {"lhs_batch_dims": (0,), "rhs_batch_dims": (0,), "lhs_contracting_dims": (2,)}
        return [
            made(
                (6, 5), [(6, 4), (3, 4, 5), (3,)],
                lhs_contracting_dims=(1,), rhs_contracting_dims=(1,), lhs_ragged_dims=(0,),
                rhs_group_dims=(0,),
            ),
            made(
                (2, 6, 5), [(2, 6, 4), (2, 3, 4, 5), (2, 3)],
                **batch, rhs_contracting_dims=(2,), lhs_ragged_dims=(1,), rhs_group_dims=(1,),
            ),
            made(
                (3, 2, 6, 5), [(2, 6, 4), (2, 4, 5), (2, 3)],
                **batch, rhs_contracting_dims=(1,), lhs_ragged_dims=(2,),
            ),
            made(
                (4, 6, 5), [(4, 6, 3), (4, 3, 5), (2,)],
                **batch, rhs_contracting_dims=(1,), lhs_ragged_dims=(0,),
            ),
        ]  # fmt: skip


@op("scaled-dot", operands="lhs rhs lhs_scale rhs_scale", reads_whole=True)
class ScaledDot(_Grouped):
    """A dot of operands that are first multiplied by scales, with one scale for each block of elements.

    A scale operand has the rank of the operand that it scales, and sizes that divide those of the operand: in
    a dimension where the operand has n elements and the scale has m, each scale applies to n / m consecutive
    elements. One of the two scale operands may be a scalar.
    """

    operand_precision: tuple[Precision, ...] = attr(default=(), proto="precision_config.operand_precision")

    @property
    def wide(self) -> DType:
        """The element type of the scaled operands and of their sums."""
        return F64 if self.shape.dtype is F64 else F32

    def infer(self, lhs: AnyShape, rhs: AnyShape, lhs_scale: AnyShape, rhs_scale: AnyShape) -> Shape:
        """Returns the shape of the dot. The sizes of a scale must divide those of the operand that it
        scales.
        """
        left, right, *scales = arrays(self, lhs, rhs, lhs_scale, rhs_scale)
        for number in (left, right, *scales, self.shape):
            if number.dtype.is_complex:
                self.reject("c4", f"operands and result must be real, found {show(number)}")
        self.check(left, right)
        if all(s.is_scalar for s in scales):
            self.reject("c1", "one of the scales may be a scalar, but both are")
        for side, shape, scale in zip(("lhs", "rhs"), (left, right), scales, strict=True):
            if scale.is_scalar:
                continue
            if scale.rank != shape.rank:
                found = f"found {show(scale)} for {show(shape)}"
                self.reject("c2", f"{side}_scale must have the rank of {side}, {found}")
            for d, (n, m) in enumerate(zip(shape.dims, scale.dims, strict=True)):
                if m == 0 and n or m and n % m:
                    found = f"{show(shape)} must be a multiple of that of the scale {show(scale)}"
                    self.reject("c3", f"dimension {d} of {side} {found}")
        return self.contracted(left, right, self.shape.dtype)

    def evaluate(
        self, lhs: np.ndarray, rhs: np.ndarray, lhs_scale: np.ndarray, rhs_scale: np.ndarray
    ) -> np.ndarray:
        """Multiplies the operands by their scales in a wider type, computes the dot in it, and rounds the
        result.
        """
        wide = self.wide
        a, b = (_scaled(x, s, wide) for x, s in ((lhs, lhs_scale), (rhs, rhs_scale)))
        return convert(self.contract(a, b, wide), self.shape.dtype)

    @classmethod
    def samples(cls):
        """A dot with two scales for blocks, and one in which a scale is a scalar."""
        numbers: dict[str, Any] = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (1,)}
        small, scale = Shape(F8E4M3FN, (2, 8)), Shape(F32, (2, 2))
        return [
            (cls(Shape(F32, (2, 2)), **numbers), (small, small, scale, scale)),
            (
                cls(Shape(BF16, (2, 2)), **numbers),
                (Shape(BF16, (2, 8)), small, Shape(F32), Shape(F32, (1, 4))),
            ),
        ]


def _scaled(x: np.ndarray, scale: np.ndarray, wide: DType) -> np.ndarray:
    x = widened(x).astype(wide.numpy)
    scale = widened(scale).astype(wide.numpy)
    for d, (n, m) in enumerate(zip(x.shape, scale.shape, strict=False)):
        scale = np.repeat(scale, n // m if m else 0, axis=d)
    return x * scale
