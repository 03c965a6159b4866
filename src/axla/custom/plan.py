"""Calls of library routines as data.

A plan is a routine of SciPy's LAPACK, and for each of its arguments (all are pointers) where it lies: in an
operand, in a result or in scratch memory, and how far on for each matrix of a batch. Generated code and the
interpreter run the same plan.
"""

from __future__ import annotations

from axla.core.dataclass import dataclass
from axla.core.dtypes import DType

OPERAND, RESULT, SCRATCH, NULL = "operand", "result", "scratch", "null"


@dataclass(frozen=True, slots=True)
class LeafAddress:
    """Memory: `offset` bytes into leaf `leaf` of operands or results, or into the scratch; `stride` bytes on
    for each matrix.
    """

    base: str
    leaf: int = 0
    offset: int = 0
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Vectors:
    """Eigenvectors of a real matrix as LAPACK gives them, to be written as complex ones: where eigenvalue k
    has an imaginary part, columns k and k+1 are the real and imaginary parts of a conjugate pair.
    """

    packed: LeafAddress
    imaginary: LeafAddress  # of the eigenvalues
    result: LeafAddress


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How to run a call of a library routine."""

    symbol: str
    dtype: DType
    batch: int
    arguments: tuple[LeafAddress, ...]
    copies: tuple[tuple[int, int], ...]  # (operand leaf, result leaf): the whole array
    copied: tuple[tuple[LeafAddress, LeafAddress, int], ...]  # (from, to, bytes), for each matrix
    zeroed: tuple[int, ...]  # result leaves
    stores: tuple[tuple[int, bytes], ...]  # what the scratch holds at the start: (offset, contents)
    scratch_bytes: int
    finite: tuple[LeafAddress, int] | None = (
        None  # real numbers that must be finite, else `info` is -4, and no call
    )
    info: LeafAddress | None = None
    vectors: tuple[Vectors, ...] = ()
    order: int = 0  # of the eigenvectors' matrix
