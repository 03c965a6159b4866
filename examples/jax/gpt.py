"""A transformer like GPT learns to write, letter by letter, from the help texts of Python itself.

python examples/jax/gpt.py        needs optax
"""

import json
import pydoc_data.topics
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, STEPS = 4, 128, 4, 128, 16, 50


def initial(key, letters):
    keys = iter(jax.random.split(key, 3 + 4 * LAYERS))

    def matrix(rows, columns):
        return 0.02 * jax.random.normal(next(keys), (rows, columns))

    def norm():
        return {"scale": jnp.ones(WIDTH), "shift": jnp.zeros(WIDTH)}

    blocks = [
        {
            "norm1": norm(), "qkv": matrix(WIDTH, 3 * WIDTH), "out": matrix(WIDTH, WIDTH),
            "norm2": norm(), "up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ]  # fmt: skip
    embedding, positions, head = matrix(letters, WIDTH), matrix(CONTEXT, WIDTH), matrix(WIDTH, letters)
    return {"embedding": embedding, "positions": positions, "head": head, "blocks": blocks, "norm": norm()}


def normalize(p, x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def attention(p, x):
    batch, length, _ = x.shape
    q, k, v = jnp.split((x @ p["qkv"]).reshape(batch, length, HEADS, -1), 3, axis=-1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ p["out"]


def forward(p, tokens):
    x = p["embedding"][tokens] + p["positions"]
    for block in p["blocks"]:
        x = x + attention(block, normalize(block["norm1"], x))
        x = x + jax.nn.gelu(normalize(block["norm2"], x) @ block["up"]) @ block["down"]
    return normalize(p["norm"], x) @ p["head"]


def loss_of(p, tokens):
    logits = forward(p, tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def main():
    text = "\n".join(pydoc_data.topics.topics.values())
    alphabet = sorted(set(text))
    numbers = {letter: i for i, letter in enumerate(alphabet)}
    data = np.array([numbers[letter] for letter in text], np.int32)
    params = initial(jax.random.key(0), len(alphabet))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, tokens):
        loss, gradients = jax.value_and_grad(loss_of)(params, tokens)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    random = np.random.default_rng(0)
    losses, seconds = [], []
    for i in range(STEPS):
        starts = random.integers(0, len(data) - CONTEXT - 1, BATCH)
        tokens = np.stack([data[s : s + CONTEXT + 1] for s in starts])
        start = time.perf_counter()
        params, state, loss = step(params, state, tokens)
        losses.append(float(loss))
        seconds.append(time.perf_counter() - start)
        if i % 10 == 9:
            print(f"step {i + 1}: loss {loss:.4f}, {sum(seconds):.1f} s")

    line = {"name": "gpt", "results": {"loss": losses}, "rtol": 0.0, "atol": 1e-3}
    print(json.dumps(line | {"first_s": seconds[0], "run_s": (STEPS - 1) * statistics.median(seconds[1:])}))


if __name__ == "__main__":
    main()
