"""Makes the files that tfcompile writes for a graph."""

from __future__ import annotations

from pathlib import Path

from axla.aot import cpp
from axla.aot.constants_space import emit_with_constants
from axla.aot.exported_functions import SPACE, constants_module
from axla.aot.graphs import message_of
from axla.aot.library import CompiledLibrary
from axla.core.templates import fill
from axla.proto import to_proto
from axla.proto.wire import encode
from axla.proto.writer import module_message
from axla.target.machine import CpuTarget
from axla.tensorflow.reading import Saved, read


def graph(file: Path, debug_info: Path | None = None) -> Saved:
    """The graph in a file. With `debug_info`, a file that has a GraphDebugInfo, errors say where nodes were
    created.
    """
    saved = read(file)
    if debug_info:
        saved.graph["debug_info"] = message_of(debug_info, "GraphDebugInfo")
    return saved


def outputs(library: CompiledLibrary, with_shape: bool = False) -> dict[str, str | bytes]:
    """The contents of files, by the names of the flags with which tfcompile sets their paths. `with_shape`:
    the header declares the contents of the metadata object, an xla.ProgramShapeProto.
    """
    [header] = cpp.write(library).values()
    [function] = library.functions
    shape = encode(module_message(function.module)["host_program_shape"], "ProgramShapeProto")
    if with_shape:
        shown = fill("aot/program_shape.hpp", PREFIX=library.prefix, SIZE=str(len(shape)))
        header = f"{header}\n{shown}\n"
    return {
        "out_function_object": library.image, "out_header": header,
        "out_metadata_object": _holding(shape, f"{library.prefix}_program_shape", library.target),
        "out_constant_buffers_object": library.constants_image,
        "out_session_module": to_proto(function.module, "snapshot"),
    }  # fmt: skip


def _holding(data: bytes, symbol: str, target: CpuTarget) -> bytes:
    """An object file that has the bytes `data`, padded with zeros, at the symbol `symbol`."""
    data = data.ljust(SPACE, b"\0")
    return emit_with_constants(constants_module(symbol, len(data), target.form), target, symbol, data)
