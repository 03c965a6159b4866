"""axla compile: compiles a program to a C library with no dependencies.

    axla compile f.hlo -o outdir/ --name ns::Model --target cortex-m4f
    axla compile f.hlo --emit-object f.o --target x86-64-v3 --header

-o writes a folder: objects and an archive, headers of C, C++ and Rust, an example, a test, a benchmark, build
files, a report. --emit-object writes the object alone. `axla targets` lists the machines.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from axla.core.errors import InvalidArgument
from axla.tools.source import add_file, integers, sizes_of

HELP = "compile a program to a C library"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("-o", "--out", metavar="DIR", help="the folder to write")
    place.add_argument("--emit-object", metavar="FILE.o", help="write the object file alone")
    parser.add_argument("--header", action="store_true", help="with --emit-object: FILE.h, too")
    parser.add_argument("--name", help="Name or ns::Name: of the C++ class, and of files and symbols (model)")
    parser.add_argument(
        "--target", default="x86-64", metavar="ALIAS", help="an alias, a triple, or native (x86-64)"
    )
    parser.add_argument("--target-cpu", metavar="CPU", help="a CPU of LLVM's")
    parser.add_argument(
        "--target-features", metavar="+A,-B", type=_words, default=(), help="features of LLVM's"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="tfcompile's: feeds, fetches, variables, in text format"
    )
    parser.add_argument("--arg-names", metavar="A,B", type=_words, help="names of the arguments")
    parser.add_argument("--result-names", metavar="A,B", type=_words, help="names of the results")
    parser.add_argument(
        "--variables", metavar="A,B", type=_words, default=(), help="arguments that are kept between calls"
    )
    parser.add_argument(
        "--weights", choices=["object", "separate", "file"], default="object",
        help="where large constants are: in the object, in one of their own, in a file to load",
    )  # fmt: skip
    parser.add_argument(
        "--allow-libgcc", action="store_true", help="f64 on cores without it (by generated code; slow)"
    )
    parser.add_argument(
        "--externals", metavar="F,G", type=_words, default=(), help="custom calls that are functions you link"
    )
    parser.add_argument("--pack-int4", action="store_true", help="s4 and u4 arrays have two elements a byte")
    parser.add_argument(
        "--rows", metavar="N,M", type=integers,
        help="a function for each number of rows, which `rows` stands for in --arg-types: f32[rows,4]",
    )  # fmt: skip
    parser.add_argument("--no-self-test", action="store_true", help="record no call for the generated test")


def _program(options: argparse.Namespace) -> bytes | Path:
    return sys.stdin.buffer.read() if options.file == "-" else Path(options.file)


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _args(options: argparse.Namespace) -> dict[int, list] | None:
    """The types of the arguments for each number of rows."""
    types = options.arg_types or ()
    if options.rows is None:
        return None
    if not any(isinstance(t, str) and "rows" in t for t in types):
        raise InvalidArgument("--rows: wanted --arg-types where `rows` stands for the number, as f32[rows,4]")
    options.arg_types = None
    return {n: [t.replace("rows", str(n)) if isinstance(t, str) else t for t in types] for n in options.rows}


def execute(options: argparse.Namespace) -> int:
    names = None
    if options.arg_names is not None or options.result_names is not None:
        names = (options.arg_names, options.result_names)
    common = {
        "config": Path(options.config) if options.config is not None else None, "names": names,
        "variables": options.variables, "weights": options.weights, "allow_libgcc": options.allow_libgcc,
        "externals": options.externals, "pack_int4": options.pack_int4, "args": _args(options),
    }  # fmt: skip
    if options.emit_object is not None:
        return _emit_object(options, common)
    if options.header:
        raise InvalidArgument("--header belongs to --emit-object; -o writes headers anyway")
    from axla.aot import compile

    package = compile(
        _program(options), out=options.out, name=options.name or "model", target=options.target,
        target_cpu=options.target_cpu, target_features=options.target_features,
        self_test=not options.no_self_test, **sizes_of(options), **common,
    )  # fmt: skip
    print(package)
    return 0


def _emit_object(options: argparse.Namespace, common: dict) -> int:
    from axla.aot import header, weights
    from axla.aot.compiling import library_of
    from axla.aot.frontend import Sizes
    from axla.aot.machines import machine
    from axla.aot.package import objects, write_files

    path = Path(options.emit_object)
    name = options.name or re.sub(r"[^A-Za-z0-9]+", "_", path.stem).strip("_") or "model"
    target = machine(options.target, options.target_cpu, options.target_features)
    library, _ = library_of(
        _program(options), target=target, name=name, sizes=Sizes(**sizes_of(options)), **common
    )
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
