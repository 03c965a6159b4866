"""All functions that add ops, under the names of XLA's Python module `ops`.

    ops.Add(lhs, rhs, broadcast_dimensions)

Operands are `XlaOp`s, literals or NumPy values (constants), or Python numbers, which take the element type of
the other operand. Functions have a first argument `builder` only where no operand determines it.
"""

# ruff: noqa: F403

from types import FunctionType
from typing import TYPE_CHECKING

from axla.builder.approximate import *
from axla.builder.calls import *
from axla.builder.collective import *
from axla.builder.compositions import *
from axla.builder.contraction import *
from axla.builder.decompositions import *
from axla.builder.elementwise import *
from axla.builder.linear_algebra import *
from axla.builder.movement import *
from axla.builder.operators import FUNCTIONS
from axla.builder.random import *
from axla.builder.records import *
from axla.builder.special.bessel import *
from axla.builder.special.beta import *
from axla.builder.special.gamma import *
from axla.builder.special.zeta import *
from axla.builder.transfer import *
from axla.builder.windows import *

_RECORDS = """
    CustomCallApiVersion CustomCallSchedule FftType PrecisionConfig_Precision RandomAlgorithm
    ResultAccuracy_Mode ShapeIndex TriangularSolveOptions_Transpose
"""

FUNCTIONS.update(
    (name, found)
    for name, found in globals().items()
    if name[0].isupper() and isinstance(found, FunctionType) and found.__module__.startswith("axla.builder.")
)

if not TYPE_CHECKING:  # type checkers follow the imports above instead
    __all__ = sorted([*FUNCTIONS, *_RECORDS.split()])
