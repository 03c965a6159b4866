"""axla compile: compiles a program to a C library with no dependencies.

    axla compile f.hlo -o outdir/ --name ns::Model --target cortex-m4f
    axla compile f.hlo --emit-object f.o --target x86-64-v3 --header

-o writes a folder: objects and an archive, headers of C, C++ and Rust, an example, a test, a benchmark, build
files, a report. --emit-object writes the object alone. `axla targets` lists the machines; any other triple of
LLVM's can be used, too.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from axla.aot.options import DEFAULT, FIELDS, Options, flags, words
from axla.core.errors import InvalidArgument
from axla.core.profile import tuning_lines
from axla.core.trace import recording
from axla.tools.source import add_constants, add_file, integers, read_module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla compile`."""
    add_file(parser)
    add_constants(parser)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("-o", "--out", metavar="DIR", help="the folder to write")
    place.add_argument("--emit-object", metavar="FILE.o", help="write only the object file")
    parser.add_argument("--header", action="store_true", help="with --emit-object: write FILE.h, too")
    for flag, about in flags().items():
        parser.add_argument(flag, **about)
    parser.set_defaults(name=None)
    parser.add_argument("--arg-names", metavar="A,B", type=words, help="names of the arguments")
    parser.add_argument("--result-names", metavar="A,B", type=words, help="names of the results")
    parser.add_argument(
        "--rows", metavar="N,M", type=integers,
        help="numbers of rows, with a function for each; `rows` in --arg-types is replaced: f32[rows,4]",
    )  # fmt: skip


def _program(options: argparse.Namespace, given: dict[str, Any]) -> Any:
    if options.constant:
        if options.rows is not None:
            raise InvalidArgument("--constant: wanted a program of one size, found --rows")
        given["arg_types"] = given["dim_args"] = None  # the module has its sizes
        return read_module(options)
    return sys.stdin.buffer.read() if options.file == "-" else Path(options.file)


def _args(options: argparse.Namespace, given: dict[str, Any]) -> dict[int, list] | None:
    """Maps each number of rows in --rows to the types of the arguments, in which it replaces `rows`; None
    without --rows. With --rows, removes the types from `given`.
    """
    types = options.arg_types or ()
    if options.rows is None:
        return None
    if not any(isinstance(t, str) and "rows" in t for t in types):
        raise InvalidArgument("--rows: wanted --arg-types where `rows` stands for the number, as f32[rows,4]")
    given["arg_types"] = None
    return {n: [t.replace("rows", str(n)) if isinstance(t, str) else t for t in types] for n in options.rows}


def execute(options: argparse.Namespace) -> int:
    """Runs `axla compile`; returns its exit status."""
    given = {name: value for name, value in vars(options).items() if name in FIELDS}
    if options.arg_names is not None or options.result_names is not None:
        given["names"] = (options.arg_names, options.result_names)
    args = _args(options, given)
    if options.emit_object is not None:
        return _emit_object(options, args, given)
    if options.header:
        raise InvalidArgument("--header belongs to --emit-object; -o writes headers anyway")
    from axla.aot import compile

    given["name"] = options.name or DEFAULT.name
    program = _program(options, given)
    with recording() as events:
        package = compile(program, args, out=options.out, **given)
    print("\n".join([str(package), *tuning_lines(events)]))
    return 0


def _emit_object(options: argparse.Namespace, args: Any, given: dict[str, Any]) -> int:
    from axla.aot import header, weights
    from axla.aot.compiling import library_of
    from axla.aot.package import objects, write_files

    path = Path(options.emit_object)
    given["name"] = options.name or re.sub(r"[^A-Za-z0-9]+", "_", path.stem).strip("_") or "model"
    program = _program(options, given)
    library, _ = library_of(program, args, Options(**given))
    contents: dict[str, str | bytes] = {
        path.name if file == f"{library.prefix}.o" else file: d for file, d in objects(library).items()
    }
    if library.weights.value == "file":
        contents |= weights.write(library)
    if options.header:
        contents[path.with_suffix(".h").name] = header.text(library)
    for written in write_files(path.parent, contents):
        print(f"{written}: {written.stat().st_size} bytes")
    return 0
