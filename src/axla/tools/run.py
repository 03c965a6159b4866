"""axla run: runs a program and prints its results.

Parameters are read from .npy files, with one --input per array in the order of the parameters (tuples are
taken apart, those of --constant left out), or from an .npz file, by their names or numbers. Without files
they are random; the data in the infeed is always random. A text with elided constants, {...}, runs only with
--fill-elided. With --reference the program runs on that backend, too, and the first output that differs is an
error; --compare-every-instruction follows the error to the first value inside the program that differs. A
program for several replicas runs on as many devices, each with random inputs of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import nullcontext
from typing import Any

import numpy as np

from axla.api import compile
from axla.comparison import compare, parameter_leaves, random_inputs, run_flat
from axla.core.errors import InvalidArgument, Mismatch
from axla.core.profile import profile
from axla.core.shape import Shape, show
from axla.distributed import initialize
from axla.distributed.launch import LAUNCHER, launch
from axla.ir.graph import Module
from axla.tools.arrays import as_parameter, raw_items, read_array
from axla.tools.plugins import load_files
from axla.tools.source import add_backend, add_constants, add_file, add_replicas, feed, read_module
from axla.tools.trial_options import add_inputs, add_load, add_tolerance, archive_of, tolerance_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla run`."""
    add_file(parser)
    parser.add_argument(
        "--input", metavar="X.npy", action="append", default=[], help="the array of a parameter; repeatable"
    )
    add_inputs(parser)
    parser.add_argument("--output", metavar="Y.npz", help="write the results to a file, do not print them")
    add_constants(parser)
    add_backend(parser, "--backend", "cpu", "cpu (default), one-lane or interpreter")
    add_backend(parser, "--reference", None, "compare with the results of this backend")
    add_tolerance(parser)
    parser.add_argument(
        "--compare-every-instruction", action="store_true",
        help="name the first instruction whose value differs from that of --reference",
    )  # fmt: skip
    parser.add_argument(
        "--repeat", metavar="N", type=int, default=1,
        help="run N times, and print the times of the first, the shortest and the median run",
    )  # fmt: skip
    parser.add_argument(
        "--num-replicas", metavar="N", type=int, help="number of replicas, in place of the module's own"
    )
    add_replicas(parser)
    parser.add_argument(
        "--fill-elided", action="store_true",
        help="replace constants {...} by the numbers that XLA's parser makes up for them",
    )  # fmt: skip
    parser.add_argument(
        "--profile", action="store_true", help="print the time, bytes and operations of each step"
    )
    parser.add_argument("--deadline", metavar="SECONDS", type=float, help="stop the run after this time")
    parser.add_argument(
        "--processes", metavar="N", type=int, default=0, help="run on the devices of N processes, over MPI"
    )
    add_load(parser)


def execute(options: argparse.Namespace) -> int:
    """Runs `axla run`; returns its exit status."""
    _check(options)
    load_files(options.load)
    module = read_module(options)
    if options.num_replicas is not None:
        module.set_config(replica_count=options.num_replicas)
    if options.compare_every_instruction and _on_several_devices(module, options):
        raise InvalidArgument("--compare-every-instruction: wanted a program for one device")
    if options.processes and LAUNCHER not in os.environ:
        return launch(options.processes, ["-P", "-m", "axla", *options.given])
    saved: dict[str, np.ndarray] = {}
    for kind in options.input_kinds:
        inputs = inputs_of(module, kind, options)
        head = f"{kind} inputs: " if len(options.input_kinds) > 1 else ""
        with profile() if options.profile else nullcontext() as taken:
            rows = _rows(module, inputs, kind, options)
        if options.output:
            saved |= {f"{head}{where}{k}": a for where, found in rows.items() for k, a in enumerate(found)}
            np.savez(options.output, **{name: raw_items(a) for name, a in saved.items()})  # type: ignore[arg-type]
        else:
            _print(rows, head)
        if taken is not None:
            print(taken)
        if options.reference is not None:
            _compare(module, rows, inputs, kind, head, options)
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.repeat < 1:
        raise InvalidArgument(f"--repeat={options.repeat}: wanted at least 1")
    if options.compare_every_instruction and options.reference is None:
        raise InvalidArgument("--compare-every-instruction: wanted a --reference to compare with")
    if options.num_replicas is not None and options.num_replicas < 1:
        raise InvalidArgument(f"--num-replicas={options.num_replicas}: wanted at least 1")


def inputs_of(module: Module, kind: str, options: argparse.Namespace) -> list[np.ndarray]:
    """The inputs that the options name, or random ones of a kind."""
    if options.input and options.inputs:
        raise InvalidArgument("--input and --inputs: wanted only one of them")
    if options.input:
        return load_inputs(module, options.input)
    if options.inputs:
        return list(archive_of(options.inputs, module).values())
    return random_inputs(module, options.seed, kind)


