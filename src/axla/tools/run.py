"""axla run: runs a program and prints its results.

Parameters are taken from .npy files, one --input per array in the order of the parameters (tuples taken
apart, those of --constant left out); without --input they are random, and what the entry reads from its
infeed always is. A text whose constants are left out, {...}, runs with --fill-elided only. With --reference
the program runs there too, and the first output that differs is an error.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from typing import Any

import numpy as np

from axla.api import compile
from axla.comparison import compare, parameter_leaves, random_inputs, run_flat
from axla.core.errors import InvalidArgument
from axla.core.profile import profile
from axla.core.shape import Shape, show
from axla.distributed import initialize
from axla.distributed.launch import LAUNCHER, launch
from axla.ir.graph import Module
from axla.tools.source import add_backend, add_constants, add_file, add_replicas, feed, read_module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument(
        "--input", metavar="X.npy", action="append", default=[], help="an array; once per parameter"
    )
    inputs.add_argument("--random", metavar="SEED", type=int, default=0, help="seed of the random inputs (0)")
    add_constants(parser)
    add_backend(parser, "--backend", "cpu", "cpu (default), one-lane or interpreter")
    add_backend(parser, "--reference", None, "compare with what this backend gives")
    add_replicas(parser)
    parser.add_argument(
        "--fill-elided", action="store_true",
        help="give constants {...} the numbers that XLA's parser makes up",
    )  # fmt: skip
    parser.add_argument(
        "--profile", action="store_true", help="print the time, bytes and operations of each step"
    )
    parser.add_argument("--deadline", metavar="SECONDS", type=float, help="stop the run after this time")
    parser.add_argument(
        "--processes", metavar="N", type=int, default=0, help="run on devices of so many processes, over MPI"
    )


def execute(options: argparse.Namespace) -> int:
    module = read_module(options)
    if options.processes and LAUNCHER not in os.environ:
        return launch(options.processes, ["-m", "axla", *options.given])
    inputs = load_inputs(module, options.input) if options.input else random_inputs(module, options.random)
    with profile() if options.profile else nullcontext() as taken:
        rows = _rows(module, inputs, options)
    texts = [
        f"{where}output {number}: {array.dtype}{list(array.shape)}\n"
        + f"{np.array2string(array, threshold=100, separator=', ')}\n"
        for where, found in rows.items()
        for number, array in enumerate(found)
    ]
    print("".join(texts), end="")  # at once: other processes print too
    if taken is not None:
        print(taken)
    if options.reference is not None:
        found = rows.get("", [])
        wanted = run_flat(module, inputs, options.reference, options.deadline, options.replicas, feed)
        report = compare(module, found, wanted, options.backend, options.reference)
        report.raise_if_different()
        print(report)
    return 0


def _rows(module: Module, inputs: list[Any], options: argparse.Namespace) -> dict[str, list[np.ndarray]]:
    """The results, or in one of several processes those of its devices, which all have the same inputs."""
    if not options.processes:
        return {"": run_flat(module, inputs, options.backend, options.deadline, options.replicas, feed)}
    count = module.config.replica_count * module.config.num_partitions
    if count % options.processes:
        raise InvalidArgument(f"--processes={options.processes}: wanted a divisor of {count} participants")
    job = initialize(count // options.processes)
    program = compile(module, backend=options.backend)
    found = program.execute_replicated([inputs] * job.local, deadline=options.deadline)
    return {f"device {n}, ": [*map(np.asarray, row)] for n, row in enumerate(found, job.index * job.local)}


def load_inputs(module: Module, paths: list[str]) -> list[np.ndarray]:
    """The arrays of the files, checked against the parameters."""
    leaves = parameter_leaves(module)
    if len(paths) != len(leaves):
        listed = ", ".join(f"{name} {show(shape)}" for name, shape in leaves) or "none"
        raise InvalidArgument(f"{len(paths)} --input, wanted {len(leaves)}: {listed}")
    return [load_input(path, shape, name) for path, (name, shape) in zip(paths, leaves, strict=True)]


def load_input(path: str, shape: Shape, name: str) -> np.ndarray:
    """The array of an .npy file, as the parameter leaf `name` wants it.

    Types that NumPy itself does not have (bf16, f8...) come as raw items of the same size.
    """
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidArgument(f"--input {path}: not an .npy file that can be read: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InvalidArgument(f"--input {path}: wanted one array (.npy), found an archive")
    wanted = shape.dtype.numpy
    if array.dtype != wanted and array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        array = array.view(wanted)
    if array.dtype != wanted or not shape.admits(array.shape):
        raise InvalidArgument(
            f"--input {path}: found {array.dtype}{list(array.shape)}, parameter {name} wants {show(shape)}"
        )
    return array
