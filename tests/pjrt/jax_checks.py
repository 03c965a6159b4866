"""Run in a process of its own, with JAX on axla and four devices: `python jax_checks.py` prints each check's
name, and the traceback of those that fail, as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import traceback
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib.xla_client import DeviceList

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def raises(kind, text, function, *args):
    try:
        jax.block_until_ready(function(*args))
    except kind as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"wanted {kind.__name__}: {text}")


@check
def platform():
    assert jax.default_backend() == "cpu"
    assert repr(jax.devices()[0]) == "AxlaDevice(id=0)"
    assert len(jax.devices()) == 4
    assert [m.kind for m in jax.devices()[0].addressable_memories()] == [
        "device", "pinned_host", "unpinned_host",
    ]  # fmt: skip
    assert "axla" in jax.devices()[0].client.platform_version


@check
def arithmetic():
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(
        np.asarray(jnp.sin(x) @ x.T), np.sin(np.asarray(x)) @ np.asarray(x).T, rtol=1e-6
    )
    assert jax.grad(lambda x: (x**3).sum())(x)[1, 2] == 75
    assert jax.vmap(jnp.dot)(x, x).tolist() == [5, 50]


@check
def types():
    for dtype in (bool, np.int8, np.uint16, np.int32, np.float16, jnp.bfloat16, np.complex64, jnp.int4,
                  jnp.float8_e4m3fn):  # fmt: skip
        host = np.array([0, 1, 1, 0]).astype(dtype)
        array = jnp.asarray(host)
        assert array.dtype == host.dtype
        np.testing.assert_array_equal(np.asarray(array[::-1]), host[::-1])


@check
def host_arrays_of_any_strides():
    base = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for host in (base[:, ::-1], base.T, base[::2, 1:, ::-2], base[:, :0], np.float32(3)):
        np.testing.assert_array_equal(np.asarray(jax.device_put(host)), host)


@check
def empty_and_scalar_results():
    assert jax.jit(lambda: ())() == ()
    assert jax.jit(lambda x: x[:0])(jnp.ones(3)).shape == (0,)
    assert jax.jit(lambda: 3.0)() == 3


@check
def numpy_shares_the_memory():
    x = jnp.arange(1000.0)
    a = np.asarray(x)
    assert a.ctypes.data == x.unsafe_buffer_pointer()
    x.delete()
    gc.collect()
    assert a[999] == 999
    raises(RuntimeError, "deleted", lambda: x + 1)


@check
def donation():
    step = jax.jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    x, y = jnp.ones(1000), jnp.ones(1000)
    place = x.unsafe_buffer_pointer()
    z, _ = step(x, y)
    assert x.is_deleted() and not y.is_deleted()
    assert z.unsafe_buffer_pointer() == place
    raises(Exception, "deleted", step, x, y)
    kept = np.asarray(z)
    w, _ = step(z, y)
    assert kept[0] == 2 and w[0] == 3
    both = jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))
    raises(Exception, "donate", both, w, w)


@check
def long_runs_are_asynchronous():
    step = jax.jit(lambda x: x @ x / 700)
    y = jnp.ones((700, 700))
    for _ in range(5):
        y = step(y)
    assert y.is_ready() in (True, False)
    np.testing.assert_allclose(y.block_until_ready()[0, 0], 1, rtol=1e-4)
    assert y.is_ready()


@check
def few_runs_are_under_way():
    step = jax.jit(lambda x: x @ x / 500)
    y = step(jnp.ones((500, 500))).block_until_ready()
    before, most = jax.devices()[0].memory_stats()["bytes_in_use"], 0
    for _ in range(200):
        y = step(y)
        most = max(most, jax.devices()[0].memory_stats()["bytes_in_use"] - before)
    assert most < 40 * y.nbytes, most / y.nbytes


@check
def callbacks():
    def host(x):
        return np.sin(x)

    f = jax.jit(lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2)
    np.testing.assert_allclose(f(jnp.arange(3.0)), 2 * np.sin(np.arange(3.0)), rtol=1e-6)
    seen = []

    @jax.jit
    def loop(x):
        def body(i, x):
            jax.debug.callback(lambda i: seen.append(int(i)), i, ordered=True)
            return x + 1

        return jax.lax.fori_loop(0, 5, body, x)

    assert loop(0) == 5
    jax.effects_barrier()
    assert seen == [0, 1, 2, 3, 4]

    def wrong(x):
        raise ValueError("the host says no")

    raises(Exception, "the host says no", jax.jit(lambda x: jax.pure_callback(wrong, x, x)), jnp.ones(2))


@check
def linear_algebra():
    a = jnp.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
    for found in (jnp.linalg.eigh(a), jnp.linalg.svd(a), jnp.linalg.qr(a), jnp.linalg.eig(a),
                  jax.scipy.linalg.lu(a), jax.scipy.linalg.schur(a)):  # fmt: skip
        assert all(np.isfinite(np.asarray(x)).all() for x in found)
    np.testing.assert_allclose(a @ jnp.linalg.solve(a, jnp.ones(3)), np.ones(3), rtol=1e-5)


@check
def devices_and_memories():
    x = jax.device_put(jnp.arange(4.0), jax.devices()[2])
    assert x.devices() == {jax.devices()[2]} and (x + 1).devices() == {jax.devices()[2]}
    host = jax.device_put(x, jax.sharding.SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host"))
    assert host.sharding.memory_kind == "pinned_host" and host.devices() == {jax.devices()[1]}
    np.testing.assert_array_equal(host, np.arange(4.0))


@check
def sharded_programs():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    whole = np.arange(32.0, dtype=np.float32).reshape(8, 4)
    array = jax.device_put(whole, NamedSharding(mesh, P("x", "y")))
    out = jax.jit(lambda a: jnp.sin(a) @ a.T, out_shardings=NamedSharding(mesh, P("x")))(array)
    np.testing.assert_allclose(out, np.sin(whole) @ whole.T, rtol=1e-5)
    assert out.sharding.spec == P("x")
    mapped = jax.shard_map(lambda a: jax.lax.psum(a, "y"), mesh=mesh, in_specs=P("x", "y"), out_specs=P("x"))
    np.testing.assert_allclose(jax.jit(mapped)(array), whole[:, :2] + whole[:, 2:])
    two = jax.shard_map(lambda a: (a + 1, a * 2), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    assert "all-gather" not in jax.jit(two).lower(whole).compile().as_text()
    assert jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(jnp.arange(4.0)).tolist() == [6] * 4


@check
def texts_and_costs():
    compiled = jax.jit(lambda x: jnp.sin(x) * 2 + 1).lower(jnp.ones(4)).compile()
    assert "sine(" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 0
    found = compiled.memory_analysis()
    sizes = found.argument_size_in_bytes, found.output_size_in_bytes, found.host_temp_size_in_bytes
    assert sizes == (16, 16, 0)

    def sunk(x):
        jax.lax.dce_sink(x + 1, prevent_mlir_dce=True)
        return x

    text = jax.jit(sunk).lower(jnp.float32(1)).compile().as_text()
    assert "dce_sink" in text and "add(" in text
    assert jax.jit(sunk)(2.0) == 2


@check
def serialized_programs():
    from jax.experimental import serialize_executable

    f = jax.jit(lambda x: {"y": x * 2})
    packed = serialize_executable.serialize(f.lower(jnp.ones(3)).compile())
    loaded = serialize_executable.deserialize_and_load(*packed, execution_devices=jax.devices()[:1])
    assert loaded(jnp.ones(3))["y"].tolist() == [2, 2, 2]
    exported = jax.export.export(f)(jnp.ones(3))
    assert jax.export.deserialize(exported.serialize()).call(jnp.ones(3))["y"].tolist() == [2, 2, 2]


@check
def texts_of_a_program_are_kept_once():
    import tracemalloc

    compiled = jax.jit(lambda x: x * 2).lower(jnp.ones(3)).compile()

    def ask():
        for _ in range(50):
            compiled.runtime_executable().serialize()
            compiled.cost_analysis()

    ask()
    tracemalloc.start()
    ask()
    found = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert found < 50_000, found


@check
def damaged_programs():
    client, devices = jax.devices()[0].client, jax.devices()[:1]
    text = jax.jit(lambda x: x * 2).lower(jnp.ones(3)).compile().runtime_executable().serialize()
    code = text.index(b"ML\xefR")
    for at in range(code, code + 200, 7):
        wrong = bytearray(text)
        wrong[at] ^= 1
        for data in (bytes(wrong), text[:at]):
            raises(Exception, "damaged", client.deserialize_executable, data, DeviceList(tuple(devices)))


@check
def dlpack():
    x = jnp.arange(5.0)
    host = np.from_dlpack(x)
    assert host.ctypes.data == x.unsafe_buffer_pointer()
    back = jnp.from_dlpack(host.copy())
    np.testing.assert_array_equal(back, np.arange(5.0))


@check
def transfers():
    """A server gives arrays to who connects to it, here to itself."""
    from jax.experimental import transfer

    device = jax.devices()[1]
    x, y = jnp.arange(300_000.0), jnp.arange(6).reshape(2, 3)
    server = transfer.start_transfer_server(device.client, "127.0.0.1:0", ["127.0.0.1:0"])
    server.await_pull(1, [x, y])
    wanted = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=jax.sharding.SingleDeviceSharding(device))
        for a in (x, y)
    ]
    found = server.connect(server.address()).pull(1, wanted)
    for a, b in zip((x, y), found, strict=True):
        assert b.devices() == {device} and np.array_equal(a, b)
    assert int(jax.jit(jnp.sum)(found[1])) == 15
    broken = jax._src.lib._jax._make_error_array(device.client, wanted[1], "no such thing")
    raises(jax.errors.JaxRuntimeError, "no such thing", jax.jit(jnp.sum), broken)


@check
def errors_name_the_line():
    def f(x):
        return jax.lax.platform_dependent(x, cpu=lambda x: jax.ffi.ffi_call("no_such_target", x)(x))

    raises(Exception, "no_such_target", jax.jit(f), jnp.ones(2))


@check
def threads():
    f = jax.jit(lambda x, y: (x @ y).sum())
    found, a = [], jnp.ones((50, 50))

    def work():
        for _ in range(50):
            found.append(float(f(a, a)))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [125000.0] * 200


@check
def memory_goes_back():
    def in_use():
        gc.collect()
        return jax.devices()[0].memory_stats()["bytes_in_use"]

    f = jax.jit(partial(jnp.add, 1))
    x = f(jnp.zeros((256, 1024)))
    before = in_use()
    for _ in range(20):
        x = f(x)
        np.asarray(x)
    x.block_until_ready()
    assert in_use() - before < 1 << 20


def main() -> None:
    report = {}
    for name, function in CHECKS.items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        try:
            function()
            report[name] = ""
        except Exception:
            report[name] = traceback.format_exc()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
