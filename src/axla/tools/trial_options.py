"""Options of the verbs that try programs: what to run, with which inputs, and what counts as equal."""

from __future__ import annotations

import argparse
import shlex

import numpy as np

from axla.comparison import KINDS, Tolerance, parameter_leaves
from axla.core.errors import InvalidArgument, choices
from axla.ir.graph import Module
from axla.tools.arrays import as_parameter, read_archive
from axla.tools.source import add_backend
from axla.tools.trial import Question, Trials

TRIED = "ordinary,special"


def add_inputs(parser: argparse.ArgumentParser, kinds: str = "ordinary") -> None:
    """Adds the options for the values of parameters."""
    parser.add_argument(
        "--seed", "--random", dest="seed", metavar="N", type=int, default=0, help="seed of random inputs (0)"
    )
    parser.add_argument(
        "--input-kinds", metavar="KIND,...", type=_kinds, default=_kinds(kinds),
        help=f"kinds of random inputs, with a run for each ({kinds}): {', '.join(KINDS)}",
    )  # fmt: skip
    parser.add_argument("--inputs", metavar="X.npz", help="arrays, by the names or numbers of parameters")


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Adds the options that decide whether two results are equal."""
    parser.add_argument("--rtol", metavar="X", type=float, help="relative tolerance (by element type)")
    parser.add_argument("--atol", metavar="X", type=float, help="absolute tolerance (by element type)")
    parser.add_argument("--signed-zeros", action="store_true", help="-0.0 and 0.0 differ")
    parser.add_argument("--bitwise", action="store_true", help="bits must be equal; all NaNs are equal")


def add_trial(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the question of a trial."""
    add_backend(parser, "--backend", "cpu", "the backend to test: cpu (default), one-lane...")
    add_backend(parser, "--reference", "interpreter", "the backend with the right results (interpreter)")
    add_inputs(parser, TRIED)
    add_tolerance(parser)
    parser.add_argument("--threads", metavar="N", type=int, help="threads of parallel loops")
    parser.add_argument(
        "--repeat", metavar="N", type=int, default=1, help="number of runs, which must give equal bits (1)"
    )
    parser.add_argument(
        "--limit", metavar="SECONDS", type=float, default=60.0, help="time limit of a run (60)"
    )
    add_load(parser)


def add_load(parser: argparse.ArgumentParser) -> None:
    """Adds the option `--load`."""
    parser.add_argument(
        "--load", metavar="FILE.py", action="append", default=[], help="Python file with passes and rules"
    )


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{kind!r} is not a kind of inputs; {choices(KINDS, kind)}")
    return kinds


def tolerance_of(options: argparse.Namespace) -> Tolerance:
    """The tolerance in the options; with `--bitwise` it is 0, and the sign of zero counts."""
    bits = options.bitwise
    rtol, atol = (0.0 if bits and t is None else t for t in (options.rtol, options.atol))
    return Tolerance(rtol, atol, options.signed_zeros or bits)


def question_of(options: argparse.Namespace, module: Module) -> Question:
    """The question that the options describe."""
    given = tuple(archive_of(options.inputs, module).items()) if options.inputs else ()
    return Question(
        backend=options.backend, reference=options.reference, seed=options.seed,
        kinds=("ordinary",) if given else options.input_kinds, inputs=given,
        tolerance=tolerance_of(options), threads=options.threads, repeat=options.repeat,
        deadline=max(1.0, options.limit / 2),
    )  # fmt: skip


def trials_of(options: argparse.Namespace) -> Trials:
    """The child process that runs programs, with the limits in the options."""
    return Trials(options.limit, load=options.load)


def run_line(options: argparse.Namespace) -> str:
    """A command line that repeats the run which the options describe."""
    words = ["axla", "check" if options.reference == "interpreter" else "run", "%s"]
    if options.reference not in (None, "interpreter"):  # `axla check` compares with the interpreter by itself
        words += [f"--reference={options.reference}"]
    words += [f"--backend={options.backend}"] if options.backend != "cpu" else []
    words += [f"--seed={options.seed}"] if options.seed else []
    words += [f"--input-kinds={','.join(options.input_kinds)}"]
    for name in ("rtol", "atol", "threads", "inputs"):
        value = getattr(options, name)
        words += [f"--{name}={value}"] if value is not None else []
    words += [f"--{name}" for name in ("signed-zeros", "bitwise") if getattr(options, name.replace("-", "_"))]
    words += [f"--load={path}" for path in options.load]
    return shlex.join(words)


def archive_of(path: str, module: Module) -> dict[str, np.ndarray]:
    """Reads the arrays of an .npz file, by the names of parameter leaves. Raises InvalidArgument if they do
    not fit.
    """
    arrays = read_archive(path)
    leaves = parameter_leaves(module)
    names = [name for name, _ in leaves]
    numbers = {str(number): name for number, name in enumerate(names)} | {
        f"arr_{number}": name for number, name in enumerate(names)
    }
    found: dict[str, np.ndarray] = {}
    for key, array in arrays.items():
        name = key if key in names else numbers.get(key, "")
        if not name:
            raise InvalidArgument(f"--inputs {path}: {key!r} is not a parameter; {choices(names, key)}")
        found[name] = as_parameter(array, dict(leaves)[name], f"--inputs {path}: {key}", name)
    missing = [name for name in names if name not in found]
    if missing:
        raise InvalidArgument(f"--inputs {path}: no array for {', '.join(missing)}")
    return {name: found[name] for name in names}
