"""The targets that JAX emits for linear algebra on CPUs, with the layouts and attributes that it gives."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import axla
from axla.core.dtypes import from_numpy
from axla.core.errors import UnsupportedError
from axla.custom import lapack, routines
from lapack_calls import LETTERS, attributes, close, h, product_of_reflectors, random, real_of, text_of

scipy_linalg = pytest.importorskip("scipy.linalg", reason="SciPy, which brings LAPACK, is not installed")

BACKENDS = ["interpreter", "cpu", "one-lane"]
letters = pytest.mark.parametrize("letter", LETTERS)
batches = pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)


def call(target, operands, results, config="", aliases=""):
    """The results, which all backends agree on to the bit."""
    module = axla.parse(text_of(target, operands, results, config, aliases))
    arrays = [array for array, _ in operands]
    # one-lane differs from cpu in how the sizes of a call are passed: that is no matter of the precision.
    backends = BACKENDS if target.startswith(("lapack_s", "lapack_z")) else BACKENDS[:2]
    found = [
        [np.asarray(x) for x in axla.compile(module, backend=backend).execute(arrays)] for backend in backends
    ]
    for backend, other in zip(backends[1:], found[1:], strict=True):
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two, err_msg=backend)
    for array, ((dtype, dims), _) in zip(found[0], results, strict=True):
        assert array.dtype == dtype and array.shape == dims
    return found[0]


@letters
@batches
def test_cholesky(letter, batch):
    x = random(letter, *batch, 4, 4)
    a = x @ h(x) + 4 * np.eye(4, dtype=x.dtype)
    for uplo in "LU":
        found, info = call(
            f"lapack_{letter}potrf_ffi", [(a, True)],
            [((a.dtype, a.shape), True), ((np.int32, batch), False)],
            attributes(uplo=uplo), "output_to_operand_aliasing={{0}: (0, {})}, ",
        )  # fmt: skip
        assert (info == 0).all()
        lower = np.tril(found) if uplo == "L" else h(np.triu(found))
        close(lower @ h(lower), a)
        other = np.triu(found, 1) if uplo == "L" else np.tril(found, -1)
        assert (other == (np.triu(a, 1) if uplo == "L" else np.tril(a, -1))).all()


def test_info_is_of_each_matrix():
    a = np.stack([np.eye(3), np.diag([1, -1, 1]), np.diag([1, 1, -1])]).astype(np.float32)
    results = [((a.dtype, a.shape), True), ((np.int32, (3,)), False)]
    _, info = call("lapack_spotrf_ffi", [(a, True)], results, attributes(uplo="L"))
    assert info.tolist() == [0, 2, 3]


@letters
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
def test_triangular_solve(letter, side, uplo):
    a, b = random(letter, 2, 4, 4), random(letter, 2, *((4, 3) if side == "L" else (3, 4)), seed=1)
    a = a + 4 * np.eye(4, dtype=a.dtype)
    for trans in "NTC":
        for diag in "NU":
            t = np.tril(a) if uplo == "L" else np.triu(a)
            if diag == "U":
                t[:, range(4), range(4)] = 1
            t = {"N": t, "T": t.swapaxes(-1, -2), "C": h(t)}[trans]
            (found,) = call(
                f"lapack_{letter}trsm_ffi", [(a, True), (b, True)], [((b.dtype, b.shape), True)],
                attributes(diag=diag, side=side, trans_x=trans, uplo=uplo),
                "output_to_operand_aliasing={{}: (1, {})}, ",
            )  # fmt: skip
            close(t @ found if side == "L" else found @ t, b)


@letters
@batches
@pytest.mark.parametrize("dims", [(4, 4), (3, 5), (5, 3)], ids=str)
def test_lu(letter, batch, dims):
    a = random(letter, *batch, *dims)
    k = min(dims)
    lu, pivots, info = call(
        f"lapack_{letter}getrf_ffi", [(a, True)],
        [((a.dtype, a.shape), True), ((np.int32, (*batch, k)), False), ((np.int32, batch), False)],
        "", "output_to_operand_aliasing={{0}: (0, {})}, ",
    )  # fmt: skip
    assert (info == 0).all()
    for at in np.ndindex(*batch):
        lower = np.tril(lu[at][:, :k], -1) + np.eye(dims[0], k)
        order = np.arange(dims[0])
        for row, other in enumerate(pivots[at] - 1):
            order[[row, other]] = order[[other, row]]
        close(lower.astype(a.dtype) @ np.triu(lu[at][:k]), a[at][order])


QR = """HloModule m
ENTRY e {{
  x = {type}[{m},{n}] parameter(0)
  f = ({type}[{m},{n}]{{0,1}}, {type}[{k}]) custom-call(x), custom_call_target="lapack_{letter}geqrf_ffi",
    operand_layout_constraints={{{type}[{m},{n}]{{0,1}}}}, api_version=API_VERSION_TYPED_FFI,
    backend_config={{}}
  a = {type}[{m},{n}]{{0,1}} get-tuple-element(f), index=0
  tau = {type}[{k}] get-tuple-element(f), index=1
  c = {type}[{m},{k}] slice(a), slice={{[0:{m}], [0:{k}]}}
  q = {type}[{m},{k}]{{0,1}} custom-call(c, tau), custom_call_target="lapack_{letter}{gen}_ffi",
    operand_layout_constraints={{{type}[{m},{k}]{{0,1}}, {type}[{k}]{{0}}}},
    output_to_operand_aliasing={{{{}}: (0, {{}})}}, api_version=API_VERSION_TYPED_FFI, backend_config={{}}
  ROOT t = ({type}[{m},{n}], {type}[{m},{k}], {type}[{k}]) tuple(a, q, tau)
}}"""


@letters
@pytest.mark.parametrize("dims", [(4, 4), (5, 3), (3, 5)], ids=str)
def test_qr(letter, dims):
    a, k = random(letter, *dims), min(dims)
    text = QR.format(
        type=from_numpy(a.dtype).name, m=dims[0], n=dims[1], k=k, letter=letter,
        gen="ungqr" if letter in "cz" else "orgqr",
    )  # fmt: skip
    for backend in BACKENDS:
        r, q, tau = map(np.asarray, axla.compile(axla.parse(text), backend=backend).execute([a]))
        close(q @ np.triu(r[:k]), a)
        close(h(q) @ q, np.eye(k, dtype=a.dtype))
    reflectors = r[:, :k].copy()
    name = "un" if letter in "cz" else "or"
    whole = product_of_reflectors(reflectors, tau)
    close(whole[:, :k], q)
    for left in (True, False):
        for transpose in (True, False):
            other = random(letter, *((dims[0], 2) if left else (2, dims[0])), seed=1)
            (found,) = call(
                f"lapack_{letter}{name}mqr_ffi", [(reflectors, True), (tau, False), (other, True)],
                [((a.dtype, other.shape), True)],
                f"left = {str(left).lower()}, transpose = {str(transpose).lower()}",
                "output_to_operand_aliasing={{}: (2, {})}, ",
            )  # fmt: skip
            factor = h(whole) if transpose else whole
            close(found, factor @ other if left else other @ factor)


@letters
@batches
def test_pivoted_qr(letter, batch):
    a, free = random(letter, *batch, 4, 3), np.zeros((*batch, 3), np.int32)
    r, pivots, _ = call(
        f"lapack_{letter}geqp3_ffi", [(a, True), (free, False)],
        [((a.dtype, a.shape), True), ((np.int32, free.shape), False), ((a.dtype, (*batch, 3)), False)],
        "", "output_to_operand_aliasing={{0}: (0, {}), {1}: (1, {})}, ",
    )  # fmt: skip
    r = np.triu(r[..., :3, :])
    for at in np.ndindex(*batch):
        columns = a[at][:, pivots[at] - 1]
        close(h(r[at]) @ r[at], h(columns) @ columns)
    diagonal = np.abs(r[..., range(3), range(3)])
    assert (np.diff(diagonal, axis=-1) <= 1e-6).all()


@letters
@batches
def test_symmetric_eigenvalues(letter, batch):
    x = random(letter, *batch, 4, 4)
    symmetric = x + h(x)
    name = f"lapack_{letter}{'he' if letter in 'cz' else 'sy'}evd_ffi"
    results = [
        ((x.dtype, x.shape), True), ((real_of(letter), (*batch, 4)), False), ((np.int32, batch), False)
    ]  # fmt: skip
    for uplo, mode in ("LV", "UV", "LN"):
        # Only one triangle is looked at.
        given = symmetric + 7 * (np.triu(np.ones_like(x), 1) if uplo == "L" else np.tril(np.ones_like(x), -1))
        v, w, info = call(name, [(given, True)], results, attributes(mode=mode, uplo=uplo))
        assert (info == 0).all() and (np.diff(w, axis=-1) >= 0).all()
        if mode == "V":
            close(v * w[..., None, :] @ h(v), symmetric)
        close(w, np.linalg.eigvalsh(symmetric))


@letters
@pytest.mark.parametrize("dims", [(4, 4), (3, 5), (5, 3)], ids=str)
@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
def test_singular_values(letter, dims, routine):
    a = random(letter, 2, *dims)
    m, n, k = *dims, min(dims)
    for mode in "ASN":
        columns, rows = (k, k) if mode == "S" else (m, n)
        _, s, u, v, info = call(
            f"lapack_{letter}{routine}_ffi", [(a, True)],
            [((a.dtype, a.shape), True), ((real_of(letter), (2, k)), False),
             ((a.dtype, (2, m, columns)), True), ((a.dtype, (2, rows, n)), True), ((np.int32, (2,)), False)],
            attributes(mode=mode), "output_to_operand_aliasing={{0}: (0, {})}, ",
        )  # fmt: skip
        assert (info == 0).all()
        close(s, np.linalg.svd(a, compute_uv=False))
        if mode == "N":
            assert not u.any() and not v.any()
        else:
            close(u[..., :k] * s[:, None, :] @ v[:, :k], a)
            close(h(u) @ u, np.broadcast_to(np.eye(columns, dtype=a.dtype), (2, columns, columns)))


def eigenvalues(letter, a, left="V", right="V"):
    complex_ = np.result_type(a.dtype, np.complex64)
    batch, n = a.shape[:-2], a.shape[-1]
    values = [((a.dtype, (*batch, n)), False)] * (1 if letter in "cz" else 2)
    *w, vl, vr, info = call(
        f"lapack_{letter}geev_ffi", [(a, True)],
        [*values, *[((complex_, a.shape), True)] * 2, ((np.int32, batch), False)],
        attributes(compute_left=left, compute_right=right),
    )  # fmt: skip
    return (w[0] if letter in "cz" else w[0] + 1j * w[1]).astype(complex_), vl, vr, info


@letters
@batches
def test_eigenvalues(letter, batch):
    a = random(letter, *batch, 5, 5)
    a[..., 0, :] = 0
    a[..., 0, 0] = 2  # a real eigenvalue beside the pairs
    w, vl, vr, info = eigenvalues(letter, a)
    assert (info == 0).all()
    close(a @ vr, vr * w[..., None, :])
    close(h(vl) @ a, w[..., :, None] * h(vl))
    for left, right in ("NV", "VN", "NN"):
        w2, vl2, vr2, _ = eigenvalues(letter, a, left, right)
        close(w2, w) if (left, right) != ("N", "N") else close(np.sort_complex(w2), np.sort_complex(w))
        close(vl2, vl if left == "V" else np.zeros_like(vl))
        close(vr2, vr if right == "V" else np.zeros_like(vr))


@letters
@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_eigenvalues_of_what_is_not_finite(letter, what):
    a = random(letter, 3, 3, 3)
    a[1, 2, 0] = what
    w, _, vr, info = eigenvalues(letter, a)
    assert info.tolist() == [0, -4, 0]
    for k in (0, 2):
        close(a[k] @ vr[k], vr[k] * w[k])


@letters
@batches
def test_schur(letter, batch):
    a = random(letter, *batch, 4, 4)
    values = [((a.dtype, (*batch, 4)), False)] * (1 if letter in "cz" else 2)
    for mode in "VN":
        t, z, *_, selected, info = call(
            f"lapack_{letter}gees_ffi", [(a, True)],
            [*[((a.dtype, a.shape), True)] * 2, *values, *[((np.int32, batch), False)] * 2],
            attributes(mode=mode, sort="N"), "output_to_operand_aliasing={{0}: (0, {})}, ",
        )  # fmt: skip
        assert (info == 0).all() and (selected == 0).all()
        assert (np.abs(np.tril(t, -2)) == 0).all()
        if mode == "V":
            close(z @ t @ h(z), a)
        else:
            assert not z.any()


@letters
@batches
def test_hessenberg_and_tridiagonal(letter, batch):
    x = random(letter, *batch, 5, 5)
    a = x + h(x)
    real = real_of(letter)
    found, tau, info = call(
        f"lapack_{letter}gehrd_ffi", [(x, True)],
        [((x.dtype, x.shape), True), ((x.dtype, (*batch, 4)), False), ((np.int32, batch), False)],
        "high = 5 : i32, low = 1 : i32", "output_to_operand_aliasing={{0}: (0, {})}, ",
    )  # fmt: skip
    assert (info == 0).all()
    for at in np.ndindex(*batch):
        q = product_of_reflectors(found[at], tau[at], first=1)
        close(q @ np.triu(found[at], -1) @ h(q), x[at])
    for uplo in "LU":
        _, d, e, tau, info = call(
            f"lapack_{letter}{'he' if letter in 'cz' else 'sy'}trd_ffi", [(a, True)],
            [((a.dtype, a.shape), True), ((real, (*batch, 5)), False), ((real, (*batch, 4)), False),
             ((a.dtype, (*batch, 4)), False), ((np.int32, batch), False)],
            attributes(uplo=uplo), "output_to_operand_aliasing={{0}: (0, {})}, ",
        )  # fmt: skip
        assert (info == 0).all()
        for at in np.ndindex(*batch):
            t = np.diag(d[at]) + np.diag(e[at], 1) + np.diag(e[at], -1)
            close(np.linalg.eigvalsh(t), np.linalg.eigvalsh(a[at]))


@letters
@batches
def test_tridiagonal_solve(letter, batch):
    lower, middle, upper = (random(letter, *batch, 5, seed=k) for k in range(3))
    middle = middle + 4
    b = random(letter, *batch, 5, 2, seed=3)
    vector = ((b.dtype, (*batch, 5)), False)
    *_, x, info = call(
        f"lapack_{letter}gtsv_ffi", [(lower, False), (middle, False), (upper, False), (b, True)],
        [vector, vector, vector, ((b.dtype, b.shape), True), ((np.int32, batch), False)], "",
        "output_to_operand_aliasing={{0}: (0, {}), {1}: (1, {}), {2}: (2, {}), {3}: (3, {})}, ",
    )  # fmt: skip
    assert (info == 0).all()
    for at in np.ndindex(*batch):
        matrix = np.diag(middle[at]) + np.diag(lower[at][1:], -1) + np.diag(upper[at][:-1], 1)
        close(matrix @ x[at], b[at])


@pytest.mark.parametrize("dims", [(0, 0), (0, 3, 3), (2, 0, 0)], ids=str)
def test_nothing(dims):
    a, batch, n = np.zeros(dims, np.float32), dims[:-2], dims[-1]
    matrix, vector, info = ((a.dtype, dims), True), ((a.dtype, dims[:-1]), False), ((np.int32, batch), False)
    call("lapack_spotrf_ffi", [(a, True)], [matrix, info], attributes(uplo="L"))
    call("lapack_sgetrf_ffi", [(a, True)], [matrix, ((np.int32, dims[:-1]), False), info])
    call("lapack_ssyevd_ffi", [(a, True)], [matrix, vector, info], attributes(mode="V", uplo="L"))
    call("lapack_sgesdd_ffi", [(a, True)], [matrix, vector, matrix, matrix, info], attributes(mode="A"))
    eigenvalues("s", a)
    low = ((a.dtype, (*batch, max(n - 1, 0))), False)
    call("lapack_sgehrd_ffi", [(a, True)], [matrix, low, info], f"high = {n} : i32, low = 1 : i32")


def test_the_operand_is_what_it_was():
    """Without the alias that JAX gives, too."""
    text = """HloModule m
    ENTRY e { a = f32[3,3] parameter(0)
      p = (f32[3,3]{0,1}, s32[]) custom-call(a), custom_call_target="lapack_spotrf_ffi",
        operand_layout_constraints={f32[3,3]{0,1}}, api_version=API_VERSION_TYPED_FFI,
        output_to_operand_aliasing={{0}: (0, {})}, backend_config={uplo = 76 : ui8}
      q = (f32[3,3]{0,1}, s32[]) custom-call(a), custom_call_target="lapack_spotrf_ffi",
        operand_layout_constraints={f32[3,3]{0,1}}, api_version=API_VERSION_TYPED_FFI,
        backend_config={uplo = 85 : ui8}
      x = f32[3,3] get-tuple-element(p), index=0
      y = f32[3,3] get-tuple-element(q), index=0
      ROOT t = (f32[3,3], f32[3,3], f32[3,3]) tuple(a, x, y) }"""
    x = random("s", 3, 3)
    a = x @ x.T + np.eye(3, dtype=np.float32)
    for backend in BACKENDS:
        same, lower, upper = map(np.asarray, axla.compile(axla.parse(text), backend=backend).execute([a]))
        assert (same == a).all()
        close(np.tril(lower), np.linalg.cholesky(a))
        close(np.triu(upper), np.linalg.cholesky(a).T)


def test_in_a_loop_from_many_threads():
    text = """HloModule m
    body { p = (s32[], f32[40,3,3], f32[40,3]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      one = s32[] constant(1)
      j = s32[] add(i, one)
      a = f32[40,3,3] get-tuple-element(p), index=1
      c = (f32[40,3,3]{1,2,0}, f32[40,3], s32[40]) custom-call(a), custom_call_target="lapack_ssyevd_ffi",
        operand_layout_constraints={f32[40,3,3]{1,2,0}}, output_to_operand_aliasing={{0}: (0, {})},
        api_version=API_VERSION_TYPED_FFI, backend_config={mode = 86 : ui8, uplo = 76 : ui8}
      w = f32[40,3] get-tuple-element(c), index=1
      d = f32[40,3,3] broadcast(w), dimensions={0,1}
      s = f32[40,3,3] add(a, d)
      t = f32[40,3,3] transpose(s), dimensions={0,2,1}
      u = f32[40,3,3] add(s, t)
      ROOT r = (s32[], f32[40,3,3], f32[40,3]) tuple(j, u, w) }
    cond { p = (s32[], f32[40,3,3], f32[40,3]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(5)
      ROOT l = pred[] compare(i, n), direction=LT }
    ENTRY e { a = f32[40,3,3] parameter(0)
      z = s32[] constant(0)
      f = f32[] constant(0)
      b = f32[40,3] broadcast(f), dimensions={}
      t = (s32[], f32[40,3,3], f32[40,3]) tuple(z, a, b)
      w = (s32[], f32[40,3,3], f32[40,3]) while(t), condition=cond, body=body
      ROOT r = f32[40,3] get-tuple-element(w), index=2 }"""
    x = random("s", 40, 3, 3)
    a = x + h(x)
    wanted = np.asarray(axla.compile(axla.parse(text), backend="interpreter").execute([a])[0])
    program = axla.compile(axla.parse(text))
    found = {}
    threads = [
        threading.Thread(target=lambda k=k: found.update({k: np.asarray(program(a))})) for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for k in range(4):
        np.testing.assert_array_equal(found[k], wanted)


A = np.zeros((3, 3), np.float32)
CHOLESKY = ([(A, True)], [((A.dtype, (3, 3)), True), ((np.int32, ()), False)])
LOWER = attributes(uplo="L")
REFUSED = [
    ("lapack_spotrf_ffi", *CHOLESKY, "", r"attribute uplo is None, wanted 76 \(L\), 85 \(U\)"),
    ("lapack_spotrf_ffi", *CHOLESKY, "uplo = 78 : ui8", "attribute uplo is .*78"),
    ("lapack_spotrf_ffi", *CHOLESKY, 'uplo = "L"', "attribute uplo is 'L'"),
    ("lapack_dpotrf_ffi", *CHOLESKY, LOWER, r"operand 0 is f32\[3,3\], wanted matrices of f64"),
    ("lapack_spotrf_ffi", CHOLESKY[0], CHOLESKY[1][:1], LOWER, "1 operands and 1 results, wanted 1 and 2"),
    ("lapack_spotrf_ffi", CHOLESKY[0], [CHOLESKY[1][0], ((np.int64, ()), False)], LOWER,
     r"result 1 is s64\[\], wanted s32\[\]"),
    ("lapack_spotrf_ffi", [(np.zeros((2, 3), np.float32), True)], CHOLESKY[1], attributes(uplo="L"),
     "operand 0 has matrices of 2 x 3, wanted square"),
    ("lapack_sgehrd_ffi", CHOLESKY[0], [CHOLESKY[1][0], ((A.dtype, (2,)), False), CHOLESKY[1][1]],
     "low = 0 : i32, high = 9 : i32", "attributes low = 0 and high = 9"),
    ("lapack_strsm_ffi", [(A, True), (np.zeros((2, 4), np.float32), True)], [((A.dtype, (2, 4)), True)],
     attributes(diag="N", side="L", trans_x="N", uplo="L"), r"operand 0 \(3 x 3\) does not fit operand 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    "target, operands, results, config, message", REFUSED, ids=lambda x: x[-40:] if isinstance(x, str) else ""
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_calls_are_refused_at_compile_time(target, operands, results, config, message, backend):
    module = axla.parse(text_of(target, operands, results, config))
    with pytest.raises(UnsupportedError, match=message):
        axla.compile(module, backend=backend)


def test_the_untyped_version_is_refused():
    text = text_of("lapack_spotrf_ffi", *CHOLESKY, attributes(uplo="L")).replace("TYPED_FFI", "ORIGINAL")
    with pytest.raises(UnsupportedError, match="API_VERSION_ORIGINAL, wanted API_VERSION_TYPED_FFI"):
        axla.compile(axla.parse(text))


def test_a_registered_function_comes_first():
    axla.register_custom_call("lapack_spotrf_ffi", lambda a, *, uplo: (a + np.float32(uplo), np.int32(5)))
    try:
        found, info = call("lapack_spotrf_ffi", *CHOLESKY, attributes(uplo="L"))
    finally:
        axla.unregister_custom_call("lapack_spotrf_ffi")
    assert (found == 76).all() and info == 5


def test_without_scipy(monkeypatch):
    """Programs run all the same: without the library."""
    module = axla.parse(text_of("lapack_spotrf_ffi", *CHOLESKY, attributes(uplo="L")))
    lapack._capsule.cache_clear()
    lapack.routine.cache_clear()
    routines.plan_of.cache_clear()
    monkeypatch.setitem(sys.modules, "scipy.linalg.cython_lapack", None)
    try:
        with pytest.raises(UnsupportedError, match=r"spotrf needs SciPy.*pip install .axla\[linalg\]"):
            lapack.routine_address("spotrf")
        a = np.diag(np.float32([4, 9, 16]))
        for backend in BACKENDS:
            found, info = map(np.asarray, axla.compile(module, backend=backend).execute([a]))
            assert (found == np.diag([2, 3, 4])).all() and info == 0
    finally:
        lapack._capsule.cache_clear()


def test_every_target_has_a_routine():
    names = routines.TARGETS
    assert len(names) == 60  # all that jaxlib 0.10.2 registers, less tridiagonal_solve_perturbed_ffi
    for name in names:
        assert lapack.routine_address(name.split("_")[1])
