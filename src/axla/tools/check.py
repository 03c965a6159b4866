"""axla check: runs a program on a backend and on the interpreter with random inputs, and compares.

Exit code 1 names the first output that differs.
"""

from __future__ import annotations

import argparse

from axla.comparison import check
from axla.tools.source import add_backend, add_file, read_module

HELP = "compare a backend with the reference interpreter"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_backend(parser, "--backend", "cpu", "cpu (default), one-lane or interpreter")
    add_backend(parser, "--reference", "interpreter", "what to compare with (interpreter)")
    parser.add_argument("--random", metavar="SEED", type=int, default=0, help="seed of the random inputs (0)")


def execute(options: argparse.Namespace) -> int:
    module = read_module(options.file)
    print(check(module, options.backend, reference=options.reference, seed=options.random))
    return 0
