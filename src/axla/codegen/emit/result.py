"""What kernels of matrix multiplication share: their function, the loop over units, and where results go
(to a callback, by default one that stores them).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from axla.codegen.array import element_address
from axla.codegen.function import Function, Loop, Module, Ssa
from axla.codegen.value import Value, Values
from axla.kernels.dot import GemmPlan, GemmSpec
from axla.target.machine import Target

# LLVM would turn loops that copy and clear into calls of memcpy and memset.
ATTRIBUTES = 'nounwind "no-builtins"'


def product_function(module: Module, name: str, attributes: str = ATTRIBUTES) -> tuple[Function, Ssa, Ssa]:
    """(the function of a kernel, its begin, its end)."""
    params = [("ptr", "frame"), ("ptr", "args"), ("i64", "begin"), ("i64", "end")]
    f = Function(module, name, "i32", params, attributes=attributes)
    begin, end = (f.cast("trunc", f.params[p], module.index_type) for p in ("begin", "end"))
    return f, begin, end


def arguments(f: Function, *numbers: int) -> list[Ssa]:
    """The addresses in a kernel's `args`."""
    return [f.load("ptr", f.gep("ptr", f.params["args"], f.index(n)), 8) for n in numbers]


def units(f: Function, found: GemmPlan, begin: Ssa, end: Ssa) -> AbstractContextManager[Loop]:
    """The loop over the plan's units in groups [begin, end)."""
    group = f.index(found.group)
    last = f.smin(f.mul(end, group), f.index(found.units))
    return f.loop(f.mul(begin, group), last)


Store = Callable[[Function, Value, Ssa, Ssa, Ssa, int], None]
"""`store(f, sum, batch, row, col, lanes)` takes a finished piece of the result; `f` has frame and args."""


def default_store(spec: GemmSpec, target: Target) -> Store:
    """Stores to args[2], with the result's strides and type."""

    def store(f: Function, value: Value, batch: Ssa, row: Ssa, col: Ssa, lanes: int) -> None:
        out = f.load("ptr", f.gep("ptr", f.params["args"], f.index(2)), 8, readonly=True)
        values = Values(f, target)
        # Lanes of a result of one column run along rows.
        place = f.add(f.mul(batch, f.index(spec.out_batch)), f.mul(row, f.index(spec.out_row)))
        address = element_address(f, out, spec.result, f.add(place, col))
        values.store(values.convert(value, spec.result), address)

    return store
