"""Expands topk, and the custom calls `TopK` and `ApproxTopK`, to a sort of the elements with their
indices.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from axla.builder import ops
from axla.builder.calls import key_comparator
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.core.errors import InvalidArgument, UnsupportedError
from axla.core.shape import Shape, TupleShape
from axla.custom.attributes import parse_attributes
from axla.custom.registry import registered
from axla.hlo import Broadcast, CustomCall, GetTupleElement, Iota, Slice, Sort, TopK
from axla.ir.attributes import SliceDims
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.typed import op_of, shape_of
from axla.kernels.sort import sort_key
from axla.passes.expand.expander import expand, packed, written
from axla.passes.matrix import indices

SMALL = 8
"""The least ratio of a row's length to k for which keeping the best k in a heap is faster than a sort."""


def topk_decomposer(module: Module) -> None:
    """Writes topk as a stable sort and slices, unless the target's kernel for topk is faster."""
    expand(module, "topk-decomposer", {TopK: _topk, CustomCall: _custom_call})


def smallest_decomposer(module: Module) -> None:
    """Writes every topk of the smallest elements as a stable sort and slices, whatever its k."""
    expand(module, "topk-decomposer", {TopK: _smallest})


def _smallest(inst: Instruction) -> Instruction | None:
    op = op_of(inst, TopK)
    return None if op.largest else _sorted(inst, op.k, op.largest)


def _topk(inst: Instruction) -> Instruction | None:
    op = op_of(inst, TopK)
    return None if _has_emitter(inst.operands[0], op.k) else _sorted(inst, op.k, op.largest)


def _has_emitter(x: Instruction, k: int) -> bool:
    """Whether the kernel for topk, which keeps the best elements so far, is faster than a full sort."""
    shape = shape_of(x)
    length = shape.dims[-1]
    return shape.dtype.bits <= 32 and SMALL * k <= length < 1 << 31


def _custom_call(inst: Instruction) -> Instruction | None:
    if op_of(inst, CustomCall).custom_call_target != "TopK" or len(inst.operands) != 1:
        return None
    x, parts = inst.operands[0].shape, list(inst.shape.leaves())
    values = parts[0] if parts else None
    if isinstance(x, Shape) and isinstance(values, Shape) and x.dims and values.dims:
        wanted = x.logical.with_dims((*x.dims[:-1], min(values.dims[-1], x.dims[-1])))
        fits = inst.shape.logical is TupleShape((wanted, wanted.with_dtype(S32)))
        if fits and not x.dtype.is_complex:
            k = values.dims[-1]
            return TopK(k)(inst.operands[0]) if _has_emitter(inst.operands[0], k) else _sorted(inst, k, True)
    raise UnsupportedError(
        f"{inst}: TopK takes real numbers x[..., n] and returns (x[..., k], s32[..., k]) with k <= n"
    )


def _sorted(inst: Instruction, k: int, largest: bool) -> Instruction:
    return written(inst, _first, k, largest)


def _first(_: Instruction, k: int, largest: bool, x: XlaOp) -> Sequence[XlaOp]:
    """The first k elements of each row in order, the largest (or smallest) first, and their indices."""
    pair = [x, indices(x, len(x.dims) - 1)]
    before = key_comparator(x.builder, pair, ops.GtTotalOrder if largest else ops.LtTotalOrder)
    return [values[..., :k] for values in ops.Sort(x.builder, pair, before, -1, True)]


def approx_topk_decomposer(module: Module) -> None:
    """Writes every approximate top-k as an exact one: a topk, or a sort and slices. The requested recall is a
    lower bound, so an exact result is valid.
    """
    expand(module, "approx-topk-decomposer", {CustomCall: _approximate})


def _approximate(inst: Instruction) -> Instruction | None:
    """The replacement of one ApproxTopK call, whose operands are arrays, then their initial values; None for
    other calls.
    """
    op, computation = op_of(inst, CustomCall), inst.computation
    if op.custom_call_target != "ApproxTopK" or registered(op.custom_call_target):
        return None
    values = inst.operands[: len(inst.operands) // 2]
    dim, before, results = _selection(inst, op, values)
    k, largest = results[0].dims[dim], _takes_largest(values, dim, before)
    if largest is not None and _has_emitter(values[0], k):
        return TopK(k, largest)(values[0])
    ordered = computation.add(Sort((dim,), True, before), values)
    alone = len(values) == 1
    found = [ordered] if alone else [GetTupleElement(n)(ordered) for n in range(len(values))]
    pairs = zip(found, results, strict=True)
    parts = [computation.add(Slice(SliceDims((0,) * s.rank, s.dims)), [x], s) for x, s in pairs]
    return packed(inst.shape, parts)


def _takes_largest(values: tuple[Instruction, ...], dim: int, before: Computation) -> bool | None:
    """Whether a top-k along dimension `dim` takes the largest (True) or smallest (False) elements of rows,
    with their indices; None for other selections. `values` has the arrays, `before` is the comparator. Any of
    several equal elements may be taken.
    """
    key = sort_key(before)
    if len(values) != 2 or key is None or dim != shape_of(values[0]).rank - 1:
        return None
    numbers = {getattr(o.op, "parameter_number", -1) for o in before.root.operands}
    position = values[1]
    if isinstance(position.op, Broadcast) and position.op.dimensions == (dim,):
        dim, position = 0, position.operands[0]
    places = isinstance(position.op, Iota) and position.op.iota_dimension == dim
    return key.descending if numbers == {0, 1} and places and shape_of(position).dtype is S32 else None


def _selection(
    inst: Instruction, op: CustomCall, values: tuple[Instruction, ...]
) -> tuple[int, Computation, list[Shape]]:
    """Dimension, comparator and result shapes of an ApproxTopK call; raises UnsupportedError for a malformed
    call.
    """
    results = list(inst.shape.arrays())
    shapes = [x.shape for x in values if isinstance(x.shape, Shape)]
    config = _config(inst)
    dim = config.get("reduction_dim")
    if len(op.called_computations) != 1 or not len(shapes) == len(values) == len(results) > 0:
        raise UnsupportedError(f"{inst}: ApproxTopK takes arrays, initial values and one comparator")
    if not isinstance(dim, int) or not 0 <= dim < shapes[0].rank:
        raise UnsupportedError(f"{inst}: ApproxTopK: reduction_dim={dim} does not fit rank {shapes[0].rank}")
    size, k = results[0].dims[dim : dim + 1], config.get("top_k")
    for x, y in zip(shapes, results, strict=True):
        wanted = (*x.dims[:dim], *size, *x.dims[dim + 1 :])
        if x.dtype is not y.dtype or y.dims != wanted or size[0] > x.dims[dim]:
            raise UnsupportedError(f"{inst}: ApproxTopK of {x} along {dim} cannot return {y}")
    if k is not None and (size[0] < k or config.get("aggregate_to_topk") and size[0] != k):
        raise UnsupportedError(f"{inst}: ApproxTopK: top_k={k} does not fit the result size {size[0]}")
    return dim, op.called_computations[0], results


def _config(inst: Instruction) -> dict[str, Any]:
    """The configuration of a call as a dictionary: JSON from builders, MLIR attributes from StableHLO."""
    text = inst.extra.backend_config
    try:
        found = json.loads(text)
    except ValueError:
        found = parse_attributes(text)
    if not isinstance(found, dict):
        raise InvalidArgument(f"{inst}: ApproxTopK: the configuration is not a dictionary: {text[:100]}")
    return {name: v.item() if hasattr(v, "item") else v for name, v in found.items()}
