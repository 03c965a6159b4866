"""What the operands and results of a collective must be: who copies and folds in the memory of others trusts
it.
"""

from __future__ import annotations

from math import prod

from axla.core.dtypes import S32
from axla.core.errors import VerifyError
from axla.core.shape import Shape
from axla.program.interface import Interface
from axla.program.steps import CollectiveStep

MOST = 1 << 16
"""Participants of a program."""
NUMBERS = {"replica-id": "replica", "partition-id": "partition"}
"""The steps that nobody waits for, with the fields of the frame that they read."""
_FOLDING = ("all-reduce", "reduce-scatter", "collective-reduce")
_ALONG = ("all-gather", "all-to-all")  # a dimension
_KINDS = (*_FOLDING, *_ALONG, "collective-permute", "collective-broadcast")


def check_collective(step: CollectiveStep, interface: Interface) -> None:
    """VerifyError for a collective that would leave its operands and results, apart from its kernels."""
    given, results = ([v.shape.logical for v in values] for values in (step.operands, step.results))
    meetings, count = interface.meetings, prod(interface.participants)
    groups = [meetings[n].members for n in step.meetings if 0 <= n < len(meetings)]
    group_of = {member: n for n, group in enumerate(groups) for member in group if 0 <= member < count}
    fit = len(groups) == len(step.meetings) and len(group_of) == sum(map(len, groups)) and count <= MOST
    fit &= all(group_of.get(a) == group_of.get(b, -1) for a, b in step.pairs) and len(results) > 0
    fit &= len(step.folds) in ({1, len(results)} if step.kind in _FOLDING else {0})
    if not fit or not all(_fit(step, given, results, len(group)) for group in groups):
        raise VerifyError(
            f"{step.name}: no {step.kind} is {', '.join(map(str, given))} -> {', '.join(map(str, results))} "
            f"in groups {groups} of {count} participants, with pairs {step.pairs} and kernels {step.folds}"
        )


def _fit(step: CollectiveStep, given: list[Shape], results: list[Shape], size: int) -> bool:
    """Whether operands and results are those of a group of so many members."""
    at, data = step.dimension, given[:-1] if step.dynamic_root else given
    if step.dynamic_root and given[-1:] != [Shape(S32, (len(data),))]:
        return False
    if step.kind == "ragged-all-to-all":
        return len(data) == 6 and results == data[1:2] and _ragged(*data)
    if step.kind == "all-to-all" and at is None:
        return len(data) == size and set(data) == set(results) == {data[0]}
    grows, shrinks = size if step.kind == "all-gather" else 1, size if step.kind == "reduce-scatter" else 1
    brought = [(shape.dtype, shape.byte_size * grows) for shape in data]
    fit = brought == [(shape.dtype, shape.byte_size * shrinks) for shape in results]
    return fit and step.kind in _KINDS and not (step.kind in _ALONG and at is None)


def _ragged(data: Shape, output: Shape, *indices: Shape) -> bool:
    """Rows of one kind, and an index for each member of 4 or 8 bytes."""
    rows = data.rank > 0 < output.rank and data.dims[1:] == output.dims[1:] and data.dtype is output.dtype
    return rows and len(set(indices[:3])) == 1 and str(indices[0].dtype) in ("s32", "u32", "s64", "u64")
