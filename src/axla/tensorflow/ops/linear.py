"""Operations on matrices (in the last two dimensions; leading ones are batch dimensions) and Fourier
transforms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import axla.ops as ops
from axla.builder.iteration import repeat
from axla.builder.xla_builder import XlaOp
from axla.core.dtypes import S32
from axla.core.errors import UnsupportedError
from axla.core.shape import Shape
from axla.tensorflow.ops.common import of_dims, reduced
from axla.tensorflow.records import lowering
from axla.tensorflow.scope import OpCall, common_dims, spread

RECORDS = """
Cholesky: input:T -> output:T
Qr: input:T full_matrices=bool?false -> q:T r:T
Svd: input:T compute_uv=bool?true full_matrices=bool?false -> s:T u:T v:T
SelfAdjointEigV2: input:T compute_v=bool?true -> e:T v:T
XlaSvd: a:T max_iter=int epsilon=float precision_config=string -> s:T u:T v:T
XlaSelfAdjointEig: a:T lower=bool max_iter=int epsilon=float -> w:T v:T
MatrixInverse: input:T adjoint=bool?false -> output:T
MatrixSolve: matrix:T rhs:T adjoint=bool?false -> output:T
MatrixTriangularSolve: matrix:T rhs:T lower=bool?true adjoint=bool?false -> output:T
MatrixDeterminant: input:T -> output:T
LogMatrixDeterminant: input:T -> sign:T log_abs_determinant:T
TridiagonalSolve: diagonals:T rhs:T partial_pivoting=bool?true perturb_singular=bool?false -> output:T
TridiagonalMatMul: superdiag:T maindiag:T subdiag:T rhs:T -> output:T
FFT FFT2D FFT3D IFFT IFFT2D IFFT3D: input:Tcomplex Tcomplex=type?DT_COMPLEX64 -> output:Tcomplex
RFFT RFFT2D RFFT3D: input:Treal fft_length:i32 Treal=type?DT_FLOAT Tcomplex=type?DT_COMPLEX64 ->
    output:Tcomplex
IRFFT IRFFT2D IRFFT3D: input:Tcomplex fft_length:i32 Treal=type?DT_FLOAT Tcomplex=type?DT_COMPLEX64 ->
    output:Treal
