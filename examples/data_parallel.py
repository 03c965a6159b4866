"""Trains a small network on handwritten digits, on 1, 2 and 4 devices of this process.

    python examples/data_parallel.py [--epochs 40] [--batch 500] [--devices 1 2 4] [--out digits-out]
    python -m axla.distributed -n 2 examples/data_parallel.py --processes

Every device has all parameters, and an equal part of each batch, which comes by its infeed. An all-reduce
adds up the gradients of all devices, so that all of them make the same step: the losses are those of one
device, but for the order in which f32 sums are rounded. One call of the compiled program is ten epochs. With
`--processes` the devices are those of several processes, which run this script beside each other over MPI
(pip install axla[mpi]).

On one machine more devices are no faster than one, whose parallel loops have all cores; two devices are about
as fast, and 0.6 times the time of one device with one thread (AXLA_NUM_THREADS=1).

The network is that of digits.py. Needs: pip install axla[examples]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from digits import (
    CLASSES,
    MOMENTUM,
    PIXELS,
    Data,
    Layers,
    build_predict,
    initial_parameters,
    load,
    loss_and_gradients,
    parameter_shapes,
    reduction,
)

import axla
from axla import XlaBuilder, XlaComputation, ops
from axla.core.dtypes import F32
from axla.core.shape import Shape, TupleShape

RATE = 0.05
EPOCHS = 10
"""Of a call."""
CLOSE = 1e-3
"""How far a loss may be from that on one device, relatively: roundings that training has made larger."""


# The program.


def build_steps(layers: Layers, batch: int, steps: int, devices: int) -> XlaComputation:
    """(parameters..., momenta...) -> (parameters..., momenta..., loss of every step), the same on each of the
    devices, which reads `steps` times batch / devices images with their targets from its infeed.
    """
    b = XlaBuilder("steps")
    shapes = parameter_shapes(layers)
    given = [ops.Parameter(b, k, s, f"w{k}") for k, s in enumerate(shapes + shapes)]
    init = [ops.Constant(b, np.int32(0)), ops.Constant(b, np.zeros(steps, np.float32)), *given]
    state = TupleShape([op.shape for op in init])

    condition = b.sub_builder("condition")
    more = condition.build(ops.Parameter(condition, 0, state, "state")[0] < steps)

    body = b.sub_builder("body")
    number, losses, *values = ops.Parameter(body, 0, state, "state")
    parameters, momenta = values[: len(shapes)], values[len(shapes) :]
    part = batch // devices
    images, targets = ops.Infeed(
        body, TupleShape([Shape(F32, (part, layers[0])), Shape(F32, (part, layers[-1]))])
    )
    loss, gradients = loss_and_gradients(body, images, targets, parameters)
    sums = ops.AllReduce(ops.Tuple(body, [loss, *gradients]), reduction(body, ops.Add))
    loss, *gradients = [value / float(devices) for value in sums]
    momenta = [m * MOMENTUM + g for m, g in zip(momenta, gradients, strict=True)]
    parameters = [p - m * RATE for p, m in zip(parameters, momenta, strict=True)]
    losses = ops.DynamicUpdateSlice(losses, ops.Reshape(loss, [1]), [number])
    step = body.build(ops.Tuple(body, [number + 1, losses, *parameters, *momenta]))

    _, losses, *values = ops.While(more, step, ops.Tuple(b, init))
    for k in range(len(values)):  # the new parameters take the memory of the old ones
        b.setup_alias([k], k, [])
    return b.build(ops.Tuple(b, [*values, losses]))


# Training.


@dataclass
class Trained:
    """The parameters, the loss of every step, and the seconds of a step, the median of all calls."""

    parameters: list[np.ndarray]
    losses: np.ndarray
    seconds: float


class Training:
    """The network on a number of devices, with the same parameters on all."""

    def __init__(self, layers: Layers, data: Data, batch: int, devices: int, seed: int = 0) -> None:
        self.data, self.batch, self.devices = data, batch, devices
        self.steps = EPOCHS * (len(data.train_digits) // batch)
        self.rng = np.random.default_rng(seed)
        module = build_steps(layers, batch, self.steps, devices).module
        self.program = axla.compile(module, num_replicas=devices)
        # The devices of this process with their numbers in the program: all, or with MPI some.
        self.mine = [(n, self.program.devices[n]) for n in self.program.local_participants]
        start = initial_parameters(layers, self.rng)
        start += [np.zeros_like(p) for p in start]
        self.state = [[axla.device_put(p, device) for p in start] for _, device in self.mine]

    def feed(self) -> None:
        """Puts the batches of a call into the infeeds, each device's part of them. The order is the same for
        every number of devices.
        """
        count, targets = len(self.data.train_digits), np.eye(CLASSES, dtype=np.float32)
        used = count - count % self.batch
        orders = [self.rng.permutation(count)[:used] for _ in range(EPOCHS)]
        for batch in np.reshape(orders, (self.steps, self.devices, -1)):
            for number, device in self.mine:
                images, digits = self.data.train_images[batch[number]], self.data.train_digits[batch[number]]
                axla.feeds(device.id).infeed.put((images, targets[digits]))

    def run(self) -> np.ndarray:
        """All steps of a call, on the batches that were fed: their losses."""
        results = self.program.execute_replicated(self.state)
        self.state = [row[:-1] for row in results]
        return np.array(results[0][-1])


def train(layers: Layers, data: Data, epochs: int, batch: int, devices: int) -> Trained:
    training = Training(layers, data, batch, devices)
    losses, seconds = [], []
    for _ in range(epochs // EPOCHS):
        training.feed()
        start = time.perf_counter()
        losses.append(training.run())
        seconds.append((time.perf_counter() - start) / training.steps)
    parameters = [np.array(p) for p in training.state[0][: len(parameter_shapes(layers))]]
    return Trained(parameters, np.concatenate(losses), float(np.median(seconds)))


def train_over_processes(layers: Layers, data: Data, epochs: int, batch: int) -> dict[str, Trained]:
    """Trains on the devices of all processes; the first one gets the result."""
    import axla.distributed

    job = axla.distributed.initialize()
    found = train(layers, data, epochs, batch, job.count)
    return {f"{job.count} processes": found} if job.index == 0 else {}


# What came of it.


def accuracy(layers: Layers, trained: Trained, data: Data) -> float:
    """The part of the test images that the network knows."""
    program = axla.compile(build_predict(layers, len(data.test_digits)).module)
    [found] = program.execute([data.test_images, *trained.parameters])
    return float(np.mean(np.asarray(found) == data.test_digits))


def report(runs: dict[str, Trained], layers: Layers, data: Data) -> None:
    """Prints what each run has found; AssertionError where its losses are not those of the first."""
    first = next(iter(runs.values()))
    for name, run in runs.items():
        apart = float(np.max(np.abs(run.losses / first.losses - 1)))
        print(
            f"{name:12}  loss {run.losses[0]:.3f} -> {run.losses[-1]:.5f}  "
            f"test accuracy {accuracy(layers, run, data):.1%}  {run.seconds * 1e3:6.2f} ms a step  "
            f"losses within {apart:.1e} of {next(iter(runs))}"
        )
        assert apart < CLOSE, f"{name}: losses are {apart:.1e} from those of {next(iter(runs))}"


def picture(path: Path, runs: dict[str, Trained]) -> None:
    """The course of training, and the times of a step."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (losses, times) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for width, (name, run) in zip(range(2 * len(runs), 0, -2), runs.items(), strict=True):
        losses.plot(run.losses, label=name, linewidth=width, alpha=0.7)
    losses.set(yscale="log", xlabel="step", ylabel="loss")
    losses.legend()
    bars = times.bar(list(runs), [run.seconds * 1e3 for run in runs.values()], color="tab:blue")
    times.bar_label(bars, fmt="%.2f")
    times.set(ylabel="milliseconds a step")
    for axes in (losses, times):
        axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> dict[str, Trained]:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--epochs", type=int, default=40, help="a multiple of 10")
    options.add_argument("--batch", type=int, default=500, help="images of a step, on all devices together")
    options.add_argument("--hidden", type=int, nargs="+", default=[1024], help="values between the layers")
    options.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4])
    options.add_argument("--processes", action="store_true", help="one device in each process of the job")
    options.add_argument("--no-picture", action="store_true", help="train only")
    options.add_argument("--out", type=Path, default=Path("digits-out"), help="folder of the picture")
    given = options.parse_args(arguments)
    if given.epochs < EPOCHS or given.epochs % EPOCHS:
        options.error(f"--epochs {given.epochs}: a multiple of {EPOCHS} is wanted")
    if not given.processes and any(given.batch % n for n in given.devices):
        options.error(f"--batch {given.batch}: a multiple of every number of devices is wanted")
    data, layers = load(), (PIXELS, *given.hidden, CLASSES)
    training = layers, data, given.epochs, given.batch
    over = train_over_processes(*training) if given.processes else {}
    if given.processes and not over:
        return {}  # the first process shows the results
    counts = [1] if given.processes else given.devices
    runs = {f"{n} device{'s'[: n - 1]}": train(*training, n) for n in counts} | over
    report(runs, layers, data)
    if not given.no_picture:
        picture(given.out / "data_parallel.png", runs)
        print(f"picture: {given.out / 'data_parallel.png'}")
    return runs


if __name__ == "__main__":
    main()