def _print(rows: dict[str, list[np.ndarray]], head: str) -> None:
    texts = [
        f"{head}{where}output {number}: {array.dtype}{list(array.shape)}\n"
        + f"{np.array2string(array, threshold=100, separator=', ')}\n"
        for where, found in rows.items()
        for number, array in enumerate(found)
    ]
    print("".join(texts), end="")  # at once: other processes print too


def _compare(
    module: Module, rows: dict[str, list[np.ndarray]], inputs: list[np.ndarray], kind: str, head: str,
    options: argparse.Namespace,
) -> None:  # fmt: skip
    """Raises Mismatch for the first output that differs between the backend and the reference, or, with
    --compare-every-instruction, for the first instruction. `rows` are the backend's results, `head` is the
    beginning of the message.
    """
    tolerance = tolerance_of(options)
    if options.compare_every_instruction:
        from axla.tools.intermediates import first_difference

        found = first_difference(module, inputs, options.backend, options.reference, tolerance, feed)
        if found:
            raise Mismatch(
                f"{head}{module.name}: {options.backend} and {options.reference} differ at {found}"
            )
    wanted = _rows(module, inputs, kind, options, options.reference)
    for where, results in rows.items():
        report = compare(module, results, wanted[where], options.backend, options.reference, tolerance)
        report.raise_if_different()
        print(f"{head}{where}{report}")


def _rows(
    module: Module, inputs: list[Any], kind: str, options: argparse.Namespace, backend: str = ""
) -> dict[str, list[np.ndarray]]:  # fmt: skip
    """Runs a program; returns the results by the name of their device ("" if all devices share one set). If
    several processes run the program, each returns the results of its own devices.
    """
    if not _on_several_devices(module, options):
        if options.repeat > 1 and not backend:
            _measure(module, [inputs], options)
        return {
            "": run_flat(module, inputs, backend or options.backend, options.deadline, options.replicas, feed)
        }
    count = module.config.replica_count * module.config.num_partitions
    first, local = 0, count
    if options.processes and not backend:
        if count % options.processes:
            raise InvalidArgument(
                f"--processes={options.processes}: wanted a divisor of {count} participants"
            )
        job = initialize(count // options.processes)
        first, local = job.index * job.local, job.local
    given = [inputs] * local
    if not options.processes and not options.input and not options.inputs:
        given = [random_inputs(module, options.seed + 1000 * n, kind) for n in range(count)]
    if options.repeat > 1 and not backend and not options.processes:
        _measure(module, given, options)
    program = compile(module, backend=backend or options.backend)
    found = program.execute_replicated(given, deadline=options.deadline)
    return {f"device {n}, ": [*map(np.asarray, row)] for n, row in enumerate(found, first)}


def _on_several_devices(module: Module, options: argparse.Namespace) -> bool:
    """Whether each device has its own inputs and results. Otherwise all devices share one set; that of a
    partitioned program consists of whole arrays.
    """
    if options.processes:
        return True
    config = module.config
    return config.replica_count > 1 and options.replicas != "first" and config.num_partitions == 1


def _measure(module: Module, rows: list[list[Any]], options: argparse.Namespace) -> None:
    """Runs a program `--repeat` times with the inputs of each device (`rows`), and prints the times."""
    program = compile(module, backend=options.backend, replicas=options.replicas)
    seconds: list[float] = []
    for _ in range(options.repeat):
        feed(module)
        start = time.perf_counter()
        if len(rows) == 1:
            for result in program.execute(rows[0], deadline=options.deadline):
                np.asarray(result)
        else:
            program.execute_replicated(rows, deadline=options.deadline)
        seconds.append(time.perf_counter() - start)
    first, least, middle = seconds[0], min(seconds), sorted(seconds)[len(seconds) // 2]
    print(f"{options.repeat} runs: first {_shown(first)}, shortest {_shown(least)}, median {_shown(middle)}")


def _shown(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def load_inputs(module: Module, paths: list[str]) -> list[np.ndarray]:
    """Reads the arrays in the files, in the order of the parameters, and checks that they fit these."""
    leaves = parameter_leaves(module)
    if len(paths) != len(leaves):
        listed = ", ".join(f"{name} {show(shape)}" for name, shape in leaves) or "none"
        raise InvalidArgument(f"{len(paths)} --input, wanted {len(leaves)}: {listed}")
    return [load_input(path, shape, name) for path, (name, shape) in zip(paths, leaves, strict=True)]


def load_input(path: str, shape: Shape, name: str) -> np.ndarray:
    """Reads the array in an .npy file, converted for the parameter leaf `name`."""
    return as_parameter(read_array(path), shape, f"--input {path}", name)
