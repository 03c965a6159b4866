"""Converts indices to values, as `iota` needs them, and tests whether all lanes of an index are inside an
array.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.codegen.function import Ssa
from axla.codegen.index import AnyIndex
from axla.codegen.types import vector
from axla.codegen.value import Value, Values
from axla.core.dtypes import PRED, S64, DType


def index_value(values: Values, position: AnyIndex, dtype: DType) -> Value:
    """Converts the index `position` to a value of type `dtype`."""
    if dtype.is_complex:
        return values.convert(index_value(values, position, dtype.real), dtype)
    if isinstance(position, int):
        return values.convert(values.constant(S64, position), dtype)
    if position.uniform:
        return values.from_index(position.base, dtype)
    part = position.vector(position.lanes)
    if position.limit < 1 << 31 and values.f.module.index_type == "i64":
        # Lanes of 32 bits need half as many registers.
        part = values.f.cast("trunc", part, vector("i32", position.lanes))
    return values.from_index(part, dtype)


def inside_everywhere(values: Values, index: Sequence[AnyIndex], sizes: Sequence[int]) -> Value | None:
    """Tests whether, in every dimension, all lanes of an index are in [0, size); the result is one pred for
    all lanes. Returns None where the test does not pay: the lanes are all the same, a constant index is out
    of range, or the lanes do not ascend with a fixed stride.
    """
    f = values.f
    if all(isinstance(i, int) or i.uniform for i in index):
        return None
    found: Ssa | None = None
    for i, size in zip(index, sizes, strict=True):
        if isinstance(i, int):
            if not 0 <= i < size:
                return None
            continue
        if i.vec is not None or i.stride < 0:
            return None
        last = i + i.stride * (i.lanes - 1)
        for test in (f.icmp("sge", i.base, 0), f.icmp("slt", last.base, size)):
            found = test if found is None else f.binary("and", found, test)
    return None if found is None else Value(PRED, 1, (found,))
