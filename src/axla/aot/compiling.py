"""`axla.aot.compile`: compiles a program to a folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from axla.aot import archive, build_files, cpp, header, programs
from axla.aot import config as configs
from axla.aot import report as report_files
from axla.aot import weights as weights_files
from axla.aot.build import Example, build
from axla.aot.frontend import examples
from axla.aot.library import CompiledLibrary, Weights
from axla.aot.machines import machine
from axla.aot.names import check_identifier, parse_name
from axla.aot.options import DEFAULT, NameLists, Options, options_of, takes_options
from axla.aot.package import Package, check_folder, merged, neighbours, objects, stale, write_files
from axla.aot.packed import packed
from axla.aot.recordings import Recording, record
from axla.aot.refusals import refuse
from axla.builder.values import items, text
from axla.core.errors import InvalidArgument
from axla.custom.registry import registered
from axla.ir.verify import verify
from axla.runtime.safetensors import parts_of

WRITERS = (archive, header, cpp, weights_files, build_files, report_files)


@takes_options
def compile(program: Any, args: Any = None, *, out: str | os.PathLike[str], **options: Any) -> Package:  # noqa: A001
    """Compiles a program to a folder `out`. Only a C compiler is needed to use the folder.

    `program` is a JAX function (with `args` like its arguments), a jax.export artifact, a Module, the result
    of a builder, or HLO or StableHLO: its content, or its path. {suffix: program} makes several functions.
    `args` of {rows: args} compiles a function for several sizes.

    Raises InvalidArgument for errors in the call, UnsupportedError with op and source line for what a library
    or the target does not support. Then nothing is written.
    """
    folder = check_folder(out)
    chosen = options_of(options)
    library, found = library_of(program, args, chosen)
    return write_package(folder, library, found, chosen)


def write_package(
    folder: Path, library: CompiledLibrary, found: Sequence[Example], chosen: Options = DEFAULT
) -> Package:
    """Writes the files of a library to a folder; returns the package. The self-test in it has recorded calls
    with the arguments of the examples `found`.
    """
    self_test = chosen.self_test and all(map(registered, library.externals))
    recordings = record(library, tuple(example.inputs for example in found)) if self_test else ()
    contents = written(library, recordings)
    for function, example in zip(library.functions, found, strict=True):
        if example.values:
            contents[f"{function.symbol}_variables.safetensors"] = b"".join(parts_of(example.values))
    report = contents.get(f"{library.prefix}_report.txt", "")
    files = write_files(folder, contents, stale(folder, library.prefix))
    if others := neighbours(folder, library.prefix, list(contents)):
        files_of = f"{folder} has files of other libraries, which stay: {', '.join(others)}"
        warnings.warn(
            f"{files_of}; CMakeLists.txt, build.rs and example.c are now for {chosen.name}", stacklevel=3
        )
    return Package(folder, files, library, report if isinstance(report, str) else report.decode())


def library_of(
    program: Any, args: Any = None, options: Options = DEFAULT
) -> tuple[CompiledLibrary, tuple[Example, ...]]:
    """Compiles a program to a library in memory. Returns the library, and for each of its functions the
    example that it was compiled from.
    """
    target = machine(options.target, options.target_cpu, options.target_features)
    parsed, externals = parse_name(options.name, options.symbol), items(options.externals, "externals")
    called = {check_identifier(text(f, "externals"), "externals") for f in externals}
    target = replace(target, form=replace(target.form, externals=frozenset(called)))
    found = examples(program, args, options)
    found = tuple(_with_options(example, options.names, options.variables) for example in found)
    found = tuple(map(packed, found)) if options.pack_int4 else found
    for example in found:
        verify(example.source.module)
        refuse(example.source.module, target.form.externals)
    sources = [example.source for example in found]
    weights = Weights(options.weights)
    library = build(parsed, sources, target, weights=weights, allow_libgcc=options.allow_libgcc)
    return library, found


def _with_options(example: Example, names: NameLists, variables: Sequence[str]) -> Example:
    source = example.source
    if names is not None:
        if isinstance(names, str | Mapping) or len(names) != 2:
            raise InvalidArgument(f"names: wanted (names of arguments, names of results), found {names!r}")
        source = configs.renamed(source, names)
    return replace(example, source=configs.with_variables(source, variables))


def written(library: CompiledLibrary, recordings: Sequence[Recording] = ()) -> dict[str, str | bytes]:
    """All files of a library: {name: contents}. `recordings` are for the self-test, one per function."""
    parts = [writer.write(library) for writer in WRITERS]
    return merged(objects(library), *parts, programs.write(library, recordings))
