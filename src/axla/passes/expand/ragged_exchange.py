"""ragged-all-to-all of one replica: runs of rows of the data replace rows of the output."""

from __future__ import annotations

from axla.core.dtypes import PRED, S32
from axla.core.shape import Shape
from axla.hlo import (
    Add,
    And,
    Compare,
    DynamicSlice,
    Iota,
    Pad,
    RaggedAllToAll,
    Reshape,
    Select,
    Slice,
    Subtract,
)
from axla.ir.attributes import Direction, PaddingConfig, SliceDims
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import converted, expand, scalar, shape_of, spread

MOST_RUNS = 64
"""More runs than these would be too much code."""


def ragged_exchange(module: Module) -> None:
    """Leaves exchanges between several members, for the code generator to refuse."""
    expand(module, "ragged-all-to-all-expander", {RaggedAllToAll: _expanded})


def _expanded(inst: Instruction) -> Instruction | None:
    groups = inst.op.replica_groups.groups  # type: ignore[attr-defined]
    data, result, starts, sizes, places, _ = inst.operands
    count = shape_of(starts).size
    if any(len(group) > 1 for group in groups) or count > MOST_RUNS or not shape_of(data).rank:
        return None
    for number in range(count):
        run = [_element(x, number) for x in (starts, sizes, places)]
        result = _replaced(data, result, *run)
    return result


def _element(x: Instruction, number: int) -> Instruction:
    """An element of an array, counted in row-major order, as s32."""
    flat = Reshape(Shape(shape_of(x).dtype, (shape_of(x).size,)))(x)
    one = Slice(SliceDims((number,), (number + 1,)))(flat)
    return converted(Reshape(Shape(shape_of(x).dtype))(one), S32)


def _replaced(
    data: Instruction, output: Instruction, start: Instruction, size: Instruction, place: Instruction
) -> Instruction:
    """`output` with `size` rows from `place` on replaced by rows of `data` from `start` on."""
    computation, shape = output.computation, shape_of(output)
    rows, rank = shape.dims[0], shape.rank
    # The data between as many rows of zeros as the output has: every shift is a slice of it.
    edges = (rows, *[0] * (rank - 1))
    wide = Pad(PaddingConfig(edges, edges))(data, scalar(computation, shape.dtype, 0))
    zero = scalar(computation, S32, 0)
    first = Add()(Subtract()(start, place), scalar(computation, S32, rows))
    moved = DynamicSlice((rows, *shape.dims[1:]))(wide, first, *[zero] * (rank - 1))
    row = computation.add(Iota(Shape(S32, (rows,)), 0))
    from_place = Compare(Direction.GE)(row, spread(place, Shape(S32, (rows,))))
    to_end = Compare(Direction.LT)(row, spread(Add()(place, size), Shape(S32, (rows,))))
    inside = And()(from_place, to_end)
    return Select()(spread(inside, Shape(PRED, shape.dims), (0,)), moved, output)
