"""Plans: calls of library routines as data.

A plan names a routine of SciPy's LAPACK. For each argument of it (all are pointers) it has the address: in an
operand, a result or scratch memory, and the distance between the matrices of a batch. Generated code and the
interpreter run the same plans.
"""

from __future__ import annotations

from axla.core.dataclass import dataclass
from axla.core.dtypes import DType

OPERAND, RESULT, SCRATCH, NULL = "operand", "result", "scratch", "null"


@dataclass(frozen=True, slots=True)
class LeafAddress:
    """An address: `offset` bytes into leaf number `leaf` of the operands or results, or into the scratch
    memory. For each further matrix of the batch it is `stride` bytes higher.
    """

    base: str
    leaf: int = 0
    offset: int = 0
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Vectors:
    """Converts eigenvectors of a real matrix, as LAPACK packs them, to complex vectors. If eigenvalue k has
    an imaginary part, the packed columns k and k+1 are the real and imaginary parts of a conjugate pair.
    """

    packed: LeafAddress
    imaginary: LeafAddress  # the imaginary parts of the eigenvalues
    result: LeafAddress


@dataclass(frozen=True, slots=True)
class CallPlan:
    """A call of a library routine, for each matrix of a batch."""

    symbol: str
    dtype: DType
    batch: int
    arguments: tuple[LeafAddress, ...]
    copies: tuple[tuple[int, int], ...]  # (operand leaf, result leaf): copied before all calls
    copied: tuple[tuple[LeafAddress, LeafAddress, int], ...]  # (from, to, bytes): copied before each call
    zeroed: tuple[int, ...]  # the result leaves that start as zeros
    stores: tuple[tuple[int, bytes], ...]  # (offset, bytes): written to scratch memory at the start
    scratch_bytes: int
    finite: tuple[LeafAddress, int] | None = (
        None  # (address, count) of reals; unless all are finite, `info` is -4 and the call is left out
    )
    info: LeafAddress | None = None
    vectors: tuple[Vectors, ...] = ()
    order: int = 0  # the size of the matrix of eigenvectors
