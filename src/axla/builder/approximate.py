"""Approximate top-k. CPUs have no hardware for it, so the result is exact: a requested recall is only a lower
bound. The approximation only decides the number of elements returned when `aggregate_to_topk` is False.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from axla.builder.calls import GetTupleElement, Sort, Tuple
from axla.builder.coerce import several
from axla.builder.movement import SliceInDim
from axla.builder.values import boolean, dimension, integer, real
from axla.builder.xla_builder import XlaBuilder, XlaOp
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape

_LANES, _CHUNK = 128, 1024  # the result size is a multiple of _LANES for rank > 1, of _CHUNK for rank 1


def ApproxTopK(
    builder: XlaBuilder, operands: Sequence[object], init_values: Sequence[object], top_k: int,
    reduction_dim: int, comparator: object, recall_target: float | None = None,
    aggregate_to_topk: bool | None = None, reduction_input_size_override: int | None = None,
) -> XlaOp:  # fmt: skip
    """Sorts the operands along `reduction_dim` by the comparator and returns a tuple of their first elements:
    the first `top_k`, or, if `aggregate_to_topk` is False, as many as `ApproxTopKReductionOutputSize` says.
    """
    values, inits = several("ApproxTopK", builder, operands), several("ApproxTopK", builder, init_values)
    top_k = integer(top_k, "ApproxTopK: top_k")
    shapes = [v.shape for v in values]
    first = shapes[0] if shapes else None
    if not isinstance(first, Shape) or any(getattr(s, "dims", None) != first.dims for s in shapes):
        raise InvalidArgument("ApproxTopK: wanted at least one array, and all of the same dimensions")
    if [v.shape.logical for v in inits] != [Shape(v.dtype) for v in values]:
        raise InvalidArgument("ApproxTopK: wanted a scalar of each operand's type as its initial value")
    with builder.checking("ApproxTopK", values):
        dim = dimension(first, reduction_dim, "ApproxTopK: reduction_dim")
    size, _ = ApproxTopKReductionOutputSize(
        first.dims[dim], first.rank, top_k, 0.9 if recall_target is None else recall_target,
        True if aggregate_to_topk is None else aggregate_to_topk,
        -1 if reduction_input_size_override is None else reduction_input_size_override,
    )  # fmt: skip
    if not 0 < top_k <= first.dims[dim]:
        raise InvalidArgument(f"ApproxTopK: found top_k={top_k}, wanted 1 to {first.dims[dim]}")
    ordered = Sort(builder, values, comparator, dim, True)
    found = [ordered] if len(values) == 1 else [GetTupleElement(ordered, n) for n in range(len(values))]
    return Tuple(builder, [SliceInDim(v, 0, size, 1, dim) for v in found])


ApproxTopKFallback = ApproxTopK


def ApproxTopKReductionOutputSize(
    input_size: int, rank: int, top_k: int, recall_target: float, aggregate_to_topk: bool = True,
    input_size_override: int = -1,
) -> tuple[int, int]:  # fmt: skip
    """Returns (size, log2 of the window size): the number of elements that ApproxTopK returns along the
    reduced dimension, and the logarithm to base 2 of the number of elements in each window from which it
    keeps the best one. The logarithm is -1 if `aggregate_to_topk`; the size is then `top_k`.
    `input_size_override` replaces `input_size` in the computation, unless it is -1.

    With M windows, an element of the best k is alone in its window with probability ((M - 1) / M)^(k - 1),
    about exp((1 - k) / M): that is the expected recall.
    """
    what = "ApproxTopKReductionOutputSize"
    input_size, rank, top_k = (integer(value, what) for value in (input_size, rank, top_k))
    input_size_override, recall_target = integer(input_size_override, what), real(recall_target, what)
    if boolean(aggregate_to_topk, what):
        return top_k, -1
    if 0 <= input_size_override < input_size:
        given = f"input_size_override={input_size_override}"
        raise InvalidArgument(f"{what}: {given} is less than input_size={input_size}")
    if not 0 < recall_target <= 1:
        found = f"recall_target={recall_target}"
        raise InvalidArgument(f"{what}: found {found}, wanted more than 0 and at most 1")
    tiling = _CHUNK if rank == 1 else _LANES
    logical = input_size if input_size_override < 0 else input_size_override
    if top_k == 1 and input_size > tiling:
        return tiling, _log2_ceiling(-(-logical // tiling))
    if recall_target == 1 or input_size <= tiling:
        return input_size, 0
    wanted = int((1 - top_k) / math.log(recall_target))
    windows = min(max(wanted, tiling), logical)
    reduction = (logical // windows).bit_length() - 1
    if reduction == 0:
        return input_size, 0
    reduction = min(reduction, _log2_ceiling(input_size // tiling))
    tiles = -(-input_size // tiling)
    return -(-tiles // (1 << reduction)) * tiling, reduction


def _log2_ceiling(value: int) -> int:
    return (value - 1).bit_length()
