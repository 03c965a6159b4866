"""Cuts the weights of a network with two layers, and runs the parts on 2 and 4 devices.

    python examples/tensor_parallel.py [--devices 2 4] [--inputs 256] [--hidden 2048] [--rows 256]

Of the first layer every device has some columns, so it has some of the hidden values, whole; of the second
layer it has the rows that belong to them. Its product with these is a summand of the whole result: an
all-reduce over the partitions adds up the summands. That is the only time that devices talk to each other.

    partition p:   hidden[p] = gelu(x @ first[:, p] + bias[p])      some columns, on every device others
                   y = all-reduce(hidden[p] @ second[p, :]) + bias  whole, on all devices the same

The program is written for one partition; `ops.AllReduce` with a channel is one between partitions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

import axla
from axla import XlaBuilder, XlaComputation, XlaOp, ops
from axla.builder.records import ChannelHandle
from axla.core.dtypes import F32
from axla.core.shape import Shape

Weights = Sequence[np.ndarray]  # first, its bias, second, its bias


def gelu(x: XlaOp) -> XlaOp:
    return x * 0.5 * (ops.Erf(x * 0.70710678) + 1.0)


def build_network(rows: int, inputs: int, hidden: int, outputs: int, devices: int) -> XlaComputation:
    """(x, first, bias, second, bias) -> y, for a partition that has hidden / devices of the hidden values."""
    b = XlaBuilder("network")
    own = hidden // devices
    sizes = {
        "x": (rows, inputs),
        "first": (inputs, own),
        "first_bias": (own,),
        "second": (own, outputs),
        "second_bias": (outputs,),
    }
    x, first, first_bias, second, second_bias = (
        ops.Parameter(b, k, Shape(F32, dims), name) for k, (name, dims) in enumerate(sizes.items())
    )
    values = gelu(ops.Add(ops.Dot(x, first), first_bias, [1]))
    summand = ops.Dot(values, second)
    sub = b.sub_builder("add")
    left, right = (ops.Parameter(sub, k, Shape(F32)) for k in range(2))
    add = sub.build(left + right)
    # With a channel and these groups the numbers are partitions: all of the one replica.
    groups = [list(range(devices))]
    y = ops.AllReduce(summand, add, groups, ChannelHandle(1), use_global_device_ids=True)
    return b.build(ops.Add(y, second_bias, [1]))


def parts(weights: Weights, devices: int) -> list[list[np.ndarray]]:
    """The weights of every partition."""
    first, first_bias, second, second_bias = weights
    columns = zip(
        np.split(first, devices, axis=1),
        np.split(first_bias, devices),
        np.split(second, devices),
        strict=True,
    )
    return [[*cut, second_bias] for cut in columns]


def compute(x: np.ndarray, weights: Weights, devices: int, repeats: int = 20) -> tuple[np.ndarray, float]:
    """The result of the network on a number of devices, and the seconds of a run (the median)."""
    first, _, second, _ = weights
    module = build_network(*x.shape, first.shape[1], second.shape[1], devices).module
    program = axla.compile(module, num_partitions=devices)
    rows = [
        [axla.device_put(value, device) for value in (np.ascontiguousarray(a) for a in (x, *own))]
        for device, own in zip(program.devices, parts(weights, devices), strict=True)
    ]
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        results = program.execute_replicated(rows)
        seconds.append(time.perf_counter() - start)
    for (other,) in results[1:]:  # the same bits everywhere
        assert np.asarray(other).tobytes() == np.asarray(results[0][0]).tobytes()
    return np.array(results[0][0]), float(np.median(seconds))


def random_weights(inputs: int, hidden: int, outputs: int, rng: np.random.Generator) -> Weights:
    shapes = (inputs, hidden), (hidden,), (hidden, outputs), (outputs,)
    return [(rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32) for s in shapes]


def main(arguments: Sequence[str] | None = None) -> dict[int, float]:
    """Prints, and gives, how far results on several devices are from those on one."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--devices", type=int, nargs="+", default=[2, 4])
    options.add_argument("--rows", type=int, default=256)
    options.add_argument("--inputs", type=int, default=256)
    options.add_argument("--hidden", type=int, default=2048)
    given = options.parse_args(arguments)
    if any(given.hidden % n for n in given.devices):
        options.error(f"--hidden {given.hidden}: a multiple of every number of devices is wanted")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((given.rows, given.inputs)).astype(np.float32)
    weights = random_weights(given.inputs, given.hidden, given.inputs, rng)
    whole, seconds = compute(x, weights, 1)
    print(f"1 device   {seconds * 1e3:7.2f} ms a run")
    apart = {}
    for devices in given.devices:
        found, seconds = compute(x, weights, devices)
        apart[devices] = float(np.max(np.abs(found - whole)) / np.max(np.abs(whole)))
        print(f"{devices} devices  {seconds * 1e3:7.2f} ms a run, within {apart[devices]:.1e} of one device")
        # Sums of `hidden` numbers in another order: a rounding of f32 for each is far more than there is.
        assert apart[devices] < given.hidden * np.finfo(np.float32).eps
    return apart


if __name__ == "__main__":
    main()
