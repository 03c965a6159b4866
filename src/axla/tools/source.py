"""What verbs share: the program they read, and the target they generate code for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from axla.api import BACKENDS, parse
from axla.core.errors import InvalidArgument
from axla.ir.graph import Module

if TYPE_CHECKING:
    from axla.codegen.target import CpuTarget


def add_file(parser: argparse.ArgumentParser, **options: object) -> None:
    parser.add_argument("file", metavar="FILE", help="HLO or StableHLO; `-` is standard input", **options)  # type: ignore[arg-type]


def add_backend(parser: argparse.ArgumentParser, name: str, default: str | None, text: str) -> None:
    parser.add_argument(name, metavar="BACKEND", choices=BACKENDS, default=default, help=text)


def read_module(file: str) -> Module:
    """The verified module of a file."""
    from axla.ir.verify import verify

    module = parse(sys.stdin.buffer.read() if file == "-" else Path(file))
    verify(module)
    return module


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target-cpu", metavar="CPU", help="x86-64, x86-64-v2, -v3, -v4 or aarch64; otherwise this machine's"
    )


def target_of(name: str | None) -> CpuTarget:
    """The target of a --target-cpu."""
    from axla.codegen.target import X86_LEVELS, cpu_target, host_target

    if name is None:
        return host_target()
    if name not in (*X86_LEVELS, "aarch64"):
        raise InvalidArgument(f"--target-cpu={name}: wanted one of {', '.join(X86_LEVELS)}, aarch64")
    return cpu_target(name)
