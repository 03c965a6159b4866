"""Custom calls that only mark a place for passes of other backends (sharding, host offload): they give their
operand.
"""

from __future__ import annotations

from axla.hlo import CustomCall
from axla.ir.graph import Module

MARKERS = frozenset({
    "annotate_device_placement", "LayoutConstraint", "MoveToDevice", "MoveToHost", "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
})  # fmt: skip


def marker_removal(module: Module) -> None:
    """Removes custom calls that mean nothing on one device."""
    for computation in module.computations:
        for inst in list(computation.instructions):
            op = inst.op
            if isinstance(op, CustomCall) and op.custom_call_target in MARKERS and len(inst.operands) == 1:
                operand = inst.operands[0]
                if operand.shape.logical is inst.shape.logical:
                    computation.replace(inst, operand)
                    computation.remove(inst)
