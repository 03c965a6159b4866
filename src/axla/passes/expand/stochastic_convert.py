"""stochastic-convert in arithmetic: the fraction cut off, as a number of steps, against the random bits."""

from __future__ import annotations

from axla.core.dtypes import BY_NAME
from axla.core.shape import Shape
from axla.hlo import Abs, Add, Compare, Convert, Floor, Multiply, Negate, Select, StochasticConvert, Subtract
from axla.ir.attributes import Direction
from axla.ir.graph import Instruction, Module
from axla.passes.expand.expander import converted, expand, full, shape_of


def stochastic_convert_decomposer(module: Module) -> None:
    """Writes every stochastic-convert to integers in elementwise ops."""
    expand(module, "stochastic-convert-decomposer", {StochasticConvert: _rounded})


def _rounded(inst: Instruction) -> Instruction | None:
    x, random = inst.operands
    shape, result = shape_of(x), inst.shape
    assert isinstance(result, Shape)
    if not result.dtype.is_integer or not shape.dtype.is_float:
        return None
    computation = inst.computation
    size = Abs()(x)
    whole = Floor()(size)
    bits = shape.dtype.bits
    # Exact: only the exponent changes. Infinities have the fraction NaN, hence 0. (2**16 is no f16.)
    half = full(computation, shape, 2.0 ** (bits // 2))
    fraction = Multiply()(Multiply()(Subtract()(size, whole), half), half)
    threshold = converted(fraction, BY_NAME[f"u{bits}"])
    up = Compare(Direction.LT)(random, threshold)
    rounded = Select()(up, Add()(whole, full(computation, shape, 1)), size)
    negative = Compare(Direction.LT)(x, full(computation, shape, 0))
    return Convert(result.logical)(Select()(negative, Negate()(rounded), rounded))
