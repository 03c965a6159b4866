"""Callbacks of JAX: programs as stock JAX lowers them, run on axla's backends with their functions."""

import gc
import traceback
import weakref

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax.experimental import io_callback  # noqa: E402

import axla  # noqa: E402
import axla.jax.functions  # noqa: E402
from axla.custom import registry  # noqa: E402
from axla.pjrt import callbacks  # noqa: E402

X = np.arange(3, dtype=np.float32)


def program(fn, *args, backend="cpu", **options):
    """The executable of a function and its callbacks."""
    lowered = jax.jit(fn, keep_unused=True).trace(*args).lower(lowering_platforms=("cpu",))
    module = axla.parse(axla.jax.functions._bytecode(lowered.compiler_ir("stablehlo")))
    found = callbacks.attach(module)
    if found is not None:
        found.functions = lowered._lowering.compile_args["host_callbacks"]
    return axla.compile(module, backend=backend, **options), found


def ran(fn, *args, backend="cpu"):
    executable, found = program(fn, *args, backend=backend)
    return [np.asarray(r) for r in executable.execute(args)], found


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def pure(function, x):
    return jax.pure_callback(function, like(x), x, vmap_method="sequential")


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_pure_io_and_printing_callbacks_with_tokens_and_without(backend, capsys):
    seen = []

    def fn(x):
        jax.debug.print("first {}", x, ordered=True)
        y = pure(lambda v: np.asarray(v) * 2, x)
        io_callback(lambda v: seen.append(np.asarray(v).tolist()), None, y, ordered=True)
        count, half = io_callback(
            lambda v: (np.int32(len(seen)), np.asarray(v) / 2),
            (jax.ShapeDtypeStruct((), np.int32), like(x)),
            x,
        )
        jax.debug.print("last {}", count)
        return y + count, half

    (result, half), _ = ran(fn, X, backend=backend)
    assert result.tolist() == [1.0, 3.0, 5.0] and half.tolist() == [0.0, 0.5, 1.0]
    assert seen == [[0.0, 2.0, 4.0]]
    assert capsys.readouterr().out.splitlines() == ["first [0. 1. 2.]", "last 1"]


def test_a_program_without_callbacks_has_none():
    assert program(lambda x: x + 1, X)[1] is None


def test_effects_stand_in_the_order_of_the_program_in_loops_and_branches():
    seen = []

    def note(value):
        io_callback(lambda v: seen.append(int(v)), None, value, ordered=True)

    def body(k, x):
        note(k)
        return jax.lax.cond(k % 2 == 0, lambda v: pure(lambda a: np.asarray(a) + 10, v), lambda v: v, x)

    def fn(x):
        note(-1)
        x = jax.lax.fori_loop(0, 4, body, x)
        note(-2)
        return x

    (result,), _ = ran(fn, X)
    assert result.tolist() == [20.0, 21.0, 22.0] and seen == [-1, 0, 1, 2, 3, -2]


