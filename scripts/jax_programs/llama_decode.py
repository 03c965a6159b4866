"""A decoder shaped like Llama, with random weights: first a whole prompt, then token by token with a KV
cache.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from report import Timer, finish

LAYERS, WIDTH, HEADS, GROUPS, HIDDEN, WORDS = 8, 512, 8, 4, 1408, 4096
PROMPT, TOKENS, CONTEXT = 32, 64, 128
SIZE = WIDTH // HEADS


def weights():
    random = np.random.default_rng(0)

    def matrix(rows, columns):
        return jnp.asarray(random.standard_normal((rows, columns), np.float32) / np.sqrt(rows))

    def layer():
        return {
            "norm1": jnp.ones(WIDTH), "q": matrix(WIDTH, WIDTH), "k": matrix(WIDTH, GROUPS * SIZE),
            "v": matrix(WIDTH, GROUPS * SIZE), "o": matrix(WIDTH, WIDTH), "norm2": jnp.ones(WIDTH),
            "gate": matrix(WIDTH, HIDDEN), "up": matrix(WIDTH, HIDDEN), "down": matrix(HIDDEN, WIDTH),
        }  # fmt: skip

    layers = [layer() for _ in range(LAYERS)]
    return {"words": matrix(WORDS, WIDTH) * 8, "layers": layers, "norm": jnp.ones(WIDTH)}


def normalize(x, scale):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def turn(x, places):
    """Rotary embedding: rotates pairs of channels by an angle that depends on the position of the token."""
    angles = places[:, None] * 10000.0 ** (-jnp.arange(0, SIZE, 2) / SIZE)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


@functools.partial(jax.jit, donate_argnums=1)
def forward(params, cache, tokens, start):
    """Returns the token after `tokens`, the first of which is at position `start`, and the cache with their
    keys and values.
    """
    places = start + jnp.arange(tokens.shape[0])
    seen = jnp.arange(CONTEXT)[None] <= places[:, None]
    x, new = params["words"][tokens], []
    for p, (keys, values) in zip(params["layers"], cache, strict=True):
        y = normalize(x, p["norm1"])
        q = turn((y @ p["q"]).reshape(-1, HEADS, SIZE), places).reshape(-1, GROUPS, HEADS // GROUPS, SIZE)
        k = turn((y @ p["k"]).reshape(-1, GROUPS, SIZE), places)
        keys = jax.lax.dynamic_update_slice(keys, k, (start, 0, 0))
        values = jax.lax.dynamic_update_slice(values, (y @ p["v"]).reshape(k.shape), (start, 0, 0))
        scores = jnp.einsum("qghd,kgd->ghqk", q, keys) / np.sqrt(SIZE)
        scores = jax.nn.softmax(jnp.where(seen, scores, -1e9))
        x = x + jnp.einsum("ghqk,kgd->qghd", scores, values).reshape(x.shape) @ p["o"]
        y = normalize(x, p["norm2"])
        x = x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
        new.append((keys, values))
    logits = normalize(x[-1], params["norm"]) @ params["words"].T
    return jnp.argmax(logits).astype(jnp.int32), logits, new


def write(params, prompt):
    cache = [tuple(jnp.zeros((CONTEXT, GROUPS, SIZE)) for _ in "kv") for _ in range(LAYERS)]
    token, logits, cache = forward(params, cache, prompt, 0)
    written, place = [token], len(prompt)
    for place in range(len(prompt), len(prompt) + TOKENS - 1):
        token, logits, cache = forward(params, cache, token[None], place)
        written.append(token)
    return written, logits


timer = Timer()
prompt = jnp.asarray(np.random.default_rng(1).integers(0, WORDS, PROMPT), jnp.int32)
written, logits = timer(write, weights(), prompt, repeats=3)
finish("llama_decode", timer, {"written": np.array(written), "logits": logits[::64]}, rtol=1e-3, atol=1e-2)
