"""`axla.jax.jit` in the place of `jax.jit`: compiled once for each kind of arguments, usable inside JAX."""

import gc
import weakref

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import axla  # noqa: E402
import axla.jax  # noqa: E402
from axla.core.errors import InvalidArgument  # noqa: E402

X = np.arange(3, dtype=np.float32)


def counted(**options):
    """A jitted function, and the values of `n` with which it was traced."""
    traces = []

    @axla.jax.jit(**options)
    def scale(x, n=2, *, shift=0.0):
        traces.append(n)
        return {"y": x * n + shift, "z": (x,)}

    return scale, traces


def test_results_are_what_jax_gives():
    def fn(params, x, *, scale):
        return {"y": jnp.tanh(params["w"] @ x) * scale, "n": x.sum(dtype=jnp.int32), "none": None}

    args = {"w": np.eye(3, dtype=np.float32)}, X
    found, wanted = axla.jax.jit(fn)(*args, scale=2), jax.jit(fn)(*args, scale=2)
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(a, jax.Array) and a.aval == b.aval and a.sharding == b.sharding
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_decorator_with_and_without_options():
    @axla.jax.jit
    def plain(x):
        "Says so."
        return x + 1

    assert plain.__name__ == "plain" and plain.__doc__ == "Says so." and plain(1) == 2
    scale, _ = counted(static_argnums=1)
    assert scale(X, 3)["y"].tolist() == [0, 3, 6]


def test_compiled_once_for_each_kind_of_arguments():
    scale, traces = counted()
    kinds = [
        X, jnp.asarray(X), X.astype(np.int32), jnp.ones((2, 2)), 1, 1.0, True, 1j, np.float32(1),
        jnp.asarray(1.0), X[:2],
    ]  # fmt: skip
    for x in kinds:
        found, wanted = scale(x)["y"], jax.jit(lambda x: x * 2 + 0.0)(x)
        assert found.dtype == wanted.dtype and found.weak_type == wanted.weak_type
        np.testing.assert_array_equal(found, wanted)
    count = len(traces)
    for x in kinds:
        scale(x)
    assert len(traces) == count
    scale(x=X), scale(X, shift=1.0)
    assert scale(X, shift=3.0)["y"].tolist() == [3, 5, 7]
    scale.clear_cache()
    scale(X)


def test_static_arguments_by_position_and_by_name():
    scale, traces = counted(static_argnums=1)
    for n in (2, 3, 2, True, 1, 1.0):
        assert scale(X, n)["y"].tolist() == (X * n).tolist()
        assert scale(X, n=n)["y"].tolist() == (X * n).tolist()
    assert {(type(n), n) for n in traces} == {(int, 2), (int, 3), (bool, True), (int, 1), (float, 1.0)}
    last, traces = counted(static_argnames="n")
    assert last(X, 2)["y"].tolist() == last(X, n=2)["y"].tolist() == last(X)["y"].tolist()
    inner = axla.jax.jit(jax.jit(lambda x, k: x[:k], static_argnums=1))
    assert inner(X, 1).shape == (1,) and inner(X, 2).shape == (2,)


def test_donated_arrays_are_deleted():
    step = axla.jax.jit(lambda state, gradient: (state - gradient, gradient.sum()), donate_argnames="state")
    state, gradient = jnp.asarray(X) * 2, jnp.asarray(X)
    new, _ = step(state, gradient)
    assert new.tolist() == [0, 1, 2] and state.is_deleted() and not gradient.is_deleted()
    with pytest.raises(InvalidArgument, match=r"<lambda>: argument state: Array has been deleted"):
        step(state, gradient)
    with pytest.raises(InvalidArgument, match="<lambda>: state and gradient are one array, which is donated"):
        step(gradient, gradient)
    assert not gradient.is_deleted() and step(X, X)[0].tolist() == [0, 0, 0]
    here = axla.jax.jit(lambda state: state + 1, donate_argnums=0, results="axla")
    state = here(np.zeros(1000, np.float32))
    address = np.asarray(state).ctypes.data
    new = here(state)
    assert state.is_deleted and new[0] == 2 and np.asarray(new).ctypes.data == address


def test_results_may_stay_axlas():
    fn = axla.jax.jit(lambda x: (x + 1, x.sum()), results="axla")
    first, total = fn(X)
    assert isinstance(first, axla.Array) and float(total) == 3
    assert np.asarray(fn(first)[0]).tolist() == [2, 3, 4]


def test_results_are_over_the_memory_of_the_program():
    keep = axla.jax.jit(lambda x: x * 2)(np.ones(1 << 16, np.float32))
    assert np.asarray(keep).ctypes.data == keep.unsafe_buffer_pointer()
    gc.collect()
    assert float(keep.sum()) == 2 << 16


