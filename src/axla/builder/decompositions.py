"""Matrix decompositions. They become the LAPACK calls that JAX emits for CPUs (`axla.custom.routines`).

The last two dimensions are the matrices, the others are batch dimensions. f16 and bf16 are computed in f32.
If LAPACK reports a failure for a matrix, its results are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np

import axla.hlo as hlo
from axla.builder import elementwise as e
from axla.builder.broadcasting import full
from axla.builder.calls import GetTupleElement, Reduce
from axla.builder.coerce import operands
from axla.builder.compositions import Conj
from axla.builder.iteration import combiner, repeat
from axla.builder.movement import BroadcastInDim, DynamicSlice, Iota, PadInDim, Slice, Transpose
from axla.builder.values import boolean, integer
from axla.builder.values import real as real_number
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import BF16, C64, C128, F16, F32, F64, S32, DType
from axla.core.shape import Layout, Shape, TupleShape
from axla.hlo.family import show
from axla.ir.attributes import ApiVersion, OutputAlias

_LETTERS = {F32: "s", F64: "d", C64: "c", C128: "z"}
_REAL = {C64: F32, C128: F64}


def QrDecomposition(a: object) -> tuple[XlaOp, XlaOp]:
    """Returns (qr, taus). `qr` has R on and above the diagonal, and below it the vectors of the Householder
    reflectors whose product is Q. `taus` are the scalar factors of the reflectors.
    """
    value, dtype = _matrices("QrDecomposition", a)
    batch, m, n = _sizes(value)
    results = [(value.dtype, (*batch, m, n)), (value.dtype, (*batch, min(m, n)))]
    qr, taus = _call("geqrf", [value], results, over=1)
    return _as(qr, dtype), _as(taus, dtype)


def ProductOfElementaryHouseholderReflectors(a: object, taus: object) -> XlaOp:
    """Returns the first columns of the matrix Q of a QR decomposition, as many as `a` has columns. `a` and
    `taus` are the results of QrDecomposition.
    """
    what = "ProductOfElementaryHouseholderReflectors"
    first, second = operands(what, a, taus)
    value, dtype = _matrices(what, first)
    batch, m, n = _sizes(value)
    shape = second.shape
    k = shape.dims[-1] if isinstance(shape, Shape) and shape.rank else -1
    if not (isinstance(shape, Shape) and shape.logical is Shape(dtype, (*batch, k)) and m >= n >= k):
        wanted = "m x n matrices, m >= n, and vectors of at most n elements"
        given = f"{show(first.shape)} and {show(shape)}"
        value.builder.fail(what, (first, second), f"{what}: wanted {wanted}, found {given}")
    factors = _as(second, value.dtype)
    routine = "ungqr" if value.dtype.is_complex else "orgqr"
    (found,) = _call(routine, [value, factors], [(value.dtype, (*batch, m, n))], over=1)
    return _as(found, dtype)


def QR(a: object, full_matrices: bool) -> tuple[XlaOp, XlaOp]:
    """Returns (q, r) with q r = a for m x n matrices. q has m columns and r has m rows if `full_matrices`,
    else min(m, n).
    """
    value, dtype = _matrices("QR", a)
    _, m, n = _sizes(value)
    qr, taus = QrDecomposition(value)
    columns = m if boolean(full_matrices, "QR: full_matrices") else min(m, n)
    last = len(value.shape.dims) - 1
    vectors = _part(qr, m, min(n, columns))
    if columns > n:
        vectors = PadInDim(vectors, 0, last, 0, columns - n)
    q = ProductOfElementaryHouseholderReflectors(vectors, taus)
    r = _part(qr, columns, n)
    rows, places = (Iota(r.builder, Shape(S32, r.shape.dims), d) for d in (last - 1, last))
    r = e.Select(rows > places, full(r, 0), r)
    return _as(q, dtype), _as(r, dtype)


def LU(a: object) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Returns (lu, pivots, permutation). `lu` holds L without its unit diagonal, and U. Row i was swapped
    with row pivots[i], for i in ascending order. a[permutation] equals L U.
    """
    value, dtype = _matrices("LU", a)
    batch, m, n = _sizes(value)
    results = [(value.dtype, (*batch, m, n)), (S32, (*batch, min(m, n))), (S32, batch)]
    lu, pivots, info = _call("getrf", [value], results, over=1)
    lu = _where(info >= 0, lu)
    pivots = pivots - 1
    return _as(lu, dtype), pivots, _permutation(pivots, m)


