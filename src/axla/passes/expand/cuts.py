"""Cuts whole arrays into the parts of the partitions, and joins the parts to whole arrays."""

from __future__ import annotations

from math import prod

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.dtypes import PRED, S32, DType
from axla.core.errors import UnsupportedError
from axla.core.literal import Literal
from axla.core.shape import Shape
from axla.hlo import (
    Add,
    AllGather,
    AllReduce,
    Broadcast,
    Constant,
    DynamicSlice,
    DynamicUpdateSlice,
    PartitionId,
    Reshape,
    Select,
)
from axla.ir.devices import ReplicaGroups
from axla.ir.graph import Computation, Instruction
from axla.ir.sharding import Sharding, Tiles, without_axes
from axla.ir.structure import Parameter
from axla.ir.typed import shape_of

CHANNEL = 1


@dataclass(frozen=True, slots=True)
class Cut:
    """The way in which partitions divide a whole array.

    `dims`: the number of parts along each dimension, then the number of partitions with the same part, then
    the number of partitions whose arrays must be added to get a part. `partitions`: numbers of the
    partitions, row-major over `dims`.
    """

    dims: tuple[int, ...]
    partitions: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of parts along each dimension of the array."""
        return self.dims[:-2]

    @property
    def addends(self) -> int:
        """The number of partitions whose arrays must be added to get one part; 1 if each partition has the
        part itself.
        """
        return self.dims[-1]

    @property
    def axes(self) -> list[int]:
        """The axes of `dims` along which partitions have different data."""
        return [n for n, count in enumerate(self.dims) if count > 1 and n != len(self.dims) - 2]

    def divides(self, shape: Shape) -> bool:
        """Whether the dimensions of an array can be divided into parts of equal size."""
        return len(shape.dims) == len(self.counts) and not any(map(int.__mod__, shape.dims, self.counts))

    def part_of(self, shape: Shape) -> Shape:
        """The shape of the parts of an array; raises UnsupportedError if the parts would have different
        sizes.
        """
        if not self.divides(shape):
            raise UnsupportedError(f"{shape.logical} cannot be divided into {self.counts} equal parts")
        return Shape(shape.dtype, tuple(map(int.__floordiv__, shape.dims, self.counts)))

    def groups(self, axis: int, replicas: int) -> ReplicaGroups:
        """The groups of participants that differ only in their position along an axis, for each replica."""
        rows = np.moveaxis(np.reshape(self.partitions, self.dims), axis, -1).reshape(-1, self.dims[axis])
        every = np.concatenate([rows + len(self.partitions) * replica for replica in range(replicas)])
        return ReplicaGroups(tuple(map(tuple, every.tolist())))

    def places(self, axis: int) -> list[int]:
        """The position of each partition along an axis, by partition number."""
        at = np.unravel_index(np.argsort(self.partitions), self.dims)
        return at[axis].tolist()


def cut_of(sharding: Sharding | None, rank: int, partitions: int) -> Cut | None:
    """The cut that a sharding describes; None if every partition has the whole array. Raises UnsupportedError
    for a sharding of another rank or number of partitions.
    """
    what = without_axes(sharding, rank).what if sharding is not None else "replicated"
    if what == "unreduced":
        return Cut((1,) * (rank + 1) + (partitions,), tuple(range(partitions)))
    if not isinstance(what, Tiles):
        return None
    devices = what.devices if isinstance(what.devices, tuple) else tuple(what.devices.array().tolist())
    if what.rank != rank or sorted(devices) != list(range(partitions)):
        raise UnsupportedError(f"sharding {{{sharding}}} does not fit rank {rank}, {partitions} partitions")
    addends = what.dims[-1] if what.kinds[-1:] == ("unreduced",) else 1
    counts = what.dims[:rank]
    cut = Cut((*counts, partitions // prod(counts) // addends, addends), devices)
    return cut if cut.axes else None


def cut_whole(whole: Instruction, cut: Cut) -> Instruction:
    """Takes the current partition's part of a whole array. If a part is the sum of the arrays of several
    partitions, one of these takes the values, and the others take zeros.
    """
    computation, shape = whole.computation, shape_of(whole)
    part = cut.part_of(shape)
    found = whole
    if part.dims != shape.dims:
        found = DynamicSlice(part.dims)(whole, *_starts(computation, part, cut))
    if cut.addends == 1:
        return found
    is_first = looked_up(
        computation.add(PartitionId()), [place == 0 for place in cut.places(len(cut.dims) - 1)], PRED
    )
    chosen = Broadcast(Shape(PRED, part.dims), ())(is_first)
    return Select()(chosen, found, _nothing(computation, part))


def addend(part: Instruction, cut: Cut) -> Instruction:
    """A whole array with the part at its position and zeros elsewhere. The sum of these arrays over all
    partitions is the array that was cut.
    """
    computation, shape = part.computation, shape_of(part)
    dims = tuple(map(int.__mul__, shape.dims, cut.counts))
    zeros = _nothing(computation, Shape(shape.dtype, dims))
    return DynamicUpdateSlice()(zeros, part, *_starts(computation, shape, cut))


def _starts(computation: Computation, part: Shape, cut: Cut) -> list[Instruction]:
    """The start indices of the current partition's part in the whole array."""
    number = computation.add(PartitionId())
    columns = [[place * size for place in cut.places(axis)] for axis, size in enumerate(part.dims)]
    return [looked_up(number, column) for column in columns]


def _nothing(computation: Computation, shape: Shape) -> Instruction:
    zero = computation.add(Constant(Shape(shape.dtype), Literal.scalar(shape.dtype, 0)))
    return Broadcast(shape, ())(zero)


def looked_up(number: Instruction, column: list[int], dtype: DType = S32) -> Instruction:
    """The element of the constant table `column` at index `number`, which is the number of the partition.
    `dtype` is the type of the elements.
    """
    table = Literal.of(column, dtype)
    row = DynamicSlice((1,))(number.computation.add(Constant(table.shape, table)), number)
    return Reshape(Shape(dtype))(row)


def joined(part: Instruction, cut: Cut, replicas: int) -> Instruction:
    """Gathers the whole array from the parts of all partitions."""
    for axis in cut.axes:
        shape, groups = shape_of(part), cut.groups(axis, replicas)
        if axis == len(cut.dims) - 1:
            part = AllReduce(CHANNEL, groups, False, True, _sum(part))(part)
            continue
        dims = (*shape.dims[:axis], shape.dims[axis] * cut.dims[axis], *shape.dims[axis + 1 :])
        part = AllGather(Shape(shape.dtype, dims), CHANNEL, groups, False, (axis,), True)(part)
    return part


def _sum(array: Instruction) -> Computation:
    body, scalar = array.computation.module.add_computation("sum"), Shape(shape_of(array).dtype)
    a, b = (body.add(Parameter(scalar, number)) for number in range(2))
    body.set_root(Add()(a, b))
    return body