"""


def _check_matrices(call: OpCall, value: XlaOp, square: bool = False) -> None:
    dims = value.dims
    if len(dims) < 2 or (square and dims[-1] != dims[-2]):
        call.fail(f"wanted {'square ' * square}matrices, found shape {list(dims)}")


def _adjoint(value: XlaOp) -> XlaOp:
    """The matrices transposed, and conjugate if they are complex."""
    rank = len(value.dims)
    return ops.Conj(ops.Transpose(value, [*range(rank - 2), rank - 1, rank - 2]))


def _index(value: XlaOp, dimension: int) -> XlaOp:
    """For each element of an array, its index along a dimension."""
    return ops.Iota(value.builder, Shape(S32, value.dims), dimension)


@lowering("Cholesky")
def _cholesky(call: OpCall, value: XlaOp) -> XlaOp:
    """The lower Cholesky factors, with zeros above the diagonal."""
    _check_matrices(call, value, square=True)
    found, rank = ops.Cholesky(value, True), len(value.dims)
    is_kept = ops.Ge(_index(found, rank - 2), _index(found, rank - 1))
    return ops.Select(is_kept, found, ops.ZerosLike(found))


@lowering("Qr")
def _qr(call: OpCall, value: XlaOp) -> Sequence[XlaOp]:
    _check_matrices(call, value)
    return ops.QR(value, call["full_matrices"])


@lowering("Svd", "XlaSvd")
def _svd(call: OpCall, value: XlaOp) -> Sequence[XlaOp | np.ndarray]:
    _check_matrices(call, value)
    u, s, v = ops.SVD(value)
    if not call.attributes.get("compute_uv", True):
        return s, np.zeros(0, value.dtype.numpy), np.zeros(0, value.dtype.numpy)
    if not call.attributes.get("full_matrices", True):
        last, size = len(value.dims) - 1, min(value.dims[-2:])
        u, v = (ops.SliceInDim(vectors, 0, size, 1, last) for vectors in (u, v))
    return s, u, v


@lowering("SelfAdjointEigV2", "XlaSelfAdjointEig")
def _self_adjoint_eig(call: OpCall, value: XlaOp) -> Sequence[XlaOp]:
    """The eigenvalues and the eigenvectors; the latter also if the node does not use them."""
    _check_matrices(call, value, square=True)
    v, w = ops.Eigh(value, call.attributes.get("lower", True))
    return ops.ConvertElementType(w, value.dtype), v


# Systems of equations.


def _solved(matrix: XlaOp, right: XlaOp, lower: bool, adjoint: bool = False) -> XlaOp:
    """The solution x of `matrix` x = `right`, for triangular matrices, lower ones if `lower`. With `adjoint`,
    the adjoint of the matrix is used in its place.
    """
    options = ops.TriangularSolveOptions_Transpose
    transpose = options.ADJOINT if adjoint else options.NO_TRANSPOSE
    return ops.TriangularSolve(matrix, right, True, lower, False, transpose)


def _check_sides(call: OpCall, matrix: XlaOp, right: XlaOp) -> None:
    if len(right.dims) < 2 or right.dims[-2] != matrix.dims[-1]:
        call.fail(f"matrices of {list(matrix.dims)} do not fit right-hand sides of {list(right.dims)}")


@lowering("MatrixInverse", "MatrixSolve")
def _solve(call: OpCall, matrix: XlaOp, *right: XlaOp) -> XlaOp:
    """The inverse of a matrix, or the solutions for right-hand sides, computed by a QR decomposition."""
    _check_matrices(call, matrix, square=True)
    for side in right:
        _check_sides(call, matrix, side)
        if matrix.dims[:-2] != side.dims[:-2]:
            found = f"{list(matrix.dims)} and {list(side.dims)}"
            call.fail(f"shapes {found} differ in the dimensions before the last two")
    q, r = ops.QR(_adjoint(matrix) if call["adjoint"] else matrix, False)
    sides = _adjoint(q)
    if right:
        row = len(matrix.dims) - 2
        numbers = (([row + 1], [row]), (range(row), range(row)))
        sides = ops.DotGeneral(sides, right[0], numbers, None, matrix.dtype)
    return _solved(r, sides, lower=False)


@lowering("MatrixTriangularSolve")
def _triangular_solve(call: OpCall, matrix: XlaOp, right: XlaOp) -> XlaOp:
    _check_matrices(call, matrix, square=True)
    _check_sides(call, matrix, right)
    batch = common_dims(matrix.dims[:-2], right.dims[:-2])
    matrix, right = spread(matrix, (*batch, *matrix.dims[-2:])), spread(right, (*batch, *right.dims[-2:]))
    return _solved(matrix, right, call["lower"], call["adjoint"])


@lowering("MatrixDeterminant", "LogMatrixDeterminant")
def _determinant(call: OpCall, value: XlaOp) -> Sequence[XlaOp]:
    """The determinant; or its sign (for complex numbers, the determinant divided by its absolute value) and
    the log of its absolute value. Computed as the product of the diagonal of U in P A = L U, negated if the
    permutation P is odd.
    """
    _check_matrices(call, value, square=True)
    lu, pivots, _ = ops.LU(value)
    row, is_log = len(value.dims) - 2, call.node.op == "LogMatrixDeterminant"
    on = ops.Eq(_index(lu, row), _index(lu, row + 1))
    diagonal = _combined("Add", ops.Select(on, lu, ops.ZerosLike(lu)))
    swaps = ops.ConvertElementType(ops.Ne(pivots, _index(pivots, row)), pivots.dtype)
    even = ops.Eq(ops.Rem(_combined("Add", swaps), 2), 0)
    found = _combined("Mul", ops.Sign(diagonal) if is_log else diagonal)
    found = ops.Select(even, found, ops.Neg(found))
    if not is_log:
        return [found]
    return found, ops.ConvertElementType(_combined("Add", ops.Log(ops.Abs(diagonal))), value.dtype)


def _combined(opcode: str, value: XlaOp) -> XlaOp:
    """Reduces the last dimension by an operation, such as Add."""
    return reduced(value, [len(value.dims) - 1], opcode)


# Tridiagonal matrices.


@lowering("TridiagonalMatMul")
def _tridiagonal_product(call: OpCall, upper: XlaOp, main: XlaOp, lower: XlaOp, right: XlaOp) -> XlaOp:
    """The products of tridiagonal matrices with the matrices `right`. The diagonals `upper`, `main` and
    `lower` are rows of `n` numbers each.
    """
    dims = right.dims
    _check_matrices(call, right)
    for diagonal in (upper, main, lower):
        of_dims(call, diagonal, (*dims[:-2], 1, dims[-2]), "a diagonal")
    row = len(dims) - 2
    upper, main, lower = (_adjacent(diagonal, dims) for diagonal in (upper, main, lower))
    below, above = (ops.PadInDim(right, 0, row, by, -by) for by in (-1, 1))
    return main * right + upper * below + lower * above


def _adjacent(diagonal: XlaOp, dims: Sequence[int]) -> XlaOp:
    """A diagonal of matrices, repeated for all columns of right-hand sides with the sizes `dims`."""
    return spread(ops.Reshape(diagonal, (*dims[:-1], 1)), dims)


@lowering("TridiagonalSolve")
def _tridiagonal_solve(call: OpCall, diagonals: XlaOp, right: XlaOp) -> XlaOp:
    _check_matrices(call, right)
    dims, size = right.dims, right.dims[-2]
    of_dims(call, diagonals, (*dims[:-2], 3, size), "diagonals")
    if call["partial_pivoting"] and call["perturb_singular"]:
        raise UnsupportedError("attribute 'perturb_singular' is not supported")
    if not right.shape.size:
        return right
    row = len(dims) - 2
    order = [row, *(d for d in range(len(dims)) if d != row)]
    rows = [ops.SliceInDim(diagonals, n, n + 1, 1, row) for n in range(3)]
    upper, main, lower = (ops.Transpose(_adjacent(diagonal, dims), order) for diagonal in rows)
    upper = ops.PadInDim(upper[:-1], 0, 0, 0, 1)
    found = _substituted(_eliminated_rows(call, upper, main, lower, ops.Transpose(right, order)))
    return ops.Transpose(found, [*range(1, row + 1), 0, row + 1])


def _eliminated_rows(call: OpCall, upper: XlaOp, main: XlaOp, lower: XlaOp, right: XlaOp) -> list[XlaOp]:
    """The rows of U (the diagonal and the two above it) and the right-hand sides, by Gaussian elimination.
    With pivoting, the row with the larger first element comes first.
    """
    pivoting = call["partial_pivoting"]

    def step(k: XlaOp, lower: XlaOp, *rows: XlaOp) -> list[XlaOp]:
        main, upper, _, right = rows
        below = k + 1
        first = [_row(array, k) for array in rows]
        second = [_row(array, below) for array in (lower, main, upper, right)]
        if pivoting:
            swap = ops.Gt(ops.Abs(second[0]), ops.Abs(first[0]))
            pairs = list(zip(first, second, strict=True))
            first = [ops.Select(swap, b, a) for a, b in pairs]
            second = [ops.Select(swap, a, b) for a, b in pairs]
        factor = second[0] / first[0]
        left = [b - factor * a for a, b in zip(first[1:], second[1:], strict=True)]
        left.insert(2, ops.ZerosLike(factor))
        arrays = [_with_row(array, k, row) for array, row in zip(rows, first, strict=True)]
        return [lower, *(_with_row(array, below, row) for array, row in zip(arrays, left, strict=True))]

    state = [lower, main, upper, ops.ZerosLike(main), right]
    return repeat(main.dims[0] - 1, state, step)[1:]


def _substituted(eliminated: Sequence[XlaOp]) -> XlaOp:
    """The solution for rows of U and right-hand sides, by back substitution."""
    right = eliminated[-1]
    size = right.dims[0]

    def step(k: XlaOp, found: XlaOp, *rows: XlaOp) -> list[XlaOp]:
        row = size - 1 - k
        d, u, t, y = (_row(array, row) for array in rows)
        value = (y - u * _row(found, row + 1) - t * _row(found, row + 2)) / d
        return [_with_row(found, row, value), *rows]

    start = ops.PadInDim(ops.ZerosLike(right), 0, 0, 0, 2)
    found = repeat(size, [start, *eliminated], step)[0]
    return found[:size]


def _row(value: XlaOp, number: XlaOp) -> XlaOp:
    return ops.DynamicSliceInDim(value, number, 1, 0)


def _with_row(value: XlaOp, number: XlaOp, row: XlaOp) -> XlaOp:
    return ops.DynamicUpdateSlice(value, row, [number, *[0] * (len(value.dims) - 1)])


# Fourier transforms.


@lowering(*(f"{kind}FFT{size}" for kind in ("", "I", "R", "IR") for size in ("", "2D", "3D")))
def _fft(call: OpCall, value: XlaOp, *lengths: XlaOp) -> XlaOp:
    """Transforms the last dimensions. Elements beyond the sizes in `fft_length` are cut off; a dimension must
    have at least as many elements as the transform needs.
    """
    name, _, size = call.node.op.removesuffix("D").partition("FFT")
    kind, rank = ops.FftType[f"{name}FFT"], int(size or 1)
    first = len(value.dims) - rank
    if first < 0:
        call.fail(f"wanted at least {rank} dimensions, found shape {list(value.dims)}")
    if not lengths:
        return ops.Fft(value, kind, value.dims[first:])
    sizes = call.integers(lengths[0], "fft_length")
    if len(sizes) != rank or min(sizes) < 0:
        call.fail(f"fft_length is {list(sizes)}, wanted {rank} sizes")
    inverse = kind == ops.FftType.IRFFT
    for number, size in enumerate(sizes):
        halved = inverse and number == rank - 1
        wanted = size // 2 + 1 if halved and size else size
        place = first + number
        if value.dims[place] < wanted:
            call.fail(f"dimension {place} of {list(value.dims)} must have at least {wanted} elements")
        value = ops.SliceInDim(value, 0, wanted, 1, place)
    if not all(sizes):
        last = sizes[-1] if inverse or not sizes[-1] else sizes[-1] // 2 + 1
        dtype = call.dtype("Treal" if inverse else "Tcomplex")
        return call.scope.constant(np.broadcast_to(np.zeros((), dtype.numpy), (*value.dims[:-1], last)))
    return ops.Fft(value, kind, sizes)
