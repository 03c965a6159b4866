"""Builders: programs made op by op in Python. Takes shapes and values, gives modules (`XlaComputation`).

    from axla.builder import XlaBuilder, ops
    b = XlaBuilder("axpy")
    alpha, x, y = ...ops.Parameter(b, 0, Shape(F32), "alpha")...
    computation = b.build(ops.Add(ops.Mul(alpha, x), y))        # or alpha * x + y

`ops` has XLA's functions; read `xla_builder.py` first, then `elementwise.py` and `broadcasting.py`. What
Python values their arguments may be stands in `values.py`, and for operands in `coerce.py`.
`ComputationBuilder` is the class of XLA's first documents, with methods for ops and errors that wait until
Build.
"""

from axla.builder import ops
from axla.builder.computation import XlaComputation
from axla.builder.computation_builder import ComputationBuilder, ComputationDataHandle
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
