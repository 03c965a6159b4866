"""Functions that call back into Python, printing ones too, in `axla.jax.jit` and `axla.jax.compile`."""

import gc
import threading
import weakref

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import io_callback  # noqa: E402
from jax.experimental.buffer_callback import buffer_callback  # noqa: E402

import axla  # noqa: E402
import axla.jax  # noqa: E402

X = np.arange(3, dtype=np.float32)


def compiled(fn):
    return lambda *args: axla.jax.compile(fn, *args)(*args)


BOTH = pytest.mark.parametrize("jit", [axla.jax.jit, compiled], ids=["jit", "compile"])


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def python_sin(x):
    return jax.pure_callback(lambda v: np.sin(v), like(x), x, vmap_method="sequential")


@BOTH
def test_callbacks_of_all_kinds(jit, capsys):
    seen = []

    def fn(x, n):
        jax.debug.print("x = {x}, n = {}", n, x=x, ordered=True)
        for k in range(2):
            io_callback(lambda v, k=k: seen.append((k, float(v))), None, x.sum(), ordered=True)
        jax.debug.callback(lambda v: seen.append(v.shape), x)
        return {"y": python_sin(x) * n}

    found = jit(fn)(X, 2)
    np.testing.assert_allclose(found["y"], 2 * np.sin(X), rtol=1e-6)
    assert seen == [(0, 3.0), (1, 3.0), (3,)]
    assert capsys.readouterr().out == "x = [0. 1. 2.], n = 2\n"


@BOTH
def test_ordered_callbacks_in_loops_and_branches(jit):
    seen = []

    def note(v):
        io_callback(lambda v: seen.append(int(v)), None, v, ordered=True)

    def fn(n):
        def body(k, total):
            note(k)
            return jax.lax.cond(k % 2 == 1, lambda t: (note(-k), t + 1)[1], lambda t: t, total)

        return jax.lax.fori_loop(0, n, body, 0)

    assert int(jit(fn)(4)) == 2 and seen == [0, 1, -1, 2, 3, -3]


def test_a_function_without_results_has_its_effects_when_it_returns():
    seen = []
    fn = axla.jax.jit(lambda x: jax.debug.callback(lambda v: seen.append(float(v)), x))
    for k in range(3):
        assert fn(k + 0.0) is None and seen[-1] == k
    assert seen == [0, 1, 2]


@BOTH
def test_transformed_callbacks(jit):
    @jax.custom_jvp
    def sin(x):
        return python_sin(x)

    sin.defjvp(lambda primals, tangents: (sin(*primals), jnp.cos(primals[0]) * tangents[0]))
    np.testing.assert_allclose(jit(jax.vmap(jax.grad(sin)))(X), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(jit(jax.jit(jax.vmap(python_sin)))(X), np.sin(X), rtol=1e-6)


@BOTH
def test_what_a_callback_raises_comes_with_its_type_and_text(jit):
    def fail(v):
        raise KeyError(f"no entry for {float(v)}")

    def fn(x):
        return jax.pure_callback(fail, jax.ShapeDtypeStruct((), np.float32), x.sum())

    with pytest.raises(axla.CustomCallFailure, match=r"KeyError: 'no entry for 3\.0'") as caught:
        jit(fn)(X)
    assert isinstance(caught.value.__cause__, KeyError)


def test_callbacks_see_the_types_of_the_program():
    seen = []

    def fn(x):
        jax.debug.callback(lambda v: seen.append(v.dtype), x)
        return jax.pure_callback(lambda v: v + 1, like(x), x)

    wide = axla.jax.jit(fn, x64=True)
    assert wide(X.astype(np.float64)).dtype == np.float64 and seen == [np.float64]
    inside = wide.compiled(X.astype(np.float64))
    assert inside(X.astype(np.float64)).dtype == np.float64 and seen == [np.float64] * 2


def test_a_callback_may_run_programs():
    inner = axla.jax.jit(lambda x: x * 2)

    def fn(x):
        return jax.pure_callback(lambda v: inner(v) + jnp.ones(3), like(x), x) + 1

    assert axla.jax.jit(fn)(X).tolist() == [2, 4, 6]


def test_threads_call_one_function():
    seen = []

    @axla.jax.jit
    def fn(x):
        io_callback(lambda v: seen.append(int(v)), None, x[0], ordered=True)
        return python_sin(x)

    def calls(first):
        for k in range(20):
            np.testing.assert_allclose(fn(X + first + k), np.sin(X + first + k), rtol=1e-5)

    threads = [threading.Thread(target=calls, args=(100 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(100 * t + k for t in range(4) for k in range(20))


@BOTH
def test_buffer_callbacks_write_into_the_results(jit):
    def double(context, results, x):
        with pytest.raises(jax.errors.JaxRuntimeError, match="context is not available"):
            print(context.stream)
        assert results[1].writeable and not x.writeable
        for result in results:
            np.asarray(result)[...] = np.asarray(x) * 2
        if x.shape == (1,):
            raise KeyError("short")

    def fn(x):
        a, b = buffer_callback(double, (like(x), like(x)))(x)
        return a + 1, b, jax.pure_callback(lambda v: np.asarray(v) * 3, like(x), x)

    found = [np.asarray(y).tolist() for y in jit(fn)(X)]
    assert found == [[1.0, 3.0, 5.0], [0.0, 2.0, 4.0], [0.0, 3.0, 6.0]]
    with pytest.raises(axla.CustomCallFailure, match="KeyError: 'short'"):
        jit(fn)(X[:1])


def test_callbacks_go_with_the_function():
    class Keeper:
        def __call__(self, v):
            return v

    keeper = Keeper()
    fn = axla.jax.jit(lambda x, keeper=keeper: jax.pure_callback(lambda v: keeper(v), like(x), x))
    fn(X)
    gone = weakref.ref(keeper)
    del fn, keeper
    jax.clear_caches()
    gc.collect()
    assert gone() is None
