"""The reference implementation of HLO: evaluates any module with NumPy. `evaluate` takes a Module and arrays,
and returns a Literal.

Read `evaluate.py` first (plans and the loop that runs them), then `regions.py` (ops that call computations).
"""

import axla.interpreter.regions  # noqa: F401  fills the table of the interpreter
from axla.interpreter.evaluate import Interpreter, evaluate

__all__ = ["Interpreter", "evaluate"]