def test_inside_jaxs_transformations():
    inner = axla.jax.jit(lambda x, n=2: jnp.sin(x) * n, static_argnums=1)
    outer = lambda x: inner(x, 3).sum()  # noqa: E731
    x = np.linspace(0, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(jax.grad(outer)(x), 3 * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(inner)(x), 2 * np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(outer)(x), 3 * np.sin(x).sum(), rtol=1e-6)
    np.testing.assert_allclose(axla.jax.jit(jax.grad(outer))(x), 3 * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(axla.jax.compile(outer, x)(x), 3 * np.sin(x).sum(), rtol=1e-6)
    # The value of a closure may be a tracer where no argument is.
    np.testing.assert_allclose(jax.grad(lambda s: axla.jax.jit(lambda y: y * s)(jnp.float32(2)))(3.0), 2.0)
    assert str(jax.eval_shape(inner, x).shape) == "(4,)"


def test_keys_and_other_element_types():
    key = jax.random.key(3)
    fn = lambda k: (jax.random.split(k), jax.random.normal(k, (2,)))  # noqa: E731
    keys, normal = axla.jax.jit(fn)(key)
    wanted, expected = fn(key)
    assert keys.dtype == wanted.dtype and (jax.random.key_data(keys) == jax.random.key_data(wanted)).all()
    np.testing.assert_allclose(normal, expected, rtol=1e-5)
    assert (axla.jax.jit(fn)(keys[0])[1] != normal).all()
    for dtype in (jnp.bfloat16, jnp.int4, jnp.float8_e4m3fn, bool, jnp.complex64):
        x = jnp.asarray([0, 1, 1]).astype(dtype)
        same = axla.jax.jit(lambda x: x[::-1])
        assert same(x).dtype == x.dtype and same(np.asarray(x)).tolist() == x[::-1].tolist()
    gradient = axla.jax.jit(jax.grad(lambda i: 1.0 * i.sum(), allow_int=True))(np.ones(3, np.int32))
    assert gradient.dtype == jax.dtypes.float0 and gradient.shape == (3,)


def test_wide_types():
    x = np.linspace(0, 1, 3)
    assert axla.jax.jit(jnp.sin)(x).dtype == np.float32
    wide = axla.jax.jit(jnp.sin, x64=True)
    assert wide(x).dtype == np.float64 and wide(1.0).dtype == np.float64
    np.testing.assert_allclose(wide(x), np.sin(x), rtol=1e-15)
    either = axla.jax.jit(lambda x: x + 1)
    with jax.enable_x64(True):
        assert either(x).dtype == np.float64
    assert either(x).dtype == np.float32


def test_methods_partials_and_nesting():
    class Model:
        scale = 3

        @axla.jax.jit(static_argnums=0)
        def __call__(self, x):
            return self.apply(x) * self.scale

        @axla.jax.jit(static_argnums=0)
        def apply(self, x):
            return x + 1

    assert Model()(X).tolist() == [3, 6, 9] and Model().apply(X).tolist() == [1, 2, 3]
    assert axla.jax.jit(axla.jax.jit(lambda x: x + 1))(X).tolist() == [1, 2, 3]


def test_what_runs_is_there_to_be_looked_at():
    scale, traces = counted(backend="interpreter")
    inside = scale.compiled(X, shift=jax.ShapeDtypeStruct((), np.float32))
    assert inside.module.name == "jit_scale" and len(inside.executable.interface.parameters) == 2
    assert "multiply" in inside.module.to_string() and traces == [2]
    assert scale(X)["y"].tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f: f("abc", 1), "scale.*path x"),
        (lambda f: f(X, [1]), "scale: static argument 1 is of type list: static arguments must be hashable"),
        (lambda f: f(X, n=[1]), "scale: static argument 'n' is of type list"),
        (lambda f: (f(1, 2), f(2**40, 2)), "scale: argument x: .*out of bounds"),
        (lambda f: f(), "missing"),
        (lambda f: f(X, 1, 2, 3), "positional"),
    ],
)
def test_errors_name_the_function_and_the_argument(call, message):
    scale, _ = counted(static_argnums=1)
    with pytest.raises((InvalidArgument, TypeError), match=message):
        call(scale)


def test_wrong_options():
    with pytest.raises(InvalidArgument, match="results='numpy'; there are jax, axla"):
        axla.jax.jit(lambda x: x, results="numpy")
    with pytest.raises(InvalidArgument, match="wanted a function, found int"):
        axla.jax.jit(3)


def test_programs_go_with_the_function():
    fn = axla.jax.jit(lambda x: x + 1)
    fn(X)
    executable = weakref.ref(fn.compiled(X).executable)
    del fn
    jax.clear_caches()
    gc.collect()
    assert executable() is None


def test_jit_that_is_turned_off():
    seen = []
    fn = axla.jax.jit(lambda x: seen.append(x) or x + 1)
    with jax.disable_jit():
        assert float(fn(1.0)) == 2 and seen == [1.0]
