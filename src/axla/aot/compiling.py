"""`axla.aot.compile`: from a program to a folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from axla.aot import archive, build_files, cpp, header, programs
from axla.aot import config as configs
from axla.aot import report as report_files
from axla.aot import weights as weights_files
from axla.aot.build import build
from axla.aot.frontend import UNSIZED, Example, Sizes, examples
from axla.aot.library import Library, Weights
from axla.aot.machines import machine
from axla.aot.names import check_identifier, parse_name
from axla.aot.package import Package, check_folder, merged, neighbours, objects, stale, write_files
from axla.aot.packed import packed
from axla.aot.recordings import Recording, record
from axla.aot.refusals import refuse
from axla.builder.values import items, text
from axla.core.errors import InvalidArgument, did_you_mean
from axla.custom.registry import registered
from axla.ir.verify import verify
from axla.target.machine import CpuTarget

Names = tuple[Sequence[str] | None, Sequence[str] | None] | None

WRITERS = (archive, header, cpp, weights_files, build_files, report_files)


def compile(  # noqa: A001
    program: Any, args: Any = None, *, out: str | os.PathLike[str], target: str = "x86-64",
    name: str = "model", target_cpu: str | None = None, target_features: Sequence[str] = (),
    config: str | os.PathLike[str] | None = None,
    names: Names = None,
    variables: Sequence[str] = (), weights: str = "object", allow_libgcc: bool = False,
    externals: Sequence[str] = (), self_test: bool = True, pack_int4: bool = False,
    arg_types: Sequence[Any] | None = None, dim_args: Sequence[int] | None = None,
) -> Package:  # fmt: skip
    """Compiles a program to a folder `out` that a compiler of C takes: nothing else is needed to run it.

    `program` is a JAX function (with `args` like its arguments), a jax.export artifact, a Module, what a
    builder gives, or HLO or StableHLO: its content, or its path. {suffix: program} makes several functions.
    `args` of {rows: args} compiles a function for several sizes.

    `target` is an alias (`axla targets` lists them), an LLVM triple, or `native`. `name` is `Name` or
    `ns::Name`. `config` (tfcompile's, text or path) chooses, names and orders inputs and outputs; `names` are
    names for (arguments, results) alone. `variables` are arguments kept between calls. `weights` says where
    large constants go: "object", "separate", or "file". `externals` are targets of custom calls that the
    library calls as functions of that name, `void f(void *out, void **in)`, which its user links. `self_test`
    records a call for the generated test (not of externals that are not registered here). `pack_int4` makes
    arguments and results of s4 and u4 arrays u8[(n + 1) / 2], two elements a byte, the first in the low bits.

    Raises InvalidArgument for what is wrong with the call, UnsupportedError with op and source line for what
    a library or the target cannot have. Nothing is written then.
    """
    folder = check_folder(out)
    library, found = library_of(
        program, args, target=machine(target, target_cpu, target_features), name=name, config=config,
        names=names, variables=variables, weights=weights, allow_libgcc=allow_libgcc,
        externals=externals, sizes=Sizes(arg_types, dim_args), pack_int4=pack_int4,
    )  # fmt: skip
    self_test = self_test and all(map(registered, library.externals))
    recordings = record(library, tuple(example.inputs for example in found)) if self_test else ()
    contents = written(library, recordings)
    report = contents.get(f"{library.prefix}_report.txt", "")
    files = write_files(folder, contents, stale(folder, library.prefix))
    if others := neighbours(folder, library.prefix, list(contents)):
        files_of = f"{folder} has files of other libraries, which stay: {', '.join(others)}"
        warnings.warn(f"{files_of}; CMakeLists.txt, build.rs and example.c are of {name}", stacklevel=2)
    return Package(folder, files, library, report if isinstance(report, str) else report.decode())


def library_of(
    program: Any, args: Any = None, *, target: CpuTarget, name: str = "model",
    config: str | os.PathLike[str] | None = None,
    names: Names = None,
    variables: Sequence[str] = (), weights: str = "object", allow_libgcc: bool = False,
    externals: Sequence[str] = (), sizes: Sizes = UNSIZED, pack_int4: bool = False,
) -> tuple[Library, tuple[Example, ...]]:  # fmt: skip
    """The library in memory, and the example that each function was made of."""
    parsed = parse_name(name)
    called = {check_identifier(text(f, "externals"), "externals") for f in items(externals, "externals")}
    target = replace(target, form=replace(target.form, externals=frozenset(called)))
    places = [place.value for place in Weights]
    if weights not in places:
        raise InvalidArgument(
            f"weights={weights!r}; there are {', '.join(places)}{did_you_mean(weights, places)}"
        )
    if config is not None and (names is not None or variables):
        raise InvalidArgument("config: it has the names and variables; `names` and `variables` go without it")
    found = examples(program, args, sizes)
    if config is not None:
        wanted = configs.read_config(config)
        for example in found:
            verify(example.source.module)
        found = tuple(configs.configured(example, wanted) for example in found)
    found = tuple(_with_options(example, names, variables) for example in found)
    found = tuple(map(packed, found)) if pack_int4 else found
    for example in found:
        verify(example.source.module)
        refuse(example.source.module, target.form.externals)
    sources = [example.source for example in found]
    library = build(parsed, sources, target, weights=Weights(weights), allow_libgcc=allow_libgcc)
    return library, found


def _with_options(example: Example, names: Names, variables: Sequence[str]) -> Example:
    source = example.source
    if names is not None:
        if isinstance(names, str | Mapping) or len(names) != 2:
            raise InvalidArgument(f"names: wanted (names of arguments, names of results), found {names!r}")
        source = configs.renamed(source, names)
    return replace(example, source=configs.with_variables(source, variables))


def written(library: Library, recordings: Sequence[Recording] = ()) -> dict[str, str | bytes]:
    """All files of a library: {name: contents}."""
    parts = [writer.write(library) for writer in WRITERS]
    return merged(objects(library), *parts, programs.write(library, recordings))
