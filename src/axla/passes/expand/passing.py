"""Propagates sharding axes between the arrays that an op reads and produces, by Shardy's rules: along
factors, which say which dimensions are cut together.

If two shardings of one factor disagree, their common prefix is propagated. If two factors of an array want
the same axis, the factor from the larger array gets it; among arrays of equal size, that of the first
operand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from math import prod

from axla.core.dataclass import dataclass
from axla.core.shape import AnyShape
from axla.hlo import Broadcast, DynamicSlice, DynamicUpdateSlice, Reshape, Transpose
from axla.ir.graph import Instruction
from axla.ir.sharding import Sharding
from axla.passes.expand.factors import FactorKind, Factors
from axla.passes.expand.grid import Axes, Cutting, PrimeMesh
from axla.passes.expand.shardings import SHARDING, target_of

LEVELS = 5
"""The number of rounds of propagation; in each, more ops propagate."""


@dataclass(eq=False, slots=True)
class KnownSharding:
    """The sharding of an array, as far as it is known. `said` is the sharding that the program gives, in
    terms of the mesh; `foreign` is a sharding that the program gives and that the mesh cannot express.
    """

    shape: AnyShape
    dims: list[Axes]
    said: Cutting | None = None
    foreign: Sharding | None = None
    steps: list[ShardingRelation] = field(default_factory=list)

    @property
    def is_said(self) -> bool:
        """Whether the program gives the array a sharding, even if it cannot be expressed on the mesh."""
        return self.said is not None or self.foreign is not None

    def is_open(self, dim: int) -> bool:
        """Whether axes may be added along a dimension."""
        return self.foreign is None and (self.said is None or self.said.is_open[dim])


@dataclass(eq=False, slots=True)
class ShardingRelation:
    """Values whose shardings depend on each other: first the operands of `inst`, then its results. If `inst`
    is None, the first values become the last one (loops, branches).
    """

    values: list[KnownSharding]
    operands: int
    factors: Factors
    inst: Instruction | None = None
    is_shared: bool = False  # an operand has other users too
    settled: tuple[str, ...] = ()  # the directions in which all axes have been propagated


@dataclass(slots=True)
class Along:
    """The axes along which a factor of an array's dimension is cut. `rest`: further axes of the dimension,
    which do not divide the factor's size.
    """

    axes: Axes
    is_open: bool
    is_last: bool  # whether the factor is the last of its dimension
    rest: Axes = ()


NONE, FORWARD, BACKWARD, BOTH = "none", "forward", "backward", "both"


def direction_of(step: ShardingRelation, kind: FactorKind, level: int) -> str:
    """The direction in which a step propagates a factor in round `level`. In round 0, elementwise ops, and
    ops that compute nothing, propagate between values without other users; in round 1, also between values
    with other users. In round 2, all ops propagate factors for which a partition needs only its own parts; in
    round 3, other factors, too; in the last round, also to the results of broadcasts.
    """
    op = step.inst.op if step.inst is not None else None
    if kind is FactorKind.KEPT:
        return NONE
    if level >= 3 or (level == 2 and kind is FactorKind.PASSED):
        return BACKWARD if isinstance(op, Broadcast) and level < LEVELS - 1 else BOTH
    if level == 0 and step.is_shared:
        return NONE
    if isinstance(op, DynamicSlice | DynamicUpdateSlice):
        return FORWARD
    return BOTH if _is_elementwise(step) or isinstance(op, Reshape | Transpose) else NONE


def _is_elementwise(step: ShardingRelation) -> bool:
    return step.inst is None or step.inst.op.elementwise or target_of(step.inst) == SHARDING


def pass_on(step: ShardingRelation, directions: Sequence[str], grid: PrimeMesh) -> Iterator[KnownSharding]:
    """Propagates axes between the values of a step, along each factor in its entry of `directions`. Yields
    the values that gained axes. `grid` is the mesh.
    """
    if not any(axes for value in step.values for axes in value.dims):
        return
    factors, count = step.factors, step.operands
    pairs = [*zip(step.values, factors.arrays, strict=True)]
    arrays = [
        parts_of(value.dims, numbers, factors, grid, [*map(value.is_open, range(len(value.dims)))])
        for value, numbers in pairs
    ]
    wanted = {n: _common(arrays, count, n, direction) for n, direction in enumerate(directions)}
    order = _in_order(wanted, arrays, step, grid)
    for at in (*range(count, len(arrays)), *range(count)):
        value, parts = step.values[at], arrays[at]
        used = {axis for axes in value.dims for axis in axes}
        used.update(value.said.taken if value.said is not None else ())
        grown = False
        for number in order:
            if number not in parts:
                continue
            part, axes = parts[number], wanted[number]
            if at < count and _is_elementwise(step):  # operands need not have axes that the results lack
                for result in arrays[count:]:
                    if axes[: len(result[number].axes)] == result[number].axes:
                        axes = result[number].axes
            axes = _fitting(axes, part, used, factors.sizes[number], grid)
            if len(axes) > len(part.axes):
                part.axes = axes
                used.update(axes)
                grown = True
        if grown:
            value.dims = [
                _dim(numbers, parts, factors, grid) or axes
                for axes, numbers in zip(value.dims, factors.arrays[at], strict=True)
            ]
            yield value


def parts_of(
    dims: Sequence[Axes],
    numbers_of: Sequence[Axes],
    factors: Factors,
    grid: PrimeMesh,
    open_: Sequence[bool] = (),
) -> dict[int, Along]:
    """The axes that cut an array along each factor, by factor number. `dims` has the axes of each dimension,
    `numbers_of` the numbers of its factors. The major factors of a dimension take as many of its axes as
    divide the factors' sizes. `open_`: whether each dimension may get more axes.
    """
    found: dict[int, Along] = {}
    for dim, numbers in enumerate(numbers_of):
        axes, is_open = dims[dim], dim < len(open_) and open_[dim]
        for number in numbers[:-1]:
            size, taken = factors.sizes[number], 0
            while taken < len(axes) and size % grid.sizes[axes[taken]] == 0:
                size //= grid.sizes[axes[taken]]
                taken += 1
            found[number] = Along(axes[:taken], is_open, False)
            axes = axes[taken:]
            if size > 1 and axes:
                found[number].rest, axes, is_open = axes, (), False
        if numbers:
            found[numbers[-1]] = Along(axes, is_open, True)
    return found


def _dim(numbers: Axes, parts: dict[int, Along], factors: Factors, grid: PrimeMesh) -> Axes:
    """Concatenates the axes of a dimension's factors, up to the first factor that is not fully cut."""
    found: Axes = ()
    for number in numbers:
        part = parts[number]
        found += part.axes + part.rest
        if part.rest or grid.count(part.axes) < factors.sizes[number]:
            break
    return found


