"""Which function computes which HLO operation on floats."""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import Reg
from axla.codegen.math import basic

UNARY: dict[str, Callable[[Reg], Reg]] = {
    "abs": lambda x: x.m.abs(x),
    "negate": lambda x: -x,
    "ceil": lambda x: x.m.ceil(x),
    "floor": lambda x: x.m.floor(x),
    "round-nearest-even": lambda x: x.m.rint(x),
    "round-nearest-afz": basic.round_away,
    "sign": basic.sign,
    "sqrt": lambda x: x.m.sqrt(x),
}

BINARY: dict[str, Callable[[Reg, Reg], Reg]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": basic.maximum,
    "minimum": basic.minimum,
}

# Results that a small float type represents whenever it represents the operands.
EXACT = frozenset({
    "abs", "negate", "ceil", "floor", "round-nearest-even", "round-nearest-afz", "sign", "maximum", "minimum", "remainder",
})  # fmt: skip
