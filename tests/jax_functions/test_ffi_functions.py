"""JAX functions that call handlers of the FFI: axla against stock JAX, both with the same handlers."""

from __future__ import annotations

import ctypes as c

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse.linalg import spsolve
from jaxlib import cpu_sparse, lapack

import axla
import axla.jax
from axla.core.errors import CustomCallFailure, InvalidArgument
from axla.custom import registry
from axla.custom.built_in import BUILT_IN
from axla.custom.routines import TARGETS
from axla.jax import handlers
from native_handlers import handlers_library

pytestmark = pytest.mark.cc
F32 = np.float32


@pytest.fixture(scope="module", autouse=True)
def library():
    """Handlers that stock JAX knows; axla finds them there."""
    found = handlers_library()
    for name in ("attributes", "scale", "sums", "describe", "aligned", "later"):
        jax.ffi.register_ffi_target(f"test.{name}", jax.ffi.pycapsule(found[name]), platform="cpu")
    before = dict(registry._targets)
    yield found
    registry._targets.clear()
    registry._targets.update(before)


def same(fn, *args, plain=True):
    """Results of stock JAX, of `axla.jax.jit`, and of `axla.compile` on what stock lowers: all equal."""
    wanted = jax.tree.leaves(jax.jit(fn)(*args))
    found = jax.tree.leaves(axla.jax.jit(fn)(*args))
    results = [wanted, found]
    if plain:
        lowered = axla.parse(str(jax.jit(fn, keep_unused=True).lower(*args).compiler_ir("stablehlo")))
        results.append(axla.compile(lowered).execute(jax.tree.leaves(args)))
    for x, *others in zip(*results, strict=True):
        assert all(x.dtype == y.dtype and np.array_equal(x, np.asarray(y)) for y in others)
    return wanted


def scale(x, factor=2.0, fail="", **options):
    shapes = jax.ShapeDtypeStruct(x.shape, F32), jax.ShapeDtypeStruct((), F32)
    return jax.ffi.ffi_call("test.scale", shapes, **options)(x, factor=F32(factor), fail=fail)


def sums(*xs, **options):
    return jax.ffi.ffi_call("test.sums", jax.ShapeDtypeStruct(xs[0].shape, F32), **options)(*xs)


X = np.arange(12, dtype=F32).reshape(3, 4)


def test_calls():
    same(scale, X)
    same(lambda x: scale(x[::-1].T, 3.0)[0] + 1, X)
    same(lambda *xs: sums(*xs), *[X + k for k in range(50)])
    same(lambda x, y: sums(x, y, sums(y, has_side_effect=True)), X, X + 1)


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap(method):
    call = lambda x, y: sums(x, y, vmap_method=method)  # noqa: E731
    same(jax.vmap(call), X, X + 1)
    same(jax.vmap(call, in_axes=(0, None)), X, X[0]) if method != "expand_dims" else None
    same(jax.vmap(jax.vmap(call)), X, X + 1)


def test_inside_loops_and_branches():
    def step(carry, x):
        y, total = scale(x, 0.5)
        return carry + total, sums(y, x + carry)

    same(lambda xs: jax.lax.scan(step, F32(0), xs), X)
    same(lambda x: jax.lax.fori_loop(0, 7, lambda n, v: sums(v, v * 0.1), x), X)
    same(lambda x, n: jax.lax.cond(n > 0, lambda v: sums(v, v), lambda v: scale(v)[0], x), X, 1)


def test_results_in_the_place_of_operands():
    def call(a, b):
        shape = jax.ShapeDtypeStruct(a.shape, F32)
        return jax.ffi.ffi_call("test.aligned", (shape, shape), input_output_aliases={1: 0})(a, b)

    same(call, X[0], X[1])


def test_attributes_of_jax():
    def call():
        whole = {f"s{n}": np.dtype(f"i{n // 8}").type(n) for n in (8, 16, 32, 64)}
        whole |= {f"u{n}": np.dtype(f"u{n // 8}").type(n) for n in (8, 16, 32, 64)}
        lists = {f"as{n}": np.arange(3, dtype=f"i{n // 8}") for n in (8, 16, 32, 64)}
        lists |= {f"au{n}": np.arange(4, dtype=f"u{n // 8}") for n in (8, 64)}
        lists |= {f"af{n}": np.arange(5, dtype=f"f{n // 8}") for n in (32, 64)}
        return jax.ffi.ffi_call("test.attributes", jax.ShapeDtypeStruct((25,), np.float64))(
            pred=True, f32=np.float32(0.1), f64=np.float64(0.1),
            matrix=np.arange(6, dtype=np.int32).reshape(2, 3), text="hé\0\"\\",
            inner={"one": 1, "zero": 0}, **whole, **lists,
        )  # fmt: skip

    with jax.enable_x64(True):
        same(call)


