"""Arguments and results of JAX's custom calls for linear algebra. Matrices are batches [batch, rows,
columns], vectors are rows. A result may have any shape with the right number of elements; None means that it
is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from axla.builder.xla_builder import XlaOp
from axla.hlo import TriangularSolve
from axla.ir.attributes import TransposeA
from axla.passes import matrix as mx
from axla.passes.expand.cholesky import lower_factor
from axla.passes.linalg import small
from axla.passes.linalg.divide import hermitian_eigenvalues, singular_values
from axla.passes.linalg.eigenvectors import complex_form, eigenvalues, eigenvectors, finite, of_real_matrix
from axla.passes.linalg.elimination import lu, tridiagonal_solution
from axla.passes.linalg.reflectors import hessenberg, pivoted_qr, q_of, qr, times_q, tridiagonal
from axla.passes.linalg.schur import schur

CallAttributes = Mapping[str, str | int]
"""The attributes of a call. LAPACK's option characters are strings; all others are numbers."""

Results = list[XlaOp | None]
Routine = Callable[..., Results]

NOT_FINITE = -4
"""The value of info that gesdd and geev return for matrices with NaN or infinities."""


def _potrf(given: CallAttributes, a: XlaOp) -> Results:
    lower = given["uplo"] == "L"
    factor = lower_factor(a if lower else mx.adjoint(a))
    wrong = mx.first(~(mx.real(mx.diagonal(factor)) > 0), 1)
    rows, columns = mx.places(a, 1), mx.places(a, 2)
    kept = mx.where(rows >= columns, factor, a) if lower else mx.where(rows <= columns, mx.adjoint(factor), a)
    return [kept, mx.where(wrong == a.dims[1], np.int32(0), wrong + 1)]


def _trsm(given: CallAttributes, a: XlaOp, b: XlaOp) -> Results:
    forms = {"N": TransposeA.NO_TRANSPOSE, "T": TransposeA.TRANSPOSE, "C": TransposeA.ADJOINT}
    left, lower, unit = given["side"] == "L", given["uplo"] == "L", given["diag"] == "U"
    return [a.builder.add(TriangularSolve(left, lower, unit, forms[str(given["trans_x"])]), (a, b))]


def _getrf(_: CallAttributes, a: XlaOp) -> Results:
    return list(small.lu(a) if small.is_small(a) else lu(a))


def _geqrf(_: CallAttributes, a: XlaOp) -> Results:
    return list(qr(a))


def _geqp3(_: CallAttributes, a: XlaOp, pivots: XlaOp) -> Results:
    return list(pivoted_qr(a, pivots))


def _orgqr(_: CallAttributes, a: XlaOp, taus: XlaOp) -> Results:
    return [q_of(a, taus, a.dims[2])]


def _ormqr(given: CallAttributes, a: XlaOp, taus: XlaOp, c: XlaOp) -> Results:
    transposed = bool(given["transpose"])
    if given["left"]:
        return [times_q(a, taus, c, adjoint_of_q=transposed)]
    return [mx.adjoint(times_q(a, taus, mx.adjoint(c), adjoint_of_q=not transposed))]


def _evd(given: CallAttributes, a: XlaOp) -> Results:
    wanted = given["mode"] == "V"
    few = small.is_small(a) and not a.dtype.is_complex
    solve = small.symmetric_eigenvalues if few else hermitian_eigenvalues
    values, vectors, info = solve(a, given["uplo"] == "L", wanted)
    return [vectors if wanted else a, values, info]


def _svd(given: CallAttributes, a: XlaOp) -> Results:
    s, u, v, info = singular_values(a, given["mode"] != "N", given["mode"] == "A")
    return [a, s, u, v, mx.where(finite(a), info, np.int32(NOT_FINITE))]


def _geev(given: CallAttributes, a: XlaOp) -> Results:
    wanted = [given["compute_left"] == "V", given["compute_right"] == "V"]
    fine = finite(a)
    t, z, info = schur(mx.where(fine, a, 0.0), any(wanted))
    values = eigenvalues(t)
    if any(wanted):
        t, z = complex_form(t, z)
    sides = zip((True, False), wanted, strict=True)
    vectors = [eigenvectors(t, z, left=left) if w else None for left, w in sides]
    if not a.dtype.is_complex:
        vectors = [v if v is None else of_real_matrix(v, values[1]) for v in vectors]
    found = [v if v is None else mx.where(fine, v, 0.0) for v in (*values, *vectors)]
    return [*found, mx.where(fine, info, np.int32(NOT_FINITE))]


def _gees(given: CallAttributes, a: XlaOp) -> Results:
    fine = finite(a)
    t, z, info = schur(mx.where(fine, a, 0.0), given["mode"] == "V")
    t, z, *values = [mx.where(fine, x, np.nan) for x in (t, z, *eigenvalues(t))]
    return [t, z if given["mode"] == "V" else None, *values, None, mx.where(fine, info, np.int32(1))]


def _gehrd(given: CallAttributes, a: XlaOp) -> Results:
    return [*hessenberg(a, int(given["low"]) - 1, int(given["high"])), None]


def _trd(given: CallAttributes, a: XlaOp) -> Results:
    return [*tridiagonal(a, given["uplo"] == "L"), None]


def _gtsv(_: CallAttributes, lower: XlaOp, main: XlaOp, upper: XlaOp, b: XlaOp) -> Results:
    return list(tridiagonal_solution(mx.transposed(lower), mx.transposed(main), mx.transposed(upper), b))


ROUTINES: dict[str, Routine] = {
    "potrf": _potrf, "trsm": _trsm, "getrf": _getrf, "geqrf": _geqrf, "geqp3": _geqp3,
    "orgqr": _orgqr, "ungqr": _orgqr, "ormqr": _ormqr, "unmqr": _ormqr, "syevd": _evd, "heevd": _evd,
    "gesdd": _svd, "gesvd": _svd, "geev": _geev, "gees": _gees, "gehrd": _gehrd,
    "sytrd": _trd, "hetrd": _trd, "gtsv": _gtsv,
}  # fmt: skip
