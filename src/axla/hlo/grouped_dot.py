"""Dots of more than two operands: ragged-dot with the sizes of groups, scaled-dot with scales of blocks."""

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
    """Dots with more than two operands."""

    operand_precision: tuple[Precision, ...]

    @property
    def dot(self) -> Dot:
        """The dot with the same dimension numbers; free dimensions of rhs may be groups."""
        return Dot(
            self.shape, self.lhs_batch_dims, self.lhs_contracting_dims, self.rhs_batch_dims,
            self.rhs_contracting_dims, self.operand_precision,
        )  # fmt: skip


@op("ragged-dot", operands="lhs rhs group_sizes", reads_whole=True, message="ragged_dot_dimension_numbers")
class RaggedDot(_Grouped):
    """A dot whose ragged dimension of lhs is cut into groups, the sizes of which are data.

    ragged free:        [b, m, k], [g, b, k, n], [b, x, g] -> [b, m, n]   each group of rows has its own rhs
    ragged contracting: [b, m, k], [b, k, n], [b, x, g] -> [g, b, m, n]   each group is summed by itself
    ragged batch:       [b, m, k], [b, k, n], [x, g] -> [b, m, n]         a dot
    x are the dimensions of the ragged one's kind that stand before it; group sizes may also be [g] for all.
    What lies behind the last group gives 0, or is not summed.
    """

    lhs_ragged_dims: tuple[int, ...] = attr(default=(), proto="lhs_ragged_dimensions")
    rhs_group_dims: tuple[int, ...] = attr(default=(), proto="rhs_group_dimensions")
    operand_precision: tuple[Precision, ...] = attr(default=(), proto="precision_config.operand_precision")

    @property
    def is_ragged_free(self) -> bool:
        """Whether the ragged dimension is one of the result."""
        return self.lhs_ragged_dims[0] not in (*self.lhs_batch_dims, *self.lhs_contracting_dims)

    @property
    def is_ragged_contracting(self) -> bool:
        """Whether the ragged dimension is contracted: then groups are a new first dimension."""
        return self.lhs_ragged_dims[0] in self.lhs_contracting_dims

    def prefix(self, rank: int) -> tuple[int, ...]:
        """The dimensions of lhs (of this rank) along which group sizes may differ."""
        (ragged,) = self.lhs_ragged_dims
        batch, contracting = self.lhs_batch_dims, self.lhs_contracting_dims
        if ragged in batch:
            return batch[: batch.index(ragged)]
        if ragged in contracting:
            return (*batch, *contracting[: contracting.index(ragged)])
        return (*batch, *(d for d in range(ragged) if d not in batch and d not in contracting))

    def infer(self, lhs: AnyShape, rhs: AnyShape, group_sizes: AnyShape) -> Shape:
        """Returns the dims of the result in the declared dtype; groups must fit rhs."""
        left, right, sizes = arrays(self, lhs, rhs, group_sizes)
        if len(self.lhs_ragged_dims) != 1 or not 0 <= self.lhs_ragged_dims[0] < left.rank:
            self.reject("c1", f"lhs_ragged_dims={self.lhs_ragged_dims} is not one of lhs'")
        self.check(left, right)
        self.check_not_mixed(left, right, self.shape)
        if not sizes.dtype.is_integer or not sizes.rank:
            self.reject("c4", f"group sizes are integers, an array, found {show(sizes)}")
        wanted = tuple(left.dims[d] for d in self.prefix(left.rank))
        if sizes.rank > 1 and sizes.dims[:-1] != wanted:
            dims = f"[groups] or {[*wanted]} and groups"
            self.reject("c5", f"group sizes have the dimensions {dims}, found {show(sizes)}")
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
            self.reject("c6", f"{wanted} group dimension is wanted here, found {found}")
        for d in self.rhs_group_dims:
            if d not in free or rhs.dims[d] != groups:
                message = f"rhs_group_dims={{{d}}} must be a free dimension of {show(rhs)} of size {groups}"
                self.reject("c7", message)

    def evaluate(self, lhs: np.ndarray, rhs: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
        """Computes a product for each group, of operands that are masked by it."""
        dtype = self.shape.dtype
        if not self.is_ragged_free and not self.is_ragged_contracting:
            return self.contract(lhs, rhs, dtype)
        lhs, rhs = widened(lhs), widened(rhs)  # where there is a 0
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
        """The group of each element, in an array that broadcasts to lhs; a number >= the number of groups for
        elements in none.
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
        """rhs, with elements of contracting dimensions outside of a group set to zero."""
        place = dict(self.pairs)
        order = sorted(place, key=lambda d: place[d])
        free = [d for d in range(members.ndim) if d not in place]
        inside = members.transpose([*order, *free]).reshape([members.shape[d] for d in order])
        dims = [1] * rhs.ndim
        for d, size in zip(order, inside.shape, strict=True):
            dims[place[d]] = size
        return np.where(inside.reshape(dims) == group, rhs, np.zeros((), rhs.dtype))

    def _as_result(self, inside: np.ndarray, rank: int) -> np.ndarray:
        """A mask for lhs that is constant along contracting dimensions, as a mask for the result."""
        order = [*self.lhs_batch_dims, *self.lhs_free(inside.ndim)]
        moved = inside.transpose([*order, *self.lhs_contracting_dims])
        return moved.reshape([*moved.shape[: len(order)], *[1] * (rank - len(order))])

    @classmethod
    def samples(cls):
        """A ragged dimension that is free, contracted, and of the batch."""

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
    """A dot of operands that are first multiplied by scales, one for each block of elements.

    A scale has the rank of its operand, and sizes that divide the operand's: along a dimension of size n, a
    scale of size m holds for n / m neighbours. One of the two may be a scalar.
    """

    operand_precision: tuple[Precision, ...] = attr(default=(), proto="precision_config.operand_precision")

    @property
    def wide(self) -> DType:
        """The element type of scaled operands and of the sum."""
        return F64 if self.shape.dtype is F64 else F32

    def infer(self, lhs: AnyShape, rhs: AnyShape, lhs_scale: AnyShape, rhs_scale: AnyShape) -> Shape:
        """Returns the shape of the dot; sizes of a scale must divide those of its operand."""
        left, right, *scales = arrays(self, lhs, rhs, lhs_scale, rhs_scale)
        for number in (left, right, *scales, self.shape):
            if number.dtype.is_complex:
                self.reject("c4", f"real numbers are wanted, found {show(number)}")
        self.check(left, right)
        if all(s.is_scalar for s in scales):
            self.reject("c1", "at least one of the scales should be not a scalar")
        for side, shape, scale in zip(("lhs", "rhs"), (left, right), scales, strict=True):
            if scale.is_scalar:
                continue
            if scale.rank != shape.rank:
                found = f"found {show(scale)} for {show(shape)}"
                self.reject("c2", f"{side}_scale has the rank of {side}, {found}")
            for d, (n, m) in enumerate(zip(shape.dims, scale.dims, strict=True)):
                if m == 0 and n or m and n % m:
                    found = f"{show(shape)} should be a multiple of dimension {d} of {show(scale)}"
                    self.reject("c3", f"dimension {d} of {side} {found}")
        return self.contracted(left, right, self.shape.dtype)

    def evaluate(
        self, lhs: np.ndarray, rhs: np.ndarray, lhs_scale: np.ndarray, rhs_scale: np.ndarray
    ) -> np.ndarray:
        """Multiplies operands by their scales in a wide type, then computes the dot."""
        wide = self.wide
        a, b = (_scaled(x, s, wide) for x, s in ((lhs, lhs_scale), (rhs, rhs_scale)))
        return convert(self.contract(a, b, wide), self.shape.dtype)

    @classmethod
    def samples(cls):
        """Scales for blocks, and a scalar scale."""
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
