"""The emitted functions of the layouts extension: arrays are row-major.

Without this extension jaxlib extracts the layouts of arguments and results from the optimized module, three
times for each compiled program.
"""

from __future__ import annotations

from axla.codegen.native.assembly import GlueFunction
from axla.codegen.native.structs import ARRAY, SHAPE_INFO
from axla.pjrt.native import EXTENSIONS, Arguments, Body, getter
from axla.pjrt.structs import EXECUTABLE, LAYOUT


def _layout_of(name: str) -> Body:
    def body(f: GlueFunction, args: Arguments) -> None:
        if name == "buffer":
            rank = args[name].get(ARRAY, "info").get(SHAPE_INFO, "rank").cast("i64")
        else:
            rank = args[name]
        args["layout"] = f.glob("pjrt_layouts").item(rank, LAYOUT.size)

    return body


def _serialize(f: GlueFunction, args: Arguments) -> None:
    args["serialized_bytes"] = args["layout"].get(LAYOUT, "text")
    args["serialized_bytes_size"] = args["layout"].get(LAYOUT, "size")
    args["serialized_layout"] = 0
    args["serialized_layout_deleter"] = f.glob("pjrt_deleter").load("ptr")


def _of_executable(f: GlueFunction, args: Arguments) -> None:
    getter(f, args, "executable", EXECUTABLE)


EXTENSIONS |= {
    "Layouts_MemoryLayout_Destroy": lambda f, args: None,
    "Layouts_MemoryLayout_Serialize": _serialize,
    "Layouts_Client_GetDefaultLayout": _layout_of("num_dims"),
    "Layouts_Topology_GetDefaultLayout": _layout_of("num_dims"),
    "Layouts_Buffer_MemoryLayout": _layout_of("buffer"),
    "Layouts_Executable_GetOutputLayouts": _of_executable,
    "Layouts_Executable_GetParameterLayouts": _of_executable,
}