def Eigh(
    a: object, lower: bool = True, max_iter: int = 15, epsilon: float = 1e-5, sort_eigenvalues: bool = True
) -> tuple[XlaOp, XlaOp]:
    """Returns (v, w) of Hermitian matrices: eigenvectors as columns, and eigenvalues in ascending order. Only
    one triangle is read: the lower one if `lower`. LAPACK computes to full precision and sorts, so
    `max_iter`, `epsilon` and `sort_eigenvalues` have no effect.
    """
    value, dtype = _matrices("Eigh", a)
    _check_limits("Eigh", max_iter, epsilon)
    triangle = "L" if boolean(lower, "Eigh: lower") else "U"
    boolean(sort_eigenvalues, "Eigh: sort_eigenvalues")
    batch, m, n = _sizes(value)
    if m != n:
        value.builder.fail("Eigh", (value,), f"Eigh: wanted square matrices, found {show(value.shape)}")
    real = _REAL.get(value.dtype, value.dtype)
    routine = "heevd" if value.dtype.is_complex else "syevd"
    results = [(value.dtype, (*batch, n, n)), (real, (*batch, n)), (S32, batch)]
    v, w, info = _call(routine, [value], results, over=1, mode="V", uplo=triangle)
    v, w = _where(info == 0, v), _where(info == 0, w)
    return _as(v, dtype), _as(w, _REAL.get(dtype, dtype))


def SVD(a: object, max_iter: int = 100, epsilon: float = 1e-6) -> tuple[XlaOp, XlaOp, XlaOp]:
    """Returns (u, d, v) with a = u diag(d) v^H. u (m x m) and v (n x n) are unitary, and the singular values
    d are in descending order. LAPACK computes to full precision, so `max_iter` and `epsilon` have no effect.
    """
    value, dtype = _matrices("SVD", a)
    _check_limits("SVD", max_iter, epsilon)
    batch, m, n = _sizes(value)
    real = _REAL.get(value.dtype, value.dtype)
    if not m or not n:  # LAPACK would leave u and v unset
        u, v = (_identity(value, batch, dtype, size) for size in (m, n))
        return u, value.builder.constant(np.zeros((*batch, 0), _REAL.get(dtype, dtype).numpy)), v
    results = [
        (value.dtype, (*batch, m, n)), (real, (*batch, min(m, n))), (value.dtype, (*batch, m, m)),
        (value.dtype, (*batch, n, n)), (S32, batch),
    ]  # fmt: skip
    _, d, u, v, info = _call("gesdd", [value], results, over=1, mode="A")
    rank = len(batch) + 2
    v = Conj(Transpose(v, [*range(rank - 2), rank - 1, rank - 2]))
    u, d, v = (_where(info == 0, found) for found in (u, d, v))
    return (
        _as(u, dtype), _as(d, _REAL.get(dtype, dtype)),
        _as(v, dtype),
    )  # fmt: skip


def _matrices(what: str, a: object) -> tuple[XlaOp, DType]:
    """Returns the operand `a` of the function `what`, converted to an element type that LAPACK supports, and
    its original element type.
    """
    (value,) = operands(what, a)
    shape = value.shape
    dtype = shape.dtype if isinstance(shape, Shape) and shape.rank >= 2 and not shape.is_dynamic else None
    if dtype in (F16, BF16):
        return e.ConvertElementType(value, F32), dtype
    if dtype not in _LETTERS:
        message = f"{what}: wanted matrices of f16, bf16, f32, f64, c64 or c128, found {show(shape)}"
        value.builder.fail(what, (value,), message)
    return value, dtype


def _check_limits(what: str, max_iter: object, epsilon: object) -> None:
    integer(max_iter, f"{what}: max_iter")
    real_number(epsilon, f"{what}: epsilon")


