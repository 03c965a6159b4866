"""Handlers of the FFI in a process where axla is JAX's platform."""

from __future__ import annotations

import pytest
from test_jax_on_axla import run

from native_handlers import handlers_library

pytestmark = pytest.mark.cc

TEXT = """
import ctypes as c, jax, numpy as np, scipy.sparse
library = c.CDLL({path!r})
capsule = jax.ffi.pycapsule
F32, scalar = np.float32, jax.ShapeDtypeStruct((), np.int64)
x = np.arange(8, dtype=F32)
shape = jax.ShapeDtypeStruct((8,), F32)
jax.ffi.register_ffi_target("before", capsule(library.later), platform="cpu")
assert "axla" in jax.devices()[0].client.platform_version
jax.ffi.register_ffi_target("after", capsule(library.scale), platform="cpu")

assert jax.jit(lambda x: jax.ffi.ffi_call("before", shape)(x) + x)(x).tolist() == (x * x + x).tolist()
call = jax.ffi.ffi_call("after", (shape, jax.ShapeDtypeStruct((), F32)))
assert jax.vmap(lambda x: x * 2)(call(x, factor=F32(3), fail="")[0]).tolist() == (x * 6).tolist()
try:
    jax.block_until_ready(call(x, factor=F32(3), fail="too far"))
except jax.errors.JaxRuntimeError as error:
    assert str(error).startswith("OUT_OF_RANGE: "), error

capsules = [capsule(c.CFUNCTYPE(c.c_void_p)((n, library))()) for n in ("counter_type", "counter_info")]
jax.ffi.register_ffi_type("counter", dict(type_id=capsules[0], type_info=capsules[1]), platform="cpu")
stages = dict(instantiate=capsule(library.counter_begin), execute=capsule(library.counter))
jax.ffi.register_ffi_target("counter", stages, platform="cpu")
with jax.enable_x64(True):
    count = jax.jit(lambda: jax.ffi.ffi_call("counter", scalar, has_side_effect=True)(first=5))
    assert [int(count()) for _ in range(3)] == [5, 6, 7]

from jax.experimental import sparse
matrix = scipy.sparse.random(7, 8, 0.5, "csr", F32)
product = jax.ffi.ffi_call("cpu_csr_sparse_dense_ffi", jax.ShapeDtypeStruct((7,), F32))
found = jax.jit(product)(matrix.data, matrix.indptr, matrix.indices, x)
np.testing.assert_allclose(found, matrix @ x, 1e-5)

from jax.experimental.buffer_callback import buffer_callback
def double(context, out, x):
    np.asarray(out)[...] = np.asarray(x) * 2
doubled = jax.jit(lambda x: buffer_callback(double, shape, input_output_aliases=dict([(0, 0)]))(x) + 1)
assert [doubled(x + k).tolist() for k in range(2)] == [((x + k) * 2 + 1).tolist() for k in range(2)]

stock = jax._src.lib.xla_client.make_cpu_client()  # has them, too
assert "counter" in jax._src.lib.xla_client.custom_call_targets("Host")
print("done")
"""


def test_handlers_of_users_and_of_jaxlib():
    done = run("-c", TEXT.format(path=handlers_library()._name))
    assert done.stdout == "done\n", done.stdout + done.stderr
