"""Inverse trigonometric and hyperbolic functions of complex numbers, in terms of their real and imaginary
parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder.special import inverse
from axla.builder.xla_builder import XlaOp
from axla.hlo import Acos, Acosh, Asin, Asinh, Atanh
from axla.ir.graph import Instruction, Module
from axla.ir.typed import shape_of
from axla.passes.expand.expander import expand, written

_FUNCTIONS = {
    Acos: inverse.acos, Acosh: inverse.acosh, Asin: inverse.asin, Asinh: inverse.asinh, Atanh: inverse.atanh,
}  # fmt: skip


def inverse_function_expander(module: Module) -> None:
    """Writes acos, acosh, asin, asinh and atanh of complex numbers as arithmetic on real ones."""
    expand(module, "inverse-function-expander", dict.fromkeys(_FUNCTIONS, _expanded))


def _expanded(inst: Instruction) -> Instruction | None:
    return written(inst, _composed) if shape_of(inst).dtype.is_complex else None


def _composed(inst: Instruction, x: XlaOp) -> Sequence[XlaOp]:
    return [_FUNCTIONS[type(inst.op)](x)]
