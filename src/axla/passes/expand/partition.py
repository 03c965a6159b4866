"""Rewrites a program of whole arrays as the program of one partition, by the shardings that the propagation
found.

A partition computes its part of an op's result from parts of the operands, as far as the factors of the op
are cut. Other operands are gathered, and partial sums are added across partitions. An op without factors is
computed by every partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from os.path import commonprefix
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.dtypes import S32, S64, U32, U64
from axla.core.errors import ShapeError
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import (
    Add,
    AllReduce,
    And,
    Broadcast,
    Conditional,
    Constant,
    Convert,
    Convolution,
    CustomCall,
    Dot,
    DynamicSlice,
    Gather,
    Iota,
    Maximum,
    Minimum,
    OptBarrier,
    Or,
    PartitionId,
    Reduce,
    Reshape,
    Scatter,
    Slice,
    While,
)
from axla.ir.attributes import SliceDims
from axla.ir.clone import clone_module
from axla.ir.graph import Computation, Extra, Instruction, Module, Op
from axla.ir.structure import GetTupleElement, Parameter, Tuple
from axla.ir.traverse import post_order
from axla.ir.typed import shape_of
from axla.passes.expand.cuts import CHANNEL, Cut, addend, cut_whole, joined, looked_up
from axla.passes.expand.factors import RULE, FactorKind, Factors
from axla.passes.expand.grid import Axes, PrimeMesh
from axla.passes.expand.manual import manual_partitioning, say_borders
from axla.passes.expand.passing import KnownSharding, parts_of
from axla.passes.expand.propagation import Propagation
from axla.passes.expand.shardings import SHARDING, target_of

WASTE, SMALL = 2, 1 << 14
"""A program is partitioned only if all partitions together compute at most WASTE times as many operations as
one device would, and SMALL operations more for each partition.
"""


@dataclass(frozen=True, slots=True)
class PartitionedArray:
    """The part of an array that a partition has: the axes that cut each dimension, and the axes along which
    the part is a partial sum.
    """

    dims: tuple[Axes, ...]
    sums: Axes = ()


class _Whole(Exception):
    """Raised if the program cannot be partitioned; `partitioned` then returns None."""


def of_one_partition(module: Module) -> Module:
    """The program of one partition. If there are manual regions, or `partitioned` returns None, every
    partition computes whole arrays outside of regions.
    """
    found = Propagation(module)
    cut = None if found.has_regions else partitioned(found)
    if cut is None:
        cut = clone_module(module)
        manual_partitioning(cut, found)
    return cut


def partitioned(found: Propagation) -> Module | None:
    """Rewrites the module of the propagation as the program of one partition. Returns None if that is not
    supported, or if the partitions would do more work than one device.
    """
    grid, before = found.grid, set(found.module.computations)
    if grid is None or sorted(grid.cut(()).partitions) != list(range(found.partitions)):
        return None
    if any(value.foreign for values in found.values.values() for value in values):
        return None
    try:
        _Partitioner(found, grid).run()
    except (_Whole, ShapeError):
        for added in found.module.computations.keys() - before:
            found.module.remove_computation(added)
        return None
    return found.module


class _Partitioner:
    def __init__(self, found: Propagation, grid: PrimeMesh) -> None:
        self.found, self.grid, self.module = found, grid, found.module
        self.replicas = self.module.config.replica_count
        self.factors = {step.inst: step.factors for step in found.steps}
        self.new: dict[Instruction, Instruction] = {}
        self.computations: dict[Computation, Computation] = {}
        self.cost = self.whole_cost = 0

    def run(self) -> None:
        for computation in reversed(self.found.running):
            self.computations[computation] = self._written(computation)
        allowed = WASTE * self.whole_cost + SMALL * self.found.partitions
        if self.cost * self.found.partitions > allowed:
            raise _Whole
        self.module.set_entry(self.computations[self.module.entry])
        for old in self.computations:
            self.module.remove_computation(old)
        say_borders(self.module, self.found)

    def _written(self, old: Computation) -> Computation:
        new = self.module.add_computation(old.name)
        for inst in post_order(old):
            self.new[inst] = self._instruction(new, inst)
        values = self.found.values[old.root]
        new.set_root(self._handed_on(self.new[old.root], values, self.found.receivers.get(old, values)))
        return new

    # Parts of arrays

    def _part(self, value: KnownSharding) -> PartitionedArray:
        shape = value.shape
        if not isinstance(shape, Shape) or shape.is_dynamic:
            raise _Whole
        pairs = zip(value.dims, shape.dims, strict=True)
        dims = tuple(self.grid.parted(axes, size) for axes, size in pairs)
        return PartitionedArray(dims, value.said.unreduced if value.said is not None else ())

    def _shape(self, shape: AnyShape, parts: list[PartitionedArray]) -> AnyShape:
        """The shape with each leaf replaced by the shape of its part. `parts` has the parts of the leaves, in
        order; those that are used are removed from the list.
        """
        if shape.is_tuple:
            return TupleShape([self._shape(inner, parts) for inner in shape.parts])
        if not isinstance(shape, Shape):
            raise _Whole
        counts = map(self.grid.count, parts.pop(0).dims)
        return Shape(shape.dtype, tuple(size // n for size, n in zip(shape.dims, counts, strict=True)))

    def _as(self, value: Instruction, have: PartitionedArray, want: PartitionedArray) -> Instruction:
        """Converts `value`, the part of an array in the sharding `have`, to the part in the sharding
        `want`.
        """
        rank = len(have.dims)
        made = tuple(axis for axis in have.sums if axis not in want.sums)
        if made:
            value = self._joined(value, self.grid.cut(((),) * rank, made))
        common = [len(commonprefix(pair)) for pair in zip(have.dims, want.dims, strict=True)]
        gone = tuple(axes[n:] for axes, n in zip(have.dims, common, strict=True))
        left = tuple(axis for axis in want.sums if axis not in have.sums)
        if any(gone) and sorted(left) == sorted(chain(*gone)):
            value, left = addend(value, self.grid.cut(gone)), ()
        elif any(gone):
            value = self._joined(value, self.grid.cut(gone))
        more = tuple(axes[n:] for axes, n in zip(want.dims, common, strict=True))
        return cut_whole(value, self.grid.cut(more, left)) if any(more) or left else value

    def _joined(self, part: Instruction, cut: Cut) -> Instruction:
        whole = joined(part, cut, self.replicas)
        self.cost += shape_of(whole).size
        return whole

    def _handed_on(
        self, value: Instruction, have: Sequence[KnownSharding], want: Sequence[KnownSharding]
    ) -> Instruction:
        """Like `_as`, for a value that may be a tuple. `have` and `want` have a sharding for each leaf."""
        pairs = [(self._part(a), self._part(b)) for a, b in zip(have, want, strict=True)]

        def changed(value: Instruction) -> Instruction:
            if value.shape.is_tuple:
                inner = [changed(GetTupleElement(n)(value)) for n in range(len(value.shape.parts))]
                return value.computation.add(Tuple(), inner)
            return self._as(value, *pairs.pop(0))

        return value if all(a == b for a, b in pairs) else changed(value)

    # Instructions

    def _instruction(self, new: Computation, inst: Instruction) -> Instruction:
        op, values = inst.op, self.found.values[inst]
        given = [self.new[operand] for operand in inst.operands]
        extra = replace(inst.extra, sharding=None, frontend_attributes=())
        if inst.extra.control_predecessors:
            raise _Whole
        if isinstance(op, Parameter):
            shape = self._shape(inst.shape, [self._part(value) for value in values])
            return new.add(Parameter(shape, op.parameter_number), (), name=inst.name, extra=extra)
        if isinstance(op, Tuple | GetTupleElement):
            return new.add(op, given, extra=extra)
        if target_of(inst) == SHARDING:
            return self._handed_on(given[0], self.found.values[inst.operands[0]], values)
        if isinstance(op, While | OptBarrier):
            given = [self._handed_on(given[0], self.found.values[inst.operands[0]], values)]
        if isinstance(op, Conditional):
            chooser = self._part(*self.found.values[inst.operands[0]])
            given[0] = self._as(given[0], chooser, PartitionedArray(()))
        if isinstance(op, While | Conditional):
            op = op.with_computations(self.computations.__getitem__)
        if isinstance(op, While | Conditional | OptBarrier):
            return new.add(op, given, extra=extra)
        return self._computed(new, inst, given, extra)

    def _computed(
        self, new: Computation, inst: Instruction, given: list[Instruction], extra: Extra
    ) -> Instruction:
        """Applies the op of `inst` to `given`, parts of its operands, in the computation `new`. Converts the
        result to the sharding that was propagated. Raises _Whole if the op cannot be applied to parts.
        """
        op, values = inst.op, [value for operand in inst.operands for value in self.found.values[operand]]
        is_unknown = isinstance(op, CustomCall) and RULE not in dict(inst.extra.frontend_attributes)
        if op.side_effect or op.control or is_unknown or len(values) != len(given):
            raise _Whole
        results = self.found.values[inst]
        arrays = [*map(self._part, (*values, *results))]
        chosen = self._chosen(inst, arrays)
        numbers_of = self.factors[inst].arrays if chosen else [((),) * len(part.dims) for part in arrays]
        parts = [
            PartitionedArray(tuple(tuple(a for n in numbers for a in chosen.get(n, ())) for numbers in array))
            for array in numbers_of
        ]
        reduced = tuple(a for n, axes in chosen.items() if self._is_reduced(inst, n) for a in axes)
        if isinstance(op, Scatter):
            parts[0] = PartitionedArray(parts[0].dims, reduced)
        triples = zip(given, arrays, parts, strict=False)
        operands = [self._as(value, have, need) for value, have, need in triples]
        made = parts[len(given) :]
        shape = self._shape(inst.shape, [*made])
        if isinstance(op, Iota):
            found = self._iota(new, op, shape, made[0].dims[op.iota_dimension])
        else:
            local = _local(inst, operands, shape)
            given_shape = inst.shape if isinstance(op, CustomCall) else shape if op.holds_shape else None
            found = new.add(local, operands, given_shape, extra=extra)
        if found.shape.logical is not shape.logical:
            raise _Whole
        self._count(inst, found)
        if reduced:
            if _combiner(inst) is Add:
                made = [PartitionedArray(made[0].dims, reduced)]
            else:
                found = self._combined(found, op, reduced)
        wanted = arrays[len(given) :]
        if found.shape.is_tuple:
            leaves = [GetTupleElement(n)(found) for n in range(len(made))]
            return new.add(Tuple(), [*map(self._as, leaves, made, wanted)])
        return self._as(found, made[0], wanted[0])

    def _chosen(self, inst: Instruction, arrays: list[PartitionedArray]) -> dict[int, Axes]:
        """The axes along which the factors of an instruction are cut, by factor number: first the axes of its
        results, then those axes of its operands that are still unused. `arrays` has the parts of the
        operands, then of the results.
        """
        factors = self.factors.get(inst)
        if factors is None or isinstance(inst.op, CustomCall | Constant):
            return {}
        pairs = [*zip(arrays, factors.arrays, strict=True)]
        count = len(inst.operands)
        chosen: dict[int, Axes] = {}
        used: set[int] = set()
        for part, numbers in (*pairs[count:], *pairs[:count]):
            for number, along in parts_of(part.dims, numbers, factors, self.grid).items():
                kind = factors.kinds[number]
                can_be = kind is FactorKind.PASSED or (
                    kind is FactorKind.REDUCED and _combiner(inst) is not None
                )
                axes = along.axes
                while axes and (used.intersection(axes) or factors.sizes[number] % self.grid.count(axes)):
                    axes = axes[:-1]
                if isinstance(inst.op, Reshape):
                    can_be = all(number in chain(*array) for array in factors.arrays)
                if can_be and axes and number not in chosen:
                    chosen[number] = axes
                    used.update(axes)
        while (number := self._misplaced(factors, chosen)) is not None:
            del chosen[number]
        return chosen

    def _misplaced(self, factors: Factors, chosen: dict[int, Axes]) -> int | None:
        """The number of a factor that cannot be cut, since the factor before it in the same dimension is not
        cut into single elements; None if there is none. `chosen` has the axes of the factors that are cut.
        """
        for array in factors.arrays:
            for numbers in array:
                is_cut_up = True
                for number in numbers:
                    if number in chosen and not is_cut_up:
                        return number
                    is_cut_up = self.grid.count(chosen.get(number, ())) == factors.sizes[number]
        return None

    def _is_reduced(self, inst: Instruction, number: int) -> bool:
        return self.factors[inst].kinds[number] is FactorKind.REDUCED

    def _combined(self, part: Instruction, op: Op, axes: Axes) -> Instruction:
        assert isinstance(op, Reduce)
        cut = self.grid.cut(((),) * shape_of(part).rank, axes)
        groups = cut.groups(len(cut.dims) - 1, self.replicas)
        return AllReduce(CHANNEL, groups, False, True, op.to_apply)(part)

    def _iota(self, new: Computation, op: Iota, shape: AnyShape, axes: Axes) -> Instruction:
        """The part of an iota, which starts at the index of the part's first element. `axes` cut the iota
        dimension.
        """
        assert isinstance(shape, Shape)
        dtype = shape.dtype if shape.dtype in (S32, S64, U32, U64) else S32
        found = new.add(Iota(shape.with_dtype(dtype), op.iota_dimension))
        if axes:
            size = shape.dims[op.iota_dimension]
            column = [place * size for place in self.grid.cut((axes,)).places(0)]
            first = looked_up(new.add(PartitionId()), column, dtype)
            found = Add()(found, Broadcast(shape_of(found), ())(first))
        return found if dtype is shape.dtype else Convert(shape)(found)

    def _count(self, old: Instruction, new: Instruction) -> None:
        """Adds the cost of an instruction on one device, and that of its replacement on one partition."""
        for inst in (old, new):
            shapes = [operand.shape for operand in inst.operands]
            cost = inst.op.operations(shapes, inst.shape) + sum(leaf.size for leaf in inst.shape.arrays())
            if inst is old:
                self.whole_cost += cost
            else:
                self.cost += cost


_ANY_START = {Maximum, Minimum, And, Or}
"""The ops with which an initial value may be combined any number of times."""


def _combiner(inst: Instruction) -> type[Op] | None:
    """The class of the op that combines partial results along a reduced factor; None if the op has none."""
    op = inst.op
    if isinstance(op, Dot | Convolution):
        return Add
    if not isinstance(op, Reduce | Scatter) or not isinstance(inst.shape, Shape):
        return None
    root, start = op.to_apply.root, inst.operands[1].op
    if set(root.operands) != set(op.to_apply.parameters):
        return None
    if isinstance(op, Scatter):  # one partition has the operand, the others have zeros
        return Add if isinstance(root.op, Add) else None
    if isinstance(root.op, Add):
        return Add if isinstance(start, Constant) and start.literal.array == 0 else None
    return type(root.op) if type(root.op) in _ANY_START else None


def _local(inst: Instruction, operands: list[Instruction], shape: AnyShape) -> Op:
    """The op of `inst` for parts: attributes that are sizes of whole arrays are replaced by sizes of the
    parts. `operands` are parts, `shape` is the shape of the result's part.
    """
    op: Any = inst.op
    if isinstance(op, CustomCall):
        return op
    if op.holds_shape:
        return replace(op, shape=shape)
    if isinstance(op, Slice | DynamicSlice | Gather):
        whole, part = shape_of(inst.operands[0]).dims, shape_of(operands[0]).dims
        if isinstance(op, Gather):
            sizes = zip(op.slice_sizes, whole, part, strict=True)
            return replace(op, slice_sizes=tuple(cut if n == size else n for n, size, cut in sizes))
        assert isinstance(shape, Shape)
        if isinstance(op, DynamicSlice):
            return replace(op, dynamic_slice_sizes=shape.dims)
        limits = zip(op.slice.limits, whole, part, strict=True)
        limits = tuple(cut if n == size else n for n, size, cut in limits)
        return replace(op, slice=SliceDims(op.slice.starts, limits, op.slice.strides))
    return op
