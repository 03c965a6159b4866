"""lapack-expander: what the programs in the place of LAPACK's routines give, on every kind of matrix.

Where LAPACK leaves no choice they are compared with the library itself; where vectors may be turned, what
they are made for is checked. Accuracy is in units of epsilon times the size times the largest number.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import axla
from axla.core.errors import UnsupportedError
from axla.passes import driver
from axla.passes.pipelines import PASSES
from axla.text.parser import parse_hlo
from lapack_calls import LETTERS, attributes, h, random, real_of, text_of

EXPAND = (PASSES["lapack-expander"],)
UNITS = 10

letters = pytest.mark.parametrize("letter", LETTERS)


def expanded(text):
    module = parse_hlo(text)
    driver.run(module, EXPAND, name="test")
    assert not any(i.opcode == "custom-call" for c in module.computations for i in c.instructions)
    return module


@cache
def program(text, backend):
    """Without the passes of LLVM: they take a third of the time, and these tests are about ours."""
    return axla.compile(expanded(text), backend=backend, flags={"xla_backend_optimization_level": 0})


def call(target, operands, results, config="", backends=("cpu",)):
    """The results without the library; those of the last backend."""
    text = text_of(target, operands, results, config)
    for backend in backends:
        found = [np.asarray(x) for x in program(text, backend).execute([array for array, _ in operands])]
        for array, ((dtype, dims), _) in zip(found, results, strict=True):
            assert array.dtype == dtype and array.shape == dims
    return found


def wide(x):
    """As f64 or c128."""
    return x.astype(np.result_type(x.dtype, np.float64))


def near(found, wanted, names=None, scale=None):
    """Within UNITS, for each matrix of a batch."""
    if found.dtype.kind in "i?":
        np.testing.assert_array_equal(found, wanted)
        return
    batch = len(found)
    unit = np.abs(wide(wanted if scale is None else scale)).reshape(batch, -1).max(1, initial=0)
    unit = np.maximum(unit, np.finfo(float).tiny) * np.finfo(found.dtype).eps * max(1, *found.shape[1:])
    errors = np.abs(wide(found) - wide(wanted)).reshape(batch, -1).max(1, initial=0) / unit
    wrong = {k if names is None else names[k]: e for k, e in enumerate(errors) if not e < UNITS}
    assert not wrong, f"too far off, in units: {wrong}"


def orthonormal(q, names):
    """The columns, within UNITS."""
    eye = np.broadcast_to(np.eye(q.shape[-1]), (len(q), q.shape[-1], q.shape[-1]))
    near((h(wide(q)) @ wide(q)).astype(q.dtype), eye, names)


def kinds(letter, n):
    """Matrices of many kinds: names and a batch."""
    r, dtype = np.random.default_rng(n), LETTERS[letter]

    def g(*dims):
        x = r.standard_normal(dims)
        return x + 1j * r.standard_normal(dims) if letter in "cz" else x

    found = {
        "random": g(n, n), "zero": np.zeros((n, n)), "eye": np.eye(n), "minus eye": -np.eye(n),
        "ones": np.ones((n, n)), "jordan": 2 * np.eye(n) + np.eye(n, k=1), "nilpotent": np.eye(n, k=1),
        "cycle": np.roll(np.eye(n), 1, 0), "rank one": np.outer(g(n), g(n)), "large": g(n, n) * 1e30,
        "small": g(n, n) * 1e-30, "graded": g(n, n) * np.logspace(0, -6, n),
        "half rank": g(n, n // 2) @ g(n // 2, n), "orthogonal": np.linalg.qr(g(n, n))[0],
        "cluster": np.eye(n) + 1e-7 * g(n, n),
        "skew": (lambda x: x - h(x))(g(n, n)), "diagonal": np.diag(r.standard_normal(n)),
    }  # fmt: skip
    return list(found), np.stack([x.astype(dtype) for x in found.values()])


# Where there is one answer: the library's


def matrices(dtype, *dims):
    return ((dtype, dims), True)


def plain(dtype, *dims):
    return ((dtype, dims), False)


def same_as_library(target, operands, results, config="", backends=("cpu",)):
    text = text_of(target, operands, results, config)
    wanted = [np.asarray(x) for x in axla.compile(parse_hlo(text)).execute([array for array, _ in operands])]
    for found, other in zip(call(target, operands, results, config, backends), wanted, strict=True):
        near(found, other)
    return wanted


@pytest.mark.parametrize(("letter", "uplo"), ["sL", "dU", "cU", "zL"])
def test_cholesky(letter, uplo):
    x = random(letter, 3, 7, 7)
    a = x @ h(x) + 7 * np.eye(7, dtype=x.dtype)
    results = [matrices(a.dtype, 3, 7, 7), plain(np.int32, 3)]
    target = f"lapack_{letter}potrf_ffi"
    same_as_library(target, [(a, True)], results, attributes(uplo=uplo), ("interpreter", "cpu"))
    a[0, 4, 4], a[1, 0, 0], a[2, 6, 6] = -1, np.nan, 0
    assert call(target, [(a, True)], results, attributes(uplo=uplo))[1].tolist() == [5, 1, 7]


@letters
def test_triangular_solve(letter):
    a, b = random(letter, 2, 4, 4) + 4 * np.eye(4, dtype=LETTERS[letter]), random(letter, 2, 4, 3, seed=1)
    for side, uplo, trans, diag in ("LLNN", "LUTU", "LLCN", "RUCN", "RLNU"):
        right = b if side == "L" else b.swapaxes(1, 2)
        config = attributes(side=side, uplo=uplo, trans_x=trans, diag=diag)
        same_as_library(
            f"lapack_{letter}trsm_ffi", [(a, True), (right, True)], [matrices(a.dtype, *right.shape)], config
        )


@pytest.mark.parametrize(
    ("letter", "dims"), [("s", (5, 5)), ("d", (3, 6)), ("c", (6, 3)), ("z", (1, 1))], ids=str
)
def test_lu_and_qr(letter, dims):
    a, k = random(letter, 3, *dims), min(dims)
    a[1, :, 0] = 0
    whole, counts = matrices(a.dtype, 3, *dims), plain(np.int32, 3, k)
    same_as_library(
        f"lapack_{letter}getrf_ffi", [(a, True)], [whole, counts, plain(np.int32, 3)],
        backends=("interpreter", "cpu"),
    )  # fmt: skip
    r, tau = same_as_library(f"lapack_{letter}geqrf_ffi", [(a, True)], [whole, plain(a.dtype, 3, k)])
    name = "un" if letter in "cz" else "or"
    q = np.ascontiguousarray(r[:, :, :k])
    for count in sorted({0, k // 2, k}):  # fewer reflectors than columns
        operands = [(q, True), (np.ascontiguousarray(tau[:, :count]), False)]
        same_as_library(f"lapack_{letter}{name}gqr_ffi", operands, [matrices(a.dtype, *q.shape)])
    for left in (True, False):
        c = random(letter, 3, *((dims[0], 2) if left else (2, dims[0])), seed=1)
        for transpose in ("true", "false"):
            same_as_library(
                f"lapack_{letter}{name}mqr_ffi", [(q, True), (tau, False), (c, True)],
                [matrices(a.dtype, *c.shape)], f"left = {str(left).lower()}, transpose = {transpose}",
            )  # fmt: skip


@pytest.mark.parametrize(("letter", "dims"), [("d", (20, 40)), ("c", (36, 20))], ids=str)
def test_lu_and_qr_by_blocks(letter, dims):
    a = random(letter, 1, *dims)
    a[:, :, 17] = 0
    k = min(dims)
    whole = matrices(a.dtype, *a.shape)
    results = [whole, plain(np.int32, 1, k), plain(np.int32, 1)]
    same_as_library(f"lapack_{letter}getrf_ffi", [(a, True)], results)
    r, tau = same_as_library(f"lapack_{letter}geqrf_ffi", [(a, True)], [whole, plain(a.dtype, 1, k)])
    q = np.ascontiguousarray(r[:, :, :k])
    name = f"lapack_{letter}{'un' if letter in 'cz' else 'or'}gqr_ffi"
    same_as_library(name, [(q, True), (tau, False)], [matrices(a.dtype, *q.shape)])


@pytest.mark.parametrize(("letter", "n"), [("s", 1), ("d", 3)])
def test_batches_of_small_matrices(letter, n):
    """More than fill the lanes; one is singular, one is not a number."""
    a = random(letter, 35, n, n)
    a[3], a[7, 0, 0] = 0, np.nan
    fine = np.arange(35) != 7
    whole, counts, info = matrices(a.dtype, *a.shape), plain(np.int32, 35, n), plain(np.int32, 35)
    found, pivots, bad = call(f"lapack_{letter}getrf_ffi", [(a, True)], [whole, counts, info])
    product = (np.tril(found, -1) + np.eye(n, dtype=a.dtype)) @ np.triu(found)
    for k, line in enumerate(pivots):
        for i in range(n - 1, -1, -1):
            product[k, [i, line[i] - 1]] = product[k, [line[i] - 1, i]]
    near(product[fine], a[fine])
    assert bad[3] == 1 and not bad[[0, 1, 2, 4, 5, 6, 7, 34]].any()
    s = a + h(a)
    results = [whole, plain(a.dtype, 35, n), info]
    v, w, bad = call(f"lapack_{letter}syevd_ffi", [(s, True)], results, attributes(mode="V", uplo="L"))
    assert (bad == ~fine).all() and (np.diff(w[fine], axis=-1) >= 0).all()
    orthonormal(v[fine], None)
    near((wide(v) * w[:, None, :] @ h(v))[fine].astype(a.dtype), s[fine])


def test_an_infinite_number_among_small_matrices_without_rotations():
    a = np.tile(np.eye(3), (35, 1, 1))
    a[9, 0, 1] = a[9, 1, 0] = np.inf
    results = [matrices(a.dtype, *a.shape), plain(a.dtype, 35, 3), plain(np.int32, 35)]
    _, values, info = call("lapack_dsyevd_ffi", [(a, True)], results, attributes(mode="V", uplo="L"))
    assert np.isnan(values[9]).all()
    assert info.nonzero()[0].tolist() == [9]


def test_eigenvalues_by_parts():
    """Of which many are equal, close, or far apart, in parts that the rows do not fill."""
    n, r = 61, np.random.default_rng(5)
    q = np.linalg.qr(r.standard_normal((n, n)))[0]
    spectra = [np.repeat([1, 1 + 1e-9, -2], 21)[:n], np.logspace(0, -14, n), np.r_[np.zeros(n - 2), 1, 2]]
    spectra += [1 + 1e-14 * np.arange(n), r.standard_normal(n)]
    beside = np.diag(np.ones(n - 1), 1)
    a = [q * x @ q.T for x in spectra]
    a += [
        np.eye(n),
        0 * q,
        np.ones((n, n)),
        np.diag(abs(np.arange(n) - 30.0)) + beside + beside.T,
        1e-300 * q,
    ]
    a = np.stack(a)
    a = (a + h(a)) / 2
    results = [matrices(a.dtype, *a.shape), plain(a.dtype, len(a), n), plain(np.int32, len(a))]
    v, w, info = call("lapack_dsyevd_ffi", [(a, True)], results, attributes(mode="V", uplo="L"))
    assert not info.any() and (np.diff(w, axis=-1) >= 0).all()
    near(w, np.linalg.eigvalsh(a), scale=a)
    orthonormal(v, None)
    near(v * w[:, None, :] @ h(v), a)


@pytest.mark.parametrize(("letter", "dims"), [("s", (5, 4)), ("d", (3, 6)), ("c", (4, 4)), ("z", (2, 5))])
def test_pivoted_qr(letter, dims):
    a, pivots = random(letter, 2, *dims), np.zeros((2, dims[1]), np.int32)
    pivots[1, [1, 3]] = 1  # these two come first
    results = [matrices(a.dtype, *a.shape), plain(np.int32, *pivots.shape), plain(a.dtype, 2, min(dims))]
    same_as_library(f"lapack_{letter}geqp3_ffi", [(a, True), (pivots, False)], results)


@pytest.mark.parametrize("letter", "dc")
def test_hessenberg_and_tridiagonal_form(letter):
    a, real = random(letter, 2, 6, 6), real_of(letter)
    info, target = plain(np.int32, 2), f"lapack_{letter}gehrd_ffi"
    whole, tau = matrices(a.dtype, 2, 6, 6), plain(a.dtype, 2, 5)
    same_as_library(target, [(a, True)], [whole, tau, info], "low = 1 : i32, high = 6 : i32")
    isolated = a.copy()
    isolated[:, 1:, 0] = isolated[:, 5, :5] = 0  # as balancing leaves it
    same_as_library(target, [(isolated, True)], [whole, tau, info], "low = 2 : i32, high = 5 : i32")
    for uplo in "LU":
        same_as_library(
            f"lapack_{letter}{'he' if letter in 'cz' else 'sy'}trd_ffi", [(a, True)],
            [whole, plain(real, 2, 6), plain(real, 2, 5), tau, info], attributes(uplo=uplo),
        )  # fmt: skip


@pytest.mark.parametrize(("letter", "n"), [("s", 6), ("d", 1), ("d", 2), ("c", 6), ("z", 3)])
def test_tridiagonal_solve(letter, n):
    lower, main, upper = (random(letter, 3, n, seed=k) for k in range(3))
    main[0] *= 10  # nothing is exchanged
    b = random(letter, 3, n, 2, seed=3)
    vector = plain(b.dtype, 3, n)
    operands = [(lower, False), (main, False), (upper, False), (b, True)]
    results = [vector, vector, vector, matrices(b.dtype, 3, n, 2), plain(np.int32, 3)]
    same_as_library(f"lapack_{letter}gtsv_ffi", operands, results)
    lower[1], main[1], upper[2] = 0, 0, 0
    lower[2], main[2, -1] = 0, 0
    assert call(f"lapack_{letter}gtsv_ffi", operands, results)[4].tolist() == [0, 1, n]


# Where vectors may be turned


@pytest.mark.parametrize(("letter", "n"), [("s", 7), ("d", 1), ("d", 2), ("z", 6)])
def test_symmetric_eigenvalues(letter, n):
    names, a = kinds(letter, n)
    a = (a + h(a)) / 2
    name, real = f"lapack_{letter}{'he' if letter in 'cz' else 'sy'}evd_ffi", real_of(letter)
    results = [matrices(a.dtype, *a.shape), plain(real, len(a), n), plain(np.int32, len(a))]
    wanted = np.linalg.eigvalsh(wide(a))
    for uplo, mode in ("LV", "UV", "LN") if letter == "z" else ("UV",):
        other = np.triu(np.ones_like(a), 1) if uplo == "L" else np.tril(np.ones_like(a), -1)
        v, w, info = call(name, [(a + other, True)], results, attributes(mode=mode, uplo=uplo))
        assert (info == 0).all() and (np.diff(w, axis=-1) >= 0).all()
        near(w, wanted, names, scale=a)
        if mode == "V":
            orthonormal(v, names)
            near((wide(v) * w[:, None, :] @ h(v)).astype(a.dtype), a, names)


@pytest.mark.parametrize(
    ("letter", "dims", "modes"),
    [("s", (6, 6), "S"), ("z", (6, 6), "S"), ("d", (7, 4), "A"), ("c", (7, 4), "A")],
    ids=str,
)
def test_singular_values(letter, dims, modes):
    check_singular_values(letter, dims, modes)


def test_singular_values_by_eigenvalues():
    check_singular_values("d", (30, 26), "A")


def test_singular_values_of_other_sizes():
    check_singular_values("z", (1, 1), "A")
    check_singular_values("d", (4, 7), "ASN")


def check_singular_values(letter, dims, modes):
    names, a = kinds(letter, max(dims))
    m, n = dims
    a, k, batch = np.ascontiguousarray(a[:, :m, :n]), min(dims), len(a)
    wanted = np.linalg.svd(wide(a), compute_uv=False)
    for mode in modes:
        columns, rows = (k, k) if mode == "S" else (m, n)
        vectors = [matrices(a.dtype, batch, m, columns), matrices(a.dtype, batch, rows, n)]
        values, info = plain(real_of(letter), batch, k), plain(np.int32, batch)
        results = [matrices(a.dtype, *a.shape), values, *vectors, info]
        routine = "gesvd" if mode == "S" else "gesdd"
        _, s, u, v, info = call(f"lapack_{letter}{routine}_ffi", [(a, True)], results, attributes(mode=mode))
        assert (info == 0).all() and (np.diff(s, axis=-1) <= 0).all()
        near(s, wanted, names, scale=a)
        if mode == "N":
            assert not u.any() and not v.any()
            continue
        orthonormal(u, names)
        orthonormal(h(v), names)
        near((wide(u[..., :k]) * s[:, None] @ v[:, :k]).astype(a.dtype), a, names)


def general(letter, a, left="V", right="V", backends=("cpu",)):
    """Eigenvalues, left and right eigenvectors, info."""
    complex_ = np.result_type(a.dtype, np.complex64)
    batch, n = a.shape[:2]
    values = [plain(a.dtype, batch, n)] * (1 if letter in "cz" else 2)
    results = [*values, *[matrices(complex_, *a.shape)] * 2, plain(np.int32, batch)]
    config = attributes(compute_left=left, compute_right=right)
    *w, vl, vr, info = call(f"lapack_{letter}geev_ffi", [(a, True)], results, config, backends)
    return (w[0] if letter in "cz" else w[0] + 1j * w[1]).astype(np.complex128), vl, vr, info


@pytest.mark.parametrize(("letter", "n"), [("s", 8), ("d", 1), ("d", 3), ("c", 8), ("z", 2)])
def test_eigenvalues(letter, n):
    names, a = kinds(letter, n)
    w, vl, vr, info = general(letter, a)
    assert (info == 0).all()
    near((wide(a) @ vr).astype(vr.dtype), vr * w[:, None, :], names, scale=a)
    near((h(vl) @ wide(a)).astype(vr.dtype), w[:, :, None] * h(vl), names, scale=a)
    for v in (vl, vr):
        assert np.abs(np.linalg.norm(wide(v), axis=1) - 1).max() < 4 * n * np.finfo(a.dtype).eps
    if letter in "sd":
        assert (vr.swapaxes(1, 2)[w.imag == 0].imag == 0).all()
        for row in w:  # of a pair, the one above the real axis comes first
            pairs = row[row.imag != 0]
            assert (pairs[::2] == pairs[1::2].conj()).all() and (pairs[::2].imag > 0).all()


def test_eigenvalues_alone():
    a = random("d", 1, 6, 6)
    wanted, vl, vr, _ = general("d", a, "N", "N", ("interpreter", "cpu"))
    assert not vl.any() and not vr.any()
    near(np.sort_complex(wanted), np.sort_complex(np.linalg.eigvals(a)))


@pytest.mark.parametrize(("letter", "n"), [("s", 8), ("d", 1), ("d", 2), ("c", 8)])
def test_schur(letter, n):
    names, a = kinds(letter, n)
    batch = len(a)
    values = [plain(a.dtype, batch, n)] * (1 if letter in "cz" else 2)
    results = [*[matrices(a.dtype, *a.shape)] * 2, *values, *[plain(np.int32, batch)] * 2]
    for mode in "VN" if n == 2 else "V":
        t, z, *w, selected, info = call(
            f"lapack_{letter}gees_ffi", [(a, True)], results, attributes(mode=mode, sort="N")
        )
        assert (info == 0).all() and (selected == 0).all()
        assert (w[0] == np.diagonal(t, axis1=1, axis2=2)).all()
        below = np.diagonal(t, -1, 1, 2)
        assert not np.tril(t, -2).any() and (letter in "sd" or not below.any())
        for at, k in np.argwhere(below):
            block = t[at, k : k + 2, k : k + 2]
            assert block[0, 0] == block[1, 1] and np.sign(block[0, 1]) == -np.sign(block[1, 0])
            assert not below[at, k + 1 : k + 2].any()
        if mode == "V":
            orthonormal(z, names)
            near((wide(z) @ t @ h(z)).astype(a.dtype), a, names)
        else:
            assert not z.any()


def test_several_sizes_of_the_same_code():
    """Code does not grow with the matrices, once they have as many panels as there may be."""

    def length(n):
        a = np.broadcast_to(np.float32(0), (n, n))
        module = expanded(
            text_of("lapack_sgeqrf_ffi", [(a, True)], [matrices(a.dtype, n, n), plain(a.dtype, n)])
        )
        return sum(len(c.instructions) for c in module.computations)

    assert length(2048) == length(4096)


# What is not a number, nothing, other layouts


def test_what_is_not_finite_spoils_its_own_matrix_only():
    letter = "c"
    a = random(letter, 3, 4, 4)
    a = a + h(a)
    a[1, 2, 1] = np.nan
    real, dtype, fine = real_of(letter), a.dtype, [0, 2]
    whole, info = matrices(dtype, 3, 4, 4), plain(np.int32, 3)
    v, w, bad = call(
        "lapack_cheevd_ffi", [(a, True)], [whole, plain(real, 3, 4), info], attributes(mode="V", uplo="L")
    )
    assert bad[1] > 0 and np.isnan(w[1]).all() and not bad[fine].any()
    near((v * w[:, None, :] @ h(v))[fine], a[fine])
    results = [whole, plain(real, 3, 4), whole, whole, info]
    _, s, u, vh, bad = call(f"lapack_{letter}gesdd_ffi", [(a, True)], results, attributes(mode="A"))
    assert bad.tolist() == [0, -4, 0]
    near((u * s[:, None, :] @ vh)[fine], a[fine])
    w, _, vr, bad = general(letter, a)
    assert bad.tolist() == [0, -4, 0] and not vr[1].any()
    near((a @ vr)[fine], (vr * w[:, None, :])[fine])
    lu, pivots, bad = call(f"lapack_{letter}getrf_ffi", [(a, True)], [whole, plain(np.int32, 3, 4), info])
    assert np.isnan(lu[1]).any() and ((pivots >= 1) & (pivots <= 4)).all()


@pytest.mark.parametrize("dims", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
def test_nothing(dims):
    a, batch, n = np.zeros(dims, np.float32), dims[:-2], dims[-1]
    matrix, vector, info = matrices(a.dtype, *dims), plain(a.dtype, *dims[:-1]), plain(np.int32, *batch)
    a_ = [(a, True)]
    found = [
        *call("lapack_spotrf_ffi", a_, [matrix, info], attributes(uplo="L")),
        *call("lapack_sgetrf_ffi", a_, [matrix, plain(np.int32, *dims[:-1]), info]),
        *call("lapack_ssyevd_ffi", a_, [matrix, vector, info], attributes(mode="V", uplo="L")),
        *call("lapack_sgesdd_ffi", a_, [matrix, vector, matrix, matrix, info], attributes(mode="A")),
        *call(
            "lapack_sgees_ffi", a_, [matrix, matrix, vector, vector, info, info],
            attributes(mode="V", sort="N"),
        ),
    ]  # fmt: skip
    assert not any(x.any() for x in found)
    low = plain(a.dtype, *batch, max(n - 1, 0))
    call("lapack_sgehrd_ffi", a_, [matrix, low, info], f"high = {n} : i32, low = 1 : i32")


LAYOUTS = """HloModule m
ENTRY e {{
  a = f32[2,3,4] parameter(0)
  ROOT f = (f32[2,3,4]{{{second}}}, f32[2,3]{{{third}}}) custom-call(a),
    custom_call_target="lapack_sgeqrf_ffi", operand_layout_constraints={{f32[2,3,4]{{{first}}}}},
    api_version=API_VERSION_TYPED_FFI, backend_config={{}}
}}"""


@pytest.mark.parametrize("before", [(), ("layout-normalization",)], ids=len)
@pytest.mark.parametrize(
    "layouts", [("1,2,0", "1,2,0", "1,0"), ("2,1,0", "1,2,0", "0,1"), ("1,2,0", "0,1,2", "1,0")]
)
def test_any_layout_means_what_it_means_to_the_library(layouts, before):
    first, second, third = layouts
    text = LAYOUTS.format(first=first, second=second, third=third)
    a = random("s", 2, 3, 4)
    found = []
    for passes in (before, (*before, "lapack-expander")):
        module = parse_hlo(text)
        driver.run(module, [PASSES[name] for name in passes], name="test")
        assert ("custom-call" in module.to_string()) == (passes == before)
        found.append([np.asarray(x) for x in axla.compile(module).execute([a])])
    for one, other in zip(*found, strict=True):
        near(one, other)


def test_a_registered_function_stays():
    a = np.eye(3, dtype=np.float32)
    results = [matrices(a.dtype, 3, 3), plain(np.int32)]
    text = text_of("lapack_spotrf_ffi", [(a, True)], results, attributes(uplo="L"))
    axla.register_custom_call("lapack_spotrf_ffi", lambda a, *, uplo: (a, np.int32(5)))
    try:
        module = parse_hlo(text)
        driver.run(module, EXPAND, name="test")
    finally:
        axla.unregister_custom_call("lapack_spotrf_ffi")
    assert "custom-call" in module.to_string()


def test_a_call_that_is_wrong_is_refused():
    a = np.eye(3, dtype=np.float32)
    results = [matrices(a.dtype, 3, 3), plain(np.int32)]
    with pytest.raises(UnsupportedError, match=r"spotrf_ffi.*attribute uplo is None, wanted 76 \(L\)"):
        expanded(text_of("lapack_spotrf_ffi", [(a, True)], results))
    with pytest.raises(UnsupportedError, match=r"result 1 is s32\[\], wanted s32\[3\]"):
        expanded(text_of("lapack_sgetrf_ffi", [(a, True)], [*results, plain(np.int32)]))


def test_the_program_says_where_it_is_from():
    a = np.eye(3, dtype=np.float32)
    text = text_of(
        "lapack_spotrf_ffi", [(a, True)], [matrices(a.dtype, 3, 3), plain(np.int32)], attributes(uplo="L")
    )
    text = text.replace(
        "custom_call_target", 'metadata={op_name="chol" source_file="a.py" source_line=7}, custom_call_target'
    )
    module = expanded(text)
    called = module.entry.root.op.to_apply
    assert {str(i.extra.location) for i in called.instructions} == {str(module.entry.root.extra.location)}
