"""Expands ops of other packages by their own method `expand`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from axla.core import plugins
from axla.core.errors import UnsupportedError
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand, written

if TYPE_CHECKING:
    from axla.builder.xla_builder import XlaOp

DEEPEST = 8
"""The most rounds of expansion: an expansion may contain other ops that have a method `expand`."""


def op_expander(module: Module) -> None:
    """Replaces every op that has a method `expand(*operands)` by the result of that method. Raises
    UnsupportedError if such ops still exist after `DEEPEST` rounds.
    """
    for times in range(DEEPEST + 1):
        instructions = (inst for c in module.computations for inst in c.instructions)
        kinds = {type(inst.op) for inst in instructions if hasattr(inst.op, "expand")}
        if not kinds:
            return
        if times == DEEPEST:
            names = ", ".join(sorted(kind.opcode for kind in kinds))
            raise UnsupportedError(f"{names}: the results of expand contain such ops after {DEEPEST} rounds")
        expand(module, "op-expander", dict.fromkeys(kinds, partial(written, write=_results)))


def _results(inst: Instruction, *operands: XlaOp) -> Sequence[XlaOp]:
    from axla.builder.xla_builder import XlaOp

    with plugins.blamed(f"{inst!r}: expand"):
        found = inst.op.expand(*operands)  # type: ignore[attr-defined]
        results = (found,) if isinstance(found, XlaOp) else tuple(found)
    if [result.shape.logical for result in results] != [leaf.logical for leaf in inst.shape.leaves()]:
        shapes = ", ".join(result.shape.to_string(layout=False) for result in results)
        raise UnsupportedError(f"{inst!r}: expand returned results of other shapes: {shapes}")
    return results
