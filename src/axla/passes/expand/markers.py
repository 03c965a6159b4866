"""Custom calls that only mark a place for passes of other backends (sharding, host offload); their result is
their operand.
"""

from __future__ import annotations

from axla.core.errors import UnsupportedError
from axla.hlo import Copy, CustomCall
from axla.interpreter.custom_calls import MARKERS
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand


def marker_removal(module: Module) -> None:
    """Removes custom calls that mean nothing on one device."""
    expand(module, "marker-removal", {CustomCall: _unmarked})


def _unmarked(inst: Instruction[CustomCall]) -> Instruction | None:
    """The operand of a marker, or a copy that keeps its control edges."""
    if inst.op.custom_call_target not in MARKERS or len(inst.operands) != 1:
        return None
    check_marker(inst)
    return Copy()(*inst.operands) if inst.computation.has_control_edges else inst.operands[0]


def check_marker(inst: Instruction) -> None:
    """Raises UnsupportedError for a boundary between a whole array and its parts, where there is one
    device.
    """
    if inst.operands[0].shape.logical is not inst.shape.logical:
        raise UnsupportedError(
            f"{inst!r} has on one side parts of the operands of the other; num_partitions of axla.compile "
            "says on how many devices they are"
        )