def test_element_types():
    types = ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "complex64", "float8_e4m3fn"]
    operands = [jnp.ones((2, 3, k), t) for k, t in enumerate(types)]
    shape = jax.ShapeDtypeStruct((len(types), 6), np.int64)
    with jax.enable_x64(True):
        same(lambda *xs: jax.ffi.ffi_call("test.describe", shape)(*xs), *operands)


def test_errors_and_futures():
    same(lambda x: jax.ffi.ffi_call("test.later", jax.ShapeDtypeStruct(x.shape, F32))(x) + x, X)
    for call, said in (
        (lambda x: scale(x, fail="too far"), "OUT_OF_RANGE: too far"),
        (
            lambda x: jax.ffi.ffi_call("test.scale", (), has_side_effect=True)(x),
            "INVALID_ARGUMENT: .*Wrong number of results",
        ),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=said):
            jax.block_until_ready(jax.jit(call)(X))
        with pytest.raises(CustomCallFailure, match=said):
            axla.jax.jit(call)(X)


def test_state(library):
    capsules = []
    for name in ("counter_type", "counter_info"):
        address = c.CFUNCTYPE(c.c_void_p)((name, library))()
        capsules.append(jax.ffi.pycapsule(address))
    named = {"type_id": capsules[0], "type_info": capsules[1]}
    stages = {
        "instantiate": jax.ffi.pycapsule(library.counter_begin),
        "execute": jax.ffi.pycapsule(library.counter),
    }
    jax.ffi.register_ffi_type("test.jax.counter", named, platform="cpu")
    jax.ffi.register_ffi_target("test.counter", stages, platform="cpu")
    handlers.register_type("test.jax.counter", named)
    handlers.register_handler("test.counter", stages, 1, 0)

    def counts(n):
        call = jax.ffi.ffi_call("test.counter", jax.ShapeDtypeStruct((), np.int64), has_side_effect=True)
        return jax.lax.scan(lambda carry, _: (carry + call(first=3), call(first=n)), 0, length=4)

    with jax.enable_x64(True):
        stock, made = jax.jit(counts, static_argnums=0), axla.jax.jit(counts, static_argnums=0)
        for n in (10, 20):
            for _ in range(2):
                (a, xs), (b, ys) = stock(n), made(n)
                assert int(a) == int(b) and xs.tolist() == ys.tolist()


def test_handlers_are_found_as_jax_registers_them(library):
    with pytest.raises(InvalidArgument, match="api_version=2, wanted 0 or 1"):
        handlers.register_handler("test.other", jax.ffi.pycapsule(library.scale), 2)
    own = "lapack_spotrf_ffi"
    handlers.register_handler(own, jax.ffi.pycapsule(library.scale), 1)
    assert registry.registered(own) is None, "axla's routines stay its own"
    handlers.register_handler("test.old", jax.ffi.pycapsule(library.scale))
    assert registry.registered("test.old").api == "untyped"


def test_what_jaxlib_has_for_cpus_is_known():
    """Every target of jaxlib is axla's own or a handler of jaxlib."""
    handlers.register_jaxlib_handlers()
    names = {name for module in (lapack, cpu_sparse) for name, _, _ in module.registrations()["cpu"]}
    others = {name for name in names if name not in TARGETS and name not in BUILT_IN}
    assert "cpu_csr_sparse_dense_ffi" in others
    assert all(registry.registered(name).api == "ffi" for name in others)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_sparse_products(dtype):
    """By jaxlib's handler, on threads where the product is large."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for rows, columns, dims in ((7, 5, ()), (600, 500, (400,))):
            matrix = scipy.sparse.random(rows, columns, 0.2, "csr", dtype, rng)
            other = (rng.standard_normal((columns, *dims)) * 3).astype(dtype)
            call = jax.ffi.ffi_call("cpu_csr_sparse_dense_ffi", jax.ShapeDtypeStruct((rows, *dims), dtype))
            (found,) = same(call, matrix.data, matrix.indptr, matrix.indices, other)
            np.testing.assert_allclose(found, matrix @ other, 1e-4, 1e-4)


def test_sparse_solve():
    """By JAX's callback."""
    rng = np.random.default_rng(1)
    matrix = (
        scipy.sparse.random(30, 30, 0.2, "csr", F32, rng) + scipy.sparse.eye(30, dtype=F32, format="csr") * 9
    )
    b = rng.standard_normal(30).astype(F32)
    (found,) = same(spsolve, matrix.data, matrix.indices, matrix.indptr, b, plain=False)
    np.testing.assert_allclose(matrix @ np.asarray(found), b, 1e-4, 1e-4)
