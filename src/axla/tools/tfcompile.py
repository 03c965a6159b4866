"""axla tfcompile: compiles a TensorFlow graph to an object file and a C++ class, with the flags of tfcompile.

    axla tfcompile --graph=g.pb --config=g.pbtxt --cpp_class=ns::G --out_header=g.h --out_function_object=g.o

Files called .pbtxt are text, others binary messages. TensorFlow is not needed. CMake has the function
axla_tf_library: `axla tfcompile --cmake_dir` says where its package is. docs/from-tfcompile.md has more.
"""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path

from axla.aot.options import Options, words
from axla.core.errors import InvalidArgument

_TEXTS = {
    "graph": "the GraphDef",
    "config": "the tf2xla.Config: feeds, fetches, variables",
    "cpp_class": "Class or ns::Class",
    "entry_point": "the prefix of the C functions (the class and its namespaces)",
    "debug_info": "a GraphDebugInfo, for the source lines of nodes in messages",
    "freeze_checkpoint": "a checkpoint; its variables become constants",
    "freeze_saver": "a SaverDef, which says how variables are restored from it",
    "out_function_object": "the object file (out_model.o)",
    "out_header": "the C++ header (out.h)",
    "out_metadata_object": "an object with the function's xla.ProgramShapeProto",
    "out_constant_buffers_object": "an object for large constants, apart from the code",
    "out_session_module": "an xla.HloSnapshot of the program",
    "out_package": "a folder with the library for C, C++ and Rust, a test and a benchmark",
    "target_triple": "x86_64-pc-linux by default",
    "target_cpu": "an LLVM CPU name",
    "target_features": "LLVM features: +avx2,+fma",
    "operations": "operations to run besides the fetches: a,b",
    "mlir_components": "only None is supported",
}
_SWITCHES = {
    "dump_fetch_nodes": "print the nodes of the fetches, with commas between them, and do nothing else",
    "gen_name_to_index": "names of arguments and results are always in the class",
    "gen_program_shape": "declare the contents of --out_metadata_object in the header",
    "cmake_dir": "print the folder of the CMake package, and do nothing else",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command line of `axla tfcompile`."""
    for name, about in _TEXTS.items():
        parser.add_argument(f"--{name}", metavar="VALUE", default="", help=about)
    for name, about in _SWITCHES.items():
        parser.add_argument(
            f"--{name}", metavar="BOOL", nargs="?", const=True, default=False, type=_truth, help=about
        )
    parser.set_defaults(
        out_function_object="out_model.o", out_header="out.h", target_triple="x86_64-pc-linux"
    )


def _truth(text: str) -> bool:
    found = {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"wanted true or false, found {text!r}")
    return found


def execute(options: argparse.Namespace) -> int:
    """Runs `axla tfcompile`; returns its exit status."""
    if options.cmake_dir:
        print(Path(__file__).with_name("cmake"))
        return 0
    for name in ("config", "graph", "cpp_class")[: 1 if options.dump_fetch_nodes else 3]:
        if not getattr(options, name):
            raise InvalidArgument(f"--{name} is missing: {_TEXTS[name]}")
    if options.dump_fetch_nodes:
        from axla.aot.config import read_config

        print(",".join(dict.fromkeys(entry.node for entry in read_config(Path(options.config)).fetches)))
        return 0
    if options.mlir_components not in ("", "None"):
        warnings.warn(
            f"--mlir_components={options.mlir_components} is ignored: axla has no MLIR", stacklevel=1
        )
    _compile(options)
    return 0


def _compile(options: argparse.Namespace) -> None:
    from axla.aot import tfcompile
    from axla.aot.compiling import library_of, write_package
    from axla.aot.package import check_folder, write_files

    chosen = _options(options)
    graph = tfcompile.graph(Path(options.graph), options.debug_info and Path(options.debug_info))
    library, found = library_of(graph, None, chosen)
    wanted = {name: Path(path) for name, path in vars(options).items() if name.startswith("out_") and path}
    folder = wanted.pop("out_package", None)
    for name, contents in tfcompile.outputs(library, options.gen_program_shape).items():
        if name in wanted:
            [path] = write_files(wanted[name].parent, {wanted[name].name: contents})
            print(f"{path}: {path.stat().st_size} bytes")
    if folder is not None:
        print(write_package(check_folder(folder), library, found, chosen))


def _options(options: argparse.Namespace) -> Options:
    """The options for the library. Leading underscores of an entry point are dropped, since C reserves such
    names.
    """
    return Options(
        name=options.cpp_class, symbol=re.sub("_+", "_", options.entry_point).strip("_"),
        config=Path(options.config), target=options.target_triple, target_cpu=options.target_cpu or None,
        target_features=words(options.target_features), operations=words(options.operations),
        weights="separate" if options.out_constant_buffers_object else "object",
        freeze_checkpoint=Path(options.freeze_checkpoint) if options.freeze_checkpoint else None,
        freeze_saver=Path(options.freeze_saver) if options.freeze_saver else None,
    )  # fmt: skip
