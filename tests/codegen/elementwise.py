"""Compiles elementwise operations, many to a module, and runs them on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from axla.codegen import llvm
from axla.codegen.function import LlvmFunction, LlvmModule
from axla.codegen.native.image import Image
from axla.codegen.value import Value, Values, forbidden_intrinsics
from axla.core.dtypes import DType
from axla.target.machine import Target

Body = Callable[..., Value]


@dataclass(frozen=True)
class Case:
    """`body(values, *operands)` applied to arrays of `operands` types, `lanes` elements at a time."""

    name: str
    operands: tuple[DType, ...]
    result: DType
    lanes: int
    body: Body


def module_of(cases: Sequence[Case], target: Target) -> LlvmModule:
    """A module with a function `name(ptr in..., ptr out, i64 count)` per case.

    Count is a multiple of the lanes.
    """
    module = LlvmModule(target.index_type)
    for case in cases:
        params = [("ptr", f"in{k}") for k in range(len(case.operands))]
        f = LlvmFunction(module, case.name, "void", [*params, ("ptr", "out"), (target.index_type, "count")])
        values = Values(f, target)
        with f.loop(0, f.params["count"], case.lanes) as loop:
            loaded = [
                values.load(dtype, _at(f, dtype, f.params[f"in{k}"], loop.index), case.lanes)
                for k, dtype in enumerate(case.operands)
            ]
            result = case.body(values, *loaded)
            assert result.dtype is case.result, f"{case.name}: {result.dtype}, wanted {case.result}"
            values.store(values.splat(result, case.lanes), _at(f, case.result, f.params["out"], loop.index))
        f.ret()
    found = forbidden_intrinsics(list(module.declared), target)
    assert not found, f"{target.name}: intrinsics that may become calls: {found}"
    return module


def _at(f: LlvmFunction, dtype: DType, pointer, index):
    return f.gep(f"[{dtype.itemsize} x i8]", pointer, index)


class Compiled:
    """The cases of one module, loaded; call `run(name, arrays)`."""

    def __init__(self, cases: Sequence[Case], target: Target):
        self.cases = {case.name: case for case in cases}
        self.target = target
        self.image = llvm.emit_object(module_of(cases, target).text(), target)
        self._library = Image([("elementwise", self.image)], list(self.cases))

    def run(self, name: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
        case = self.cases[name]
        count = arrays[0].size
        padded = -(-count // case.lanes) * case.lanes
        ins = []
        for array, dtype in zip(arrays, case.operands, strict=True):
            whole = np.zeros(padded, dtype.numpy)
            whole[:count] = array.ravel()
            ins.append(whole)
        out = np.zeros(padded, case.result.numpy)
        index = ctypes.c_int64 if self.target.index_type == "i64" else ctypes.c_int32
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(ins) + 1), index)
        kind(self._library.addresses[name])(*[a.ctypes.data for a in ins], out.ctypes.data, padded)
        return out[:count]
