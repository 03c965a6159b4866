"""cholesky and triangular-solve: generated code against the interpreter, and against what defines them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from three_ways import agree, near

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
TOLERANCE = {"f32": 5e-6, "f64": 1e-14, "c64": 5e-6, "c128": 1e-14}


def numbers(dims: tuple[int, ...], dtype: str, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.random(dims) - 0.4
    if dtype[0] == "c":
        found = found + 1j * (rng.random(dims) - 0.4)
    return found.astype(TYPES[dtype])


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def shape_text(dtype: str, dims: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"


def cholesky(dims: tuple[int, ...], dtype: str, lower: bool) -> str:
    shape = shape_text(dtype, dims)
    return f"""HloModule m
ENTRY e {{
  a = {shape} parameter(0)
  ROOT r = {shape} cholesky(a), lower={str(lower).lower()}
}}"""


def positive(dims: tuple[int, ...], dtype: str) -> np.ndarray:
    a = numbers(dims, dtype)
    return (a @ adjoint(a) / max(1, dims[-1]) + np.eye(dims[-1])).astype(TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lower", [True, False], ids=["lower", "upper"])
def test_cholesky(dtype, lower):
    for dims in ((1, 1), (2, 3, 5, 5), (0, 4, 4), (3, 0, 0)):
        a = positive(dims, dtype)
        # What is in the other triangle does not count.
        other = np.triu(np.full(dims, np.nan), 1).astype(TYPES[dtype])
        (factor,) = agree(
            cholesky(dims, dtype, lower), [a + (other if lower else adjoint(other))], TOLERANCE[dtype]
        )
        again = factor @ adjoint(factor) if lower else adjoint(factor) @ factor
        near(again, a, TOLERANCE[dtype])
        assert not np.triu(factor if lower else adjoint(factor), 1).any()


@pytest.mark.parametrize("dtype", ["f32", "c128"])
def test_cholesky_of_several_blocks(dtype):
    a = positive((150, 150), dtype)
    (factor,) = agree(cholesky((150, 150), dtype, True), [a], TOLERANCE[dtype])
    near(factor @ adjoint(factor), a, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["f64", "c64"])
def test_cholesky_of_what_is_not_positive_is_nan(dtype):
    a = positive((5, 4, 4), dtype)
    a[0, 0, 0], a[1, 3, 3], a[2, 1, 1], a[3, 2, 1] = 0, -1, np.nan, np.nan
    (factor,) = agree(cholesky((5, 4, 4), dtype, True), [a], TOLERANCE[dtype])
    assert np.isnan(factor[:4]).all() and np.isfinite(factor[4]).all()
    last = positive((70, 70), dtype)
    last[69, 69] = -1  # found in the last block
    (factor,) = agree(cholesky((70, 70), dtype, False), [last], TOLERANCE[dtype])
    assert np.isnan(factor).all()


def triangular_solve(
    a: tuple[int, ...], b: tuple[int, ...], dtype: str, left: bool, lower: bool, unit: bool, turn: str
) -> str:
    flags = {"left_side": left, "lower": lower, "unit_diagonal": unit}
    attributes = ", ".join(f"{name}={str(value).lower()}" for name, value in flags.items())
    return f"""HloModule m
ENTRY e {{
  a = {shape_text(dtype, a)} parameter(0)
  b = {shape_text(dtype, b)} parameter(1)
  ROOT r = {shape_text(dtype, b)} triangular-solve(a, b), {attributes}, transpose_a={turn}
}}"""


def check_solution(
    size: int, sides: int, dtype: str, flags: tuple[bool, bool, bool], turn: str, batch: tuple[int, ...] = ()
) -> None:
    left, lower, unit = flags
    shape = (*batch, size, sides) if left else (*batch, sides, size)
    # The other triangle, and the diagonal when it is said to be 1, do not count.
    a = numbers((*batch, size, size), dtype) / max(1, size) + 2 * np.eye(size)
    kept = np.tril(a, -unit) if lower else np.triu(a, unit)
    a = np.where(kept == 0, np.nan, kept).astype(TYPES[dtype])
    b = numbers(shape, dtype, 2)
    given = (a.shape, b.shape, dtype, *flags, turn)
    (x,) = agree(triangular_solve(*given), [a, b], TOLERANCE[dtype])
    matrix = kept + unit * np.eye(size)
    matrix = {"TRANSPOSE": np.swapaxes(matrix, -1, -2), "ADJOINT": adjoint(matrix)}.get(turn, matrix)
    near((matrix @ x if left else x @ matrix).astype(TYPES[dtype]), b, TOLERANCE[dtype])


@pytest.mark.parametrize("turn", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("dtype", ["f32", "c128"])
def test_triangular_solve(dtype, turn):
    for flags in product((True, False), repeat=3):
        check_solution(5, 3, dtype, flags, turn, batch=(2,))


@pytest.mark.parametrize("dtype", TYPES)
def test_triangular_solve_sizes(dtype):
    for size, sides, batch in ((1, 1, ()), (3, 0, ()), (0, 3, ()), (4, 20, (2, 2)), (2, 2, (0,))):
        check_solution(size, sides, dtype, (True, True, False), "NO_TRANSPOSE", batch)


@pytest.mark.parametrize("sides", [1, 30])
def test_triangular_solve_of_several_blocks(sides):
    check_solution(150, sides, "f32", (True, True, True), "NO_TRANSPOSE")
    check_solution(70, sides, "f64", (False, True, False), "NO_TRANSPOSE")
