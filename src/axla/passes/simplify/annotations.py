"""Custom calls that are only markers for passes of other backends (sharding, host offload); their result is
their operand.
"""

from __future__ import annotations

from axla.core.errors import UnsupportedError
from axla.hlo import CustomCall
from axla.interpreter.custom_calls import MARKERS
from axla.ir.graph import Instruction, Module


def marker_removal(module: Module) -> None:
    """Removes custom calls that have no effect on a single device."""
    for computation in module.computations:
        for inst in list(computation.instructions):
            op = inst.op
            if isinstance(op, CustomCall) and op.custom_call_target in MARKERS and len(inst.operands) == 1:
                operand = inst.operands[0]
                check_marker(inst)
                computation.replace(inst, operand)
                computation.remove(inst)


def check_marker(inst: Instruction) -> None:
    """Raises UnsupportedError for a marker whose operand and result have different shapes: a whole array and
    its parts, which needs several devices.
    """
    if inst.operands[0].shape.logical is not inst.shape.logical:
        raise UnsupportedError(
            f"{inst!r} converts between a whole array and its parts; set num_partitions of axla.compile "
            "to the number of devices"
        )
