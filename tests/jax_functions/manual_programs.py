"""Programs with manual regions as JAX writes them on 8 devices, run by stock JAX.

`python manual_programs.py FILE` writes, for both forms of shardings, the portable artifact, arguments and
results of each.
"""

from __future__ import annotations

import pickle
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib.mlir.dialects import stablehlo

jax.config.update("jax_num_cpu_devices", 8)
MESH = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
TURNED = Mesh(np.array(jax.devices())[::-1].reshape(2, 4), ("y", "x"))
X = jnp.arange(64.0, dtype=jnp.float32).reshape(8, 8) / 7
region = partial(jax.shard_map, mesh=MESH)
XY, BY_X, BY_Y = P("x", "y"), P("x"), P("y")


def named(spec):
    return NamedSharding(MESH, spec)


def ring(axis, size):
    return lambda x: lax.ppermute(x, axis, [(n, (n + 1) % size) for n in range(size)])


def outside(x):
    y = region(lambda a: lax.psum(a, "x"), in_specs=XY, out_specs=P(None, "y"))(x + 1)
    return y @ x, y.sum()


def cut_in_another_way(x):
    y = region(lambda a: a * lax.axis_index("x"), in_specs=BY_X, out_specs=P("x", None))(x)
    z = lax.with_sharding_constraint(y[:7], named(P(None, "x")))
    return y, z * 2


def nested(x):
    @partial(region, in_specs=BY_X, out_specs=BY_X, axis_names={"x"})
    def outer(a):
        @partial(jax.shard_map, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"})
        def inner(b):
            return b + lax.axis_index("y") * 10 + lax.psum(b, ("x", "y"))

        return inner(a * 2) + a

    return outer(x)


def scan(x):
    def step(c, _):
        c = region(ring("x", 4), in_specs=XY, out_specs=XY)(c)
        return jnp.sin(c), c.sum()

    return lax.scan(step, x, None, length=3)


def while_loop(x):
    total = region(lambda a: lax.psum(a.sum(), ("x", "y")), in_specs=XY, out_specs=P())
    return lax.while_loop(lambda c: total(c) < 1e4, lambda c: c + total(c) / 64, x)


def branches(x):
    rolled = region(ring("y", 2), in_specs=XY, out_specs=XY)
    halves = region(lambda a: lax.psum(a, "y") / 2, in_specs=XY, out_specs=P("x", None))
    y = lax.cond(x.sum() > 0, rolled, jnp.cos, x)
    number = region(lambda: lax.pmax(lax.axis_index("x"), "x"), in_specs=(), out_specs=P())()
    return lax.switch(number - 2, [rolled, lambda a: jnp.tile(halves(a), (1, 2)), jnp.sin], y)


def loop_in_region(x):
    def body(a):
        return lax.fori_loop(0, 4, lambda n, c: ring("x", 4)(c) * 0.5 + lax.axis_index("y") + n, a)

    return region(body, in_specs=XY, out_specs=XY)(x)


def partly_automatic(x):
    @partial(region, in_specs=(BY_X, P()), out_specs=(BY_X, P()), axis_names={"x"})
    def f(a, b):
        c = lax.with_sharding_constraint(a @ b, P(None, "y"))
        return c + lax.axis_index("x"), lax.psum(c.sum(), "x")

    return f(lax.with_sharding_constraint(x, named(BY_Y)), x.T)


def gradient(x):
    @jax.custom_vjp
    def scaled(a):
        return a * 3

    scaled.defvjp(lambda a: (scaled(a), a), lambda a, g: (g * 3 + a,))
    f = region(lambda a: lax.pmean(scaled(a) ** 2, "x"), in_specs=XY, out_specs=P(None, "y"))
    return jax.value_and_grad(lambda a: jax.checkpoint(f)(a).sum())(x)


def batched(x):
    f = region(lambda a: lax.all_gather(a, "x", tiled=True), in_specs=BY_X, out_specs=P(), check_vma=False)
    return jax.vmap(f, in_axes=1)(x)


def exchanges(x):
    def body(a):
        b = lax.all_to_all(a, "x", split_axis=1, concat_axis=0, tiled=True)
        return b, lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True), lax.all_gather(a, ("x", "y"))

    return region(body, in_specs=BY_X, out_specs=(P(None, "x"), P("x", None), P("x")), check_vma=False)(x)