def _as(value: XlaOp, dtype: DType) -> XlaOp:
    return value if value.dtype is dtype else e.ConvertElementType(value, dtype)


def _sizes(value: XlaOp) -> tuple[tuple[int, ...], int, int]:
    *batch, m, n = value.shape.dims
    return tuple(batch), m, n


def _part(value: XlaOp, rows: int, columns: int) -> XlaOp:
    batch, _, _ = _sizes(value)
    return Slice(value, [0] * (len(batch) + 2), [*batch, rows, columns])


def _call(
    routine: str, given: Sequence[XlaOp], results: Sequence[tuple[DType, tuple[int, ...]]], over: int,
    **letters: str,
) -> list[XlaOp]:  # fmt: skip
    """Calls a LAPACK routine on the operands `given`, matrices in column-major layout, and returns its
    results. Result n overwrites operand n for n < `over`. `results` has (element type, sizes); `letters` are
    options such as uplo="L".
    """
    value = given[0]
    rank = value.shape.rank
    shapes = [_stored(dtype, dims, rank) for dtype, dims in results]
    single = len(shapes) == 1
    op = hlo.CustomCall(
        shapes[0] if single else TupleShape(tuple(shapes)),
        custom_call_target=f"lapack_{_LETTERS[value.dtype]}{routine}_ffi",
        api_version=ApiVersion.TYPED_FFI,
        operand_layout_constraints=tuple(_stored(v.dtype, v.shape.dims, rank) for v in given),
        output_to_operand_aliasing=tuple(OutputAlias(() if single else (n,), n, ()) for n in range(over)),
    )
    config = ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in letters.items())
    found = value.builder.add(op, given, backend_config=f"{{{config}}}")
    return [found] if single else [GetTupleElement(found, n) for n in range(len(shapes))]


def _stored(dtype: DType, dims: tuple[int, ...], matrix_rank: int) -> Shape:
    order = list(reversed(range(len(dims))))
    if len(dims) == matrix_rank:
        order[:2] = order[1::-1]
    return Shape(dtype, dims, layout=Layout(tuple(order)))


def _identity(value: XlaOp, batch: Sequence[int], dtype: DType, size: int) -> XlaOp:
    eye = value.builder.constant(np.eye(size, dtype=dtype.numpy))
    return BroadcastInDim(eye, [*batch, size, size], [len(batch), len(batch) + 1])


def _where(found: XlaOp, value: XlaOp) -> XlaOp:
    """Selects `value` for matrices whose entry of `found` (one pred per matrix of the batch) is true, else
    NaN.
    """
    dims = value.shape.dims
    batch = range(found.shape.rank)
    missing = value.dtype.numpy.type(complex(nan, nan) if value.dtype.is_complex else nan)
    return e.Select(BroadcastInDim(found, dims, list(batch)), value, missing)


def _permutation(pivots: XlaOp, rows: int) -> XlaOp:
    """Converts row swaps to a permutation of `rows` rows: swaps row i with row pivots[i], one after another,
    in a loop, in the indices 0, 1, 2...
    """
    b = pivots.builder
    *batch, count = pivots.shape.dims
    shape, axis = Shape(S32, (*batch, rows)), len(batch)

    def step(at: XlaOp, swaps: XlaOp, before: XlaOp) -> tuple[XlaOp, XlaOp]:
        zero = at.builder.constant(np.int32(0))
        places = Iota(at.builder, shape, axis)
        widened = (DynamicSlice(v, [*[zero] * axis, at], [*batch, 1]) for v in (swaps, before))
        other, here = (BroadcastInDim(v, shape.dims, list(range(axis + 1))) for v in widened)
        is_other = places == other
        there = Reduce(e.Select(is_other, before, 0), zero, combiner("Add", S32), [axis])
        there = BroadcastInDim(there, shape.dims, list(range(axis)))
        return swaps, e.Select(places == at, there, e.Select(is_other, here, before))

    return repeat(count, [pivots, Iota(b, shape, axis)], step)[1]
