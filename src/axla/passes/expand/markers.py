"""Custom calls that are only markers for passes of other backends (sharding, host offload); their result is
their operand.
"""

from __future__ import annotations

from axla.core.errors import UnsupportedError
from axla.hlo import Copy, CustomCall
from axla.interpreter.custom_calls import MARKERS
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand


def marker_removal(module: Module) -> None:
    """Removes custom calls that have no effect on a single device."""
    expand(module, "marker-removal", {CustomCall: _unmarked})


def _unmarked(inst: Instruction[CustomCall]) -> Instruction | None:
    """The operand of a marker, or a copy of the operand if the computation has control edges; None for other
    calls. Raises UnsupportedError if operand and result have different shapes: they are a whole array and its
    part, which needs several devices.
    """
    if inst.op.custom_call_target not in MARKERS or len(inst.operands) != 1:
        return None
    if inst.operands[0].shape.logical is not inst.shape.logical:
        raise UnsupportedError(
            f"{inst!r} converts between a whole array and its parts; set num_partitions of axla.compile "
            "to the number of devices"
        )
    return Copy()(*inst.operands) if inst.computation.has_control_edges else inst.operands[0]
