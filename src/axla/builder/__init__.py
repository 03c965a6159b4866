"""Builds programs op by op in Python. An `XlaBuilder` collects the ops; its result is an `XlaComputation`,
which holds a module.

    from axla.builder import XlaBuilder, ops
    b = XlaBuilder("axpy")
    alpha, x, y = ...ops.Parameter(b, 0, Shape(F32), "alpha")...
    computation = b.build(ops.Add(ops.Mul(alpha, x), y))        # or alpha * x + y

`ops` has XLA's functions; read `xla_builder.py` first, then `elementwise.py` and `broadcasting.py`.
`values.py` checks and converts the arguments of builder functions, `coerce.py` their operands. Special
functions are in `special/`. `ComputationBuilder`, the builder class of XLA's first documents, is in
`axla.compatibility`, and can be imported from here too.
"""

import importlib as _importlib
from typing import Any as _Any

from axla.builder import ops
from axla.builder.computation import XlaComputation
from axla.builder.metadata import OpMetadata
from axla.builder.xla_builder import XlaBuilder, XlaOp

__all__ = [
    "ComputationBuilder",
    "ComputationDataHandle",
    "OpMetadata",
    "XlaBuilder",
    "XlaComputation",
    "XlaOp",
    "ops",
]

_COMPATIBILITY = {
    "ComputationBuilder": "axla.compatibility.computation_builder",
    "ComputationDataHandle": "axla.compatibility.computation_builder",
}


def __getattr__(name: str) -> _Any:
    """Returns the class `name` of `axla.compatibility`. It is imported at its first use, since that package
    itself imports this one.
    """
    if name not in _COMPATIBILITY:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    return getattr(_importlib.import_module(_COMPATIBILITY[name]), name)
