"""Arrays of which only a part is valid, and functions shared by the rules for ops on them
(`dynamic_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.dtypes import S32
from axla.core.shape import AnyShape, Shape, TupleShape
from axla.hlo import And, Compare, GetTupleElement, Iota, Minimum, Select
from axla.ir.attributes import Direction
from axla.ir.graph import Extra, Instruction
from axla.ir.op import Op
from axla.ir.typed import shape_of
from axla.passes.expand.expander import converted, scalar, spread


@dataclass(frozen=True)
class Sized:
    """An array with valid sizes: the first `sizes[d]` elements of dimension d are valid; all of them if that
    is None.
    """

    data: Instruction
    sizes: tuple[Instruction | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.sizes and isinstance(self.data.shape, Shape):
            object.__setattr__(self, "sizes", (None,) * self.data.shape.rank)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The static sizes of the dimensions, which are upper bounds of the valid sizes."""
        return shape_of(self.data).dims

    def size(self, d: int) -> Instruction:
        """The valid size of dimension d, as a scalar."""
        found = self.sizes[d]
        return scalar(self.data.computation, S32, self.bounds[d]) if found is None else found

    def mask(self, dimensions: Sequence[int]) -> Instruction | None:
        """Whether each element is valid along the given dimensions, as an array of pred; None if all are."""
        found: Instruction | None = None
        for d in dimensions:
            size = self.sizes[d]
            if size is not None:
                inside = _below(shape_of(self.data), d, size)
                found = inside if found is None else And()(found, inside)
        return found

    def masked(self, dimensions: Sequence[int], fill: Instruction) -> Instruction:
        """The data with invalid elements replaced by the scalar `fill`; only the given dimensions are
        checked.
        """
        mask = self.mask(dimensions)
        if mask is None:
            return self.data
        return Select()(
            mask, self.data, spread(converted(fill, shape_of(self.data).dtype), shape_of(self.data))
        )


Result = Sized | list[Sized] | Instruction
PaddingRule = Callable[[Instruction, Sequence[Sized]], Result]


def static(shape: Shape) -> Shape:
    """The shape with all dimensions static, of their maximal sizes."""
    return Shape(shape.dtype, shape.dims)


def bounds(shape: AnyShape) -> AnyShape:
    """Like `static`, for a shape that may be a tuple."""
    if isinstance(shape, TupleShape):
        return TupleShape([bounds(s) for s in shape.elements])
    return static(shape) if isinstance(shape, Shape) else shape


def again(inst: Instruction, operands: Sequence[Instruction], op: Op | None = None) -> Instruction:
    """Adds an instruction with the op of `inst`, or with `op` if that is given, with other operands and a
    static shape.
    """
    found: Any = op or inst.op
    if found.holds_shape:
        found = replace(found, shape=bounds(found.shape))
    return inst.computation.add(found, operands, extra=Extra(location=inst.extra.location))


def _below(shape: Shape, dimension: int, size: Instruction) -> Instruction:
    places = size.computation.add(Iota(shape.with_dtype(S32).logical, dimension))
    return Compare(Direction.LT)(places, spread(size, shape_of(places)))


def number(like: Instruction, value: int) -> Instruction:
    """A scalar s32 constant in the computation of `like`."""
    return scalar(like.computation, S32, value)


def least(*sizes: Instruction | None) -> Instruction | None:
    """The minimum of those sizes that are not None; None if all are."""
    found: Instruction | None = None
    for size in dict.fromkeys(s for s in sizes if s is not None):
        found = size if found is None else Minimum()(found, size)
    return found


def together(arrays: Sequence[Sized]) -> list[Sized]:
    """Arrays of the same shape, each with the sizes up to which all of them are valid."""
    rank = len(arrays[0].sizes)
    sizes = tuple(least(*[x.sizes[d] for x in arrays]) for d in range(rank))
    return [Sized(x.data, sizes) for x in arrays]


def several(inst: Instruction, sizes: tuple[Instruction | None, ...]) -> Result:
    """The results of an instruction, all with the same dynamic sizes."""
    if isinstance(inst.shape, Shape):
        return Sized(inst, sizes)
    return [Sized(GetTupleElement(n)(inst), sizes) for n, _ in enumerate(inst.shape.leaves())]
