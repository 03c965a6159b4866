"""Expands stochastic-convert to arithmetic: the fraction that is cut off is compared with the random bits."""

from __future__ import annotations

from collections.abc import Sequence

from axla.builder import ops
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BY_NAME
from axla.hlo import StochasticConvert
from axla.ir.graph import Instruction, Module
from axla.ir.typed import shape_of
from axla.passes.expand.expander import expand, typed, written


def stochastic_convert_decomposer(module: Module) -> None:
    """Writes every stochastic-convert to integers as elementwise ops."""
    expand(module, "stochastic-convert-decomposer", {StochasticConvert: _expanded})


def _expanded(inst: Instruction) -> Instruction | None:
    to_integer = shape_of(inst).dtype.is_integer and shape_of(inst.operands[0]).dtype.is_float
    return written(inst, _rounded) if to_integer else None


def _rounded(_: Instruction, x: XlaOp, random: XlaOp) -> Sequence[XlaOp]:
    size, bits = ops.Abs(x), x.dtype.bits
    whole = ops.Floor(size)
    # Exact: only the exponent changes. For infinities the fraction is NaN, so the threshold is 0. (2**16 is
    # not an f16.)
    half = 2.0 ** (bits // 2)
    threshold = typed((size - whole) * half * half, BY_NAME[f"u{bits}"])
    rounded = ops.Select(random < threshold, whole + 1, size)
    return [ops.Select(x < 0, -rounded, rounded)]
