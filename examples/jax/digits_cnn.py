"""A convolutional network of Flax learns scikit-learn's digits, with Adam of Optax.

python examples/jax/digits_cnn.py        needs flax, optax and scikit-learn
"""

import json
import statistics
import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

EPOCHS, BATCH, TRAIN = 30, 32, 1472


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Conv(64, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = nn.relu(nn.Dense(128)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(x)


def main():
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order, :, :, None] / 16).astype(np.float32)
    labels = digits.target[order].astype(np.int32)

    network = Network()
    params = network.init(jax.random.key(0), images[:1])
    optimizer = optax.adam(1e-3)
    state = optimizer.init(params)

    def loss_of(params, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(network.apply(params, x), y).mean()

    @jax.jit
    def step(params, state, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, loss

    @jax.jit
    def accuracy_of(params, x, y):
        return (network.apply(params, x).argmax(-1) == y).mean()

    seconds, losses = [], []
    for epoch in range(EPOCHS):
        start = time.perf_counter()
        total = jnp.zeros(())
        for i in range(0, TRAIN, BATCH):
            params, state, loss = step(params, state, images[i : i + BATCH], labels[i : i + BATCH])
            total += loss
        losses.append(float(total) / (TRAIN // BATCH))
        accuracy = float(accuracy_of(params, images[TRAIN:], labels[TRAIN:]))
        seconds.append(time.perf_counter() - start)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: loss {losses[-1]:.4f}, accuracy {accuracy:.3f}, {sum(seconds):.2f} s")

    results = {"loss": losses, "accuracy": [accuracy]}
    line = {"name": "digits_cnn", "results": results, "rtol": 1e-2, "atol": 5e-3}
    print(json.dumps(line | {"first_s": seconds[0], "run_s": (EPOCHS - 1) * statistics.median(seconds[1:])}))


if __name__ == "__main__":
    main()
