"""Where results of a matrix multiplication go: to a callback, by default one that stores them."""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.emit.pack import element_address
from axla.codegen.function import Function, Ssa
from axla.codegen.value import Value, Values
from axla.program.plans import GemmSpec
from axla.target.machine import Target

Store = Callable[[Function, Value, Ssa, Ssa, Ssa, int], None]
"""`store(f, sum, batch, row, col, lanes)` takes a finished piece of the result; `f` has frame and args."""


def default_store(spec: GemmSpec, target: Target) -> Store:
    """Stores to args[2], with the result's strides and type."""

    def store(f: Function, value: Value, batch: Ssa, row: Ssa, col: Ssa, lanes: int) -> None:
        out = f.load("ptr", f.gep("ptr", f.params["args"], f.index(2)), 8, readonly=True)
        values = Values(f, target)
        # Lanes of a result of one column run along rows.
        place = f.add(
            f.mul(batch, f.index(spec.stride("out_batch"))), f.mul(row, f.index(spec.stride("out_row")))
        )
        address = element_address(f, spec.result, out, f.add(place, col))
        values.store(values.convert(value, spec.result), address)

    return store
