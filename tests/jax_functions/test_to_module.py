"""JAX functions become modules that compute what JAX computes."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import random
import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = importlib.import_module("jax.numpy")

import axla  # noqa: E402
import axla.jax  # noqa: E402
from axla.core.errors import AxlaError, InvalidArgument, ParseError, UnsupportedError  # noqa: E402

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _on_cpu():
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def values(*dims: int) -> np.ndarray:
    return RANDOM.standard_normal(dims).astype(np.float32)


def same(fn, *args, tolerance=2e-5, **kwargs):
    """Compiles with axla, runs both, compares trees and leaves."""
    found = axla.jax.compile(fn, *args, **kwargs)(*args, **kwargs)
    wanted = fn(*args, **kwargs)
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(wanted)
    leaves = jax.tree_util.tree_leaves
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def mlp(params, x):
    for layer in params["layers"]:
        x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
    return {"logits": x @ params["head"], "norm": (jnp.sum(x * x),)}


PARAMS = {
    "layers": [{"kernel": values(5, 4), "bias": values(4)}, {"kernel": values(4, 4), "bias": values(4)}],
    "head": values(4, 3),
}


def test_mlp_of_dictionaries_and_lists():
    same(mlp, PARAMS, values(2, 5))


def test_names_come_from_the_pytrees():
    module = axla.jax.to_module(mlp, PARAMS, values(2, 5))
    names = axla.jax.names_of(module)
    assert names.arguments == (
        "params['head']", "params['layers'][0]['bias']", "params['layers'][0]['kernel']",
        "params['layers'][1]['bias']", "params['layers'][1]['kernel']", "x",
    )  # fmt: skip
    assert names.results == ("result['logits']", "result['norm'][0]")
    parameters = [p.name for p in module.entry.parameters]
    assert parameters[:3] == ["params_head", "params_layers_0_bias", "params_layers_0_kernel"]
    # HLO text, StableHLO text and a copy of the program keep them.
    assert axla.jax.names_of(axla.parse(module.to_string())) == names
    again = axla.parse(axla.stablehlo.export_text(module))
    assert axla.jax.names_of(again) == names
    with pytest.raises(InvalidArgument, match="no axla.names"):
        axla.jax.names_of(axla.parse("ENTRY e { ROOT x = f32[] parameter(0) }"))


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Point:
    x: object
    y: object


def test_dataclasses_and_scalars():
    same(lambda p, s: Point(p.x * s, p.y - s), Point(values(3), values(3)), 2.5)
    module = axla.jax.to_module(lambda p, s: p.x * s, Point(values(3), values(3)), 2.5)
    assert axla.jax.names_of(module).arguments == ("p.x", "p.y", "s")


def test_unused_arguments_stay():
    for fn in (lambda a, b, c: b + 1, jax.jit(lambda a, b, c: b + 1)):
        module = axla.jax.to_module(fn, values(2), values(3), values(4))
        assert [p.shape.dims for p in module.entry.parameters] == [(2,), (3,), (4,)]
    same(jax.jit(lambda a, b: b * 2), values(2), values(3))


def test_static_arguments():
    def power(x, n, *, negate):
        for _ in range(n):
            x = x * x
        return -x if negate else x

    x = values(4)
    compiled = axla.jax.compile(power, x, 2, static_argnums=1, static_argnames="negate", negate=True)
    np.testing.assert_allclose(np.asarray(compiled(x)), -(x**4), rtol=1e-5)
    jitted = jax.jit(power, static_argnums=1, static_argnames="negate")
    np.testing.assert_allclose(np.asarray(axla.jax.compile(jitted, x, 1, negate=False)(x)), x * x, rtol=1e-6)


def test_donation_is_kept():
    def step(state, gradient, unused):
        return state - gradient

    for fn, options in ((step, {"donate_argnums": 0}), (jax.jit(step, donate_argnums=0), {})):
        module = axla.jax.to_module(fn, values(3), values(3), values(1), **options)
        assert [(a.output, a.parameter) for a in module.config.aliases] == [((), 0)]
    assert module.name == "jit_step"


def test_shapes_without_values():
    module = axla.jax.to_module(lambda x: x.T, jax.ShapeDtypeStruct((2, 3), jnp.bfloat16))
    assert str(module.entry.root.shape) == "bf16[3,2]{1,0}"


def test_scan_while_and_cond():
    def loops(x):
        total, partial = jax.lax.scan(lambda c, v: (c + v, c * v), 0.0, x)
        count = jax.lax.while_loop(lambda c: c[0] < 100, lambda c: (c[0] * 2, c[1] + 1), (jnp.int32(1), 0))
        return jax.lax.cond(total > 0, jnp.sin, jnp.cos, total), partial, count

    same(loops, values(7))


def test_linear_algebra_by_lapack():
    a = values(4, 4)
    a = a @ a.T + 4 * np.eye(4, dtype=np.float32)
    same(jnp.linalg.cholesky, a)
    same(jnp.linalg.solve, a, values(4, 2))
    same(lambda m: jnp.linalg.eigh(m)[0], a)
    same(lambda m: jnp.linalg.svd(m, compute_uv=False), values(4, 3))


def test_random_numbers():
    key = jax.random.PRNGKey(3)
    same(lambda k: (jax.random.uniform(k, (5,)), jax.random.randint(k, (3,), 0, 10)), key)
    same(lambda k: jax.random.normal(k, (4,)), jax.random.key(1))


def test_gradient_of_a_convolution():
    def loss(params, images, labels):
        x = jax.lax.conv_general_dilated(
            images, params["conv"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x).mean((1, 2)) @ params["out"]
        return -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(2), labels])

    params = {"conv": values(3, 3, 1, 4), "out": values(4, 3)}
    same(jax.value_and_grad(loss), params, values(2, 6, 6, 1), np.array([0, 2], np.int32), tolerance=1e-4)


def test_constants_of_the_function_are_in_the_module():
    weights = values(64, 64)
    module = axla.jax.to_module(lambda x: x @ weights, values(2, 64))
    assert len(module.entry.parameters) == 1
    same(lambda x: x @ weights, values(2, 64), tolerance=1e-4)


def test_constants_are_what_they_were_when_the_function_was_read():
    """Large ones are taken where they are: a view that is read only is not a promise about its memory."""
    weights = np.arange(1 << 18, dtype=np.float32)
    view = weights[:].view()
    view.flags.writeable = False
    module = axla.jax.to_module(lambda x: x + view, np.float32(0))
    weights[:] = 7
    [constant] = [i for i in module.entry.instructions if i.opcode == "constant"]
    assert constant.op.literal.array[-1] == len(weights) - 1


def test_wide_types():
    x = np.linspace(0, 1, 4)
    narrow, wide = (axla.jax.to_module(jnp.sin, x, x64=on) for on in (False, True))
    assert [str(m.entry.root.shape.dtype) for m in (narrow, wide)] == ["f32", "f64"]
    np.testing.assert_allclose(np.asarray(axla.jax.compile(jnp.sin, x, x64=True)(x)), np.sin(x), rtol=1e-15)
    f = axla.jax.compile(jnp.sin, x, x64=False)
    for setting in (False, True):  # at the time of the call
        with jax.enable_x64(setting):
            np.testing.assert_allclose(np.asarray(f(x)), np.sin(x), rtol=1e-6)


def test_exports():
    exported = jax.export.export(jax.jit(mlp), platforms=("cpu",))(PARAMS, values(2, 5))
    module = axla.jax.to_module(exported)
    assert axla.jax.names_of(module).arguments[:2] == ("params['head']", "params['layers'][0]['bias']")
    x = values(2, 5)
    found = axla.jax.compile(exported)(PARAMS, x)
    np.testing.assert_allclose(np.asarray(found["logits"]), mlp(PARAMS, x)["logits"], rtol=1e-5)
    with pytest.raises(InvalidArgument, match="has its own arguments"):
        axla.jax.to_module(exported, x)
    assert str(axla.parse(exported.mlir_module_serialized).entry.root.shape) == str(module.entry.root.shape)


def test_exports_leave_out_unused_arguments():
    exported = jax.export.export(jax.jit(lambda a, b: b * 2), platforms=("cpu",))(values(2), values(3))
    assert axla.jax.names_of(axla.jax.to_module(exported)).arguments == ("b",)
    b = values(3)
    assert np.asarray(axla.jax.compile(exported)(values(2), b)).tolist() == (b * 2).tolist()


def test_serialized_exports():
    exported = jax.export.export(jax.jit(jnp.sin), platforms=("cpu",))(values(3))
    try:
        data = exported.serialize()
    except ImportError:
        with pytest.raises(UnsupportedError, match="flatbuffers"):
            axla.jax.to_module(b"anything")
        return
    assert str(axla.jax.to_module(bytes(data)).entry.root.shape) == "f32[3]{0}"


def test_exports_for_several_platforms():
    """They take the number of the platform as their first argument."""

    def f(p, x):
        platform = jax.lax.platform_dependent(tpu=lambda: 2.0, cpu=lambda: 3.0, cuda=lambda: 4.0)
        return {"y": x * p["w"] * platform}

    p, x = {"w": values(3)}, values(3)
    exported = jax.export.export(jax.jit(f), platforms=("tpu", "cpu", "cuda"))(p, x)
    module = axla.jax.to_module(exported)
    assert [parameter.name for parameter in module.entry.parameters] == ["p_w", "x"]
    found = axla.jax.compile(exported)(p, x)
    np.testing.assert_allclose(np.asarray(found["y"]), 3 * p["w"] * x, rtol=1e-6)
    (rows,) = jax.export.symbolic_shape("rows")
    p, x = ({"w": jax.ShapeDtypeStruct((rows,), jnp.float32)}, jax.ShapeDtypeStruct((rows,), jnp.float32))
    module = axla.jax.to_module(jax.export.export(jax.jit(f), platforms=("tpu", "cpu"))(p, x))
    x = values(2)
    found = axla.compile(module, arg_types=["tensor<2xf32>"] * 2)(np.ones(2, np.float32), x)
    np.testing.assert_allclose(np.asarray(found), 3 * x, rtol=1e-6)


def test_symbolic_sizes_keep_names():
    (rows,) = jax.export.symbolic_shape("rows")
    module = axla.jax.to_module(
        lambda a, b: {"sum": a + b}, *[jax.ShapeDtypeStruct((rows,), jnp.float32)] * 2
    )
    names = axla.jax.Names(("a", "b"), ("result['sum']",))
    assert axla.jax.names_of(module) == names
    made = module.specialize(["tensor<3xf32>"] * 2)
    assert [p.name for p in made.entry.parameters] == ["a", "b"] and axla.jax.names_of(made) == names
    with pytest.raises(InvalidArgument, match=r"argument 0 is tensor<\?xf32>"):
        axla.compile(module)


def test_exports_for_open_sizes_and_several_platforms_have_the_names():
    (rows,) = jax.export.symbolic_shape("rows")
    x = jax.ShapeDtypeStruct((rows, 5), jnp.float32)
    for platforms in (("cpu",), ("tpu", "cpu")):
        exported = jax.export.export(jax.jit(mlp), platforms=platforms)(PARAMS, x)
        names = axla.jax.names_of(axla.jax.to_module(exported))
        assert names.arguments[0] == "params['head']" and names.arguments[-1] == "x"


def test_plain_stablehlo_has_the_names():
    lowered = jax.jit(mlp).lower(PARAMS, values(2, 5))
    names = axla.jax.names_of(axla.jax.to_module(mlp, PARAMS, values(2, 5)))
    assert axla.jax.names_of(axla.parse(lowered.as_text(debug_info=True))) == names
    bare = axla.jax.names_of(axla.parse(lowered.as_text()))  # which does not say what arguments are called
    assert bare.results == names.results and bare.arguments != names.arguments


def _callbacks():
    def prints(x):
        jax.debug.print("x is {}", x)
        return x + 1

    def pure(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), np.float32), x)

    return [(prints, "debug_print"), (pure, "pure_callback")]


@pytest.mark.parametrize("which", [0, 1])
def test_modules_with_callbacks_into_python_are_refused_by_name(which):
    fn, name = _callbacks()[which]
    module = axla.jax.to_module(fn, values(3))
    assert axla.jax.names_of(module).arguments == ("x",)
    with pytest.raises(UnsupportedError, match=f"xla_ffi_python_cpu_callback.*{name}.*test_to_module.py"):
        axla.compile(module)


def test_bytes_that_are_no_export():
    pytest.importorskip("flatbuffers")
    data = bytes(jax.export.export(jax.jit(jnp.sin), platforms=("cpu",))(values(3)).serialize())
    source = random.Random(1)
    for n in range(60):
        damaged = bytearray(data[: source.randrange(len(data))] if n % 3 else data)
        for _ in range(n % 4):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        with contextlib.suppress(AxlaError):
            axla.jax.to_module(bytes(damaged))
    with pytest.raises(ParseError, match="not an export that this JAX reads"):
        axla.jax.to_module(b"123")
    exported = jax.export.export(jax.jit(jnp.sin), platforms=("cpu",))(values(3))
    with pytest.raises(ParseError, match=r"keeps arguments \(7,\) of 1"):
        axla.jax.to_module(dataclasses.replace(exported, module_kept_var_idx=(7,)))
    with pytest.raises(ParseError, match="not StableHLO bytecode"):
        axla.jax.to_module(dataclasses.replace(exported, mlir_module_serialized=b"something"))


def test_symbolic_sizes():
    (rows,) = jax.export.symbolic_shape("rows")
    shape = jax.ShapeDtypeStruct((rows, 3), jnp.float32)
    module = axla.jax.to_module(lambda x: x.sum(0) / x.shape[0], shape)
    x = values(5, 3)
    found = axla.compile(module, arg_types=["tensor<5x3xf32>"])(x)
    np.testing.assert_allclose(np.asarray(found), x.mean(0), rtol=1e-5)
    with pytest.raises(InvalidArgument, match="arg_types"):
        axla.jax.compile(lambda x: x, shape)


def test_wrong_arguments_are_named():
    compiled = axla.jax.compile(lambda a, b: a, values(2), values(2))
    with pytest.raises(InvalidArgument, match="missing argument 'b'"):
        compiled(values(2))
    with pytest.raises(InvalidArgument, match="wanted a function"):
        axla.jax.to_module(3)


def test_without_jax_the_message_says_what_to_install():
    code = "import sys; sys.modules['jax'] = None\nimport axla\nimport axla.jax"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode and 'pip install "axla[jax]"' in done.stderr
