"""Trains softmax regression and a small neural network on handwritten digits, with programs made by the
builder.

    python examples/digits.py [--epochs 30] [--backend cpu] [--out digits-out]

The 1,797 digits of 8 x 8 pixels come with scikit-learn. One call of the compiled program is one epoch: a
while loop over mini-batches, in the order that an argument gives. The gradients are written out by hand
below. Parameters and momentum stay on the device: each call takes over the arrays of the last one.

Needs: pip install axla[examples]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import axla
from axla import XlaBuilder, XlaComputation, XlaOp, ops
from axla.builder.records import GatherDimensionNumbers
from axla.core.dtypes import F32, S32, DType
from axla.core.shape import Shape, TupleShape

PIXELS, CLASSES, BATCH = 64, 10, 50
MOMENTUM = 0.9
Layers = Sequence[int]  # sizes from input to output: (64, 10) is softmax regression


# The model.


def parameter_shapes(layers: Layers) -> list[Shape]:
    """Weights and bias of each layer."""
    shapes = []
    for inputs, outputs in zip(layers, layers[1:], strict=False):
        shapes += [Shape(F32, (inputs, outputs)), Shape(F32, (outputs,))]
    return shapes


def initial_parameters(layers: Layers, rng: np.random.Generator) -> list[np.ndarray]:
    """Weights drawn so that every layer keeps the variance of its input; biases zero."""
    return [
        rng.normal(0, np.sqrt(2 / s.dims[0]), s.dims).astype(np.float32)
        if s.rank == 2
        else np.zeros(s.dims, np.float32)
        for s in parameter_shapes(layers)
    ]


def forward(x: XlaOp, parameters: Sequence[XlaOp]) -> tuple[XlaOp, list[XlaOp]]:
    """Logits, and the input of each layer."""
    inputs = []
    for weights, bias in zip(parameters[::2], parameters[1::2], strict=True):
        if inputs:
            x = ops.Max(x, 0.0)
        inputs.append(x)
        x = ops.Add(ops.Dot(x, weights), bias, [1])
    return x, inputs


def reduction(b: XlaBuilder, function: Any, dtype: DType = F32) -> XlaComputation:
    """(x, y) -> function(x, y) on scalars."""
    sub = b.sub_builder("reduction")
    return sub.build(
        function(ops.Parameter(sub, 0, Shape(dtype), "x"), ops.Parameter(sub, 1, Shape(dtype), "y"))
    )


def log_softmax(b: XlaBuilder, logits: XlaOp) -> XlaOp:
    largest = ops.Reduce(logits, -np.inf, reduction(b, ops.Max), [1])
    shifted = ops.Sub(logits, largest, [0])
    total = ops.Reduce(ops.Exp(shifted), 0.0, reduction(b, ops.Add), [1])
    return ops.Sub(shifted, ops.Log(total), [0])


def loss_and_gradients(
    b: XlaBuilder, x: XlaOp, targets: XlaOp, parameters: Sequence[XlaOp]
) -> tuple[XlaOp, list[XlaOp]]:
    """The mean cross entropy of a batch, and its derivative by each parameter."""
    batch = x.dims[0]
    add = reduction(b, ops.Add)
    logits, inputs = forward(x, parameters)
    log_p = log_softmax(b, logits)
    loss = ops.Neg(ops.ReduceAll(targets * log_p, 0.0, add)) / float(batch)
    gradients: list[XlaOp] = []
    slope = (ops.Exp(log_p) - targets) / float(batch)  # d loss / d logits
    for layer in reversed(range(len(inputs))):
        value, weights = inputs[layer], parameters[2 * layer]
        gradients[:0] = [
            ops.DotGeneral(value, slope, (([0], [0]), ([], []))),  # value^T slope
            ops.Reduce(slope, 0.0, add, [0]),
        ]
        if layer:
            back = ops.DotGeneral(slope, weights, (([1], [1]), ([], [])))  # slope weights^T
            slope = ops.Select(value > 0.0, back, 0.0)
    return loss, gradients


# The programs.


def rows(table: XlaOp, index: XlaOp) -> XlaOp:
    """table[index]"""
    numbers = GatherDimensionNumbers(
        offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1
    )
    return ops.Gather(table, index, numbers, [1, table.dims[1]])


def build_epoch(layers: Layers, count: int) -> XlaComputation:
    """(images, targets, order, rate, parameters..., momenta...) -> (parameters..., momenta..., mean loss)."""
    b = XlaBuilder("epoch")
    shapes = parameter_shapes(layers)
    images = ops.Parameter(b, 0, Shape(F32, (count, layers[0])), "images")
    targets = ops.Parameter(b, 1, Shape(F32, (count, layers[-1])), "targets")
    order = ops.Parameter(b, 2, Shape(S32, (count,)), "order")
    rate = ops.Parameter(b, 3, Shape(F32), "rate")
    weights = [ops.Parameter(b, 4 + k, s, f"w{k}") for k, s in enumerate(shapes + shapes)]

    # The loop's state: number of the batch, sum of losses, parameters and momenta, and what does not change.
    init = [
        ops.Constant(b, np.int32(0)),
        ops.Constant(b, np.float32(0)),
        *weights,
        images,
        targets,
        order,
        rate,
    ]
    state = TupleShape([op.shape for op in init])
    batches = count // BATCH

    condition = b.sub_builder("condition")
    more = condition.build(ops.Parameter(condition, 0, state, "state")[0] < batches)

    body = b.sub_builder("body")
    number, total, *values = ops.Parameter(body, 0, state, "state")
    *values, all_images, all_targets, all_order, step = values
    parameters, momenta = values[: len(shapes)], values[len(shapes) :]
    index = ops.Reshape(ops.DynamicSlice(all_order, [number * BATCH], [BATCH]), [BATCH, 1])
    loss, gradients = loss_and_gradients(body, rows(all_images, index), rows(all_targets, index), parameters)
    momenta = [m * MOMENTUM + g for m, g in zip(momenta, gradients, strict=True)]
    parameters = [p - step * m for p, m in zip(parameters, momenta, strict=True)]
    new = [number + 1, total + loss, *parameters, *momenta, all_images, all_targets, all_order, step]
    step_batch = body.build(ops.Tuple(body, new))

    final = list(ops.While(more, step_batch, ops.Tuple(b, init)))
    results = [*final[2 : 2 + len(weights)], final[1] / float(batches)]
    for k in range(len(weights)):  # the new parameters may take the memory of the old ones
        b.setup_alias([k], 4 + k, [])
    return b.build(ops.Tuple(b, results))


def build_predict(layers: Layers, count: int) -> XlaComputation:
    """(images, parameters...) -> the most likely digit of each image."""
    b = XlaBuilder("predict")
    images = ops.Parameter(b, 0, Shape(F32, (count, layers[0])), "images")
    parameters = [ops.Parameter(b, 1 + k, s, f"w{k}") for k, s in enumerate(parameter_shapes(layers))]
    logits, _ = forward(images, parameters)
    # The smallest digit whose logit is the largest of its row.
    best = ops.Reduce(logits, -np.inf, reduction(b, ops.Max), [1])
    digits = ops.Iota(b, Shape(S32, logits.dims), 1)
    candidates = ops.Select(ops.Eq(logits, best, [0]), digits, CLASSES)
    return b.build(ops.Reduce(candidates, CLASSES, reduction(b, ops.Min, S32), [1]))


# Training.


@dataclass
class Data:
    """Images as rows of pixels from 0 to 1, and their digits."""

    train_images: np.ndarray
    train_digits: np.ndarray
    test_images: np.ndarray
    test_digits: np.ndarray


@dataclass
class Trained:
    """The result of training: parameters, the mean loss of every epoch, and the accuracy on both sets after
    each.
    """

    parameters: list[Any]
    losses: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)


def load(seed: int = 0, test_size: int = 297) -> Data:
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images, labels = (digits.data[order] / 16).astype(np.float32), digits.target[order].astype(np.int32)
    return Data(images[test_size:], labels[test_size:], images[:test_size], labels[:test_size])


def train(
    name: str, layers: Layers, data: Data, epochs: int, rate: float, backend: str, seed: int = 0
) -> Trained:
    rng = np.random.default_rng(seed)
    put = axla.backends.get(backend).client.device_put
    count = len(data.train_digits)
    start = time.perf_counter()
    epoch = axla.compile(build_epoch(layers, count).module, backend=backend)
    predict = [
        axla.compile(build_predict(layers, n).module, backend=backend) for n in (count, len(data.test_digits))
    ]
    print(f"{name}: compiled for {backend} in {time.perf_counter() - start:.2f} s")

    images, targets = put(data.train_images), put(np.eye(CLASSES, dtype=np.float32)[data.train_digits])
    test_images = put(data.test_images)
    weights = [put(p) for p in initial_parameters(layers, rng)]
    state = [*weights, *[put(np.zeros(s.dims, np.float32)) for s in parameter_shapes(layers)]]
    trained = Trained([])
    for number in range(1, epochs + 1):
        order = rng.permutation(count).astype(np.int32)
        start = time.perf_counter()
        *state, loss = epoch.execute([images, targets, order, np.float32(rate), *state])
        seconds = time.perf_counter() - start
        trained.parameters = state[: len(weights)]
        trained.losses.append(float(np.asarray(loss)))
        for program, x, digits, accuracy in (
            (predict[0], images, data.train_digits, trained.train_accuracy),
            (predict[1], test_images, data.test_digits, trained.test_accuracy),
        ):
            [found] = program.execute([x, *trained.parameters])
            accuracy.append(float(np.mean(np.asarray(found) == digits)))
        print(
            f"{name}: epoch {number:3}/{epochs}  loss {trained.losses[-1]:.4f}  "
            f"train {trained.train_accuracy[-1]:6.1%}  test {trained.test_accuracy[-1]:6.1%}  "
            f"{seconds * 1e3:7.1f} ms",
            flush=True,
        )
    return trained


def predictions(layers: Layers, trained: Trained, images: np.ndarray, backend: str) -> np.ndarray:
    program = axla.compile(build_predict(layers, len(images)).module, backend=backend)
    return np.asarray(program.execute([images, *trained.parameters])[0])


# The picture.


def picture(path: Path, data: Data, guesses: np.ndarray, models: dict[str, Trained]) -> None:
    """Digits of the test set with what the network says (mistakes first, in red), and the course of
    training.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wrong = np.flatnonzero(guesses != data.test_digits)
    right = np.flatnonzero(guesses == data.test_digits)
    shown = np.concatenate([wrong, right])[:40]
    figure = plt.figure(figsize=(13, 6.2), layout="constrained")
    left, middle = figure.subfigures(1, 2, width_ratios=[1.15, 1])
    left.suptitle(f"test digits, what the network says (red: wrong, {len(wrong)} of {len(guesses)})")
    for axes, k in zip(left.subplots(5, 8).ravel(), shown, strict=False):
        axes.imshow(data.test_images[k].reshape(8, 8), cmap="gray_r", interpolation="nearest")
        color = "tab:green" if guesses[k] == data.test_digits[k] else "tab:red"
        axes.set_title(str(guesses[k]), color=color, fontsize=13, pad=2)
        axes.set_axis_off()
    loss_axes, accuracy_axes = middle.subplots(2, 1, sharex=True)
    for name, trained in models.items():
        epochs = range(1, len(trained.losses) + 1)
        loss_axes.plot(epochs, trained.losses, label=name)
        accuracy_axes.plot(epochs, trained.test_accuracy, label=f"{name}: {trained.test_accuracy[-1]:.1%}")
    loss_axes.set_yscale("log")
    loss_axes.set_ylabel("mean loss of the epoch")
    accuracy_axes.set_ylabel("test accuracy")
    accuracy_axes.set_xlabel("epoch")
    accuracy_axes.set_ylim(0.8, 1)
    for axes in (loss_axes, accuracy_axes):
        axes.legend()
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> dict[str, Trained]:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--epochs", type=int, default=30)
    options.add_argument("--backend", default="cpu", help="a name that `axla backends` lists")
    options.add_argument("--no-picture", action="store_true", help="train only")
    options.add_argument("--out", type=Path, default=Path("digits-out"), help="folder of the picture")
    given = options.parse_args(arguments)
    data = load()
    models = {"softmax": ((PIXELS, CLASSES), 0.1), "network": ((PIXELS, 64, CLASSES), 0.05)}
    trained = {
        name: train(name, layers, data, given.epochs, rate, given.backend)
        for name, (layers, rate) in models.items()
    }
    guesses = predictions(models["network"][0], trained["network"], data.test_images, given.backend)
    path = given.out / "digits.png"
    if not given.no_picture:
        picture(path, data, guesses, trained)
    for name, result in trained.items():
        print(f"{name}: test accuracy {result.test_accuracy[-1]:.1%}")
    if not given.no_picture:
        print(f"picture: {path}")
    return trained


if __name__ == "__main__":
    main()
