"""Draws operands for operations on matrices and for Fourier transforms."""

from __future__ import annotations

import numpy as np

from tensorflow_cases_lib.draw import Draw, rule

# matrices


@rule("MatMul SparseMatMul")
def matmul(c: Draw) -> None:
    m, k, n = c.dims(3, 3, 0 if c.chance(0.1) else 1)
    for flag in ("a_is_sparse", "b_is_sparse", "grad_a", "grad_b"):
        if any(a.name == flag for a in c.record.attributes):
            c.attr(flag, False)
    c.data("a", (k, m) if c.flag("transpose_a") else (m, k))
    c.data("b", (n, k) if c.flag("transpose_b") else (k, n))


@rule("BatchMatMul BatchMatMulV2 BatchMatMulV3")
def batch_matmul(c: Draw) -> None:
    m, k, n = c.dims(3, 3)
    batch = c.dims(0, 2)
    other = batch if c.op == "BatchMatMul" else tuple(1 if c.chance(0.3) else d for d in batch)
    c.data("x", (*batch, *((k, m) if c.flag("adj_x") else (m, k))))
    c.data("y", (*other, *((n, k) if c.flag("adj_y") else (k, n))))
    c.attr("grad_x", False), c.attr("grad_y", False)


@rule("Einsum XlaEinsum")
def einsum(c: Draw) -> None:
    sizes = {name: c.int(1, 4) for name in "abijk"}
    choices = ("ij,jk->ik", "ij,ij->", "bij,bjk->bik", "i,j->ij", "ab,ai->bi", "abi,bi->ai")
    if c.op == "Einsum":
        choices += ("ij->ji", "ii->i", "ij->", "bij->bj", "...ij,...jk->...ik")
    equation = c.attr("equation", c.one(*choices))
    parts = equation.partition("->")[0].replace("...", "b").split(",")
    arrays = [c.array([sizes[x] for x in part], "T") for part in parts]
    if c.op == "Einsum":
        c.put("inputs", arrays)
    else:
        c.put("a", arrays[0]), c.put("b", arrays[1])


def square(
    c: Draw, kind: str = "T", batch: tuple[int, ...] | None = None, size: int | None = None
) -> np.ndarray:
    """Random square matrices whose inverse has elements of moderate size."""
    size = size or c.int(1, 4)
    shape = (*(c.dims(0, 2, 1, 3) if batch is None else batch), size, size)
    values = c.array(shape, kind, -1, 1)
    return (values + 3 * np.eye(size)).astype(values.dtype)


@rule("MatrixInverse MatrixDeterminant LogMatrixDeterminant MatrixSolve MatrixTriangularSolve")
def inverses(c: Draw) -> None:
    matrix = square(c)
    c.put("input" if len(c.record.operands) == 1 else "matrix", matrix)
    if "Solve" in c.op:
        c.data("rhs", (*matrix.shape[:-1], c.int(1, 3)))


@rule("Cholesky SelfAdjointEigV2 XlaSelfAdjointEig Svd XlaSvd Qr")
def decompositions(c: Draw) -> None:
    c.check = "close" if c.op == "Cholesky" else "abs"
    operand = c.record.operands[0].name
    matrix = square(c)
    if c.op in ("Cholesky", "SelfAdjointEigV2", "XlaSelfAdjointEig"):
        adjoint = np.swapaxes(matrix, -1, -2).conj()
        matrix = (matrix @ adjoint + np.eye(matrix.shape[-1])).astype(matrix.dtype)
    elif c.op != "XlaSvd" and c.chance(0.5):
        matrix = matrix[..., : c.int(1, matrix.shape[-1])]
    c.put(operand, matrix)
    names = {a.name for a in c.record.attributes}
    epsilon = 1e-12 if matrix.dtype.itemsize == 8 else 1e-6
    for name, value in {"max_iter": 100, "epsilon": epsilon, "precision_config": "", "lower": True}.items():
        if name in names:
            c.attr(name, value)
    if c.op == "SelfAdjointEigV2":
        c.kept = 2 if c.flag("compute_v") else 1
    if "full_matrices" in names:
        c.attr("full_matrices", False)


@rule("TridiagonalMatMul TridiagonalSolve")
def tridiagonal(c: Draw) -> None:
    batch, n, columns = c.dims(0, 1), c.int(2, 5), c.int(1, 3)
    c.data("rhs", (*batch, n, columns))
    if c.op == "TridiagonalSolve":
        diagonals = c.array((*batch, 3, n), "T", -1, 1)
        diagonals[..., 1, :] += 4
        c.put("diagonals", diagonals), c.attr("partial_pivoting", False), c.attr("perturb_singular", False)
        return
    c.data("maindiag", (*batch, 1, n)), c.data("superdiag", (*batch, 1, n)), c.data("subdiag", (*batch, 1, n))


@rule(
    "MatrixDiag BatchMatrixDiag Diag MatrixBandPart BatchMatrixBandPart MatrixDiagPart "
    "BatchMatrixDiagPart DiagPart"
)
def diagonal(c: Draw) -> None:
    c.producer = 13 if c.op.startswith("Batch") else None
    if c.op in ("MatrixDiag", "BatchMatrixDiag", "Diag"):
        c.data("diagonal", c.dims(1, 3))
    elif c.op == "DiagPart":
        half = c.dims(1, 2)
        c.data("input", half + half)
    else:
        shape = c.dims(2, 4)
        c.data("input", shape)
        if "BandPart" in c.op:
            c.const("num_lower", c.int(-1, shape[-2])), c.const("num_upper", c.int(-1, shape[-1]))


@rule(
    "MatrixSetDiag BatchMatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixDiagPartV2 "
    "MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3"
)
def diagonals(c: Draw) -> None:
    c.producer = 13 if c.op.startswith("Batch") else None
    *batch, rows, columns = c.dims(2, 4)
    if not c.op.endswith(("V2", "V3")):
        c.data("input", (*batch, rows, columns)), c.data("diagonal", (*batch, min(rows, columns)))
        return
    low = c.int(1 - rows, columns - 1)
    high = c.int(low, columns - 1)
    lengths = [min(rows + min(d, 0), columns - max(d, 0)) for d in range(low, high + 1)]
    c.const("k", low if low == high else [low, high])
    band = (max(lengths),) if low == high else (len(lengths), max(lengths))
    if "SetDiag" in c.op:
        c.data("input", (*batch, rows, columns)), c.data("diagonal", (*batch, *band))
        return
    c.put("padding_value", c.array((), "T"), constant=True)
    if "DiagPart" in c.op:
        c.data("input", (*batch, rows, columns))
        return
    c.data("diagonal", (*batch, *band)), c.const("num_rows", rows), c.const("num_cols", columns)


@rule("FFT FFT2D FFT3D IFFT IFFT2D IFFT3D")
def fft(c: Draw) -> None:
    rank = int(c.op.partition("FFT")[2][:1] or 1)
    c.data("input", c.dims(rank, rank + 1, 1, 6))


@rule("RFFT RFFT2D RFFT3D IRFFT IRFFT2D IRFFT3D")
def rfft(c: Draw) -> None:
    rank = int(c.op.partition("FFT")[2][:1] or 1)
    double = c.type("Tcomplex") == "DT_COMPLEX128"
    c.attr("Treal", "DT_DOUBLE" if double else "DT_FLOAT")
    c.data("input", c.dims(rank, rank + 1, 2, 6)), c.const("fft_length", [c.int(1, 7) for _ in range(rank)])
