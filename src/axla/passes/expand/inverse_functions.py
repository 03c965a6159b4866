"""Inverse trigonometric and hyperbolic functions of complex numbers, in functions of their parts."""

from __future__ import annotations

from axla.builder import XlaBuilder, inverse
from axla.hlo import Acos, Acosh, Asin, Asinh, Atanh
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import expand, shape_of

_FUNCTIONS = {
    Acos: inverse.acos, Acosh: inverse.acosh, Asin: inverse.asin, Asinh: inverse.asinh, Atanh: inverse.atanh,
}  # fmt: skip


def inverse_function_expander(module: Module) -> None:
    """Writes acos, acosh, asin, asinh and atanh of complex numbers as arithmetic on real ones."""
    expand(module, "inverse-function-expander", dict.fromkeys(_FUNCTIONS, _composed))


def _composed(inst: Instruction) -> Instruction | None:
    (operand,) = inst.operands
    shape = shape_of(operand).logical
    if not shape.dtype.is_complex:
        return None
    builder = XlaBuilder(inst.opcode)
    _FUNCTIONS[type(inst.op)](builder.parameter(0, shape))  # type: ignore[index]
    body = builder.build().entry
    values = {body.parameters[0]: operand}
    for step in body.instructions:
        if step not in values:
            values[step] = inst.computation.add(step.op, [values[o] for o in step.operands], step.shape)
    return values[body.root]
