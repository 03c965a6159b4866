"""Which function computes which HLO operation on floats."""

from __future__ import annotations

from collections.abc import Callable

from axla.codegen.arithmetic import Reg
from axla.codegen.math import basic, error_function, exponential, hyperbolic, logarithm, root, trigonometry
from axla.codegen.math import inverse_trigonometry as inverse
from axla.codegen.math.power import power
from axla.codegen.math.remainder import remainder

UNARY: dict[str, Callable[[Reg], Reg]] = {
    "negate": lambda x: -x,
    "ceil": lambda x: x.m.ceil(x),
    "floor": lambda x: x.m.floor(x),
    "round-nearest-even": lambda x: x.m.rint(x),
    "round-nearest-afz": basic.round_away,
    "sign": basic.sign,
    "sqrt": lambda x: x.m.sqrt(x),
    "rsqrt": root.rsqrt,
    "cbrt": root.cbrt,
    "exponential": exponential.exp,
    "exponential-minus-one": exponential.expm1,
    "logistic": exponential.logistic,
    "log": logarithm.log,
    "log-plus-one": logarithm.log1p,
    "tanh": hyperbolic.tanh,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "asinh": hyperbolic.asinh,
    "acosh": hyperbolic.acosh,
    "atanh": hyperbolic.atanh,
    "erf": error_function.erf,
    "sine": trigonometry.sin,
    "cosine": trigonometry.cos,
    "tan": trigonometry.tan,
    "asin": inverse.asin,
    "acos": inverse.acos,
}

BINARY: dict[str, Callable[[Reg, Reg], Reg]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": basic.maximum,
    "minimum": basic.minimum,
    "remainder": remainder,
    "power": power,
    "atan2": inverse.atan2,
}

# Results that a small float type represents whenever it represents the operands.
EXACT = frozenset({
    "negate", "ceil", "floor", "round-nearest-even", "round-nearest-afz", "sign", "maximum", "minimum",
    "remainder",
})  # fmt: skip
