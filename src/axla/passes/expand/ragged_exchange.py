"""Expands ragged-all-to-all of a single participant: runs of rows of the data replace rows of the output."""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import ops
from axla.builder.broadcasting import full
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S64, U64
from axla.hlo import RaggedAllToAll
from axla.ir.attributes import PaddingConfig
from axla.ir.graph import Instruction, Module
from axla.ir.typed import shape_of
from axla.passes.expand.applied import flat
from axla.passes.expand.expander import expand, typed, written

MOST_RUNS = 64
"""The most runs of rows that are copied by straight-line code."""
_FAR = 1 << 61
"""Larger than any size of an array; sums of a few such numbers do not overflow."""


def ragged_exchange(module: Module) -> None:
    """Replaces each ragged-all-to-all of one participant by slices and selects. Those of several participants
    become steps of the program, or are rejected later.
    """
    if module.config.replica_count * module.config.num_partitions == 1:
        expand(module, "ragged-all-to-all-expander", {RaggedAllToAll: _expanded})


def _expanded(inst: Instruction[RaggedAllToAll]) -> Instruction | None:
    sizes = inst.op.replica_groups.sizes
    data, _, starts, *_ = inst.operands
    if max(sizes, default=1) > 1 or not shape_of(data).rank:
        return None
    return written(inst, _replaced) if shape_of(starts).size <= MOST_RUNS else None


def _replaced(
    inst: Instruction, data: XlaOp, output: XlaOp, starts: XlaOp, sizes: XlaOp, places: XlaOp, _: XlaOp
) -> Sequence[XlaOp]:
    """Replaces runs of rows of the output by runs of rows of the data. Run n has `sizes[n]` rows, from row
    `starts[n]` of the data and row `places[n]` of the output on.
    """
    dims, rows, builder = output.dims, output.dims[0], output.builder
    # The data between as many rows of zeros as the output has, so that every shift is a slice of it.
    edges = (rows, *[0] * (len(dims) - 1))
    wide = ops.Pad(data, ops.Zero(builder, data.dtype), PaddingConfig(edges, edges))
    row = ops.Iota(builder, S64, rows)
    for number in range(len(flat(starts))):
        start, size, place = (_bounded(flat(x)[number]) for x in (starts, sizes, places))
        moved = ops.DynamicSliceInDim(wide, start - place + rows, rows, 0)
        source = row - place + start
        inside = (row >= place) & (row < place + size) & (source >= 0) & (source < data.dims[0])
        output = ops.Select(ops.BroadcastInDim(inside, dims, [0]), moved, output)
    return [output]


def _bounded(x: XlaOp) -> XlaOp:
    """A number as s64, limited to the range from -_FAR to _FAR."""
    if x.dtype in (S64, U64):
        x = ops.Min(x, full(x, _FAR))
    x = typed(x, S64)
    return ops.Max(x, full(x, -_FAR))
