"""Element by element: arithmetic, comparisons, special functions."""

from __future__ import annotations

import axla.ops as ops
from axla.builder.xla_builder import XlaOp
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import Call

RECORDS = """
Abs: x:T T=type -> y:T ; hlo Abs
AddV2 Add: x:T y:T T=type -> z:T ; hlo Add
Mul: x:T y:T T=type -> z:T ; hlo Mul
Sub: x:T y:T T=type -> z:T ; hlo Sub
Cast: x:SrcT SrcT=type DstT=type Truncate=bool?false -> y:DstT
"""


@lowering("Cast")
def _cast(call: Call, value: XlaOp) -> XlaOp:
    return ops.ConvertElementType(value, call.dtype("DstT"))
