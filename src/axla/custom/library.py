"""Runs the plan of a library call on NumPy arrays, one matrix of a batch after the other, as generated code
does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from axla.core.errors import CustomCallFailure
from axla.core.shape import Shape
from axla.custom import lapack
from axla.custom.plan import NULL, OPERAND, RESULT, CallPlan, LeafAddress, Vectors
from axla.custom.routines import plan_of
from axla.custom.site import CallSite, from_memory_order, in_memory_order

_NOT_FINITE = -4


def run_library_call(site: CallSite, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Runs the library call of a call site, and returns the arrays of the results."""
    plan = plan_of(site)
    shapes = [s for s in site.operand_leaves if isinstance(s, Shape)]
    given = [np.ascontiguousarray(in_memory_order(a, s)) for a, s in zip(operands, shapes, strict=True)]
    results = [s for s in site.result_leaves if isinstance(s, Shape)]
    if len(results) != len(site.result_leaves) or len(shapes) != len(site.operand_leaves):
        raise CustomCallFailure(f"{site}: found a token as an operand or result, wanted arrays only")
    made = [np.zeros(in_memory_order(np.empty(s.dims, np.int8), s).shape, s.dtype.numpy) for s in results]
    _Run(plan, given, made).all()
    return [from_memory_order(a, s) for a, s in zip(made, results, strict=True)]


class _Run:
    def __init__(self, plan: CallPlan, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        self.plan = plan
        self.scratch = np.zeros(max(plan.scratch_bytes, 1), np.uint8)
        self.arrays = {OPERAND: operands, RESULT: results}
        for operand, result in plan.copies:
            results[result].reshape(-1)[:] = operands[operand].reshape(-1)
        for offset, data in plan.stores:
            self.scratch[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def address(self, place: LeafAddress, index: int) -> int:
        if place.base == NULL:
            return 0
        array = self.arrays[place.base][place.leaf] if place.base in self.arrays else self.scratch
        return array.ctypes.data + place.offset + index * place.stride

    def elements(self, place: LeafAddress, index: int, dtype: np.dtype, count: int) -> np.ndarray:
        """A view of `count` numbers at the address `place`, in an operand, a result or the scratch memory.
        `index` is the number of the matrix in the batch.
        """
        array = self.arrays[place.base][place.leaf] if place.base in self.arrays else self.scratch
        start = place.offset + index * place.stride
        return array.reshape(-1).view(np.uint8)[start : start + count * dtype.itemsize].view(dtype)

    def all(self) -> None:
        plan = self.plan
        real = np.dtype(np.float32 if plan.symbol[0] in "sc" else np.float64)
        call = lapack.routine(plan.symbol, len(plan.arguments))
        for index in range(plan.batch):
            for source, target, size in plan.copied:
                kind = np.dtype(np.uint8)
                self.elements(target, index, kind, size)[:] = self.elements(source, index, kind, size)
            if plan.finite is not None:
                place, count = plan.finite
                if not np.isfinite(self.elements(place, index, real, count)).all():
                    assert plan.info is not None
                    self.elements(plan.info, index, np.dtype(np.int32), 1)[0] = _NOT_FINITE
                    continue
            call(*[self.address(a, index) for a in plan.arguments])
            for vectors in plan.vectors:
                self.unpack(vectors, index, real)

    def unpack(self, vectors: Vectors, index: int, real: np.dtype) -> None:
        n = self.plan.order
        packed = self.elements(vectors.packed, index, real, n * n).reshape(n, n)  # each row is a vector
        imaginary = self.elements(vectors.imaginary, index, real, n)
        kind = np.result_type(real, np.complex64)
        result = self.elements(vectors.result, index, kind, n * n).reshape(n, n)
        for k in range(n):
            if imaginary[k] > 0:
                result[k].real, result[k].imag = packed[k], packed[min(k + 1, n - 1)]
            elif imaginary[k] < 0:
                result[k].real, result[k].imag = packed[max(k - 1, 0)], -packed[k]
            else:
                result[k].real, result[k].imag = packed[k], 0
