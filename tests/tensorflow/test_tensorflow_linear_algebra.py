"""Matrices, Fourier transforms and einsum: corners, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from axla.core.errors import UnsupportedError, VerifyError
from tensorflow_nodes import Known, module_of, run_node

f32 = np.float32


def numbered(*dims: int) -> np.ndarray:
    return np.arange(np.prod(dims), dtype=f32).reshape(dims)


@pytest.mark.parametrize("equation, first, second", [
    ("ab,bc->ac", (2, 3), (3, 4)), ("abc,acd->abd", (2, 3, 4), (2, 4, 5)), ("ab,cd->dbca", (2, 3), (4, 5)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (6, 3, 4)), ("...,...->...", (2,), (3, 1)),
    ("a...b,b...c->c...a", (2, 4, 3), (3, 1, 5)), ("iij,jkk->ik", (2, 2, 3), (3, 4, 4)),
    ("bik,bjk->bij", (2, 3, 0), (2, 4, 0)), ("ab,ab->", (2, 3), (2, 3)),
])  # fmt: skip
def test_einsum_is_that_of_numpy(equation, first, second):
    a, b = numbered(*first), numbered(*second)
    (found,) = run_node("XlaEinsum", a, b, equation=equation)
    np.testing.assert_allclose(found, np.einsum(equation, a, b), rtol=1e-6)


@pytest.mark.parametrize("equation, dims, wanted", [
    ("i->ii", (2,), [[0, 0], [0, 1]]), ("...ii->i...", (2, 2, 2), [[0, 4], [3, 7]]),
    ("iii->i", (2, 2, 2), [0, 7]),
    ("ij->", (0, 3), 0), ("->", (), 0),
])  # fmt: skip
def test_einsum_takes_and_makes_diagonals(equation, dims, wanted):
    (found,) = run_node("Einsum", numbered(*dims), equation=equation, T="DT_FLOAT", N=1)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("equation, reason", [
    ("ab,bc", "is not of the form"), ("ab->a", "1 operands, found 2"), ("a1,bc->a", "not letters: 'a1'"),
    ("abc,bc->a", "'abc' does not fit an operand of shape \\[2, 3\\]"), ("ab,bc->ad", "the label 'd'"),
    ("ab,ac->bc", "'a' labels dimensions of sizes 2 and 3"),
    ("aa,ab->b", "sizes \\[2, 3\\] of one operand"),
    ("...a,ab->b", "has no '...'"),
])  # fmt: skip
def test_equations_that_are_refused(equation, reason):
    with pytest.raises(VerifyError, match=reason):
        module_of("XlaEinsum", numbered(2, 3), numbered(3, 4), equation=equation)


def test_triangular_systems_broadcast_what_stands_before_the_matrices():
    matrix, right = np.full((3, 1, 2, 2), 2, f32), np.ones((5, 2, 4), f32)
    (found,) = run_node("MatrixTriangularSolve", matrix, right, lower=False)
    assert found.shape == (3, 5, 2, 4)
    np.testing.assert_array_equal(found[1, 2], np.array([[0] * 4, [0.5] * 4], f32))


def test_eigenvectors_have_their_shape_where_only_eigenvalues_are_wanted():
    values, vectors = run_node("SelfAdjointEigV2", np.diag(f32([2, 1])), compute_v=False)
    np.testing.assert_array_equal(values, [1, 2])
    np.testing.assert_array_equal(np.abs(vectors), [[0, 1], [1, 0]])


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_determinants_have_the_sign_of_the_permutation(backend):
    matrices = np.array([[[0, 2], [3, 1]], [[1, 2], [2, 4]], [[2, 0], [0, 5]]], f32)
    np.testing.assert_allclose(run_node("MatrixDeterminant", matrices, backend=backend)[0], [-6, 0, 10])
    sign, log = run_node("LogMatrixDeterminant", matrices, backend=backend)
    np.testing.assert_array_equal(sign, [-1, 0, 1])
    np.testing.assert_allclose(log, [np.log(6), -np.inf, np.log(10)], rtol=1e-6)


def test_tridiagonal_systems_with_pivots():
    diagonals = np.array([[1, 2, 3, 9], [0, 1, 0, 1], [9, 4, 5, 6]], f32)
    right = np.array([[1], [2], [3], [4]], f32)
    (found,) = run_node("TridiagonalSolve", diagonals, right)
    np.testing.assert_allclose(found[:, 0], [-0.13888887, 1, 0.7777777, -0.6666666], rtol=1e-5)


def test_lengths_of_real_transforms_cut_and_are_checked():
    (found,) = run_node("RFFT", np.array([1, 2, 3, 4, 9], f32), Known(np.array([4], np.int32)))
    np.testing.assert_allclose(found, [10, -2 + 2j, -2])
    (found,) = run_node("IRFFT", found, Known(np.array([4], np.int32)))
    np.testing.assert_allclose(found, [1, 2, 3, 4])
    assert run_node("RFFT", np.ones((2, 5), f32), Known(np.array([0], np.int32)))[0].shape == (2, 0)
    with pytest.raises(VerifyError, match="dimension 0 of .5. must have at least 8 elements"):
        module_of("RFFT", np.ones(5, f32), Known(np.array([8], np.int32)))
    with pytest.raises(UnsupportedError, match="fft_length depends on arguments"):
        module_of("RFFT", np.ones(5, f32), np.array([4], np.int32))


def test_shapes_that_are_refused():
    with pytest.raises(VerifyError, match="wanted square matrices, found shape .2, 3."):
        module_of("Cholesky", numbered(2, 3))
    with pytest.raises(VerifyError, match="do not fit right-hand sides"):
        module_of("MatrixSolve", numbered(2, 2), numbered(3, 1))
    with pytest.raises(VerifyError, match="wanted matrices, found shape .3."):
        module_of("Qr", numbered(3))