@pytest.mark.parametrize(
    "dtype", ["bool", "int4", "uint2", "bfloat16", "float8_e4m3fn", "complex64", "float16"]
)
def test_element_types(dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.array([0, 1, 1, 0, 1], np.float32).astype(dtype)
    seen = []

    def reverse(v):
        seen.append(v)
        return np.asarray(v)[::-1]

    (result,), _ = ran(lambda v: pure(reverse, v), x)
    assert result.dtype == dtype and np.array_equal(result, x[::-1])
    assert isinstance(seen[0], jax.Array) and seen[0].dtype == dtype


def test_scalars_empty_arrays_and_no_operands():
    empty = np.zeros((0, 2), np.float32)

    def fn(x, e):
        one = jax.pure_callback(lambda: np.float32(7), jax.ShapeDtypeStruct((), np.float32))
        return one + pure(lambda v: v, x), pure(lambda v: v, e)

    (one, none), _ = ran(fn, np.float32(1), empty)
    assert one == 8 and none.shape == (0, 2)


def test_functions_get_arrays_that_they_may_keep_and_not_write():
    kept = []

    def fn(x):
        return pure(lambda v: v, x + 1)

    executable, found = program(fn, X)
    inner = found.functions[0]
    found.functions = [lambda *arrays: kept.extend(arrays) or inner(*arrays)]
    for start in (0, 10):
        executable.execute([X + start])
    assert [k.tolist() for k in kept] == [[1, 2, 3], [11, 12, 13]]
    assert not any(k.flags.writeable for k in kept)


def test_what_a_callback_raises_is_the_cause():
    def fail(v):
        raise LookupError(f"nothing for {float(v[0])}")

    def fn(x):
        return pure(fail, x) + 1

    executable, _keep = program(fn, X)
    with pytest.raises(axla.CustomCallFailure, match=r"LookupError: nothing for 0\.0") as caught:
        executable.execute([X])
    cause = caught.value.__cause__
    assert isinstance(cause, LookupError) and "in fail" in "".join(traceback.format_exception(cause))


def test_a_result_of_another_shape_is_refused():
    executable, _keep = program(lambda x: pure(lambda v: v[:2], x), X)
    with pytest.raises(axla.CustomCallFailure, match="Incorrect output shape"):
        executable.execute([X])


def test_a_run_without_its_functions_says_so():
    executable, found = program(lambda x: pure(lambda v: v, x), X)
    found.functions = []
    with pytest.raises(axla.CustomCallFailure, match="callback 0, the run has only 0"):
        executable.execute([X])


def test_programs_have_callbacks_of_their_own():
    both = [program(lambda x, k=k: pure(lambda v: np.asarray(v) + k, x), X) for k in range(2)]
    for _ in range(2):
        assert [float(e.execute([X])[0][0]) for e, _ in both] == [0.0, 1.0]


def test_registrations_and_functions_go_with_the_program():
    class Big:
        def __call__(self, v):
            return v

    fn = Big()
    big = weakref.ref(fn)
    executable, found = program(lambda x, fn=fn: pure(lambda v, fn=fn: fn(v), x), X)
    executable.execute([X])
    target = found.target
    assert registry.registered(target) is not None
    del executable, found, fn
    jax.clear_caches()
    gc.collect()
    assert registry.registered(target) is None and big() is None


def test_each_partition_calls():
    seen = []
    text = """HloModule m, num_partitions=2
    ENTRY e {
      p = u32[] partition-id()
      c = () custom-call(p), custom_call_target="xla_ffi_partitioned_python_cpu_callback",
        custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, backend_config={index = 0 : ui64}
      ROOT r = u32[] custom-call(p), custom_call_target="xla_ffi_python_cpu_callback",
        api_version=API_VERSION_TYPED_FFI, backend_config={index = 1 : ui64}
    }"""
    module = axla.parse(text)
    found = callbacks.attach(module)
    found.functions = [lambda p: seen.append(int(p)) or (), lambda p: (p + 1,)]
    results = axla.compile(module, num_partitions=2).execute_replicated([[], []])
    assert [int(r[0]) for r in results] == [1, 2] and sorted(seen) == [0, 1]


def test_callbacks_of_a_shard_mapped_function():
    seen = []
    mesh = jax.sharding.AbstractMesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")

    def body(x):
        jax.debug.callback(lambda v: seen.append(np.asarray(v).tolist()), x)
        return pure(lambda v: np.asarray(v) * 2, x)

    fn = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
    executable, _keep = program(fn, np.arange(4, dtype=np.float32), num_partitions=2)
    results = executable.execute_replicated([[np.float32([0, 1])], [np.float32([2, 3])]])
    assert [np.asarray(r[0]).tolist() for r in results] == [[0, 2], [4, 6]]
    assert sorted(seen) == [[0, 1], [2, 3]]
