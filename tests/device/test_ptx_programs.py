"""Whole programs for NVIDIA GPUs on the machine that executes PTX, against the interpreter."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import axla
from axla.core.errors import UnsupportedError
from axla.device import cuda
from ptx.gpu import FakeCudaBackend, FakeGpu

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

from conformance_lib.samples import Samples  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc: it builds the fake library")


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    return FakeGpu(tmp_path_factory.mktemp("cuda"))


@pytest.fixture(scope="module")
def client(gpu):
    backend = FakeCudaBackend(gpu)
    axla.backends.register("ptx", lambda: backend)
    yield axla.Client(backend)
    axla.backends.unregister("ptx")


def same(client, module, inputs, *, rtol=2e-5, atol=2e-6):
    """Runs a program on the machine and on the interpreter; their results are the same, nearly."""
    found = client.compile(module, replicas="first").execute(list(inputs))
    wanted = axla.compile(module, backend="interpreter", replicas="first").execute(list(inputs))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=rtol, atol=atol)


# -- three programs ------------------------------------------------------------------------------------------


def test_training_of_digits(client):
    """Two batches of the network of examples/digits.py, forward, backward and update."""
    spec = importlib.util.spec_from_file_location("axla_example_digits_ptx", ROOT / "examples" / "digits.py")
    assert spec is not None and spec.loader is not None
    digits = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    layers, count = (64, 24, 10), 2 * digits.BATCH
    rng = np.random.default_rng(1)
    images = rng.random((count, 64), np.float32)
    targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, count)]
    weights = digits.initial_parameters(layers, rng)
    order = rng.permutation(count).astype(np.int32)
    inputs = [images, targets, order, np.float32(0.1), *weights, *[np.zeros_like(w) for w in weights]]
    same(client, digits.build_epoch(layers, count).module, inputs)


def drawn(*shapes):
    rng = np.random.default_rng(2)
    return [(rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32) for shape in shapes]


def test_an_lstm(client):
    """Five steps of a cell of eight, three sequences."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    from axla.jax import to_module

    def lstm(xs, wx, wh, b):
        def step(state, x):
            h, c = state
            i, f, o, g = jnp.split(x @ wx + h @ wh + b, 4, axis=-1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((3, 8), np.float32)
        return jax.lax.scan(step, (zeros, zeros), xs)

    inputs = drawn((5, 3, 4), (4, 32), (8, 32), (32,))
    same(client, to_module(lstm, *inputs), inputs)


def test_a_transformer_block(client):
    """Causal attention of two heads and a network with GELU, with their norms."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    from axla.jax import to_module

    def normal(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)

    def block(x, qkv, out, up, down):
        q, k, v = (part.reshape(2, 12, 2, 8) for part in jnp.split(normal(x) @ qkv, 3, axis=-1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(8))
        scores = jnp.where(np.tri(12, dtype=bool), scores, np.float32(-1e9))
        x += jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(2, 12, 16) @ out
        return x + jax.nn.gelu(normal(x) @ up) @ down

    inputs = drawn((2, 12, 16), (16, 48), (16, 16), (16, 32), (32, 16))
    same(client, to_module(block, *inputs), inputs, rtol=1e-4, atol=1e-5)


# -- kernels of many kinds -----------------------------------------------------------------------------------

COMBINERS = """
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
"""
KINDS = {
    "rows of several warps": "f32[3,300]|z = f32[] constant(1)\n"
    " ROOT r = f32[3] reduce(p, z), dimensions={1}, to_apply=sum",
    "columns": "f32[130,37]|z = f32[] constant(1)\n"
    " ROOT r = f32[37] reduce(p, z), dimensions={0}, to_apply=sum",
    "everything": "f32[9000]|z = f32[] constant(1)\n"
    " ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=sum",
    "transpose": "f32[70,45]|ROOT r = f32[45,70] transpose(p), dimensions={1,0}",
    "dot": "f32[40,33]|ROOT r = f32[40,40] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "sort": "f32[3,100]|ROOT r = f32[3,100] sort(p), dimensions={1}, to_apply=less",
    "top-k": "f32[3,100]|ROOT r = (f32[3,5], s32[3,5]) topk(p), k=5, largest=true",
    "window": "f32[3,50]|z = f32[] constant(0)\n"
    " ROOT r = f32[3,46] reduce-window(p, z), window={size=1x5}, to_apply=sum",
    "running sum": "f32[3,300]|z = f32[] constant(0)\n"
    " ROOT r = f32[3,300] reduce-window(p, z), window={size=1x300 pad=0_0x299_0}, to_apply=sum",
    "fft": "f32[4,30]|c = c64[4,30] convert(p)\n ROOT r = c64[4,30] fft(c), fft_type=FFT, fft_length={30}",
    "convolution": "f32[1,9,9,2]|k = f32[3,3,2,4] broadcast(f32[] constant(0.5)), dimensions={}\n"
    " ROOT r = f32[1,7,7,4] convolution(p, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
    "cholesky": "f32[5,5]|t = f32[5,5] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    " i = s32[5,5] iota(), iota_dimension=0\n"
    " j = s32[5,5] iota(), iota_dimension=1\n"
    " e = pred[5,5] compare(i, j), direction=EQ\n"
    " o = f32[5,5] convert(e)\n"
    " s = f32[5,5] add(t, o)\n"
    " ROOT r = f32[5,5] cholesky(s), lower=true",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(client, kind):
    shape, body = KINDS[kind].split("|")
    module = axla.parse(f"HloModule m\n{COMBINERS}\nENTRY e {{ p = {shape} parameter(0)\n {body} }}")
    dims = module.entry.parameters[0].shape.dims
    same(
        client, module, [np.random.default_rng(3).normal(size=dims).astype(np.float32)], rtol=1e-4, atol=1e-4
    )


def test_a_draw(client):
    """Random bits are the same on every backend."""
    text = """HloModule m
ENTRY e { s = u64[2] parameter(0)
  ROOT r = (u64[2], u32[77]) rng-bit-generator(s), algorithm=rng_philox }"""
    same(client, axla.parse(text), [np.array([3, 5], np.uint64)], rtol=0, atol=0)


def why_no_gpu():
    try:
        cuda.devices()
    except UnsupportedError as error:
        return str(error)
    return ""


@pytest.mark.gpu
@pytest.mark.skipif(why_no_gpu() != "", reason=why_no_gpu())
def test_on_a_gpu():
    """The programs of this page on the GPU that is there."""
    client = axla.Client("cuda")
    test_training_of_digits(client)
    test_an_lstm(client)
    test_a_transformer_block(client)
    for kind in KINDS:
        test_kinds(client, kind)


@pytest.mark.parametrize("case", Samples().cases()[11::97])
def test_samples(client, gpu, case):
    outcome = Samples().run(case, "ptx")
    assert outcome.kind in Samples.good, outcome.detail
    assert not gpu.errors