def _common(arrays: list[dict[int, Along]], operands: int, number: int, direction: str) -> Axes:
    """The longest prefix of the axes of factor `number` on which all arrays agree. The first `operands` of
    `arrays` are operands, the others results. With the direction FORWARD only operands contribute axes, with
    BACKWARD only results; the other arrays may still disagree, which shortens the prefix.
    """
    if direction == NONE:
        return ()
    groups = [arrays[:operands], arrays[operands:]]
    if direction == BACKWARD:
        groups.reverse()
    found: Axes = ()
    may_add = True
    for group in groups:
        for parts in group:
            if number not in parts:
                continue
            axes = parts[number].axes
            same = next((n for n, (a, b) in enumerate(zip(found, axes, strict=False)) if a != b), None)
            if same is not None:
                found, may_add = found[:same], False
            elif may_add and len(axes) > len(found):
                found = axes
        may_add = may_add and direction == BOTH
    return found


def _in_order(
    wanted: dict[int, Axes], arrays: list[dict[int, Along]], step: ShardingRelation, grid: PrimeMesh
) -> list[int]:
    """The numbers of the factors that have axes to propagate (`wanted`). Factors whose axes come from the
    largest array are first.
    """
    sizes = [prod(step.factors.sizes[number] for number in parts) for parts in arrays]

    def key(number: int) -> tuple[int, ...]:
        axes = wanted[number]
        sources = [
            n for n, parts in enumerate(arrays) if number in parts and parts[number].axes[: len(axes)] == axes
        ]
        source = max(sources, key=lambda n: (sizes[n], -n), default=0)
        return -sizes[source], -grid.count(axes) if _is_elementwise(step) else 0, source, number

    return sorted((number for number, axes in wanted.items() if axes), key=key)


def _fitting(wanted: Axes, part: Along, used: set[int], size: int, grid: PrimeMesh) -> Axes:
    """The longest prefix of `wanted` along which an array can be cut for a factor of size `size`. `part` has
    the array's present axes of the factor, `used` all axes of the array.
    """
    if wanted[: len(part.axes)] != part.axes or not part.is_open or part.rest:
        return part.axes
    found = part.axes
    for axis in wanted[len(found) :]:
        fits = part.is_last or size % grid.count((*found, axis)) == 0
        if axis in used or not fits:
            break
        found = (*found, axis)
    return found