def numbers():
    return region(
        lambda: (lax.axis_index("x") * 10 + lax.axis_index("y"))[None], in_specs=(), out_specs=P(("x", "y"))
    )()


def functions(x):
    @jax.jit
    def f(a):
        return region(lambda b: b * lax.psum(b, "y"), in_specs=XY, out_specs=XY)(a)

    return f(f(x)), f(x.T)


def turned(x):
    f = jax.shard_map(
        lambda a: a + lax.axis_index("x"), mesh=TURNED, in_specs=P("y", "x"), out_specs=P("x", "y")
    )
    return f(x), f(x).T


def two_meshes(x):
    flat = jax.make_mesh((8,), ("z",), axis_types=(AxisType.Auto,))
    y = jax.shard_map(lambda a: a + lax.axis_index("z"), mesh=flat, in_specs=P("z"), out_specs=P(None, "z"))(
        x.reshape(64, 1)
    )
    return region(lambda a: a - lax.axis_index("x"), in_specs=BY_Y, out_specs=P(("x", "y")))(y.reshape(8, 8))


def random(x):
    def body(key, a):
        key = jax.random.fold_in(key, lax.axis_index("x"))
        return a + jax.random.normal(key, a.shape)

    return region(body, in_specs=(P(), BY_X), out_specs=BY_X)(jax.random.key(7), x)


def unmade_sums(x):
    summed, cut = (
        NamedSharding(EXPLICIT, P(*spec, unreduced=axes)) for spec, axes in (((), {"x"}), (("y",), set()))
    )
    y = jnp.einsum("ij,kj->ik", x, x, out_sharding=summed)
    f = jax.shard_map(lambda a: lax.psum(a, "y") * 2, mesh=EXPLICIT, in_specs=P("y"), out_specs=P())
    return f(jax.sharding.reshard(y, cut))


def mapped(x):
    return jax.pmap(lambda a, b: (lax.psum(a * b, "i"), lax.axis_index("i")), "i", in_axes=(0, None))(x, x[0])


def pairs(x):
    f = jax.pmap(
        lambda a: lax.psum(a, "i", axis_index_groups=[[0, 3, 5, 6], [1, 2, 4, 7]]), "i", in_axes=1, out_axes=1
    )
    return f(x)


CASES = [
    *((f, (X,), {}) for f in (
        outside, nested, scan, while_loop, branches, loop_in_region, partly_automatic, gradient, batched,
        exchanges, functions, turned, two_meshes, random, mapped, pairs,
    )),
    (numbers, (), {}),
    (cut_in_another_way, (X,), {"out_shardings": (named(P("y", "x")), None)}),
    (cut_in_another_way, (jax.device_put(X, named(XY)),), {"out_shardings": named(P())}),
    (partly_automatic, (jax.device_put(X, named(BY_Y)),), {}),
    (turned, (jax.device_put(X, NamedSharding(TURNED, P(("y", "x")))),), {}),
    (unmade_sums, (jax.device_put(X, NamedSharding(EXPLICIT, P(None, "x"))),), {}),
]  # fmt: skip


def main(path: str) -> None:
    found = {}
    for shardy in (True, False):
        jax.config.update("jax_use_shardy_partitioner", shardy)
        for number, (function, arguments, options) in enumerate(CASES):
            if function is unmade_sums and not shardy:
                continue
            jitted = jax.jit(function, **options)
            results = [np.asarray(a) for a in jax.tree.leaves(jitted(*arguments))]
            module = jitted.lower(*arguments).compiler_ir("stablehlo")  # which writing it spoils
            data = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True)
            name = f"{function.__name__}-{number}-{'shardy' if shardy else 'gspmd'}"
            found[name] = (data, [np.asarray(a) for a in arguments], results)
    with open(path, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1])
