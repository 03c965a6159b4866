"""Matrix multiplication: out[b] = lhs[b] * rhs[b], with an epilogue applied where a result is stored.

`plan` decides, from sizes and Target, how the work is cut; `emit` writes the kernels of a plan:

    i32 name(ptr frame, ptr args, i64 begin, i64 end)      args: lhs, rhs, out, scratch, whatever the store reads

[begin, end) is a range of the plan's units. Every element's sum is taken in the same order whatever the range, so results
do not depend on how a kernel is split.
"""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.emit.gemm_plan import GemmPlan, GemmSpec, lhs_stride, plan
from axla.codegen.emit.microkernel import (
    Accumulation, Operand, Parts, emit_microkernel, join_parts, load_parts, part_bytes, part_count, part_type,
    store_parts,
)  # fmt: skip
from axla.codegen.emit.pack import Packing, floor_power, pack_columns, pack_rows, pack_steps, pack_transposed, pieces
from axla.codegen.function import Function, Module, Ssa, vector
from axla.codegen.target import Target

__all__ = ["GemmPlan", "GemmSpec", "Store", "emit", "plan"]

Store = Callable[[Function, Parts, Ssa, Ssa, Ssa, int], None]
